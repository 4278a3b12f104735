from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from objectstates.base.errors import CorrectionError, InfeasibleClipError
from objectstates.data.clips import ChangeProfile
from objectstates.data.corrections import Correction, read_corrections
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.constraints import InfeasibleClipWarning
from objectstates.discovery.corrections import (
    apply_corrections,
    mostly_within,
    with_confirmed_times,
)
from objectstates.discovery.estimator import JointDiscovery
from tests.results import with_action


@pytest.fixture(scope="module")
def corpus():
    return synthetic_corpus(n_clips=8, seed=2)


def rows_of(tmp_path, *lines):
    path = tmp_path / "c.csv"
    path.write_text("\n".join(["clip,kind,start,end,value", *lines]) + "\n")
    return read_corrections(path)


def of_clip(result, n):
    rows = list(result.corpus.tracklet_rows(n))
    table = result.corpus.tracklets
    return result.state[rows], table.start[rows], table.end[rows], table.time[rows]


@pytest.mark.parametrize("labelling", ["held_out", "paper"])
@pytest.mark.parametrize(("start", "end"), [(2.0, 4.0), (15.0, 15.1), (0.0, 3.0), (18.0, 19.5)])
def test_the_action_is_where_the_person_says(corpus, labelling, start, end):
    clip = corpus.clip_ids[3]
    model = JointDiscovery(labelling=labelling)
    found = model.fit(corpus, corrections=[Correction(clip, "action", start, end)]).result_
    assert start <= found.action_time[3] <= end
    assert found.action_span[3].tolist() == [start, end]
    state, _, _, time = of_clip(found, 3)
    assert (time[state == 1] <= end).all()
    assert (time[state == 2] >= start).all()
    assert {1, 2} <= set(state.tolist())
    assert found.corrected.tolist() == [n == 3 for n in range(8)]


def test_bounds_in_rows_of_their_own_leave_the_interval_to_be_found(corpus):
    clip = corpus.clip_ids[3]
    rows = [Correction(clip, "action", 2.0), Correction(clip, "action", None, 12.0)]
    found = JointDiscovery(verdict=False).fit(corpus, corrections=rows).result_
    start, end = found.action_span[3]
    assert 2.0 <= start <= end <= 12.0
    assert end - start < 9.0


def test_the_moment_of_the_change_stays_within_the_correction(corpus):
    profile = ChangeProfile(0.0, 0.1, np.zeros(200, np.float32), np.zeros((2, 3), np.uint8))
    profile.curve[[60, 130, 135]] = 1.0, 0.5, 0.2  # greatest at 6 s; within the correction at 13 s
    corpus = replace(corpus, changes=(profile,) * len(corpus))
    row = Correction(corpus.clip_ids[0], "action", 12.0, 14.5)
    found = JointDiscovery().fit(corpus, corrections=[row]).result_
    assert found.action_time[0] == pytest.approx(13.05, abs=0.3)
    assert 12.0 <= found.action_span[0, 0] <= found.action_span[0, 1] <= 14.5


@pytest.mark.parametrize("state", [1, 2])
def test_a_state_that_was_seen_has_a_tracklet_there(corpus, state):
    start, end = ((1.0, 6.0), (14.0, 18.0))[state - 1]
    row = Correction(corpus.clip_ids[5], "state", start, end, str(state))
    found = JointDiscovery().fit(corpus, corrections=[row]).result_
    inside = mostly_within(found.corpus, 5, start, end)
    labels, _, _, time = of_clip(found, 5)
    assert inside.any()
    assert state in labels[inside]
    assert 3 - state not in labels[inside]
    if state == 1:
        assert found.action_time[5] >= end
        assert (time[labels == 2] >= end).all()
    else:
        assert found.action_time[5] <= start
        assert (time[labels == 1] <= start).all()


