"""One clip of a result, as the terminal table, the report and the exports show it.

`view_clips` returns a `ClipView` per clip. Its properties are computed on first use, so a caller
pays only for what it shows. All times are seconds of the video.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from objectstates.base.choices import CHUNK_SECONDS
from objectstates.data.clips import Box, ChangeProfile, Chunk, EpisodeSpan, TrackletLabel
from objectstates.data.corpus import UNKNOWN, Array, Corpus
from objectstates.data.result import Result
from objectstates.data.success import Reached
from objectstates.data.truth import truth_count
from objectstates.evaluation.precision import score_clip

FRAME_GAP = 0.05  # seconds; one frame of most videos, see `merge_gap`
SHORTEST = 0.001  # seconds of a shown interval; captions have no finer times

MISTAKES = {
    "object": "not the object",
    "state": "wrong state",
    "ambiguous": "ambiguous",
    "action": "action off",
}
"""The kinds of mistakes, and their names on the page."""


@dataclass(frozen=True, eq=False)
class TrackletView:
    """A tracklet and its labels.

    index : within the clip.
    state : 0 if it has no state.
    scores : of states 1 and 2; NaN if states were not sought.
    truth : a `TrackletLabel`; None if not known.
    boxes : (B, 5) time, x1, y1, x2, y2 in pixels, sorted by time.
    """

    index: int
    start: float
    end: float
    time: float
    state: int
    scores: tuple[float, float]
    detection_score: float
    truth: int | None
    boxes: Array

    @property
    def score(self) -> float:
        """Of the state it was given; NaN if none was."""
        return self.scores[self.state - 1] if self.state else math.nan

    @cached_property
    def box_list(self) -> list[Box]:
        """The boxes as objects."""
        return [Box(*map(float, row)) for row in self.boxes]


@dataclass(frozen=True, slots=True)
class Action:
    """The action: its chunk and the score of that, the interval it lasts, and its moment."""

    chunk: int
    start: float
    end: float
    time: float
    score: float


@dataclass(frozen=True, slots=True)
class Segment:
    """An interval of a clip; ``label`` is state_1, action or state_2, ``score`` the mean score."""

    label: str
    start: float
    end: float
    score: float


@dataclass(frozen=True, eq=False)
class ChangeCurve:
    """How much of the picture changes for good over time.

    start : seconds of the video at which the first bin starts. ``step`` : seconds per bin.
    rates : (n,) share of the picture that changes for good, per second; so the area under the
        curve is `total`, the share that changes in the whole clip.
    """

    start: float
    step: float
    rates: Array

    @property
    def total(self) -> float:
        return float(self.rates.sum() * self.step)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time of which the page shows a frame.

    role : "state 1", "action" or "state 2"; "before" and "after" if states were not sought; "key"
        for the frames in between.
    tracklet : index of the tracklet that the frame shows.
    """

    time: float
    role: str
    tracklet: int | None = None


@dataclass(frozen=True, slots=True)
class Mistake:
    """A label that the truth contradicts. ``kind`` is a key of `MISTAKES`."""

    kind: str
    time: float
    text: str


