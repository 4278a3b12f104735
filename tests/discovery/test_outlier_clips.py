"""Clips that do not show what the others show must not spoil them."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from objectstates import Corpus, JointDiscovery, Result, evaluate
from objectstates.base.errors import SettingError
from objectstates.data.clips import TrackletLabel
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery import outlier_clips as rejection
from objectstates.discovery.outlier_clips import FEWEST, alike
from objectstates.report.page import write_report

SMALL: dict[str, Any] = {
    "tracklets_per_clip": 20,
    "chunks_per_clip": 30,
    "state_size": 128,
    "action_size": 128,
}


def mixed(right, wrong, seed=0):
    """Clips of a world, of some of which only other things and other deeds are left."""
    clips = [*synthetic_corpus(right + wrong, seed=seed, noise=0.5, **SMALL)]
    for n, clip in enumerate(clips):
        clips[n] = replace(clip, id=f"right{n}")
        if n >= right:
            things = [x for x in clip.tracklets if x.label == TrackletLabel.FALSE_POSITIVE]
            deeds = [x for x in clip.chunks if not x.label]
            clips[n] = replace(clip, id=f"wrong{n}", tracklets=tuple(things), chunks=tuple(deeds))
    order = np.random.default_rng(seed).permutation(len(clips))
    return Corpus.from_clips([clips[n] for n in order])


def precision_of_right(result, corpus):
    rows = [row for row in evaluate(result, corpus).rows if row.clip.startswith("right")]
    states = np.mean([[row.precision_1, row.precision_2] for row in rows])
    return states + np.mean([row.action for row in rows])


@pytest.fixture(scope="module")
def worlds():
    """Several corpora with a plain and a rejecting fit each: of one alone, chance says too much."""
    corpora = [mixed(12, 8, seed) for seed in range(5)]
    return [
        (corpus, *(JointDiscovery(reject=how).fit(corpus) for how in ("none", "auto")))
        for corpus in corpora
    ]


@pytest.fixture(scope="module")
def noisy(worlds):
    return worlds[2][0]


@pytest.fixture(scope="module")
def rejecting(worlds):
    return worlds[2][2]


def test_wrong_clips_are_set_aside(worlds):
    aside = [clip.clip for _, _, careful in worlds for clip in careful.set_aside_]
    right = sum(clip.startswith("right") for clip in aside)
    assert len(aside) - right >= 10  # of 40
    assert right <= 2  # of 60
    assert all(plain.set_aside_ == () for _, plain, _ in worlds)


def test_the_right_clips_do_not_suffer(worlds):
    gains = [
        precision_of_right(careful.result_, corpus) - precision_of_right(plain.result_, corpus)
        for corpus, plain, careful in worlds
    ]
    assert np.mean(gains) > -0.03  # of at most 2


def test_of_many_clips_a_sample_is_searched(noisy, monkeypatch):
    monkeypatch.setattr(rejection, "SAMPLE", 12)
    model = JointDiscovery(reject="auto").fit(noisy)
    aside = {clip.clip for clip in model.set_aside_}
    assert len(aside) >= 3
    assert all(clip.startswith("wrong") for clip in aside)
    assert model.result_.clips == noisy.clip_ids


def test_evidence_without_the_common_scale_is_that_of_the_scores_before_it(noisy):
    model = JointDiscovery(target="action").fit(noisy)
    scale = model.result_.classifiers["action"].scale
    assert 0 < scale[0] < 1  # labels of a clip are foretold by the others, but not fully
    np.testing.assert_allclose(
        model.result_.raw_evidence, scale[0] * model.result_.action_score, rtol=1e-12
    )


def test_the_certificate_is_that_of_the_clips_learned_from(noisy, rejecting):
    aside = {clip.clip for clip in rejecting.set_aside_}
    kept = [n for n, clip in enumerate(noisy.clip_ids) if clip not in aside]
    alone = JointDiscovery().fit(noisy.select(kept))
    assert rejecting.gap_ == alone.gap_
    assert rejecting.relaxed_objective_ == alone.relaxed_objective_
    assert rejecting.result_.summary["learned_from"] == len(kept)
    assert rejecting.result_.clips == noisy.clip_ids
    np.testing.assert_array_equal(rejecting.action_chunk_[kept], alone.action_chunk_)
    for side, classifier in alone.result_.classifiers.items():
        np.testing.assert_array_equal(
            rejecting.result_.classifiers[side].weights, classifier.weights
        )


def test_clips_set_aside_are_labelled_by_prediction(noisy, rejecting):
    aside = {clip.clip for clip in rejecting.set_aside_}
    rest = [n for n, clip in enumerate(noisy.clip_ids) if clip in aside]
    predicted = rejecting.predict(noisy.select(rest))
    np.testing.assert_array_equal(rejecting.action_chunk_[rest], predicted.action_chunk)
    rows = np.concatenate([list(noisy.tracklet_rows(n)) for n in rest])
    np.testing.assert_array_equal(rejecting.labels_[rows], predicted.state)
    np.testing.assert_array_equal(rejecting.result_.state_scores[rows], predicted.state_scores)


def test_clips_that_are_all_alike_are_all_kept():
    corpus = synthetic_corpus(12, noise=0.3, **SMALL)
    plain, careful = JointDiscovery().fit(corpus), JointDiscovery(reject="auto").fit(corpus)
    assert careful.set_aside_ == ()
    np.testing.assert_array_equal(careful.labels_, plain.labels_)
    assert careful.gap_ == plain.gap_


def test_half_of_the_clips_and_five_are_always_kept():
    evidence = np.array([9.0, 0.1, 0.0, 0.0, -3.0, 0.0, 0.0])
    assert alike(evidence, 4).sum() == 4
    few = mixed(3, 2)
    assert JointDiscovery(reject="auto").fit(few).set_aside_ == ()
    assert len(few) == FEWEST


@pytest.mark.parametrize("target", ["state", "action"])
def test_states_or_the_action_alone_will_do(noisy, target):
    model = JointDiscovery(reject="auto", target=target).fit(noisy)
    aside = {clip.clip for clip in model.set_aside_}
    kept = [n for n, clip in enumerate(noisy.clip_ids) if clip not in aside]
    assert model.gap_ == JointDiscovery(target=target).fit(noisy.select(kept)).gap_


def test_a_callback_that_stops_stops_all_rounds(noisy):
    calls = []

    def stop(progress):
        calls.append(progress)
        return True

    JointDiscovery(reject="auto").fit(noisy, callback=stop)
    assert len(calls) == 1


def test_set_aside_clips_are_kept_on_disk_and_shown(rejecting, run, tmp_path):
    rejecting.save(tmp_path / "result")
    again = Result.load(tmp_path / "result")
    assert again.set_aside == rejecting.set_aside_
    assert JointDiscovery.load(tmp_path / "result").set_aside_ == rejecting.set_aside_
    code, out, _ = run("inspect", tmp_path / "result", "--json")
    assert code == 0
    assert [clip["clip"] for clip in json.loads(out)["set_aside"]] == [
        clip.clip for clip in rejecting.set_aside_
    ]
    write_report(again, tmp_path / "page.html")
    assert "Outlier clips" in (tmp_path / "page.html").read_text()
    assert rejecting.set_aside_[0].reason in (tmp_path / "page.html").read_text()


def test_the_command_takes_it(noisy, run, tmp_path):
    noisy.save(tmp_path / "corpus")
    words = ("fit", tmp_path / "corpus", "--out", tmp_path / "result", "--reject", "auto")
    code, out, _ = run(*words, "--json")
    assert code == 0
    assert json.loads(out)["set_aside"]
    assert Result.load(tmp_path / "result").settings["reject"] == "auto"


def test_it_needs_scores_without_the_clip(noisy):
    with pytest.raises(SettingError, match="held_out"):
        JointDiscovery.paper(reject="auto").fit(noisy)
    with pytest.raises(SettingError, match="`reject` must be one of none, auto"):
        JointDiscovery(reject="some").fit(noisy)  # type: ignore[arg-type]
