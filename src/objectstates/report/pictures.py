"""Encoding of the page's pictures: WebP, or JPEG if OpenCV was built without it.

At equal similarity to the source, WebP takes 35 to 50 % fewer bytes than JPEG on frames of this
size (``python -m benchmarks.report``), and all browsers of the last years show it.
"""

from __future__ import annotations

import base64
from functools import cache

import cv2
import numpy as np

from objectstates.video.reader import Image

QUALITY = 80  # WebP of this quality is as similar to the source as JPEG of quality 82
# Scale, highest quality, and bytes relative to scale 1 and quality 75 (mean over real frames).
_STEPS = (
    (1.0, 80, 1.2),
    (1.0, 75, 1.0),
    (1.0, 65, 0.89),
    (1.0, 50, 0.76),
    (0.85, 50, 0.62),
    (0.7, 50, 0.5),
    (0.55, 45, 0.34),
    (0.4, 40, 0.2),
    (0.25, 40, 0.1),
)
_OPTIMISM = 1.15  # a step is tried if it is expected to exceed the limit by no more


def encode(image: Image, most_bytes: int, quality: int = QUALITY) -> bytes:
    """RGB (H, W, 3) in the best step of at most this quality that takes at most ``most_bytes``.

    Encoding is most of the cost of a picture, so steps that are expected to be too large, judged by
    the last one tried, are skipped. The last step is taken whatever its size.
    """
    steps = [step for step in _STEPS if step[1] <= quality]
    data, expected = b"", 0.0  # bytes of a step with relative size 1
    for step, (scale, its_quality, relative) in enumerate(steps, start=1):
        if step < len(steps) and expected * relative > most_bytes * _OPTIMISM:
            continue
        data = _encode(_scaled(image, scale), its_quality)
        if len(data) <= most_bytes:
            break
        expected = len(data) / relative
    return data


def decode(data: bytes) -> Image:
    """The RGB image (H, W, 3)."""
    bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return np.ascontiguousarray(np.asarray(bgr, np.uint8)[:, :, ::-1])


@cache
def media_type() -> str:
    """Of all pictures that this installation encodes."""
    return "image/webp" if cv2.haveImageWriter(".webp") else "image/jpeg"


def data_url(data: bytes) -> str:
    return f"data:{media_type()};base64,{base64.b64encode(data).decode()}"


def _encode(image: Image, quality: int) -> bytes:
    bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    if media_type() == "image/webp":
        _, coded = cv2.imencode(".webp", bgr, [cv2.IMWRITE_WEBP_QUALITY, quality])
    else:
        options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_OPTIMIZE, 1]
        _, coded = cv2.imencode(".jpg", bgr, options)
    return coded.tobytes()


def _scaled(image: Image, scale: float) -> Image:
    if scale == 1:
        return image
    size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)
