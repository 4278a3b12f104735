"""How many changes the clips show: one, two or three.

Each number is tried, and the discoveries are compared by how well they replicate in clips that were
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

MOST = 3  # changes that are tried


def weakest_action(result: Result) -> float:
    """The share of clips in which the action that is found least surely is right, to expect."""
    if result.confidences is None:
        return 0.0
    shares = [mean_known(column) for column in result.confidences[:, : result.n_actions].T]
    return float(np.nan_to_num(shares).min())


def choose(expected: Mapping[int, float]) -> int:
    """The number of changes, given what :func:`weakest_action` expects of each number.

    >>> choose({1: 0.9, 2: 0.8, 3: 0.1}), choose({1: 0.4, 2: 0.8, 3: 0.1}), choose({1: 0.3, 2: 0.5})
    (1, 2, 1)
    """
    believed = {n: share for n, share in expected.items() if n == 1 or share >= FOUND}
    return max(believed, key=lambda n: (believed[n], -n))
