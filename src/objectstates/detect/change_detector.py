"""The detector named ``motion``, which needs no labels: it finds what a manipulation changed.

The place of a manipulated object has two stable appearances, one before and one after some time of
the clip. A moving hand or arm leaves no such change, nor does an object at rest. So the clip is
read once at low resolution, its frames are aligned to undo the camera's motion, and the time of
the largest lasting change is found. Boxes are ranked by the amount of that change in them and by
objectness (contrast of their colours with the surroundings), in the median image before and in
the one after it; medians remove what only passes by.

It is weaker than a detector trained for the object: expect the object among the first five boxes,
and small objects not always. Camera motion with strong parallax, and clips with several
manipulations, mislead it; the path of an object carried far away becomes one box.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base import geometry
from objectstates.base.errors import DetectorError
from objectstates.detect.detections import Detections, DetectorOptions, FrameDetector
from objectstates.detect.nms import suppress
from objectstates.detect.proposals import dense_boxes, integral
from objectstates.features.flow import estimate_camera
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, Image, VideoInfo, read_frames

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

VERSION = 1  # raise it whenever the same clip may give other boxes

# The weights below were fitted with these values.
SIDE = 160  # pixels of the longer side of the frames
FPS = 4.0
MAX_FRAMES = 200  # of a clip; longer ones are read at fewer frames per second
MEDIAN_FRAMES = 15  # at most, for the image before and the one after the change
SPLITS = 9  # times of change that are compared
HALF_DIFFERENCE = 15.0  # of colours (Lab, 8 bit), counts half
MAX_SHIFT = 2  # pixels of misalignment: the best match within is taken
MIN_CHANGE = 0.0025  # of the frame; regularises the fraction of the change that a box holds
BOXES = 5
CANDIDATES = 3000
COLOURS = 40

WEIGHTS = np.array([0.883, 2.0, 7.257, 0.504, -0.936, -0.309, -1.735])
"""Of `describe`; logistic regression on 30 simulated clips of five tasks, but for the second, which
was 0.4: simulated objects have plain colours, so contrast explains nearly all. A larger weight of
the change costs nothing there and helps where surfaces have texture."""
BIAS = -3.2


@dataclass(frozen=True, eq=False)
class Scene:
    """Summary of a clip at (h, w) pixels, in the coordinates of its middle frame.

    times : (n,) seconds of the frames read.
    cameras : (n, 3, 3) homographies from the middle frame's pixels to each frame's.
    split : seconds; the time of the change.
    before, after : (h, w, 3) median images in 8-bit Lab.
    change : (h, w) 0 to 1, confidence that a pixel has changed for good.
    """

    times: Floats
    cameras: Floats
    split: float
    before: Floats32
    after: Floats32
    change: Floats32


class MotionDetector:
    """Proposes boxes around what has changed in a clip.

    boxes : number of boxes per frame; their scores estimate the probability of being the object.
    """

    def __init__(self, boxes: int = BOXES) -> None:
        self.boxes = boxes

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(np.append(WEIGHTS, BIAS).tobytes()).hexdigest()[:8]
        return f"motion-{VERSION}-{digest}-{self.boxes}"

    def for_clip(self, clip: ClipSpan, video: VideoInfo) -> ClipProposals:
        """The detector of a clip, which reads it once when it first detects."""
        start, end = clip.start or 0.0, clip.end or video.duration
        rate = min(FPS, MAX_FRAMES / max(end - start, 1e-3))
        return ClipProposals(partial(summarise, clip.video, clip.start, clip.end, rate), self.boxes)

    def detect(self, _frames: Sequence[Frame]) -> list[Detections]:
        raise DetectorError("the motion detector needs the whole clip: call for_clip first")


def load_motion(_name: str, _options: DetectorOptions) -> MotionDetector:
    """The detector ``motion``, which has no options."""
    return MotionDetector()


class ClipProposals(FrameDetector):
    """The proposals for one clip: some boxes before the change, others after it."""

    def __init__(self, read_scene: Callable[[], Scene], boxes: int = BOXES) -> None:
        self._read_scene = read_scene
        self._boxes = boxes

    @cached_property
    def _scene(self) -> Scene:
        return self._read_scene()

    @cached_property
    def _phases(self) -> list[tuple[Floats, Floats]]:
        scene = self._scene
        candidates = candidate_boxes(scene.change)
        return [
            _best(candidates, describe(image, scene.change, candidates), self._boxes)
            for image in (scene.before, scene.after)
        ]

    @property
    def fingerprint(self) -> str:
        return MotionDetector(self._boxes).fingerprint

    def detect(self, frames: Sequence[Frame]) -> list[Detections]:
        return [self._detect(frame) for frame in frames]

    def _detect(self, frame: Frame) -> Detections:
        scene = self._scene
        boxes, scores = self._phases[int(frame.time >= scene.split)]
        camera = scene.cameras[np.abs(scene.times - frame.time).argmin()]
        height, width = frame.image.shape[:2]
        zoom = np.array([width / scene.change.shape[1], height / scene.change.shape[0]] * 2)
        moved = geometry.clip(moved_boxes(boxes, camera) * zoom, (height, width))
        visible = np.all(moved[:, 2:] - moved[:, :2] >= 1, axis=1)
        return Detections(moved[visible].astype(np.float32), scores[visible].astype(np.float32))


def summarise(path: str | Path, start: float | None, end: float | None, fps: float) -> Scene:
    """Align the frames of a clip and find the time of its largest change."""
    with read_frames(path, start, end, fps=fps, max_side=SIDE) as reading:
        frames = [(frame.time, frame.image) for frame in reading]
    times = np.array([time for time, _ in frames])
    images = [image for _, image in frames]
    cameras = _cameras([np.asarray(cv2.cvtColor(i, cv2.COLOR_RGB2GRAY), np.uint8) for i in images])
    aligned = np.stack([_aligned(i, c) for i, c in zip(images, cameras, strict=True)])
    count = len(aligned)
    if count < 4:  # nothing to compare
        median = np.median(aligned, axis=0).astype(np.float32)
        unchanged = np.zeros(median.shape[:2], np.float32)
        return Scene(times, cameras, times[0], median, median, unchanged)
    splits = np.unique(np.linspace(0.15, 0.85, SPLITS) * count).astype(int)
    splits = np.unique(np.clip(splits, 2, count - 2))
    compared = [_compare(aligned, int(k), 0) for k in splits]
    best = int(np.argmax([change.sum() for _, _, change in compared]))
    before, after, change = _compare(aligned, int(splits[best]), MAX_SHIFT)
    return Scene(times, cameras, float(times[splits[best]]), before, after, change)


def _cameras(grays: Sequence[npt.NDArray[np.uint8]]) -> Floats:
    """(n, 3, 3) from the middle frame to every other: chained, and each link then corrected."""
    middle = len(grays) // 2
    height, width = grays[0].shape
    cameras = np.tile(np.eye(3), (len(grays), 1, 1))
    corners = _corners(grays[middle])
    for step, indices in ((1, range(middle + 1, len(grays))), (-1, range(middle - 1, -1, -1))):
        for k in indices:
            origin, target = _follow(grays[k - step], grays[k], _corners(grays[k - step]), None)
            link, _ = estimate_camera(origin, target, (width, height))
            chained = link @ cameras[k - step]
            seen, target = _follow(grays[middle], grays[k], corners, _moved(corners, chained))
            correction, _ = estimate_camera(_moved(seen, chained), target, (width, height))
            cameras[k] = correction @ chained
            cameras[k] /= cameras[k, 2, 2]
    return cameras


def _corners(gray: npt.NDArray[np.uint8]) -> Floats32:
    found: Any = cv2.goodFeaturesToTrack(gray, 300, 0.003, 5)
    # The stubs don't say that OpenCV gives None when there are none.
    return np.asarray([] if found is None else found, np.float32).reshape(-1, 2)


def _moved(points: Floats32, homography: Floats) -> Floats32:
    if len(points) == 0:
        return points
    moved = cv2.perspectiveTransform(points[None].astype(np.float64), homography)[0]
    return np.asarray(moved, np.float32)


def _follow(
    before: npt.NDArray[np.uint8],
    after: npt.NDArray[np.uint8],
    points: Floats32,
    expected: Floats32 | None,
) -> tuple[Floats32, Floats32]:
    """Points tracked consistently forward and backward, and their targets; both (n, 2)."""
    if len(points) == 0:
        return points, points
    guess = points if expected is None else expected
    settings: Any = {
        "winSize": (15, 15),
        "maxLevel": 3 if expected is None else 1,
        "flags": cv2.OPTFLOW_USE_INITIAL_FLOW,
    }
    there, found, _ = cv2.calcOpticalFlowPyrLK(before, after, points, guess.copy(), **settings)
    back, again, _ = cv2.calcOpticalFlowPyrLK(after, before, there, points.copy(), **settings)
    good = (found.ravel() == 1) & (again.ravel() == 1)
    good &= np.abs(np.asarray(back) - points).max(axis=1) < 0.5
    return points[good], np.asarray(there, np.float32)[good]


def _aligned(image: Image, camera: Floats) -> Floats32:
    """(h, w, 3) the image warped to the middle frame, slightly smoothed, in 8-bit Lab."""
    height, width = image.shape[:2]
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    moved = cv2.warpPerspective(
        image, camera, (width, height), flags=how, borderMode=cv2.BORDER_REPLICATE
    )
    lab = cv2.cvtColor(moved, cv2.COLOR_RGB2LAB)
    return np.asarray(cv2.GaussianBlur(lab, (0, 0), 0.8), np.float32)


def _compare(aligned: Floats32, split: int, shift: int) -> tuple[Floats32, Floats32, Floats32]:
    """The median images before and after a frame, and where they differ by more than they vary."""
    before, spread_before = _median(aligned[:split])
    after, spread_after = _median(aligned[split:])
    difference = np.maximum(_difference(before, after, shift), _difference(after, before, shift))
    noise = HALF_DIFFERENCE**2 + 4 * (spread_before + spread_after) ** 2
    return before, after, (difference**2 / (difference**2 + noise)).astype(np.float32)


def _median(frames: Floats32) -> tuple[Floats32, Floats32]:
    """The median (h, w, 3) and the median absolute deviation (h, w) of each pixel."""
    some = frames[np.linspace(0, len(frames) - 1, min(len(frames), MEDIAN_FRAMES)).astype(int)]
    median = np.median(some, axis=0)
    deviation = np.median(np.abs(some - median).sum(axis=3), axis=0)
    return median.astype(np.float32), deviation.astype(np.float32)


def _difference(image: Floats32, other: Floats32, shift: int) -> Floats32:
    """(h, w) distance of each pixel's colour to the most similar within ``shift`` in the other."""
    height, width = image.shape[:2]
    around = cv2.copyMakeBorder(other, shift, shift, shift, shift, cv2.BORDER_REPLICATE)
    least = np.full((height, width), np.inf, np.float32)
    for y in range(2 * shift + 1):
        for x in range(2 * shift + 1):
            gap = image - around[y : y + height, x : x + width]
            np.minimum(least, np.einsum("ijc,ijc->ij", gap, gap), out=least)
    return np.sqrt(least)


