"""Small random problems, and slow answers to them that need no cleverness."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from objectstates.solver.cost import factorise
from objectstates.solver.frank_wolfe import Solution, minimise
from objectstates.solver.in_memory import InMemoryProblem
from objectstates.solver.oracle import Constraints, one_row, ordered_states
from objectstates.solver.problem import JointProblem, make_side


@cache
def any_labels(m, n_states):
    """All (K + 1)^m labels of m rows, and how often each uses each state, (count, K)."""
    labels = np.array(list(itertools.product(range(n_states + 1), repeat=m)), np.int8)
    return labels, np.stack([(labels == k + 1).sum(axis=1) for k in range(n_states)], axis=1)


def all_labellings(start, end, n_states=2, exactly_one=False, forbidden=None, optional=None):
    """Every feasible labelling of one clip, (count, m), found by trying all of them.

    optional : (K,) bool, the states that a clip may lack.
    """
    m = len(start)
    if m == 0:
        return np.empty((0, 0), np.int8)
    labels, used = any_labels(m, n_states)
    may_lack = np.zeros(n_states, bool) if optional is None else optional
    good = ((used >= 1) | may_lack).all(axis=1)
    if exactly_one:
        good &= (used <= 1).all(axis=1)
    labels = labels[good]
    good = np.ones(len(labels), bool)
    for i, j in itertools.permutations(range(m), 2):
        first, second = labels[:, i], labels[:, j]
        if end[i] <= start[j]:  # i comes wholly before j, so j's state may not be the earlier one
            good &= ~((first > second) & (second > 0))
        elif end[j] > start[i]:  # they overlap
            good &= ~((first > 0) & (second > 0))
    if forbidden is not None:
        for i, k in zip(*np.nonzero(forbidden), strict=True):
            good &= labels[:, i] != k + 1
    return labels[good]


def total_costs(labellings, costs):
    """The cost of each labelling (count, m), forbidden entries not touched."""
    with_none = np.pad(costs, ((0, 0), (1, 0)))
    return with_none[np.arange(len(costs)), labellings].sum(axis=1)


def with_absence(labellings, costs, absent):
    """The same, with the prices (K,) of the states that a labelling lacks."""
    used = np.stack([(labellings == k + 1).any(axis=1) for k in range(len(absent))], axis=1)
    prices = np.where(used, 0.0, np.where(np.isinf(absent), 0.0, absent))
    return total_costs(labellings, costs) + prices.sum(axis=1)


def random_intervals(rng, m, length=6.0, grid=None):
    start = np.sort(rng.uniform(0, length, m))
    end = start + rng.uniform(0.3, 1.5, m)
    if grid:
        start, end = np.round(start * grid) / grid, np.round(end * grid) / grid + 1 / grid
    return start, end


def random_constraints(rng, sizes, forbid=0.0, exactly_one=False, linear=0.0) -> Constraints:
    """Clips of the given sizes; a long gap makes sure that each admits a labelling."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    pieces = []
    for m in sizes:
        start, end = random_intervals(rng, m)
        start[-1] = max(start[-1], end[:-1].max() + 0.1)
        end[-1] = start[-1] + 1
        pieces.append((start, end))
    start, end = (np.concatenate([piece[i] for piece in pieces]) for i in (0, 1))
    costs = linear * rng.standard_normal((len(start), 2))
    blocked = rng.random(costs.shape) < forbid
    blocked[offsets[:-1], 0] = blocked[offsets[1:] - 1, 1] = False
    costs[blocked] = np.inf
    return ordered_states(start, end, offsets, linear=costs, exactly_one=exactly_one)


def random_problem(
    rng, *, state_sizes=(5, 6, 4), action_sizes=(4, 5, 3), d_state=4, d_action=3, nu=1.0, **kw
) -> JointProblem:
    """A joint problem of random features; few features give the low-rank form, many the dense."""
    state = random_constraints(rng, state_sizes, **kw)
    offsets = np.concatenate([[0], np.cumsum(action_sizes)])
    times = np.concatenate([np.linspace(0, 7, t) for t in action_sizes])
    action = one_row(offsets, linear=np.zeros((offsets[-1], 1)), times=times)
    x_state = rng.standard_normal((state.n_rows, d_state))
    x_action = rng.standard_normal((action.n_rows, d_action))
    return JointProblem(
        make_side(factorise(x_action, 1e-2), action), make_side(factorise(x_state, 1e-2), state), nu
    )


def random_chain(
    rng, sizes, *, n_states=3, optional=False, cycle=False, exactly_one=False, nu=1.0, size=6
):
    """A joint problem of a chain and its features (T, d), (M, d): rows one after another, noisy
    features of the true states and actions."""
    sides, features = [], []
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    start = np.concatenate([np.arange(m, dtype=float) for m in sizes])
    for k in (n_states - 1, n_states):
        share = start / np.repeat(sizes, sizes)
        x = rng.standard_normal((k, size))[(share * k).astype(int)]
        x = x + 0.5 * rng.standard_normal(x.shape)
        absent = np.full(k, np.inf)
        absent[-1] = 0.002 if optional else np.inf
        constraints = ordered_states(
            start, start + 1.0, offsets, linear=np.zeros((len(start), k)), absent=absent,
            exactly_one=exactly_one or k < n_states,
        ) if k > 1 else one_row(
            offsets, linear=np.zeros((len(start), k)), times=start + 0.5, absent=absent
        )  # fmt: skip
        alike = np.append(np.arange(k - 1), 0) if cycle and k == n_states else None
        sides.append(make_side(factorise(x, 1e-2), constraints, alike))
        features.append(x)
    return JointProblem(sides[0], sides[1], nu), features


def at_start(problem: JointProblem) -> InMemoryProblem:
    """The problem with a current point, without classifiers."""

    def classifier(*_):
        raise AssertionError("no classifier is needed")

    return InMemoryProblem(problem, classifier)


def solve(problem: JointProblem, **settings) -> tuple[Solution, InMemoryProblem]:
    """The certificate of ``minimise``, and the problem at the solution."""
    solved = at_start(problem)
    return minimise(solved, **settings), solved


def dense_matrix(side):
    """A itself, whatever the form of its factor."""
    return side.rows if side.dense else np.eye(len(side.rows)) - side.rows @ side.rows.T


def dense_objective(problem, z, y):
    """h(Z, Y) written out: loops over all pairs of rows, no shared code with the solver."""
    action, state = problem.action.constraints, problem.state.constraints
    value = 0.0
    for side, labels in ((problem.action, z), (problem.state, y)):
        alike = side.classes[:, None] == side.classes
        value += np.trace(labels.T @ dense_matrix(side) @ labels @ alike) / (2 * len(labels))
        linear = np.where(np.isinf(side.constraints.linear), 0, side.constraints.linear)
        value += (linear * labels).sum()
    for n in range(problem.n_clips):
        for i in range(state.offsets[n], state.offsets[n + 1]):
            for t in range(action.offsets[n], action.offsets[n + 1]):
                late = state.times[i] - action.times[t]
                for k in range(action.n_states):
                    value += problem.scales.coupling * z[t, k] * y[i, k] * max(late, 0)
                    value += problem.scales.coupling * z[t, k] * y[i, k + 1] * max(-late, 0)
    return value
