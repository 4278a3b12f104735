import math

import pytest

from objectstates.data.result_summary import check_summary

SUMMARY = {
    "kind": "fit",
    "objective": {"total": 1.0, "action": 0.5},
    "relaxed_objective": 0.5,
    "duality_gap": 0.1,
    "passes": 5,
    "converged": True,
    "trace": [[1.0, 0.5], [0.9, 0.6]],
    "skipped_at": [[0, 4]],
    "something": object(),
}


def test_what_a_fit_writes_is_accepted_and_unknown_keys_are_kept():
    check_summary(SUMMARY, {}, 3)
    check_summary({}, {}, 3)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("objective", 3.0),
        ("objective", {"action": 0.5}),
        ("objective", {"total": math.nan}),
        ("relaxed_objective", None),
        ("duality_gap", "0.1"),
        ("passes", 1e300),
        ("converged", 1),
        ("trace", [[1.0], [1.0, 2.0]]),
        ("trace", 3),
        ("skipped_at", [[2**31, 4]]),
        ("skipped_at", [[0, 4], [0, 4]]),
        ("skipped_at", [[0, 2**40]]),
        ("skipped_at", [4]),
        ("reduced", {"state": {"from": 3}}),
    ],
)
def test_a_value_of_another_type_is_named(key, value):
    with pytest.raises(ValueError, match=key):
        check_summary({**SUMMARY, key: value}, {}, 3)


def test_settings_have_names():
    with pytest.raises(ValueError, match="settings"):
        check_summary(SUMMARY, [1], 3)
