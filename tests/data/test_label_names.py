from __future__ import annotations

import pytest

from objectstates.base.errors import SettingError
from objectstates.data.label_names import LONGEST, LabelNames


def test_names_stand_for_labels():
    names = LabelNames.of(states="closed, open", action="opening")
    assert (names.state_1, names.action, names.state_2) == ("closed", "opening", "open")
    assert [names[label] for label in ("state_1", "action", "state_2")] == [
        "closed",
        "opening",
        "open",
    ]
    assert [names.of_state(k) for k in (0, 1, 2)] == ["no state", "closed", "open"]
    texts = ("1", "Open", "closed ", "ajar")
    assert [names.state_number(text) for text in texts] == [1, 2, 1, None]
    assert LabelNames.from_json(names.to_json()) == names


def test_names_not_given_are_the_usual_ones():
    assert LabelNames.of() == LabelNames(("state 1", "state 2"), ("action",))
    assert LabelNames.of(states=("empty", "full")).action == "action"


def test_a_chain_has_as_many_names_as_labels():
    names = LabelNames.of(states="closed,open,closed", action="opening,closing")
    assert list(names.labels) == ["state_1", "action_1", "state_2", "action_2", "state_3"]
    assert names.pattern == "ABA"
    assert LabelNames.usual(2).pattern is None
    assert [names.state_number(text) for text in ("open", "closed", "3")] == [2, None, 3]
    assert [names.action_number(text) for text in ("closing", "1", "")] == [2, 1, None]
    assert names.change(1) == LabelNames(("open", "closed"), ("closing",))
    assert names.label("action_2") == "closing"
    assert LabelNames.usual(3).label("action_2") == "action_2"
    assert LabelNames.from_json(names.to_json()) == names


@pytest.mark.parametrize(
    "options",
    [
        {"states": "closed"},
        {"states": "a,b,c", "changes": 1},
        {"states": "a,b,c", "action": "go"},
        {"states": "a,a,b"},
        {"states": "a,b,a", "action": "go,go"},
        {"states": "same,same"},
        {"states": "closed,"},
        {"states": "a\nc,b"},
        {"states": "action,b"},
        {"action": " "},
        {"action": "x" * (LONGEST + 1)},
        {"action": "\x1b[31m"},
    ],
)
def test_what_is_no_name_is_refused(options):
    with pytest.raises(SettingError):
        LabelNames.of(**options)
