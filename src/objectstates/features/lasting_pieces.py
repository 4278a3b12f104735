"""When each pixel changes from one lasting colour to another, any number of times.

A chain of changes may bring back the first picture (closed, open, closed), so that the pictures
before and after the clip say nothing. Each pixel's colours over time are therefore divided into
*pieces* of constant colour:

* The pieces are those of lowest cost: a Potts model, solved exactly by dynamic programming over
  some of the frames and a few candidate colours. A frame costs its squared distance to the colour
  of its piece, in units of `DISTANCE`, and at most 1; a step from a piece to the next costs
  `STEP_SHARE` of the frames. So what comes, and goes again within twice this share, such as a hand,
  is no piece, wherever in the clip it is.
* Two neighbouring pieces are then divided to the frame as ``change_profile.py`` divides a clip:
  each frame is as before (-1), as after (+1) or neither (0), and the step is where that fits best.

The constants were chosen on simulated clips of one and of two changes: with a smaller
`STEP_SHARE`, an arm that works for long counts as a change; with a larger one, states that last for
a quarter of a clip are missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.jit import compiled_exactly

Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

SAMPLES = 40  # frames, at most, that are divided into pieces
SAME_COLOUR = 4.0  # candidates closer than this are one
DISTANCE = 20.0  # of colours (Lab, 8 bit); a frame that differs by more is as bad as any
STEP_SHARE = 0.1  # of the frames; the cost of a step
MAX_STEPS = 8  # of a pixel; later ones are ignored


@dataclass(frozen=True)
class StepLimits:
    """half : difference of colours that counts half. ``least`` : a smaller one is not examined.

    tie : frames; divisions that are as good as the best to this are as likely.
    """

    half: float
    least: float
    tie: float


@dataclass(frozen=True, eq=False)
class PixelSteps:
    """The S steps of all pixels from one piece to the next; a pixel may have several or none.

    y, x : (S,) the pixel.
    first, last : (S,) frames between which it stepped.
    changed : (S,) 0 to 1, how surely the colours of both pieces differ.
    purity : (S,) share of the frames of both pieces that the step explains.
    """

    y: Ints
    x: Ints
    first: Ints
    last: Ints
    changed: Floats32
    purity: Floats32


def find_steps(images: Bytes, exposure: Floats32, limits: StepLimits) -> PixelSteps:
    """The steps of the pixels of aligned frames (n, h, w, 3), less their ``exposure`` (n, 3)."""
    count = len(images)
    rows = np.linspace(0, count - 1, min(count, SAMPLES)).astype(np.int64)
    samples = np.ascontiguousarray(images[rows].transpose(1, 2, 0, 3))
    limit = limits.half**2, limits.least**2, limits.tie
    frames, changed, purity = _steps(images, exposure, samples, rows, limit)
    layer, y, x = np.nonzero(changed)
    first, last = frames[layer, y, x].astype(np.int64).T
    return PixelSteps(y, x, first, last, changed[layer, y, x], purity[layer, y, x])


@compiled_exactly
def _steps(
    images: Bytes,
    exposure: Floats32,
    samples: Bytes,
    rows: Ints,
    limit: tuple[float, float, float],
) -> Any:
    """First and last frame (s, h, w, 2), change and purity (s, h, w) of each pixel's step s.

    samples : (h, w, k, 3) the frames ``rows`` (k,), with the colours of a pixel together.
    limit : ``half`` squared, ``least`` squared and ``tie`` of `StepLimits`.
    """
    count, (height, width, n) = len(images), samples.shape[:3]
    half, least, tie = limit
    frames = np.zeros((MAX_STEPS, height, width, 2), np.int32)
    changed = np.zeros((MAX_STEPS, height, width), np.float32)
    purity = np.zeros((MAX_STEPS, height, width), np.float32)
    colours = np.empty((n, 3), np.float32)
    for y in range(height):
        for x in range(width):
            for s in range(n):
                for c in range(3):
                    colours[s, c] = samples[y, x, s, c] - exposure[rows[s], c]
            candidates = _candidates(colours, least)
            if len(candidates) < 2:
                continue
            starts, means, spreads = _pieces(colours, candidates)
            for k in range(min(len(means) - 1, MAX_STEPS)):
                square = _square(means[k], means[k + 1])
                if square < least:
                    continue
                begin = rows[starts[k]]
                end = rows[starts[k + 2]] if starts[k + 2] < n else count
                low, high, pure = _divide(
                    images[begin:end, y, x], exposure[begin:end], means[k], means[k + 1], tie
                )
                frames[k, y, x, 0], frames[k, y, x, 1] = begin + low, begin + high
                noise = half + 4 * (spreads[k] + spreads[k + 1]) ** 2
                changed[k, y, x], purity[k, y, x] = square / (square + noise), pure
    return frames, changed, purity


@compiled_exactly
def _square(a: Floats32, b: Floats32) -> Any:
    """The squared distance of two colours."""
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2


@compiled_exactly
def _candidates(colours: Floats32, least: float) -> Any:
    """(b, 3) different ones of the medians of three samples each; one if all are about alike."""
    n = len(colours)
    found = np.empty((n // 3 + 1, 3), np.float32)
    count, differ = 0, False
    for s in range(0, max(n - 2, 1), 3):
        for c in range(3):
            one, two = colours[s, c], colours[min(s + 1, n - 1), c]
            three = colours[min(s + 2, n - 1), c]
            found[count, c] = max(min(one, two), min(max(one, two), three))
        known = False
        for b in range(count):
            square = _square(found[b], found[count])
            known = known or square < SAME_COLOUR**2
            differ = differ or square >= least
        if not known:
            count += 1
    return found[: count if differ else 1]


@compiled_exactly
def _pieces(colours: Floats32, candidates: Floats32) -> Any:
    """First samples of the p pieces, and their end (p + 1,); mean colours (p, 3); spreads (p,).

    The spread is the mean absolute deviation, summed over channels. Samples that are far from the
    candidate of their piece do not count.
    """
    n, labels = len(colours), _labels(colours, candidates)
    starts, count = np.empty(n + 1, np.int64), 0
    for s in range(n):
        if s == 0 or labels[s] != labels[s - 1]:
            starts[count] = s
            count += 1
    starts[count] = n
    means, spreads = np.empty((count, 3), np.float32), np.zeros(count, np.float32)
    near = np.empty(n, np.bool_)
    for k in range(count):
        total, colour = np.zeros(3, np.float32), candidates[labels[starts[k]]]
        n_near = 0
        for s in range(starts[k], starts[k + 1]):
            near[s] = _square(colours[s], colour) < DISTANCE**2
            if near[s]:
                total += colours[s]
                n_near += 1
        means[k] = total / n_near if n_near else colour
        for s in range(starts[k], starts[k + 1]):
            if near[s]:
                spreads[k] += np.abs(colours[s] - means[k]).sum() / n_near
    return starts[: count + 1], means, spreads


@compiled_exactly
def _labels(colours: Floats32, candidates: Floats32) -> Any:
    """(n,) the candidate of each sample's piece, at the lowest total cost.

    Samples near either end count half: what is seen there only takes one step instead of two, and
    must last as long to be a piece.
    """
    n, b = len(colours), len(candidates)
    origin = np.empty((n, b), np.int64)
    cost, step_cost = np.zeros(b), STEP_SHARE * n
    for s in range(n):
        cheapest = int(np.argmin(cost))
        after_step = cost[cheapest] + step_cost
        near_end = min(s, n - 1 - s) < 2 * step_cost
        weight = 0.5 if near_end else 1.0
        for k in range(b):
            origin[s, k] = k
            if s and after_step < cost[k]:
                cost[k] = after_step
                origin[s, k] = cheapest
            cost[k] += weight * min(_square(colours[s], candidates[k]) / DISTANCE**2, 1.0)
    labels = np.empty(n, np.int64)
    labels[n - 1] = np.argmin(cost)
    for s in range(n - 1, 0, -1):
        labels[s - 1] = origin[s, labels[s]]
    return labels


@compiled_exactly
def _divide(
    colours: Bytes, exposure: Floats32, before: Floats32, after: Floats32, tie: float
) -> Any:
    """First and last frame at which a pixel may have stepped, and its purity."""
    count, largest = len(colours), _square(before, after)
    balance, colour = np.empty(count), np.empty(3, np.float32)
    running, best = 0.0, -np.inf
    for t in range(count):
        for c in range(3):
            colour[c] = colours[t, c] - exposure[t, c]
        balance[t] = running  # of the frames before t: -1 each where all are as before
        nearer = min(_square(colour, before), largest) - min(_square(colour, after), largest)
        running += nearer / largest
    for t in range(1, count):
        best = max(best, running - 2 * balance[t])
    low, high = 0, 0
    for t in range(1, count):
        if running - 2 * balance[t] >= best - tie:
            low = low or t
            high = t
    return low, high, max(best, 0.0) / count
