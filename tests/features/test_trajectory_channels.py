"""All channels of dense trajectories, on a textured square that moves."""

import cv2
import numpy as np
import pytest

from objectstates.features.flow import FlowEstimator
from objectstates.features.trajectory_channels import CHANNELS, LENGTH, TrajectoryChannels

STEP = 0.04  # seconds


def frames(count, velocity, size=(96, 144)):
    """A textured square on a textured wall; ``velocity`` in pixels per frame."""
    rng = np.random.default_rng(0)

    def texture(height, width):
        rough = rng.integers(0, 255, (height // 4 + 1, width // 4 + 1), np.uint8)
        return cv2.resize(rough, (width, height), interpolation=cv2.INTER_LINEAR)

    wall, thing = texture(*size), texture(40, 40)
    for i in range(count):
        image = wall.copy()
        x, y = (round(start + i * v) for start, v in zip((20, 25), velocity, strict=True))
        image[y : y + 40, x : x + 40] = thing
        yield image


def channels_of(images):
    flow, channels, found = FlowEstimator(), TrajectoryChannels(), []
    images = list(images)
    for i, image in enumerate(images):
        step = flow.update(i * STEP, image)
        if step is not None:
            found.append(channels.update(step, images[i - 1]))
    return [rows for rows in found if len(rows)]


def test_paths_follow_what_moves_and_describe_its_direction():
    found = channels_of(frames(24, (2, 0)))
    rows = np.concatenate([part.channels["path"] for part in found])
    assert len(rows) > 20
    steps = rows.reshape(-1, LENGTH, 2)
    lengths = np.sqrt((steps**2).sum(axis=2)).sum(axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-5)
    assert np.median(steps[..., 0]) == pytest.approx(1 / LENGTH, rel=0.1), "to the right"
    assert abs(np.median(steps[..., 1])) < 0.01
    assert found[0].time == pytest.approx(LENGTH * STEP / 2)


def test_every_channel_has_its_length_and_is_a_histogram():
    part = channels_of(frames(20, (2, 1)))[0]
    for name, size in CHANNELS.items():
        rows = part.channels[name]
        assert rows.shape == (len(part), size)
        if name != "path":
            assert (rows >= 0).all()
            squares = (rows.reshape(len(rows), 3, -1) ** 2).sum(axis=2)
            assert squares.max() <= 1 + 1e-5, "root of shares: at most unit length per time cell"
            assert np.median(squares) > 0.3
    assert sum(CHANNELS.values()) == 426


def test_flow_histograms_tell_the_direction_and_gradients_do_not():
    images = list(frames(22, (2, 0)))
    bins = {}
    for name, moving in (("right", images), ("left", images[::-1])):
        found = channels_of(moving)
        assert found
        mean = np.concatenate([part.channels["hof"] for part in found]).mean(axis=0)
        bins[name] = int(mean.reshape(-1, 9).sum(axis=0)[:8].argmax())
    assert bins == {"right": 0, "left": 4}, "bins of 45 degrees, from the right"


def test_nothing_that_stands_still_has_a_trajectory():
    still = list(frames(1, (0, 0))) * 20
    assert not channels_of(still)


def test_a_gap_in_time_begins_a_new_shot():
    images = list(frames(20, (2, 0)))
    flow, channels = FlowEstimator(), TrajectoryChannels()
    steps = []
    for i, image in enumerate(images):
        step = flow.update(i * STEP + (1.0 if i >= 12 else 0.0), image)
        if step is not None:
            if i == 12:  # as after a cut
                continue
            steps.append(channels.update(step, images[i - 1]))
    assert not any(len(rows) for rows in steps), "neither part has 15 frames"
