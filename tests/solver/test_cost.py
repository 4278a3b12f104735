import numpy as np
import pytest

from objectstates.solver.cost import factorise, linear_classifier


def closed_form(features, ridge):
    """A from its definition."""
    m, d = features.shape
    centring = np.eye(m) - 1 / m
    centred = centring @ features
    inverse = np.linalg.inv(centred.T @ centred + m * ridge * np.eye(d))
    return centring - centred @ inverse @ centred.T


@pytest.mark.parametrize("shape", [(30, 8), (12, 40), (9, 9), (1, 3), (2, 1), (600, 700)])
@pytest.mark.parametrize("ridge", [1e-4, 1.0])
def test_both_factorisations_give_the_same_form(shape, ridge):
    rng = np.random.default_rng(0)
    features = rng.standard_normal(shape) + 3  # a mean to be centred away
    labels = rng.standard_normal((shape[0], 2))
    cost = factorise(features, ridge)
    assert cost.dense == (shape[0] <= shape[1])
    expected = closed_form(features, ridge) @ labels
    np.testing.assert_allclose(cost.residual(labels), expected, atol=1e-9)
    assert cost.value(labels) == pytest.approx(np.vdot(labels, expected) / (2 * shape[0]))


@pytest.mark.parametrize("shape", [(40, 6), (10, 25)])
def test_value_is_the_least_ridge_regression_cost(shape):
    rng = np.random.default_rng(1)
    features, labels = rng.standard_normal(shape) + 1, rng.random((shape[0], 2))
    ridge, m = 1e-2, shape[0]
    cost = factorise(features, ridge)
    weights, bias = linear_classifier(features, labels, cost.residual(labels), ridge)

    def regression(weights, bias):
        loss = np.square(labels - features @ weights - bias).sum() / (2 * m)
        return loss + ridge / 2 * np.square(weights).sum()

    assert regression(weights, bias) == pytest.approx(cost.value(labels))
    for _ in range(20):  # any other classifier costs more
        other = weights + 1e-3 * rng.standard_normal(weights.shape)
        assert regression(other, bias + 1e-3 * rng.standard_normal(2)) > cost.value(labels)
    np.testing.assert_allclose(features @ weights + bias, labels - cost.residual(labels), atol=1e-8)


def test_constant_labels_cost_nothing():
    features = np.random.default_rng(2).standard_normal((20, 5))
    assert factorise(features, 1e-3).value(np.full((20, 2), 0.3)) == pytest.approx(0, abs=1e-15)


def test_a_shift_of_the_features_changes_nothing():
    rng = np.random.default_rng(3)
    features, labels = rng.standard_normal((30, 50)), rng.random((30, 2))
    shifted = factorise(features + 1000, 1e-2).value(labels)
    assert shifted == pytest.approx(factorise(features, 1e-2).value(labels), rel=1e-6)


def test_float32_features_are_summed_in_float64():
    rng = np.random.default_rng(4)
    features = rng.standard_normal((50, 3000)).astype(np.float32)
    labels = rng.random((50, 1))
    wide = factorise(features.astype(np.float64), 1e-4).value(labels)
    assert factorise(features, 1e-4).value(labels) == pytest.approx(wide, rel=1e-10)


def test_no_rows_cost_nothing():
    assert factorise(np.empty((0, 7)), 1e-2).value(np.empty((0, 2))) == 0
