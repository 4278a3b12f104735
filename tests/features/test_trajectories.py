from __future__ import annotations

import numpy as np
import pytest

from objectstates.base.errors import SettingError
from objectstates.features.pyramid_flow import FlowLevel, FlowPyramid, PyramidFlow
from objectstates.features.trajectories import HOF_DIM, ZERO_BIN, DenseTrajectories

BOX = (110, 70, 210, 170)
MIDDLE = np.array([160, 120])


def follow(frames, fps=25, **settings):
    """Every batch of finished trajectories."""
    estimator, tracker = PyramidFlow(), DenseTrajectories(**settings)
    steps = (estimator.update(i / fps, frame) for i, frame in enumerate(frames))
    return [tracker.update(step) for step in steps if step is not None]


def stack_hof(batches):
    """The descriptors of all batches, (n, 108)."""
    return np.concatenate([np.zeros((0, HOF_DIM), np.float32), *(batch.hof for batch in batches)])


def gathered(batches):
    """All positions (n, 2) and descriptors as (n, time cell, row, column, bin)."""
    hof = stack_hof(batches)
    positions = np.concatenate([batch.positions for batch in batches])
    return positions, hof.reshape(-1, 3, 2, 2, 9)


def directions(hof):
    """The mean direction of each trajectory in its middle third, in degrees, (n,)."""
    weights = (hof[:, 1, ..., :ZERO_BIN] ** 2).sum(axis=(1, 2))
    angle = np.arange(8) * np.pi / 4
    return np.degrees(np.arctan2(weights @ np.sin(angle), weights @ np.cos(angle)))


def apart(degrees, others):
    return np.abs((degrees - others + 180) % 360 - 180)


def on_object(positions, margin=18):
    x1, y1, x2, y2 = BOX
    x, y = positions.T
    return (x > x1 + margin) & (x < x2 - margin) & (y > y1 + margin) & (y < y2 - margin)


@pytest.mark.parametrize("direction", range(8))
def test_a_translation_fills_the_bin_of_its_direction(render, move, direction):
    angle = direction * np.pi / 4
    shift = 1.5 * np.array([np.cos(angle), np.sin(angle)])
    frames = [render(thing=move(*(shift * (i - 8))), box=BOX) for i in range(17)]
    positions, hof = gathered(follow(frames))
    hof = hof[on_object(positions, margin=30)]
    assert len(hof) > 20
    shares = (hof**2).mean(axis=0)  # descriptors are square roots of shares
    assert (shares.argmax(axis=-1) == direction).all()
    assert shares[..., direction].sum() > 0.8