@dataclass(frozen=True, eq=False)
class ClipView:
    """One clip: its labels, scores, boxes and, where the truth is known, its mistakes.

    number : index of the clip in the result.
    key_frames : how many moments `moments` has beside the decisive ones.
    """

    result: Result = field(repr=False)
    number: int
    confidence: float
    key_frames: int = 0

    @property
    def name(self) -> str:
        return self.result.clips[self.number]

    @property
    def confidences(self) -> tuple[float, float, float] | None:
        """Chances that action, state 1 and state 2 are right; NaN for what was not sought.

        None for results of earlier versions, whose ``confidence`` only ranks clips.
        """
        chances = self.result.confidences
        if chances is None:
            return None
        action, before, after = map(float, chances[self.number])
        return action, before, after

    @property
    def reached(self) -> Reached:
        """Whether the clip ends in state 2: yes, no or unsure; "" if it was not judged."""
        return self.result.reached[self.number]

    @property
    def reached_chance(self) -> float | None:
        """The chance that it does; None if it was not judged."""
        chances = self.result.reached_chance
        return None if chances is None else float(chances[self.number])

    @property
    def progress(self) -> Array | None:
        """(T,) from state 1, 0, to state 2, 1, at the middles of the chunks; None if unknown."""
        progress = self.result.progress
        return (
            None if progress is None else progress[list(self.result.corpus.chunk_rows(self.number))]
        )

    @property
    def video(self) -> str | None:
        """The video's path as the corpus has it; None if the clip names no video."""
        return self.result.corpus.videos[self.number]

    @property
    def span(self) -> tuple[float | None, float | None]:
        """The part of the video that the clip covers; None where the corpus does not say."""
        return self.result.corpus.spans[self.number] or (None, None)

    @property
    def episode(self) -> EpisodeSpan | None:
        """The episode of a robot dataset that the clip shows, if any."""
        return self.result.corpus.episodes[self.number]

    # --- labels -------------------------------------------------------------------------------

    @cached_property
    def tracklets(self) -> tuple[TrackletView, ...]:
        """All tracklets, sorted by start."""
        result, table = self.result, self.result.corpus.tracklets
        found = []
        for index, row in enumerate(result.corpus.tracklet_rows(self.number)):
            boxes = table.boxes[table.box_offsets[row] : table.box_offsets[row + 1]]
            found.append(
                TrackletView(
                    index=index,
                    start=float(table.start[row]),
                    end=float(table.end[row]),
                    time=float(table.time[row]),
                    state=int(result.state[row]),
                    scores=(float(result.state_scores[row, 0]), float(result.state_scores[row, 1])),
                    detection_score=float(table.score[row]),
                    truth=None if table.label[row] == UNKNOWN else int(table.label[row]),
                    boxes=boxes[np.argsort(boxes[:, 0], kind="stable")],
                )
            )
        return tuple(found)

    def boxed_tracklets(self, *, unlabelled: bool = False) -> list[TrackletView]:
        """The tracklets with boxes and a state; with ``unlabelled`` those without a state too."""
        return [t for t in self.tracklets if len(t.boxes) and (t.state or unlabelled)]

    @cached_property
    def action(self) -> Action | None:
        """None if the action was not sought."""
        result, chunk = self.result, int(self.result.action_chunk[self.number])
        if chunk < 0:
            return None
        row = result.corpus.chunk_rows(self.number)[chunk]
        start, end = map(float, result.action_span[self.number])
        time, score = result.action_time[self.number], result.action_scores[row]
        return Action(chunk, start, end, float(time), float(score))

    def shown_interval(self, tracklet: TrackletView) -> tuple[float, float]:
        """When the tracklet has its state: its interval without the time of the action.

        During the action the object is in neither state. A tracklet that lies within the action
        has no other time: its interval is whole.
        """
        return self._outside_action(tracklet) or (tracklet.start, tracklet.end)

    def _outside_action(self, tracklet: TrackletView) -> tuple[float, float] | None:
        """The part of a tracklet before or after the action, None if there is none.

        Of a tracklet that lies on both sides, the part on the side of its state.
        """
        if (action := self.action) is None or tracklet.state == 0:
            return tracklet.start, tracklet.end
        before = tracklet.start, min(tracklet.end, action.start)
        after = max(tracklet.start, action.end), tracklet.end
        sides = (before, after) if tracklet.state == 1 else (after, before)
        return next((side for side in sides if side[1] - side[0] >= SHORTEST), None)

    def state_segments(self, state: int) -> list[Segment]:
        """When tracklets have the state; gaps of at most `merge_gap` are closed.

        Segments do not overlap the action, and none continues across it; tracklets within the
        action are left out. Exception: if all tracklets of the state lie within the action, they
        are shown where they are, so that the state is not missing.
        """
        mine = [t for t in self.tracklets if t.state == state]
        outside = [t for t in mine if self._outside_action(t)] or mine
        runs: list[list[tuple[float, float, float]]] = []  # start, end, score
        for part in sorted((*self.shown_interval(t), t.score) for t in outside):
            if runs and self._continues(max(end for _, end, _ in runs[-1]), part[0]):
                runs[-1].append(part)
            else:
                runs.append([part])
        return [
            Segment(
                f"state_{state}",
                run[0][0],
                max(end for _, end, _ in run),
                sum(score for _, _, score in run) / len(run),
            )
            for run in runs
        ]

    def _continues(self, end: float, start: float) -> bool:
        """Whether what ends at ``end`` continues at ``start``: the gap is short and no action."""
        action = self.action
        across = action is not None and end <= action.start and action.end <= start
        return start - end <= merge_gap(self.result.corpus) and not across

    def segments(self) -> list[Segment]:
        """States and action, sorted by time."""
        found = [*self.state_segments(1), *self.state_segments(2)]
        if (action := self.action) is not None:
            found.append(Segment("action", action.start, action.end, action.score))
        return sorted(found, key=lambda segment: (segment.start, segment.end))

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """All chunks with their truth, without features."""
        return self.result.corpus[self.number].chunks

    @cached_property
    def chunk_scores(self) -> Array:
        """(T, 3) start, end and action score of the chunks; NaN if the action was not sought."""
        table, rows = self.result.corpus.chunks, list(self.result.corpus.chunk_rows(self.number))
        scores = self.result.action_scores[rows]
        return np.stack([table.start[rows], table.end[rows], scores], axis=1)

    # --- when and where it changes ------------------------------------------------------------

    @property
    def change(self) -> ChangeProfile | None:
        """None if the corpus does not say when and where the clip changes for good."""
        return self.result.corpus.changes[self.number]

    def change_curve(self, most_bins: int) -> ChangeCurve | None:
        """The curve of `change`, with bins joined to at most ``most_bins``."""
        if self.change is None:
            return None
        joined = -(-len(self.change.curve) // most_bins)
        curve = np.pad(self.change.curve, (0, -len(self.change.curve) % joined))
        step = self.change.step * joined
        return ChangeCurve(self.change.start, step, curve.reshape(-1, joined).sum(axis=1) / step)

    @property
    def middle(self) -> float:
        """The time of the frame that `ChangeProfile.where` shows."""
        start, end = self.result.corpus.spans[self.number] or self.extent
        return (start + end) / 2

    # --- what the page shows ------------------------------------------------------------------

    @cached_property
    def extent(self) -> tuple[float, float]:
        """First and last time of the span, the chunks and the tracklets: the timeline's ends."""
        first, last = self.result.corpus.spans[self.number] or (math.inf, -math.inf)
        starts, ends = self.chunk_scores[:, 0], self.chunk_scores[:, 1]
        return (
            float(min([first, starts.min(), *(t.start for t in self.tracklets)])),
            float(max([last, ends.max(), *(t.end for t in self.tracklets)])),
        )

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """The best-scored tracklet of either state and the action between them; then key frames."""
        moments, (start, end), action = list[Moment](), self.extent, self.action
        for state in (1, 2):
            mine = [t for t in self.tracklets if t.state == state]
            if mine:
                best = max(mine, key=lambda t: (np.nan_to_num(t.score, nan=-np.inf), -t.start))
                moments.append(Moment(best.time, f"state {state}", best.index))
        if action is not None:
            moments.append(Moment(action.time, "action"))
            if len(moments) == 1:
                moments.append(Moment((start + action.start) / 2, "before"))
                moments.append(Moment((action.end + end) / 2, "after"))
        order = {"before": 0, "state 1": 0, "action": 1, "state 2": 2, "after": 2}
        moments.sort(key=lambda moment: order[moment.role])
        times = start + (end - start) * (np.arange(self.key_frames) + 0.5) / max(self.key_frames, 1)
        return (*moments, *(Moment(float(time), "key") for time in times))

    # --- where the truth is known -------------------------------------------------------------

    @cached_property
    def true_action(self) -> tuple[tuple[float, float], ...] | None:
        """Intervals in which the action truly happens; None if the truth is not known."""
        table, rows = self.result.corpus.chunks, list(self.result.corpus.chunk_rows(self.number))
        start, end, label = table.start[rows], table.end[rows], table.label[rows]
        if (label == UNKNOWN).all():
            return None
        edges = np.flatnonzero(np.diff(label == 1, prepend=False, append=False))
        runs = zip(edges[::2], edges[1::2], strict=True)
        return tuple((float(start[a]), float(end[b - 1])) for a, b in runs)

    @cached_property
    def action_error(self) -> float | None:
        """Seconds from the action's chunk to the nearest true interval, 0 inside one.

        Infinite if the clip truly has no action, None if the truth or the action is missing. The
        truth is known by chunks, so the chunk is judged, as precision does, and not the moment.
        """
        if self.action is None or self.true_action is None:
            return None
        corpus = self.result.corpus
        time = float(corpus.chunks.time[corpus.chunk_rows(self.number)[self.action.chunk]])
        return min((max(a - time, time - b, 0.0) for a, b in self.true_action), default=math.inf)

    @cached_property
    def mistakes(self) -> tuple[Mistake, ...]:
        """Sorted by time."""
        found, by_time = [], truth_count(self.result.corpus).by_time
        for t in self.tracklets:
            if t.state == 0 or t.truth is None or t.truth == t.state:
                continue
            what = f"state {t.state} at {t.time:.1f} s is"
            match t.truth:
                case TrackletLabel.FALSE_POSITIVE:
                    found.append(Mistake("object", t.time, f"{what} not the object"))
                case TrackletLabel.AMBIGUOUS:
                    found.append(Mistake("ambiguous", t.time, f"{what} ambiguous"))
                case truth:
                    known = "by time" if by_time else "truly"
                    found.append(Mistake("state", t.time, f"{what} {known} state {truth}"))
        if self.action is not None and self.action_error:
            far = self.action_error
            text = f"action off by {far:.1f} s" if np.isfinite(far) else "no true action to find"
            found.append(Mistake("action", self.action.time, text))
        return tuple(sorted(found, key=lambda mistake: mistake.time))

    @property
    def mistake_kinds(self) -> tuple[str, ...]:
        """Each kind once, in the order of `MISTAKES`."""
        found = {mistake.kind for mistake in self.mistakes}
        return tuple(kind for kind in MISTAKES if kind in found)

    @cached_property
    def disagreement(self) -> float | None:
        """From 0 (all right) to 1 (all wrong), None without truth.

        Weighted like `Result.confidence`: the action counts as much as both states together.
        """
        result = self.result
        states = result.state[list(result.corpus.tracklet_rows(self.number))]
        chunk = int(result.action_chunk[self.number])
        score = score_clip(
            result.corpus,
            self.number,
            states if result.state.any() else None,
            chunk if (result.action_chunk >= 0).any() else None,
        )
        parts = [(score.action, 2.0), (score.precision_1, 1.0), (score.precision_2, 1.0)]
        known = [(value, weight) for value, weight in parts if not np.isnan(value)]
        if not known:
            return None
        return 1 - sum(v * w for v, w in known) / sum(w for _, w in known)


def merge_gap(corpus: Corpus) -> float:
    """Seconds between two tracklets of one state that still count as one interval.

    A track that is lost is found again at the next detection, at most half a chunk later (detectors
    run twice per chunk), up to a frame: such an interruption is no change of state.
    """
    facts = corpus.info.get("ingest")
    chunk = facts.get("chunk_seconds", CHUNK_SECONDS) if isinstance(facts, dict) else CHUNK_SECONDS
    return float(chunk) / 2 + FRAME_GAP


def view_clips(result: Result, *, key_frames: int = 0) -> list[ClipView]:
    """A view of every clip, in the order of the result."""
    return [ClipView(result, n, float(x), key_frames) for n, x in enumerate(result.confidence)]


def object_name(result: Result) -> str | None:
    """What the boxes show, on one line; None if the corpus does not say."""
    name = result.corpus.info.get("object")
    return " ".join(name.split()) if isinstance(name, str) else None


def image_fps(result: Result) -> float:
    """Frame rate of videos that are folders of images: that of ingest, else 25."""
    ingest = result.corpus.info.get("ingest")
    rate = ingest.get("image_fps") if isinstance(ingest, dict) else None
    return float(rate) if isinstance(rate, int | float) and 0 < rate < math.inf else 25.0


def box_at(boxes: Array, time: float) -> Array:
    """(4,) the box at a time, interpolated in boxes (B, 5); constant beyond the first and last."""
    return np.array([np.interp(time, boxes[:, 0], boxes[:, side]) for side in range(1, 5)])
