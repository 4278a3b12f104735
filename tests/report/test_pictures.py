from __future__ import annotations

import av
import cv2
import numpy as np
import pytest

from objectstates.report import pictures
from objectstates.report.pictures import Encoder, data_url, decode, encode
from objectstates.video.reader import Image

NOISE = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)


def drawn() -> Image:
    """Smooth shading, an edge and some texture, (180, 240, 3)."""
    y, x = np.mgrid[:180, :240]
    image = np.stack([x, y, 255 - x], axis=2).astype(float)
    image[60:120, 80:160] = (200, 60, 30)
    image += np.random.default_rng(1).normal(0, 4, image.shape)
    return np.asarray(np.clip(image, 0, 255), np.uint8)


@pytest.fixture
def without_webp(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a build of PyAV without libwebp."""
    monkeypatch.setattr(av, "codecs_available", {"mjpeg"})


@pytest.mark.parametrize("most", [3_000, 8_000, 30_000])
def test_no_picture_is_larger_than_allowed(most: int) -> None:
    assert len(encode(NOISE, most)) <= most


def test_a_limit_lowers_the_quality_before_the_size() -> None:
    image = drawn()
    full = encode(image, 10**6)
    assert decode(encode(image, round(0.8 * len(full)))).shape == image.shape
    small = decode(encode(image, len(full) // 4))
    assert small.shape[0] < image.shape[0]
    assert small.shape[0] / small.shape[1] == pytest.approx(0.75, abs=0.02)


def test_pictures_look_like_their_source_and_take_less_than_as_jpeg() -> None:
    image = drawn()
    data = encode(image, 10**6)
    error = decode(data).astype(float) - image
    assert 10 * np.log10(255**2 / np.mean(error**2)) > 33  # dB
    options = [cv2.IMWRITE_JPEG_QUALITY, 82, cv2.IMWRITE_JPEG_OPTIMIZE, 1]
    assert len(data) < 0.7 * len(cv2.imencode(".jpg", image, options)[1])


def test_a_lower_quality_takes_fewer_bytes_and_the_same_image_the_same() -> None:
    sizes = [len(encode(drawn(), 10**6, quality)) for quality in (50, 65, 75, 80)]
    assert sizes == sorted(sizes)
    assert encode(drawn(), 4_000) == encode(drawn(), 4_000)


def test_steps_that_cannot_fit_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[int]()
    one = pictures._encode

    def counted(image: Image, quality: int) -> bytes:
        tried.append(quality)
        return one(image, quality)

    monkeypatch.setattr(pictures, "_encode", counted)
    encoder = Encoder(6_000)
    assert len(encoder(NOISE)) <= 6_000
    assert len(tried) <= 4
    tried.clear()
    assert len(encoder(NOISE[:, ::-1])) <= 6_000
    assert len(tried) <= 2, "the first picture tells where to start"
    assert encoder(drawn()) == encode(drawn(), 6_000), "a simpler one has the quality that fits"


def test_browsers_are_told_the_type() -> None:
    assert data_url(encode(drawn(), 10**6)).startswith("data:image/webp;base64,UklGR")


@pytest.mark.usefixtures("without_webp")
def test_without_webp_pictures_are_jpegs() -> None:
    image = drawn()
    data = encode(image, 10**6)
    assert data_url(data).startswith("data:image/jpeg;base64,/9j/")
    assert np.abs(decode(data).astype(int) - image).mean() < 5
    assert len(encode(NOISE, 8_000)) <= 8_000
