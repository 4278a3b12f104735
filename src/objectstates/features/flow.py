"""Dense optical flow between successive frames, with and without the camera's motion.

As in improved dense trajectories (Wang & Schmid, ICCV 2013) the camera's motion is a homography
between the frames, estimated by RANSAC and subtracted from the flow. The correspondences are
corners spread evenly over the frame, moved by the flow and refined by Lucas-Kanade to a few
hundredths of a pixel, so that neither a textured foreground nor smooth flow weighs more than its
area.

A hand or an object may fill most of the frame and be the largest rigid motion in it. So three
candidates are compared: a static camera, the largest consensus, and the largest among the outliers
of that. Background surrounds, hence the vote of a corner grows towards the frame's border; and most
cameras are static or slow, hence a static one wins unless clearly outvoted.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError
from objectstates.base.jit import compiled

Gray = npt.NDArray[np.uint8]
Floats32 = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]

WORKING_SIDE = 160
"""Pixels of the longer side. At 320 the motion is the same (correlation 0.996 and more on a grid of
80 x 60 cells) and takes a third longer; at 128 it is another (0.92)."""
CORNER_SPACING = 8  # working pixels between the corners that vote on the camera's motion
MIN_TEXTURE = 1e-3  # of the frame's best corner; cannot be tracked below
MIN_CORNERS = 20  # fewer, or fewer inliers: the camera's motion is unknown
RANSAC_ERROR = 0.6  # working pixels
STATIC_ERROR = 0.2  # working pixels; a slower camera counts as static
STATIC_BONUS = 2.0  # a static camera wins against up to this many times its votes
MAX_STRETCH = 0.25  # of a frame side, difference of two frame corners' motions; more is a wrong fit
SMALLEST_SIDE = 16  # pixels; smaller frames are padded for the flow


@dataclass(frozen=True, slots=True)
class FlowStep:
    """The motion from the frame at ``start`` to the frame at ``end`` (seconds).

    Pixels are those of the working size, (h, w); ``scale`` is (x, y) working per source pixels.

    texture : (h, w) smaller eigenvalue of the gradient matrix of the frame at ``start``, which is
        large at corners.
    flow : (h, w, 2) x and y displacement of every pixel.
    motion : (h, w, 2) the same without the camera's motion.
    camera : (3, 3) homography of the background from ``start`` to ``end``.
    support : fraction of the votes for that homography; low at a cut, and 0 if too few corners
        could be tracked. The camera is then taken to be static.
    """

    start: float
    end: float
    scale: tuple[float, float]
    texture: Floats32
    flow: Floats32
    motion: Floats32
    camera: Floats
    support: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class FlowEstimator:
    """From frames, one at a time, to the motion between successive ones.

    Only the previous frame is kept. At more than about 25 frames a second, slow motion is below the
    flow's error of about a twentieth of a pixel.

    max_side : frames are shrunk so that their longer side has at most this many pixels.
    """

    def __init__(self, *, max_side: int = WORKING_SIDE) -> None:
        if max_side < SMALLEST_SIDE:
            raise SettingError(f"`max_side` is {max_side}; it must be at least {SMALLEST_SIDE}")
        self.max_side = max_side
        # OpenCV's "fast" at half the working size and not a quarter, without variational
        # refinement. At the whole size it took four times as long; refinement takes twice as long.
        # Neither changed what discovery finds in training clips.
        self._dis = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
        self._dis.setFinestScale(1)
        self._dis.setPatchStride(4)
        self._dis.setGradientDescentIterations(12)
        self._dis.setVariationalRefinementIterations(0)
        self.reset()

    def reset(self) -> None:
        """Drop the previous frame: the next one begins a new shot."""
        self._before: Gray | None = None
        self._time = -np.inf

    def update(
        self, time: float, gray: Gray, size: tuple[int, int] | None = None
    ) -> FlowStep | None:
        """Motion to the (H, W) frame at ``time``; None for the first frame of a shot.

        A frame of another size begins a new shot.

        size : width and height of the source frame, if ``gray`` is of another size.
        """
        if not time > self._time:
            raise SettingError(f"the frame at {time} s follows the one at {self._time} s")
        after = _working(gray, self.max_side)
        before, start = self._before, self._time
        self._before, self._time = after, time
        if before is None or before.shape != after.shape:
            return None
        height, width = after.shape
        source_width, source_height = size or gray.shape[::-1]
        flow = _dense_flow(self._dis, before, after)
        texture = np.asarray(cv2.cornerMinEigenVal(before, 3), np.float32)
        origin, target = _correspondences(before, after, texture, flow)
        camera, support = estimate_camera(origin, target, (width, height))
        return FlowStep(
            start=start,
            end=time,
            scale=(width / source_width, height / source_height),
            texture=texture,
            flow=flow,
            motion=_without_camera(flow, np.asarray(np.linalg.inv(camera), np.float64)),
            camera=camera,
            support=support,
        )


def estimate_camera(
    origin: Floats32, target: Floats32, size: tuple[int, int]
) -> tuple[Floats, float]:
    """The homography (3, 3) of the background, and its fraction of the votes.

    origin, target : (n, 2) corresponding points of the two frames.
    size : width and height of the frames.
    """
    static: Floats = np.eye(3)
    if len(origin) < MIN_CORNERS:
        return static, 0.0
    middle = (np.array(size) - 1) / 2
    votes = np.abs((origin - middle) / middle).max(axis=1) + 1e-3

    best = static
    most = STATIC_BONUS * _votes(static, origin, target, votes, STATIC_ERROR)
    undecided = np.ones(len(origin), bool)
    for _ in range(2):
        if undecided.sum() < MIN_CORNERS or votes[undecided].sum() <= most:
            break
        found = _consensus(origin[undecided], target[undecided])
        if found is None or not _plausible(found, size):
            break
        follows = _errors(found, origin, target) < RANSAC_ERROR
        if (follows & undecided).sum() < MIN_CORNERS:
            break
        if votes[follows].sum() > most:
            best, most = found, float(votes[follows].sum())
        undecided &= ~follows
    support = _votes(best, origin, target, votes, RANSAC_ERROR) / votes.sum()
    return best, float(support)


def _working(gray: Gray, max_side: int) -> Gray:
    if gray.ndim != 2 or gray.dtype != np.uint8 or gray.size == 0:
        raise SettingError(f"a frame must be (H, W) uint8, not {gray.shape} {gray.dtype}")
    height, width = gray.shape
    shrink = max(height, width) / max_side
    if shrink <= 1:
        return gray
    size = (max(1, round(width / shrink)), max(1, round(height / shrink)))
    return np.asarray(cv2.resize(gray, size, interpolation=cv2.INTER_AREA), np.uint8)


def _dense_flow(dis: cv2.DISOpticalFlow, before: Gray, after: Gray) -> Floats32:
    height, width = before.shape
    down, right = max(0, SMALLEST_SIDE - height), max(0, SMALLEST_SIDE - width)
    if down or right:
        before, after = (
            np.asarray(cv2.copyMakeBorder(g, 0, down, 0, right, cv2.BORDER_REPLICATE), np.uint8)
            for g in (before, after)
        )
    flow = np.zeros((*before.shape, 2), np.float32)
    dis.calc(before, after, flow)
    return np.ascontiguousarray(flow[:height, :width])


def _correspondences(
    before: Gray, after: Gray, texture: Floats32, flow: Floats32
) -> tuple[Floats32, Floats32]:
    """The best corner of every square of the frame, and its position in the next, (n, 2) each."""
    height, width = before.shape
    side = CORNER_SPACING
    rows, columns = height // side, width // side
    if rows * columns < MIN_CORNERS:
        return np.empty((0, 2), np.float32), np.empty((0, 2), np.float32)
    tiles = texture[: rows * side, : columns * side].reshape(rows, side, columns, side)
    squares = tiles.transpose(0, 2, 1, 3).reshape(rows, columns, side * side)
    best = squares.argmax(axis=2)
    textured = squares.max(axis=2) > MIN_TEXTURE * texture.max()
    y = (np.arange(rows)[:, None] * side + best // side)[textured]
    x = (np.arange(columns)[None, :] * side + best % side)[textured]
    origin = np.stack([x, y], axis=1).astype(np.float32)
    if len(origin) == 0:
        return origin, origin
    target, found, _ = cv2.calcOpticalFlowPyrLK(
        before,
        after,
        origin,
        origin + flow[y, x],
        winSize=(8, 8),
        maxLevel=0,
        criteria=(cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 10, 0.01),
        flags=cv2.OPTFLOW_USE_INITIAL_FLOW,
    )
    kept = found.ravel() == 1
    return origin[kept], np.asarray(target, np.float32)[kept]


def _consensus(origin: Floats32, target: Floats32) -> Floats | None:
    """The homography (3, 3) of most correspondences, by RANSAC."""
    found, _ = cv2.findHomography(origin, target, cv2.RANSAC, RANSAC_ERROR, maxIters=250)
    # None if nothing is found, contrary to the stubs.
    return None if found is None else np.asarray(found, np.float64)


def _errors(homography: Floats, origin: Floats32, target: Floats32) -> Floats:
    moved = cv2.perspectiveTransform(origin[None].astype(np.float64), homography)[0]
    return np.asarray(np.hypot(*(moved - target).T), np.float64)


def _votes(
    homography: Floats, origin: Floats32, target: Floats32, votes: Floats, error: float
) -> float:
    return float(votes[_errors(homography, origin, target) < error].sum())


def _plausible(homography: Floats, size: tuple[int, int]) -> bool:
    """Whether it moves the frame's four corners by nearly the same, as a camera does."""
    width, height = size
    corners = np.array([[0, 0], [width, 0], [0, height], [width, height]], np.float64)
    depth = corners @ homography[2, :2] + homography[2, 2]
    if (depth <= 0.1).any():
        return False
    shifts = cv2.perspectiveTransform(corners[None], homography)[0] - corners
    return bool((np.ptp(shifts, axis=0) < MAX_STRETCH * min(size)).all())


@compiled
def _without_camera(flow: Floats32, inverse: Floats) -> Floats32:
    """Displacements seen by a static camera: ``inverse`` is that of the camera's homography."""
    height, width, _ = flow.shape
    motion = np.empty_like(flow)
    for y in range(height):
        for x in range(width):
            u, v = x + flow[y, x, 0], y + flow[y, x, 1]
            depth = inverse[2, 0] * u + inverse[2, 1] * v + inverse[2, 2]
            motion[y, x, 0] = (inverse[0, 0] * u + inverse[0, 1] * v + inverse[0, 2]) / depth - x
            motion[y, x, 1] = (inverse[1, 0] * u + inverse[1, 1] * v + inverse[1, 2]) / depth - y
    return motion
