"""Corrections as hard constraints: which labels they forbid, and which clips they leave out.

In every clip the rows of `data.corrections` bound the time of the action: it lies within each
``action``, after each interval of state 1 and before each of state 2. Chunks outside these bounds
are not allowed. Tracklets before them cannot have state 2, those after them not state 1. These are
forbidden labels, which the solver's oracle has anyway, so a corrected problem has the same
certificate. What forbidden labels cannot express is respected when the final labels are chosen
(``labelling.py``): the moment of the action is within its bounds, and a state that was seen in an
interval has a tracklet there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from objectstates.base.errors import CorrectionError
from objectstates.data.clips import ChangeProfile
from objectstates.data.corpus import Array, Corpus
from objectstates.data.corrections import LEAVES_OUT, Correction, by_clip, check_clips
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result, SkippedClip
from objectstates.discovery.action_moment import peak_bin

MOSTLY = 0.5  # of a tracklet's length: it then lies within an interval
REQUIRED = 100.0  # score of a tracklet that must be labelled: more than all penalties together
_REASONS = {
    "exclude": "excluded by a correction",
    "no_change": "nothing happens in it, by a correction",
}


@dataclass(frozen=True)
class ClipBounds:
    """What is known of one clip, in seconds of the video.

    action : the earliest and the latest time that the action may have.
    seen : state, start and end of intervals in which the object was seen in that state.
    span : start and end of the action itself, if a row has both.
    """

    action: tuple[float, float]
    seen: tuple[tuple[int, float, float], ...] = ()
    span: tuple[float, float] | None = None


Bounds = Mapping[str, ClipBounds]
"""By clip id; clips without corrections have none."""


@dataclass(frozen=True, eq=False)
class Applied:
    """A corpus with corrections.

    corpus : the clips that take part, with the labels that the corrections leave.
    rows : the corrections themselves.
    left_out : the clips that take no part.
    """

    corpus: Corpus
    rows: tuple[Correction, ...] = ()
    left_out: tuple[SkippedClip, ...] = ()
    bounds: Bounds = field(default_factory=dict)

    @property
    def places(self) -> dict[str, str]:
        """Where the corrections of each clip are, for messages."""
        return {clip: places(rows) for clip, rows in by_clip(self.rows).items()}


def apply_corrections(
    corpus: Corpus, corrections: Iterable[Correction], names: LabelNames | None = None
) -> Applied:
    """Forbid the labels that corrections exclude; contradictions raise `CorrectionError`.

    names : of the states, which a correction may use in place of their numbers.
    """
    rows = tuple(corrections)
    if not rows:
        return Applied(corpus)
    check_clips(rows, corpus.clip_ids)
    of_clip = by_clip(rows)
    left_out = tuple(
        SkippedClip(clip, reason)
        for clip in corpus.clip_ids
        if (reason := _left_out(of_clip.get(clip, ()))) is not None
    )
    if len(left_out) == len(corpus):
        raise CorrectionError(f"{rows[0].place}: the corrections leave out all clips")
    without = {clip.clip for clip in left_out}
    kept = [n for n, clip in enumerate(corpus.clip_ids) if clip not in without]
    clips = corpus.select(kept) if without else corpus
    narrowed = _Narrowed(clips, names or LabelNames())
    for n, clip in enumerate(clips.clip_ids):
        if clip in of_clip:
            narrowed.add(n, of_clip[clip])
    return Applied(narrowed.corpus(), rows, left_out, narrowed.bounds)


def places(rows: Sequence[Correction]) -> str:
    """Where corrections are, such as "corrections.csv, lines 3, 5"."""
    lines = sorted({row.line for row in rows})
    if 0 in lines or len(lines) == 1:
        return "; ".join(dict.fromkeys(row.place for row in rows))
    return f"{rows[0].file or 'corrections'}, lines {', '.join(map(str, lines))}"


def _left_out(rows: Sequence[Correction]) -> str | None:
    """Why the clip of these rows takes no part; None if it does."""
    out = [row for row in rows if row.kind in LEAVES_OUT]
    if not out:
        return None
    if any(row.kind == "exclude" for row in out):  # other rows wait until it is removed
        return _REASONS["exclude"]
    others = [row for row in rows if row.kind in ("action", "confirm")]
    if others:
        raise CorrectionError(
            f"{places([*out, *others])}: clip {rows[0].clip!r} has an action and no change: remove "
            "one of these rows"
        )
    return _REASONS["no_change"]


class _Narrowed:
    """Collects the forbidden labels of a corpus, clip by clip."""

    def __init__(self, corpus: Corpus, names: LabelNames) -> None:
        self._corpus, self._names = corpus, names
        self._tracklets = corpus.tracklets.allowed.copy()
        self._chunks = corpus.chunks.allowed.copy()
        self.bounds: dict[str, ClipBounds] = {}

    def corpus(self) -> Corpus:
        corpus = self._corpus
        return replace(
            corpus,
            tracklets=replace(corpus.tracklets, allowed=self._tracklets),
            chunks=replace(corpus.chunks, allowed=self._chunks),
        )

    def add(self, n: int, rows: list[Correction]) -> None:
        """Apply the rows of clip n."""
        extent = _extent(self._corpus, n)
        for row in rows:
            start, end = row.within(*extent)
            if not (start < extent[1] and end > extent[0]):
                raise CorrectionError(
                    f"{row.place}: {start:g} to {end:g} s is outside clip {row.clip!r}, which "
                    f"lasts from {extent[0]:g} to {extent[1]:g} s"
                )
        seen = tuple(
            (self._state(row), *row.within(*extent)) for row in rows if row.kind == "state"
        )
        action = _action_bounds(extent, rows, seen)
        self._bound_action(n, action, rows)
        self._bound_states(n, action, seen)
        for row in rows:
            if row.kind == "not_object":
                self._forbid_tracklets(n, row, row.within(*extent))
        self.bounds[self._corpus.clip_ids[n]] = ClipBounds(action, seen, _span(rows, action))

    def _state(self, row: Correction) -> int:
        state = self._names.state_number(row.value)
        if state is None:
            known = f"{self._names.state_1!r} or {self._names.state_2!r}"
            raise CorrectionError(
                f"{row.place}: there is no state {row.value[:60]!r}: use 1, 2, {known}"
            )
        return state

    def _bound_action(self, n: int, action: tuple[float, float], rows: list[Correction]) -> None:
        table, clip = self._corpus.chunks, _slice(self._corpus.chunk_rows(n))
        time, allowed = table.time[clip], table.allowed[clip]
        within = allowed & (time >= action[0]) & (time <= action[1])
        if not within.any():  # shorter than a chunk: those that it touches
            within = allowed & (table.start[clip] <= action[1]) & (table.end[clip] >= action[0])
        if not within.any() and allowed.any():
            raise CorrectionError(
                f"{places(rows)}: clip {rows[0].clip!r} has no chunk between {action[0]:g} and "
                f"{action[1]:g} s in which the action is allowed"
            )
        self._chunks[clip] = within

    def _bound_states(
        self, n: int, action: tuple[float, float], seen: Iterable[tuple[int, float, float]]
    ) -> None:
        clip = _slice(self._corpus.tracklet_rows(n))
        time, allowed = self._corpus.tracklets.time[clip], self._tracklets[clip]
        allowed[time < action[0], 1] = False
        allowed[time > action[1], 0] = False
        for state, start, end in seen:
            allowed[mostly_within(self._corpus, n, start, end), 2 - state] = False

    def _forbid_tracklets(self, n: int, row: Correction, interval: tuple[float, float]) -> None:
        rows = self._corpus.tracklet_rows(n)
        chosen = mostly_within(self._corpus, n, *interval)
        if row.value:
            index = int(row.value)
            if index >= len(rows):
                raise CorrectionError(
                    f"{row.place}: clip {row.clip!r} has no tracklet {index}: it has {len(rows)}"
                )
            chosen = np.arange(len(rows)) == index
        self._tracklets[_slice(rows)][chosen] = False


def _action_bounds(
    extent: tuple[float, float],
    rows: Sequence[Correction],
    seen: Sequence[tuple[int, float, float]],
) -> tuple[float, float]:
    """The earliest and latest time of the action that all rows of a clip admit."""
    (first, last), states = extent, [row for row in rows if row.kind == "state"]
    earliest, latest = [(first, rows[0])], [(last, rows[0])]
    for row in rows:
        if row.kind in ("action", "confirm"):
            start, end = row.within(*extent)
            earliest.append((start, row))
            latest.append((end, row))
    for row, (state, start, end) in zip(states, seen, strict=True):
        if state == 1:
            earliest.append((end, row))
        else:
            latest.append((start, row))
    low, high = max(earliest, key=lambda each: each[0]), min(latest, key=lambda each: each[0])
    if low[0] > high[0]:
        raise CorrectionError(
            f"{places([low[1], high[1]])}: clip {rows[0].clip!r} cannot have its action after "
            f"{low[0]:g} s and before {high[0]:g} s: state 1 comes before the action, state 2 after"
        )
    return low[0], high[0]


def _span(rows: Sequence[Correction], bounds: tuple[float, float]) -> tuple[float, float] | None:
    """The action's interval where a row has both of its ends, within ``bounds``."""
    span = None
    for row in rows:
        if row.kind in ("action", "confirm") and row.start is not None and row.end is not None:
            span = max(row.start, bounds[0]), min(row.end, bounds[1])
    return span


