"""The method in dense NumPy: the definition that all backends are tested against.

    h(Z, Y) = f(Z) + g(Y) + <linear, (Z, Y)> + nu/T sum_n d(Z_n, Y_n)        (paper, eq. 1 and 5)

Z (T, K - 1) labels chunks with ordered actions and Y (M, K) tracklets with ordered states, relaxed
to the convex hull of each clip's labellings; the paper has K = 2. A state that a clip may lack adds
its price times the weight of the labellings that lack it. Nothing is fast here, and nothing in the
package calls it: to change the objective, change it here first, then let
``tests/solver/test_backends.py`` show what each backend (numba, disk, torch, Triton) still lacks.

>>> rows = dict(offsets=np.array([0, 3]), start=np.arange(3.0), end=np.arange(3.0) + 1)
>>> action = Side(np.eye(3)[:, 1:2], 1e-3, linear=np.zeros((3, 1)), exactly_one=True, **rows)
>>> state = Side(np.array([[-1.0], [0.0], [1.0]]), 1e-3, linear=np.zeros((3, 2)), **rows)
>>> problem = Problem(action, state, nu=1.0)
>>> z, y = np.eye(3)[:, 1:2], np.eye(3)[:, [0, 2]]  # state 1, action, state 2
>>> [round(term, 3) for term in terms(problem, z, y)]
[0.0, 0.056, 0.0]
>>> round_jointly(problem, *(scores(s, x) for s, x in zip(problem.sides, (z, y))))
(array([0, 1, 0]), array([1, 0, 2]))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Combination = dict[tuple[int, ...], float]  # labellings of one clip and their weights


@dataclass(frozen=True, eq=False)
class Side:
    """One label matrix: M rows (tracklets or chunks) of N clips, K ordered states.

    features : (M, d). ridge : the paper's mu or lambda. offsets : (N + 1,) first row of each clip.
    start, end : (M,) seconds, half-open. linear : (M, K) cost of labels, infinite where forbidden.
    exactly_one : each state once per clip, instead of at least once.
    absent : (K,) cost of a clip without the state, infinite where required; None: all are.
    classes : (K,) states of the same class share a classifier; None: each has its own.
    """

    features: Floats
    ridge: float
    offsets: Ints
    start: Floats
    end: Floats
    linear: Floats
    exactly_one: bool = False
    absent: Floats | None = None
    classes: Ints | None = None

    @property
    def prices(self) -> Floats:
        """(K,) of absence."""
        return np.full(self.linear.shape[1], np.inf) if self.absent is None else self.absent

    @property
    def alike(self) -> Floats:
        """(K, K) 1 for states that share a classifier, else 0."""
        classes = np.arange(self.linear.shape[1]) if self.classes is None else self.classes
        return np.asarray(classes[:, None] == classes, float)

    @property
    def clips(self) -> list[slice]:
        return [slice(lo, hi) for lo, hi in pairwise(self.offsets.tolist())]

    @property
    def times(self) -> Floats:
        """(M,) the middle of each row."""
        return (self.start + self.end) / 2

    @property
    def form(self) -> Floats:
        """A = P - PX (X'PX + M ridge I)^-1 X'P with P = I - 11'/M, so that g = tr(Y'AY) / 2M.

        That is |Y - XW - b|^2 / 2M + ridge/2 |W|^2 (paper, eq. 2) at its minimum over W and b.
        """
        m, d = self.features.shape
        centring = np.eye(m) - 1 / max(m, 1)
        x = centring @ self.features
        gram = x.T @ x + max(m, 1) * self.ridge * np.eye(d)
        return np.asarray(centring - x @ np.linalg.solve(gram, x.T))


@dataclass(frozen=True, eq=False)
class Problem:
    """Both sides over the same clips; ``action`` has one column less than ``state``."""

    action: Side
    state: Side
    nu: float

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.action, self.state

    @property
    def distortion(self) -> Floats:
        """(T, K - 1, M, K) of action q, nu/T [t_i - t]_+ for state q and nu/T [t - t_i]_+ for state
        q + 1 (paper, eq. 6); 0 between different clips."""
        late = self.state.times - self.action.times[:, None]
        clip_of = [np.repeat(np.arange(len(s.clips)), np.diff(s.offsets)) for s in self.sides]
        same = clip_of[0][:, None] == clip_of[1]
        n_actions, n_states = (side.linear.shape[1] for side in self.sides)
        costs = np.zeros((len(late), n_actions, late.shape[1], n_states))
        for q in range(min(n_actions, n_states - 1)):
            costs[:, q, :, q] = same * np.maximum(late, 0)
            costs[:, q, :, q + 1] = same * np.maximum(-late, 0)
        return self.nu / max(len(late), 1) * costs


def inner(costs: Floats, labels: Floats) -> float:
    """<costs, labels>; the infinite cost of a label that is not used counts 0."""
    used = labels != 0
    return float(costs[used] @ labels[used])


def normaliser(rows: Floats) -> int:
    """2T or 2M, by which squared errors are divided."""
    return 2 * max(len(rows), 1)


Missing = tuple[Floats, Floats]
"""Of both sides (N, K): the weight of labellings that lack a state that clips may lack."""


def missing_of(side: Side, clips: Sequence[Combination]) -> Floats:
    """(N, K) of convex combinations of labellings."""
    missing = np.zeros((len(clips), side.linear.shape[1]))
    for n, clip in enumerate(clips):
        for labels, weight in clip.items():
            missing[n] += weight * lacks(side, labels)
    return missing


def lacks(side: Side, labels: Sequence[int]) -> Floats:
    """(K,) 1 for each state that one clip's labels lack, of those that it may lack."""
    unused = ~np.isin(np.arange(1, len(side.prices) + 1), labels)
    return np.asarray(unused & np.isfinite(side.prices) & (len(labels) > 0), float)


