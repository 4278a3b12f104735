"""Files of ground truth.

`read_truth` reads

* a folder with ``<clip>.json`` for every ``<clip>.mp4``: ``action_interval_s``, ``fps`` and per
  frame ``object.box`` and ``part.box`` (null where it is not visible), optionally ``progress``,
  how far the change is;
* ``annotations.json``, or the folder that holds it: a list of videos (``file``), each with
  ``action_interval_s`` and ``object_box_before``, ``object_box_after`` at ``frame_before``,
  ``frame_after``;
* a CSV file ``clip,action_start,action_end``, in seconds of the video.

In a chain of changes, JSON has a list ``actions`` in place of ``action_interval_s``, each with
``step`` (1, 2, ...) and ``interval_s``, null if the step is left out; and the CSV file has a
column ``action`` (1, 2, ...): a step without a row is left out.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from objectstates.base.errors import TruthError
from objectstates.data.clips import MAX_STATES
from objectstates.data.corpus import Array
from objectstates.data.truth import ClipTruth, Seconds

CSV_COLUMNS = ("clip", "action_start", "action_end")
_MOMENT_SECONDS = 0.5  # over which the speed of a change is measured


def read_truth(path: str | Path) -> dict[str, ClipTruth]:
    r"""Ground truth by clip id; the formats are listed at the head of this module.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "truth.csv"
    ...     lines = ["clip,action_start,action_end", "drawer_01,2.0,3.5"]
    ...     _ = path.write_text("\n".join(lines))
    ...     read_truth(path)["drawer_01"].actions
    ((2.0, 3.5),)
    """
    path = Path(path)
    if not path.exists():
        raise TruthError(f"{path} does not exist")
    if path.is_dir() and (path / "annotations.json").is_file():
        path = path / "annotations.json"
    if path.is_dir():
        found = _read_folder(path)
    elif path.suffix.lower() == ".csv":
        found = _read_csv(path)
    elif path.suffix.lower() == ".json":
        found = _read_annotations(path)
    else:
        raise TruthError(
            f"{path} is neither a folder with <clip>.json files, nor annotations.json, nor a CSV "
            f"file {','.join(CSV_COLUMNS)}"
        )
    if not found:
        raise TruthError(f"{path} has ground truth of no clip")
    return found


def shown_box(truth: Mapping[str, Any], frame: int) -> tuple[float, float, float, float] | None:
    """The union of the boxes of object and part in a frame of a clip's JSON; None if not visible.

    The moving part may lie outside the object's box (a lid that is put on a box); then only the
    union shows the state.
    """
    boxes = [truth[thing]["box"][frame] for thing in ("object", "part") if thing in truth]
    corners = [[float(x) for x in box] for box in boxes if box is not None]
    if not corners:
        return None
    x1, y1, x2, y2 = zip(*corners, strict=True)
    return min(x1), min(y1), max(x2), max(y2)


def _read_folder(folder: Path) -> dict[str, ClipTruth]:
    found = {}
    for path in sorted(folder.glob("*.json")):
        facts = _read_json(path)
        if not isinstance(facts, dict) or not {"action_interval_s", "actions"} & facts.keys():
            if path.with_suffix(".mp4").exists():
                raise TruthError(f"{path} lacks action_interval_s, the interval of the action")
            continue  # not an annotation file
        try:
            boxes = [shown_box(facts, frame) for frame in range(_annotated_frames(facts))]
            actions, progress = _actions(facts), np.array(facts.get("progress", []), np.float64)
            found[path.stem] = ClipTruth(
                path.stem,
                actions,
                np.arange(len(boxes)) / float(facts["fps"]),
                np.array([box or (np.nan,) * 4 for box in boxes], np.float64).reshape(-1, 4),
                tuple(_fastest(progress, float(facts["fps"]), action) for action in actions),
            )
        except (LookupError, TypeError, ValueError, ArithmeticError) as problem:
            raise TruthError(f"{path} is malformed: {_why(problem)}") from problem
    return found


def _annotated_frames(facts: Mapping[str, Any]) -> int:
    """The number of frames with boxes; 0 if neither object nor part has any."""
    count = int(facts["n_frames"])
    return count if {"object", "part"} & facts.keys() else 0


def _read_annotations(path: Path) -> dict[str, ClipTruth]:
    videos = _read_json(path)
    if not isinstance(videos, list):
        raise TruthError(f"{path} must hold a list, with one entry per video")
    found = {}
    for position, video in enumerate(videos):
        try:
            name = str(PurePath(video["file"]).with_suffix("").as_posix())
            seen = [
                (video[f"frame_{when}"] / video["fps"], video[f"object_box_{when}"])
                for when in ("before", "after")
                if video[f"object_box_{when}"] is not None
            ]
            found[name] = ClipTruth(
                name,
                _actions(video),
                np.array([time for time, _ in seen], np.float64),
                np.array([box for _, box in seen], np.float64).reshape(-1, 4),
            )
        except (LookupError, TypeError, ValueError, ArithmeticError) as problem:
            raise TruthError(
                f"{path}, entry {position + 1}, is malformed: {_why(problem)}"
            ) from problem
    return found


def _read_csv(path: Path) -> dict[str, ClipTruth]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise TruthError(f"{path} cannot be read: {problem}") from problem
    found: dict[str, dict[int, Seconds]] = {}
    for line, row in enumerate(rows, start=2):
        if not {*CSV_COLUMNS} <= row.keys():
            raise TruthError(f"{path}: the header must be {','.join(CSV_COLUMNS)}")
        clip = (row["clip"] or "").strip()
        try:
            number = _step(row["action"]) if "action" in row else 1
            if not clip or number in found.get(clip, {}):
                raise ValueError(f"the clip {clip!r} is missing or a duplicate")
            action = _seconds(row["action_start"]), _seconds(row["action_end"])
            found.setdefault(clip, {})[number] = action
            _timed(clip, {1: action}, 1)  # so that an empty interval is reported with its line
        except ValueError as problem:
            raise TruthError(f"{path}, line {line}: {problem}") from None
    n_actions = max((number for steps in found.values() for number in steps), default=1)
    try:
        return {clip: _timed(clip, steps, n_actions) for clip, steps in found.items()}
    except TruthError as problem:
        raise TruthError(f"{path}: {problem}") from None


def _timed(clip: str, steps: Mapping[int, Seconds], n_actions: int) -> ClipTruth:
    """Ground truth without boxes; steps that are not given are left out."""
    actions = tuple(steps.get(number) for number in range(1, n_actions + 1))
    return ClipTruth(clip, actions, np.empty(0), np.empty((0, 4)))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise TruthError(f"{path} cannot be read as JSON: {problem}") from problem


def _seconds(cell: str | None) -> float:
    try:
        return float(cell or "")
    except ValueError:
        raise ValueError(f"{cell!r} is not a number of seconds") from None


def _step(cell: str | None) -> int:
    """The number of an action in a chain."""
    number = int(cell) if cell is not None and cell.strip().isdecimal() else 0
    if not 1 <= number < MAX_STATES:
        raise ValueError(f"the action {cell!r} is no number from 1 to {MAX_STATES - 1}")
    return number


def _actions(facts: Mapping[str, Any]) -> tuple[Seconds | None, ...]:
    """The intervals of the actions of a clip, in order."""
    if "actions" not in facts:
        return (_interval(facts["action_interval_s"]),)
    rows = facts["actions"]
    if any("occurrence" in row for row in rows):
        raise ValueError("it is a long video, in which the chain may happen several times")
    if [row["step"] for row in rows] != list(range(1, len(rows) + 1)):
        raise ValueError("the steps of its actions are not 1, 2 and so on")
    intervals = [row["interval_s"] for row in rows]
    return tuple(None if each is None else _interval(each) for each in intervals)


def _fastest(progress: Array, fps: float, action: Seconds | None) -> float | None:
    """When ``progress`` (frames,) rises most within the action, over half a second; in seconds."""
    if action is None or not len(progress):
        return None
    half = max(1, round(_MOMENT_SECONDS * fps / 2))
    first, last = (round(time * fps) for time in action)
    frames = np.arange(max(first, half), min(last + 1, len(progress) - half))
    if not len(frames):
        return None
    return float(frames[(progress[frames + half] - progress[frames - half]).argmax()] / fps)


def _interval(value: Any) -> Seconds:
    start, end = value
    return float(start), float(end)


def _why(problem: Exception) -> str:
    return f"{problem} is missing" if isinstance(problem, KeyError) else str(problem)