def test_states_may_be_named(corpus):
    names = LabelNames.of(states="closed,open")
    row = Correction(corpus.clip_ids[0], "state", 1.0, 4.0, "closed")
    number = replace(row, value="1")
    found = JointDiscovery().fit(corpus, corrections=[row], names=names).result_
    same = JointDiscovery().fit(corpus, corrections=[number]).result_
    assert (found.state == same.state).all()
    assert found.names == names
    with pytest.raises(CorrectionError, match="no state 'closed'"):
        JointDiscovery().fit(corpus, corrections=[row])


def test_what_is_not_the_object_has_no_state(corpus):
    free = JointDiscovery().fit(corpus).result_
    labels, start, end, _ = of_clip(free, 1)
    wrong = int(np.flatnonzero(labels == 1)[0])
    rows = [
        Correction(corpus.clip_ids[1], "not_object", value=str(wrong)),
        Correction(corpus.clip_ids[2], "not_object", 3.0, 6.0),
    ]
    found = JointDiscovery().fit(corpus, corrections=rows).result_
    assert of_clip(found, 1)[0][wrong] == 0
    assert not of_clip(found, 2)[0][mostly_within(corpus, 2, 3.0, 6.0)].any()
    assert start[wrong] < end[wrong]


@pytest.mark.parametrize(
    ("kind", "why"), [("exclude", "excluded"), ("no_change", "nothing happens")]
)
def test_clips_may_be_left_out(corpus, kind, why):
    row = Correction(corpus.clip_ids[4], kind)
    model = JointDiscovery().fit(corpus, corrections=[row])
    assert [clip.clip for clip in model.skipped_] == [corpus.clip_ids[4]]
    assert why in model.skipped_[0].reason
    assert np.isnan(model.action_time_[4])
    without = corpus.select([n for n in range(8) if n != 4])
    assert (model.result_.state == JointDiscovery().fit(without).result_.state).all()


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (["clip3,action,4,5,", "clip3,state,1,3,2"], "lines 2, 3"),  # state 2 before the action
        (["clip3,state,6,8,1", "clip3,action,4,5,"], "lines 2, 3"),
        (["clip3,action,4,5,", "clip1,exclude,,,", "clip3,action,6,7,"], "lines 2, 4"),
        (["clip3,state,2,4,2", "clip3,state,6,8,1"], "lines 2, 3"),
        (["clip1,action,1,2,", "clip3,action,90,95,"], "line 3"),
        (["clip3,no_change,,,", "clip3,action,4,5,"], "lines 2, 3"),
        (["clip3,not_object,,,999"], "line 2"),
        (["clip3,state,1,2,ajar"], "line 2"),
        (["nowhere,exclude,,,"], "line 2"),
        ([f"clip{n},exclude,,," for n in range(8)], "line 2"),
    ],
)
def test_contradictions_name_the_lines(corpus, tmp_path, lines, named):
    with pytest.raises(CorrectionError, match=rf"c\.csv, {named}: "):
        JointDiscovery().fit(corpus, corrections=rows_of(tmp_path, *lines))


def test_an_excluded_clip_may_keep_its_other_rows(corpus):
    rows = [Correction("clip3", "action", 4.0, 5.0), Correction("clip3", "exclude")]
    applied = apply_corrections(corpus, rows)
    assert len(applied.corpus) == 7
    assert "clip3" not in applied.bounds


def test_states_that_touch_leave_a_single_moment(corpus):
    rows = [
        Correction("clip3", "state", None, 9.0, "1"),
        Correction("clip3", "state", 9.0, None, "2"),
    ]
    found = JointDiscovery().fit(corpus, corrections=rows).result_
    assert found.action_time[3] == pytest.approx(9.0)
    labels, _, _, time = of_clip(found, 3)
    assert (time[labels == 1] <= 9.0).all()
    assert (time[labels == 2] >= 9.0).all()


