"""Sampling of box times, and JPEG files of frames."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import cv2

from objectstates.base.errors import SettingError
from objectstates.video.reader import Image


def sample_times(times: Iterable[float], fps: float) -> list[float]:
    """For each tick ``k / fps`` the nearest of the times, each at most once.

    >>> sample_times([0.0, 0.04, 0.08, 0.48, 0.52, 3.0], 2)
    [0.0, 0.48, 3.0]
    """
    nearest: dict[int, float] = {}
    for time in sorted(set(times)):
        tick = math.floor(time * fps + 0.5)
        kept = nearest.setdefault(tick, time)
        if abs(time - tick / fps) < abs(kept - tick / fps):
            nearest[tick] = time
    return sorted(nearest.values())


def check_fps(fps: float) -> None:
    """Raise unless the rate is positive and finite."""
    if not 0 < fps < math.inf:
        raise SettingError(f"`fps` must be a number above 0, not {fps}")


def write_jpeg(path: Path, image: Image) -> None:
    """Write an RGB image; OpenCV's own writer fails on some file names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_jpeg(image))


def encode_jpeg(image: Image) -> bytes:
    """The bytes of a JPEG file (quality 95) of an RGB image."""
    done, data = cv2.imencode(
        ".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 95]
    )
    if not done:
        raise OSError("an image cannot be encoded as JPEG")
    return bytes(data)
