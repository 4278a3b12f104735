"""How far a region of a clip moves from frame to frame.

The region's motion between two frames is the one translation that explains their difference best
(Lucas & Kanade, IJCAI 1981): the least squares over all its pixels, by their weights. Pixels at
rest and pixels that move with the region both take part, so it is the mean over the region, and
slows down where only a part moves. The region is the place of a change (``change_profile.py``),
which is larger than the object. That is meant: the number is compared over time, and in one clip.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.jit import compiled

Floats32 = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

LEAST_WEIGHT = 0.05  # of a pixel that is looked at
LEAST_GRADIENT = 0.1  # of the largest in the clip, added to all: a plain surface in front of the
# region, such as an arm, shows no motion instead of an arbitrary one


def region_motion(images: Bytes, exposure: Floats32, weights: Floats32) -> Floats32:
    """(n,) distance in picture widths by which the region moved since the frame before; first 0.

    images : (n, h, w, 3), aligned. ``exposure`` : (n, 3), subtracted from them.
    weights : (h, w) of the region's pixels; those at the border of the picture are left out.
    """
    count, _, width, _ = images.shape
    inside = np.zeros(weights.shape, bool)
    inside[1:-1, 1:-1] = weights[1:-1, 1:-1] >= LEAST_WEIGHT
    if not inside.any():
        return np.zeros(count, np.float32)
    rows, columns = np.nonzero(inside)
    xx, xy, yy, xt, yt = _products(images, exposure, rows, columns, weights[inside]).T
    least = LEAST_GRADIENT * (xx + yy).max() / 2 + 1e-9
    xx, yy = xx + least, yy + least
    across, down = yy * xt - xy * yt, xx * yt - xy * xt
    return np.asarray(np.hypot(across, down) / (xx * yy - xy**2) / width, np.float32)


@compiled
def _products(images: Bytes, exposure: Floats32, rows: Any, columns: Any, weights: Floats32) -> Any:
    """(n, 5) weighted sums over pixels and colours of the products xx, xy, yy, xt and yt of the
    derivatives, each between a frame and the one before."""
    count = len(images)
    sums = np.zeros((count, 5))
    for t in range(1, count):
        now, before = images[t], images[t - 1]
        for k in range(len(rows)):
            y, x, weight = rows[k], columns[k], weights[k]
            for c in range(3):
                gx = (float(now[y, x + 1, c]) - float(now[y, x - 1, c])) / 4
                gx += (float(before[y, x + 1, c]) - float(before[y, x - 1, c])) / 4
                gy = (float(now[y + 1, x, c]) - float(now[y - 1, x, c])) / 4
                gy += (float(before[y + 1, x, c]) - float(before[y - 1, x, c])) / 4
                step = float(now[y, x, c]) - float(before[y, x, c])
                step -= exposure[t, c] - exposure[t - 1, c]
                sums[t, 0] += weight * gx * gx
                sums[t, 1] += weight * gx * gy
                sums[t, 2] += weight * gy * gy
                sums[t, 3] += weight * gx * step
                sums[t, 4] += weight * gy * step
    return sums
