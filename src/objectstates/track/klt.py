"""Point tracking (KLT), propagation of boxes by points, and detection of cuts.

Corners are tracked by pyramidal Lucas-Kanade with a forward-backward check. The translation and
scale of a box are those of most of its points, as in median flow (Kalal et al., Forward-backward
error: automatic detection of tracking failures, ICPR 2010).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.jit import compiled_exactly

Gray = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

# For frames of about 320 x 240 pixels; heuristics, checked on the scenes of tests/track.
CAPACITY = 512  # points tracked at once
SPACING = 18  # pixels between points anywhere in the frame
FINE_SPACING = 4  # pixels between points in a detected box
PER_BOX = 30  # points sought in a detected box
SMALLEST_SIDE = 16  # pixels; smaller frames get no points (the window of the tracker)
BACK_ERROR = 1.0  # pixels; largest forward-backward error
AGREEMENT = 1.5  # pixels; largest deviation of an inlier from the common motion
MIN_POINTS = 4  # to estimate a motion
MAX_ZOOM = 1.15  # change of a box's scale between two frames
MIN_SIDE = 2.0  # pixels of a box
MIN_INSIDE = 0.3  # fraction of a box's area that must be inside the frame
KEPT_MARGIN = 1.1  # of a box: points outside of the box enlarged by it are no longer its own
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
    box: Floats, members: Mask, before: Floats32, after: Floats32, shape: tuple[int, ...]
) -> tuple[Floats, Mask] | None:
    """The box in the next (or previous) frame, and its points there; None if it is lost.

    It is also lost when it leaves the frame or vanishes.

    Translation and scale are those of the majority of ``members``. Outliers cease to be members,
    and points in the box that move with it become members, so an occluder is not tracked unless
    it covers nearly all of the object. With too few points the box moves with its surroundings;
    without any points it stays in place.

    before, after : (CAPACITY, 2) the points in the two frames.
    shape : height and width of the frames.
    """
    height, width = shape
    found, moved, new_members = _visible_box(box, members, before, after, height, width)
    return (moved, new_members) if found else None


@compiled_exactly
def _visible_box(
    box: Floats, members: Mask, before: Floats32, after: Floats32, height: int, width: int
) -> Any:
    """Whether the box is found and visible, the box, and its points."""
    found, moved, new_members = _move_box(box, members, before, after)
    return found and _is_visible(moved, float(height), float(width)), moved, new_members


@compiled_exactly
def _is_visible(box: Floats, height: float, width: float) -> bool:
    """Whether a box is large enough, and enough of it inside the frame."""
    wide, high = box[2] - box[0], box[3] - box[1]
    if min(wide, high) < MIN_SIDE:
        return False
    within_x = min(max(box[2], 0.0), width) - min(max(box[0], 0.0), width)
    within_y = min(max(box[3], 0.0), height) - min(max(box[1], 0.0), height)
    return bool(within_x * within_y >= MIN_INSIDE * wide * high)


@compiled_exactly
def _move_box(box: Floats, members: Mask, before: Floats32, after: Floats32) -> Any:
    """Whether the box is found, the box, and its points."""
    seen = np.isfinite(before[:, 0]) & np.isfinite(after[:, 0])
    voters = members & seen
    if members.sum() >= 2 * MIN_POINTS > 2 * voters.sum():
        return False, box, seen
    if voters.sum() < MIN_POINTS:
        return _move_with_surroundings(box, seen, before, after)
    found, shift_x, shift_y = _common_shift(voters, before, after)
    if not found:
        return False, box, seen
    middle, centre = np.zeros(2), np.zeros(2)
    agree = voters & _moves_by(before, after, shift_x, shift_y)
    for k in np.flatnonzero(agree):
        middle += before[k]
        centre += after[k]
    middle /= agree.sum()
    centre /= agree.sum()
    zoom = _zoom(agree, before, after, middle, centre, box)
    moved = np.empty(4)
    for side in range(4):
        moved[side] = (box[side] - middle[side % 2]) * zoom + centre[side % 2]
    left, top, right, bottom = _enlarged(moved, KEPT_MARGIN)
    new_members = np.zeros_like(members)
    for k in np.flatnonzero(seen):
        if members[k] or _is_inside(before[k], box[0], box[1], box[2], box[3]):
            x = after[k, 0] - centre[0] - (before[k, 0] - middle[0]) * zoom
            y = after[k, 1] - centre[1] - (before[k, 1] - middle[1]) * zoom
            near = x * x + y * y < AGREEMENT**2
            new_members[k] = near and _is_inside(after[k], left, top, right, bottom)
    return True, moved, new_members


@compiled_exactly
def _move_with_surroundings(box: Floats, seen: Mask, before: Floats32, after: Floats32) -> Any:
    left, top, right, bottom = _enlarged(box, 2.0)
    outside, around = np.zeros_like(seen), np.zeros_like(seen)
    for k in np.flatnonzero(seen):
        outside[k] = not _is_inside(before[k], box[0], box[1], box[2], box[3])
        around[k] = outside[k] and _is_inside(before[k], left, top, right, bottom)
    for which in range(2):
        voters = outside if which else around
        if voters.sum() >= 2 * MIN_POINTS:
            found, x, y = _common_shift(voters, before, after)
            moved = box + np.array([x, y, x, y])
            near = seen & _moves_by(before, after, x, y)
            return found, moved, _all_inside(near, after, moved)
    return True, box.copy(), _all_inside(seen, after, box)


@compiled_exactly
def _common_shift(voters: Mask, before: Floats32, after: Floats32) -> Any:
    """Whether at least half of the voters have one translation, and its x and y."""
    indices = np.flatnonzero(voters)
    shifts = np.empty((2, len(indices)))
    for i, k in enumerate(indices):
        for axis in range(2):
            shifts[axis, i] = np.float64(after[k, axis]) - np.float64(before[k, axis])
    half = len(indices) // 2  # the upper median
    x, y = np.sort(shifts[0])[half], np.sort(shifts[1])[half]
    return 2 * (voters & _moves_by(before, after, x, y)).sum() >= len(indices), x, y


@compiled_exactly
def _moves_by(before: Floats32, after: Floats32, x: float, y: float) -> Any:
    """(CAPACITY,) the points that move nearly so far; free slots do not."""
    near = np.zeros(len(before), np.bool_)
    for k in range(len(before)):
        dx = np.float64(after[k, 0]) - np.float64(before[k, 0]) - x
        dy = np.float64(after[k, 1]) - np.float64(before[k, 1]) - y
        near[k] = dx * dx + dy * dy < AGREEMENT**2
    return near


@compiled_exactly
def _zoom(
    agree: Mask, before: Floats32, after: Floats32, middle: Floats, centre: Floats, box: Floats
) -> float:
    """Least-squares scale, regularised towards 1 like one more point in the box's corner."""
    weight = ((box[2] - box[0]) ** 2 + (box[3] - box[1]) ** 2) / 4
    product, square = weight, weight
    for k in np.flatnonzero(agree):
        for axis in range(2):
            origin = before[k, axis] - middle[axis]
            product += origin * (after[k, axis] - centre[axis])
            square += origin * origin
    return float(min(max(product / square, 1 / MAX_ZOOM), MAX_ZOOM))


@compiled_exactly
def _enlarged(box: Floats, factor: float) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a box enlarged about its centre."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    across, down = factor * (box[2] - box[0]) / 2, factor * (box[3] - box[1]) / 2
    return x - across, y - down, x + across, y + down


@compiled_exactly
def _is_inside(point: Floats32, left: float, top: float, right: float, bottom: float) -> bool:
    return bool(left <= point[0] <= right and top <= point[1] <= bottom)


@compiled_exactly
def _all_inside(which: Mask, xy: Floats32, box: Floats) -> Any:
    """(CAPACITY,) those of some points that lie inside the box."""
    within = np.zeros_like(which)
    for k in np.flatnonzero(which):
        within[k] = _is_inside(xy[k], box[0], box[1], box[2], box[3])
    return within
