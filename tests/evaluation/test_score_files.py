from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from objectstates.data.result import SkippedClip
from objectstates.evaluation import ClipScore, Evaluation
from objectstates.evaluation.score_files import cached_scores, read_keyed, write_keyed

SCORES = Evaluation(
    (
        ClipScore("a", (1.0, 0.5), (0.25, np.nan), (np.nan,), 3),
        ClipScore("b", (0.0, 0.0), (0.0, 0.0), (1.0,), 0),
    ),
    (SkippedClip("b", "has one tracklet only"),),
    0.125,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "drawer.joint.json"


def unexpected() -> Evaluation:
    raise AssertionError("the scores are cached")


def test_cached_scores_are_those_computed(path: Path) -> None:
    assert cached_scores(path, "key", lambda: SCORES) is SCORES
    again = cached_scores(path, "key", unexpected)
    np.testing.assert_array_equal(again.precisions, SCORES.precisions)
    np.testing.assert_array_equal(again.recalls, SCORES.recalls)
    np.testing.assert_array_equal(again.actions, SCORES.actions)
    assert (again.skipped, again.state_error) == (SCORES.skipped, SCORES.state_error)


def test_other_keys_damage_and_fresh_compute_again(path: Path) -> None:
    other = replace(SCORES, state_error=0.5)
    cached_scores(path, "key", lambda: SCORES)
    assert cached_scores(path, "another key", lambda: other) is other
    assert cached_scores(path, "another key", lambda: SCORES, fresh=True) is SCORES
    for damage in ("", "{", "[]", '{"key": "key"}', '{"key": "key", "rows": [1]}'):
        path.write_text(damage)
        assert cached_scores(path, "key", lambda: other) is other


def test_an_object_is_found_by_its_key(path: Path) -> None:
    write_keyed(path, "key", {"content": [1, 2]})
    assert read_keyed(path, "key") == {"key": "key", "content": [1, 2]}
    assert read_keyed(path, "another") is None
    assert read_keyed(path.with_name("missing.json"), "key") is None
