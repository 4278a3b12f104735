import numpy as np
import pytest

from objectstates.evaluation.bootstrap import interval, macro_mean, paired


def test_the_bounds_are_those_of_the_binomial():
    """Of 40 clips 28 are right: drawn anew, the count is binomial, whose quantiles are known."""
    scores = np.repeat([1.0, 0.0], [28, 12])
    found = interval([scores], draws=20_000)
    assert found.mean == 0.7
    assert found.low == pytest.approx(22 / 40, abs=0.026)
    assert found.high == pytest.approx(33 / 40, abs=0.026)


def test_the_bounds_hold_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = 0
    for trial in range(200):
        found = interval([rng.normal(0.3, 0.2, 40)], draws=500, seed=trial)
        held += found.low <= 0.3 <= found.high
    assert 0.88 <= held / 200 <= 0.99


def test_scores_of_a_clip_stay_together():
    """Two states that are right or wrong together are no more evidence than one."""
    one = np.repeat([1.0, 0.0], [6, 4])
    assert interval([np.stack([one, one], axis=1)]) == interval([one])


def test_groups_count_the_same_whatever_their_size():
    groups = [np.ones(100), np.zeros(1), np.array([np.nan])]
    assert macro_mean(groups) == 0.5
    assert interval(groups).mean == 0.5


def test_nothing_known_gives_no_number():
    assert np.isnan(interval([np.array([np.nan, np.nan])]).low)
    assert np.isnan(macro_mean([]))
    assert paired([(np.array([np.nan]), np.array([1.0]))]).n_clips == 0


def test_the_same_seed_gives_the_same_bounds():
    scores = np.random.default_rng(0).random(15)
    assert interval([scores], seed=3) == interval([scores], seed=3)
    assert interval([scores], seed=3) != interval([scores], seed=4)


def test_a_difference_in_pairs_is_seen_where_the_means_overlap():
    rng = np.random.default_rng(1)
    hard = rng.random(30)
    first, second = hard + 0.05 + rng.normal(0, 0.02, 30), hard
    alone = interval([first]), interval([second])
    assert alone[0].low < alone[1].high
    found = paired([(first, second)])
    assert found.low > 0
    assert found.p < 0.001
    assert found.difference == pytest.approx(np.mean(first - second))


def test_no_difference_has_no_small_p():
    rng = np.random.default_rng(2)
    small = sum(
        paired([(rng.random(30), rng.random(30))], draws=500, seed=trial).p < 0.05
        for trial in range(200)
    )
    assert small / 200 < 0.1
