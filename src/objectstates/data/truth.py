"""Ground truth of clips, for evaluation only: the intervals of actions and the object's boxes.

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

`label_corpus` converts it to labels of tracklets and chunks. All times are those of the whole
video, as in a corpus: clips cut from one video share its ground truth. ``info["truth"]`` of the
labelled corpus tells how many clips have ground truth, and how many of them with boxes.
"""

from __future__ import annotations

import csv
import io
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from objectstates.base.errors import TruthError
from objectstates.base.geometry import MATCH_IOU, paired_iou
from objectstates.data.clips import MAX_STATES, TrackletLabel
from objectstates.data.corpus import UNKNOWN, Array, Corpus

CSV_COLUMNS = ("clip", "action_start", "action_end")
_TOLERANCE = 1e-6  # seconds; absorbs the rounding of frame times
_MOMENT_SECONDS = 0.5  # over which the speed of a change is measured

Seconds = tuple[float, float]
"""Start and end of an interval."""


class UnknownClipWarning(UserWarning):
    """Some clips of a corpus have no ground truth; they stay unlabelled."""


@dataclass(frozen=True, eq=False)
class ClipTruth:
    """Ground truth of one clip, or of the video it comes from.

    clip : its id, or the last parts of the video's path without suffix, e.g. ``open_drawer/00``.
    actions : start and end of each action in seconds of the video, in order; None for a step of a
        chain that the clip lacks. The state after it is then missing too, and the other states
        keep their numbers.
    times : (k,) seconds of the annotated boxes; may be empty.
    boxes : (k, 4) ``x1, y1, x2, y2`` in pixels of the video; NaN where the object is not visible.
    moments : when each change is fastest, in seconds, None where that is not known; may be empty.

    >>> clip = ClipTruth("a", ((1.0, 2.0), None, (4.0, 6.0)), np.empty(0), np.empty((0, 4)))
    >>> clip.phase(np.array([0.5, 1.5, 3.0, 5.0, 7.0])).tolist()
    [0, 1, 2, 5, 6]
    >>> clip.change_times.tolist()
    [1.5, nan, 5.0]
    """

    clip: str
    actions: tuple[Seconds | None, ...]
    times: Array
    boxes: Array
    moments: tuple[float | None, ...] = ()

    def __post_init__(self) -> None:
        last = -np.inf
        for start, end in filter(None, self.actions):
            if not -np.inf < start < end < np.inf:
                raise TruthError(
                    f"clip {self.clip!r}: the action from {start:g} to {end:g} s is empty"
                )
            if start < last - _TOLERANCE:
                raise TruthError(
                    f"clip {self.clip!r}: the action from {start:g} to {end:g} s begins before the "
                    "one before it ends"
                )
            last = end
        if not any(self.actions):
            raise TruthError(f"clip {self.clip!r} has no action: it needs one at least")
        if len(self.moments) not in (0, len(self.actions)):
            raise TruthError(f"clip {self.clip!r}: `moments` must have one entry per action")
        if self.boxes.shape != (len(self.times), 4) or not np.isfinite(self.times).all():
            raise TruthError(f"clip {self.clip!r}: every box needs four numbers and a finite time")

    @classmethod
    def single(cls, clip: str, action: Seconds, times: Array, boxes: Array) -> ClipTruth:
        """Of a clip with one action."""
        return cls(clip, (action,), times, boxes)

    @property
    def action(self) -> Seconds:
        """Start and end of the single action, in seconds of the video."""
        if len(self.actions) != 1 or self.actions[0] is None:
            raise TruthError(f"clip {self.clip!r} has a chain of actions: use `actions`")
        return self.actions[0]

    @property
    def change_times(self) -> Array:
        """(A,) seconds: when each change is fastest, else the middle; NaN for a step left out."""
        middles = [np.nan if each is None else (each[0] + each[1]) / 2 for each in self.actions]
        known = self.moments or (None,) * len(middles)
        return np.array([m if t is None else t for m, t in zip(middles, known, strict=True)])

    def phase(self, times: Array) -> Array:
        """(n,) 0 before the first action, 1 during it, 2 after it, 3 during the second and so on.

        2 k - 1 during action k, and 2 k after it, whether or not other steps are left out.
        """
        phase = np.zeros(len(times), np.int8)
        for k, action in enumerate(self.actions, start=1):
            if action is not None:
                phase[times >= action[0] - _TOLERANCE] = 2 * k - 1
                phase[times >= action[1] - _TOLERANCE] = 2 * k
        return phase

    def boxes_at(self, times: Array) -> Array:
        """(n, 4) boxes of the object at ``times`` (n,): the nearest annotation of the same phase.

        If the object moves only during the action, one box before and one after it suffice. A
        phase without annotations takes the nearest of another phase.
        """
        apart = np.abs(times[:, None] - self.times[None]).astype(np.float64)
        other = self.phase(times)[:, None] != self.phase(self.times)[None]
        apart[other] += apart.max(initial=0.0) + 1.0
        return np.asarray(self.boxes[apart.argmin(axis=1)])


