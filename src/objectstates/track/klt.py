"""Point tracking (KLT), propagation of boxes by points, and detection of cuts.

Corners are tracked by pyramidal Lucas-Kanade with a forward-backward check. The translation and
scale of a box are those of most of its points, as in median flow (Kalal et al., Forward-backward
error: automatic detection of tracking failures, ICPR 2010).
"""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.geometry import enlarge

Gray = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

# For frames of about 320 x 240 pixels; heuristics, checked on the scenes of tests/track.
CAPACITY = 512  # points tracked at once
SPACING = 14  # pixels between points anywhere in the frame
FINE_SPACING = 4  # pixels between points in a detected box
PER_BOX = 30  # points sought in a detected box
SMALLEST_SIDE = 16  # pixels; smaller frames get no points (the window of the tracker)
BACK_ERROR = 1.0  # pixels; largest forward-backward error
AGREEMENT = 1.5  # pixels; largest deviation of an inlier from the common motion
MIN_POINTS = 4  # to estimate a motion
MAX_ZOOM = 1.15  # change of a box's scale between two frames
_CUT_SURVIVAL = 0.1  # fraction of points below which there is a cut
_DOUBTFUL_SURVIVAL = 0.4  # below it, a cut if the brightness changes by _DOUBTFUL_CHANGE too
_DOUBTFUL_CHANGE = 0.15
_CUT_CHANGE = 0.4  # change of brightness that is a cut if there are no points to judge by


def is_cut(before: Gray, after: Gray, survival: float | None = None) -> bool:
    """Whether there is a cut between two consecutive frames of the same size.

    survival : fraction of the points of ``before`` tracked to ``after``, if known. It distinguishes
        a cut from a change of light, and detects cuts between similar scenes.
    """
    if survival is None:
        return brightness_change(before, after) > _CUT_CHANGE
    if survival < _CUT_SURVIVAL:
        return True
    return survival < _DOUBTFUL_SURVIVAL and brightness_change(before, after) > _DOUBTFUL_CHANGE


def brightness_change(before: Gray, after: Gray) -> float:
    """Mean L1 distance, 0 to 1, of the gray histograms of 4 x 4 parts of the frame.

    Within a shot it rarely exceeds 0.05; across a cut it is about 0.5.
    """
    parts, side, bins = 4, 16, 16
    part = np.arange(parts * side) // side
    offset = (part[:, None] * parts + part) * bins
    counts = []
    for gray in (before, after):
        small = cv2.resize(gray, (parts * side, parts * side), interpolation=cv2.INTER_AREA)
        # Linear binning: a slight change of light must not move a value to another bin entirely.
        value = np.clip(np.asarray(small, np.float64) / (256 / bins) - 0.5, 0, bins - 1.001)
        low = value.astype(np.intp)
        index, upper = (offset + low).ravel(), (value - low).ravel()
        total = parts * parts * bins
        counts.append(np.bincount(index, 1 - upper, total) + np.bincount(index + 1, upper, total))
    return float(np.abs(counts[0] - counts[1]).sum() / 2 / (parts * side) ** 2)


class Points:
    """Tracked corners, one per slot.

    xy : (CAPACITY, 2) positions in the last frame, NaN in free slots. A slot stays free for at
        least one frame: if it is in use in two consecutive frames, it is the same point.
    """

    def __init__(self) -> None:
        self.xy = np.full((CAPACITY, 2), np.nan, np.float32)
        self._free = np.arange(CAPACITY)

    def advance(self, before: Gray, after: Gray) -> float | None:
        """Track the points into the next frame; the fraction that survives, None if too few."""
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
        """Add new corners: dense in the boxes, sparse in the rest of the frame.

        boxes : each (4,), inside the frame, with the number of points that it has already.
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
        winSize=(16, 16),  # multiples of 8 take half the time of other sizes (measured)
        maxLevel=2,
        criteria=(cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 10, 0.03),
    )
    return np.asarray(target, np.float32), np.asarray(found).ravel() == 1


def _corners(gray: Gray, most: int, quality: float, spacing: int, where: Gray) -> Floats32:
    found = cv2.goodFeaturesToTrack(
        np.ascontiguousarray(gray), most, quality, spacing, mask=np.ascontiguousarray(where)
    )
    # OpenCV returns None if it finds none; its stubs omit that.
    return np.empty((0, 2), np.float32) if found is None else np.reshape(found, (-1, 2))


def in_use(xy: Floats32) -> Mask:
    """(CAPACITY,) the slots that hold a point."""
    return np.isfinite(xy[:, 0])


def inside(xy: Floats32, box: Floats) -> Mask:
    """(CAPACITY,) the points inside the box; free slots are not."""
    x, y = xy.T
    x1, y1, x2, y2 = box.tolist()
    return np.asarray((x >= x1) & (x <= x2) & (y >= y1) & (y <= y2))


def move_box(
    box: Floats, members: Mask, before: Floats32, after: Floats32
) -> tuple[Floats, Mask] | None:
    """The box in the next (or previous) frame, and its points there; None if it is lost.

    Translation and scale are those of the majority of ``members``. Outliers cease to be members,
    and points in the box that move with it become members, so an occluder is not tracked unless
    it covers nearly all of the object. With too few points the box moves with its surroundings;
    without any points it stays in place.

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
    return moved.ravel(), new_members & inside(after, enlarge(moved.ravel(), 1.1))


def _common_shift(before: Floats, after: Floats) -> Floats | None:
    """Translation (2,) with at least half of the points as inliers; None if there is none."""
    shifts = after - before
    shift = np.sort(shifts, axis=0)[len(shifts) // 2]  # the upper median; faster than np.median
    return shift if 2 * _near(shifts, shift).sum() >= len(shifts) else None


def _near(a: Floats | Floats32, b: Floats | Floats32) -> Mask:
    x, y = (a - b).T
    return np.asarray(x * x + y * y < AGREEMENT**2)


def _zoom(before: Floats, after: Floats, box: Floats) -> float:
    """Least-squares scale, regularised towards 1 like one more point in the box's corner."""
    weight = ((box[2:] - box[:2]) ** 2).sum() / 4
    zoom = ((before * after).sum() + weight) / ((before**2).sum() + weight)
    return float(np.clip(zoom, 1 / MAX_ZOOM, MAX_ZOOM))


def _move_with_surroundings(
    box: Floats, seen: Mask, before: Floats32, after: Floats32
) -> tuple[Floats, Mask] | None:
    outside = seen & ~inside(before, box)
    for around in (outside & inside(before, enlarge(box, 2.0)), outside):
        if around.sum() >= 2 * MIN_POINTS:
            shift = _common_shift(before[around].astype(float), after[around].astype(float))
            if shift is None:
                return None
            moved = box + np.tile(shift, 2)
            return moved, seen & inside(after, moved) & _near(after - before, shift)
    return box, seen & inside(after, box)
