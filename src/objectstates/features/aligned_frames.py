"""The frames of a clip at low resolution, aligned: as a camera at rest would have seen them.

A clip is divided at its cuts (``shots.py``), since nothing can be aligned across a cut. All frames
of a shot are warped to its middle frame. The camera is estimated at a few key frames per second
and interpolated between them: it sways slowly, and consecutive frames differ by less than the error
of an estimate.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.features.flow import estimate_camera
from objectstates.features.shots import find_cuts
from objectstates.video.reader import Frame, VideoInfo, probe, read_frames

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

SIDE = 160  # pixels of the longer side
FPS = 30.0
MAX_FRAMES = 300  # of a clip; longer ones are read at fewer frames per second
KEY_FPS = 4.0  # frames per second at which the camera is estimated
SMOOTHING = 0.8  # pixels; standard deviation
LEAST_FOUND = 0.3  # of the points of the middle frame: enough to estimate the camera by
STILL = 0.25  # pixels; a camera that moves less than this is taken to be at rest


@dataclass(frozen=True, eq=False)
class AlignedFrames:
    """The frames of a shot in the coordinates of its middle frame.

    times : (n,) seconds of the video.
    period : seconds between two frames.
    images : (n, h, w, 3) 8-bit Lab, slightly smoothed.
    cameras : (n, 3, 3) homographies from the middle frame's pixels to each frame's.
    scale : pixels of the video per pixel of the images.
    """

    times: Floats
    period: float
    images: Bytes
    cameras: Floats
    scale: float = 1.0


def read_aligned(
    path: str | Path,
    start: float | None,
    end: float | None,
    *,
    image_fps: float = 25.0,
    origin: float | None = None,
) -> list[AlignedFrames]:
    """Read ``[start, end)`` seconds of a video, and align the frames of each shot.

    origin : see `read_frames`; times are then seconds from there, rounded, so that they do not
        depend on the place of an episode in its file.
    """
    info = probe(path, image_fps=image_fps)
    fps = rate_for(info, start, end, origin)
    with read_frames(
        path, start, end, fps=fps, max_side=SIDE, image_fps=image_fps, origin=origin
    ) as reading:
        return align_frames(reading, fps, origin)


def rate_for(
    video: VideoInfo, start: float | None, end: float | None, origin: float | None
) -> float:
    """Frames per second at which a span of a video is read."""
    seconds = max((end or video.duration) - (start or 0.0), 1e-3)
    if origin is not None:  # in whole frames, because bounds of episodes are rounded
        seconds = max(round(((end or video.duration) - origin) * video.fps), 1) / video.fps
    return min(FPS, MAX_FRAMES / seconds)


def align_frames(frames: Iterable[Frame], fps: float, origin: float | None) -> list[AlignedFrames]:
    """The same of frames that were read at a rate, `SIDE` pixels wide or high; they are modified.

    origin : see `read_aligned`.
    """
    frames = [replace(frame, image=_lab(frame.image)) for frame in frames]
    times, scale = np.array([frame.time for frame in frames]), frames[0].scale[0]
    if origin is not None:
        times = np.round(times - origin, 9)
    images = [frame.image for frame in frames]
    del frames
    period = float(np.median(np.diff(times))) if len(times) > 1 else 1 / fps
    edges = [0, *find_cuts(images), len(images)]
    shots = []
    for first, last in itertools.pairwise(edges):
        cameras = _cameras(images[first:last], times[first:last])
        shots.append(_align(images, times, period, scale, cameras, first))
    return shots


def _lab(image: Bytes) -> Bytes:
    """The same pixels in Lab, in place."""
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2LAB, dst=image), np.uint8)


def _align(
    images: list[Bytes],
    times: Floats,
    period: float,
    scale: float,
    cameras: Floats,
    first: int,
) -> AlignedFrames:
    """The shot of the frames from ``first`` on, one per camera; removed from ``images``."""
    last = first + len(cameras)
    aligned = np.empty((last - first, *images[first].shape), np.uint8)
    for k, camera in enumerate(cameras, first):
        # one copy in memory
        aligned[k - first], images[k] = _aligned(images[k], camera), images[k][:0]
    return AlignedFrames(times[first:last], period, aligned, cameras, scale)


def _cameras(images: Sequence[Bytes], times: Floats) -> Floats:
    """(n, 3, 3) from the middle frame to every other: estimated at key frames, interpolated.

    A camera that is where it was whenever it is looked at once a second is taken to be at rest.
    """
    height, width = images[0].shape[:2]
    cameras = np.tile(np.eye(3), (len(images), 1, 1))
    for fps in (1.0, KEY_FPS):
        keys = _key_frames(times, fps)
        lightness = [np.ascontiguousarray(images[k][:, :, 0]) for k in keys]
        known = _key_cameras(lightness, keys.index(len(images) // 2))
        if all(_is_still(camera, (width, height)) for camera in known):
            break
        every = np.arange(len(images))
        between = [np.interp(every, keys, known[:, i, j]) for i in range(3) for j in range(3)]
        cameras = np.stack(between, axis=1).reshape(-1, 3, 3)
    return cameras


def _key_frames(times: Floats, fps: float) -> list[int]:
    """The first frame of each period of ``1 / fps`` seconds, the middle frame and the last."""
    periods = np.floor(times * fps + 1e-6)
    first = np.flatnonzero(np.diff(periods, prepend=np.nan) != 0)
    return sorted({*first.tolist(), len(times) // 2, len(times) - 1})


def _is_still(camera: Floats, size: tuple[int, int]) -> bool:
    """Whether a camera moves no corner of the frame by more than `STILL`."""
    width, height = size
    corners = np.array([[0, 0], [width, 0], [0, height], [width, height]], np.float32)
    return bool(np.abs(_moved(corners, camera) - corners).max() <= STILL)


def _key_cameras(grays: Sequence[Bytes], middle: int) -> Floats:
    """The same for key frames, each tracked from the middle one, beginning with its neighbour's.

    Where few points are found again, the camera is chained to the neighbour's instead.
    """
    height, width = grays[0].shape
    cameras = np.tile(np.eye(3), (len(grays), 1, 1))
    corners = _corners(grays[middle])
    for step, indices in ((1, range(middle + 1, len(grays))), (-1, range(middle - 1, -1, -1))):
        for k in indices:
            known = cameras[k - step]
            expected = _moved(corners, known)
            seen, target = _follow(grays[middle], grays[k], corners, expected)
            if len(seen) >= LEAST_FOUND * len(corners):
                motion, _ = estimate_camera(_moved(seen, known), target, (width, height))
            else:
                near = _corners(grays[k - step])
                motion, _ = estimate_camera(
                    *_follow(grays[k - step], grays[k], near, near), (width, height)
                )
            cameras[k] = motion @ known
            cameras[k] /= cameras[k, 2, 2]
    return cameras


def _corners(gray: Bytes) -> Floats32:
    found: Any = cv2.goodFeaturesToTrack(gray, 300, 0.003, 5)
    # The stubs don't say that OpenCV gives None when there are none.
    return np.asarray([] if found is None else found, np.float32).reshape(-1, 2)


def _moved(points: Floats32, homography: Floats) -> Floats32:
    if len(points) == 0:
        return points
    moved = cv2.perspectiveTransform(points[None].astype(np.float64), homography)[0]
    return np.asarray(moved, np.float32)


def _follow(
    before: Bytes, after: Bytes, points: Floats32, expected: Floats32
) -> tuple[Floats32, Floats32]:
    """Points tracked consistently forward and backward, and their targets; both (n, 2)."""
    if len(points) == 0:
        return points, points
    how: Any = {
        "winSize": (16, 16),  # multiples of 8 take half the time of other sizes
        "maxLevel": 2,
        "criteria": (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 10, 0.03),
        "flags": cv2.OPTFLOW_USE_INITIAL_FLOW,
    }
    there, found, _ = cv2.calcOpticalFlowPyrLK(before, after, points, expected.copy(), **how)
    back, again, _ = cv2.calcOpticalFlowPyrLK(after, before, there, points.copy(), **how)
    good = (found.ravel() == 1) & (again.ravel() == 1)
    good &= np.abs(np.asarray(back) - points).max(axis=1) < 0.5
    return points[good], np.asarray(there, np.float32)[good]


def _aligned(image: Bytes, camera: Floats) -> Bytes:
    """(h, w, 3) the image warped to the middle frame, slightly smoothed."""
    size = image.shape[1], image.shape[0]
    if not _is_still(camera, size):
        how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        border = cv2.BORDER_REPLICATE
        warped = cv2.warpPerspective(image, camera, size, flags=how, borderMode=border)
        image = np.asarray(warped, np.uint8)
    return np.asarray(cv2.GaussianBlur(image, (0, 0), SMOOTHING), np.uint8)