@dataclass(frozen=True, eq=False)
class VideoSeconds:
    """Ground truth of a video per second, as in ChangeIt.

    category : the manipulation.
    labels : (S,) of seconds ``[s, s + 1)``: 0 background, 1 state 1, 2 action, 3 state 2.
    """

    category: str
    video: str
    labels: Array


# --- labels of a corpus -----------------------------------------------------------------------


def label_corpus(corpus: Corpus, truth: Mapping[str, ClipTruth]) -> Corpus:
    """The same corpus, labelled by ``truth``.

    A tracklet is a false positive unless the mean IoU of its boxes with the object's reaches
    `MATCH_IOU` (the paper's annotators judged whole tracklets; the mean tolerates short drift).
    Otherwise it is state 1 if it ends before the action, state 2 if it starts after it, and
    ambiguous if it overlaps it; in a chain, the state is that between two actions. Without boxes,
    false positives are not identified: tracklets are labelled by time alone, so precision is an
    upper bound. Chunks are labelled by their time, with the number of the action. To
    distinguish a step of a chain that was left out from a short one, an action between the times
    of two chunks labels the one nearest to its middle.

    Ground truth is looked up by clip id, then by the longest matching end of the video's path.
    Clips without any stay unlabelled, with a warning; it is an error if none has any.

    Examples
    --------
    >>> from objectstates.data.synthetic import synthetic_corpus
    >>> corpus = synthetic_corpus(n_clips=2)
    >>> no_boxes = np.empty(0), np.empty((0, 4))
    >>> truth = {clip: ClipTruth(clip, ((6.0, 9.0),), *no_boxes) for clip in corpus.clip_ids}
    >>> labels = label_corpus(corpus, truth).tracklets.label
    >>> set(labels[corpus.tracklets.end <= 6.0].tolist())
    {1}
    """
    found = [truth_of(corpus, n, truth) for n in range(len(corpus))]
    if len({len(known.actions) for known in found if known is not None}) > 1:
        raise TruthError("the clips have different numbers of actions: all need the same chain")
    lacking = [corpus.clip_ids[n] for n, known in enumerate(found) if known is None]
    if lacking:
        what = f"no ground truth for {len(lacking)} of {len(corpus)} clips: {_some(lacking)}"
        if len(lacking) == len(corpus):
            raise TruthError(f"{what}; there is some for {_some(list(truth))}")
        warnings.warn(f"{what}; they stay unlabelled", UnknownClipWarning, stacklevel=2)
    state = np.full(len(corpus.tracklets.start), UNKNOWN, np.int8)
    action = np.full(len(corpus.chunks.start), UNKNOWN, np.int8)
    for n, known in enumerate(found):
        if known is not None:
            state[list(corpus.tracklet_rows(n))] = _tracklet_labels(corpus, n, known)
            action[list(corpus.chunk_rows(n))] = _chunk_labels(corpus, n, known)
    return replace(
        corpus,
        tracklets=replace(corpus.tracklets, label=state),
        chunks=replace(corpus.chunks, label=action),
        info={**corpus.info, "truth": asdict(count_truth(found))},
    )


