"""The detector for those who have nothing but videos: what did the manipulation change?

A manipulated object is not known by its looks here, but by its history: somewhere in the clip is a
moment before and after which the place looks different and, both times, the same. A hand or an arm
that moves about does not leave that trace, and a resting thing leaves none. So the clip is watched
once at low resolution, its frames are aligned to undo the camera's motion, the moment of the most
lasting change is found, and boxes are ranked by how much of that change they hold and by how much
like a thing they look (their colours differ from their surroundings) in the scene before it, and
in the scene after it, from each of which the medians have removed what only passed by.

It is weaker than a detector trained for the object: expect the object among the first five boxes,
not in the first, and small objects not always. Camera motion with strong parallax, and clips with
several manipulations, mislead it; of a thing carried far away it sees the path as one object.
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

from objectstates.base.errors import DetectorError
from objectstates.detect.detections import Detections
from objectstates.detect.nms import suppress
from objectstates.detect.proposals import dense_boxes, integral
from objectstates.features.flow import estimate_camera
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, Image, VideoInfo, read_frames

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

VERSION = 1
"""Raise it whenever the same clip may give other boxes."""

SIDE = 160
FPS = 4.0
MOST_FRAMES = 200
"""Of a clip are watched; a longer one at fewer frames per second."""
MEDIAN_FRAMES = 15
"""Frames whose median stands for the scene before, or after, a moment."""
MOMENTS = 9
NOTICEABLE = 15.0
"""Difference of colour (Lab, 8 bit) that counts half."""
SHIFT = 2
"""Pixels by which the alignment may be wrong: the best agreement within is taken."""
FAINT = 0.0025
"""Share of the frame; where less than that has changed, holding all of it says little."""
BOXES = 5
OVERLAP = 0.5
CANDIDATES = 3000
COLOURS = 40

_WEIGHTS = np.array([0.883, 2.0, 7.257, 0.504, -0.936, -0.309, -1.735])
"""Of `describe`; logistic regression on 30 simulated clips of five tasks, but for the second, which
came out as 0.4: simulated things are of plain colours, so contrast told nearly all. More trust in
the change costs nothing there and helps where surfaces have texture."""
_BIAS = -3.2


@dataclass(frozen=True, eq=False)
class Scene:
    """A clip watched as a whole, at (h, w) pixels, in the coordinates of its middle frame.

    times : (n,) seconds of the frames watched.
    cameras : (n, 3, 3) homographies that take the middle frame's pixels to each frame's.
    split : seconds; the moment of change.
    before, after : (h, w, 3) the scene without what passes by, in 8-bit Lab.
    change : (h, w) 0 to 1, how sure it is that a pixel differs lastingly.
    """

    times: Floats
    cameras: Floats
    split: float
    before: Floats32
    after: Floats32
    change: Floats32


class MotionDetector:
    """Proposes boxes around what the manipulation of a clip has changed; knows no object's looks.

    boxes : how many it proposes for every frame; their scores are chances of being the object.
    """

    def __init__(self, boxes: int = BOXES) -> None:
        self.boxes = boxes

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(np.append(_WEIGHTS, _BIAS).tobytes()).hexdigest()[:8]
        return f"motion-{VERSION}-{digest}-{self.boxes}"

    def for_clip(self, clip: ClipSpan, video: VideoInfo) -> ClipProposals:
        """Proposals that cost one more pass over the frames, when they are first asked for."""
        start, end = clip.start or 0.0, clip.end or video.duration
        rate = min(FPS, MOST_FRAMES / max(end - start, 1e-3))
        return ClipProposals(partial(watch, clip.video, clip.start, clip.end, rate), self.boxes)

    def detect(self, frames: Sequence[Frame]) -> list[Detections]:
        raise DetectorError("the motion detector judges whole clips: ask for_clip for its detector")


class ClipProposals:
    """The proposals for one clip: some boxes before the change, others after it."""

    def __init__(self, watch_clip: Callable[[], Scene], boxes: int = BOXES) -> None:
        self._watch_clip = watch_clip
        self._boxes = boxes

    @cached_property
    def _scene(self) -> Scene:
        return self._watch_clip()

    @cached_property
    def _phases(self) -> list[tuple[Floats, Floats]]:
        scene = self._scene
        candidates = candidate_boxes(scene.change)
        return [
            _best(candidates, describe(picture, scene.change, candidates), self._boxes)
            for picture in (scene.before, scene.after)
        ]

    @property
    def fingerprint(self) -> str:
        return MotionDetector(self._boxes).fingerprint

    def for_clip(self, clip: ClipSpan, video: VideoInfo) -> ClipProposals:
        return MotionDetector(self._boxes).for_clip(clip, video)

    def detect(self, frames: Sequence[Frame]) -> list[Detections]:
        return [self._detect(frame) for frame in frames]

    def _detect(self, frame: Frame) -> Detections:
        scene = self._scene
        boxes, scores = self._phases[int(frame.time >= scene.split)]
        camera = scene.cameras[np.abs(scene.times - frame.time).argmin()]
        height, width = frame.image.shape[:2]
        zoom = np.array([width / scene.change.shape[1], height / scene.change.shape[0]] * 2)
        seen = np.clip(moved_boxes(boxes, camera) * zoom, 0, [width, height, width, height])
        inside = np.all(seen[:, 2:] - seen[:, :2] >= 1, axis=1)
        return Detections(seen[inside].astype(np.float32), scores[inside].astype(np.float32))


def watch(path: str | Path, start: float | None, end: float | None, fps: float) -> Scene:
    """Align the frames of a clip and find its moment of change."""
    with read_frames(path, start, end, fps=fps, max_side=SIDE) as reading:
        frames = [(frame.time, frame.image) for frame in reading]
    times = np.array([time for time, _ in frames])
    images = [image for _, image in frames]
    cameras = _cameras([np.asarray(cv2.cvtColor(i, cv2.COLOR_RGB2GRAY), np.uint8) for i in images])
    aligned = np.stack([_aligned(i, c) for i, c in zip(images, cameras, strict=True)])
    count = len(aligned)
    if count < 4:  # nothing to compare
        still = np.median(aligned, axis=0).astype(np.float32)
        return Scene(times, cameras, times[0], still, still, np.zeros(still.shape[:2], np.float32))
    moments = np.unique(np.linspace(0.15, 0.85, MOMENTS) * count).astype(int)
    moments = np.unique(np.clip(moments, 2, count - 2))
    compared = [_compare(aligned, int(k), 0) for k in moments]
    best = int(np.argmax([change.sum() for _, _, change in compared]))
    before, after, change = _compare(aligned, int(moments[best]), SHIFT)
    return Scene(times, cameras, float(times[moments[best]]), before, after, change)


def _cameras(grays: Sequence[npt.NDArray[np.uint8]]) -> Floats:
    """(n, 3, 3) from the middle frame to every other: chained, and each link checked against it."""
    middle = len(grays) // 2
    height, width = grays[0].shape
    cameras = np.tile(np.eye(3), (len(grays), 1, 1))
    anchors = _corners(grays[middle])
    for step, indices in ((1, range(middle + 1, len(grays))), (-1, range(middle - 1, -1, -1))):
        for k in indices:
            origin, target = _follow(grays[k - step], grays[k], _corners(grays[k - step]), None)
            link, _ = estimate_camera(origin, target, (width, height))
            chained = link @ cameras[k - step]
            seen, target = _follow(grays[middle], grays[k], anchors, _moved(anchors, chained))
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
    """The points that can be followed there and back again, and where they go; both (n, 2)."""
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
    """(h, w, 3) the image in the middle frame's place, slightly smoothed, in 8-bit Lab."""
    height, width = image.shape[:2]
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    moved = cv2.warpPerspective(
        image, camera, (width, height), flags=how, borderMode=cv2.BORDER_REPLICATE
    )
    lab = cv2.cvtColor(moved, cv2.COLOR_RGB2LAB)
    return np.asarray(cv2.GaussianBlur(lab, (0, 0), 0.8), np.float32)


