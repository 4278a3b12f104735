"""Occurrences of a chain in one video: the recursion against brute force."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from objectstates.base.errors import SettingError
from objectstates.solver.occurrences import find_occurrences
from objectstates.solver.oracle import Floats, Ints

Single = tuple[tuple[int, ...], int, int, float]
"""Chunks of the actions, first and one past the last chunk, score."""


def singles(actions: Floats, states: Floats, margin: int, gaps: Ints) -> list[Single]:
    """All occurrences that are possible, one by one, by the definition."""
    n_chunks, n_actions = actions.shape
    found: list[Single] = []
    for rows in combinations(range(1, n_chunks - 1), n_actions):
        between = np.diff(rows) - 1
        if n_actions > 1 and not ((between >= gaps[:, 0]) & (between <= gaps[:, 1])).all():
            continue
        first, end = max(0, rows[0] - margin), min(n_chunks, rows[-1] + 1 + margin)
        edges = [(first, rows[0])]
        edges += [(a + 1, b) for a, b in pairwise(rows)]
        edges += [(rows[-1] + 1, end)]
        of_states = np.mean([states[a:b, k].mean() for k, (a, b) in enumerate(edges)])
        of_actions = np.mean([actions[t, k] for k, t in enumerate(rows)])
        if np.isfinite(of_actions):
            found.append((rows, first, end, float(of_actions + of_states) / 2))
    return found


def best_total(possible: list[Single], minimum: float, begin: int = 0) -> float:
    """The greatest total worth of occurrences that start at ``begin`` or later, by trying all."""
    totals = [0.0]
    for _, first, end, score in possible:
        if first >= begin and score > minimum:
            totals.append(score - minimum + best_total(possible, minimum, end))
    return max(totals)


def instance(seed: int) -> tuple[Floats, Floats, int, Ints, float]:
    rng = np.random.default_rng(seed)
    n_actions = int(rng.integers(1, 4))
    n_chunks = int(rng.integers(1, 13))
    actions = rng.normal(0.2, 0.6, (n_chunks, n_actions))
    actions[rng.random(actions.shape) < 0.1] = -np.inf
    states = rng.normal(0.2, 0.6, (n_chunks, n_actions + 1))
    least = rng.integers(1, 3, n_actions - 1)
    gaps = np.stack([least, least + rng.integers(0, 4, n_actions - 1)], axis=1)
    return actions, states, int(rng.integers(1, 4)), gaps, float(rng.uniform(-0.3, 0.8))


def test_no_set_of_occurrences_is_better_in_1500_small_videos() -> None:
    counts = []
    for seed in range(1500):
        actions, states, margin, gaps, minimum = instance(seed)
        found = find_occurrences(actions, states, margin=margin, gaps=gaps, minimum=minimum)
        possible = singles(actions, states, margin, gaps)
        score_of = {rows: (first, end, score) for rows, first, end, score in possible}
        chosen = [score_of[tuple(int(t) for t in rows)] for rows in found.actions]
        np.testing.assert_allclose(found.scores, [score for *_, score in chosen], atol=1e-9)
        assert all(a[1] <= b[0] for a, b in pairwise(chosen))
        assert (found.scores > minimum).all()
        assert np.isclose((found.scores - minimum).sum(), best_total(possible, minimum), atol=1e-8)
        if not chosen:
            highest = max((score for *_, score in possible), default=-np.inf)
            assert np.isclose(found.best, highest) or found.best == highest
        counts.append(len(chosen))
    assert set(counts) >= {0, 1, 2, 3}


def planted(starts: list[int], n_chunks: int = 60) -> tuple[Floats, Floats]:
    """A cycle (closed, open, closed): it opens at each start and closes 8 chunks later."""
    actions, states = np.zeros((n_chunks, 2)), np.tile([1.0, 0.0, 1.0], (n_chunks, 1))
    for t in starts:
        actions[t, 0] = actions[t + 8, 1] = 1.0
        states[t + 1 : t + 8] = 0.0, 1.0, 0.0
    return actions, states


@pytest.mark.parametrize("starts", [[], [5], [5, 25], [1, 14, 27, 40]])
def test_every_planted_occurrence_is_found_and_no_other(starts: list[int]) -> None:
    actions, states = planted(starts)
    found = find_occurrences(actions, states, margin=2, gaps=np.array([[3, 16]]), minimum=0.6)
    assert found.actions.tolist() == [[t, t + 8] for t in starts]
    np.testing.assert_allclose(found.scores, 1.0)


def test_the_best_score_of_a_video_without_occurrences_is_told() -> None:
    actions, states = planted([10])
    found = find_occurrences(0.2 * actions, states, margin=2, gaps=np.array([[3, 16]]), minimum=0.7)
    assert len(found.scores) == 0
    assert found.best == pytest.approx((0.2 + 1.0) / 2)
    short = find_occurrences(actions[:3], states[:3], margin=1, gaps=np.array([[3, 9]]), minimum=0)
    assert short.best == -np.inf


def test_settings_that_fit_no_chain_are_refused() -> None:
    actions, states = planted([10])
    with pytest.raises(SettingError, match="`gaps`"):
        find_occurrences(actions, states, margin=1, gaps=np.empty((0, 2), int), minimum=0)
    with pytest.raises(SettingError, match="`margin`"):
        find_occurrences(actions, states, margin=0, gaps=np.array([[1, 2]]), minimum=0)
    with pytest.raises(SettingError, match="finite"):
        find_occurrences(actions, states * np.nan, margin=1, gaps=np.array([[1, 2]]), minimum=0)