@dataclass(frozen=True)
class TruthCount:
    """How many clips have ground truth, and how many of them have boxes of the object."""

    clips: int
    with_boxes: int

    @property
    def by_time(self) -> bool:
        """Whether tracklets of some clips are judged by time alone."""
        return self.with_boxes < self.clips

    @property
    def note(self) -> str:
        """What this means for the precision of states; empty if all clips have boxes."""
        if not self.by_time:
            return ""
        lacking = self.clips - self.with_boxes
        whose = f"{lacking} of {self.clips} annotated clips" if self.with_boxes else "the clips"
        return (
            f"the annotations of {whose} have no boxes, so states are judged by time alone, an "
            "upper bound of their precision"
        )


def count_truth(found: Iterable[ClipTruth | None]) -> TruthCount:
    """Count the ground truth of clips; None for clips without any."""
    known = [truth for truth in found if truth is not None]
    return TruthCount(len(known), sum(len(truth.times) > 0 for truth in known))


def truth_count(corpus: Corpus) -> TruthCount:
    """What `label_corpus` recorded; nothing is missing in a corpus that was labelled otherwise."""
    facts = corpus.info.get("truth")
    try:
        return TruthCount(int(facts["clips"]), int(facts["with_boxes"]))  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return TruthCount(0, 0)


def truth_of(corpus: Corpus, n: int, truth: Mapping[str, ClipTruth]) -> ClipTruth | None:
    """That of clip n, by its id or else by its video; None if there is none."""
    if corpus.clip_ids[n] in truth:
        return truth[corpus.clip_ids[n]]
    video = corpus.videos[n]
    if video is None:
        return None
    parts = PurePath(os.path.abspath(video)).with_suffix("").parts
    tails = ("/".join(parts[-length:]) for length in range(len(parts), 0, -1))
    return next((truth[tail] for tail in tails if tail in truth), None)


def _tracklet_labels(corpus: Corpus, n: int, truth: ClipTruth) -> Array:
    """(M_n,) labels of a clip's tracklets."""
    table, rows = corpus.tracklets, corpus.tracklet_rows(n)
    start, end = table.start[rows.start : rows.stop], table.end[rows.start : rows.stop]
    first, last = truth.phase(start), truth.phase(np.maximum(start, end - 2 * _TOLERANCE))
    in_a_state = (first == last) & (first % 2 == 0)
    label = np.where(in_a_state, first // 2 + 1, TrackletLabel.AMBIGUOUS).astype(np.int8)
    if not len(truth.times) or not len(rows):
        return label
    edges = table.box_offsets[rows.start : rows.stop + 1]
    if (np.diff(edges) == 0).any():
        raise TruthError(
            f"clip {corpus.clip_ids[n]!r} has tracklets without boxes, which cannot be compared "
            "with the object's: make the corpus with ingest, or give ground truth without boxes"
        )
    boxes = table.boxes[edges[0] : edges[-1]]
    overlap = paired_iou(boxes[:, 1:], truth.boxes_at(boxes[:, 0]))
    means = np.array([part.mean() for part in np.split(overlap, edges[1:-1] - edges[0])])
    label[means < MATCH_IOU] = TrackletLabel.FALSE_POSITIVE
    return label


def _chunk_labels(corpus: Corpus, n: int, truth: ClipTruth) -> Array:
    """(T_n,) number of the action that each chunk of a clip shows, 0 for none."""
    table, rows = corpus.chunks, list(corpus.chunk_rows(n))
    times, phase = table.time[rows], truth.phase(table.time[rows])
    label = np.where(phase % 2 == 1, (phase + 1) // 2, 0)
    if len(truth.actions) == 1 or not rows:
        return label
    for k, action in enumerate(truth.actions, start=1):
        if action is not None and not (label == k).any():
            nearest = int(np.abs(times - np.mean(action)).argmin())
            row = rows[nearest]
            if label[nearest] == 0 and table.start[row] < action[1] and table.end[row] > action[0]:
                label[nearest] = k
    return label


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


# --- files ------------------------------------------------------------------------------------


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