def _compare(aligned: Floats32, moment: int, shift: int) -> tuple[Floats32, Floats32, Floats32]:
    """The scene before and after a frame, and where they differ by more than they vary."""
    before, unrest_before = _typical(aligned[:moment])
    after, unrest_after = _typical(aligned[moment:])
    difference = np.maximum(_unlike(before, after, shift), _unlike(after, before, shift))
    doubt = NOTICEABLE**2 + 4 * (unrest_before + unrest_after) ** 2
    return before, after, (difference**2 / (difference**2 + doubt)).astype(np.float32)


def _typical(frames: Floats32) -> tuple[Floats32, Floats32]:
    some = frames[np.linspace(0, len(frames) - 1, min(len(frames), MEDIAN_FRAMES)).astype(int)]
    middle = np.median(some, axis=0)
    unrest = np.median(np.abs(some - middle).sum(axis=3), axis=0)
    return middle.astype(np.float32), unrest.astype(np.float32)


def _unlike(picture: Floats32, other: Floats32, shift: int) -> Floats32:
    """(h, w) distance of each pixel's colour from the nearest around its place in the other."""
    height, width = picture.shape[:2]
    around = cv2.copyMakeBorder(other, shift, shift, shift, shift, cv2.BORDER_REPLICATE)
    least = np.full((height, width), np.inf, np.float32)
    for y in range(2 * shift + 1):
        for x in range(2 * shift + 1):
            gap = picture - around[y : y + height, x : x + width]
            np.minimum(least, np.einsum("ijc,ijc->ij", gap, gap), out=least)
    return np.sqrt(least)


