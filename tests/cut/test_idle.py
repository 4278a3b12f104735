"""Idle ends: found in noise, and not where something moves."""

import numpy as np
import pytest

from objectstates.cut.idle import MARGIN, moving_span
from tests.video.videos import write_video


def film(path, moving: range, count: int = 75, noise: int = 3):
    """A square that moves in some of the frames."""
    rng, images, x = np.random.default_rng(0), [], 0
    for k in range(count):
        x += 2 if k in moving else 0
        image = np.full((72, 128, 3), 90, np.uint8)
        image[24:48, x % 100 : x % 100 + 24] = 220
        noisy = image + rng.integers(-noise, noise + 1, image.shape)
        images.append(np.clip(noisy, 0, 255).astype(np.uint8))
    return write_video(path, images, options={"crf": "23"})


@pytest.mark.parametrize("noise", [0, 3, 6])
def test_the_span_of_motion_is_found_in_noise(tmp_path, noise):
    span = moving_span(film(tmp_path / "a.mp4", range(25, 50), noise=noise), None, None)
    assert span is not None
    assert span[0] == pytest.approx(1.0 - MARGIN, abs=0.15)
    assert span[1] == pytest.approx(2.0 + MARGIN, abs=0.15)


def test_only_the_given_span_is_looked_at(tmp_path):
    path = film(tmp_path / "a.mp4", range(25, 50))
    span = moving_span(path, 1.4, 3.0)
    assert span is not None
    assert span[0] == pytest.approx(1.4 - MARGIN, abs=0.15)


def test_nothing_moves_in_a_still_film(tmp_path):
    assert moving_span(film(tmp_path / "a.mp4", range(0)), None, None) is None
    assert moving_span(film(tmp_path / "b.mp4", range(0), count=1), None, None) is None
