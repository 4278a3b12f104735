from __future__ import annotations

import numpy as np
import pytest

from objectstates.features.aligned_frames import AlignedFrames
from objectstates.features.change_profile import ClipChange, find_change
from objectstates.features.lasting_pieces import StepLimits, find_steps

FPS, SECONDS = 10, 20
SQUARE = np.s_[20:40, 30:60]


def frames(seed: int = 0, noise: float = 2.0) -> AlignedFrames:
    """A still picture with some noise, 20 s at 10 frames per second."""
    rng = np.random.default_rng(seed)
    wall = np.kron(rng.integers(60, 200, (12, 16, 3)), np.ones((5, 5, 1)))
    images = wall + rng.normal(0, noise, (FPS * SECONDS, 60, 80, 3))
    images = np.clip(images, 0, 255).astype(np.uint8)
    times = np.arange(len(images)) / FPS
    return AlignedFrames(times, 1 / FPS, images, np.tile(np.eye(3), (len(images), 1, 1)))


def with_square(*spans: tuple[float, float]) -> AlignedFrames:
    """A square that is there in these spans of seconds."""
    film = frames()
    for start, end in spans:
        film.images[round(start * FPS) : round(end * FPS), *SQUARE] = (230, 90, 160)
    return film


def add_hand(film: AlignedFrames, start: float, end: float) -> AlignedFrames:
    """A hand that comes in from the left, covers the square, and goes out again."""
    first, last = round(start * FPS), round(end * FPS)
    for k in range(first, last):
        reach = round(80 * min(1.0, 4 * min(k - first + 1, last - k) / (last - first)))
        film.images[k, 15:45, :reach] = (150, 150, 110)
    return film


def moments(found: ClipChange) -> list[float]:
    """When most of the picture changes, in order."""
    assert found.local is not None
    return found.times[found.local > 0.2 * found.local.max()].tolist()


def test_a_thing_that_comes_and_goes_again_changes_the_picture_twice():
    found = find_change(with_square((6.0, 13.0)))
    share = 20 * 30 / (60 * 80)
    assert found.curve.sum() < 0.01 * share
    assert moments(found) == pytest.approx([6.0, 13.0])
    assert found.local is not None
    assert 1.0 * share < found.local.sum() <= 2 * share, "noise takes some of it"


def test_three_changes_are_three_steps():
    found = find_change(with_square((4.0, 9.0), (14.0, 20.0)))
    assert moments(found) == pytest.approx([4.0, 9.0, 14.0])


def test_a_change_for_good_is_one_step_of_the_same_size_in_both_curves():
    found = find_change(with_square((8.0, 20.0)))
    assert moments(found) == pytest.approx([8.0])
    assert found.local is not None
    np.testing.assert_allclose(found.local, found.curve, rtol=0.1, atol=1e-4)


@pytest.mark.parametrize("span", [(6.0, 9.0), (0.0, 3.0), (17.0, 20.0)])
def test_a_hand_that_passes_leaves_nothing(span):
    found = find_change(add_hand(frames(), *span))
    assert found.local is not None
    assert found.local.sum() < 1e-3


def test_a_hand_in_front_of_the_change_spreads_it_at_most_over_its_stay():
    found = find_change(add_hand(with_square((6.0, 13.0)), 5.0, 6.5))
    assert found.local is not None
    total = found.local.sum()
    near = (found.times >= 4.9) & (found.times <= 6.6)
    assert found.local[near].sum() > 0.2 * total
    assert found.local[near | (np.abs(found.times - 13.0) < 0.2)].sum() > 0.99 * total


def test_the_steps_of_a_pixel_have_its_frames_and_its_purity():
    film = with_square((6.0, 13.0))
    film.images[80:90, 25, 35] = 0  # ten of the frames show something else
    steps = find_steps(
        film.images, np.zeros((len(film.images), 3), np.float32), StepLimits(15.0, 5.0, 0.5)
    )
    mine = np.flatnonzero((steps.y == 25) & (steps.x == 35))
    assert steps.first[mine].tolist() == steps.last[mine].tolist() == [60, 130]
    assert steps.purity[mine] == pytest.approx([1 - 10 / 130, 1 - 10 / 140], abs=0.05)
    assert (steps.changed[mine] > 0.9).all()
    assert set(zip(steps.y, steps.x, strict=True)) == {
        (y, x) for y in range(20, 40) for x in range(30, 60)
    }


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_few_frames_are_enough(count):
    film = frames()
    short = AlignedFrames(film.times[:count], 0.1, film.images[:count], film.cameras[:count])
    found = find_change(short)
    assert found.local is not None
    assert found.local.shape == (count,)
    assert found.local.sum() == 0
