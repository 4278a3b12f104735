"""The verdict on a discovery: whether it found the action and the states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

Finding = Literal["found", "doubtful", "not_found"]
"""Nearly all answers are right; some may be; or there is no evidence that any is."""
FINDINGS: tuple[Finding, ...] = get_args(Finding)


@dataclass(frozen=True)
class Verdict:
    """Whether a discovery can be trusted, for action and states separately.

    action, states : None for a side that was not sought.
    why : the reason, in one sentence.
    remedy : what to do about it, in one sentence; empty if all was found.
    topic : the section of docs/failures.md on this, as an anchor; empty if all was found.
    expected : the share of right answers to expect, 0 to 1, by "action" and "states".
    measures : what the verdict rests on (``discovery/verdict.py``), by name.
    """

    action: Finding | None
    states: Finding | None
    why: str
    remedy: str = ""
    topic: str = ""
    expected: Mapping[str, float] = field(default_factory=dict)
    measures: Mapping[str, float] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Of the sides that were sought."""
        return tuple(found for found in (self.action, self.states) if found is not None)

    @property
    def worst(self) -> Finding:
        """The worse finding of both sides."""
        return max(self.findings, key=FINDINGS.index)

    def to_json(self) -> dict[str, Any]:
        """For the header of a result."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Verdict:
        """Raise ValueError or TypeError unless ``values`` is what :meth:`to_json` returned."""
        verdict = cls(**values)
        sides = (verdict.action, verdict.states)
        if any(found not in (None, *FINDINGS) for found in sides) or sides == (None, None):
            raise ValueError(f"a verdict of {sides}")
        if not all(isinstance(text, str) for text in (verdict.why, verdict.remedy, verdict.topic)):
            raise TypeError("a verdict without words")
        for numbers in (verdict.expected, verdict.measures):
            if not all(math.isfinite(float(number)) for number in numbers.values()):
                raise ValueError("a verdict with a number that is not finite")
        return verdict
