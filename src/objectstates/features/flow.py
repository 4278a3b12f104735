"""Dense optical flow between successive frames, and the part of it that is not the camera's.

As in improved dense trajectories (Wang & Schmid, Action recognition with improved trajectories,
ICCV 2013) the camera's motion is a homography between the frames, estimated by RANSAC and taken out
of the flow. Here the correspondences are corners spread evenly over the frame, the flow followed at
each and refined by Lucas-Kanade to a few hundredths of a pixel, so that neither a textured
foreground nor the flow's own smoothness has more say than its area.

A hand or an object may fill most of the frame and be the largest rigid motion in it. So several
candidate motions are compared: the camera at rest, the largest consensus, and the largest among
what that leaves. Background surrounds, hence a corner's vote grows towards the frame's border; and
cameras rest or move slowly more often than not, hence rest wins unless clearly outvoted.
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

CORNER_SPACING = 16  # working pixels between the corners that vote on the camera's motion
MIN_TEXTURE = 1e-3  # share of the frame's best corner below which a place cannot be followed
MIN_CORNERS = 20  # fewer, or fewer inliers, and the camera's motion is not known
RANSAC_ERROR = 0.6  # working pixels
REST_ERROR = 0.2  # working pixels; a slower camera counts as resting
REST_BONUS = 2.0  # rest wins against a motion with up to this many times its votes
MAX_STRETCH = 0.25  # of a frame side, between any two frame corners' motions; more is a misfit
SMALLEST_SIDE = 16  # pixels; the flow needs a few, smaller frames are padded


@dataclass(frozen=True, slots=True)
class FlowStep:
    """The motion from the frame at ``start`` to the frame at ``end`` (seconds).

    Pixels are those of the working size, (h, w); ``scale`` is (x, y) working per source pixels.

    gray : (h, w) the frame at ``start``, and ``texture`` (h, w) its smaller eigenvalue of the
        gradient matrix, by which corners are told from blank places.
    flow : (h, w, 2) x and y displacement of every pixel.
    motion : (h, w, 2) the same with the camera's part removed.
    camera : (3, 3) homography that takes background from ``start`` to ``end``.
    support : share of the votes for that motion; low at a cut, and 0 when too few corners could
        be followed to say. The camera is then taken to rest.
    """

    start: float
    end: float
    scale: tuple[float, float]
    gray: Gray
    texture: Floats32
    flow: Floats32
    motion: Floats32
    camera: Floats
    support: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class FlowEstimator:
    """Frames in, one at a time; the motion between successive ones out.

    Only the previous frame is kept. Feed frames some 25 times a second: several times more often
    only costs time, and slow motion drowns in the flow's error of about a twentieth of a pixel.

    max_side : frames are shrunk so that their longer side has at most this many pixels.
    """

    def __init__(self, *, max_side: int = 320) -> None:
        if max_side < SMALLEST_SIDE:
            raise SettingError(f"max_side is {max_side}; it must be at least {SMALLEST_SIDE}")
        self.max_side = max_side
        # Between OpenCV's "fast" and "medium": their flow at half the resolution, not a quarter,
        # without the variational refinement, which halves the speed and gains nothing we measured.
        self._dis = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
        self._dis.setFinestScale(1)
        self._dis.setPatchStride(4)
        self._dis.setGradientDescentIterations(12)
        self._dis.setVariationalRefinementIterations(0)
        self.reset()

    def reset(self) -> None:
        """Forget the previous frame: the next one begins a new shot."""
        self._before: Gray | None = None
        self._time = -np.inf

    def update(self, time: float, gray: Gray) -> FlowStep | None:
        """Take the (H, W) frame shown at ``time``; None after the first frame of a shot.

        A frame of another size than the one before it begins a new shot.
        """
        if not time > self._time:
            raise SettingError(f"the frame at {time} s follows the one at {self._time} s")
        after = _working(gray, self.max_side)
        before, start = self._before, self._time
        self._before, self._time = after, time
        if before is None or before.shape != after.shape:
            return None
        height, width = after.shape
        flow = _dense_flow(self._dis, before, after)
        texture = np.asarray(cv2.cornerMinEigenVal(before, 3), np.float32)
        origin, target = _correspondences(before, after, texture, flow)
        camera, support = estimate_camera(origin, target, (width, height))
        return FlowStep(
            start=start,
            end=time,
            scale=(width / gray.shape[1], height / gray.shape[0]),
            gray=before,
            texture=texture,
            flow=flow,
            motion=_without_camera(flow, np.asarray(np.linalg.inv(camera), np.float64)),
            camera=camera,
            support=support,
        )


def estimate_camera(
    origin: Floats32, target: Floats32, size: tuple[int, int]
) -> tuple[Floats, float]:
    """The homography (3, 3) that the background follows, and its share of the votes.

    origin, target : (n, 2) corresponding points of the two frames.
    size : width and height of the frames.
    """
    rest: Floats = np.eye(3)
    if len(origin) < MIN_CORNERS:
        return rest, 0.0
    middle = (np.array(size) - 1) / 2
    votes = np.abs((origin - middle) / middle).max(axis=1) + 1e-3

    best = rest
    most = REST_BONUS * _votes(rest, origin, target, votes, REST_ERROR)
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
    """The best corner of every square of the frame, and where it is in the next frame, (n, 2)."""
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
        winSize=(13, 13),
        maxLevel=0,
        criteria=(cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 10, 0.01),
        flags=cv2.OPTFLOW_USE_INITIAL_FLOW,
    )
    kept = found.ravel() == 1
    return origin[kept], np.asarray(target, np.float32)[kept]


def _consensus(origin: Floats32, target: Floats32) -> Floats | None:
    """The homography (3, 3) that most of the correspondences agree on."""
    found, _ = cv2.findHomography(origin, target, cv2.RANSAC, RANSAC_ERROR, maxIters=250)
    # The stubs don't say that OpenCV gives None when it finds nothing.
    return None if found is None else np.asarray(found, np.float64)


def _errors(homography: Floats, origin: Floats32, target: Floats32) -> Floats:
    moved = cv2.perspectiveTransform(origin[None].astype(np.float64), homography)[0]
    return np.asarray(np.hypot(*(moved - target).T), np.float64)


def _votes(
    homography: Floats, origin: Floats32, target: Floats32, votes: Floats, error: float
) -> float:
    return float(votes[_errors(homography, origin, target) < error].sum())


def _plausible(homography: Floats, size: tuple[int, int]) -> bool:
    """Whether it moves the frame's four corners nearly alike, as a camera does in a moment."""
    width, height = size
    corners = np.array([[0, 0], [width, 0], [0, height], [width, height]], np.float64)
    depth = corners @ homography[2, :2] + homography[2, 2]
    if (depth <= 0.1).any():
        return False
    shifts = cv2.perspectiveTransform(corners[None], homography)[0] - corners
    return bool((np.ptp(shifts, axis=0) < MAX_STRETCH * min(size)).all())


@compiled
def _without_camera(flow: Floats32, inverse: Floats) -> Floats32:
    """Each displacement as a resting camera sees it: ``inverse`` brings back where it ends."""
    height, width, _ = flow.shape
    motion = np.empty_like(flow)
    for y in range(height):
        for x in range(width):
            u, v = x + flow[y, x, 0], y + flow[y, x, 1]
            depth = inverse[2, 0] * u + inverse[2, 1] * v + inverse[2, 2]
            motion[y, x, 0] = (inverse[0, 0] * u + inverse[0, 1] * v + inverse[0, 2]) / depth - x
            motion[y, x, 1] = (inverse[1, 0] * u + inverse[1, 1] * v + inverse[1, 2]) / depth - y
    return motion
