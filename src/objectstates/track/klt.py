"""Points followed from frame to frame, how boxes move with them, and where a shot ends.

Corners are followed by pyramidal Lucas-Kanade (KLT), each step checked by following it back. A box
moves as most of its points do, in place and size, much as in median flow (Kalal et al.,
Forward-backward error: automatic detection of tracking failures, ICPR 2010).
"""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np
import numpy.typing as npt

Gray = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

CAPACITY = 512  # points followed at once
SPACING = 14  # pixels between points all over the frame
FINE_SPACING = 4  # pixels between points of a detected box
PER_BOX = 30  # points that are enough for a detected box
SMALLEST_SIDE = 16  # pixels; points are not followed in smaller frames
BACK_ERROR = 1.0  # pixels; a point that is followed back must end this near to where it began
AGREEMENT = 1.5  # pixels; points this near to a motion share it
MIN_POINTS = 4  # fewer say nothing
MAX_ZOOM = 1.15  # of a box between two frames


def is_cut(before: Gray, after: Gray, survival: float | None = None) -> bool:
    """Whether another shot begins between two frames of the same size.

    survival : share of the points of ``before`` that could be followed to ``after``, if known. It
        tells a cut from a change of light, and a cut between alike scenes from none.
    """
    if survival is None:
        return brightness_change(before, after) > 0.4
    return survival < 0.1 or (survival < 0.4 and brightness_change(before, after) > 0.15)


def brightness_change(before: Gray, after: Gray) -> float:
    """Mean over 4 x 4 parts of the frame of how much their histograms differ, 0 to 1.

    Between two frames of a shot it rarely exceeds 0.05, across a cut it is about 0.5.
    """
    parts, side, bins = 4, 16, 16
    part = np.arange(parts * side) // side
    offset = (part[:, None] * parts + part) * bins
    counts = []
    for gray in (before, after):
        small = cv2.resize(gray, (parts * side, parts * side), interpolation=cv2.INTER_AREA)
        # A value is shared by the two bins around it, lest a slight change of light move it all.
        value = np.clip(np.asarray(small, np.float64) / (256 / bins) - 0.5, 0, bins - 1.001)
        low = value.astype(np.intp)
        index, share = (offset + low).ravel(), (value - low).ravel()
        total = parts * parts * bins
        counts.append(np.bincount(index, 1 - share, total) + np.bincount(index + 1, share, total))
    return float(np.abs(counts[0] - counts[1]).sum() / 2 / (parts * side) ** 2)


class Points:
    """Corners, each in a slot of its own.

    xy : (CAPACITY, 2) where they are in the last frame, NaN in free slots. A slot stays free for
        at least one frame: if it is in use in two successive frames, then by the same point.
    """

    def __init__(self) -> None:
        self.xy = np.full((CAPACITY, 2), np.nan, np.float32)
        self._free = np.arange(CAPACITY)

    def advance(self, before: Gray, after: Gray) -> float | None:
        """Follow the points into the next frame; the share that survives, None if too few."""
        slots = np.flatnonzero(in_use(self.xy))
        moved = np.full_like(self.xy, np.nan)
        if len(slots):
            origin = self.xy[slots]
            target, found = _follow(before, after, origin)
            back, found_back = _follow(after, before, target)
            corner = np.array(after.shape[::-1]) - 1
            kept = found & found_back & (np.hypot(*(back - origin).T) < BACK_ERROR)
            kept &= ((target >= 0) & (target <= corner)).all(axis=1)
            moved[slots[kept]] = target[kept]
        self._free = np.flatnonzero(~in_use(self.xy))
        self.xy = moved
        return in_use(moved).sum() / len(slots) if len(slots) >= 5 * MIN_POINTS else None

    def seed(self, gray: Gray, boxes: Iterable[tuple[Floats, int]]) -> None:
        """Take in new corners: densely in the boxes, and thinly all over the frame.

        boxes : each (4,), within the frame, with the number of points that it has already.
        """
        if min(gray.shape) < SMALLEST_SIDE:
            return
        for box, known in boxes:
            x1, y1, x2, y2 = np.round(box).astype(int).tolist()
            room = PER_BOX - known
            if room > 0 and min(x2 - x1, y2 - y1) > 2 * FINE_SPACING:
                vacant = self._vacant(gray.shape, FINE_SPACING)[y1:y2, x1:x2]
                corners = _corners(gray[y1:y2, x1:x2], room, 0.01, FINE_SPACING, vacant)
                self._add(corners + np.array([x1, y1], np.float32))
        vacant = self._vacant(gray.shape, SPACING)
        self._add(_corners(gray, CAPACITY, 0.001, SPACING, vacant))

    def _vacant(self, shape: tuple[int, ...], spacing: int) -> Gray:
        """255 where there is no point within ``spacing``."""
        vacant = np.full(shape, 255, np.uint8)
        x, y = np.round(self.xy[in_use(self.xy)]).astype(int).T
        vacant[y, x] = 0
        side = 2 * spacing - 1
        return np.asarray(cv2.erode(vacant, np.ones((side, side), np.uint8)), np.uint8)

    def _add(self, corners: Floats32) -> None:
        slots, self._free = np.split(self._free, [len(corners)])
        self.xy[slots] = corners[: len(slots)]


