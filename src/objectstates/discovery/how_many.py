"""How many changes the clips show: one, two or three, and whether a state comes back.

Each chain is tried, and the discoveries are compared by how well they replicate in clips that were
not learned from: by the share of right answers that the verdict expects (``verdict.py``), of the
actions and the states. Objectives are never compared: more labels always explain more. One change
of a chain may well be found alone, but its states are not: they change again. More than one
change is only believed if enough of its answers may be right, or far more than those of one: where
nothing is found, a chain may seem a little better by chance.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from objectstates.data.result import Result
from objectstates.discovery.evidence import mean_known
from objectstates.discovery.verdict import DOUBTFUL

Chain = tuple[int, str | None]
"""A number of changes, and which of the states look alike."""
TRIED: tuple[Chain, ...] = ((1, None), (2, None), (2, "ABA"), (3, None), (3, "ABAB"))
MARGIN = 0.02
"""By which more changes must be expected to be better than one: seeds differ by as much."""
LEAST, FAR = 0.25, 2.0
"""A share that is believed where it is so many times that of one change. Chosen on 32 corpora of
one change, where such a share is at most 0.20, and on films of chains, where it is 0.30 or more."""


def expected_of(result: Result) -> float:
    """The share of right answers; zero of a result without verdict.

    Actions count a third and states two thirds, as those of one change do, whatever their number:
    actions are surer, and longer chains have more of them for each state.
    """
    if result.confidences is None:
        return 0.0
    shares = np.nan_to_num([mean_known(column) for column in result.confidences.T])
    actions, states = np.split(shares, [result.n_actions])
    return float(actions.mean() + 2 * states.mean()) / 3


def choose(expected: Mapping[Chain, float]) -> Chain:
    """The chain, given what is expected of each; of equal ones the first.

    >>> choose({(1, None): 0.5, (2, None): 0.6}), choose({(1, None): 0.2, (2, None): 0.3})
    ((2, None), (1, None))
    """
    enough = min(DOUBTFUL, max(LEAST, FAR * expected[1, None]))
    worth = {
        chain: share - (MARGIN if chain[0] > 1 else 0.0)
        for chain, share in expected.items()
        if chain[0] == 1 or share >= enough
    }
    return max(worth, key=lambda chain: worth[chain])


def described(chain: Chain) -> str:
    """For the summary of a result.

    >>> described((2, None)), described((2, "ABA"))
    ('2', '2 ABA')
    """
    number, pattern = chain
    return f"{number} {pattern}" if pattern else str(number)
