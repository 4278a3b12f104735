"""The authors' full-step schedule, rendered faithfully in NumPy: what we measure ourselves against.

As in their release: the d x d ridge system is solved for all columns, whatever the sizes; the
dynamic program walks a 5-row matrix (Appendix C of the paper) along lists of predecessors, in the
interpreter; Frank-Wolfe starts from the mean of 5 random vertices, takes 30 full steps on f and g
alone and 600 joint ones, rounds with the classifiers after every step and jointly after every
25th, and keeps the rounding with the lowest objective.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from objectstates.data.corpus import Array, Corpus

INF = 1e9  # theirs is 1000, which fails when costs come near it
# From which rows the path may come: nothing yet, state 1, between, state 2, both seen.
_FROM = ((0,), (0, 1, 2), (1, 2), (1, 2, 3, 4), (3, 4))


@dataclass
class AuthorsSolution:
    """The best rounding, and the relaxed solution it came from."""

    z: Array
    y: Array
    relaxed: float
    gap: float
    rounded: float


def solve_as_authors(  # noqa: C901 (one loop, as in the authors' code)
    corpus: Corpus,
    *,
    nu: float = 1.0,
    mu: float = 1e-4,
    lam: float = 1e-2,
    start_steps: int = 30,
    steps: int = 600,
    seed: int = 0,
) -> AuthorsSolution:
    """Run the schedule in the paper's units."""
    rng = np.random.default_rng(seed)
    a_state = projection(corpus.tracklets.features, mu)
    a_action = projection(corpus.chunks.features, lam)
    clips = [_Clip(corpus, n) for n in range(len(corpus))]
    m, t = len(a_state), len(a_action)
    coupling = nu / t

    def oracle(z_cost: Array, y_cost: Array) -> tuple[Array, Array]:
        z, y = np.zeros(t), np.zeros((m, 2))
        for clip in clips:
            z[clip.chunks.start + int(np.argmin(z_cost[clip.chunks]))] = 1
            y[clip.tracklets] = cheapest_path(y_cost[clip.tracklets], clip.predecessors)
        return z, y

    def gradient(z: Array, y: Array, az: Array, ay: Array, weight: float) -> tuple[Array, Array]:
        z_grad, y_grad = az / t, ay / m
        if weight:
            for clip in clips:
                z_grad[clip.chunks] += weight * (clip.distortion.T @ y[clip.tracklets].T.ravel())
                y_grad[clip.tracklets] += (
                    weight * (clip.distortion @ z[clip.chunks]).reshape(2, -1).T
                )
        return z_grad, y_grad

    def distortion(z: Array, y: Array) -> float:
        parts = (y[c.tracklets].T.ravel() @ c.distortion @ z[c.chunks] for c in clips)
        return float(sum(parts))

    def objective(z: Array, y: Array, az: Array, ay: Array, weight: float) -> float:
        return float((z @ az) / (2 * t) + np.vdot(y, ay) / (2 * m) + weight * distortion(z, y))

    def joint_rounding(z_score: Array, y_score: Array) -> tuple[Array, Array]:
        z, y = np.zeros(t), np.zeros((m, 2))
        for clip in clips:
            best = np.inf
            cost = (1 - 2 * y_score[clip.tracklets]) / (2 * m)
            for s in range(clip.chunks.stop - clip.chunks.start):
                total = cost + coupling * clip.distortion[:, s].reshape(2, -1).T
                labels = cheapest_path(total, clip.predecessors)
                value = (total * labels).sum() + (1 - 2 * z_score[clip.chunks.start + s]) / (2 * t)
                if value < best:
                    best, chosen = value, (s, labels)
            z[clip.chunks.start + chosen[0]] = 1
            y[clip.tracklets] = chosen[1]
        return z, y

    starts = [oracle(rng.standard_normal(t), rng.standard_normal((m, 2))) for _ in range(5)]
    z, y = (np.mean([start[i] for start in starts], axis=0) for i in (0, 1))
    az, ay = a_action @ z, a_state @ y
    best, answer = np.inf, (z, y)
    for step in range(start_steps + steps):
        weight = coupling if step >= start_steps else 0.0
        z_grad, y_grad = gradient(z, y, az, ay, weight)
        z_to, y_to = oracle(z_grad, y_grad)
        dz, dy = z_to - z, y_to - y
        adz, ady = a_action @ dz, a_state @ dy
        slope = z_grad @ dz + np.vdot(y_grad, dy)
        curvature = (dz @ adz) / t + np.vdot(dy, ady) / m + 2 * weight * distortion(dz, dy)
        size = 1.0 if -slope >= curvature else -slope / curvature
        z, y, az, ay = z + size * dz, y + size * dy, az + size * adz, ay + size * ady
        if step < start_steps:
            continue
        roundings = [oracle((1 - 2 * (z - az)) / (2 * t), (1 - 2 * (y - ay)) / (2 * m))]
        if (step - start_steps + 1) % 25 == 0:
            roundings.append(joint_rounding(z - az, y - ay))
        for z_int, y_int in roundings:
            value = objective(z_int, y_int, a_action @ z_int, a_state @ y_int, coupling)
            if value < best:
                best, answer = value, (z_int, y_int)
    z_grad, y_grad = gradient(z, y, az, ay, coupling)
    z_to, y_to = oracle(z_grad, y_grad)
    gap = z_grad @ (z - z_to) + np.vdot(y_grad, y - y_to)
    return AuthorsSolution(*answer, objective(z, y, az, ay, coupling), float(gap), best)


