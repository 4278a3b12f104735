"""Bytes, quality and time of formats for the report's pictures, beside those that it uses.

Pictures are compared with the frame itself at the size that the page shows, 135 pixels wide, on
screens of one and of two pixels per CSS pixel: SSIM of the luma and PSNR of the colours. Numbers
are means over frames of the shipped videos.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.report.pictures import decode, encode, shrink
from objectstates.video.frames_at import frames_at
from objectstates.video.reader import Image

SHOWN = 135  # CSS pixels
_ROOMY = 10**6  # bytes: no limit
_TIMES = (2.0, 7.0, 12.0, 17.0)  # seconds

Coder = Callable[[Image], bytes]


def coders() -> Iterator[tuple[str, int, Coder]]:
    """Names, longer sides in pixels, and functions."""
    for quality in (82, 72, 60):
        options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_OPTIMIZE, 1]
        yield f"JPEG {quality}", 280, opencv_coder(".jpg", options)
    for quality in (80, 75, 65, 50):
        yield f"WebP {quality} (report)", 270, report_coder(quality)
    yield "WebP 75 (OpenCV)", 270, opencv_coder(".webp", [cv2.IMWRITE_WEBP_QUALITY, 75])
    if cv2.haveImageWriter(".avif"):
        for speed in (9, 7):
            options = [cv2.IMWRITE_AVIF_QUALITY, 60, cv2.IMWRITE_AVIF_SPEED, speed]
            yield f"AVIF 60, speed {speed}", 270, opencv_coder(".avif", options)


def opencv_coder(suffix: str, options: Sequence[int]) -> Coder:
    def code(image: Image) -> bytes:
        bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
        return cv2.imencode(suffix, bgr, options)[1].tobytes()

    return code


def report_coder(quality: int) -> Coder:
    return lambda image: encode(image, _ROOMY, quality)


def compare_formats(videos: Sequence[Path]) -> list[dict[str, Any]]:
    """A row per format: mean bytes, CPU milliseconds, SSIM and PSNR (dB) per picture."""
    cv2.setNumThreads(1)
    frames = [
        frame.image
        for video in videos
        for _, frame in frames_at(video, _TIMES, max_side=640, problems=[])
    ]
    rows = []
    for name, side, code in coders():
        numbers = np.mean([_measure(image, side, code) for image in frames], axis=0)
        names = ("bytes", "cpu_ms", "ssim_1x", "psnr_1x", "ssim_2x", "psnr_2x")
        rows.append(
            {"format": name, "side": side, **dict(zip(names, numbers.tolist(), strict=True))}
        )
    return rows


def _measure(image: Image, side: int, code: Coder) -> list[float]:
    small = shrink(image, side / max(image.shape[:2]))
    begin = time.process_time()
    data = code(small)
    row = [float(len(data)), 1e3 * (time.process_time() - begin)]
    for density in (1, 2):
        width = SHOWN * density
        shown, truth = (_at_width(x, width) for x in (decode(data), image))
        row += [ssim(shown, truth), psnr(shown, truth)]
    return row


def _at_width(image: Image, width: int) -> Image:
    size = width, round(width * image.shape[0] / image.shape[1])
    method = cv2.INTER_AREA if width < image.shape[1] else cv2.INTER_CUBIC
    return cv2.resize(image, size, interpolation=method).astype(np.uint8, copy=False)


def psnr(a: Image, b: Image) -> float:
    """Peak signal-to-noise ratio in dB."""
    error = float(np.mean((a.astype(float) - b) ** 2))
    return float(10 * np.log10(255**2 / max(error, 1e-9)))


def ssim(a: Image, b: Image) -> float:
    """Structural similarity of the luma, with the window and constants of Wang et al. (2004)."""
    x, y = (np.asarray(cv2.cvtColor(i, cv2.COLOR_RGB2GRAY), np.float64) for i in (a, b))
    mean_x, mean_y = _blur(x), _blur(y)
    var_x, var_y = _blur(x * x) - mean_x**2, _blur(y * y) - mean_y**2
    covariance = _blur(x * y) - mean_x * mean_y
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    above = (2 * mean_x * mean_y + c1) * (2 * covariance + c2)
    below = (mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)
    return float(np.mean(above / below))


def _blur(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(cv2.GaussianBlur(values, (11, 11), 1.5), np.float64)
