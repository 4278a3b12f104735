"""What the page says of each clip, as plain facts: its timeline, decisive moments and mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from objectstates.data.clips import TrackletLabel
from objectstates.data.corpus import UNKNOWN, Array
from objectstates.data.result import Result
from objectstates.evaluation import ClipScore, evaluate

KINDS = {
    "object": "not the object",
    "state": "wrong state",
    "ambiguous": "ambiguous",
    "action": "action off",
}
"""The kinds of mistakes, and what the page calls them."""


@dataclass(frozen=True)
class TrackletFacts:
    """A bar of the timeline.

    index : within the clip. ``lane`` 0 is that of the labelled tracklets, which never overlap.
    score : of the state that was given; None where none was.
    truth : a `TrackletLabel`, or None where it is not known.
    boxes : (B, 5) time, x1, y1, x2, y2.
    """

    index: int
    start: float
    end: float
    time: float
    state: int
    lane: int
    score: float | None
    truth: int | None
    boxes: Array


@dataclass(frozen=True)
class Moment:
    """A time worth a picture.

    role : "state 1", "action", "state 2"; "before", "after" where no states were sought; or "key",
        a frame among others.
    tracklet : index of the one that the moment shows.
    """

    time: float
    role: str
    tracklet: int | None = None


@dataclass(frozen=True)
class Mistake:
    """Where the truth says otherwise. ``kind`` is one of `KINDS`."""

    kind: str
    time: float
    text: str


@dataclass(frozen=True)
class ClipFacts:
    """A row of the page. Times are seconds of the video.

    chunks : (T, 3) start, end, score; scores are NaN where no action was sought.
    action : start, end and time of the action; None where it was not sought.
    true_action : stretches in which it truly happens; None where that is not known.
    off : seconds from the action to the true one; None where not known, infinite where there is
        none at all.
    disagreement : 0 (all right) to 1 (all wrong); None where there is no truth.
    """

    number: int
    name: str
    start: float
    end: float
    confidence: float
    chunks: Array
    action: tuple[float, float, float] | None
    true_action: tuple[tuple[float, float], ...] | None
    tracklets: tuple[TrackletFacts, ...]
    moments: tuple[Moment, ...]
    mistakes: tuple[Mistake, ...]
    off: float | None
    disagreement: float | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its mistakes, each once, in the order of `KINDS`."""
        found = {mistake.kind for mistake in self.mistakes}
        return tuple(kind for kind in KINDS if kind in found)


def gather(result: Result, *, key_frames: int = 0) -> list[ClipFacts]:
    """The facts of all clips of a result, with so many further moments spread over each clip."""
    scores = evaluate(result, result.corpus).rows
    confidence = result.confidence
    return [
        _clip(result, n, float(confidence[n]), scores[n], key_frames) for n in range(len(scores))
    ]


def interpolate(boxes: Array, time: float) -> Array:
    """(4,) the box at a time, from boxes (B, 5); before the first and after the last it rests."""
    return np.array([np.interp(time, boxes[:, 0], boxes[:, side]) for side in range(1, 5)])


def _clip(
    result: Result, n: int, confidence: float, score: ClipScore, key_frames: int
) -> ClipFacts:
    corpus = result.corpus
    table, rows = corpus.chunks, list(corpus.chunk_rows(n))
    chunks = np.stack([table.start[rows], table.end[rows], result.action_scores[rows]], axis=1)
    tracklets = _tracklets(result, n)
    span = corpus.spans[n] or (np.inf, -np.inf)
    start = min([span[0], chunks[:, 0].min(), *(x.start for x in tracklets)])
    end = max([span[1], chunks[:, 1].max(), *(x.end for x in tracklets)])
    chosen = int(result.action_chunk[n])
    action = None
    if chosen >= 0:
        first, last = map(float, result.action_span[n])
        action = first, last, float(table.time[rows[chosen]])
    true_action = _true_stretches(table.start[rows], table.end[rows], table.label[rows])
    off = _off(action, true_action)
    moments = _decisive(tracklets, action, start, end)
    return ClipFacts(
        number=n,
        name=result.clips[n],
        start=float(start),
        end=float(end),
        confidence=confidence,
        chunks=chunks,
        action=action,
        true_action=true_action,
        tracklets=tracklets,
        moments=_with_key_frames(moments, key_frames, float(start), float(end)),
        mistakes=_mistakes(tracklets, action, off),
        off=off,
        disagreement=_disagreement(score),
    )


# --- tracklets ------------------------------------------------------------------------------------


def _tracklets(result: Result, n: int) -> tuple[TrackletFacts, ...]:
    table, rows = result.corpus.tracklets, list(result.corpus.tracklet_rows(n))
    lanes = _lanes(table.start[rows], table.end[rows], result.state[rows])
    found = []
    for index, (row, lane) in enumerate(zip(rows, lanes, strict=True)):
        state = int(result.state[row])
        score = float(result.state_scores[row, state - 1]) if state else np.nan
        boxes = table.boxes[table.box_offsets[row] : table.box_offsets[row + 1]]
        found.append(
            TrackletFacts(
                index=index,
                start=float(table.start[row]),
                end=float(table.end[row]),
                time=float(table.time[row]),
                state=state,
                lane=lane,
                score=score if np.isfinite(score) else None,
                truth=None if table.label[row] == UNKNOWN else int(table.label[row]),
                boxes=boxes[np.argsort(boxes[:, 0], kind="stable")],
            )
        )
    return tuple(found)


