"""One clip of a result, as the terminal table, the report and the exports show it.

`view_clips` returns a `ClipView` per clip. Its properties are computed on first use, so a caller
pays only for what it shows. All times are seconds of the video. A clip has K states and up to K - 1
actions; in results of one change there are two states and one action.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath

import numpy as np

from objectstates.base.choices import CHUNK_SECONDS
from objectstates.base.errors import ResultError
from objectstates.data.clips import ChangeProfile, Chunk, EpisodeSpan
from objectstates.data.corpus import UNKNOWN, Array, Corpus
from objectstates.data.result import Result
from objectstates.data.success import Reached, reached_by
from objectstates.report.clip_parts import Action, ChangeCurve, Moment, Segment, TrackletView
from objectstates.report.mistakes import JudgedClip, judge_clip

FRAME_GAP = 0.05  # seconds; one frame of most videos, see `merge_gap`
SHORTEST = 0.001  # seconds of a shown interval; captions have no finer times


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
    def confidences(self) -> tuple[float, ...] | None:
        """Chances that the actions, then the states are right; NaN for what was not sought.

        None for results of earlier versions, whose ``confidence`` only ranks clips.
        """
        chances = self.result.confidences
        return None if chances is None else tuple(map(float, chances[self.number]))

    @property
    def reached(self) -> Reached:
        """Whether the clip ends in state 2: yes, no or unsure; "" if it was not judged."""
        chance = self.reached_chance  # of this clip alone: `Result.reached` judges all clips
        return "" if chance is None else reached_by(chance)

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
                    scores=tuple(map(float, result.state_scores[row])),
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
    def actions(self) -> tuple[Action, ...]:
        """In order; those that the clip lacks, or that were not sought, are left out."""
        result, found = self.result, []
        for k, label in enumerate(result.action_labels):
            chunk = int(result.actions.chunk[self.number, k])
            if chunk < 0:
                continue
            row = result.corpus.chunk_rows(self.number)[chunk]
            start, end = map(float, result.actions.span[self.number, k])
            time, score = result.actions.time[self.number, k], result.actions.scores[row, k]
            found.append(Action(k + 1, label, chunk, start, end, float(time), float(score)))
        return tuple(found)

    @property
    def action(self) -> Action | None:
        """The action of a result of one change; None if it was not sought."""
        if self.result.n_actions > 1:
            raise ResultError("the clip has a chain of actions: use `actions`")
        return self.actions[0] if self.actions else None

    def shown_interval(self, tracklet: TrackletView) -> tuple[float, float]:
        """When the tracklet has its state: its interval without the time of the actions.

        During an action the object is in no state. A tracklet that lies within an action has no
        other time: its interval is whole.
        """
        return self._outside_actions(tracklet) or (tracklet.start, tracklet.end)

    def _outside_actions(self, tracklet: TrackletView) -> tuple[float, float] | None:
        """The part of a tracklet before, between or after the actions, None if there is none.

        Of a tracklet that lies on several sides, the part nearest to the place of its state.
        """
        if not self.actions or tracklet.state == 0:
            return tracklet.start, tracklet.end
        starts = [-math.inf, *(action.end for action in self.actions)]
        ends = [*(action.start for action in self.actions), math.inf]
        own = sum(action.number < tracklet.state for action in self.actions)
        parts = [
            (abs(k - own), max(tracklet.start, start), min(tracklet.end, end))
            for k, (start, end) in enumerate(zip(starts, ends, strict=True))
        ]
        shown = (part[1:] for part in sorted(parts) if part[2] - part[1] >= SHORTEST)
        return next(shown, None)

    def state_segments(self, state: int) -> list[Segment]:
        """When tracklets have the state; gaps of at most `merge_gap` are closed.

        Segments do not overlap an action, and none continues across one; tracklets within an
        action are left out. Exception: if all tracklets of the state lie within actions, they are
        shown where they are, so that the state is not missing.
        """
        mine = [t for t in self.tracklets if t.state == state]
        outside = [t for t in mine if self._outside_actions(t)] or mine
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
        across = any(end <= action.start and action.end <= start for action in self.actions)
        return start - end <= merge_gap(self.result.corpus) and not across

    def segments(self) -> list[Segment]:
        """States and actions, sorted by time."""
        found = [s for k in range(1, self.result.n_states + 1) for s in self.state_segments(k)]
        found += [Segment(a.label, a.start, a.end, a.score) for a in self.actions]
        return sorted(found, key=lambda segment: (segment.start, segment.end))

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """All chunks with their truth, without features."""
        return self.result.corpus[self.number].chunks

    @cached_property
    def chunk_scores(self) -> Array:
        """(T, 2 + A) start, end and action scores of the chunks; NaN if no action was sought."""
        table, rows = self.result.corpus.chunks, list(self.result.corpus.chunk_rows(self.number))
        scores = self.result.actions.scores[rows]
        return np.column_stack([table.start[rows], table.end[rows], scores])

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
        """The best-scored tracklet of each state and the actions between them; then key frames."""
        (start, end), steps = self.extent, list[tuple[int, Moment]]()  # by place in the chain
        for state in range(1, self.result.n_states + 1):
            mine = [t for t in self.tracklets if t.state == state]
            if mine:
                best = max(mine, key=lambda t: (np.nan_to_num(t.score, nan=-np.inf), -t.start))
                steps.append((2 * state, Moment(best.time, f"state {state}", best.index)))
        if not steps:
            steps = list(enumerate(self._moments_around_actions(), start=1))
        else:
            steps += [(2 * a.number + 1, _moment_of(a)) for a in self.actions]
        steps.sort(key=lambda step: step[0])
        times = start + (end - start) * (np.arange(self.key_frames) + 0.5) / max(self.key_frames, 1)
        keys = (Moment(float(time), "key") for time in times)
        return (*(moment for _, moment in steps), *keys)

    def _moments_around_actions(self) -> list[Moment]:
        """Of a clip without states: the actions, and moments before, between and after them."""
        (start, end), actions = self.extent, self.actions
        found = []
        for k, action in enumerate(actions):
            since, role = (actions[k - 1].end, "between") if k else (start, "before")
            found += [Moment((since + action.start) / 2, role), _moment_of(action)]
        if actions:
            found.append(Moment((actions[-1].end + end) / 2, "after"))
        return found

    # --- where the truth is known -------------------------------------------------------------

    @cached_property
    def judged(self) -> JudgedClip:
        """The labels compared with the truth."""
        return judge_clip(self.result, self.number, self.tracklets, self.actions)


def _moment_of(action: Action) -> Moment:
    return Moment(action.time, action.label.replace("_", " "))


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


def image_fps(result: Result, video: str | PurePath | None = None) -> float:
    """Frame rate of videos that are folders of images, see `Corpus.image_fps`."""
    return result.corpus.image_fps(video)


def box_at(boxes: Array, time: float) -> Array:
    """(4,) the box at a time, interpolated in boxes (B, 5); constant beyond the first and last."""
    return np.array([np.interp(time, boxes[:, 0], boxes[:, side]) for side in range(1, 5)])
