"""Encoding of the page's pictures: WebP, or JPEG if PyAV was built without libwebp.

At equal PSNR, WebP takes a third fewer bytes than JPEG on frames of this size, which
``python -m benchmarks.report`` measures, and all browsers of the last years show it. OpenCV writes
WebP too, but with libwebp's default effort only, which takes twice the time for 5 % fewer bytes.
"""

from __future__ import annotations

import base64
from typing import cast

import av
import cv2
import numpy as np
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import Colorspace, VideoReformatter

from objectstates.video.reader import Image

QUALITY = 80  # has the PSNR of JPEG of quality 72; 75 that of 60
_CODEC = "libwebp"
_EFFORT = 2  # libwebp's method, 0 to 6: up to 1 the files are larger by 30 %, from 3 on it is slow
# Scale, highest quality, and bytes relative to scale 1 and quality 75 (mean over real frames).
_STEPS = (
    (1.0, 92, 2.0),
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
_OPTIMISM = 1.1  # a step is tried if it is expected to exceed the limit by no more


class Encoder:
    """Encodes pictures that are alike, such as the frames of a video.

    Encoding is most of the cost of a picture, so steps that are expected to be too large, judged by
    the last one that was tried, are skipped.
    """

    def __init__(self, most_bytes: int, quality: int = QUALITY) -> None:
        self._most_bytes = most_bytes
        self._steps = [step for step in _STEPS if step[1] <= quality]
        self._expected = 0.0  # bytes of a step with relative size 1

    def __call__(self, image: Image) -> bytes:
        """RGB (H, W, 3) in the best step that takes at most ``most_bytes``, or in the last."""
        first = next(k for k in range(len(self._steps)) if self._may_fit(k, _OPTIMISM))
        data = b""
        for k in range(first, len(self._steps)):
            if not self._may_fit(k, _OPTIMISM):
                continue
            scale, quality, relative = self._steps[k]
            data = _encode(shrink(image, scale), quality)
            self._expected = len(data) / relative
            if len(data) <= self._most_bytes:
                simpler = k == first and k > 0 and self._may_fit(k - 1)
                return self(image) if simpler else data  # simpler than the last one: once more
        return data

    def _may_fit(self, step: int, optimism: float = 1.0) -> bool:
        """Whether the bytes expected of a step are within the limit; the last step always may."""
        expected = self._expected * self._steps[step][2]
        return expected <= self._most_bytes * optimism or step == len(self._steps) - 1


def encode(image: Image, most_bytes: int, quality: int = QUALITY) -> bytes:
    """One picture, as an `Encoder` does."""
    return Encoder(most_bytes, quality)(image)


def decode(data: bytes) -> Image:
    """The RGB image (H, W, 3)."""
    bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return np.ascontiguousarray(np.asarray(bgr, np.uint8)[:, :, ::-1])


def media_type() -> str:
    """Of all pictures that this installation encodes."""
    return "image/webp" if _CODEC in av.codecs_available else "image/jpeg"


def data_url(data: bytes) -> str:
    """The address of a picture that is part of the page."""
    return f"data:{media_type()};base64,{base64.b64encode(data).decode()}"


def shrink(image: Image, scale: float) -> Image:
    """The image at a scale of at most 1."""
    if scale >= 1:
        return image
    size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    # Halving is fast, and above one half interpolation uses every pixel; other means take tenfold.
    while min(image.shape[1] // 2 - size[0], image.shape[0] // 2 - size[1]) >= 0:
        half = image.shape[1] // 2, image.shape[0] // 2
        image = cv2.resize(image, half, interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)
    return cv2.resize(image, size, interpolation=cv2.INTER_LINEAR).astype(np.uint8, copy=False)


def _encode(image: Image, quality: int) -> bytes:
    return _webp(image, quality) if media_type() == "image/webp" else _jpeg(image, quality)


def _webp(image: Image, quality: int) -> bytes:
    context = cast(VideoCodecContext, av.CodecContext.create(_CODEC, "w"))
    context.height, context.width = image.shape[:2]
    context.pix_fmt, context.thread_count = "yuv420p", 1
    context.options = {"quality": str(quality), "compression_level": str(_EFFORT)}
    rgb = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
    frame = VideoReformatter().reformat(
        rgb, format="yuv420p", dst_colorspace=Colorspace.ITU601, threads=1
    )  # the colours that WebP has
    return b"".join(bytes(packet) for packet in (*context.encode(frame), *context.encode(None)))


def _jpeg(image: Image, quality: int) -> bytes:
    options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_OPTIMIZE, 1]
    _, coded = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), options)
    return coded.tobytes()