def mostly_within(corpus: Corpus, n: int, start: float, end: float) -> Array:
    """(M_n,) whether each tracklet of clip n lies in the interval, by `MOSTLY` of its length."""
    table, clip = corpus.tracklets, _slice(corpus.tracklet_rows(n))
    first, last = table.start[clip], table.end[clip]
    inside = np.minimum(last, end) - np.maximum(first, start)
    return np.asarray(inside >= MOSTLY * (last - first) - 1e-9)


def _extent(corpus: Corpus, n: int) -> tuple[float, float]:
    """Start and end of a clip: of its span, its chunks and its tracklets."""
    first, last = corpus.spans[n] or (np.inf, -np.inf)
    for table, rows in (
        (corpus.chunks, corpus.chunk_rows(n)),
        (corpus.tracklets, corpus.tracklet_rows(n)),
    ):
        if len(rows):
            first = min(first, float(table.start[rows[0]]))
            last = max(last, float(table.end[_slice(rows)].max()))
    return first, last


def _slice(rows: range) -> slice:
    return slice(rows.start, rows.stop)


# --- confirmations -----------------------------------------------------------------------------


def with_confirmed_times(
    corrections: Iterable[Correction], earlier: Result | None
) -> tuple[Correction, ...]:
    """The same rows, each ``confirm`` with the times of the action that it confirms.

    earlier : the result that a ``confirm`` without times refers to. If it was itself made with a
        ``confirm`` of the clip, the times are that one's, so that repeated fits agree.
    """
    rows = tuple(corrections)
    lacking = {row for row in rows if row.kind == "confirm" and row.start is row.end is None}
    if not lacking:
        return rows
    spans = {} if earlier is None else _confirmed_spans(earlier)
    return tuple(_with_times(row, spans) if row in lacking else row for row in rows)


