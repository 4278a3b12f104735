import numpy as np
import pytest

from objectstates import Corpus, JointDiscovery
from objectstates.data.corrections import Correction
from objectstates.data.result import Result
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.evidence import USUAL_COVER, Evidence
from objectstates.discovery.verdict import DOUBTFUL, FEWEST, FOUND, conclude, finding
from objectstates.discovery.verdict import chances_of as chances_by


@pytest.fixture(scope="module")
def clear():
    return synthetic_corpus(n_clips=16, seed=0)


@pytest.fixture(scope="module")
def judged(clear):
    return JointDiscovery().fit(clear).result_


def verdict_of(corpus, **settings):
    verdict = JointDiscovery(**settings).fit(corpus).result_.verdict
    assert verdict is not None
    return verdict


def chances_of(result):
    assert result.confidences is not None
    return result.confidences


def noise(corpus, seed=0):
    rng = np.random.default_rng(seed)
    return corpus.with_features(
        tracklets=rng.normal(size=corpus.tracklets.features.shape),
        chunks=rng.normal(size=corpus.chunks.features.shape),
    )


def test_a_clear_corpus_is_found(judged):
    assert judged.verdict.action == "found"
    assert judged.verdict.remedy == "" or judged.verdict.states != "found"
    assert judged.confidences.shape == (16, 3)
    assert ((judged.confidences > 0) & (judged.confidences < 1)).all()
    assert judged.verdict.expected["action"] == pytest.approx(
        judged.confidences[:, 0].mean(), abs=1e-4
    )


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_not_found(clear, seed):
    verdict = verdict_of(noise(clear, seed))
    assert verdict.action == "not_found"
    assert verdict.states == "not_found"
    assert verdict.remedy
    assert verdict.topic


def test_few_clips_are_never_found():
    for n_clips in range(1, FEWEST):
        verdict = verdict_of(synthetic_corpus(n_clips=n_clips, seed=0))
        assert "found" not in verdict.findings
        assert verdict.topic == "few-clips"


def test_the_verdict_can_be_left_out(clear):
    result = JointDiscovery(verdict=False).fit(clear).result_
    assert result.verdict is None
    assert result.confidences is None


def test_labels_do_not_depend_on_the_verdict(clear, judged):
    alone = JointDiscovery(verdict=False).fit(clear).result_
    np.testing.assert_array_equal(alone.state, judged.state)
    np.testing.assert_array_equal(alone.action_time, judged.action_time)


@pytest.mark.parametrize("target", ["state", "action"])
def test_only_what_was_sought_is_judged(clear, target):
    result = JointDiscovery(target=target).fit(clear).result_
    verdict = result.verdict
    assert verdict is not None
    assert (verdict.action is None) == (target == "state")
    assert (verdict.states is None) == (target == "action")
    assert np.isnan(chances_of(result)[:, 0]).all() == (target == "state")
    assert verdict.why.endswith(".")


def test_states_alone_can_be_found(clear):
    """The chance of an action that was not sought does not count."""
    evidence = Evidence(
        None,
        {"same_all": np.full(16, 0.95), "cover_all": np.full(16, USUAL_COVER)},
        MEASURES,
        16,
    )
    chances = chances_by(evidence, 16)
    assert np.isnan(chances[:, 0]).all()
    assert (chances[:, 1:] > FOUND).all()


def test_states_of_a_chain_are_judged_alone(tmp_path):
    corpus = synthetic_corpus(8, changes=2)
    model = JointDiscovery(restarts=1, changes=2, target="state").fit(corpus)
    assert model.result_.verdict is not None
    assert model.result_.verdict.states is not None
    model.save(tmp_path / "result")
    assert JointDiscovery.load(tmp_path / "result").result_.verdict == model.result_.verdict


def test_it_is_saved_with_the_result(tmp_path, judged):
    judged.save(tmp_path / "result")
    again = Result.load(tmp_path / "result")
    assert again.verdict == judged.verdict
    np.testing.assert_array_equal(chances_of(again), chances_of(judged))


def test_out_of_core_gives_a_verdict_too(tmp_path, clear, judged):
    clear.save(tmp_path / "corpus")
    result = JointDiscovery().fit_folder(tmp_path / "corpus").result_
    assert result.verdict is not None
    assert result.verdict.action == judged.verdict.action
    assert chances_of(result).shape == (16, 3)