@pytest.mark.parametrize("sense", [-1, 1], ids=["anticlockwise", "clockwise"])
def test_a_rotation_turns_the_direction_around_the_centre(render, move, sense):
    frames = [
        render(thing=move(degrees=sense * 2 * (i - 8)), box=BOX, disc=True) for i in range(17)
    ]
    positions, hof = gathered(follow(frames))
    offset = positions - MIDDLE
    radius = np.hypot(*offset.T)
    rim = (radius > 20) & (radius < 35)
    expected = np.degrees(np.arctan2(offset[:, 1], offset[:, 0])) + sense * 90
    assert rim.sum() > 50
    assert np.median(apart(directions(hof), expected)[rim]) < 15
    octants = np.unique((expected[rim] % 360) // 45)
    assert len(octants) == 8


@pytest.mark.parametrize("sense", [-1, 1], ids=["shrinking", "growing"])
def test_a_zoom_points_away_from_the_centre_or_towards_it(render, move, sense):
    frames = [render(thing=move(zoom=1.03 ** (sense * (i - 8))), box=BOX) for i in range(17)]
    positions, hof = gathered(follow(frames))
    offset = positions - MIDDLE
    rim = on_object(positions) & (np.hypot(*offset.T) > 20)
    expected = np.degrees(np.arctan2(offset[:, 1], offset[:, 0])) + (0 if sense > 0 else 180)
    assert rim.sum() > 50
    assert np.median(apart(directions(hof), expected)[rim]) < 15


def test_still_surroundings_fill_the_zero_bin(render, move):
    frames = [render(thing=move(0, 1.5 * (i - 8)), box=BOX) for i in range(17)]
    positions, hof = gathered(follow(frames))
    left_edge = np.abs(positions[:, 0] - BOX[0] - 3) < 3
    shares = (hof[left_edge & (np.abs(positions[:, 1] - 120) < 15)] ** 2).mean(axis=(0, 1, 2))
    outside, inside = shares
    assert outside.argmax() == ZERO_BIN
    assert inside.argmax() == 2  # downwards


def test_a_still_scene_has_no_trajectories(render):
    assert sum(map(len, follow([render(box=BOX)] * 20))) == 0


@pytest.mark.parametrize("camera", [{"dx": 2.0}, {"dx": -1, "dy": 1.5}, {"degrees": 2.0}], ids=str)
def test_a_moving_camera_alone_yields_next_to_none(render, move, camera):
    def pose(i):
        return move(**{name: (i - 10) * value for name, value in camera.items()})

    moving = sum(map(len, follow([render(pose(i)) for i in range(20)])))
    carried = sum(map(len, follow([render(None, pose(i), BOX) for i in range(20)])))
    assert moving < 0.05 * carried


def test_an_object_shows_under_a_pan(render, move):
    frames = [render(move(2 * i, 0), move(2 * i, 1.5 * (i - 8)), BOX) for i in range(17)]
    positions, hof = gathered(follow(frames))
    pan = 16  # pixels between the first frame and the middle one
    near = on_object(positions - [pan, 0], margin=-20)
    assert near.mean() > 0.95
    core = on_object(positions - [pan, 0], margin=30)
    assert ((hof[core] ** 2).mean(axis=(0, 1, 2, 3)).argmax()) == 2


def test_an_object_that_the_camera_follows_is_static(render, move):
    """Their program judges rest in the picture, not in the scene."""
    frames = [render(move(-2 * i, 0), None, BOX) for i in range(17)]
    positions, _ = gathered(follow(frames))
    assert on_object(positions, margin=30).sum() == 0


def steps(shifts, camera=0.0, factor=1.0, shape=(240, 320)):
    """Every pixel moves by each shift in turn, in pixels of the frame, ``camera`` of it is its."""
    for i, shift in enumerate(shifts):
        flow = np.full((*shape, 2), [shift / factor, 0], np.float32)
        motion = np.full((*shape, 2), [(shift - camera) / factor, 0], np.float32)
        level = FlowLevel(factor, np.ones(shape, np.float32), flow, motion)
        yield FlowPyramid(i / 25, (i + 1) / 25, (level,), np.eye(3))


@pytest.mark.parametrize(
    ("shifts", "camera", "kept"),
    [
        ([2.0] * 15, 0.0, True),
        ([0.0] * 7 + [25.0] + [0.0] * 7, 0.0, False),
        ([0.1] * 15, 0.0, False),
        ([2.0] * 15, 2.0, False),
        ([2.0] * 15, 0.8, True),
    ],
    ids=["steady", "jump", "static", "camera alone", "camera in part"],
)
def test_jumps_rest_and_the_camera_are_dropped(shifts, camera, kept):
    tracker = DenseTrajectories()
    for step in steps(shifts, camera):
        finished = tracker.update(step)
    assert (len(finished) > 1000) == kept
    assert kept or len(finished) == 0


@pytest.mark.parametrize(("shift", "kept"), [(0.5, True), (0.3, False)])
def test_lengths_are_in_pixels_of_the_frame_at_every_scale(shift, kept):
    """0.3 pixels a frame is a standard deviation of 1.4, below the root of 3."""
    for factor, shape in ((1.0, (240, 320)), (2.0, (120, 160)), (4.0, (60, 80))):
        tracker = DenseTrajectories()
        for step in steps([1.2, *[shift] * 14], factor=factor, shape=shape):
            finished = tracker.update(step)
        assert (len(finished) > 0) == kept
        if kept:
            span = finished.positions.max(axis=0) - finished.positions.min(axis=0)
            assert (span > [270, 210]).all()


def test_every_scale_has_its_trajectories(render, move):
    frames = [render(thing=move(2 * (i - 8), 0), box=BOX) for i in range(17)]
    flow, tracker, single = PyramidFlow(), DenseTrajectories(), DenseTrajectories()
    count = alone = 0
    for i, frame in enumerate(frames):
        if (step := flow.update(i / 25, frame)) is not None:
            count += len(tracker.update(step))
            finest = FlowPyramid(step.start, step.end, step.levels[:1], step.camera)
            alone += len(single.update(finest))
    assert 0 < alone < count


def test_descriptors_are_means_of_unit_vectors_in_source_pixels(render, move):
    frames = [render(thing=move(1.5 * (i - 8), 0), box=BOX) for i in range(17)]
    batches = follow(frames)
    positions, _ = gathered(batches)
    hof = stack_hof(batches)
    assert hof.shape[1] == HOF_DIM == 108
    lengths = np.linalg.norm(hof.reshape(-1, 3, HOF_DIM // 3), axis=2)
    assert (lengths <= 1 + 1e-5).all()
    assert lengths.mean() > 0.9
    np.testing.assert_allclose(np.median(positions, axis=0), MIDDLE, atol=20)


def test_times_span_the_length_of_a_trajectory(render, move):
    batches = follow([render(thing=move(1.5 * (i - 8), 0), box=BOX) for i in range(20)], fps=25)
    finished = [batch for batch in batches if len(batch)]
    assert finished[0].end == pytest.approx(15 / 25)
    for batch in finished:
        assert batch.end - batch.start == pytest.approx(15 / 25)
        assert batch.time == pytest.approx((batch.start + batch.end) / 2)


def test_the_number_alive_does_not_grow(render, move):
    estimator, tracker = PyramidFlow(), DenseTrajectories()
    alive = []
    for i in range(90):
        frame = render(move(20 * np.sin(i / 5), 0), move(30 * np.cos(i / 7), 0), BOX)
        if step := estimator.update(i / 25, frame):
            tracker.update(step)
            alive.append(tracker.alive)
    assert max(alive[45:]) <= 1.2 * max(alive[:45])


def test_a_gap_begins_anew(render, move):
    frames = [render(thing=move(1.5 * (i - 8), 0), box=BOX) for i in range(17)]
    estimator, tracker = PyramidFlow(), DenseTrajectories()
    finished = 0
    for i, frame in enumerate(frames):
        if i == 10:
            estimator.reset()
        if step := estimator.update(i / 25, frame):
            finished += len(tracker.update(step))
    assert finished == 0


def test_the_same_frames_give_the_same_bytes(render, move):
    frames = [render(move(i, 0), move(0, 2 * (i - 8)), BOX) for i in range(17)]
    one, two = (stack_hof(follow(frames)).tobytes() for _ in range(2))
    assert one == two
    assert one


@pytest.mark.parametrize("shape", [(8, 8), (3, 200), (20, 20)])
def test_small_frames_will_do(shape):
    rng = np.random.default_rng(0)
    batches = follow(rng.integers(0, 255, (18, *shape), dtype=np.uint8))
    assert all(np.isfinite(batch.hof).all() for batch in batches)


def test_senseless_settings_are_refused():
    with pytest.raises(SettingError, match="`length` is 2"):
        DenseTrajectories(length=2)
