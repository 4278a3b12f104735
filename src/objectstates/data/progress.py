"""The model of progress that a fit learns, for clips that were not in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from objectstates.base.npz_file import read_npz
from objectstates.data.corpus_tables import Array


@dataclass(frozen=True, eq=False)
class ProgressModel:
    """A ridge regression of progress, and what is usual in the clips it was learned on.

    weights : (2, d) of the appearance of a chunk, and of how it differs from the clip's beginning.
    bias : of the sum.
    low, high : what it says of usual clips before and after their action; progress 0 and 1.
    length, since : seconds; of the usual clip, and from the moment that looks least like its
        beginning to its end.
    change : share of the picture that usually changes for good at the action.
    action : the highest of the action's scores less the median of the clip.
    """

    weights: Array
    bias: float
    low: float
    high: float
    length: float
    since: float
    change: float
    action: float

    def save(self, path: Path) -> None:
        """Write an npz file without pickle."""
        np.savez(path, **asdict(self))

    @classmethod
    def load(cls, path: Path) -> ProgressModel | None:
        """Raise ValueError or KeyError unless the file is what :meth:`save` wrote.

        None for a model of an earlier version, which compared clips by other measures.
        """
        arrays = read_npz(path)
        if "after" in arrays and "since" not in arrays:
            return None
        values = {field.name: arrays[field.name] for field in fields(cls)}
        weights = values.pop("weights")
        numbers = {name: float(value) for name, value in values.items()}
        finite = np.isfinite(weights).all() and np.isfinite(list(numbers.values())).all()
        if weights.ndim != 2 or len(weights) != 2 or not finite:
            raise ValueError("the model of progress is damaged")
        return cls(weights, **numbers)
