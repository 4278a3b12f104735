from __future__ import annotations

import os

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.features.change_profile import (
    SHORTEST_BIN,
    ClipChange,
    clip_change,
    profile_of,
)
from tests.features.films import FPS, THING, film
from tests.features.scenes import texture
from tests.video.videos import write_video

FILMS = {
    "plain": {},
    "a swaying camera": {"sway": 8.0},
    "changing light": {"flicker": 25.0},
    "a hand that covers it": {"hand": (1.2, 2.6)},
    "near the start": {"change": 1.2},
    "near the end": {"change": 2.9},
    "all at once": {"sway": 6.0, "flicker": 15.0, "hand": (1.5, 2.4)},
}


@pytest.fixture
def seen(tmp_path):
    def change_in(**options) -> ClipChange:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.mp4"
        write_video(path, film(**options), fps=FPS, options={"crf": "18"})
        return clip_change(path, None, None)

    return change_in


@pytest.mark.parametrize("options", FILMS.values(), ids=FILMS)
def test_the_time_and_the_place_of_a_change_are_found(seen, options):
    found = seen(**options)
    assert found.local is not None
    assert found.local.shape == found.curve.shape
    share = found.curve / found.curve.sum()
    hidden = options.get("hand", (2.0, 2.0))
    first = min(options.get("change", 2.0), hidden[0]) - 0.1
    last = max(options.get("change", 2.0), hidden[1]) + 0.1
    assert share[(found.times >= first) & (found.times <= last)].sum() > 0.8
    if "hand" not in options:
        assert found.times[found.curve.argmax()] == pytest.approx(
            options.get("change", 2.0), abs=1.5 / FPS
        )
    x1, y1, x2, y2 = (round(v / 2) for v in THING)
    inside = np.zeros(found.amount.shape, bool)
    inside[y1 - 3 : y2 + 3, x1 - 3 : x2 + 3] = True
    assert found.amount[inside].sum() > 0.9 * found.amount.sum()
    surely = 0.2 if "hand" in options else 0.5  # hidden frames explain nothing
    assert found.amount[y1 + 3 : y2 - 3, x1 + 3 : x2 - 3].mean() > surely


@pytest.mark.parametrize("options", [{}, {"hand": (1.2, 2.6)}, {"sway": 8.0}, {"flicker": 25.0}])
def test_without_a_change_there_is_none(seen, options):
    lasting = seen(change=2.0, **options).curve.sum()
    assert seen(change=None, **options).curve.sum() < 0.05 * lasting