def test_a_clip_without_tracklets_to_label_is_left_out_with_the_line(corpus, tmp_path):
    rows = rows_of(tmp_path, "clip3,not_object,,,")
    with pytest.warns(InfeasibleClipWarning):
        model = JointDiscovery().fit(corpus, corrections=rows)
    assert "c.csv, line 2" in model.skipped_[0].reason
    with pytest.raises(InfeasibleClipError, match=r"c\.csv, line 2"):
        JointDiscovery(on_infeasible="raise").fit(corpus, corrections=rows)
    model = JointDiscovery(target="action").fit(corpus, corrections=rows)
    assert not model.skipped_


def test_corrections_come_from_a_file_and_stay_in_the_result(corpus, tmp_path):
    rows = rows_of(tmp_path, "clip3,action,4,5,", "clip1,exclude,,,")
    found = JointDiscovery().fit(corpus, corrections=tmp_path / "c.csv").result_
    found.save(tmp_path / "result")
    loaded = Result.load(tmp_path / "result")
    assert loaded.corrections == rows
    assert [row.line for row in loaded.corrections] == [2, 3]
    assert loaded.corrected.tolist() == found.corrected.tolist()


def test_a_fit_from_disk_respects_the_same_corrections(corpus, tmp_path):
    corpus.save(tmp_path / "corpus")
    rows = [Correction("clip3", "action", 4.0, 5.0), Correction("clip0", "exclude")]
    there = JointDiscovery().fit_folder(tmp_path / "corpus", corrections=rows).result_
    here = JointDiscovery().fit(corpus, corrections=rows).result_
    assert there.clips == here.clips
    assert (there.action_chunk == here.action_chunk).all()
    assert 4.0 <= there.action_time[2] <= 5.0


def test_without_corrections_nothing_changes(corpus):
    free = JointDiscovery().fit(corpus).result_
    empty = JointDiscovery().fit(corpus, corrections=[]).result_
    assert (free.state == empty.state).all()
    assert not free.corrected.any()


@pytest.mark.parametrize("target", ["state", "action"])
def test_corrections_constrain_one_side_alone(corpus, target):
    rows = [Correction("clip3", "action", 4.0, 5.0), Correction("clip2", "state", 1.0, 3.0, "1")]
    found = JointDiscovery(target=target).fit(corpus, corrections=rows).result_
    if target == "action":
        assert 4.0 <= found.action_time[3] <= 5.0
    else:
        labels, _, _, time = of_clip(found, 3)
        assert (time[labels == 2] >= 4.0).all()
        assert np.isnan(found.action_time).all()


def test_outlier_clips_are_predicted_within_their_corrections(corpus):
    rows = [Correction(clip, "action", 4.0, 5.0) for clip in corpus.clip_ids[:2]]
    found = JointDiscovery(reject="auto").fit(corpus, corrections=rows).result_
    assert ((found.action_time[:2] >= 4.0) & (found.action_time[:2] <= 5.0)).all()


def test_a_confirmation_without_times_takes_those_of_the_result():
    corpus = synthetic_corpus(n_clips=6, seed=1)
    found = JointDiscovery().fit(corpus).result_
    row = Correction(corpus.clip_ids[2], "confirm", line=4, file="c.csv")
    (confirmed,) = with_confirmed_times([row], found)
    assert (confirmed.start, confirmed.end) == pytest.approx(tuple(found.action_span[2]))
    assert confirmed.place == "c.csv, line 4"
    again = JointDiscovery().fit(corpus, corrections=[confirmed]).result_
    moved = with_action(again, span=again.action_span + 1)
    assert with_confirmed_times([row], moved) == (confirmed,)  # not a little other in every fit
    with pytest.raises(CorrectionError, match=r"c\.csv, line 4.*give the start"):
        with_confirmed_times([row], None)
    timed = Correction(corpus.clip_ids[2], "confirm", 1.0, 2.0)
    assert with_confirmed_times([timed], None) == (timed,)
    assert np.isfinite(again.action_time).all()
