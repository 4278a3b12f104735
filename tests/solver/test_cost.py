import numpy as np
import pytest

from objectstates.base.errors import SettingError
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


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0, 1000.0])
@pytest.mark.parametrize("shape", [(49, 100), (100, 49)])
def test_features_of_any_size_keep_their_digits(scale, shape):
    rng = np.random.default_rng(5)
    features = scale * rng.standard_normal(shape)
    labels = rng.random((shape[0], 2))
    # Through the singular values, which loses nothing: A shrinks each by M ridge / (s^2 + M ridge).
    left, values, _ = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)
    centred = labels - labels.mean(axis=0)
    damped = shape[0] * 1e-4 / (values**2 + shape[0] * 1e-4)
    along = left.T @ centred
    expected = np.square(centred - left @ along).sum() + (damped[:, None] * along**2).sum()
    assert 2 * shape[0] * factorise(features, 1e-4).value(labels) == pytest.approx(
        expected, rel=1e-5, abs=1e-11 * shape[0]
    )


def test_too_large_for_the_ridge_is_said():
    features = np.outer(np.arange(10), np.ones(3)) * 1e12
    with pytest.raises(SettingError, match="scale them to unit length"):
        factorise(features, 1e-12)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_classifier_of_float32_features_is_as_exact_as_the_cost(scale):
    rng = np.random.default_rng(6)
    features = (scale * (rng.standard_normal((60, 200)) + 1)).astype(np.float32)
    labels = rng.random((60, 2))
    residual = factorise(features, 1e-4).residual(labels)
    weights, bias = linear_classifier(features, labels, residual, 1e-4)
    scores = features.astype(np.float64) @ weights + bias
    np.testing.assert_allclose(scores, labels - residual, atol=1e-6)


def test_float32_features_are_summed_in_float64():
    rng = np.random.default_rng(4)
    features = rng.standard_normal((50, 3000)).astype(np.float32)
    labels = rng.random((50, 1))
    wide = factorise(features.astype(np.float64), 1e-4).value(labels)
    assert factorise(features, 1e-4).value(labels) == pytest.approx(wide, rel=1e-10)


def test_no_rows_cost_nothing():
    assert factorise(np.empty((0, 7)), 1e-2).value(np.empty((0, 2))) == 0
