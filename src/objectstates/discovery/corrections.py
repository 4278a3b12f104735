"""Corrections as hard constraints: which labels they forbid, and which clips they leave out.

In every clip the rows of `data.corrections` bound the time of the action: it lies within each
``action``, after each interval of state 1 and before each of state 2. Chunks outside these bounds
are not allowed. Tracklets before them cannot have state 2, those after them not state 1. In a chain
the same holds for each action and the states before and after it. These are
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

    actions : the earliest and the latest time that each action may have.
    seen : state, start and end of intervals in which the object was seen in that state.
    spans : start and end of each action itself, if a row has both.
    """

    actions: tuple[tuple[float, float], ...]
    seen: tuple[tuple[int, float, float], ...] = ()
    spans: tuple[tuple[float, float] | None, ...] = ()


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
    narrowed = _Narrowed(clips, names or LabelNames.usual(corpus.n_states - 1))
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
        numbers = [self._action(row) for row in rows]
        bounds = _action_bounds(extent, rows, numbers, seen, self._chunks.shape[1])
        for k, action in enumerate(bounds):
            self._bound_action(n, k, action, rows)
        self._bound_states(n, bounds, seen)
        for row in rows:
            if row.kind == "not_object":
                self._forbid_tracklets(n, row, row.within(*extent))
        spans = tuple(
            _span([row for row, of in zip(rows, numbers, strict=True) if of == k], action)
            for k, action in enumerate(bounds)
        )
        self.bounds[self._corpus.clip_ids[n]] = ClipBounds(bounds, seen, spans)

    def _action(self, row: Correction) -> int:
        """The action that a row is about, from 0; -1 if it is about none."""
        if row.kind not in ("action", "confirm"):
            return -1
        number = self._names.action_number(row.value)
        if number is None:
            known = ", ".join(map(repr, self._names.actions))
            raise CorrectionError(
                f"{row.place}: there is no action {row.value[:60]!r}: use its number from 1 to "
                f"{len(self._names.actions)}, or {known}"
            )
        return number - 1

    def _state(self, row: Correction) -> int:
        state = self._names.state_number(row.value)
        if state is None:
            numbers = ", ".join(str(k + 1) for k in range(len(self._names.states)))
            known = " or ".join(map(repr, dict.fromkeys(self._names.states)))
            raise CorrectionError(
                f"{row.place}: there is no state {row.value[:60]!r}: use {numbers}, {known}"
            )
        return state

    def _bound_action(
        self, n: int, k: int, action: tuple[float, float], rows: list[Correction]
    ) -> None:
        table, clip = self._corpus.chunks, _slice(self._corpus.chunk_rows(n))
        time, allowed = table.time[clip], table.allowed[clip, k]
        within = allowed & (time >= action[0]) & (time <= action[1])
        if not within.any():  # shorter than a chunk: those that it touches
            within = allowed & (table.start[clip] <= action[1]) & (table.end[clip] >= action[0])
        if not within.any() and allowed.any():
            raise CorrectionError(
                f"{places(rows)}: clip {rows[0].clip!r} has no chunk between {action[0]:g} and "
                f"{action[1]:g} s in which the action is allowed"
            )
        self._chunks[clip, k] = within

    def _bound_states(
        self,
        n: int,
        actions: Sequence[tuple[float, float]],
        seen: Iterable[tuple[int, float, float]],
    ) -> None:
        clip = _slice(self._corpus.tracklet_rows(n))
        time, allowed = self._corpus.tracklets.time[clip], self._tracklets[clip]
        for k, (earliest, latest) in enumerate(actions):
            allowed[time < earliest, k + 1 :] = False
            allowed[time > latest, : k + 1] = False
        for state, start, end in seen:
            others = np.arange(allowed.shape[1]) != state - 1
            allowed[np.ix_(mostly_within(self._corpus, n, start, end), others)] = False

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
    numbers: Sequence[int],
    seen: Sequence[tuple[int, float, float]],
    n_actions: int,
) -> tuple[tuple[float, float], ...]:
    """The earliest and latest time of each action that all rows of a clip admit.

    numbers : the action of each row, from 0; -1 for none.
    """
    states = [row for row in rows if row.kind == "state"]
    bounds = []
    for k in range(n_actions):
        earliest, latest = [(extent[0], rows[0])], [(extent[1], rows[0])]
        for row, of in zip(rows, numbers, strict=True):
            start, end = row.within(*extent)
            if 0 <= of <= k:
                earliest.append((start, row))
            if of >= k:
                latest.append((end, row))
        for row, (state, start, end) in zip(states, seen, strict=True):
            if state <= k + 1:
                earliest.append((end, row))
            else:
                latest.append((start, row))
        low, high = max(earliest, key=lambda each: each[0]), min(latest, key=lambda each: each[0])
        if low[0] > high[0]:
            which = "the action" if n_actions == 1 else f"action {k + 1}"
            raise CorrectionError(
                f"{places([low[1], high[1]])}: clip {rows[0].clip!r} cannot have its action after "
                f"{low[0]:g} s and before {high[0]:g} s: state {k + 1} comes before {which}, "
                f"state {k + 2} after"
            )
        bounds.append((low[0], high[0]))
    return tuple(bounds)


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
    return tuple(
        timed for row in rows for timed in (_with_times(row, spans) if row in lacking else (row,))
    )


