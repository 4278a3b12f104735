"""Scores of occurrences, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from objectstates.evaluation.occurrences import (
    OccurrenceScore,
    VideoCount,
    count_matches,
    occurrence_spans,
    score_occurrences,
)
from tests.chains import chain_result


@pytest.mark.parametrize(
    ("found", "true", "matched"),
    [
        ([], [], 0),
        ([(0.0, 10.0)], [], 0),
        ([], [(0.0, 10.0)], 0),
        ([(0.0, 10.0)], [(6.0, 16.0)], 1),  # 4 of 16
        ([(0.0, 10.0)], [(6.1, 16.1)], 0),  # 3.9 of 16.1
        ([(0.0, 10.0), (0.0, 9.0)], [(0.0, 10.0)], 1),  # a true one matches once
        ([(0.0, 10.0)], [(0.0, 4.0), (4.0, 10.0)], 1),
        # The first found fits both true ones, the second only one: both can match.
        ([(0.0, 20.0), (0.0, 10.0)], [(0.0, 10.0), (10.0, 20.0)], 2),
        ([(20.0, 30.0), (0.0, 10.0)], [(1.0, 9.0), (21.0, 29.0)], 2),
    ],
)
def test_matches(
    found: list[tuple[float, float]], true: list[tuple[float, float]], matched: int
) -> None:
    assert count_matches(found, true) == matched
    assert count_matches(true, found) == matched


def test_counts_of_all_videos_are_added() -> None:
    truth = {"a": [(0.0, 10.0), (20.0, 30.0)], "b": [], "c": [(5.0, 15.0)]}
    found = {"a": [(1.0, 11.0)], "b": [(0.0, 4.0)], "other": [(0.0, 1.0)]}
    score = score_occurrences(found, truth)
    assert score.videos == (
        VideoCount("a", 1, 2, 1),
        VideoCount("b", 1, 0, 0),
        VideoCount("c", 0, 1, 0),
    )
    assert score.precision == 1 / 2
    assert score.recall == 1 / 3
    assert score.f1 == pytest.approx(2 / 5)
    assert score.right_number == 0
    low, high = score.f1_bounds()
    assert low == 0
    assert high == pytest.approx(2 / 3)  # all three draws are of a


def test_nothing_to_find_and_nothing_found_is_right() -> None:
    score = OccurrenceScore((VideoCount("a", 0, 0, 0),))
    assert score.precision == score.recall == score.f1 == score.right_number == 1
    assert score.f1_bounds() == (1.0, 1.0)


def test_an_occurrence_lasts_from_the_first_action_to_the_last() -> None:
    from dataclasses import replace

    result = chain_result(n_actions=2, n_clips=3)
    corpus = replace(result.corpus, clip_ids=("a#1", "a#2", "b#c#1"))
    spans = occurrence_spans(replace(result, corpus=corpus))
    assert list(spans) == ["a", "b#c"]
    for n, span in enumerate([*spans["a"], *spans["b#c"]]):
        assert span == (np.nanmin(result.actions.span[n]), np.nanmax(result.actions.span[n]))
