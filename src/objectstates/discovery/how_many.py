"""How many changes the clips show: one, two or three, and whether a state comes back.

Each chain is tried, and the discoveries are compared by how well they replicate in clips that were
not learned from: by the share of right answers that the verdict expects (``verdict.py``), of the
actions and the states. Objectives are never compared: more labels always explain more. One change
of a chain may well be found alone, but its states are not: they change again. More than one
change is only believed if each of them is likely.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from objectstates.data.result import Result
from objectstates.discovery.evidence import mean_known

Chain = tuple[int, str | None]
"""A number of changes, and which of the states look alike."""
TRIED: tuple[Chain, ...] = ((1, None), (2, None), (2, "ABA"), (3, None), (3, "ABAB"))
LIKELY = 0.5
"""The least that is expected of each action of a chain. In simulated corpora of one change it was
up to .55 with more of them tried, where one was always expected to be better."""
MARGIN = 0.02
"""By which more changes must be expected to be better than one: seeds differ by as much."""


@dataclass(frozen=True)
class Expected:
    """Shares of right answers to expect.

    answers : the mean over actions and states. ``action`` : of the action found least surely.
    """

    answers: float
    action: float


def expected_of(result: Result) -> Expected:
    """Of a result with a verdict; zero of one without."""
    if result.confidences is None:
        return Expected(0.0, 0.0)
    shares = np.nan_to_num([mean_known(column) for column in result.confidences.T])
    return Expected(float(shares.mean()), float(shares[: result.n_actions].min()))


def choose(tried: Mapping[Chain, Expected]) -> Chain:
    """The chain, given what is expected of each; of about equal ones the first.

    >>> one, two = Expected(0.6, 0.9), Expected(0.7, 0.6)
    >>> choose({(1, None): one, (2, None): two}), choose({(1, None): two, (2, None): one})
    ((2, None), (1, None))
    """
    likely = {
        chain: expected.answers
        for chain, expected in tried.items()
        if chain[0] == 1 or expected.action >= LIKELY
    }
    return max(likely, key=lambda chain: likely[chain] - (MARGIN if chain[0] > 1 else 0.0))


def described(chain: Chain) -> str:
    """For the summary of a result.

    >>> described((2, None)), described((2, "ABA"))
    ('2', '2 ABA')
    """
    number, pattern = chain
    return f"{number} {pattern}" if pattern else str(number)
