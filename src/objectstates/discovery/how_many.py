"""How many changes the clips show: one, two or three, and whether a state comes back.

Each chain is tried, and the discoveries are compared by how well they replicate in clips that were
not learned from: the verdict's chances that their answers are right (``verdict.py``). Objectives
are never compared: more labels always explain more. A chain is as good as its weakest action, and
more than one change are only believed if each of them is found.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from objectstates.data.result import Result
from objectstates.discovery.evidence import mean_known
from objectstates.discovery.verdict import FOUND

Chain = tuple[int, str | None]
"""A number of changes, and which of the states look alike."""
TRIED: tuple[Chain, ...] = ((1, None), (2, None), (2, "ABA"), (3, None), (3, "ABAB"))


def weakest_action(result: Result) -> float:
    """The share of clips in which the action that is found least surely is right, to expect."""
    if result.confidences is None:
        return 0.0
    shares = [mean_known(column) for column in result.confidences[:, : result.n_actions].T]
    return float(np.nan_to_num(shares).min())


def choose(expected: Mapping[Chain, float]) -> Chain:
    """The chain, given what :func:`weakest_action` expects of each; of equal ones the first.

    >>> choose({(1, None): 0.9, (2, None): 0.8}), choose({(1, None): 0.4, (2, None): 0.8})
    ((1, None), (2, None))
    """
    believed = {
        chain: share for chain, share in expected.items() if chain[0] == 1 or share >= FOUND
    }
    return max(believed, key=lambda chain: believed[chain])


def described(chain: Chain) -> str:
    """For the summary of a result.

    >>> described((2, None)), described((2, "ABA"))
    ('2', '2 ABA')
    """
    number, pattern = chain
    return f"{number} {pattern}" if pattern else str(number)