def candidate_boxes(change: Floats32) -> Floats:
    """(n, 4) boxes of all usual sizes and aspects that hold much change for their size."""
    height, width = change.shape
    sizes = np.geomspace(0.12, 0.75, 8) * np.sqrt(width * height)
    shapes = np.array([[s * a, s / a] for s in sizes for a in (0.71, 0.84, 1.0, 1.19, 1.41)])
    fitting = shapes[(shapes < [0.9 * width, 0.9 * height]).all(axis=1)]
    shapes = fitting if len(fitting) else np.array([[width, height]], np.float64)
    boxes = dense_boxes(shapes, (height, width), 4)
    held, area = _sums(integral(change[:, :, None]), boxes)
    order = np.argsort(-held[:, 0] / np.sqrt(area), kind="stable")
    return boxes[order[:CANDIDATES]]


def describe(picture: Floats32, change: Floats32, boxes: Floats) -> Floats:
    """(n, 7) what speaks for a box in a scene: the change in it, its contrast, its size."""
    height, width = change.shape
    held, area = _sums(integral(change[:, :, None]), boxes)
    density = held[:, 0] / area
    coverage = held[:, 0] / (change.sum() + FAINT * height * width)
    agreement = 2 * density * coverage / (density + coverage + 1e-6)  # Dice, of box and change
    edges = np.hypot(*(cv2.Sobel(picture[:, :, 0], cv2.CV_32F, *d) for d in ((1, 0), (0, 1))))
    sums = integral(np.minimum(edges / 80, 1).astype(np.float32)[:, :, None])
    rim, rim_area = (
        a - b for a, b in zip(_sums(sums, boxes), _sums(sums, _grown(boxes, 0.75)), strict=True)
    )
    size = np.log(area / (height * width))
    within = (boxes[:, :2] >= 1).all(axis=1) & (boxes[:, 2:] <= [width - 1, height - 1]).all(axis=1)
    columns = (
        np.log(coverage + 0.02),
        agreement,
        _contrast(picture, boxes),
        rim[:, 0] / np.maximum(rim_area, 1),
        size,
        size**2,
        ~within,
    )
    return np.stack(columns, axis=1).astype(np.float64)


def _contrast(picture: Floats32, boxes: Floats) -> Floats:
    """(n,) chi-square distance, 0 to 1, of the colours in a box from those around it."""
    height, width = picture.shape[:2]
    cube = np.clip((picture - [0, 64, 64]) / [32, 12, 12], 0, [7, 9, 9]).astype(np.int64)
    mixed = (cube @ np.array([100, 10, 1])).ravel()
    _, codes, counts = np.unique(mixed, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    planes = np.zeros((height * width, COLOURS), np.float32)  # the rarest share the last
    planes[np.arange(height * width), np.minimum(rank[codes], COLOURS - 1)] = 1
    sums = integral(planes.reshape(height, width, COLOURS))
    inside, area = _sums(sums, boxes)
    both, both_area = _sums(sums, _grown(boxes, 1.5))
    p = inside / area[:, None]
    q = (both - inside) / np.maximum(both_area - area, 1)[:, None]
    return np.asarray(((p - q) ** 2 / (p + q + 1e-6)).sum(axis=1) / 2, np.float64)


def _best(boxes: Floats, features: Floats, count: int) -> tuple[Floats, Floats]:
    scores = 1 / (1 + np.exp(-(features @ _WEIGHTS + _BIAS)))
    kept = suppress(boxes, scores, OVERLAP, count)
    return boxes[kept], scores[kept]


def moved_boxes(boxes: Floats, homography: Floats) -> Floats:
    """(n, 4) the boxes around where a homography takes the corners of boxes."""
    corners = boxes[:, [0, 1, 2, 1, 0, 3, 2, 3]].reshape(1, -1, 2)
    moved = cv2.perspectiveTransform(corners, homography).reshape(-1, 4, 2)
    return np.hstack([moved.min(axis=1), moved.max(axis=1)]).astype(np.float64)


def _grown(boxes: Floats, factor: float) -> Floats:
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    half = (boxes[:, 2:] - boxes[:, :2]) * factor / 2
    return np.hstack([centre - half, centre + half])


def _sums(sums: Floats, boxes: Floats) -> tuple[Floats, Floats]:
    """Sums (n, C) of a map, given its integral, over boxes to the nearest pixel; their areas."""
    height, width = sums.shape[0] - 1, sums.shape[1] - 1
    corners = np.round(boxes).astype(np.int64)
    x1, y1 = np.clip(corners[:, 0], 0, width - 1), np.clip(corners[:, 1], 0, height - 1)
    x2, y2 = np.clip(corners[:, 2], x1 + 1, width), np.clip(corners[:, 3], y1 + 1, height)
    total = sums[y2, x2] - sums[y1, x2] - sums[y2, x1] + sums[y1, x1]
    return total, ((x2 - x1) * (y2 - y1)).astype(np.float64)
