"""ChangeIt's annotations: ``<category>/<video>.fps1.csv``, a line ``second,label`` per second."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from objectstates.base.errors import TruthError
from objectstates.data.truth import VideoSeconds

SUFFIX = ".fps1.csv"


def read_changeit(folder: str | Path) -> list[VideoSeconds]:
    """Read all annotated videos, in order of category and name.

    folder : the one with a folder for each category, or one that holds it as ``annotations``.
    """
    folder = Path(folder)
    if (folder / "annotations").is_dir():
        folder = folder / "annotations"
    files = sorted(folder.glob(f"*/*{SUFFIX}"))
    if not files:
        raise TruthError(f"{folder} has no <category>/<video>{SUFFIX}: is it ChangeIt's folder?")
    return [
        VideoSeconds(path.parent.name, path.name.removesuffix(SUFFIX), _labels(path))
        for path in files
    ]


def _labels(path: Path) -> np.ndarray:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
        seconds, labels = zip(*((int(second), int(label)) for second, label in rows), strict=True)
    except (OSError, ValueError, csv.Error) as problem:
        raise TruthError(f"{path} is not a list of second,label: {problem}") from problem
    if seconds != tuple(range(len(rows))) or not {*labels} <= {0, 1, 2, 3}:
        raise TruthError(f"{path} must label the seconds 0, 1, 2, ... with 0, 1, 2 or 3")
    return np.array(labels, np.int8)