def _with_times(row: Correction, spans: dict[str, tuple[float, float]]) -> Correction:
    if row.clip not in spans:
        raise CorrectionError(
            f"{row.place}: there is no earlier result with an action in this clip to confirm: give "
            "the start and the end of the action"
        )
    start, end = spans[row.clip]
    return replace(row, start=start, end=end)


def _confirmed_spans(earlier: Result) -> dict[str, tuple[float, float]]:
    """Start and end of the action that is confirmed, by clip."""
    chunks, spans = earlier.corpus.chunks, {}
    for n, clip in enumerate(earlier.clips):
        if earlier.action_chunk[n] < 0:
            continue
        row = earlier.corpus.chunk_rows(n)[int(earlier.action_chunk[n])]
        start, end = map(float, earlier.action_span[n])
        if not start < end:
            start, end = float(chunks.start[row]), float(chunks.end[row])
        spans[clip] = max(start, 0.0), end
    for given in earlier.corrections:
        if given.kind == "confirm" and given.start is not None and given.end is not None:
            spans[given.clip] = given.start, given.end
    return spans


# --- the final labels ---------------------------------------------------------------------------


def within_bounds(corpus: Corpus, bounds: Bounds, time: Array, span: Array) -> tuple[Array, Array]:
    """Time (N,) and span (N, 2) of the actions, moved into their bounds.

    A time outside of its bounds becomes that of the greatest change within them, if there is any.
    """
    time, span = time.copy(), span.copy()
    for n, clip in enumerate(corpus.clip_ids):
        if clip not in bounds or np.isnan(time[n]):
            continue
        low, high = bounds[clip].action
        if not low <= time[n] <= high:
            change = corpus.changes[n]
            moment = None if change is None else _greatest_change(corpus, n, change, low, high)
            time[n] = np.clip(time[n], low, high) if moment is None else moment
        span[n] = np.clip(span[n], low, high)
        span[n] = min(span[n, 0], time[n]), max(span[n, 1], time[n])
    return time, with_told_spans(corpus, bounds, span)


def with_told_spans(corpus: Corpus, bounds: Bounds, span: Array) -> Array:
    """(N, 2) the spans of the actions, those that a person told in place of those found."""
    span = span.copy()
    for n, clip in enumerate(corpus.clip_ids):
        told = bounds[clip].span if clip in bounds else None
        if told is not None and not np.isnan(span[n]).any():
            span[n] = told
    return span


def _greatest_change(
    corpus: Corpus, n: int, change: ChangeProfile, low: float, high: float
) -> float | None:
    times = change.start + change.step * (np.arange(len(change.curve)) + 0.5)
    near = (times >= low) & (times <= high)
    if not change.curve[near].sum() > 0:
        return None
    rows = corpus.chunk_rows(n)
    chunk = float(corpus.chunks.end[rows[0]] - corpus.chunks.start[rows[0]])
    return float(times[peak_bin(change, near, chunk)])


def with_seen_states(corpus: Corpus, bounds: Bounds, worth: Array) -> Array:
    """(M, 2) the worth of labels, raised for one tracklet of each interval with a seen state."""
    worth = worth.copy()
    for n, clip in enumerate(corpus.clip_ids):
        rows = corpus.tracklet_rows(n)
        for state, start, end in bounds[clip].seen if clip in bounds else ():
            allowed = corpus.tracklets.allowed[_slice(rows), state - 1]
            inside = np.flatnonzero(mostly_within(corpus, n, start, end) & allowed)
            if len(inside):
                best = rows[int(inside[worth[rows.start + inside, state - 1].argmax()])]
                worth[best, state - 1] = max(worth[best, state - 1], REQUIRED)
    return worth
