import pytest

from objectstates.data.verdict import Verdict

VERDICT = Verdict("found", "doubtful", "Because.", "Do this.", "wrong-object", {"action": 0.9}, {})


def test_it_survives_json():
    assert Verdict.from_json(VERDICT.to_json()) == VERDICT


def test_the_worst_side_counts():
    assert VERDICT.worst == "doubtful"
    assert VERDICT.findings == ("found", "doubtful")
    assert Verdict(None, "found", "Because.").worst == "found"


@pytest.mark.parametrize(
    "change",
    [
        {"action": "maybe"},
        {"action": None, "states": None},
        {"why": 3},
        {"expected": {"action": float("nan")}},
        {"expected": {"action": "high"}},
        {"measures": 3},
        {"unknown": 1},
    ],
)
def test_damage_is_refused(change):
    with pytest.raises((TypeError, ValueError, AttributeError)):
        Verdict.from_json({**VERDICT.to_json(), **change})


def test_what_is_no_verdict_is_refused():
    with pytest.raises(TypeError):
        Verdict.from_json("found")
