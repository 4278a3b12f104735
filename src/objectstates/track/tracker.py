"""Detections linked through time by points that are followed, and cut into tracklets.

From every detection a box is carried with the points in it forward, and backward through the recent
past to the detection before. Between two detections the two paths are blended, so the error of
one is small where that of the other is large. A detection that no track foresaw is followed back:
where it meets a track, it continues that one, else it begins one. Only the last seconds of points
are kept, and no image but the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError
from objectstates.data.clips import Box
from objectstates.detect.detections import Boxes, Detections
from objectstates.track.klt import CAPACITY, MIN_POINTS, Points, inside, is_cut, move_box, resized

Gray = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

SEED_EVERY = 5  # frames between searches for new points
MATCH_IOU = 0.4  # a track and a detection may belong together; half, if they share their points
MEET_IOU = 0.5  # a detection that is followed back has met a track
SAME_IOU = 0.6  # two boxes show one object
INNER = 0.9  # of a detection's sides: the points within are taken for the object's
DEFAULT_STEP = 0.04  # seconds that the only frame of a video lasts
MIN_SIDE = 2.0  # working pixels
MIN_INSIDE = 0.3  # share of a box that must lie within the frame
MIN_SUPPORT = 0.34  # share of the detector's runs in which a track must have been detected


@dataclass(frozen=True, eq=False)
class Track:
    """One object candidate in consecutive frames of one shot.

    number : the same for all parts of a track that was handed out in parts.
    end : seconds; when the frame after the last is shown. The track lasts ``[times[0], end)``.
    times : (n,) seconds.
    boxes : (n, 4) ``x1, y1, x2, y2`` in pixels, within the frame.
    scores : (n,) of the detection in the frame; NaN where the box is only tracked.
    """

    number: int
    end: float
    times: Floats
    boxes: Boxes
    scores: Floats32

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True, eq=False)
class TrackPiece:
    """What becomes a tracklet: ``[start, end)`` of a track, and the boxes in it.

    track : the number of the track.
    times : (n,) seconds.
    boxes : (n, 4) ``x1, y1, x2, y2`` in pixels.
    score : mean of the detections in it; if there are none, interpolated from those around it.
    """

    track: int
    start: float
    end: float
    times: Floats
    boxes: Boxes
    score: float

    @property
    def timed_boxes(self) -> tuple[Box, ...]:
        rows = self.boxes.astype(float).tolist()
        return tuple(Box(t, *row) for t, row in zip(self.times.tolist(), rows, strict=True))


def cut_tracks(
    tracks: Iterable[Track], *, seconds: float = 1.0, min_seconds: float = 0.4
) -> list[TrackPiece]:
    """Cut each track into equal pieces of about ``seconds``, sorted by their start.

    A track of 2.6 s gives three of 0.87 s, give or take a frame. A track shorter than
    ``min_seconds`` gives none; of all others nothing is lost.
    """
    if not (seconds > 0 and min_seconds >= 0):
        raise SettingError(f"seconds={seconds} must be positive, min_seconds={min_seconds} not < 0")
    pieces = []
    for track in tracks:
        start, end = float(track.times[0]), track.end
        if end - start < min_seconds - 1e-6:
            continue
        # The microsecond keeps rounding from moving a frame to another piece.
        edges = np.linspace(start, end, max(1, round((end - start) / seconds)) + 1)[1:-1] - 1e-6
        firsts = sorted({0, *np.searchsorted(track.times, edges).tolist()} - {len(track)})
        known = np.flatnonzero(np.isfinite(track.scores))
        scores = np.interp(np.arange(len(track)), known, track.scores[known])
        for a, b in zip(firsts, [*firsts[1:], len(track)], strict=True):
            own = known[(known >= a) & (known < b)]
            pieces.append(
                TrackPiece(
                    track=track.number,
                    start=float(track.times[a]),
                    end=float(track.times[b]) if b < len(track) else end,
                    times=track.times[a:b],
                    boxes=track.boxes[a:b],
                    score=float(np.mean(scores[own] if len(own) else scores[a:b])),
                )
            )
    return sorted(pieces, key=lambda piece: (piece.start, piece.end, piece.track))


class Tracker:
    """Frames and detections in, in the order of time; tracks out as they finish.

    A track lives on without detections for ``patience``, reaches at most ``reach`` beyond its
    first and last, and must have been detected in more than a third of the detector's runs that it
    spans. It ends where its points are lost or disagree, and at cuts.

    patience : seconds; how long the gap between two detections of a track may be.
    reach : seconds beyond the first and the last detection.
    longest : seconds; a longer track is handed out in parts, which bounds memory and delay.
    max_side : frames are shrunk so that their longer side has at most this many pixels.
    """

    def __init__(
        self,
        *,
        patience: float = 2.0,
        reach: float = 0.5,
        longest: float = 20.0,
        max_side: int = 320,
    ) -> None:
        for name, value in [("patience", patience), ("reach", reach), ("longest", longest)]:
            if not 0 <= value < np.inf:
                raise SettingError(f"{name}={value} must be a number of seconds, not negative")
        if max_side < 1:
            raise SettingError(f"max_side={max_side} must be at least 1 pixel")
        self.patience, self.reach, self.longest = patience, reach, longest
        self.max_side = max_side
        self._finished: list[Track] = []
        self._numbers = 0
        self._begin_video()

    def _begin_video(self) -> None:
        self._frame = -1
        self._step = 0.0  # seconds between the last two frames
        self._gray = np.empty((0, 0), np.uint8)
        self._scale = np.ones(4)  # working per source pixels
        self.cut = False
        self._begin_shot()

    def _begin_shot(self) -> None:
        self._points = Points()
        self._past: list[_Past] = []  # the last seconds of the shot
        self._live: list[_Live] = []  # have a box in the last frame
        self._lost: list[_Live] = []  # a detection that is followed back may still meet them

    @property
    def settled(self) -> float:
        """Seconds; no track with frames before this time is still to come."""
        if not self._past:
            return -np.inf
        starts = [track.moments[0].time for track in self._live + self._lost]
        return min([self._now.time - self.reach, *starts])

    @property
    def _now(self) -> _Moment:
        return self._past[-1].moment

    def update(self, time: float, gray: Gray, detections: Detections | None) -> None:
        """Take the (H, W) frame shown at ``time`` (seconds).

        detections : in the frame's pixels; None if the detector was not run on this frame.
        After it, ``cut`` says whether the frame began another shot than the frame before it.
        """
        if gray.ndim != 2 or gray.dtype != np.uint8 or gray.size == 0:
            raise SettingError(f"a frame must be (H, W) uint8, not {gray.shape} {gray.dtype}")
        if self._past and not time > self._now.time:
            raise SettingError(f"the frame at {time} s follows the one at {self._now.time} s")
        self._advance(time, gray)
        self._past.append(
            _Past(_Moment(self._frame, time, detections is not None), self._points.xy)
        )
        self._follow()
        if detections is not None:
            self._link(*self._usable(detections))
        if detections is not None or self._frame % SEED_EVERY == 0 or self.cut:
            boxes = [(self._clipped(t.boxes[-1]), int(t.members.sum())) for t in self._live]
            self._points.seed(self._gray, boxes)
        for track in self._live:
            if track.anchors[-1].moment.frame == self._frame:
                track.members = inside(self._points.xy, resized(track.boxes[-1], INNER))
        self._retire(time)

    def pop_finished(self) -> list[Track]:
        """Hand out the tracks that have ended since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def finish(self) -> list[Track]:
        """End all tracks and hand out the rest; another video may follow."""
        self._end_shot(None)
        self._begin_video()
        return self.pop_finished()

    def _advance(self, time: float, gray: Gray) -> None:
        """Follow the points into a new frame, or begin a shot with it."""
        self._frame += 1
        small = self._shrunk(gray)
        scale = np.tile(np.divide(small.shape[::-1], gray.shape[::-1]), 2)
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
        recent = [past for past in self._past[:-1] if past.moment.time >= oldest]
        self._past = recent + self._past[-1:]

    def _end_shot(self, after: float | None) -> None:
        """End all tracks; ``after`` is when the next shot begins, if it follows directly."""
        for track in self._live + self._lost:
            if track in self._live and after is not None:
                track.after = after
            self._hand_out(track)
        self._begin_shot()

    def _follow(self) -> None:
        """Carry the boxes into the new frame."""
        for track in self._live:
            moved = self._moved(track.boxes[-1], track.members, self._past[-2], self._past[-1])
            if moved is None:
                track.after = self._now.time
                self._lost.append(track)
            else:
                box, track.members = moved
                track.boxes.append(box)
                track.moments.append(self._now)
        self._live = [track for track in self._live if track not in self._lost]

    def _usable(self, detections: Detections) -> tuple[Floats, Floats]:
        """Boxes in working pixels, within the frame, best first, one for each object."""
        boxes = self._clipped(np.asarray(detections.boxes, np.float64).reshape(-1, 4) * self._scale)
        scores = np.asarray(detections.scores, np.float64)
        sound = np.isfinite(boxes).all(axis=1) & np.isfinite(scores)
        sound &= (boxes[:, 2:] - boxes[:, :2] >= MIN_SIDE).all(axis=1)
        kept: list[int] = []
        for i in np.argsort(-scores, kind="stable").tolist():
            if sound[i] and (_overlaps(boxes[[i]], boxes[kept]) < SAME_IOU).all():
                kept.append(i)
        return boxes[kept], scores[kept]

    def _link(self, boxes: Floats, scores: Floats) -> None:
        """Give each detection to the track that it continues, or else begin one with it."""
        matches = self._match(boxes)
        for j, track in matches.items():
            path = self._path_back(boxes[j], track.anchors[-1].moment.frame)
            track.join(boxes[j], scores[j], path, self._past)
        taken = list(matches.values())
        free = [track for track in self._live + self._lost if track not in taken]
        earliest = min(p.moment.frame for p in self._past if self._age(p.moment) <= self.reach)
        for j in range(len(boxes)):
            if j not in matches:
                until = min([earliest, *(track.resumable for track in free)])
                path, met = self._meet(self._path_back(boxes[j], until), free, taken)
                path = path if met else path[: self._frame - earliest]
                if met is None:
                    met = _Live(self._numbers)
                    self._numbers += 1
                else:
                    free.remove(met)
                met.join(boxes[j], scores[j], path, self._past)
                taken.append(met)
        # Who stands where another is detected, undetected, is hidden behind it or the same.
        for track in free:
            if any(track.overlap(self._frame, other.boxes[-1]) >= SAME_IOU for other in taken):
                track.forget_after(track.anchors[-1].moment.frame)
        self._lost = [track for track in free if track.last < self._frame]
        self._live = taken + [track for track in free if track.last == self._frame]

    def _match(self, boxes: Floats) -> dict[int, _Live]:
        """The track of each detection that was foreseen, by overlap and by shared points."""
        if not self._live or not len(boxes):
            return {}
        overlap = _overlaps(np.array([track.boxes[-1] for track in self._live]), boxes)
        value = np.zeros_like(overlap)
        contents = [inside(self._points.xy, resized(box, INNER)) for box in boxes]
        for i, track in enumerate(self._live):
            for j, content in enumerate(contents):
                union = (track.members | content).sum()
                few = union < 2 * MIN_POINTS
                shared = overlap[i, j] if few else (track.members & content).sum() / union
                if overlap[i, j] >= (MATCH_IOU if shared < 0.5 else MATCH_IOU / 2):
                    value[i, j] = overlap[i, j] + shared
        # Best pair first: the best sum would give away a sure match to win two poor ones.
        matches: dict[int, _Live] = {}
        for i, j in np.argwhere(value > 0)[np.argsort(-value[value > 0], kind="stable")].tolist():
            if j not in matches and self._live[i] not in matches.values():
                matches[j] = self._live[i]
        return matches

    def _path_back(self, box: Floats, until: int) -> list[Floats]:
        """The boxes before the one in the last frame, latest first, down to frame ``until``."""
        path: list[Floats] = []
        members = inside(self._past[-1].xy, resized(box, INNER))
        for after, before in zip(self._past[::-1], self._past[-2::-1], strict=False):
            moved = self._moved(box, members, after, before) if after.moment.frame > until else None
            if moved is None:
                break
            box, members = moved
            path.append(box)
        return path

    def _meet(
        self, path: list[Floats], free: list[_Live], taken: list[_Live]
    ) -> tuple[list[Floats], _Live | None]:
        """The track that a path backward runs into, if any, and the path as far as it is of use."""
        for steps, box in enumerate(path, start=1):
            frame = self._frame - steps
            for track in free:
                if track.resumable <= frame and track.overlap(frame, box) >= MEET_IOU:
                    track.doubt_after(frame)
                    return path[: self._frame - track.anchors[-1].moment.frame], track
            if any(track.overlap(frame, box) >= SAME_IOU for track in taken):
                return path[: steps - 1], None
        return path, None

    def _moved(
        self, box: Floats, members: Mask, before: _Past, after: _Past
    ) -> tuple[Floats, Mask] | None:
        """`move_box`, for boxes that stay in the frame."""
        found = move_box(box, members, before.xy, after.xy)
        if found is None:
            return None
        sides = found[0][2:] - found[0][:2]
        within = self._clipped(found[0])
        visible = np.prod(within[2:] - within[:2]) / np.prod(sides)
        return found if sides.min() >= MIN_SIDE and visible >= MIN_INSIDE else None

    def _age(self, moment: _Moment) -> float:
        """Seconds; less a microsecond, lest rounding leave out a frame."""
        return self._now.time - moment.time - 1e-6

    def _clipped(self, boxes: Floats) -> Floats:
        return np.clip(boxes, 0, np.tile(self._gray.shape[::-1], 2))

    def _retire(self, time: float) -> None:
        """Hand out tracks without detections for too long, and parts of long ones."""
        for group in (self._live, self._lost):
            for track in list(group):
                if time - track.anchors[-1].moment.time > self.patience:
                    group.remove(track)
                    self._hand_out(track)
                elif time - track.moments[0].time > self.longest and len(track.anchors) > 1:
                    latest = track.anchors[-1].moment.frame
                    self._hand_out(track, latest)
                    track.forget_before(latest)

    def _hand_out(self, track: _Live, stop: int | None = None) -> None:
        """Finish a track, or its part before frame ``stop``, if it had support enough."""
        frames = np.array([moment.frame for moment in track.moments])
        times = np.array([moment.time for moment in track.moments])
        first, last = track.anchors[0].moment.time, track.anchors[-1].moment.time
        kept = (times >= first - self.reach - 1e-6) & (times <= last + self.reach + 1e-6)
        if stop is not None:
            kept &= frames < stop
        a, b = np.flatnonzero(kept)[[0, -1]].tolist()
        b += 1
        found = {anchor.moment.frame: anchor.score for anchor in track.anchors}
        scores = np.array([found.get(frame, np.nan) for frame in frames[a:b].tolist()], np.float32)
        runs = sum(moment.detected for moment in track.moments[a:b])
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

    def _shrunk(self, gray: Gray) -> Gray:
        height, width = gray.shape
        shrink = max(height, width) / self.max_side
        if shrink <= 1:
            return gray
        size = (max(1, round(width / shrink)), max(1, round(height / shrink)))
        return np.asarray(cv2.resize(gray, size, interpolation=cv2.INTER_AREA), np.uint8)


