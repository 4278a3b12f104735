"""Features reduced to their leading directions cost what is said, and no labels become cheaper."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.base.errors import SettingError
from objectstates.solver.cost import factorise
from objectstates.solver.scale.moments import ArrayRows, Moments, measure, shift_of
from objectstates.solver.scale.pca import factored_reduced


def features_of(rng, m, d, decay):
    """Rows far from the origin, whose variance falls from direction to direction."""
    mixing = np.linalg.qr(rng.standard_normal((d, d)))[0] * decay ** np.arange(d)[:, None]
    return rng.standard_normal((m, d)) @ mixing + 3 * rng.standard_normal(d)


def integer_labels(rng, m, n_states):
    return rng.integers(0, n_states + 1, m).astype(np.int8)


def hot(labels, n_states):
    return (labels[:, None] == np.arange(1, n_states + 1)).astype(np.float64)


def ridge_cost(features, labels, ridge):
    """g(Y) by regression, bias and all, as its definition says: no factor is shared with."""
    m, d = features.shape
    centred = features - features.mean(axis=0)
    wide = np.vstack([centred, (m * ridge) ** 0.5 * np.eye(d)])
    target = np.vstack([labels - labels.mean(axis=0), np.zeros((d, labels.shape[1]))])
    weights = np.linalg.lstsq(wide, target, rcond=None)[0]
    return float(np.square(target - wide @ weights).sum() / (2 * m))


def principal(features, keep):
    """Centred features in the ``keep`` leading directions, by a singular value decomposition."""
    centred = features - features.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:keep].T


def whitened(features, ridge, keep):
    every = ArrayRows(features)
    return measure(every, shift_of(every)).whiten(ridge, keep)


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(2, 40),
    d=st.integers(2, 25),
    keep=st.integers(1, 24),
    decay=st.floats(0.3, 1.0),
    ridge=st.sampled_from([1e-4, 1e-2, 1.0]),
)
def test_labels_cost_no_less_and_no_more_than_the_bound(seed, m, d, keep, decay, ridge):
    """For all labels, integer and relaxed, on disk and in memory."""
    rng = np.random.default_rng(seed)
    features = features_of(rng, m, d, decay)
    whitening = whitened(features, ridge, keep)
    rows = whitening.factor(features)
    factored, reduction = factored_reduced(features, ridge, keep)
    cost = factored.cost
    integers = integer_labels(rng, m, 2)
    soft = rng.dirichlet(np.ones(3), m)[:, :2]
    for y in (hot(integers, 2), soft):
        exact = ridge_cost(features, y, ridge)
        bound = np.square(y - y.mean(axis=0)).sum() / (2 * m)
        on_disk = (np.square(y).sum() - np.square(rows.T @ y).sum()) / (2 * m)
        for value, lost in ((on_disk, whitening.reduction), (cost.value(y), reduction)):
            assert exact - 1e-9 <= value <= exact + lost.error_share * bound + 1e-9
        if keep < d:
            expected = ridge_cost(principal(features, keep), y, ridge)
            assert on_disk == pytest.approx(expected, abs=1e-9)
            assert cost.value(y) == pytest.approx(expected, abs=1e-9)
    lost = whitening.reduction
    y = hot(integers, 2)
    bound = lost.error_share * np.square(y - y.mean(axis=0)).sum() / (2 * m)
    assert lost.cost_error(integers) == pytest.approx(bound, abs=1e-12)


def test_the_bound_is_met_by_the_direction_left_out():
    """It is the best that holds for all labels."""
    rng = np.random.default_rng(0)
    features = features_of(rng, 60, 8, 0.6)
    whitening = whitened(features, 1e-2, 3)
    worst = np.linalg.svd(features - features.mean(axis=0))[0][:, 3:4]  # |PY| = 1
    rows = whitening.factor(features)
    value = (1 - np.square(rows.T @ worst).sum()) / 120
    error = value - ridge_cost(features, worst, 1e-2)
    assert error == pytest.approx(whitening.error_share / 120, rel=1e-9)
    assert 0.01 < whitening.error_share < 0.99
    spread = np.square(np.linalg.svd(features - features.mean(axis=0))[1])
    assert whitening.variance_lost == pytest.approx(spread[3:].sum() / spread.sum())


@pytest.mark.parametrize(("m", "d"), [(80, 30), (30, 80)])
def test_classifiers_are_of_the_features_as_they_were(m, d):
    """Scores of full features are those that the factor rows give, and those of the projection."""
    rng = np.random.default_rng(1)
    features, y, ridge, keep = features_of(rng, m, d, 0.9), rng.random((m, 2)), 1e-3, 7
    factored, _ = factored_reduced(features, ridge, keep)
    cost = factored.cost
    assert cost.rows.shape == (m, 1 + keep)
    weights, bias = factored.classifier(y, cost.residual(y))
    assert weights.shape == (d, 2)
    np.testing.assert_allclose(features @ weights + bias, y - cost.residual(y), atol=1e-9)
    narrow = principal(features, keep)
    gram = narrow.T @ narrow + m * ridge * np.eye(keep)
    expected = narrow @ np.linalg.solve(gram, narrow.T @ y) + y.mean(axis=0)
    np.testing.assert_allclose(features @ weights + bias, expected, atol=1e-9)


@pytest.mark.parametrize(("m", "d"), [(80, 30), (30, 80)])
def test_nothing_is_lost_where_the_rank_is_kept(m, d):
    rng = np.random.default_rng(2)
    features = rng.standard_normal((m, 9)) @ rng.standard_normal((9, d)) + 5
    exact = factorise(features, 1e-4)
    a = exact.rows if exact.dense else np.eye(m) - exact.rows @ exact.rows.T
    for keep in (9, 20):
        factored, reduction = factored_reduced(features, 1e-4, keep)
        for rows, lost in (
            (factored.cost.rows, reduction),
            (whitened(features, 1e-4, keep).factor(features), whitened(features, 1e-4, keep)),
        ):
            np.testing.assert_allclose(np.eye(m) - rows @ rows.T, a, atol=1e-9)
            assert lost.variance_lost < 1e-12
            assert lost.error_share < 1e-6


@pytest.mark.parametrize(("m", "d"), [(80, 30), (30, 80), (0, 5)])
def test_no_more_directions_than_there_are_change_nothing(m, d):
    features = features_of(np.random.default_rng(3), m, d, 0.9)
    factored, lost = factored_reduced(features, 1e-3, 100)
    np.testing.assert_array_equal(factored.cost.rows, factorise(features, 1e-3).rows)
    assert (lost.size, lost.kept, lost.error_share) == (d, d, 0.0)


@pytest.mark.parametrize(("m", "d"), [(12, 5), (5, 12)])
def test_rows_that_are_all_alike_have_no_direction(m, d):
    features = np.full((m, d), 2.0)
    y = hot(integer_labels(np.random.default_rng(4), m, 2), 2)
    cost = factored_reduced(features, 1e-2, 2)[0].cost
    assert cost.value(y) == pytest.approx(np.square(y - y.mean(axis=0)).sum() / (2 * m))


def test_features_too_large_to_square_are_named():
    moments = Moments(np.zeros(3), 4, np.zeros(3), np.diag([np.inf, 1.0, 1.0]))
    with pytest.raises(SettingError, match="scale them to unit length"):
        moments.whiten(1e-3, 2)