def candidate_boxes(change: Floats32) -> Floats:
    """(n, 4) boxes of usual sizes and aspects with the most change for their size."""
    height, width = change.shape
    sizes = np.geomspace(0.12, 0.75, 8) * np.sqrt(width * height)
    shapes = np.array([[s * a, s / a] for s in sizes for a in (0.71, 0.84, 1.0, 1.19, 1.41)])
    fitting = shapes[(shapes < [0.9 * width, 0.9 * height]).all(axis=1)]
    shapes = fitting if len(fitting) else np.array([[width, height]], np.float64)
    boxes = dense_boxes(shapes, (height, width), 4)
    held, area = _sums(integral(change[:, :, None]), boxes)
    order = np.argsort(-held[:, 0] / np.sqrt(area), kind="stable")
    return boxes[order[:CANDIDATES]]


def describe(image: Floats32, change: Floats32, boxes: Floats) -> Floats:
    """(n, 7) features of boxes: the change in them, their contrast, edges at the rim, size."""
    height, width = change.shape
    held, area = _sums(integral(change[:, :, None]), boxes)
    density = held[:, 0] / area
    coverage = held[:, 0] / (change.sum() + MIN_CHANGE * height * width)
    agreement = 2 * density * coverage / (density + coverage + 1e-6)  # Dice, of box and change
    edges = np.hypot(*(cv2.Sobel(image[:, :, 0], cv2.CV_32F, *d) for d in ((1, 0), (0, 1))))
    sums = integral(np.minimum(edges / 80, 1).astype(np.float32)[:, :, None])
    rim, rim_area = (
        a - b
        for a, b in zip(_sums(sums, boxes), _sums(sums, geometry.enlarge(boxes, 0.75)), strict=True)
    )
    size = np.log(area / (height * width))
    within = (boxes[:, :2] >= 1).all(axis=1) & (boxes[:, 2:] <= [width - 1, height - 1]).all(axis=1)
    columns = (
        np.log(coverage + 0.02),
        agreement,
        _contrast(image, boxes),
        rim[:, 0] / np.maximum(rim_area, 1),
        size,
        size**2,
        ~within,
    )
    return np.stack(columns, axis=1).astype(np.float64)


