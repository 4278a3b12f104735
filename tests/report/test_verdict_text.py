from __future__ import annotations

from objectstates.data.verdict import Verdict
from objectstates.discovery.preflight import Advice
from objectstates.report.verdict_text import (
    advice_line,
    one_line,
    section,
    side_texts,
    verdict_lines,
    with_code,
)

DOUBTFUL = Verdict(
    "found",
    "doubtful",
    "The states look alike in 3 clips.",
    "Raise `context`.",
    "wrong-object",
    {"action": 0.964, "states": 0.5},
)


def test_the_lines_have_findings_reason_and_remedy() -> None:
    assert verdict_lines(DOUBTFUL) == [
        "action: found (expect 96 % right); states: doubtful (expect 50 % right)",
        "The states look alike in 3 clips.",
        "Raise `context`. See docs/failures.md#wrong-object.",
    ]
    assert one_line(DOUBTFUL) == "action found, states doubtful"


def test_what_was_not_sought_and_is_not_known_is_left_out() -> None:
    found = Verdict(None, "found", "All fit.")
    assert [(side.name, side.expected) for side in side_texts(found)] == [("states", "")]
    assert verdict_lines(found) == ["states: found", "All fit."]
    assert section("") == ""


def test_advice_is_one_line() -> None:
    advice = Advice("few_clips", "2 clips are few.", "Add clips.", "few-clips")
    assert advice_line(advice) == "2 clips are few. Add clips. See docs/failures.md#few-clips."


def test_parameters_are_code_on_the_page_and_all_else_is_escaped() -> None:
    assert with_code("`max_passes` <b>") == "<code>max_passes</code> &lt;b&gt;"
