"""Summaries of results."""

from __future__ import annotations

from objectstates.app.inspection import describe_clips, describe_result
from tests.chains import chain_result


def test_all_actions_of_a_chain_are_listed() -> None:
    result = chain_result(2)
    first, *_, last = describe_clips(result)
    assert (first["action_1"], first["action_2"]) == ((1.6, 2.0), (3.6, 4.0))
    assert first["action_2_time"] == 3.8
    assert first["state_3"] == [(4.0, 5.6)]
    assert (last["action_2"], last["action_2_time"], last["state_3"]) == (None, None, [])
    assert {"action_2_confidence", "state_3_confidence"} < set(first)
    assert "action" not in first
    assert describe_result(result)["labels"] == {"state_1": 3, "state_2": 3, "state_3": 2}