def _contrast(image: Floats32, boxes: Floats) -> Floats:
    """(n,) chi-square distance, 0 to 1, of the colours in a box from those around it."""
    height, width = image.shape[:2]
    cube = np.clip((image - [0, 64, 64]) / [32, 12, 12], 0, [7, 9, 9]).astype(np.int64)
    mixed = (cube @ np.array([100, 10, 1])).ravel()
    _, codes, counts = np.unique(mixed, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    planes = np.zeros((height * width, COLOURS), np.float32)  # the last is of all rarer ones
    planes[np.arange(height * width), np.minimum(rank[codes], COLOURS - 1)] = 1
    sums = integral(planes.reshape(height, width, COLOURS))
    inside, area = _sums(sums, boxes)
    both, both_area = _sums(sums, geometry.enlarge(boxes, 1.5))
    p = inside / area[:, None]
    q = (both - inside) / np.maximum(both_area - area, 1)[:, None]
    return np.asarray(((p - q) ** 2 / (p + q + 1e-6)).sum(axis=1) / 2, np.float64)


def _best(boxes: Floats, features: Floats, count: int) -> tuple[Floats, Floats]:
    scores = 1 / (1 + np.exp(-(features @ WEIGHTS + BIAS)))
    kept = suppress(boxes, scores, limit=count)
    return boxes[kept], scores[kept]


def moved_boxes(boxes: Floats, homography: Floats) -> Floats:
    """(n, 4) bounding boxes of the corners of boxes after a homography."""
    corners = boxes[:, [0, 1, 2, 1, 0, 3, 2, 3]].reshape(1, -1, 2)
    moved = cv2.perspectiveTransform(corners, homography).reshape(-1, 4, 2)
    return np.hstack([moved.min(axis=1), moved.max(axis=1)]).astype(np.float64)


def _sums(sums: Floats, boxes: Floats) -> tuple[Floats, Floats]:
    """Sums (n, C) of a map, given its integral, over boxes to the nearest pixel; their areas."""
    height, width = sums.shape[0] - 1, sums.shape[1] - 1
    corners = np.round(boxes).astype(np.int64)
    x1, y1 = np.clip(corners[:, 0], 0, width - 1), np.clip(corners[:, 1], 0, height - 1)
    x2, y2 = np.clip(corners[:, 2], x1 + 1, width), np.clip(corners[:, 3], y1 + 1, height)
    total = sums[y2, x2] - sums[y1, x2] - sums[y2, x1] + sums[y1, x1]
    return total, ((x2 - x1) * (y2 - y1)).astype(np.float64)
