"""Optical flow at several spatial scales, with and without the camera's motion.

This is the flow of improved dense trajectories (Wang & Schmid, ICCV 2013), as their program
computes it. Scales are a factor of the square root of 2 apart, at most 8, down to frames of the
size of a patch. The flow is Farneback's, from coarse to fine, filtered by a median of 5 x 5 pixels
at every scale. The camera's motion is a homography by RANSAC from two kinds of matches: of
keypoints at most 25 pixels apart, and of corners along the flow. The second frame is warped by it,
and the flow to the warped frame is the motion without the camera's.

What differs from their program:

* keypoints and descriptors are SIFT's, not SURF's, which OpenCV distributes without a licence for
  general use no more;
* there are no boxes of people to leave out of the matches, as in their runs without a person
  detector;
* OpenCV's Farneback takes frames of 8 bits: those of coarser scales are rounded, and smoothed by
  one more kernel of 3 x 3 pixels.

``flow.py`` has the flow of the default features, which is faster, and tells a static camera from a
large object in motion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError

Gray = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

SCALES = 8  # at most
SCALE_STEP = 2.0**0.5
SMALLEST_SCALE = 32  # pixels of the shorter side: the patch that is described
WINDOW, ITERATIONS = 10, 2  # of Farneback's flow: pixels, and updates per scale
POLYNOMIAL, POLYNOMIAL_SIGMA = 7, 1.5  # neighbourhood in pixels of its expansion
MEDIAN = 5  # pixels; of the filter on the flow
KEYPOINTS = 1000  # at most, the strongest
MATCH_WINDOW = 25  # pixels between matched keypoints, in x and in y
CORNERS, CORNER_QUALITY, CORNER_DISTANCE = 1000, 1e-3, 3
MIN_MATCHES, MIN_INLIERS = 50, 25  # up to as many, the camera is taken to be static
RANSAC_ERROR = 1.0  # pixels
WARP_MARGIN = 5  # pixels at the border of the warped frame that are taken from the first
SMALLEST_SIDE = 16  # pixels; smaller frames are padded for the flow


@dataclass(frozen=True, slots=True)
class FlowLevel:
    """The motion between two frames at one scale, in pixels of that scale.

    factor : pixels of the frame per pixel of this level.
    texture : (h, w) smaller eigenvalue of the gradient matrix of the first frame.
    flow : (h, w, 2) x and y displacement of every pixel; ``motion`` without the camera's.
    """

    factor: float
    texture: Floats32
    flow: Floats32
    motion: Floats32


@dataclass(frozen=True, slots=True)
class FlowPyramid:
    """The motion from the frame at ``start`` to that at ``end`` (seconds), fine to coarse.

    camera : (3, 3) homography of the background from the first frame to the second.
    """

    start: float
    end: float
    levels: tuple[FlowLevel, ...]
    camera: Floats


class PyramidFlow:
    """From frames, one at a time, to the motion between successive ones at all scales."""

    def __init__(self) -> None:
        self._sift = cv2.SIFT.create(nfeatures=KEYPOINTS)
        self._matcher = cv2.BFMatcher(cv2.NORM_L2)
        self.reset()

    def reset(self) -> None:
        """Drop the previous frame: the next one begins a new shot."""
        self._before: _Frame | None = None

    def update(self, time: float, gray: Gray) -> FlowPyramid | None:
        """Motion to the (H, W) frame at ``time``; None for the first frame of a shot."""
        if gray.ndim != 2 or gray.dtype != np.uint8 or gray.size == 0:
            raise SettingError(f"a frame must be (H, W) uint8, not {gray.shape} {gray.dtype}")
        before = self._before
        if before is not None and not time > before.time:
            raise SettingError(f"the frame at {time} s follows the one at {before.time} s")
        points, descriptors = self._sift.detectAndCompute(gray, None)
        places = np.array([point.pt for point in points], np.float32).reshape(-1, 2)
        after = self._before = _Frame(time, gray, _smoothed(gray), places, descriptors)
        if before is None or before.gray.shape != gray.shape:
            return None
        flows = _flow(before.smoothed, after.smoothed)
        camera = self._camera(before, after, flows[0])
        warped = _warped(before.gray, gray, camera)
        motions = _flow(before.smoothed, _smoothed(warped))
        parts = zip(factors(gray.shape), _textures(before.gray), flows, motions, strict=True)
        return FlowPyramid(before.time, time, tuple(FlowLevel(*part) for part in parts), camera)

    def _camera(self, before: _Frame, after: _Frame, flow: Floats32) -> Floats:
        """The homography of most matches; the identity if there are too few."""
        pairs = [_matches_of_flow(before.gray, flow), self._matches(before, after)]
        origin, target = (np.concatenate(points) for points in zip(*pairs, strict=True))
        static: Floats = np.eye(3)
        if len(origin) <= MIN_MATCHES:
            return static
        found, inliers = cv2.findHomography(origin, target, cv2.RANSAC, RANSAC_ERROR)
        # None if nothing is found, contrary to the stubs.
        if found is None or np.count_nonzero(inliers) <= MIN_INLIERS:
            return static
        return np.asarray(found, np.float64)

    def _matches(self, before: _Frame, after: _Frame) -> tuple[Floats32, Floats32]:
        """For every keypoint of ``after`` the likest one nearby in ``before``, (n, 2) each."""
        if len(before.places) == 0 or len(after.places) == 0:
            return np.empty((0, 2), np.float32), np.empty((0, 2), np.float32)
        apart = np.abs(after.places[:, None] - before.places[None])
        near = np.ascontiguousarray((apart < MATCH_WINDOW).all(axis=2), dtype=np.uint8)
        found = self._matcher.match(after.descriptors, before.descriptors, near)
        origin = before.places[[match.trainIdx for match in found]]
        return origin, after.places[[match.queryIdx for match in found]]


@dataclass(frozen=True, slots=True)
class _Frame:
    time: float
    gray: Gray
    smoothed: list[Gray]  # of every scale, smoothed against aliasing
    places: Floats32  # (n, 2) of keypoints
    descriptors: Any


def factors(shape: tuple[int, ...]) -> list[float]:
    """Pixels of a frame of this shape per pixel of each of its scales, fine to coarse.

    >>> [round(factor, 2) for factor in factors((90, 160))]
    [1.0, 1.41, 2.0]
    """
    side, count = float(min(shape)), 0
    while side >= SMALLEST_SCALE:
        side /= SCALE_STEP
        count += 1
    return [SCALE_STEP**k for k in range(min(max(count, 1), SCALES))]


def _size(shape: tuple[int, ...], factor: float) -> tuple[int, int]:
    """Width and height of a scale."""
    return max(1, round(shape[1] / factor)), max(1, round(shape[0] / factor))


def _smoothed(gray: Gray) -> list[Gray]:
    """The frame at every scale, for the flow."""
    out = []
    for factor in factors(gray.shape):
        if factor == 1:
            out.append(gray)  # OpenCV's flow smooths the finest scale itself
            continue
        sigma = (factor - 1) * 0.5
        side = max(round(5 * sigma) | 1, 3)
        smooth = cv2.GaussianBlur(gray.astype(np.float32), (side, side), sigma)
        small = cv2.resize(smooth, _size(gray.shape, factor), interpolation=cv2.INTER_LINEAR)
        out.append(np.clip(np.rint(small), 0, 255).astype(np.uint8))
    return out


def _textures(gray: Gray) -> list[Floats32]:
    """Where points can be followed at every scale, each shrunk from the finer one."""
    out, level = [], gray
    for factor in factors(gray.shape):
        if factor != 1:
            size = _size(gray.shape, factor)
            level = np.asarray(cv2.resize(level, size, interpolation=cv2.INTER_LINEAR), np.uint8)
        out.append(np.asarray(cv2.cornerMinEigenVal(level, 3, ksize=3), np.float32))
    return out


def _flow(before: list[Gray], after: list[Gray]) -> list[Floats32]:
    """(h, w, 2) displacements at every scale, fine to coarse; each starts from the coarser one."""
    found: list[Floats32] = []
    for one, other in zip(reversed(before), reversed(after), strict=True):
        height, width = one.shape
        start = np.zeros((height, width, 2), np.float32)
        if found:
            start = cv2.resize(found[-1], (width, height)) * np.float32(SCALE_STEP)
        flow = _farneback(one, other, np.asarray(start, np.float32))
        found.append(np.asarray(cv2.medianBlur(flow, MEDIAN), np.float32))
    return found[::-1]


def _farneback(before: Gray, after: Gray, start: Floats32) -> Floats32:
    """The flow at one scale from an initial one."""
    height, width = before.shape
    down, right = max(0, SMALLEST_SIDE - height), max(0, SMALLEST_SIDE - width)
    if down or right:
        edges = ((0, down), (0, right))
        before, after = (np.pad(gray, edges, mode="edge") for gray in (before, after))
        start = np.pad(start, (*edges, (0, 0)), mode="edge")
    flow = cv2.calcOpticalFlowFarneback(
        before,
        after,
        np.ascontiguousarray(start),
        pyr_scale=0.5,
        levels=0,  # this scale alone
        winsize=WINDOW,
        iterations=ITERATIONS,
        poly_n=POLYNOMIAL,
        poly_sigma=POLYNOMIAL_SIGMA,
        flags=cv2.OPTFLOW_USE_INITIAL_FLOW | cv2.OPTFLOW_FARNEBACK_GAUSSIAN,
    )
    return np.ascontiguousarray(flow[:height, :width], np.float32)


def _matches_of_flow(gray: Gray, flow: Floats32) -> tuple[Floats32, Floats32]:
    """Corners of the first frame, and where the flow moves them, (n, 2) each."""
    corners = cv2.goodFeaturesToTrack(gray, CORNERS, CORNER_QUALITY, CORNER_DISTANCE)
    # None without corners, contrary to the stubs.
    places = np.empty((0, 2)) if corners is None else np.rint(corners.reshape(-1, 2))
    x, y = places.astype(np.int64).T
    origin = places.astype(np.float32)
    return origin, origin + flow[y, x]


def _warped(before: Gray, after: Gray, camera: Floats) -> Gray:
    """``after`` as the camera of ``before`` would see it; what it does not show is ``before``'s."""
    height, width = before.shape
    inner = np.zeros_like(before)
    edge = WARP_MARGIN + 1
    inner[edge:-edge, edge:-edge] = 1

    def seen(image: Gray, interpolation: int) -> Gray:
        flags = interpolation | cv2.WARP_INVERSE_MAP
        return np.asarray(
            cv2.warpPerspective(image, camera, (width, height), flags=flags), np.uint8
        )

    shown = seen(inner, cv2.INTER_NEAREST) == 1
    return np.where(shown, seen(after, cv2.INTER_LINEAR), before)