def _follow(before: Gray, after: Gray, origin: Floats32) -> tuple[Floats32, Mask]:
    target, found, _ = cv2.calcOpticalFlowPyrLK(
        before,
        after,
        origin,
        np.empty_like(origin),
        winSize=(16, 16),  # multiples of 8 take half the time of their neighbours
        maxLevel=2,
        criteria=(cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 10, 0.03),
    )
    return np.asarray(target, np.float32), np.asarray(found).ravel() == 1


def _corners(gray: Gray, most: int, quality: float, spacing: int, where: Gray) -> Floats32:
    found = cv2.goodFeaturesToTrack(
        np.ascontiguousarray(gray), most, quality, spacing, mask=np.ascontiguousarray(where)
    )
    # The stubs don't say that OpenCV gives None when it finds nothing.
    return np.empty((0, 2), np.float32) if found is None else np.reshape(found, (-1, 2))


def in_use(xy: Floats32) -> Mask:
    """Which slots hold a point."""
    return np.isfinite(xy[:, 0])


def inside(xy: Floats32, box: Floats) -> Mask:
    """Which points lie in the box; none of the free slots does."""
    x, y = xy.T
    x1, y1, x2, y2 = box.tolist()
    return np.asarray((x >= x1) & (x <= x2) & (y >= y1) & (y <= y2))


def resized(box: Floats, factor: float) -> Floats:
    """The box with its sides multiplied, about its centre."""
    centre, half = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) / 2 * factor
    return np.concatenate([centre - half, centre + half])


def move_box(
    box: Floats, members: Mask, before: Floats32, after: Floats32
) -> tuple[Floats, Mask] | None:
    """The box in the next frame (or the one before), and its points there; None if it is lost.

    The motion is that of most of the ``members``, in place and size. Those that move otherwise
    are not members any more, and what lies in the box and moves with it becomes one: something
    that passes in front of the object is not followed unless it covers nearly all of it. With too
    few points the box moves with what surrounds it, and in a frame without any it stands still.

    before, after : (CAPACITY, 2) the points in the two frames.
    """
    seen = in_use(after) & in_use(before)
    if members.sum() >= 2 * MIN_POINTS > 2 * (members & seen).sum():
        return None
    voters = members & seen
    if voters.sum() < MIN_POINTS:
        return _move_with_surroundings(box, seen, before, after)
    origin, target = before[voters].astype(np.float64), after[voters].astype(np.float64)
    shift = _common_shift(origin, target)
    if shift is None:
        return None
    agree = _near(target - origin, shift)
    origin, target = origin[agree], target[agree]
    middle, centre = origin.sum(axis=0) / len(origin), target.sum(axis=0) / len(target)
    zoom = _zoom(origin - middle, target - centre, box)
    moved = (box.reshape(2, 2) - middle) * zoom + centre
    followers = np.flatnonzero(seen & (members | inside(before, box)))
    near = _near(after[followers] - centre, (before[followers] - middle) * zoom)
    new_members = np.zeros_like(members)
    new_members[followers[near]] = True
    return moved.ravel(), new_members & inside(after, resized(moved.ravel(), 1.1))


def _common_shift(before: Floats, after: Floats) -> Floats | None:
    """The motion (2,) that at least half of the points share."""
    shifts = after - before
    shift = np.sort(shifts, axis=0)[len(shifts) // 2]  # the median, but faster
    return shift if 2 * _near(shifts, shift).sum() >= len(shifts) else None


def _near(a: Floats | Floats32, b: Floats | Floats32) -> Mask:
    x, y = (a - b).T
    return np.asarray(x * x + y * y < AGREEMENT**2)


def _zoom(before: Floats, after: Floats, box: Floats) -> float:
    """Least squares, held to 1 as by one point in the corner of the box: few points say little."""
    hold = ((box[2:] - box[:2]) ** 2).sum() / 4
    zoom = ((before * after).sum() + hold) / ((before**2).sum() + hold)
    return float(np.clip(zoom, 1 / MAX_ZOOM, MAX_ZOOM))


def _move_with_surroundings(
    box: Floats, seen: Mask, before: Floats32, after: Floats32
) -> tuple[Floats, Mask] | None:
    outside = seen & ~inside(before, box)
    for around in (outside & inside(before, resized(box, 2.0)), outside):
        if around.sum() >= 2 * MIN_POINTS:
            shift = _common_shift(before[around].astype(float), after[around].astype(float))
            if shift is None:
                return None
            moved = box + np.tile(shift, 2)
            return moved, seen & inside(after, moved) & _near(after - before, shift)
    return box, seen & inside(after, box)
