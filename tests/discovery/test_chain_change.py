from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from objectstates import Corpus, JointDiscovery
from objectstates.data.clips import ChangeProfile
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.chain_change import chunk_rows_for_chain, for_chain
from objectstates.features.change_columns import CHAIN_COLUMN_SCALE, WIDTHS, chunk_columns
from objectstates.solver.scale.moments import ArrayRows

W = len(WIDTHS)


@pytest.fixture
def corpus() -> Corpus:
    """Clips whose picture changes at the end of chunks 5 and 15, and changes back."""
    made = synthetic_corpus(n_clips=6, chunks_per_clip=25, action_size=8)
    profiles, columns = [], []
    for n in range(len(made)):
        rows = made.chunk_rows(n)
        spans = np.stack([made.chunks.start[rows], made.chunks.end[rows]], axis=1)
        start, step = float(spans[0, 0]), 0.1
        local = np.zeros(round((spans[-1, 1] - start) / step), np.float32)
        for chunk, size in ((5, 0.02), (15, 0.01)):
            local[int((spans[chunk].mean() - start) / step)] = size
        lasting = np.zeros_like(local)
        where = np.zeros((2, 3), np.uint8)
        profile = ChangeProfile(start, step, lasting, where, local=local, motion=local[::-1].copy())
        profiles.append(profile)
        columns.append(chunk_columns(profile, spans))
    made = replace(made, changes=tuple(profiles), info={"ingest": {"change_columns": True}})
    features = np.hstack([made.chunks.features, np.concatenate(columns)])
    return made.with_features(chunks=features)


def test_a_single_change_is_left_as_it_is(corpus):
    assert for_chain(corpus) is corpus
    rows = ArrayRows(corpus.chunks.features)
    assert chunk_rows_for_chain(corpus, rows) is rows


def test_a_chain_uses_local_changes_and_shows_all_at_the_same_height(corpus):
    chain = for_chain(corpus.for_changes(2))
    for old, new in zip(corpus.changes, chain.changes, strict=True):
        assert old is not None
        assert new is not None
        assert (new.curve == old.local).all()
        assert new.motion is None, "carrying is fast, and no change"
        assert (new.where == old.where).all()
    before, after = corpus.chunks.features, chain.chunks.features
    assert (after[:, :-W] == before[:, :-W]).all()
    for n in range(len(chain)):
        columns = after[chain.chunk_rows(n), -W:]
        assert columns[[5, 15]] == pytest.approx(CHAIN_COLUMN_SCALE)
        assert columns[10].max() == 0
    again = for_chain(chain)
    assert (again.chunks.features == after).all(), "it may be applied twice"


def test_features_on_disk_get_the_same_columns(corpus):
    chain = for_chain(corpus.for_changes(2))
    bare = for_chain(corpus.without_features().for_changes(2))
    rows = chunk_rows_for_chain(bare, ArrayRows(corpus.chunks.features))
    assert rows.shape == chain.chunks.features.shape
    for lo, hi in ((0, 7), (20, 60), (140, 150), (3, 3)):
        assert (rows.read(lo, hi) == chain.chunks.features[lo:hi]).all()


def test_features_without_change_columns_stay(corpus):
    bare = replace(corpus, info={}).for_changes(2)
    assert (for_chain(bare).chunks.features == corpus.chunks.features).all()
    rows = ArrayRows(corpus.chunks.features)
    assert chunk_rows_for_chain(bare, rows) is rows


def test_profiles_without_a_local_curve_stay(corpus):
    older = tuple(replace(change, local=None, motion=None) for change in corpus.changes if change)
    chain = for_chain(replace(corpus, changes=(None, *older[1:])).for_changes(2))
    assert chain.changes[0] is None
    assert all(a is b for a, b in zip(chain.changes[1:], older[1:], strict=True))
    assert not chain.chunks.features[:, -W:].any()


def test_a_fit_takes_the_moments_of_actions_from_local_changes(corpus, tmp_path):
    model = JointDiscovery(changes=2, verdict=False)
    found = model.fit(corpus).result_
    for change, times in zip(corpus.changes, found.actions.time, strict=True):
        assert change is not None
        assert change.local is not None
        peaks = change.start + change.step * (np.flatnonzero(change.local) + 0.5)
        assert times == pytest.approx(peaks)
    corpus.save(tmp_path / "corpus")
    on_disk = model.fit_folder(tmp_path / "corpus").result_
    np.testing.assert_array_equal(on_disk.actions.time, found.actions.time)
    predicted = model.predict(corpus)
    np.testing.assert_array_equal(predicted.actions.time, found.actions.time)
