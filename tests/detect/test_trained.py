from __future__ import annotations

import pytest

from objectstates.base.errors import DetectorError
from objectstates.detect.detections import DetectorOptions
from objectstates.detect.fewshot import FewShotDetector
from objectstates.detect.fewshot_training import Recipe, train
from objectstates.detect.trained import load_trained
from tests.detect.pictures import labelled_folder


def test_a_few_shot_detector_is_known_by_its_content(tmp_path):
    labels = labelled_folder(tmp_path / "set", 5, seed=0)
    train(labels, recipe=Recipe(images=6, folds=2, rounds=1)).save(tmp_path / "any.name")
    found = load_trained(tmp_path / "any.name", DetectorOptions(threshold=0.7))
    assert isinstance(found, FewShotDetector)
    assert found.threshold == 0.7


def test_what_is_neither_is_said(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"something else")
    with pytest.raises(DetectorError, match=r"a\.npz is not a few-shot detector"):
        load_trained(tmp_path / "a.npz")
    with pytest.raises(DetectorError, match="does not exist"):
        load_trained(tmp_path / "no.npz")
