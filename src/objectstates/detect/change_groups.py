"""Groups of pixels that step together in time: what a manipulation changed, apart from the rest.

The pixels that an object leaves or reaches change within the time in which it moves. Shadows and
the arm, at rest elsewhere in the end, change at other times, even where they are adjacent. So the
changed pixels are linked with neighbours whose step is close in time, and what is connected is a
group. How close, and how much change counts, depends on the scene: groups are formed at several of
both, and boxes around all of them compete (``change_boxes.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from objectstates.base.jit import compiled
from objectstates.features.change_profile import HALF_DIFFERENCE, ClipChange

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

MAX_SHIFT = 2  # pixels of misalignment: the best match within is taken
# Chosen on 30 simulated training clips and 60 real ones; recall varies by 0.05 around these values.
LEAST_CHANGES = (0.15, 0.35, 0.6)  # of linked pixels; shadows change less than objects
TIME_GAPS = (0.15, 0.5, np.inf)  # seconds between linked pixels: an object that moves fast, slowly
REACH = 2  # pixels between linked ones: bridges a line of unchanged colour
LEAST_PIXELS = 8
MAX_GROUPS = 10  # for each pair of the above, the largest; objects are small beside an arm
SAME = 0.1  # of a group's pixels: another one that differs in fewer is a duplicate


@dataclass(frozen=True, eq=False)
class Group:
    """Pixels that step together.

    mask : (h, w), the pixels.
    pixels : their number.
    box : (4,) bounding box in pixels.
    start, end : seconds; the 10th and 90th percentile of the steps.
    """

    mask: Mask
    pixels: int
    box: Floats
    start: float
    end: float


def certain_change(change: ClipChange) -> Floats32:
    """(h, w) the possible change, less where a shift of the picture by some pixels explains it."""
    there = _difference(change.before, change.after, MAX_SHIFT)
    back = _difference(change.after, change.before, MAX_SHIFT)
    square = np.maximum(there, back)
    return np.minimum(change.possible, square / (square + np.float32(HALF_DIFFERENCE**2)))


def find_groups(amount: Floats32, step: Floats32) -> list[Group]:
    """The groups at all of `LEAST_CHANGES` and `TIME_GAPS`, without duplicates.

    amount : (h, w), 0 to 1.
    step : (h, w, 2) seconds between which a pixel stepped.
    """
    time = step.mean(axis=2)
    found: list[Group] = []
    for least in LEAST_CHANGES:
        for gap in TIME_GAPS:
            labels, count = _linked(amount, time, least, gap, REACH)
            pixels = np.bincount(labels.ravel(), minlength=count + 1)
            mass = np.bincount(labels.ravel(), amount.ravel(), count + 1)
            mass[0] = 0.0  # of pixels in no group
            largest = np.argsort(-mass, kind="stable")[:MAX_GROUPS]
            for k in largest[pixels[largest] >= LEAST_PIXELS].tolist():
                if k == 0:
                    continue
                group = _group(labels == k, time)
                if not any(_is_same(group, other) for other in found):
                    found.append(group)
    return found


def _is_same(group: Group, other: Group) -> bool:
    limit = SAME * group.pixels
    if abs(group.pixels - other.pixels) >= limit:  # cheaper
        return False
    return bool(np.count_nonzero(group.mask ^ other.mask) < limit)


def _group(mask: Mask, time: Floats32) -> Group:
    y, x = np.nonzero(mask)
    box = np.array([x.min(), y.min(), x.max() + 1, y.max() + 1], np.float64)
    start, end = np.quantile(time[mask], [0.1, 0.9])
    return Group(mask, len(x), box, float(start), float(end))


@compiled
def _linked(
    amount: Floats32, time: Floats32, least: float, gap: float, reach: int
) -> tuple[npt.NDArray[np.int64], int]:
    """(h, w) labels of connected pixels, 1 to count, and 0 where nothing changed; their count."""
    height, width = amount.shape
    labels = np.zeros((height, width), np.int64)
    stack = np.empty((height * width, 2), np.int64)
    count = 0
    for first_y in range(height):
        for first_x in range(width):
            if labels[first_y, first_x] or amount[first_y, first_x] <= least:
                continue
            count += 1
            labels[first_y, first_x] = count
            stack[0] = first_y, first_x
            waiting = 1
            while waiting:
                waiting -= 1
                y, x = stack[waiting]
                for v in range(max(0, y - reach), min(height, y + reach + 1)):
                    for u in range(max(0, x - reach), min(width, x + reach + 1)):
                        if labels[v, u] or amount[v, u] <= least:
                            continue
                        if abs(time[v, u] - time[y, x]) <= gap:
                            labels[v, u] = count
                            stack[waiting] = v, u
                            waiting += 1
    return labels, count


@compiled
def _difference(image: Floats32, other: Floats32, shift: int) -> Floats32:
    """(h, w) squared distance of a pixel's colour to the nearest within ``shift`` in the other."""
    height, width, channels = image.shape
    least = np.empty((height, width), np.float32)
    for y in range(height):
        for x in range(width):
            best = np.float32(np.inf)
            for v in range(max(0, y - shift), min(height, y + shift + 1)):
                for u in range(max(0, x - shift), min(width, x + shift + 1)):
                    square = np.float32(0.0)
                    for c in range(channels):
                        square += (image[y, x, c] - other[v, u, c]) ** 2
                    best = min(best, square)
            least[y, x] = best
    return least
