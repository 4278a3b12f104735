"""The model of progress on disk."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from objectstates.data.progress import ProgressModel

MODEL = ProgressModel(np.arange(6.0).reshape(2, 3), 0.5, 0.1, 0.9, 4.0, 1.0, 0.02, 0.5)


def test_a_model_survives_the_disk(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "model.npz")
    again = ProgressModel.load(tmp_path / "model.npz")
    assert again is not None
    np.testing.assert_array_equal(again.weights, MODEL.weights)
    assert {**asdict(again), "weights": 0} == {**asdict(MODEL), "weights": 0}


def test_a_model_of_an_earlier_version_is_left_out(tmp_path: Path) -> None:
    """The result that it belongs to can still be read."""
    values = asdict(MODEL)
    del values["since"], values["action"]
    np.savez(tmp_path / "model.npz", **values, after=1.0)
    assert ProgressModel.load(tmp_path / "model.npz") is None


@pytest.mark.parametrize("weights", [np.zeros(3), np.full((2, 3), np.nan), np.zeros((3, 2))])
def test_a_damaged_model_is_refused(tmp_path: Path, weights: np.ndarray) -> None:
    np.savez(tmp_path / "model.npz", **{**asdict(MODEL), "weights": weights})
    with pytest.raises(ValueError, match="damaged"):
        ProgressModel.load(tmp_path / "model.npz")
