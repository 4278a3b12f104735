from dataclasses import replace

import numpy as np
import pytest

from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.shared_change import MOST, appearance, told_apart
from objectstates.features.object_motion import OBJECT_MOTION_DIM

N_CLIPS, SIZE = 10, 40
RNG = np.random.default_rng(0)
LIKE_ALL = np.tile(RNG.normal(size=SIZE), (N_CLIPS, 1))
LIKE_NONE = RNG.normal(size=(N_CLIPS, SIZE))
WHOLE = np.tile([-np.inf, np.inf], (N_CLIPS, 1))


@pytest.fixture(scope="module")
def times():
    return synthetic_corpus(n_clips=N_CLIPS, chunks_per_clip=40, seed=0)


@pytest.fixture(scope="module")
def spans(times):
    """An action of a second in the middle of each clip."""
    offsets = times.chunks.offsets
    middle = (times.chunks.start[offsets[:-1]] + times.chunks.end[offsets[1:] - 1]) / 2
    return np.stack([middle - 0.5, middle + 0.5], axis=1)


def filmed(times, spans, changes, noise=0.5, seed=0):
    """Clips of different scenes, in which the action changes the picture by ``changes`` (N, d)."""
    rng = np.random.default_rng(seed)
    clip = np.repeat(np.arange(N_CLIPS), np.diff(times.chunks.offsets))
    scenes = 5 * rng.normal(size=(N_CLIPS, SIZE))
    after = times.chunks.time > spans[clip].mean(axis=1)
    looks = scenes[clip] + changes[clip] * after[:, None]
    looks += noise * rng.normal(size=looks.shape)
    motion = 100 * rng.normal(size=(len(clip), OBJECT_MOTION_DIM))
    corpus = times.with_features(chunks=np.hstack([motion, looks]).astype(np.float32))
    return replace(corpus, info={"ingest": {"chunks": "dense"}})


def share(corpus, spans, windows=WHOLE, learned=None, **options):
    learned = np.arange(N_CLIPS) if learned is None else learned
    return told_apart(corpus, spans, windows, learned, **options)


def test_a_change_that_all_clips_share_is_told_whatever_the_scene(times, spans):
    assert (share(filmed(times, spans, LIKE_ALL), spans) > 0.9).all()


def test_changes_of_their_own_are_not_told(times, spans):
    for seed in range(5):
        apart = share(filmed(times, spans, LIKE_NONE, seed=seed), spans)
        assert abs(apart.mean() - 0.5) < 0.25


def test_a_clip_that_changes_otherwise_stands_out(times, spans):
    changes = LIKE_ALL.copy()
    changes[3] = -changes[3]
    apart = share(filmed(times, spans, changes), spans)
    assert apart[3] < 0.1
    assert (np.delete(apart, 3) > 0.9).all()


def test_clips_that_are_not_learned_from_are_judged_by_the_others(times, spans):
    changes = LIKE_ALL.copy()
    changes[7:] *= -1
    apart = share(filmed(times, spans, changes), spans, learned=np.arange(7))
    assert (apart[:7] > 0.9).all()
    assert (apart[7:] < 0.1).all()


def test_it_is_the_discriminant_learned_without_the_clip(times, spans):
    """Against the primal form, clip by clip."""
    corpus = filmed(times, spans, LIKE_ALL, noise=3.0)
    apart = share(corpus, spans)
    parts = []
    for n in range(N_CLIPS):
        rows = np.array(corpus.chunk_rows(n))
        at, looks = corpus.chunks.time[rows], appearance(corpus)[rows].astype(np.float64)
        sides = [looks[at < spans[n, 0]], looks[at > spans[n, 1]]]
        sides = [
            s[np.linspace(0, len(s) - 1, min(MOST, len(s))).round().astype(int)] for s in sides
        ]
        mean = np.concatenate(sides).mean(axis=0)
        parts.append([side - mean for side in sides])
    rows = np.concatenate([side for sides in parts for side in sides])
    spread = rows.T @ rows / len(rows)
    spread += 0.1 * (rows**2).sum(axis=1).mean() * np.eye(SIZE)
    steps = np.array([after.mean(axis=0) - before.mean(axis=0) for before, after in parts])
    for n, (before, after) in enumerate(parts):
        v = np.linalg.solve(spread, steps.sum(axis=0) - steps[n])
        expected = ((after @ v)[:, None] > (before @ v)[None]).mean()
        assert apart[n] == pytest.approx(expected, abs=1e-9)


def test_other_actions_of_the_clip_bound_what_is_looked_at(times, spans):
    """What happens after the next action does not count."""
    corpus = filmed(times, spans, LIKE_ALL, noise=0.1)
    features = corpus.chunks.features.copy()
    clip = np.repeat(np.arange(N_CLIPS), np.diff(corpus.chunks.offsets))
    later = corpus.chunks.time > spans[clip, 1] + 3
    features[later, OBJECT_MOTION_DIM:] -= (2 * LIKE_ALL[clip[later]]).astype(np.float32)
    undone = corpus.with_features(chunks=features)
    windows = np.stack([np.full(N_CLIPS, -np.inf), spans[:, 1] + 3], axis=1)
    assert (share(undone, spans, windows) == 1).all()
    assert share(undone, spans).mean() < 0.9


def test_of_several_cameras_the_first_counts(times, spans):
    """Also if the others, or signals of the robot, would tell after from before."""
    first = filmed(times, spans, LIKE_NONE)
    second = filmed(times, spans, LIKE_ALL, seed=1)
    both = np.hstack([first.chunks.features, second.chunks.features])
    info = {"ingest": {"chunks": "dense"}, "dataset": {"cameras": ["front", "wrist"]}}
    corpus = replace(first.with_features(chunks=both), info=info)
    np.testing.assert_array_equal(share(corpus, spans), share(first, spans))
    signalled = replace(corpus, info={"ingest": {"chunks": "dense", "signals": "auto"}})
    assert np.isnan(share(signalled, spans)).all()


def test_nothing_is_said_where_nothing_is_known(times, spans):
    corpus = filmed(times, spans, LIKE_ALL)
    assert np.isnan(share(replace(corpus, info={}), spans)).all()
    at_the_start = spans.copy()
    at_the_start[2] = [-1.0, times.chunks.start[times.chunk_rows(2)[0]]]
    at_the_start[2, 1] += 0.01
    apart = share(corpus, at_the_start)
    assert np.isnan(apart[2])
    assert not np.isnan(np.delete(apart, 2)).any()
    assert np.isnan(share(corpus, spans, learned=np.array([0]))).all()
    still = corpus.with_features(chunks=np.zeros_like(corpus.chunks.features))
    assert np.isnan(share(still, spans)).all()
    alike = corpus.with_features(chunks=np.ones_like(corpus.chunks.features))
    assert (share(alike, spans) == 0.5).all()
    motion_alone = corpus.with_features(chunks=corpus.chunks.features[:, :OBJECT_MOTION_DIM])
    assert np.isnan(share(motion_alone, spans)).all()
