"""Link detections into tracks by tracking points (KLT) between them.

The box of every detection is propagated with its points forward, and backward to the previous
detection. Between two detections both propagations are blended, so the error of each is small where
that of the other is large. A detection that matches no track is propagated backward: if it meets a
track it continues that one, else it begins a new one. Only the points of the last seconds are kept,
and only the last image.
"""

from __future__ import annotations

import cv2
import numpy as np

from objectstates.base.errors import SettingError
from objectstates.base.geometry import clip, enlarge, iou
from objectstates.detect.detections import Detections
from objectstates.track.klt import (
    MIN_POINTS,
    MIN_SIDE,
    Floats,
    Gray,
    Mask,
    Points,
    inside,
    is_cut,
    move_box,
)
from objectstates.track.tracks import MEET_IOU, FrameStamp, OpenTrack, PastFrame, Track

# Heuristics, checked on the scenes of tests/track.
WORKING_SIDE = 320  # pixels of the longer side
SEED_EVERY = 5  # frames between searches for new points
MATCH_IOU = 0.4  # of a track and a detection that match; half, if they share most points
SAME_IOU = 0.6  # of two boxes of one object
INNER = 0.9  # of a detection's sides: points within are taken to be on the object
DEFAULT_STEP = 0.04  # seconds; duration of the frame of a video that has only one
MIN_SUPPORT = 0.34  # fraction of the detector's runs in which a track must have been detected
_ROUNDING = 1e-6  # seconds


