"""The benchmark of the solver compares fits of one problem."""

import pytest

from benchmarks.solver import SETTINGS, Authors, Fit
from objectstates.base.choices import PAPER
from objectstates.data.synthetic import synthetic_corpus


@pytest.fixture(scope="module")
def corpus():
    return synthetic_corpus(n_clips=5, tracklets_per_clip=12, chunks_per_clip=15)


def test_what_is_compared_with_the_authors_has_their_objective(corpus):
    """Each relaxed value lies above the other's lower bound, for both have the same optimum."""
    theirs, ours = Authors(corpus, steps=150), Fit(corpus, "paper", 0.01)
    for contestant in (theirs, ours):
        contestant.run()
    a, b = theirs.facts(), ours.facts()
    assert a["relaxed"] >= b["relaxed"] * (1 - b["relative_gap"])
    assert b["relaxed"] >= a["relaxed"] * (1 - a["relative_gap"])
    assert min(a["rounded"], b["rounded"]) >= b["relaxed"] * (1 - b["relative_gap"])
    assert a["action_precision"] >= 0.5


def test_only_our_own_rows_have_other_settings():
    for name in ("paper", "full"):
        assert {key: SETTINGS[name][key] for key in PAPER} == PAPER
    assert not PAPER.keys() & SETTINGS["ours"].keys()
