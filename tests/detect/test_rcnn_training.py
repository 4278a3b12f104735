"""Training of a Faster R-CNN: a trial on a few small pictures, on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from objectstates.base.errors import LabelError, SettingError
from objectstates.detect.detections import DetectorOptions
from objectstates.detect.labels import read_labels
from objectstates.detect.metrics import evaluate
from objectstates.detect.rcnn import RcnnDetector
from objectstates.detect.rcnn_training import RcnnRecipe, train, transformed
from objectstates.detect.trained import load_trained
from tests.detect import torchvision_here
from tests.detect.pictures import labelled_folder

SMALL = RcnnRecipe(steps=3, batch=2, side=96)


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    return read_labels(labelled_folder(tmp_path_factory.mktemp("set"), 6, seed=0))


def test_boxes_move_with_the_image():
    boxes = np.array([[10, 20, 30, 40], [90, 50, 100, 60]], np.float32)
    mirrored = transformed(boxes, np.array([[-1.0, 0, 100], [0, 1, 0]]), (80, 100))
    np.testing.assert_allclose(mirrored, [[70, 20, 90, 40], [0, 50, 10, 60]])
    shifted = transformed(boxes, np.array([[1.0, 0, 8], [0, 1, 0]]), (80, 100))
    np.testing.assert_allclose(shifted, [[18, 20, 38, 40]])  # a fifth of the other one is left
    assert transformed(boxes[:0], np.eye(3)[:2], (80, 100)).shape == (0, 4)


def test_senseless_recipes_are_refused():
    with pytest.raises(SettingError, match="`steps` must be 1 or more"):
        RcnnRecipe(steps=0)
    with pytest.raises(SettingError, match="`batch` must be"):
        RcnnRecipe(batch=0)


def test_too_few_boxes_are_refused(labels):
    few = type(labels)(labels.path, labels.object, labels.images[:2])
    with pytest.raises(LabelError, match="label at least 4"):
        train(few, weights="random", recipe=SMALL)


@torchvision_here.needed
def test_the_same_seed_trains_the_same_network(labels, tmp_path):
    said = []
    models = [
        train(
            labels,
            backbone="mobilenet",
            weights="random",
            seed=seed,
            recipe=SMALL,
            progress=lambda *step: said.append(step),
        )
        for seed in (0, 0, 1)
    ]
    one, again, other = (m.network.state_dict()["rpn.head.cls_logits.weight"] for m in models)
    assert (one == again).all()
    assert not (one == other).all()
    assert [step[:2] for step in said[:3]] == [(1, 3), (2, 3), (3, 3)]
    assert all(np.isfinite(loss) for _, _, loss in said)
    models[0].save(tmp_path / "m.pt")
    detector = load_trained(tmp_path / "m.pt")
    assert detector.object == labels.object
    assert 0 <= evaluate(detector, labels).recall <= 1


@torchvision_here.needed
def test_fine_tuning_keeps_the_statistics_it_began_with(labels, tmp_path):
    first = train(labels, backbone="mobilenet", weights="random", recipe=SMALL)
    first.save(tmp_path / "first.pt")
    second = train(labels, backbone="mobilenet", weights=str(tmp_path / "first.pt"), recipe=SMALL)
    before, after = first.network.state_dict(), second.network.state_dict()
    mean, weight = "backbone.body.0.1.running_mean", "roi_heads.box_head.fc6.weight"
    assert (before[mean] == after[mean]).all()
    assert not (before[weight] == after[weight]).all()


@torchvision_here.needed
def test_it_learns_what_it_was_shown(labels):
    """On a GPU in seconds; without one a minute."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    recipe = RcnnRecipe(steps=150, batch=4, side=128, rate=5e-4)
    model = train(labels, backbone="mobilenet", weights="random", device=device, recipe=recipe)
    found = evaluate(RcnnDetector(model, DetectorOptions(device=device, threshold=0.2)), labels)
    assert found.average_precision > 0.3
