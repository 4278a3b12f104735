from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.track.tracklets import cut_tracks
from objectstates.track.tracks import Track

FPS = 25
BOX = np.array([120.0, 80, 190, 140])
Floats = npt.NDArray[np.float64]


def track_of(times: Floats, end: float, scores: Floats | None = None) -> Track:
    n = len(times)
    seen = np.ones(n, np.float32) if scores is None else scores.astype(np.float32)
    return Track(0, end, times, np.tile(BOX, (n, 1)).astype(np.float32), seen)


def test_a_track_is_cut_into_equal_pieces_of_about_a_second() -> None:
    pieces = cut_tracks([track_of(np.arange(65) / FPS, 2.6)])
    assert [len(piece.times) for piece in pieces] == [22, 22, 21]
    assert pieces[0].start == 0
    assert pieces[-1].end == 2.6


@given(
    st.lists(st.floats(0.001, 0.2), min_size=1, max_size=300),
    st.floats(0.2, 5),
    st.floats(0, 1),
)
@settings(deadline=None, max_examples=200)
def test_pieces_tile_their_track(steps: list[float], seconds: float, least: float) -> None:
    edges = np.concatenate([[0], np.cumsum(steps)])
    track = track_of(edges[:-1], float(edges[-1]))
    pieces = cut_tracks([track], seconds=seconds, min_seconds=least)
    if track.end < least - 1e-5:
        assert pieces == []
    if pieces:
        assert np.concatenate([piece.times for piece in pieces]).tolist() == track.times.tolist()
        assert [p.end for p in pieces[:-1]] == [p.start for p in pieces[1:]]
        assert (pieces[0].start, pieces[-1].end) == (0, track.end)
        for piece in pieces:
            assert piece.end - piece.start <= 1.5 * seconds + max(steps) + 1e-5
            assert len(piece.boxes) == len(piece.times)


def test_pieces_score_the_mean_of_their_detections() -> None:
    scores = np.full(75, np.nan)
    scores[[0, 10, 74]] = 0.4, 0.6, 1.0
    pieces = cut_tracks([track_of(np.arange(75) / FPS, 3.0, scores)])
    assert [round(piece.score, 2) for piece in pieces] == [0.5, 0.77, 1.0]


def test_pieces_of_several_tracks_are_sorted_by_start() -> None:
    tracks = [track_of(np.arange(a, a + 60) / FPS, (a + 60) / FPS) for a in (30, 0, 12)]
    starts = [piece.start for piece in cut_tracks(tracks)]
    assert starts == sorted(starts)


def test_the_number_of_pieces_does_not_depend_on_the_rounding_of_times() -> None:
    # 2.5 s are as near to two pieces as to three, and 3.5 s to three as to four.
    for frames, expected in ((75, 2), (105, 3)):
        edges = [np.arange(first, first + frames + 1) / 30 for first in range(300)]
        tracks = [track_of(times[:-1], float(times[-1])) for times in edges]
        assert {len(cut_tracks([track])) for track in tracks} == {expected}
