import numpy as np
import pytest

from benchmarks.trust.corpora import (
    Judged,
    half_idle,
    half_other,
    half_reversed,
    shuffled,
    unrelated,
)
from benchmarks.trust.diagram import reliability_diagram
from benchmarks.trust.estimate import ACTION, STATES, estimate
from benchmarks.trust.judging import Answers, Outcome, answers, outcome, reliability, score
from objectstates.data.clips import TrackletLabel
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.evidence import Evidence


@pytest.fixture(scope="module")
def corpus():
    return synthetic_corpus(n_clips=6, seed=0)


def test_shuffled_content_keeps_times_and_truth(corpus):
    made = shuffled(corpus)
    np.testing.assert_array_equal(made.chunks.start, corpus.chunks.start)
    np.testing.assert_array_equal(made.chunks.label, corpus.chunks.label)
    assert (made.chunks.features != corpus.chunks.features).any()
    for n in range(len(corpus)):
        rows = list(corpus.chunk_rows(n))
        before, after = (c.chunks.features[rows].sum(axis=1) for c in (corpus, made))
        np.testing.assert_allclose(np.sort(before), np.sort(after), rtol=1e-5)


def test_nothing_is_right_in_clips_of_something_else(corpus):
    other = synthetic_corpus(n_clips=6, seed=1)
    for made in (half_other(corpus, [other]), half_idle(corpus, corpus)):
        for n in range(len(made)):
            shown = made.chunks.label[list(made.chunk_rows(n))]
            assert shown.any() == (n % 2 == 0)
    assert not unrelated([corpus, other], 2, 0).chunks.label.any()
    assert len(unrelated([corpus, other], 2, 0)) == 4


def test_a_reversed_clip_runs_backwards_and_counts_as_wrong(corpus):
    made = half_reversed(corpus)
    assert made.clip_ids[0] == corpus.clip_ids[0]
    assert made.clip_ids[1] != corpus.clip_ids[1]
    first, second = corpus[1], made[1]
    total = first.chunks[0].start + first.chunks[-1].end
    for before, after in zip(first.chunks, reversed(second.chunks), strict=True):
        assert (after.start, after.end) == (total - before.end, total - before.start)
        np.testing.assert_array_equal(after.feature, before.feature)
        assert not after.label
    assert all(row.label == TrackletLabel.FALSE_POSITIVE for row in second.tracklets)
    assert [row.start for row in second.tracklets] == sorted(row.start for row in second.tracklets)


def test_a_corpus_is_judged_by_its_truth(corpus):
    judged = outcome(Judged("synthetic", "given", corpus, True))
    hopeless = outcome(Judged("synthetic", "shuffled given", corpus, True))
    assert judged is not None
    assert hopeless is not None
    assert judged.action_truth.mean() > 0.5
    assert not hopeless.action_truth.any()
    assert len(answers([judged], "action")[0].chance) == 6
    assert len(answers([judged], "states")[0].chance) == 12


def made_up(right, seed):
    """An outcome whose evidence tells whether it is right."""
    rng = np.random.default_rng(seed)
    level = 0.9 if right else 0.1
    action = {name: np.full(8, level) + rng.normal(0, 0.1) for name in ACTION}
    states = {name: np.full(8, level) + rng.normal(0, 0.1) for name in STATES if name != "action"}
    evidence = Evidence(action, states, {"clips": 8.0}, 8)
    truth = np.full(8, float(right))
    return Outcome(f"m{seed % 4}", "given", True, evidence, truth, np.stack([truth, truth], 1))


def test_weights_learn_what_tells_right_from_wrong():
    outcomes = [made_up(seed % 2 == 0, seed) for seed in range(24)]
    weights = estimate(outcomes)
    for side in ("action", "states"):
        result = score(answers(outcomes, side, *weights))
        assert result.auc == 1
        assert result.precision == 1
        assert result.right == 12


def test_scores_of_known_answers():
    parts = [
        Answers("a", "given", np.full(4, 0.95), np.ones(4)),
        Answers("b", "given", np.full(4, 0.85), np.zeros(4)),
        Answers("c", "given", np.full(4, 0.15), np.array([0, 0, 0, 1.0])),
    ]
    result = score(parts)
    assert (result.corpora, result.right, result.found) == (3, 1, 2)
    assert (result.precision, result.recall, result.auc) == (0.5, 1.0, 1.0)
    assert result.ece == pytest.approx((0.05 + 0.85 + 0.1) / 3)
    rows = reliability(parts)
    assert [round(share, 3) for share, _, _ in rows] == [0.333, 0.333, 0.333]
    drawing = reliability_diagram(rows)
    assert drawing.count("<circle") == 3
    assert "33% of answers: chance 0.15, right 0.25" in drawing