class _Moment(NamedTuple):
    """A frame: its number, its time in seconds, and whether the detector was run on it."""

    frame: int
    time: float
    detected: bool


class _Past(NamedTuple):
    """A recent frame and the points in it."""

    moment: _Moment
    xy: Floats32


@dataclass(eq=False)
class _Anchor:
    """A detection of a track.

    before, after : (4,) the box as it comes from the detection before and from the one after.
    """

    moment: _Moment
    box: Floats
    score: float
    before: Floats | None = None
    after: Floats | None = None

    @property
    def correction(self) -> Floats:
        """Detections jitter: what a neighbour says counts half as much as what was seen.

        Unless they are too far apart; then the object has changed, or the path between is wrong.
        """
        said = [box for box in (self.before, self.after) if box is not None]
        said = [box for box in said if _overlap(box, self.box) >= MEET_IOU]
        return sum((box - self.box for box in said), np.zeros(4)) / (2 + len(said))


@dataclass(eq=False)
class _Live:
    """A track in the making: a box, in working pixels, for every moment since it began.

    members : the points that move with it.
    after : seconds; when the frame after its last is shown, once known.
    """

    number: int
    moments: list[_Moment] = field(default_factory=list)
    boxes: list[Floats] = field(default_factory=list)
    anchors: list[_Anchor] = field(default_factory=list)
    members: Mask = field(default_factory=lambda: np.zeros(CAPACITY, bool))
    after: float | None = None

    @property
    def last(self) -> int:
        return self.moments[-1].frame

    @property
    def resumable(self) -> int:
        """The first frame where a detection that is followed back may meet it.

        It is the last but one detection's: a single false one must not lead a track astray.
        """
        return self.anchors[-2:][0].moment.frame

    def overlap(self, frame: int, box: Floats) -> float:
        """With its box in that frame; 0 if it has none."""
        index = frame - self.moments[0].frame
        return _overlap(self.boxes[index], box) if 0 <= index < len(self.boxes) else 0.0

    def join(self, box: Floats, score: float, back: list[Floats], past: list[_Past]) -> None:
        """Go on to a detection in the last frame of ``past``.

        back : the boxes before it as seen from it, latest first. They are blended with the boxes
            that the track has where both are, after the detection before.
        """
        anchor = _Anchor(past[-1].moment, box, score)
        now = anchor.moment.frame
        reached = now - len(back)
        start, kept, shared = reached, reached - 1, reached - 1  # all frames are new, unless
        if self.anchors:
            previous = self.anchors[-1]
            if self.last == now:
                anchor.before = self.boxes[-1]
            if reached <= previous.moment.frame < now:
                previous.after = back[now - 1 - previous.moment.frame]
            start, shared = self.moments[0].frame, self.last
            kept = min(max(previous.moment.frame, reached), now - 1)
        new = []
        for frame in range(kept + 1, now):
            seen = back[now - 1 - frame]
            weight = (frame - kept) / (shared - kept) if frame < shared else 1.0
            ahead = self.boxes[frame - start] if weight < 1 else seen
            new.append((1 - weight) * ahead + weight * seen)
        self.boxes[kept + 1 - start :] = [*new, box]
        self.moments[kept + 1 - start :] = [p.moment for p in past[kept - now :]]
        self.anchors.append(anchor)
        self.after = None

    def smoothed(self) -> Floats:
        """The boxes (n, 4), each moved by the corrections of the detections around it."""
        frames = [moment.frame for moment in self.moments]
        at = [anchor.moment.frame for anchor in self.anchors]
        corrections = np.array([anchor.correction for anchor in self.anchors])
        between = [np.interp(frames, at, column) for column in corrections.T]
        return np.asarray(np.array(self.boxes) + np.stack(between, axis=1))

    def doubt_after(self, frame: int) -> None:
        """Give up the last detection if it comes after that frame."""
        if self.anchors[-1].moment.frame > frame:
            self.forget_after(self.anchors.pop().moment.frame - 1)

    def forget_after(self, frame: int) -> None:
        count = frame + 1 - self.moments[0].frame
        if count < len(self.moments):
            self.after = self.moments[count].time
            del self.moments[count:], self.boxes[count:]

    def forget_before(self, frame: int) -> None:
        count = frame - self.moments[0].frame
        del self.moments[:count], self.boxes[:count]
        self.anchors = [anchor for anchor in self.anchors if anchor.moment.frame >= frame]


def _overlaps(a: Floats, b: Floats) -> Floats:
    """Intersection over union of boxes (n, 4) and (m, 4), as (n, m)."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    common = np.maximum(high - low, 0).prod(axis=2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(axis=1) for boxes in (a, b)]
    return np.asarray(common / (areas[0][:, None] + areas[1] - common))


def _overlap(a: Floats, b: Floats) -> float:
    return float(_overlaps(a[None], b[None])[0, 0])
