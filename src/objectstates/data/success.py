"""Whether an episode reached state 2: yes, no or unsure."""

from __future__ import annotations

import math
from typing import Literal

Reached = Literal["yes", "no", "unsure", ""]
"""Empty if it was not judged."""
LIKELY, UNLIKELY = 0.8, 0.65
"""Chances from which, and up to which, it is said. Up to 0.65, precision and recall of *no* are the
same on the clips that the chances were estimated on: docs/evaluation.md."""


def reached_by(chance: float) -> Reached:
    """What follows from the chance that state 2 was reached; "" of NaN.

    >>> reached_by(0.9), reached_by(0.7), reached_by(0.1)
    ('yes', 'unsure', 'no')
    """
    if math.isnan(chance):
        return ""
    return "yes" if chance >= LIKELY else "no" if chance <= UNLIKELY else "unsure"
