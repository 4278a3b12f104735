from dataclasses import replace

import numpy as np
import pytest

from objectstates import JointDiscovery
from objectstates.data.clips import ChangeProfile
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.constraints import Formulation
from objectstates.discovery.evidence import USUAL_COVER, USUAL_SHARED, change_in_boxes, gather
from objectstates.discovery.fit_steps import formulation
from objectstates.discovery.prediction import predict
from objectstates.discovery.replication import separately
from objectstates.features.object_motion import OBJECT_MOTION_DIM


def evidence_of(corpus, found=None):
    model = JointDiscovery(verdict=False)
    found = found or model.fit(corpus).result_
    (evidence,) = gather(
        corpus,
        found,
        separately(lambda clips: model.fit(clips).result_),
        lambda learned, clips: predict(learned, clips, Formulation("joint", "at_least_one", 0.0)),
    )
    return evidence


@pytest.fixture(scope="module")
def corpus():
    return synthetic_corpus(n_clips=8, seed=0)


@pytest.fixture(scope="module")
def found(corpus):
    return JointDiscovery(verdict=False).fit(corpus).result_


def changing(corpus, found, amounts):
    """Profiles that change by these amounts at the actions found."""
    profiles = []
    for time, amount in zip(found.action_time, amounts, strict=True):
        curve = np.zeros(200, np.float32)
        curve[int(time / 0.1)] = amount
        profiles.append(ChangeProfile(0.0, 0.1, curve, np.full((2, 2), 255, np.uint8)))
    return replace(corpus, changes=tuple(profiles))


def test_clear_clips_have_what_right_answers_have(corpus):
    action = evidence_of(corpus).action
    assert action["cues_all"][0] > 0.7
    assert action["smoothness_all"][0] > 0.4
    assert 0 <= action["room_all"][0] <= 1
    assert (action["amount"] == 0).all()


def test_content_in_random_order_is_not_smooth(corpus):
    rng = np.random.default_rng(0)
    features = corpus.chunks.features.copy()
    for n in range(len(corpus)):
        rows = np.arange(corpus.chunk_rows(n).start, corpus.chunk_rows(n).stop)
        features[rows] = features[rng.permutation(rows)]
    jumping = evidence_of(corpus.with_features(chunks=features))
    assert jumping.action["smoothness_all"][0] < 0.3


def test_clips_that_change_far_less_stand_out(corpus, found):
    uneven = changing(corpus, found, [0.1] * 6 + [0.001] * 2)
    action = evidence_of(uneven, found).action
    assert (action["amount"][:6] > 0).all()
    assert (action["amount"][6:] < -1).all()
    assert action["quiet_all"][0] == 0.25
    even = evidence_of(changing(corpus, found, [1e-3] * 8), found).action
    assert even["quiet_all"][0] == 0  # how much it is does not matter, if it is alike


def test_an_action_at_the_end_has_no_room(corpus, found):
    last = np.array([corpus.chunks.end[corpus.chunk_rows(n)[-1]] for n in range(len(corpus))])
    at_the_end = replace(
        found, actions=replace(found.actions, span=(np.stack([last - 1, last], axis=1))[:, None])
    )
    assert evidence_of(corpus, at_the_end).action["room_all"][0] == 0


def test_boxes_on_the_change_are_told_from_others():
    where = np.zeros((30, 40), np.uint8)
    where[10:20, 10:20] = 255
    profile = ChangeProfile(0.0, 0.1, np.ones(3, np.float32), where, scale=8.0)
    on = np.array([[80.0, 80.0, 160.0, 160.0]])
    assert change_in_boxes(profile, on) == pytest.approx(1.0)
    assert change_in_boxes(profile, on + 120) < 0
    assert change_in_boxes(profile, np.array([[0.0, 0.0, 320.0, 240.0]])) == pytest.approx(0)
    half = change_in_boxes(profile, np.array([[80.0, 80.0, 120.0, 160.0]]))
    assert 0.45 < half < 0.5
    assert change_in_boxes(replace(profile, where=where * 0), on) == 0.0


def test_boxes_of_the_change_itself_tell_nothing(corpus, found):
    made = replace(corpus, info={"ingest": {"detector": "motion"}})
    assert evidence_of(made, found).measures["boxes_on_change"] == USUAL_COVER


def test_features_without_a_known_appearance_count_as_usual(corpus):
    evidence = evidence_of(corpus)
    assert (evidence.action["shared_all"] == USUAL_SHARED).all()
    assert (evidence.action["shared"] == 0).all()
    assert "shared_change" not in evidence.measures


def test_only_what_lies_between_the_other_actions_of_a_chain_is_compared():
    """Open, then closed: after both actions the picture is that before them."""
    corpus = synthetic_corpus(n_clips=8, chunks_per_clip=40, changes=2, pattern="ABA", seed=0)
    chain = JointDiscovery(changes=2, pattern="ABA", restarts=1, verdict=False)
    found = chain.fit(corpus).result_
    clip = np.repeat(np.arange(8), np.diff(corpus.chunks.offsets))
    first, second = found.actions.time[clip].T
    is_open = (corpus.chunks.time > first) & (corpus.chunks.time < second)
    rng = np.random.default_rng(0)
    looks = is_open[:, None] * rng.normal(size=30) + 0.1 * rng.normal(size=(len(clip), 30))
    motion = np.zeros((len(clip), OBJECT_MOTION_DIM))
    made = corpus.with_features(chunks=np.hstack([motion, looks]).astype(np.float32))
    made = replace(made, info={"ingest": {"chunks": "dense"}})
    evidence = gather(
        made,
        found,
        separately(lambda clips: chain.fit(clips).result_),
        lambda learned, clips: predict(learned, clips, formulation(chain)),
    )
    assert [each.measures["shared_change"] for each in evidence] == [1.0, 1.0]


def test_measures_are_finite_and_named(corpus):
    measures = evidence_of(corpus).measures
    assert measures["clips"] == 8
    assert {"action_agreement", "action_chance", "states_agreement"} <= measures.keys()
    assert "cues_agreement" not in measures  # there are no profiles
    assert all(np.isfinite(value) for value in measures.values())
