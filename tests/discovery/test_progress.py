"""Progress and success: held out, monotone, low where the action is missing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from objectstates import Corpus, JointDiscovery, Result
from objectstates.data.actions import Actions
from objectstates.discovery.progress import (
    ENOUGH,
    FEWEST,
    SHORTEST,
    _HeldOutRidge,
    apply_model,
    measure,
    with_progress,
)
from tests.results import with_action

CLIPS, CHUNKS, SIZE = 20, 20, 12


def episodes(failed: tuple[int, ...] = (), n_clips: int = CLIPS, seed: int = 0) -> Corpus:
    """Scenes that differ, in all of which the same thing changes at chunk 10, when a hand is there;
    not in those failed, which end there."""
    rng = np.random.default_rng(seed)
    counts = [CHUNKS // 2 if n in failed else CHUNKS for n in range(n_clips)]
    features = []
    for count in counts:
        scene = rng.normal(0, 1, SIZE)
        change, hand = np.zeros(SIZE), np.zeros(SIZE)
        change[:2], hand[2:5] = 2.0, 2.0
        for t in range(count):
            seen = (t >= 10) * change + (8 <= t < 12) * hand
            features.append(scene + seen + rng.normal(0, 0.1, SIZE))
    starts = np.concatenate([np.arange(count) for count in counts]) * 0.4
    return Corpus.from_arrays(
        tracklets_per_clip=[2] * n_clips,
        tracklet_start=np.tile([0.0, 3.0], n_clips),
        tracklet_end=np.tile([1.0, 3.9], n_clips),
        tracklet_features=rng.normal(0, 1, (2 * n_clips, 3)),
        chunks_per_clip=counts,
        chunk_start=starts,
        chunk_end=starts + 0.4,
        chunk_features=np.array(features),
    )


def result_on(corpus: Corpus, failed: tuple[int, ...] = ()) -> Result:
    """The action where it is; in failed clips somewhere, since one must be, with lower scores."""
    n = len(corpus)
    at = np.where(np.isin(np.arange(n), failed), 6, 10)
    span = np.stack([at * 0.4 - 0.2, at * 0.4 + 0.2], axis=1)
    scores = np.zeros(len(corpus.chunks.start))
    scores[corpus.chunks.offsets[:-1] + at - 1] = np.where(at == 10, 0.8, 0.2)
    return Result(
        corpus=corpus.without_features(),
        actions=Actions.single(
            at - 1,
            span.mean(axis=1),
            span,
            scores,
        ),
        state=np.tile(np.array([1, 2], np.int8), n),
        state_scores=np.zeros((2 * n, 2)),
        classifiers={},
        settings={},
        summary={},
    )


def test_progress_rises_from_0_to_1_at_the_change_and_never_falls():
    corpus = episodes()
    found = with_progress(result_on(corpus), corpus.select)
    assert found.progress is not None
    curves = found.progress.reshape(CLIPS, CHUNKS)
    assert (np.diff(curves, axis=1) >= 0).all()
    assert (found.progress >= 0).all()
    assert (found.progress <= 1).all()
    assert curves[:, :9].mean() < 0.1
    assert curves[:, 11:].mean() > 0.9
    assert set(found.reached) == {"yes"}


def test_clips_without_the_action_are_not_reached():
    failed = (3, 8, 12)
    corpus = episodes(failed)
    found = with_progress(result_on(corpus, failed), corpus.select)
    assert found.progress is not None
    assert tuple(n for n, said in enumerate(found.reached) if said == "no") == failed
    for n in failed:
        assert found.progress[list(corpus.chunk_rows(n))].max() < 0.5


def test_a_clip_that_ends_with_the_hand_in_view_has_just_looked_least_like_its_beginning():
    corpus = episodes(n_clips=3)
    difference = np.zeros((3 * CHUNKS, SIZE))
    for clip, rows in enumerate((range(17, 20), range(15, 18), range(8, 11))):
        difference[[clip * CHUNKS + row for row in rows]] = 1.0  # the hand
    since = measure(corpus, result_on(corpus), difference)["since"]
    middles = 0.4 * 1.5, 0.4 * 3.5  # of the hand's time, seconds before the end
    assert since[0] == pytest.approx(middles[0] + SHORTEST)
    assert middles[1] > ENOUGH
    assert since[1] == since[2] == ENOUGH


def test_the_labels_of_a_clip_do_not_change_what_the_regression_says_of_it(monkeypatch):
    monkeypatch.setattr("objectstates.discovery.progress.ACTION_SHARE", 0.0)
    corpus = episodes()
    found = result_on(corpus)
    moved = found.action_span.copy()
    moved[0] += 2.0
    once, again = (
        with_progress(result, corpus.select) for result in (found, with_action(found, span=moved))
    )
    rows = list(corpus.chunk_rows(0))
    assert once.progress is not None
    assert again.progress is not None
    np.testing.assert_allclose(once.progress[rows], again.progress[rows], atol=0.1)


def test_held_out_predictions_are_those_of_a_fit_without_the_clip():
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(0, 1, (30, 4)), rng.uniform(0.5, 2, 30)
    labels, offsets = rng.normal(0, 1, 30), np.array([0, 8, 20, 30])
    held_out = _HeldOutRidge(rows, weights, offsets).held_out(labels)
    for first, last in pairwise(offsets):
        rest = np.r_[0:first, last:30]
        other = _HeldOutRidge(rows[rest], weights[rest], np.array([0, len(rest)]))
        w, bias = other.fitted(labels[rest])
        np.testing.assert_allclose(held_out[first:last], rows[first:last] @ w + bias, atol=1e-8)


def test_clips_that_were_not_in_the_fit_are_judged_too():
    corpus = episodes()
    found = with_progress(result_on(corpus), corpus.select)
    failed = (1,)
    new = episodes(failed, n_clips=5, seed=7)
    assert found.progress_model is not None
    judged = apply_model(found.progress_model, new, result_on(new, failed))
    assert judged.reached == ("yes", "no", "yes", "yes", "yes")


def test_a_sample_is_learned_from_and_the_others_are_predicted(monkeypatch):
    monkeypatch.setattr("objectstates.discovery.progress.SAMPLE", 8)
    failed = (3, 8, 12)
    corpus = episodes(failed)
    found = with_progress(result_on(corpus, failed), corpus.select)
    assert tuple(n for n, said in enumerate(found.reached) if said == "no") == failed


def test_too_few_clips_or_none_of_the_action_are_not_judged():
    corpus = episodes(n_clips=FEWEST - 1)
    assert with_progress(result_on(corpus), corpus.select).progress is None
    corpus = episodes()
    states = replace(
        result_on(corpus),
        actions=replace(result_on(corpus).actions, chunk=(np.full(CLIPS, -1))[:, None]),
    )
    assert with_progress(states, corpus.select).reached == ("",) * CLIPS
    plain = corpus.with_features(chunks=np.zeros((len(corpus.chunks.start), 3)))
    assert with_progress(result_on(plain), plain.select).progress is None


def test_results_keep_progress_on_disk_and_for_predictions(tmp_path):
    model = JointDiscovery().fit(episodes(n_clips=6))
    assert model.result_.progress is not None
    assert len(model.reached_) == 6
    model.save(tmp_path / "result")
    again = JointDiscovery.load(tmp_path / "result")
    np.testing.assert_array_equal(again.result_.progress, model.result_.progress)
    assert again.result_.reached == model.result_.reached
    new = episodes(n_clips=3, seed=5)
    first, second = model.predict(new), again.predict(new)
    assert first.progress is not None
    np.testing.assert_array_equal(first.progress, second.progress)
    at = first.progress_at(first.clips[0], np.array([-1.0, 0.2, 99.0]))
    assert at[0] == at[1] == first.progress[0]
    assert at[2] == first.progress[CHUNKS - 1]


def test_without_the_verdict_nothing_is_judged():
    result = JointDiscovery(verdict=False).fit(episodes(n_clips=5)).result_
    assert result.progress is None
    assert set(result.reached) == {""}
    assert np.isnan(result.progress_at(result.clips[0], np.array([0.0]))).all()


def test_results_of_earlier_versions_have_no_progress(tmp_path):
    result = JointDiscovery(verdict=False).fit(episodes(n_clips=5)).result_
    result.save(tmp_path / "result")
    assert not (tmp_path / "result" / "progress.npz").exists()
    assert Result.load(tmp_path / "result").progress is None


def test_out_of_core_gives_the_same(tmp_path):
    corpus = episodes(n_clips=6)
    corpus.save(tmp_path / "corpus")
    folder = JointDiscovery().fit_folder(tmp_path / "corpus", scratch=tmp_path).result_
    memory = with_progress(replace(folder, progress=None), corpus.select)
    assert folder.progress == pytest.approx(memory.progress)
