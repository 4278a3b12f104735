"""The number of changes, chosen by replication."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from objectstates import JointDiscovery
from objectstates.base.errors import SettingError
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.how_many import TRIED, choose, described, expected_of


def test_what_is_expected_of_a_chain_is_known_from_its_clips() -> None:
    found = JointDiscovery(changes=2, verdict=False).fit(synthetic_corpus(4, changes=2)).result_
    assert expected_of(found) == 0, "nothing is known"
    chances = np.tile([0.9, 0.4, 1, 1, 0.7], (4, 1))
    chances[0, 1] = np.nan  # this clip lacks the second action
    expected = (0.65 + 2 * 0.9) / 3  # actions count a third, as those of one change
    assert expected_of(replace(found, confidences=chances)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("expected", "number"),
    [
        ((0.9, 0.85, 0.6, 0.8), 0),
        ((0.5, 0.85, 0.6, 0.8), 1),
        ((0.5, 0.75, 0.9, 0.8), 2),
        ((0.5, 0.75, 0.6, 0.8), 3),
        ((0.3, 0.35, 0.39, 0.2), 0),  # better, but nothing is found
        ((0.3, 0.35, 0.41, 0.2), 2),
        ((0.12, 0.2, 0.26, 0.2), 2),  # far better
        ((0.05, 0.1, 0.24, 0.2), 0),  # and yet too little
        ((0.15, 0.2, 0.29, 0.2), 0),
        ((0.8, 0.8), 0),
        ((0.2,), 0),
        ((0.6, 0.615, 0.61, 0.5), 0),  # hardly better
        ((0.6, 0.625, 0.61, 0.5), 1),
    ],
)
def test_more_changes_must_be_found_and_explain_more(
    expected: tuple[float, ...], number: int
) -> None:
    assert choose(dict(zip(TRIED, expected, strict=False))) == TRIED[number]


def test_auto_says_what_it_tried_and_saves_a_plain_result(tmp_path) -> None:
    corpus = synthetic_corpus(8, noise=0.5, tracklets_per_clip=12, chunks_per_clip=25)
    model = JointDiscovery(changes="auto").fit(corpus)
    facts = model.result_.summary["changes"]
    assert facts["chosen"] == "1"
    assert model.result_.n_actions == 1
    assert set(facts["expected"]) == set(map(described, TRIED))
    model.save(tmp_path / "r")
    again = JointDiscovery.load(tmp_path / "r")
    assert again.changes == 1
    assert again.predict(corpus).n_actions == 1


@pytest.mark.parametrize("more", [{"pattern": "ABA"}, {"optional": (1,)}, {"target": "state"}])
def test_what_needs_a_number_is_refused(more) -> None:
    with pytest.raises(SettingError, match="`changes` auto"):
        JointDiscovery(changes="auto", **more).fit(synthetic_corpus(3))
