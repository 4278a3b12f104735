"""The authors' metadata: one ``.mat`` per action, with clips, frames, boxes and annotations.

It holds what ``features_<action>.mat`` lacks: the names of the clips, which are those of their
folders of images; the frames and boxes of every tracklet; and which tracklets are false positives
and which are ambiguous. Rows are in the order of the features.

Frames are numbered as the images are, ``%06d.jpg``. Times are frame numbers over the frame rate of
the clip's video, so they need not start at 0. The rate itself is not in the file: it is computed
from frames and times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.errors import CorpusError
from objectstates.data.clips import TrackletLabel
from objectstates.data.corpus import Array
from objectstates.data.corpus_tables import offsets_of
from objectstates.data.formats.mat_file import read_mat, require

REQUIRED = (
    "clipids_state", "clips", "state_GT", "vids_state", "FRAMES_state", "BOXES_state", "T_state",
    "vids_action", "T_action", "FRAMES_action", "action_GT",
)  # fmt: skip
STRUCT = "meta_data"
"""Name of a struct that may hold the variables as fields."""

_RATES_ALIKE = 0.05  # relative; times may be rounded
AMBIGUOUS = 3  # in ``state_GT``; 0, 1 and 2 have the same meaning here and there


@dataclass(frozen=True, eq=False)
class Metadata:
    """Annotations of one action: N clips, M tracklets and T chunks, clips one after another.

    clips : names of the clips, such as ``put_wheel_0012``.
    rates : (N,) frames per second of each clip's video.
    tracklet_offsets, chunk_offsets : (N + 1,) the first row of each clip.
    tracklet_time, chunk_time : (M,), (T,) seconds, mean over the frames.
    tracklet_label : (M,) a `TrackletLabel`. chunk_label : (T,) 1 for the action, else 0.
    tracklet_frames, chunk_frames : numbers of the images of each, increasing.
    boxes : per tracklet (n, 4) ``x1, y1, x2, y2`` in pixels, one per frame.
    """

    path: Path
    clips: tuple[str, ...]
    rates: Array
    tracklet_offsets: Array
    tracklet_time: Array
    tracklet_label: Array
    tracklet_frames: tuple[Array, ...]
    boxes: tuple[Array, ...]
    chunk_offsets: Array
    chunk_time: Array
    chunk_label: Array
    chunk_frames: tuple[Array, ...]

    def tracklet_rows(self, n: int) -> range:
        """The tracklets of clip n."""
        return range(int(self.tracklet_offsets[n]), int(self.tracklet_offsets[n + 1]))

    def chunk_rows(self, n: int) -> range:
        """The chunks of clip n."""
        return range(int(self.chunk_offsets[n]), int(self.chunk_offsets[n + 1]))


def read_metadata(path: str | Path) -> Metadata:
    """Read the metadata of an action; `CorpusError` says what is missing or contradictory."""
    path = Path(path)
    variables = read_mat(path, [*REQUIRED, STRUCT])
    fields = variables.pop(STRUCT, None)
    variables |= fields if isinstance(fields, dict) else {}
    require(path, variables, REQUIRED, "the metadata of an action of the release")
    try:
        return _metadata(path, variables)
    except CorpusError as problem:
        raise CorpusError(f"{path}: {problem}") from None


def _metadata(path: Path, variables: dict[str, Any]) -> Metadata:
    clips = _names(variables["clipids_state"])
    tracklet_offsets = offsets_of(_per_clip(variables, clips))
    count = int(tracklet_offsets[-1])
    time, label, owner = (
        _numbers(variables, name, count) for name in ("T_state", "state_GT", "vids_state")
    )
    numbers = _clip_numbers(clips)
    _check_owner("vids_state", owner, np.repeat(numbers, np.diff(tracklet_offsets)), clips)
    chunk_owner = _numbers(variables, "vids_action", None)
    chunk_offsets = offsets_of([int((chunk_owner == number).sum()) for number in numbers])
    expected = np.repeat(numbers, np.diff(chunk_offsets))
    _check_owner("vids_action", chunk_owner, expected, clips)
    chunk_count = len(chunk_owner)
    chunk_time = _numbers(variables, "T_action", chunk_count)
    frames = _frames(variables, "FRAMES_state", count)
    chunk_frames = _frames(variables, "FRAMES_action", chunk_count)
    if not np.isin(label, (0, 1, 2, AMBIGUOUS)).all():
        raise CorpusError("state_GT must be 0 (false positive), 1, 2 or 3 (ambiguous)")
    action = _numbers(variables, "action_GT", chunk_count)
    if not np.isin(action, (0, 1)).all():
        raise CorpusError("action_GT must be 0 or 1")
    return Metadata(
        path,
        clips,
        _rates(clips, (tracklet_offsets, time, frames), (chunk_offsets, chunk_time, chunk_frames)),
        tracklet_offsets,
        time,
        np.where(label == AMBIGUOUS, TrackletLabel.AMBIGUOUS, label).astype(np.int8),
        frames,
        _boxes(variables, frames),
        chunk_offsets,
        chunk_time,
        action.astype(np.int8),
        chunk_frames,
    )


Rows = tuple[Array, Array, tuple[Array, ...]]
"""First row of each clip, times, frames."""


def _rates(clips: tuple[str, ...], tracklets: Rows, chunks: Rows) -> Array:
    """(N,) frames per second: the time of a tracklet is the mean of its frames over the rate.

    Chunks serve for clips without tracklets.
    """
    rates = np.empty(len(clips))
    for n, clip in enumerate(clips):
        found = _rates_of(n, tracklets) or _rates_of(n, chunks)
        if not found:
            raise CorpusError(f"clip {clip!r} has no time above 0, so its frame rate is not known")
        rates[n] = np.median(found)
        if not (np.abs(np.array(found) / rates[n] - 1) < _RATES_ALIKE).all():
            raise CorpusError(f"clip {clip!r}: times and frames disagree about the frame rate")
    return rates.round(6)


def _rates_of(n: int, rows: Rows) -> list[float]:
    offsets, time, frames = rows
    means = [(float(frames[row].mean()), time[row]) for row in range(offsets[n], offsets[n + 1])]
    return [mean / seconds for mean, seconds in means if seconds > 0 and mean > 0]


# --- variables --------------------------------------------------------------------------------


def _names(cells: Any) -> tuple[str, ...]:
    """The strings of a cell; MATLAB 7.3 has them as codes of characters."""
    names = []
    for cell in cells if isinstance(cells, list) else [cells]:
        value = np.asarray(cell).ravel()
        is_text = value.dtype.kind in "US"
        names.append("".join(map(str, value)) if is_text else "".join(chr(int(c)) for c in value))
    if not names or not all(names) or len(set(names)) < len(names):
        raise CorpusError("clipids_state must be a cell of different names of clips")
    return tuple(names)


def _clip_numbers(clips: tuple[str, ...]) -> Array:
    """The number at the end of each name, by which other variables refer to the clip."""
    found = [re.search(r"(\d+)$", clip) for clip in clips]
    if not all(found):
        unnumbered = next(clip for clip, match in zip(clips, found, strict=True) if not match)
        raise CorpusError(f"clipids_state: {unnumbered!r} does not end in a number")
    return np.array([int(match[1]) for match in found if match])


def _per_clip(variables: dict[str, Any], clips: tuple[str, ...]) -> Array:
    counts = _numbers(variables, "clips", len(clips))
    if (counts < 0).any() or (counts != counts.round()).any():
        raise CorpusError("clips must hold integers >= 0, the tracklets of each clip")
    return counts.astype(np.int64)


def _check_owner(name: str, owner: Array, expected: Array, clips: tuple[str, ...]) -> None:
    if len(owner) != len(expected) or (owner != expected).any():
        raise CorpusError(
            f"{name} does not follow the {len(clips)} clips of clipids_state, in their order"
        )


def _numbers(variables: dict[str, Any], name: str, count: int | None) -> Array:
    value = variables[name]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
        raise CorpusError(f"{name} must be numbers")
    numbers = value.ravel().astype(np.float64)
    if not np.isfinite(numbers).all():
        raise CorpusError(f"{name} has values that are not finite")
    if count is not None and len(numbers) != count:
        raise CorpusError(f"{name} has {len(numbers)} entries, not {count}")
    return numbers


def _frames(variables: dict[str, Any], name: str, count: int) -> tuple[Array, ...]:
    """The frame numbers of each row of a cell, increasing."""
    frames = []
    for row, cell in enumerate(_cell_of(variables, name, count)):
        numbers = _numbers({name: np.asarray(cell)}, name, None)
        whole = len(numbers) and (numbers >= 0).all() and (numbers == numbers.round()).all()
        if not whole or not all(a < b for a, b in pairwise(numbers)):
            raise CorpusError(f"{name}, entry {row + 1}: these are no increasing frame numbers")
        frames.append(numbers.astype(np.int64))
    return tuple(frames)


def _boxes(variables: dict[str, Any], frames: tuple[Array, ...]) -> tuple[Array, ...]:
    """(n, 4) ``x1, y1, x2, y2`` of each tracklet; the file has ``x1, x2, y1, y2``."""
    found = []
    for row, cell in enumerate(_cell_of(variables, "BOXES_state", len(frames))):
        boxes = np.asarray(cell)
        if boxes.dtype.kind not in "fiub" or boxes.shape != (len(frames[row]), 4):
            raise CorpusError(
                f"BOXES_state, entry {row + 1}: there must be four numbers for each of "
                f"{len(frames[row])} frames"
            )
        boxes = boxes.astype(np.float64)[:, [0, 2, 1, 3]]
        if not np.isfinite(boxes).all() or (boxes[:, :2] > boxes[:, 2:]).any():
            raise CorpusError(f"BOXES_state, entry {row + 1}: boxes must be x1, x2, y1, y2")
        found.append(boxes)
    return tuple(found)


def _cell_of(variables: dict[str, Any], name: str, count: int) -> list[Any]:
    cells = variables[name]
    if not isinstance(cells, list) or len(cells) != count:
        raise CorpusError(f"{name} must be a cell of {count} entries")
    return cells