class Tracker:
    """Takes frames and detections in order of time; returns tracks as they finish.

    A track must have been detected in at least `MIN_SUPPORT` of the detector's runs that it spans.
    It ends where its points are lost or move inconsistently, and at cuts.

    patience : seconds; the longest gap between two detections of a track.
    reach : seconds that a track extends beyond its first and last detection, at most.
    longest : seconds; a longer track is returned in parts, which bounds memory and delay.
    max_side : frames are downscaled so that the longer side has at most this many pixels.
    """

    def __init__(
        self,
        *,
        patience: float = 2.0,
        reach: float = 0.5,
        longest: float = 20.0,
        max_side: int = WORKING_SIDE,
    ) -> None:
        for name, value in [("patience", patience), ("reach", reach), ("longest", longest)]:
            if not 0 <= value < np.inf:
                raise SettingError(f"`{name}`={value} must be seconds, not negative")
        if max_side < 1:
            raise SettingError(f"`max_side`={max_side} must be at least 1 pixel")
        self.patience, self.reach, self.longest = patience, reach, longest
        self.max_side = max_side
        self._finished: list[Track] = []
        self._numbers = 0
        self._begin_video()

    def _begin_video(self) -> None:
        self._frame = -1
        self._step = 0.0  # seconds between the last two frames
        self._gray = np.empty((0, 0), np.uint8)
        self._scale = np.ones(4)  # working pixels per source pixel
        self.cut = False
        self._begin_shot()

    def _begin_shot(self) -> None:
        self._points = Points()
        self._past: list[PastFrame] = []  # the last seconds of the shot
        self._live: list[OpenTrack] = []  # have a box in the last frame
        self._lost: list[OpenTrack] = []  # a detection propagated backward may still meet them

    @property
    def settled(self) -> float:
        """Seconds; tracks returned from now on have no frames before this time."""
        if not self._past:
            return -np.inf
        starts = [track.stamps[0].time for track in self._live + self._lost]
        return min([self._now.time - self.reach, *starts])

    @property
    def _now(self) -> FrameStamp:
        return self._past[-1].stamp

    def update(
        self,
        time: float,
        gray: Gray,
        detections: Detections | None,
        size: tuple[int, int] | None = None,
    ) -> None:
        """Process the (H, W) frame at ``time`` (seconds).

        detections : in pixels of the frame; None if the detector was not run on it.
        size : width and height of the frame in whose pixels boxes are given, both detections and
            tracks; that of ``gray`` unless given.
        Afterwards, ``cut`` is whether the frame began a new shot.
        """
        if gray.ndim != 2 or gray.dtype != np.uint8 or gray.size == 0:
            raise SettingError(f"`gray` must be (H, W) uint8, not {gray.shape} {gray.dtype}")
        if self._past and not time > self._now.time:
            raise SettingError(f"`time`={time} must be after the last frame's, {self._now.time} s")
        self._advance(time, gray, size or (gray.shape[1], gray.shape[0]))
        stamp = FrameStamp(self._frame, time, detections is not None)
        self._past.append(PastFrame(stamp, self._points.xy))
        self._propagate()
        if detections is not None:
            self._link(*self._valid(detections))
        if detections is not None or self._frame % SEED_EVERY == 0 or self.cut:
            boxes = [(self._clipped(t.boxes[-1]), int(t.members.sum())) for t in self._live]
            self._points.seed(self._gray, boxes)
        for track in self._live:
            if track.anchors[-1].stamp.frame == self._frame:
                track.members = inside(self._points.xy, enlarge(track.boxes[-1], INNER))
        self._retire(time)

    def pop_finished(self) -> list[Track]:
        """The tracks that have ended since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def finish(self) -> list[Track]:
        """End and return all remaining tracks; another video may follow."""
        self._end_shot(None)
        self._begin_video()
        return self.pop_finished()

    def _advance(self, time: float, gray: Gray, size: tuple[int, int]) -> None:
        """Track the points into a new frame, or begin a new shot."""
        self._frame += 1
        small = self._downscaled(gray)
        scale = np.tile(np.divide(small.shape[::-1], size), 2)
        self.cut = False
        if self._past:
            step = time - self._now.time
            gap = step > max(1.0, 5 * self._step) and self._step > 0
            other = small.shape != self._gray.shape or bool((scale != self._scale).any())
            survival = None if gap or other else self._points.advance(self._gray, small)
            self.cut = gap or other or is_cut(self._gray, small, survival)
            if self.cut:
                self._end_shot(None if gap else time)
            if not gap:
                self._step = step
        self._gray, self._scale = small, scale
        oldest = time - max(self.patience, self.reach)
        recent = [past for past in self._past[:-1] if past.stamp.time >= oldest]
        self._past = recent + self._past[-1:]

    def _end_shot(self, after: float | None) -> None:
        """End all tracks; ``after`` is when the next shot begins, if there is no gap before it."""
        for track in self._live + self._lost:
            if track in self._live and after is not None:
                track.after = after
            self._finish(track)
        self._begin_shot()

    def _propagate(self) -> None:
        """Propagate all boxes to the new frame."""
        for track in self._live:
            moved = self._moved(track.boxes[-1], track.members, self._past[-2], self._past[-1])
            if moved is None:
                track.after = self._now.time
                self._lost.append(track)
            else:
                box, track.members = moved
                track.boxes.append(box)
                track.stamps.append(self._now)
        self._live = [track for track in self._live if track not in self._lost]

    def _valid(self, detections: Detections) -> tuple[Floats, Floats]:
        """Boxes in working pixels, clipped to the frame, by score, without duplicates."""
        boxes = self._clipped(np.asarray(detections.boxes, np.float64).reshape(-1, 4) * self._scale)
        scores = np.asarray(detections.scores, np.float64)
        sound = np.isfinite(boxes).all(axis=1) & np.isfinite(scores)
        sound &= (boxes[:, 2:] - boxes[:, :2] >= MIN_SIDE).all(axis=1)
        kept: list[int] = []
        for i in np.argsort(-scores, kind="stable").tolist():
            if sound[i] and (iou(boxes[[i]], boxes[kept]) < SAME_IOU).all():
                kept.append(i)
        return boxes[kept], scores[kept]

    def _link(self, boxes: Floats, scores: Floats) -> None:
        """Match each detection to a track, or begin a new one with it."""
        matches = self._match(boxes)
        for j, track in matches.items():
            path = self._backward(boxes[j], track.anchors[-1].stamp.frame)
            track.join(boxes[j], scores[j], path, self._past)
        taken = list(matches.values())
        free = [track for track in self._live + self._lost if track not in taken]
        earliest = min(p.stamp.frame for p in self._past if self._age(p.stamp) <= self.reach)
        for j in range(len(boxes)):
            if j not in matches:
                until = min([earliest, *(track.resumable for track in free)])
                path, met = self._meet(self._backward(boxes[j], until), free, taken)
                path = path if met else path[: self._frame - earliest]
                if met is None:
                    met = OpenTrack(self._numbers)
                    self._numbers += 1
                else:
                    free.remove(met)
                met.join(boxes[j], scores[j], path, self._past)
                taken.append(met)
        # An unmatched track that overlaps a matched one is occluded or a duplicate.
        for track in free:
            if any(track.iou(self._frame, other.boxes[-1]) >= SAME_IOU for other in taken):
                track.drop_after(track.anchors[-1].stamp.frame)
        self._lost = [track for track in free if track.last < self._frame]
        self._live = taken + [track for track in free if track.last == self._frame]

    def _match(self, boxes: Floats) -> dict[int, OpenTrack]:
        """The track of each detection that overlaps one, by IoU and common points; greedy."""
        if not self._live or not len(boxes):
            return {}
        overlap = iou(np.array([track.boxes[-1] for track in self._live]), boxes)
        value = np.zeros_like(overlap)
        contents = [inside(self._points.xy, enlarge(box, INNER)) for box in boxes]
        for i, track in enumerate(self._live):
            for j, content in enumerate(contents):
                union = (track.members | content).sum()
                few = union < 2 * MIN_POINTS
                shared = overlap[i, j] if few else (track.members & content).sum() / union
                if overlap[i, j] >= (MATCH_IOU if shared < 0.5 else MATCH_IOU / 2):
                    value[i, j] = overlap[i, j] + shared
        # Greedy: an optimal assignment would give up a certain match for two poor ones.
        matches: dict[int, OpenTrack] = {}
        for i, j in np.argwhere(value > 0)[np.argsort(-value[value > 0], kind="stable")].tolist():
            if j not in matches and self._live[i] not in matches.values():
                matches[j] = self._live[i]
        return matches

    def _backward(self, box: Floats, until: int) -> list[Floats]:
        """Propagate a box of the last frame backward to frame ``until``; latest box first."""
        path: list[Floats] = []
        members = inside(self._past[-1].xy, enlarge(box, INNER))
        for after, before in zip(self._past[::-1], self._past[-2::-1], strict=False):
            moved = self._moved(box, members, after, before) if after.stamp.frame > until else None
            if moved is None:
                break
            box, members = moved
            path.append(box)
        return path

    def _meet(
        self, path: list[Floats], free: list[OpenTrack], taken: list[OpenTrack]
    ) -> tuple[list[Floats], OpenTrack | None]:
        """The unmatched track that a backward path meets, if any, and the path up to it."""
        for steps, box in enumerate(path, start=1):
            frame = self._frame - steps
            for track in free:
                if track.resumable <= frame and track.iou(frame, box) >= MEET_IOU:
                    track.drop_anchor_after(frame)
                    return path[: self._frame - track.anchors[-1].stamp.frame], track
            if any(track.iou(frame, box) >= SAME_IOU for track in taken):
                return path[: steps - 1], None
        return path, None

    def _moved(
        self, box: Floats, members: Mask, before: PastFrame, after: PastFrame
    ) -> tuple[Floats, Mask] | None:
        return move_box(box, members, before.xy, after.xy, self._gray.shape)

    def _age(self, stamp: FrameStamp) -> float:
        return self._now.time - stamp.time - _ROUNDING

    def _clipped(self, boxes: Floats) -> Floats:
        return clip(boxes, self._gray.shape)

    def _retire(self, time: float) -> None:
        """Finish tracks without detections for ``patience``, and parts of long ones."""
        for group in (self._live, self._lost):
            for track in list(group):
                if time - track.anchors[-1].stamp.time > self.patience:
                    group.remove(track)
                    self._finish(track)
                elif time - track.stamps[0].time > self.longest and len(track.anchors) > 1:
                    latest = track.anchors[-1].stamp.frame
                    self._finish(track, latest)
                    track.drop_before(latest)

    def _finish(self, track: OpenTrack, stop: int | None = None) -> None:
        """Finish a track, or its part before frame ``stop``, if it was detected often enough."""
        frames = np.array([stamp.frame for stamp in track.stamps])
        times = np.array([stamp.time for stamp in track.stamps])
        first, last = track.anchors[0].stamp.time, track.anchors[-1].stamp.time
        reach = self.reach + _ROUNDING
        kept = (times >= first - reach) & (times <= last + reach)
        if stop is not None:
            kept &= frames < stop
        a, b = np.flatnonzero(kept)[[0, -1]].tolist()
        b += 1
        found = {anchor.stamp.frame: anchor.score for anchor in track.anchors}
        scores = np.array([found.get(frame, np.nan) for frame in frames[a:b].tolist()], np.float32)
        runs = sum(stamp.detected for stamp in track.stamps[a:b])
        if np.isfinite(scores).sum() < MIN_SUPPORT * runs:
            return
        after = times[b] if b < len(times) else track.after
        boxes = self._clipped(track.smoothed()[a:b]) / self._scale
        self._finished.append(
            Track(
                number=track.number,
                end=float(times[-1] + (self._step or DEFAULT_STEP) if after is None else after),
                times=times[a:b],
                boxes=boxes.astype(np.float32),
                scores=scores,
            )
        )

    def _downscaled(self, gray: Gray) -> Gray:
        height, width = gray.shape
        factor = max(height, width) / self.max_side
        if factor <= 1:
            return gray
        size = (max(1, round(width / factor)), max(1, round(height / factor)))
        return np.asarray(cv2.resize(gray, size, interpolation=cv2.INTER_AREA), np.uint8)