Spans = dict[str, dict[int, tuple[float, float]]]
"""Start and end of actions, by clip and number of the action."""


def _with_times(row: Correction, spans: Spans) -> tuple[Correction, ...]:
    """A row for each action of the clip, or for the one that the row names."""
    known = spans.get(row.clip, {})
    wanted = {int(row.value): known.get(int(row.value))} if row.value.isdigit() else known
    if not wanted or None in wanted.values():
        raise CorrectionError(
            f"{row.place}: there is no earlier result with an action in this clip to confirm: give "
            "the start and the end of the action"
        )
    chain = len(known) > 1
    return tuple(
        replace(row, start=span[0], end=span[1], value=str(k) if chain else row.value)
        for k, span in wanted.items()
        if span is not None
    )


def _confirmed_spans(earlier: Result) -> Spans:
    """Those that are confirmed."""
    chunks, actions = earlier.corpus.chunks, earlier.actions
    spans: Spans = {}
    for n, k in zip(*np.nonzero(actions.chunk >= 0), strict=True):
        row = earlier.corpus.chunk_rows(n)[int(actions.chunk[n, k])]
        start, end = map(float, actions.span[n, k])
        if not start < end:
            start, end = float(chunks.start[row]), float(chunks.end[row])
        spans.setdefault(earlier.clips[n], {})[int(k) + 1] = max(start, 0.0), end
    for given in earlier.corrections:
        if given.kind == "confirm" and given.start is not None and given.end is not None:
            number = earlier.names.action_number(given.value) or 1
            spans.setdefault(given.clip, {})[number] = given.start, given.end
    return spans


# --- the final labels ---------------------------------------------------------------------------


def within_bounds(corpus: Corpus, bounds: Bounds, time: Array, span: Array) -> tuple[Array, Array]:
    """Time (N, A) and span (N, A, 2) of the actions, moved into their bounds.

    A time outside of its bounds becomes that of the greatest change within them, if there is any.
    """
    time, span = time.copy(), span.copy()
    for n, k in zip(*np.nonzero(~np.isnan(time)), strict=True):
        clip = corpus.clip_ids[n]
        if clip not in bounds:
            continue
        low, high = bounds[clip].actions[k]
        if not low <= time[n, k] <= high:
            change = corpus.changes[n]
            moment = None if change is None else _greatest_change(corpus, n, change, low, high)
            time[n, k] = np.clip(time[n, k], low, high) if moment is None else moment
        span[n, k] = np.clip(span[n, k], low, high)
        span[n, k] = min(span[n, k, 0], time[n, k]), max(span[n, k, 1], time[n, k])
    return time, with_told_spans(corpus, bounds, span)


def with_told_spans(corpus: Corpus, bounds: Bounds, span: Array) -> Array:
    """(N, A, 2) the spans of the actions, with corrected ones in place of those found."""
    span = span.copy()
    for n, clip in enumerate(corpus.clip_ids):
        for k, stated in enumerate(bounds[clip].spans if clip in bounds else ()):
            if stated is not None and not np.isnan(span[n, k]).any():
                span[n, k] = stated
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
    """(M, K) the worth of labels, raised for one tracklet of each interval with a seen state."""
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