def absence(side: Side, missing: Floats) -> float:
    """What clips (N, K), or one clip (K,), pay for what they lack."""
    return inner(np.broadcast_to(side.prices, missing.shape), missing)


def terms(
    problem: Problem, z: Floats, y: Floats, missing: Missing | None = None
) -> tuple[float, float, float]:
    """f and g, each with its linear costs, and the coupling; h is their sum.

    missing : None if no clip lacks a state.
    """
    f, g = (
        np.vdot(labels, side.form @ labels @ side.alike) / normaliser(labels)
        + inner(side.linear, labels)
        + (0.0 if missing is None else absence(side, missing[s]))
        for s, (side, labels) in enumerate(zip(problem.sides, (z, y), strict=True))
    )
    return float(f), float(g), float(np.einsum("tq,tqik,ik->", z, problem.distortion, y))


def gradient(problem: Problem, z: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The derivatives of h by Z (T, K - 1) and Y (M, K): AY/M + linear + that of the coupling."""
    by_z = np.einsum("tqik,ik->tq", problem.distortion, y)
    by_y = np.einsum("tqik,tq->ik", problem.distortion, z)
    action, state = problem.sides
    return (
        action.form @ z @ action.alike / max(len(z), 1) + action.linear + by_z,
        state.form @ y @ state.alike / max(len(y), 1) + state.linear + by_y,
    )


def scores(side: Side, labels: Floats) -> Floats:
    """XW + b of the classifier that labels (M, K) imply: Y - AY."""
    labels = labels @ side.alike
    return labels - side.form @ labels


def oracle(
    costs: Floats, start: Floats, end: Floats, exactly_one: bool, absent: Floats | None = None
) -> tuple[float, tuple[int, ...]]:
    """The cheapest labelling of one clip, 0..K per row: no two labelled rows overlap, each row of
    state k ends before each of state k + 1 starts, every state is used, or pays for its absence
    (K,). Infinite if there is none.

    best[k][j] : over the first j rows in order of end time, with the states 1..k all used.
    """
    m, n_states = costs.shape
    order = np.lexsort((start, end))
    nothing, impossible = (0.0, (0,) * m), (np.inf, (0,) * m)
    best = [[nothing] * (m + 1), *([impossible] * (m + 1) for _ in range(n_states))]
    prices = np.full(n_states, np.inf) if absent is None else absent
    for k in range(1, n_states + 1):
        best[k][0] = (best[k - 1][0][0] + float(prices[k - 1]), nothing[1])
    for j, row in enumerate(order, start=1):
        before = int((end <= start[row]).sum())  # rows that end no later than this one starts
        for k in range(1, n_states + 1):
            candidates = [best[k][j - 1]]  # the row is not labelled k
            if np.isfinite(prices[k - 1]):
                value, labels = best[k - 1][j]
                candidates.append((value + float(prices[k - 1]), labels))
            for value, labels in [best[k - 1][before]] + [best[k][before]] * (not exactly_one):
                labelled = (*labels[:row], k, *labels[row + 1 :])
                candidates.append((value + costs[row, k - 1], labelled))
            best[k][j] = min(candidates, key=lambda candidate: candidate[0])
    value, labels = best[n_states][m]
    return (float(value), labels) if np.isfinite(value) else impossible


def one_hot(labels: Sequence[int], n_states: int) -> Floats:
    """Labels (m,) of 0..K as a matrix (m, K)."""
    return np.eye(n_states + 1)[np.asarray(labels, int), 1:]


def duality_gap(problem: Problem, z: Floats, y: Floats, missing: Missing | None = None) -> float:
    """max over all labellings (Z', Y') of <gradient, (Z, Y) - (Z', Y')>.

    For nu = 0, where h is convex, at least h(Z, Y) less its minimum.
    """
    gap = 0.0
    for s, (side, slopes, labels) in enumerate(
        zip(problem.sides, gradient(problem, z, y), (z, y), strict=True)
    ):
        for number, n in enumerate(side.clips):
            if n.start < n.stop:
                least, _ = cheapest(side, n, slopes[n])
                gap += inner(slopes[n], labels[n]) - least
                gap += 0.0 if missing is None else absence(side, missing[s][number])
    return gap


def cheapest(side: Side, n: slice, costs: Floats) -> tuple[float, tuple[int, ...]]:
    """The oracle of one clip of a side."""
    return oracle(costs, side.start[n], side.end[n], side.exactly_one, side.prices)


def exact_step(slope: float, curvature: float, limit: float = 1.0) -> float:
    """The s in [0, limit] that minimises slope s + curvature s^2 / 2, for a slope of at most 0.

    A slope of 0, or above it by rounding errors, is of an optimum: there is no step.
    """
    if slope >= 0.0:
        return 0.0
    return limit if -slope >= curvature * limit else -slope / curvature


def full_step(problem: Problem, z: Floats, y: Floats) -> tuple[Floats, Floats, float]:
    """The paper's Frank-Wolfe step: all clips and both sides towards the oracle's labellings.

    Returns the labels after it and the gap before. d is bilinear, so the curvature may be negative.
    No clip may lack a state here.
    """
    targets = []
    for side, slopes in zip(problem.sides, gradient(problem, z, y), strict=True):
        found = [
            oracle(slopes[n], side.start[n], side.end[n], side.exactly_one) for n in side.clips
        ]
        targets.append(one_hot([k for _, labels in found for k in labels], slopes.shape[1]))
    gap = duality_gap(problem, z, y)
    # h is quadratic: h(target) = h(here) - gap + curvature / 2.
    there = terms(problem, targets[0], targets[1])
    curvature = 2 * (sum(there) - sum(terms(problem, z, y)) + gap)
    size = exact_step(-gap, curvature)
    return z + size * (targets[0] - z), y + size * (targets[1] - y), gap


def mean_of(weights: Combination, n_states: int) -> Floats:
    """The labels (m, K) that a convex combination of labellings stands for."""
    return np.asarray(sum(w * one_hot(labels, n_states) for labels, w in weights.items()))


def block_step(
    side: Side, n: slice, slopes: Floats, hessian: Floats, weights: Combination, pairwise: bool
) -> tuple[Floats, Combination, float]:
    """One Frank-Wolfe step on one side of clip n: gradient and combination after, gap before it.

    slopes : (m, K) gradient of h by the clip's labels. hessian : (m, m) A_nn/M; or I/M, with which
    steps lower an upper bound of h, since A <= I, however many clips move at once. The step goes
    towards the oracle's labelling from the clip's labels, or (``pairwise``) moves weight to it from
    the worst labelling in their combination.
    """
    k = slopes.shape[1]
    here = mean_of(weights, k)
    least, target = cheapest(side, n, slopes)

    def cost(labels: tuple[int, ...]) -> float:
        return inner(slopes, one_hot(labels, k)) + absence(side, lacks(side, labels))

    worst, value = max(weights, key=cost), sum(w * cost(q) for q, w in weights.items())
    source, limit = (one_hot(worst, k), weights[worst]) if pairwise else (here, 1.0)
    direction = one_hot(target, k) - source
    slope = least - (cost(worst) if pairwise else value)
    bent = hessian @ direction @ side.alike
    curvature = float(np.vdot(direction, bent))
    size = exact_step(slope, curvature, limit)
    moved = {q: w if pairwise else (1 - size) * w for q, w in weights.items()}
    if pairwise:
        moved[worst] -= size
    moved[target] = moved.get(target, 0.0) + size
    moved = {labels: weight for labels, weight in moved.items() if weight > 0}
    return slopes + size * bent, moved, value - least


def round_jointly(
    problem: Problem, action_scores: Floats, state_scores: Floats
) -> tuple[Ints, Ints]:
    """Integer labels (T,) and (M,) at fixed scores s (T, K - 1) and S (M, K) of the classifiers.

    Per clip the minimum of (1 - 2 s_tq)/2T + sum of (1 - 2 S_ik)/2M + linear + nu/T d over the
    actions' rows and the states (paper, eq. 7: |Y - S|^2 is linear in labels of 0 and 1). A clip
    that lacks an action lacks the state after it, and pays for both.
    """
    action, state = problem.sides
    action_costs = (1 - 2 * action_scores) / normaliser(action_scores) + action.linear
    state_costs = (1 - 2 * state_scores) / normaliser(state_scores) + state.linear
    z, y = np.zeros(len(action_costs), int), np.zeros(len(state_costs), int)
    for chunks, tracklets in zip(action.clips, state.clips, strict=True):
        found = []  # cost, actions, states
        for labels in action_labellings(action, chunks):
            hot, prices = one_hot(labels, action.linear.shape[1]), state.prices
            value = inner(action_costs[chunks], hot) + absence(action, lacks(action, labels))
            costs = state_costs[tracklets]
            if len(hot):
                costs = costs + np.einsum(
                    "tq,tqik->ik", hot, problem.distortion[chunks, :, tracklets]
                )
                absent = np.append(False, ~hot.any(axis=0))[: len(prices)]
                costs[:, absent], prices = np.inf, np.where(absent, prices, np.inf)
            states = tuple[int, ...]()
            if len(costs):
                times = state.start[tracklets], state.end[tracklets]
                least, states = oracle(costs, *times, state.exactly_one, prices)
                value += least
            found.append((value, labels, states))
        _, z[chunks], y[tracklets] = min(found, key=lambda one: one[0])
    return z, y


def action_labellings(action: Side, n: slice) -> list[tuple[int, ...]]:
    """All labels of one clip's chunks: each action once or absent, in order, apart in time."""
    start, end, linear = action.start[n], action.end[n], action.linear[n]
    found = [((0,) * len(start), -np.inf)]  # labels, end of the last action
    for q, price in enumerate(action.prices if len(start) else ()):
        found = [
            ((*labels[:t], q + 1, *labels[t + 1 :]), end[t])
            for labels, last in found
            for t in range(len(start))
            if last <= start[t] and np.isfinite(linear[t, q])
        ] + [one for one in found if np.isfinite(price)]
    return [labels for labels, _ in found]
