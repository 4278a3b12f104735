"""The change profile of a clip: when, and where, the picture changes for good.

A manipulation changes the state of an object, so the place of the object looks one way before and
another way after. A hand that passes leaves no such change. This can be seen in a single clip,
without learning, and in any scene:

* The picture before is the median of the first quarter of the frames, the picture after that of the
  last. A pixel has *changed* if they differ by more than the pixel varies within either.
* Each frame shows a changed pixel as before (-1), as after (+1), or as something else, such as the
  hand in front of it (0). The pixel's *step* is the time that best divides the frames of the first
  kind from those of the second; its *purity* is the share of all frames that this step explains.
* Neighbouring pixels that step together form a *group*. Single pixels are noise. Groups that touch
  the border count little: they are what reaches into the picture and stays, such as an arm.
* The *curve* is the histogram of steps over time, each pixel weighted by its change and purity. A
  pixel that is hidden when it changes spreads its weight over the time that it is hidden.
* The *local* curve is the same of changes that last within a part of the clip, and may be undone
  later: pixels are divided into any number of pieces (``lasting_pieces.py``). In a clip of one
  change it shows the same, less clearly.
* The *motion* of all these pixels together (``region_motion.py``) tells how fast it goes. Steps do
  not: in a slow action their number depends on texture, and on what the hand hides.

Changes of exposure are removed from each frame first, and the camera's motion before that
(``aligned_frames.py``). A cut is no change: each shot of a clip is examined by itself, and counts
less the shorter it is, since less is known to last. The constants were chosen on simulated training
clips, whole and cut short at either end, and on 41 real clips with times by eye:
docs/evaluation.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.jit import compiled, compiled_exactly
from objectstates.data.clips import MAX_WHERE_WIDTH, ChangeProfile
from objectstates.features.aligned_frames import AlignedFrames, read_aligned
from objectstates.features.lasting_pieces import StepLimits, find_steps
from objectstates.features.region_motion import region_motion

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

VERSION = 8  # of profiles, part of cache keys: raise it when their content may change
END_SHARE = 0.25  # of the frames, at either end: pictures before and after
MEDIAN_FRAMES = 15  # at most, for each of these
HALF_DIFFERENCE = 15.0  # of colours (Lab, 8 bit); counts half
LEAST_DIFFERENCE = 5.0  # a smaller one is not examined
PURITY_POWER = 8  # a pixel that half of the frames contradict counts nothing
TIE = 0.5  # frames; steps that divide a pixel's frames as well as the best to this are as likely
GROUP_SECONDS = 0.25  # pixels that step within this time may form a group
GROUP_AMOUNT = 0.1  # the least amount of a pixel in a group
GROUP_PIXELS = 4  # of the smallest group
SHOT_POWER = 2  # of a shot's share of the frames: its weight
AT_BORDER = 0.1  # factor on groups that touch the border
LOCAL_PURITY_POWER = 16  # as `PURITY_POWER`, of the local curve, which a hand misleads more easily


@dataclass(frozen=True, eq=False)
class ClipChange:
    """What changed in a clip, in the coordinates of its middle frame at (h, w) pixels.

    Of a clip with cuts, pictures are of one shot, and the middle frame is that shot's.

    times : (n,) seconds of the frames.
    cameras : (n, 3, 3) homographies from the middle frame's pixels to each frame's.
    before, after : (h, w, 3) 8-bit Lab.
    amount : (h, w) 0 to 1, how surely the pixel has changed for good.
    step : (h, w, 2) seconds; between them the pixel stepped.
    curve : (n,) share of the picture that changes for good in each frame.
    possible : (h, w) 0 to 1, as ``amount``, but less strict about purity, and without groups: it
        also shows what is hidden for long, and small things.
    shown : (n,) whether a frame is of the shot that all pictures are of.
    scale : pixels of the video per pixel.
    local : (n,) as ``curve``, of what changes for a part of the clip at least.
    motion : (n,) distance in picture widths by which the pixels of both curves moved since the
        frame before, together.
    """

    times: Floats
    period: float
    cameras: Floats
    before: Floats32
    after: Floats32
    amount: Floats32
    step: Floats32
    curve: Floats32
    possible: Floats32
    shown: npt.NDArray[np.bool_]
    scale: float = 1.0
    local: Floats32 | None = None
    motion: Floats32 | None = None


def clip_change(
    path: str | Path,
    start: float | None,
    end: float | None,
    *,
    image_fps: float = 25.0,
    origin: float | None = None,
) -> ClipChange:
    """Read the frames of ``[start, end)`` seconds of a video, and find what changes for good.

    image_fps : frame rate of a folder of images.
    origin : see `read_aligned`: all times are then seconds from there.
    """
    return change_of(read_aligned(path, start, end, image_fps=image_fps, origin=origin))


def change_of(shots: Sequence[AlignedFrames]) -> ClipChange:
    """What changes for good in a clip of some shots."""
    return join_shots([find_change(shot) for shot in shots])


def join_shots(shots: Sequence[ClipChange]) -> ClipChange:
    """The change of a clip of several shots: the curves of all of them, by their weights.

    All pictures are those of the shot with the most change, by weight. Other shots show other
    places.
    """
    if len(shots) == 1:
        return shots[0]
    times = np.concatenate([shot.times for shot in shots])
    weights = [(len(shot.times) / len(times)) ** SHOT_POWER for shot in shots]
    curves = [np.float32(w) * shot.curve for w, shot in zip(weights, shots, strict=True)]
    main = shots[int(np.argmax([curve.sum() for curve in curves]))]
    inside = (times >= main.times[0]) & (times <= main.times[-1])
    cameras = np.tile(np.eye(3), (len(times), 1, 1))
    cameras[inside] = main.cameras
    return replace(
        main,
        times=times,
        cameras=cameras,
        curve=np.concatenate(curves),
        local=_joined([shot.local for shot in shots], weights),
        motion=_joined([shot.motion for shot in shots], weights),
        shown=inside,
    )


def _joined(curves: Sequence[Floats32 | None], weights: Sequence[float]) -> Floats32 | None:
    """The curves of all shots by their weights; None if one is not known."""
    parts = [np.float32(w) * c for w, c in zip(weights, curves, strict=True) if c is not None]
    return np.concatenate(parts) if len(parts) == len(curves) else None


def find_change(frames: AlignedFrames) -> ClipChange:
    """What changes for good in the aligned frames of a shot."""
    count, height, width = frames.images.shape[:3]
    images, exposure = frames.images, _exposure(frames.images)
    n_end = max(1, round(END_SHARE * count))
    before, spread_before = _median(images[:n_end], exposure[:n_end])
    after, spread_after = _median(images[-n_end:], exposure[-n_end:])
    square = ((after - before) ** 2).sum(axis=2)
    noise = HALF_DIFFERENCE**2 + 4 * (spread_before + spread_after) ** 2
    first, last, purity = _steps(images, exposure, before, after, square)
    changed = square / (square + noise)
    possible = (changed * purity).astype(np.float32)
    amount = (changed * purity**PURITY_POWER).astype(np.float32)
    middle = (frames.times[first] + frames.times[last]) / 2
    amount *= _group_weights(amount, middle)
    curve = _histogram(first, last, amount, count) / (height * width)
    step = np.stack([frames.times[first], frames.times[last]], axis=2).astype(np.float32)
    local, local_amount = _local_curve(frames, exposure)
    return ClipChange(
        times=frames.times,
        period=frames.period,
        cameras=frames.cameras,
        before=before,
        after=after,
        amount=amount,
        step=step,
        curve=curve,
        possible=possible,
        shown=np.ones(count, bool),
        scale=frames.scale,
        local=local,
        motion=region_motion(images, exposure, np.maximum(amount, local_amount)),
    )


def _local_curve(frames: AlignedFrames, exposure: Floats32) -> tuple[Floats32, Floats32]:
    """(n,) share of the picture that changes in each frame, and not back at once; and (h, w) 0 to
    1, how surely each pixel does so.
    """
    count, height, width = frames.images.shape[:3]
    limits = StepLimits(half=HALF_DIFFERENCE, least=LEAST_DIFFERENCE, tie=TIE)
    steps = find_steps(frames.images, exposure, limits)
    amount = steps.changed * steps.purity**LOCAL_PURITY_POWER
    middle = (frames.times[steps.first] + frames.times[steps.last]) / 2
    grouped = np.flatnonzero(amount >= GROUP_AMOUNT)
    weights = np.zeros(len(amount), np.float32)
    for shift in (0.0, 0.5):  # as in `_group_weights`
        bins = np.floor(middle[grouped] / GROUP_SECONDS + shift)
        order = np.argsort(bins, kind="stable")
        edges = np.flatnonzero(np.diff(bins[order])) + 1
        for rows in np.split(grouped[order], edges):
            mask = np.zeros((height, width), np.uint8)
            mask[steps.y[rows], steps.x[rows]] = 1
            weights[rows] += _component_weights(mask)[steps.y[rows], steps.x[rows]] / 2
    amount = (amount * weights).astype(np.float32)
    largest = np.zeros((height, width), np.float32)
    np.maximum.at(largest, (steps.y, steps.x), amount)
    curve = _histogram(steps.first, steps.last, amount / np.float32(height * width), count)
    return curve, largest


def _exposure(images: Bytes) -> Floats32:
    """(n, 3) the median over each frame's pixels of the difference to a common picture.

    It is subtracted from pixels as they are used: the frames as float32 would take 70 MB.
    """
    picture, _ = _median(images, np.zeros((len(images), 3), np.float32))
    return np.asarray(_offsets(images[:, ::4, ::4], picture[::4, ::4]))


@compiled_exactly
def _offsets(images: Bytes, picture: Floats32) -> Any:
    """(n, 3) medians over the pixels of images less a picture of whole or half numbers."""
    count, height, width, _ = images.shape
    offsets = np.empty((count, 3), np.float32)
    below, above = (height * width - 1) // 2, height * width // 2  # ranks of the median
    for t in range(count):
        for c in range(3):
            histogram = np.zeros(4 * 255 + 1, np.int64)  # of twice the difference
            for y in range(height):
                for x in range(width):
                    histogram[int(2 * (images[t, y, x, c] - picture[y, x, c])) + 2 * 255] += 1
            low, high, passed = -1, 0, 0
            for value in range(len(histogram)):
                passed += histogram[value]
                if low < 0 and passed > below:
                    low = value
                if passed > above:
                    high = value
                    break
            offsets[t, c] = (low + high) / 4 - 255
    return offsets


def _median(images: Bytes, exposure: Floats32) -> tuple[Floats32, Floats32]:
    """The median (h, w, 3) and the median absolute deviation (h, w) of each pixel."""
    rows = np.linspace(0, len(images) - 1, min(len(images), MEDIAN_FRAMES)).astype(int)
    median, deviation = _pixel_medians(images[rows], exposure[rows])
    return median, deviation


@compiled_exactly
def _pixel_medians(images: Bytes, exposure: Floats32) -> Any:
    """The same of few images; a row of pixels at a time, whose medians are found together."""
    count, height, width, _ = images.shape
    median = np.empty((height, width, 3), np.float32)
    deviation = np.empty((height, width), np.float32)
    values, distance = (
        np.empty((count, 3 * width), np.float32),
        np.empty((count, width), np.float32),
    )
    for y in range(height):
        for t in range(count):
            for x in range(width):
                for c in range(3):
                    values[t, 3 * x + c] = images[t, y, x, c] - exposure[t, c]
        _medians_of(values, median[y].reshape(3 * width))
        for t in range(count):
            for x in range(width):
                total = np.float32(0)
                for c in range(3):
                    colour = images[t, y, x, c] - exposure[t, c]
                    total += abs(colour - median[y, x, c])
                distance[t, x] = total
        _medians_of(distance, deviation[y])
    return median, deviation


@compiled_exactly
def _medians_of(values: Floats32, out: Floats32) -> None:
    """Write the medians of the columns (n, m) to ``out`` (m,); columns are sorted up to them.

    By a sorting network: the same comparisons for all columns, which the compiler vectorises.
    """
    count, width = values.shape
    for low in range(count // 2 + 1):
        for high in range(count - 1, low, -1):
            for k in range(width):
                one, two = values[high - 1, k], values[high, k]
                values[high - 1, k] = one if one < two else two
                values[high, k] = two if one < two else one
    for k in range(width):
        out[k] = (values[(count - 1) // 2, k] + values[count // 2, k]) / 2


@compiled
def _steps(
    images: Bytes, exposure: Floats32, before: Floats32, after: Floats32, square: Floats32
) -> Any:
    """First and last frame at which each pixel may have stepped, and its purity; (h, w) each."""
    count, height, width, _ = images.shape
    first = np.zeros((height, width), np.int64)
    last = np.zeros((height, width), np.int64)
    purity = np.zeros((height, width), np.float32)
    balance = np.empty(count + 1)
    for y in range(height):
        for x in range(width):
            largest = square[y, x]
            if largest < LEAST_DIFFERENCE**2:
                continue
            running, best = 0.0, -np.inf
            for t in range(count):
                from_before, from_after = 0.0, 0.0
                for c in range(3):
                    colour = images[t, y, x, c] - exposure[t, c]
                    from_before += (colour - before[y, x, c]) ** 2
                    from_after += (colour - after[y, x, c]) ** 2
                side = (min(from_before, largest) - min(from_after, largest)) / largest
                balance[t] = running  # of the frames before t: -1 each where all are as before
                running += side
            for t in range(1, count):
                best = max(best, running - 2 * balance[t])
            low, high = -1, 0
            for t in range(1, count):
                if running - 2 * balance[t] >= best - TIE:
                    low = t if low < 0 else low
                    high = t
            first[y, x], last[y, x] = low, high
            purity[y, x] = max(best, 0.0) / count
    return first, last, purity


def _group_weights(amount: Floats32, time: Floats) -> Floats32:
    """(h, w) 1 for pixels in a group, `AT_BORDER` if it touches the border, 0 outside of groups.

    Groups are found in two sets of time bins, shifted by half a bin, so that no group is always
    divided between two; the weights are the means of both.
    """
    height, width = amount.shape
    weights = np.zeros((height, width), np.float32)
    for shift in (0.0, 0.5):
        bins = np.where(amount >= GROUP_AMOUNT, np.floor(time / GROUP_SECONDS + shift), np.nan)
        for number in np.unique(bins[np.isfinite(bins)]):
            mask = (bins == number).astype(np.uint8)
            weights += _component_weights(mask) / 2
    return weights


def _component_weights(mask: Bytes) -> Floats32:
    """(h, w) 1 for pixels of the connected components of a mask, less as in `_group_weights`."""
    height, width = mask.shape
    _, groups, boxes, _ = cv2.connectedComponentsWithStats(mask)
    x1, y1, wide, high, area = boxes.T
    at_border = (x1 <= 1) | (y1 <= 1) | (x1 + wide >= width - 1) | (y1 + high >= height - 1)
    weight = np.where(at_border, AT_BORDER, 1.0) * (area >= GROUP_PIXELS)
    weight[0] = 0  # the background
    return np.asarray(weight[groups].astype(np.float32))


def _histogram(
    first: npt.NDArray[np.int64], last: npt.NDArray[np.int64], amount: Floats32, count: int
) -> Floats32:
    """(n,) the amounts by frame, each divided among the frames from its first to its last."""
    each = (amount / (last - first + 1)).ravel()
    edges = np.bincount(first.ravel(), each, count + 1)[: count + 1]
    edges -= np.bincount(last.ravel() + 1, each, count + 1)[: count + 1]
    return np.maximum(np.cumsum(edges[:count]), 0).astype(np.float32)


# --- the profile that is kept ---------------------------------------------------------------------

SHORTEST_BIN = 1 / 30  # seconds


def profile_of(change: ClipChange) -> ChangeProfile:
    """The curves in bins of equal length, and the amounts at low resolution.

    What changes in a frame changed since the frame before, so it is divided evenly among the bins
    in between: irregular frames leave no gaps. The bins sum to what the frames do.
    """
    step, times = max(change.period, SHORTEST_BIN), change.times
    n_bins = max(1, int(np.ceil((times[-1] - times[0]) / step - 1e-6)))

    def binned(curve: Floats32) -> Floats32:
        until = np.interp(times[0] + step * np.arange(1, n_bins), times, np.cumsum(curve))
        bins = np.diff(until, prepend=0.0, append=curve.sum(dtype=np.float64))
        return np.asarray(np.maximum(bins, 0).astype(np.float32))

    height, width = change.amount.shape
    factor = min(1.0, MAX_WHERE_WIDTH / width)
    size = max(1, round(width * factor)), max(1, round(height * factor))
    amount = cv2.resize(change.amount, size, interpolation=cv2.INTER_AREA)
    return ChangeProfile(
        start=float(times[0]),
        step=step,
        curve=binned(change.curve),
        where=np.round(255 * np.clip(amount, 0, 1)).astype(np.uint8),
        scale=change.scale * width / size[0],
        local=None if change.local is None else binned(change.local),
        motion=None if change.motion is None else binned(change.motion),
    )
