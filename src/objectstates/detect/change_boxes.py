"""Boxes for what a manipulation changed, scored by change and by objectness.

The candidates are the bounding boxes of groups of pixels that step together, and windows of usual
shapes. The former fit what moved: a lid, a drawer's front. The latter may fit the whole object, of
which a group shows a part. A candidate scores high if for some group

* it holds the group (*held*: the share of the group's change inside);
* it holds what else changes at that time (*complete*: the share of that change inside), and
* it holds nothing else that changes (*pure*: the share of the change inside that is of that time);
* its colours differ from those around it (*contrast*), in the picture before the step or in the one
  after it: the place that an object has left, or not yet reached, looks like its surroundings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from objectstates.base import geometry
from objectstates.base.geometry import iou
from objectstates.base.jit import compiled
from objectstates.detect.change_groups import Group, certain_change, find_groups
from objectstates.detect.nms import NMS_IOU, suppress
from objectstates.detect.proposals import dense_boxes
from objectstates.features.change_profile import ClipChange

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

SIZES = np.geomspace(0.1, 0.75, 9)  # of windows: side of a square of the same area, of the frame's
ASPECTS = (0.6, 0.77, 1.0, 1.3, 1.67)  # square root of width / height
WINDOW_STEP = 4  # pixels between windows
WINDOWS = 4000  # whose contrast is computed, those that agree best with a group
CANDIDATES = 500  # windows that are kept, those of the best score; far more than boxes of a frame
MIN_CHANGE = 0.0025  # of the frame, regularises shares: smaller changes count less
AROUND = 1.5  # sides of the box whose colours are compared, relative to the candidate's
COLOURS = 40  # the most frequent ones of the picture
CONTRAST_WEIGHT = 0.8
"""Of contrast in the weighted geometric mean with agreement. With 0.67 to 0.86 the recall of six
boxes is 0.84 to 0.90 on 30 simulated training clips, and 0.22 to 0.27 on 60 real ones."""
LEAST_AGREEMENT = 1e-5  # so that contrast ranks boxes where nothing changed
AT_BORDER = 0.5
"""Factor per side of the frame that a box touches, two at most: arms come in there. 0.3 to 0.7 do
the same; without it, recall on the simulated clips falls from 0.90 to 0.58."""


@dataclass(frozen=True, eq=False)
class ChangeBoxes:
    """Candidates in the coordinates of the clip's middle frame.

    boxes : (n, 4) pixels.
    whole : (2, n) score for the whole object, before the step and after it, 0 to 1.
    moved : (2, n) score for what moved; 0 for windows.
    time : (n,) seconds at which the group of each steps.
    """

    boxes: Floats
    whole: Floats
    moved: Floats
    time: Floats

    def best(self, time: float, count: int) -> tuple[Floats, Floats]:
        """The best boxes at a time and their scores: whole objects and what moved, in turn."""
        phase = (time >= self.time).astype(np.int64), np.arange(len(self.boxes))
        whole, moved = self.whole[phase], self.moved[phase]
        objects = suppress(self.boxes, whole, limit=count).tolist()
        parts = [k for k in suppress(self.boxes, moved, limit=count).tolist() if moved[k] > 0]
        in_turn = [k for pair in zip(objects, parts, strict=False) for k in pair]
        chosen: list[int] = []
        for k in in_turn + objects:
            if len(chosen) < count and not _overlap(self.boxes, k, chosen):
                chosen.append(k)
        order = np.argsort(-whole[chosen], kind="stable")
        return self.boxes[chosen][order], whole[chosen][order]


def _overlap(boxes: Floats, k: int, others: list[int]) -> bool:
    return bool((iou(boxes[[k]], boxes[others]) > NMS_IOU).any())


def propose(change: ClipChange) -> ChangeBoxes:
    """Candidates for the object of a clip, with scores."""
    amount = certain_change(change)
    groups = find_groups(amount, change.step)
    tight = np.array([group.box for group in groups]).reshape(-1, 4)
    boxes = np.concatenate([tight, windows(amount.shape)])
    agreement, density, group = agree(amount, change, groups, boxes)
    count = WINDOWS if agreement.any() else len(boxes)
    kept = _with_best_windows(agreement, len(tight), count)
    boxes, agreement, density, group = boxes[kept], agreement[kept], density[kept], group[kept]
    border = AT_BORDER ** np.minimum(_touched(boxes, amount.shape), 2)
    contrasts = np.stack([contrast(image, boxes) for image in (change.before, change.after)])
    changed = np.maximum(agreement, LEAST_AGREEMENT) ** (1 - CONTRAST_WEIGHT)
    whole = changed * contrasts**CONTRAST_WEIGHT * border
    moved = whole * density ** (1 - CONTRAST_WEIGHT) * (np.arange(len(boxes)) < len(tight))
    times = np.array([(g.start + g.end) / 2 for g in groups] or [change.times.mean()])
    kept = _with_best_windows(whole.max(axis=0), len(tight), CANDIDATES)
    return ChangeBoxes(boxes[kept], whole[:, kept], moved[:, kept], times[group[kept]])


def _with_best_windows(scores: Floats, first: int, count: int) -> npt.NDArray[np.int64]:
    """Indices below ``first``, and those of the ``count`` best scores from there on."""
    best = np.argsort(-scores[first:], kind="stable")[:count]
    return np.concatenate([np.arange(first), first + best])


def windows(size: tuple[int, ...]) -> Floats:
    """(n, 4) boxes of usual shapes all over a frame of ``size`` (height, width)."""
    height, width = size
    sides = SIZES * np.sqrt(width * height)
    shapes = np.array([[side * a, side / a] for side in sides for a in ASPECTS])
    fitting = shapes[(shapes < [0.9 * width, 0.9 * height]).all(axis=1)]
    shapes = fitting if len(fitting) else np.array([[width, height]], np.float64)
    return dense_boxes(shapes, (height, width), WINDOW_STEP)


def agree(
    amount: Floats32, change: ClipChange, groups: list[Group], boxes: Floats
) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Agreement (n,) of boxes with the group that suits each best, 0 to 1, as defined at the head.

    Also (n,) the density of its change in the box, and (n,) its index.
    """
    masks = np.stack([group.mask for group in groups], axis=2) if groups else _NO_MASKS
    spans = np.array([(group.start, group.end + change.period) for group in groups], np.float32)
    steps = change.step + np.array([0, change.period], np.float32)
    sums = _integrals(amount, steps, masks, spans.reshape(-1, 2))
    return _agreement(sums, _corners(boxes, amount.shape), MIN_CHANGE * amount.size)


