"""The verdict on a result and the advice about its clips, in the words of page and terminal."""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup, escape

from objectstates.data.verdict import Finding, Verdict
from objectstates.discovery.preflight import Advice

WORDS: dict[Finding, str] = {"found": "found", "doubtful": "doubtful", "not_found": "not found"}
DOCUMENT = "docs/failures.md"  # named in text: the documentation has no public address


@dataclass(frozen=True)
class SideText:
    """The finding on one side that was sought.

    name : "action" or "states". ``word`` : the finding. ``expected`` : the share of right answers
        to expect, as text; empty if not known.
    """

    name: str
    finding: Finding
    word: str
    expected: str


def side_texts(verdict: Verdict) -> list[SideText]:
    """Action and states, as far as they were sought."""
    sides = (("action", verdict.action), ("states", verdict.states))
    return [
        SideText(name, finding, WORDS[finding], _expected(verdict, name))
        for name, finding in sides
        if finding is not None
    ]


def _expected(verdict: Verdict, side: str) -> str:
    share = verdict.expected.get(side)
    return "" if share is None else f"expect {100 * share:.0f} % right"


def one_line(verdict: Verdict) -> str:
    """The findings alone.

    >>> one_line(Verdict("found", "not_found", "No two states look alike in all clips."))
    'action found, states not found'
    """
    return ", ".join(f"{side.name} {side.word}" for side in side_texts(verdict))


def verdict_lines(verdict: Verdict) -> list[str]:
    """The findings with what to expect, the reason, and the remedy."""
    sides = (
        f"{side.name}: {side.word}" + (f" ({side.expected})" if side.expected else "")
        for side in side_texts(verdict)
    )
    lines = ["; ".join(sides), verdict.why]
    if verdict.remedy:
        lines.append(f"{verdict.remedy}{_reference(verdict.topic)}")
    return lines


def advice_line(advice: Advice) -> str:
    """The case, the remedy and where to read on, in one line."""
    return f"{advice.text} {advice.remedy}{_reference(advice.topic)}"


def section(topic: str) -> str:
    """The section of the documentation on a topic; empty without one."""
    return f"{DOCUMENT}#{topic}" if topic else ""


def _reference(topic: str) -> str:
    return f" See {section(topic)}." if topic else ""


def with_code(text: str) -> Markup:
    """Text for the page: escaped, and parameters in backquotes as code."""
    return Markup(re.sub(r"`([\w:-]+)`", r"<code>\1</code>", str(escape(text))))