def test_a_cut_is_no_change_and_a_short_shot_counts_less(tmp_path):
    shot = film(seconds=4.0, change=2.0)
    other = [255 - frame[::-1, :, [1, 2, 0]] // 2 for frame in film(seconds=2.0, change=1.0)]
    path = write_video(tmp_path / "cut.mp4", [*other, *shot], fps=FPS, options={"crf": "18"})
    found = clip_change(path, None, None)
    at_cut = np.abs(found.times - 2.0) < 0.5
    assert found.curve[at_cut].sum() < 0.05 * found.curve.sum()
    assert found.times[found.curve.argmax()] == pytest.approx(4.0, abs=1.5 / FPS)
    assert 0 < found.curve[found.times < 2.0].sum() < 0.5 * found.curve.sum()
    assert (found.shown == (found.times > 1.99)).all(), "pictures are of the second shot"
    assert found.local is not None
    assert len(found.times) == len(found.curve) == len(found.local) == len(found.cameras)
    assert found.local[at_cut].sum() < 0.05 * found.local.sum()


def test_a_video_that_is_replaced_is_read_again(tmp_path):
    path = tmp_path / "film.mp4"
    totals = []
    for number, moment in enumerate((2.0, None)):
        write_video(path, film(change=moment), fps=FPS, options={"crf": "18"})
        os.utime(path, ns=(number, number))
        totals.append(clip_change(path, None, None).curve.sum())
    assert totals[1] < 0.05 * totals[0]


def change(times: np.ndarray, curve: np.ndarray, amount: np.ndarray) -> ClipChange:
    height, width = amount.shape
    return ClipChange(
        times=times,
        period=float(np.median(np.diff(times))) if len(times) > 1 else 0.04,
        cameras=np.tile(np.eye(3), (len(times), 1, 1)),
        before=np.zeros((height, width, 3), np.float32),
        after=np.zeros((height, width, 3), np.float32),
        amount=amount.astype(np.float32),
        step=np.zeros((height, width, 2), np.float32),
        curve=curve.astype(np.float32),
        possible=amount.astype(np.float32),
        shown=np.ones(len(times), bool),
        local=curve[::-1].astype(np.float32),
        motion=curve.astype(np.float32),
    )


@given(
    gaps=st.lists(st.floats(0.005, 0.5), max_size=40),
    start=st.floats(0, 1000),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_bins_of_equal_length_hold_what_the_frames_hold(
    gaps: list[float], start: float, seed: int
) -> None:
    times = start + np.cumsum([0.0, *gaps])
    curve = np.random.default_rng(seed).random(len(times)) * (np.arange(len(times)) > 0)
    profile = profile_of(change(times, curve, np.zeros((9, 16))))
    assert profile.start == times[0]
    assert profile.step >= SHORTEST_BIN
    edges = profile.start + profile.step * np.arange(len(profile.curve) + 1)
    assert edges[-1] >= times[-1] - 1e-4
    assert (profile.curve >= 0).all()
    assert profile.curve.sum() == pytest.approx(curve.sum(), rel=1e-4)
    assert profile.local is not None
    assert profile.local.shape == profile.curve.shape
    assert profile.local.sum() == pytest.approx(curve.sum(), rel=1e-4)
    assert profile.motion is not None
    assert (profile.motion == profile.curve).all()
    for edge, until in zip(edges[1:-1], np.cumsum(profile.curve), strict=False):
        least, most = curve[times <= edge].sum(), curve[: (times <= edge).sum() + 1].sum()
        assert least - 1e-3 <= until <= most + 1e-3, "no change is moved beyond its two frames"


def test_a_change_lies_between_its_two_frames() -> None:
    times = np.arange(20) / 20
    curve = np.zeros(20)
    curve[7] = 0.25
    profile = profile_of(change(times, curve, np.zeros((9, 16))))
    assert np.flatnonzero(profile.curve > 1e-6).tolist() == [6]  # from 0.30 s to 0.35 s
    assert profile.curve[6] == pytest.approx(0.25)


def test_where_is_the_amount_at_low_resolution() -> None:
    amount = np.zeros((90, 160))
    amount[:45, :80] = 1.0
    where = profile_of(change(np.arange(5) / 25, np.zeros(5), amount)).where
    assert where.dtype == np.uint8
    assert where.shape == (22, 40)
    assert (where[:10, :20] == 255).all()
    assert where[12:].max() == where[:, 20:].max() == 0
    tall = profile_of(change(np.arange(5) / 25, np.zeros(5), np.ones((160, 30)))).where
    assert tall.shape == (160, 30)


def test_one_frame_has_one_bin() -> None:
    profile = profile_of(change(np.array([2.0]), np.zeros(1), np.zeros((2, 3))))
    assert profile.curve.tolist() == [0.0]
    assert (profile.start, profile.step) == (2.0, 0.04)


SLIDE = (1.0, 3.0)  # seconds from start to end of a slide


def slide(*, jumps: bool) -> list[np.ndarray]:
    """A textured box that moves to the right from 1 to 3 s, or appears there at 3 s."""
    wall, thing = (cv2.cvtColor(texture(n, 0), cv2.COLOR_GRAY2RGB) for n in (1, 2))
    x1, y1, x2, y2 = THING
    frames = []
    for t in np.arange(round(4.0 * FPS)) / FPS:
        share = np.clip((t - SLIDE[0]) / (SLIDE[1] - SLIDE[0]), 0, 1)
        x = x1 - 40 + round(80 * float(np.floor(share) if jumps else share))
        frame = wall.copy()
        frame[y1:y2, x : x + x2 - x1] = 255 - thing[y1:y2, x1:x2] // 2
        frames.append(frame)
    return frames


def test_the_motion_is_that_of_the_changed_places(tmp_path):
    totals = []
    for name, jumps in (("slides", False), ("jumps", True)):
        path = tmp_path / f"{name}.mp4"
        write_video(path, slide(jumps=jumps), fps=FPS, options={"crf": "18"})
        found = clip_change(path, None, None)
        assert found.motion is not None
        during = (found.times >= SLIDE[0]) & (found.times < SLIDE[1])
        totals.append((found.motion[during].sum(), found.motion[found.times < 0.9].sum()))
    (moving, before), (_, still) = totals
    assert moving > 5 * before
    assert still < 0.2 * moving