_NO_MASKS = np.empty((0, 0, 0), np.bool_)


@compiled
def _integrals(
    amount: Floats32, steps: Floats32, masks: npt.NDArray[np.bool_], spans: Floats32
) -> Floats32:
    """(h + 1, w + 1, 1 + 2 G) sums above and left of every pixel corner.

    Of all change, and for each of the G groups of the change at its time, and of its own. A pixel
    counts by the share of the time in which it may have stepped that lies in the group's.
    """
    height, width = amount.shape
    sums = np.zeros((height + 1, width + 1, 1 + 2 * len(spans)), np.float32)
    for y in range(height):
        row = np.zeros(sums.shape[2], np.float32)
        for x in range(width):
            first, last = steps[y, x]
            row[0] += amount[y, x]
            for k in range(len(spans)):
                within = min(last, spans[k, 1]) - max(first, spans[k, 0])
                if within > 0:
                    part = amount[y, x] * within / (last - first)
                    row[2 * k + 1] += part
                    if masks[y, x, k]:
                        row[2 * k + 2] += part
            sums[y + 1, x + 1] = sums[y, x + 1] + row
    return sums


@compiled
def _agreement(
    sums: Floats32, corners: npt.NDArray[np.int64], floor: float
) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """See `agree`; ``sums`` are integrals of all change, and of two planes per group."""
    best, density = np.zeros(len(corners)), np.zeros(len(corners))
    index = np.zeros(len(corners), np.int64)
    totals = sums[-1, -1]
    for n in range(len(corners)):
        x1, y1, x2, y2 = corners[n]
        a, b, c, d = sums[y1, x1], sums[y1, x2], sums[y2, x1], sums[y2, x2]
        every = d[0] - b[0] - c[0] + a[0]
        for k in range((sums.shape[2] - 1) // 2):
            i = 2 * k + 1
            then = d[i] - b[i] - c[i] + a[i]
            own = (d[i + 1] - b[i + 1] - c[i + 1] + a[i + 1]) / max(totals[i + 1], 1e-9)
            score = own * then / (totals[i] + floor) * then / (every + floor)
            if score > best[n]:
                best[n], index[n] = score, k
                density[n] = max(then, 0.0) / ((x2 - x1) * (y2 - y1))
    return best, density, index


def contrast(image: Floats32, boxes: Floats) -> Floats:
    """(n,) chi-square distance, 0 to 1, of the colours in a box from those around it."""
    size = image.shape[:2]
    sums = _colour_sums(_colour_codes(image), COLOURS)
    around = geometry.clip(geometry.enlarge(boxes, AROUND), size)
    return _chi_square(sums, _corners(boxes, size), _corners(around, size))


def _colour_codes(image: Floats32) -> npt.NDArray[np.int64]:
    """(h, w) rank of each pixel's colour by frequency; the last is of all rarer ones."""
    cube = np.clip((image - [0, 64, 64]) / [32, 12, 12], 0, [7, 9, 9]).astype(np.int64)
    mixed = cube @ np.array([100, 10, 1])
    rank = np.empty(800, np.int64)
    rank[np.argsort(-np.bincount(mixed.ravel(), minlength=800), kind="stable")] = np.arange(800)
    return np.asarray(np.minimum(rank[mixed], COLOURS - 1), np.int64)


@compiled
def _colour_sums(codes: npt.NDArray[np.int64], colours: int) -> npt.NDArray[np.int32]:
    """(h + 1, w + 1, colours) how often each occurs above and left of every pixel corner."""
    height, width = codes.shape
    sums = np.zeros((height + 1, width + 1, colours), np.int32)
    for y in range(height):
        row = np.zeros(colours, np.int32)
        for x in range(width):
            row[codes[y, x]] += 1
            for c in range(colours):
                sums[y + 1, x + 1, c] = sums[y, x + 1, c] + row[c]
    return sums


@compiled
def _chi_square(
    sums: npt.NDArray[np.int32], boxes: npt.NDArray[np.int64], around: npt.NDArray[np.int64]
) -> Floats:
    """(n,) distance of the histogram within each of ``boxes`` from the rest of ``around``."""
    found = np.zeros(len(boxes))
    for n in range(len(boxes)):
        x1, y1, x2, y2 = boxes[n]
        u1, v1, u2, v2 = around[n]
        inner = (x2 - x1) * (y2 - y1)
        outer = max((u2 - u1) * (v2 - v1) - inner, 1)
        total = 0.0
        for c in range(sums.shape[2]):
            inside = sums[y2, x2, c] - sums[y1, x2, c] - sums[y2, x1, c] + sums[y1, x1, c]
            both = sums[v2, u2, c] - sums[v1, u2, c] - sums[v2, u1, c] + sums[v1, u1, c]
            p, q = inside / inner, (both - inside) / outer
            if p + q > 0.0:
                total += (p - q) ** 2 / (p + q)
        found[n] = total / 2
    return found


def _corners(boxes: Floats, size: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """(n, 4) boxes to the nearest pixel, within the frame and not empty."""
    height, width = size
    corners = np.round(boxes).astype(np.int64)
    x1, y1 = np.clip(corners[:, 0], 0, width - 1), np.clip(corners[:, 1], 0, height - 1)
    x2, y2 = np.clip(corners[:, 2], x1 + 1, width), np.clip(corners[:, 3], y1 + 1, height)
    return np.stack([x1, y1, x2, y2], axis=1)


def _touched(boxes: Floats, size: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """(n,) number of the frame's sides that each box touches."""
    height, width = size
    near, far = boxes[:, :2] < 1, boxes[:, 2:] > np.array([width - 1, height - 1])
    return np.asarray(near.sum(axis=1) + far.sum(axis=1))
