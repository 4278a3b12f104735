"""What we measure, and measure ourselves against, must be fair and whole."""

from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.authors import cheapest_path, predecessors, projection, solve_as_authors
from benchmarks.detector import covered
from benchmarks.gpu import Decoders
from objectstates import JointDiscovery
from objectstates.data.synthetic import synthetic_corpus
from objectstates.solver.cost import factorise
from objectstates.solver.oracle import label_clips, ordered_states
from objectstates.video.reader import read_frames
from tests.solver.problems import random_intervals


def test_its_path_is_the_oracles():
    rng = np.random.default_rng(0)
    compared = 0
    for _ in range(300):
        start, end = random_intervals(rng, 9, grid=4)
        costs = rng.standard_normal((9, 2))
        constraints = ordered_states(start, end, np.array([0, 9]), linear=np.zeros((9, 2)))
        values, _ = label_clips(costs, constraints)
        if np.isfinite(values[0]):
            labels = cheapest_path(costs, predecessors(start, end))
            assert (labels * costs).sum() == pytest.approx(values[0])
            compared += 1
    assert compared > 200


@pytest.mark.parametrize("shape", [(20, 5), (8, 30)])
def test_its_projection_is_ours(shape):
    rng = np.random.default_rng(1)
    features, labels = rng.standard_normal(shape), rng.random((shape[0], 2))
    ours = factorise(features, 1e-2).residual(labels)
    np.testing.assert_allclose(projection(features, 1e-2) @ labels, ours, atol=1e-10)


def test_it_goes_where_our_full_steps_go():
    corpus = synthetic_corpus(n_clips=5, tracklets_per_clip=12, chunks_per_clip=15)
    theirs = solve_as_authors(corpus, steps=150)
    ours = JointDiscovery.paper(solver="full", max_passes=180).fit(corpus)
    assert theirs.relaxed == pytest.approx(ours.relaxed_objective_, rel=0.15)
    assert theirs.rounded == pytest.approx(ours.objective_, rel=0.05)
    assert theirs.gap / theirs.relaxed < 0.5


def test_coverage_counts_visible_frames_with_a_tracklet_on_the_object():
    truth = {
        "fps": 10,
        "object": {
            "box": [[0, 0, 10, 10]] * 8,
            "visible_fraction": [1, 1, 1, 1, 1, 1, 0.2, None],
        },
    }
    on, off = [0, 0, 10, 9], [5, 5, 15, 15]
    # Frames 1 to 3 on it and 4 beside it; then 5 and, hidden, 6 on it; then 2 to 3 beside it.
    rows = [(1, on), (2, on), (3, on), (4, off), (5, on), (6, on), (2, off), (3, off)]
    seen = SimpleNamespace(
        boxes=np.array([[frame / 10, *box] for frame, box in rows]),
        box_offsets=np.array([0, 4, 6, 8]),
        tracklet_span=np.zeros((3, 2)),
    )
    visible, hit, tracklets, on_object = covered(seen, truth, 0, 8)
    assert (visible, hit) == (6, 4)
    assert (tracklets, on_object) == (3, 2)
    assert covered(seen, truth, 3, 6)[:2] == (3, 2)


def test_every_frame_that_is_decoded_on_the_way_arrives_once():
    videos = sorted(Path(str(files("objectstates") / "demo")).glob("*.mp4"))[:3]
    expected = sorted(
        frame.image.tobytes() for video in videos for frame in read_frames(video, max_side=320)
    )
    with Decoders(videos, 2, "cpu", batch=16) as batches:
        found = sorted(image.tobytes() for batch in batches for image in batch)
    assert found == expected