def projection(features: Array, ridge: float) -> Array:
    """A = P - PX (X'PX + n ridge I)^-1 X'P, the d x d system solved for all n columns."""
    x = features.astype(np.float64)
    x -= x.mean(axis=0)
    n, d = x.shape
    solved = scipy.linalg.solve(x.T @ x + n * ridge * np.eye(d), x.T, assume_a="pos")
    return np.asarray(np.eye(n) - 1 / n - x @ solved)


class _Clip:
    """One clip's rows, its tracklets' predecessors, and the seconds of disorder of each pair."""

    def __init__(self, corpus: Corpus, n: int) -> None:
        rows, times = corpus.tracklet_rows(n), corpus.chunk_rows(n)
        self.tracklets, self.chunks = slice(rows.start, rows.stop), slice(times.start, times.stop)
        table = corpus.tracklets
        self.predecessors = predecessors(table.start[self.tracklets], table.end[self.tracklets])
        late = table.time[self.tracklets][:, None] - corpus.chunks.time[self.chunks][None]
        self.distortion = np.concatenate(
            [np.maximum(late, 0), np.maximum(-late, 0)]
        )  # (2 M_n, T_n)


def predecessors(start: Array, end: Array) -> list[list[int]]:
    """Per tracklet (sorted by start) those that may come just before it; last, those of the end."""
    m = len(start)
    before: list[list[int]] = [[] for _ in range(m + 1)]
    for i in range(m):
        after = [j for j in range(i + 1, m) if end[i] <= start[j]]
        if not after:
            before[m].append(i)
            continue
        first = after[0]
        for j in [first, *(j for j in range(first + 1, m) if start[j] < end[first])]:
            before[j].append(i)
    return before


def cheapest_path(costs: Array, before: list[list[int]]) -> Array:
    """The labelling (m, 2) of least cost, as a path through the 5-row matrix."""
    m = len(costs)
    cost = [(0.0, first, 0.0, second, 0.0) for first, second in costs.tolist()]
    value = [[INF] * 5 for _ in range(m)]
    came: list[list[tuple[int, int] | None]] = [[None] * 5 for _ in range(m)]
    for i in range(m):
        if not before[i]:
            value[i][0], value[i][1] = cost[i][0], cost[i][1]
            continue
        for k in range(5):
            least, origin = INF, None
            for j in before[i]:
                for row in _FROM[k]:
                    if value[j][row] < least:
                        least, origin = value[j][row], (j, row)
            value[i][k], came[i][k] = least + cost[i][k], origin
    labels = np.zeros((m, 2))
    here: tuple[int, int] | None = min(
        ((i, row) for i in before[m] for row in (3, 4)), key=lambda at: value[at[0]][at[1]]
    )
    while here is not None:
        i, row = here
        if row in (1, 3):
            labels[i, row // 2] = 1
        here = came[i][row]
    return labels
