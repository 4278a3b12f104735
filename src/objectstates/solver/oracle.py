"""Linear minimisation over the labellings of one clip: the oracle of Frank-Wolfe.

A labelling gives every row of a clip (a tracklet, or a chunk) a state 1..K or none (0), such that

* no two labelled rows overlap in time,
* every row of state k lies before every row of state k + 1,
* every state is used: at least once, or exactly once; one that a clip may lack can be absent
  instead, at a price.

The paper finds the cheapest labelling as a path through a matrix with memory rows (Appendix C).
Here the rows are sorted by end time, ``before[j]`` counts those that end no later than the j-th
starts, and with V_0 = 0

    V_k[j] = min(V_k[j-1],  min(V_{k-1}[before[j]], V_k[before[j]]) + c_k[j])

is the cheapest way to have used the states 1..k among the first j rows: the same set, exact for any
overlap and any size of costs, in O(m K) after the sort. For "exactly one" the second V_k is left
out; that is how actions are found, with K = 1 the salient one. A forbidden entry has an infinite
cost. A state that may be absent adds V_{k-1}[j] + absent_k to the minimum.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError
from objectstates.base.jit import compiled_exactly

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int8]

# Decision at a row: unlabelled, first of its state, a further one; or the state is absent.
_SKIP, _FIRST, _AGAIN, _ABSENT = 0, 1, 2, 3
TIE = 1e-9
"""Costs that differ by less than this share of the largest cost are equal. After an exact line
search the labellings of a clip's combination do cost the same, and which of them is cheaper is then
a matter of rounding errors, which depend on the processor, the number of threads and the library.
"""


class Constraints(NamedTuple):
    """The feasible labellings of all clips, concatenated (N clips, M rows, K states).

    offsets : (N + 1,) first row of each clip.
    order : (M,) per clip, its rows (counted from the clip's first) sorted by end time.
    before : (M,) per clip and position in ``order``, how many rows end no later than it starts.
    exactly_one : every state is used exactly once per clip, instead of at least once.
    linear : (M, K) cost of each label beside the clustering cost; infinite where it is forbidden.
    times : (M,) the instant that represents each row in the distortion, in seconds.
    absent : (K,) cost of a clip that lacks the state; infinite where every clip has it.
    """

    offsets: Ints
    order: Ints
    before: Ints
    exactly_one: bool
    linear: Floats
    times: Floats
    absent: Floats

    @property
    def n_clips(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_rows(self) -> int:
        return len(self.linear)

    @property
    def n_states(self) -> int:
        return int(self.linear.shape[1])

    @property
    def optional(self) -> bool:
        """Whether a clip may lack a state."""
        return bool(np.isfinite(self.absent).any())

    def clips(self, first: int, last: int) -> Constraints:
        """Those of the clips first to last alone, as views."""
        lo, hi = int(self.offsets[first]), int(self.offsets[last])
        return Constraints(
            self.offsets[first : last + 1] - lo,
            self.order[lo:hi],
            self.before[lo:hi],
            self.exactly_one,
            self.linear[lo:hi],
            self.times[lo:hi],
            self.absent,
        )


def ordered_states(
    start: Floats,
    end: Floats,
    offsets: Ints,
    *,
    linear: Floats,
    times: Floats | None = None,
    exactly_one: bool = False,
    absent: Floats | None = None,
) -> Constraints:
    """Ordered states on half-open intervals ``[start, end)``; equal times do not overlap.

    absent : (K,) as in `Constraints`; by default every clip has all states.
    """
    order = np.empty(len(start), np.int64)
    before = np.empty(len(start), np.int64)
    for lo, hi in pairwise(offsets):
        by_end = np.lexsort((start[lo:hi], end[lo:hi]))
        order[lo:hi] = by_end
        before[lo:hi] = np.searchsorted(end[lo:hi][by_end], start[lo:hi][by_end], side="right")
    if times is None:
        times = (start + end) / 2
    return Constraints(
        offsets.astype(np.int64),
        order,
        before,
        exactly_one,
        _real(linear),
        _real(times),
        _prices(absent, linear),
    )


def one_row(
    offsets: Ints, *, linear: Floats, times: Floats, absent: Floats | None = None
) -> Constraints:
    """Exactly one row per clip (the salient action); overlap does not matter then.

    absent : (1,) as in `Constraints`; by default every clip has an action.
    """
    order = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    before = np.zeros(offsets[-1], np.int64)
    return Constraints(
        offsets.astype(np.int64),
        order,
        before,
        True,
        _real(linear),
        _real(times),
        _prices(absent, linear),
    )


def _prices(absent: Floats | None, linear: Floats) -> Floats:
    """Of absence, (K,), never negative; infinite by default."""
    prices = np.full(linear.shape[1], np.inf) if absent is None else _real(absent)
    if prices.shape != linear.shape[1:] or not (prices >= 0).all():
        raise SettingError(
            f"`absent` must be one price of at least 0 for each of {linear.shape[1]} columns"
        )
    return prices


def _real(values: Floats) -> Floats:
    """Writable and contiguous: a view of a read-only buffer would compile the kernels again."""
    return np.require(values, np.float64, ["C", "W"])


def feasible(constraints: Constraints) -> npt.NDArray[np.bool_]:
    """Which clips admit a labelling, (N,)."""
    costs = np.where(np.isinf(constraints.linear), np.inf, 0.0)
    values, _ = label_clips(costs, constraints)
    return np.isfinite(values)


@compiled_exactly
def tie_of(costs: Floats) -> float:
    """The difference below which sums of these costs are equal; forbidden entries do not count."""
    largest = 0.0
    for i in range(costs.shape[0]):
        for k in range(costs.shape[1]):
            size = abs(costs[i, k])
            if size > largest and size != np.inf:
                largest = size
    return TIE * largest


@compiled_exactly
def tie_with_absence(costs: Floats, absent: Floats) -> float:
    """:func:`tie_of` costs (m, K) and of the finite prices of absence (K,)."""
    tie = tie_of(costs)
    for price in absent:
        if price != np.inf:
            tie = max(tie, TIE * price)
    return tie


@compiled_exactly
def cheapest_labels(
    costs: Floats, order: Ints, before: Ints, exactly_one: bool, absent: Floats, labels: Labels
) -> float:
    """Write the labelling of least total cost into ``labels``; return that cost.

    ``costs`` is (m, K), ``absent`` (K,). When no labelling is possible the cost is infinite and the
    labels are 0. Of equally cheap labellings (see ``TIE``) the one with fewer, earlier rows is
    taken.
    """
    m, n_states = costs.shape
    tie = tie_with_absence(costs, absent)
    value = np.empty((n_states + 1, m + 1))
    value[0] = 0.0
    move = np.zeros((n_states + 1, m + 1), np.int8)
    for k in range(1, n_states + 1):
        price, skipped = absent[k - 1], value[k - 1, 0] + absent[k - 1]
        value[k, 0] = skipped
        move[k, 0] = _ABSENT
        for j in range(1, m + 1):
            p = before[j - 1]
            base, kind = value[k - 1, p], _FIRST
            if not exactly_one:
                again = value[k, p]
                if again < base - tie:
                    kind = _AGAIN
                base = min(base, again)
            taken = base + costs[order[j - 1], k - 1]
            if price != np.inf:
                lacking = value[k - 1, j] + price
                if lacking < skipped - tie:
                    move[k, j] = _ABSENT
                skipped = min(skipped, lacking)
            if taken < skipped - tie:
                move[k, j] = kind
            skipped = min(taken, skipped)
            value[k, j] = skipped
    labels[:] = 0
    if value[n_states, m] == np.inf:
        return np.inf
    k, j = n_states, m
    while k > 0:
        if move[k, j] == _SKIP:
            j -= 1
            continue
        if move[k, j] == _ABSENT:
            k -= 1
            continue
        labels[order[j - 1]] = k
        earlier_state = move[k, j] == _FIRST
        j = before[j - 1]
        if earlier_state:
            k -= 1
    return float(value[n_states, m])


def label_clips(costs: Floats, constraints: Constraints) -> tuple[Floats, Labels]:
    """:func:`cheapest_labels` for every clip: the costs (N,) and the labels (M,)."""
    labels = np.zeros(len(costs), np.int8)
    return _label_clips(costs, constraints, labels), labels


def random_labels(constraints: Constraints, rng: np.random.Generator) -> Labels:
    """A labelling (M,) of all clips: the cheapest at random costs."""
    linear = constraints.linear
    costs = np.where(np.isinf(linear), np.inf, rng.standard_normal(linear.shape))
    return label_clips(costs, constraints)[1]


@compiled_exactly
def _label_clips(costs: Floats, constraints: Constraints, labels: Labels) -> Floats:
    offsets = constraints.offsets
    values = np.empty(len(offsets) - 1)
    for n in range(len(offsets) - 1):
        lo, hi = offsets[n], offsets[n + 1]
        values[n] = cheapest_labels(
            costs[lo:hi],
            constraints.order[lo:hi],
            constraints.before[lo:hi],
            constraints.exactly_one,
            constraints.absent,
            labels[lo:hi],
        )
    return values
