import numpy as np
import pytest

from objectstates.base.errors import SettingError
from objectstates.solver.cost import factorise, linear_classifier, part_classifier
from objectstates.solver.parts import cost_of_part, cost_without_columns

SHAPES = [(40, 90), (90, 40), (90, 88)]


def unit_rows(m, d, seed=0):
    features = np.random.default_rng(seed).standard_normal((m, d)) + 0.5
    return features / np.linalg.norm(features, axis=1, keepdims=True)


@pytest.mark.parametrize("ridge", [1e-4, 1e-2])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_cost_of_a_part_is_that_of_its_features(shape, ridge):
    features, rng = unit_rows(*shape), np.random.default_rng(1)
    rows = np.sort(rng.permutation(len(features))[:30])
    part = cost_of_part(factorise(features, ridge), rows)
    alone = factorise(features[rows], ridge * len(features) / len(rows))
    labels = rng.standard_normal((len(rows), 2))
    assert part.ridge == pytest.approx(alone.ridge)
    np.testing.assert_allclose(part.residual(labels), alone.residual(labels), atol=1e-11)
    assert part.value(labels) == pytest.approx(alone.value(labels))


@pytest.mark.parametrize("shape", SHAPES)
def test_all_rows_and_none_are_parts_too(shape):
    cost = factorise(unit_rows(*shape), 1e-2)
    whole = cost_of_part(cost, np.arange(cost.n_samples))
    np.testing.assert_array_equal(whole.rows, cost.rows)
    assert cost_of_part(cost, np.arange(0)).n_samples == 0


def test_columns_are_removed_as_if_they_had_never_been():
    features = unit_rows(30, 50)
    features[:, -2:] *= 20
    less = cost_without_columns(factorise(features, 1e-3), features[:, -2:])
    np.testing.assert_allclose(less.rows, factorise(features[:, :-2], 1e-3).rows, atol=1e-10)


def test_the_classifier_of_a_part_is_that_of_its_rows():
    features = unit_rows(40, 25)
    rows = np.arange(3, 33, 2)
    labels = np.random.default_rng(2).random((len(rows), 2))
    residual = factorise(features[rows], 1e-3).residual(labels)
    expected = linear_classifier(features[rows], labels, residual, 1e-3)
    for one, other in zip(
        part_classifier(features, rows, labels, residual, 1e-3), expected, strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-11)


def test_features_too_large_for_the_ridge_are_named():
    cost = factorise(unit_rows(12, 30), 1e-3)
    cost.rows[:] = -cost.rows  # as after catastrophic cancellation
    with pytest.raises(SettingError, match="ridge"):
        cost_of_part(cost, np.arange(6))