def _lanes(start: Array, end: Array, state: Array) -> list[int]:
    """A lane for each tracklet: 0 for the labelled, for the others the first that is free."""
    labelled = bool((state > 0).any())
    free: list[float] = []  # when each further lane is free again
    lanes = []
    for i in range(len(start)):
        if state[i] > 0:
            lanes.append(0)
            continue
        lane = next((k for k, until in enumerate(free) if until <= start[i] + 1e-9), len(free))
        if lane == len(free):
            free.append(0.0)
        free[lane] = end[i]
        lanes.append(lane + labelled)
    return lanes


# --- moments --------------------------------------------------------------------------------------


def _decisive(
    tracklets: Sequence[TrackletFacts],
    action: tuple[float, float, float] | None,
    start: float,
    end: float,
) -> list[Moment]:
    """The surest tracklet of either state, and the action between them."""
    moments = []
    for state in (1, 2):
        mine = [x for x in tracklets if x.state == state]
        if mine:
            best = max(mine, key=lambda x: (-np.inf if x.score is None else x.score, -x.start))
            moments.append(Moment(best.time, f"state {state}", best.index))
    if action is not None:
        moments.append(Moment(action[2], "action"))
        if len(moments) == 1:
            moments.append(Moment((start + action[0]) / 2, "before"))
            moments.append(Moment((action[1] + end) / 2, "after"))
    order = {"before": 0, "state 1": 0, "action": 1, "state 2": 2, "after": 2}
    return sorted(moments, key=lambda moment: order[moment.role])


def _with_key_frames(
    moments: list[Moment], count: int, start: float, end: float
) -> tuple[Moment, ...]:
    times = start + (end - start) * (np.arange(count) + 0.5) / max(count, 1)
    return (*moments, *(Moment(float(time), "key") for time in times))


# --- truth ----------------------------------------------------------------------------------------


def _true_stretches(
    start: Array, end: Array, label: Array
) -> tuple[tuple[float, float], ...] | None:
    """Chunks that truly show the action, joined where they follow one another."""
    if (label == UNKNOWN).all():
        return None
    stretches: list[tuple[float, float]] = []
    for i in np.flatnonzero(label == 1):
        if i > 0 and label[i - 1] == 1 and stretches:
            stretches[-1] = stretches[-1][0], float(end[i])
        else:
            stretches.append((float(start[i]), float(end[i])))
    return tuple(stretches)


def _off(
    action: tuple[float, float, float] | None, truth: tuple[tuple[float, float], ...] | None
) -> float | None:
    """Seconds between the action's time and the nearest true stretch; 0 inside one."""
    if action is None or truth is None:
        return None
    time = action[2]
    return min((max(a - time, time - b, 0.0) for a, b in truth), default=float("inf"))


def _mistakes(
    tracklets: Sequence[TrackletFacts],
    action: tuple[float, float, float] | None,
    off: float | None,
) -> tuple[Mistake, ...]:
    found = []
    for x in tracklets:
        if x.state == 0 or x.truth is None or x.truth == x.state:
            continue
        said = f"state {x.state} at {x.time:.1f} s"
        match x.truth:
            case TrackletLabel.FALSE_POSITIVE:
                found.append(Mistake("object", x.time, f"{said} is not the object"))
            case TrackletLabel.AMBIGUOUS:
                found.append(Mistake("ambiguous", x.time, f"{said} is ambiguous"))
            case truth:
                found.append(Mistake("state", x.time, f"{said} is truly state {truth}"))
    if action is not None and off is not None and off > 0:
        text = f"action off by {off:.1f} s" if np.isfinite(off) else "no true action to find"
        found.append(Mistake("action", action[2], text))
    return tuple(sorted(found, key=lambda mistake: mistake.time))


def _disagreement(score: ClipScore) -> float | None:
    """Weighted as the confidence is: the action counts as much as both states together."""
    parts = [(score.action, 2.0), (score.precision_1, 1.0), (score.precision_2, 1.0)]
    known = [(value, weight) for value, weight in parts if not np.isnan(value)]
    if not known:
        return None
    return 1 - sum(v * w for v, w in known) / sum(w for _, w in known)


# --- JSON -----------------------------------------------------------------------------------------


def as_json(clip: ClipFacts, *, boxes_per_tracklet: int) -> dict[str, Any]:
    """What the page's script needs of a clip, in few characters."""
    return {
        "name": clip.name,
        "start": _round(clip.start),
        "end": _round(clip.end),
        "confidence": _round(clip.confidence, 4),
        "disagreement": None if clip.disagreement is None else _round(clip.disagreement, 4),
        "off": None if clip.off is None or not np.isfinite(clip.off) else _round(clip.off),
        "kinds": list(clip.kinds),
        "scores": []
        if not np.isfinite(clip.chunks[:, 2]).all()
        else [[_round((a + b) / 2), _round(score, 4)] for a, b, score in clip.chunks],
        "action": None if clip.action is None else [_round(x) for x in clip.action],
        "truth": None
        if clip.true_action is None
        else [[_round(a), _round(b)] for a, b in clip.true_action],
        "tracklets": [_tracklet_json(x, boxes_per_tracklet) for x in clip.tracklets],
    }


def _tracklet_json(x: TrackletFacts, most_boxes: int) -> list[Any]:
    """Start, end, state, lane, score, truth, boxes; of the boxes some, as they move little."""
    count = min(len(x.boxes), most_boxes)
    rows = np.unique(np.linspace(0, len(x.boxes) - 1, count).round().astype(np.int64))
    boxes = [[_round(row[0]), *(int(side) for side in np.round(row[1:]))] for row in x.boxes[rows]]
    score = None if x.score is None else _round(x.score)
    return [_round(x.start), _round(x.end), x.state, x.lane, score, x.truth, boxes]


def _round(value: float, digits: int = 2) -> float:
    return round(float(value), digits) + 0.0  # no negative zero