def test_clips_beyond_the_sample_get_the_mean(tmp_path, clear, monkeypatch):
    monkeypatch.setattr("objectstates.discovery.estimator.SAMPLE", 10)
    clear.save(tmp_path / "corpus")
    chances = chances_of(JointDiscovery().fit_folder(tmp_path / "corpus").result_)
    sample = np.sort(np.random.default_rng(0).permutation(16)[:10])
    others = np.setdiff1d(np.arange(16), sample)
    np.testing.assert_allclose(chances[others], np.tile(chances[sample].mean(axis=0), (6, 1)))


def test_a_time_that_a_person_stated_is_certain(clear):
    clip = clear.clip_ids[0]
    row = Correction(clip, "action", 1.0, 4.0, "", 2)
    result = JointDiscovery().fit(clear, corrections=[row]).result_
    assert chances_of(result)[0, 0] == 1
    assert (chances_of(result)[1:, 0] < 1).all()


def test_outliers_are_judged_with_the_others(clear):
    result = JointDiscovery(reject="auto").fit(clear).result_
    assert result.verdict is not None
    assert not np.isnan(chances_of(result)).any()


def test_findings_follow_from_what_to_expect():
    assert finding(FOUND) == "found"
    assert finding(FOUND - 0.01) == "doubtful"
    assert finding(DOUBTFUL) == "doubtful"
    assert finding(DOUBTFUL - 0.01) == "not_found"
    assert finding(np.nan) is None


MEASURES = {
    "clips": 12.0,
    "action_agreement": 0.5,
    "action_chance": 0.2,
    "cues_agreement": 0.3,
    "cues_chance": 0.2,
    "quiet": 0.5,
    "shared_change": 0.6,
    "states_agreement": 0.2,
    "boxes_on_change": 0.3,
}
USUAL = {
    "cues_all": 0.7,
    "shared_all": 0.9,
    "smoothness_all": 0.8,
    "room_all": 0.95,
    "quiet_all": 0.1,
}


def explained(chance=0.5, measures=(), **lacking):
    evidence = Evidence(
        {name: np.full(12, value) for name, value in {**USUAL, **lacking}.items()},
        None,
        {**MEASURES, **dict(measures)},
        12,
    )
    return conclude(np.full((12, 3), chance), evidence)


def test_what_is_lacking_most_is_named():
    assert "very start or end" in explained(room_all=0.1).why
    assert explained(room_all=0.1).topic == "action-at-the-end"
    assert "coincide in only 30 %" in explained(cues_all=-0.1).why
    assert "jump" in explained(smoothness_all=-0.1).why
    otherwise = explained(shared_all=0.6)
    assert "in 60 % of the cases" in otherwise.why
    assert otherwise.topic == "different-actions"
    assert "50 % of the clips change less than half" in explained(quiet_all=0.9).why
    still = explained(cues_all=-0.2, measures={"cues_agreement": 0.0})
    assert still.topic == "no-change"


def test_wrong_boxes_are_named():
    def verdict(**measures):
        evidence = Evidence(
            {name: np.full(12, value) for name, value in USUAL.items()},
            None,
            {**MEASURES, **measures},
            12,
        )
        chances = np.column_stack([np.full(12, 0.9), np.full((12, 2), 0.2)])
        return conclude(chances, evidence)

    assert verdict().states == "not_found"
    assert "20 % of its tracklets" in verdict().why
    assert "contain little" in verdict(states_agreement=0.95, boxes_on_change=0.1).why
    assert "contain little of what changes" in verdict(boxes_on_change=0.02).why


def test_the_same_seed_gives_the_same_verdict(clear, judged):
    again = JointDiscovery().fit(clear).result_
    assert again.verdict == judged.verdict
    np.testing.assert_array_equal(chances_of(again), chances_of(judged))


def test_half_a_corpus_of_noise_is_not_found(clear):
    noisy = noise(clear)
    clips = [noisy[n] if n % 2 else clear[n] for n in range(len(clear))]
    assert verdict_of(Corpus.from_clips(clips)).worst != "found"


def test_reported_numbers_are_rounded_chances(judged):
    for value in (*judged.verdict.expected.values(), *judged.verdict.measures.values()):
        assert value == round(value, 4)
