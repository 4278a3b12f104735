"""A review without a browser: what is told is on disk at once, and all answers follow."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace

import numpy as np
import pytest

from objectstates.app.workspace import Workspace
from objectstates.base.errors import CorrectionError, WorkspaceError
from objectstates.data.corpus import Corpus
from objectstates.data.corrections import Correction, read_corrections
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.discovery.ask_next import ask_next
from objectstates.discovery.estimator import JointDiscovery
from objectstates.report.clip_view import ClipView
from objectstates.web.review.clip_data import bare_result
from objectstates.web.review.session import ReviewSession
from tests.web.review.found import make_chain, make_found


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_found(tmp_path_factory.mktemp("made"))


@pytest.fixture
def found(made, tmp_path):
    return shutil.copytree(made, tmp_path / "found")


@pytest.fixture
def session(found):
    opened = ReviewSession(found)
    yield opened
    opened.close()


def row_of(session, clip):
    return next(row for row in session.state()["clips"] if row["id"] == clip)


def settled(session):
    assert session.wait(120)
    return session.state()


def test_corrections_of_clips_that_are_gone_stay_and_do_not_count(session, found):
    session.leave_out("b", "exclude")
    session.set_action("d", 3.0, 5.0)
    session.close()
    gone = "gone,action,1.0,2.0,\ngone,confirm,,,\n"
    with (found / "corrections.csv").open("a") as file:
        file.write(gone)
    again = ReviewSession(found)
    try:
        assert settled(again)["phase"] == "judged"
        again.leave_out("c", "exclude")
        assert settled(again)["corrections"] == 3
        assert gone in (found / "corrections.csv").read_text()
        again.finish(())
        again.finisher.close()
        assert again.finisher.state()["problem"] == ""
        assert again.state()["saved"]
    finally:
        again.close()


def test_the_answers_are_those_of_a_fit_with_the_same_corrections(session, found):
    session.set_action("b", 3.02, 5.01)
    session.leave_out("c", "exclude")
    session.set_tracklet("d", 0, "not_object")
    state = settled(session)
    rows = read_corrections(found / "corrections.csv")
    assert rows == (
        Correction("b", "action", 3.0, 5.0),  # at frames
        Correction("c", "exclude"),
        Correction("d", "not_object", value="0"),
    )
    whole = JointDiscovery().fit(Corpus.load(found / "corpus"), corrections=rows).result_
    for n, clip in enumerate(whole.clips):
        row = next(row for row in state["clips"] if row["id"] == clip)
        np.testing.assert_allclose(row["answer"]["actions"][0], whole.action_span[n], atol=1e-3)
    assert row_of(session, "c")["answer"]["left_out"] == "excluded by a correction"
    assert whole.verdict is not None
    assert state["verdict"]["why"] == whole.verdict.why
    assert state["phase"] == "judged"


def test_what_changed_is_marked_with_what_it_was(session):
    settled(session)
    before = row_of(session, "b")["answer"]
    session.set_action("b", 1.0, 2.0)
    settled(session)
    row = row_of(session, "b")
    assert row["changed_now"]
    assert row["changed"]
    assert row["before"] == row["found"] == before
    assert 1.0 <= row["answer"]["times"][0] <= 2.0
    session.note("a", "looks odd")
    assert row_of(session, "a")["noted"]
    session.confirm("a")
    settled(session)
    row = row_of(session, "b")
    assert (
        row["before"] is None or 1.0 <= row["before"]["times"][0] <= 2.0
    )  # by the last correction
    assert row["found"] == before


def test_nothing_is_lost_when_the_process_dies(session, found):
    session.set_action("b", 1.0, 2.0)
    session.rename(LabelNames.of("closed,open", "opening"))
    session.note("a", "odd")
    session.confirm("e f")
    state = session.state()
    again = ReviewSession(found)  # the first one was not closed
    try:
        shown = again.state()
        for name in ("names", "undo", "redo", "corrections", "next"):
            assert shown[name] == state[name]
        assert [row["kinds"] for row in shown["clips"]] == [row["kinds"] for row in state["clips"]]
        assert again.clip("a")["note"] == "odd"
        assert again.undo() == "e f"
        assert again.undo() == "b"
        assert again.undo() is None
        assert again.redo() == "b"
        assert settled(again)["corrections"] == 1
    finally:
        again.close()


def test_a_file_edited_by_hand_counts_and_drops_the_history(session, found):
    session.set_action("b", 1.0, 2.0)
    session.close()
    with (found / "corrections.csv").open("a") as file:
        file.write("b,state,6,7,2\nd,confirm,,,\n")
    again = ReviewSession(found)
    try:
        assert again.state()["undo"] is None
        assert row_of(again, "b")["kinds"] == ["action", "state"]
        told = again.clip("d")["corrections"][0]
        assert told["kind"] == "confirm"
        assert told["start"] < told["end"]  # those of the result
    finally:
        again.close()


def test_contradictions_are_refused_and_nothing_is_written(session, found):
    session.set_action("b", 4.0, 5.0)
    content = (found / "corrections.csv").read_bytes()
    with pytest.raises(CorrectionError, match="cannot have its action"):
        session.set_state("b", 7.0, 8.0, "1")
    with pytest.raises(CorrectionError, match="one frame"):
        session.set_action("b", 4.0, 4.01)
    with pytest.raises(CorrectionError, match="no tracklet 99"):
        session.set_tracklet("b", 99, "1")
    with pytest.raises(CorrectionError, match="no such clip"):
        session.set_action("no clip", 4.0, 5.0)
    with pytest.raises(CorrectionError, match="2000 characters"):
        session.note("b", "x" * 2001)
    assert (found / "corrections.csv").read_bytes() == content


def test_each_correction_can_be_taken_back(session):
    session.confirm("a")
    assert row_of(session, "a")["kinds"] == ["confirm"]
    session.confirm("a")
    assert row_of(session, "a")["kinds"] == []
    session.leave_out("a", "no_change")
    session.leave_out("a", "exclude")
    assert row_of(session, "a")["kinds"] == ["exclude"]
    session.leave_out("a", "exclude")
    for value in ("1", "2", "not_object", ""):
        session.set_tracklet("a", 3, value)
        assert session.clip("a")["tracklets"][3]["correction"] == value
    assert row_of(session, "a")["kinds"] == []
    session.set_tracklet("a", 3, "1")
    session.clear("a")
    assert session.state()["corrections"] == 0


def test_clips_to_look_at_next_are_those_of_ask_next(session, found):
    order = ask_next(Result.load(found / "result"), Corpus.load(found / "corpus"))
    assert session.state()["next"] == list(order)
    session.confirm(order[0])
    assert order[0] not in session.state()["next"]


def test_a_full_disk_is_told_when_the_result_is_written(session, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Workspace, "write_report", full)
    session.finish(())
    session.finisher.close()
    state = session.state()["finish"]
    assert not state["running"]
    assert "No space left" in state["problem"]


def test_a_fit_that_fails_does_not_stop_the_next(session, monkeypatch, capsys):
    settled(session)
    with monkeypatch.context() as broken:
        broken.setattr(session._refitter, "fit", lambda *_, **__: 1 / 0)
        session.leave_out("c", "exclude")
        state = settled(session)
        assert (state["phase"], "ZeroDivisionError" in state["problem"]) == ("failed", True)
    session.undo()
    assert settled(session)["phase"] == "judged"
    assert "1 / 0" in capsys.readouterr().err


def test_finish_writes_what_discover_would(session, found):
    session.rename(LabelNames.of("closed,open", "opening"))
    session.set_action("b", 3.0, 5.0)
    assert not session.state()["saved"]
    session.finish(("csv", "webvtt"))
    session.finisher.close()
    state = session.state()["finish"]
    assert state["problem"] == ""
    assert not state["running"]
    assert (found / "exports" / "csv" / "segments.csv").read_text().count("opening")
    assert "opening" in (found / "report.html").read_text()
    result = Result.load(found / "result")
    assert result.corrections == (Correction("b", "action", 3.0, 5.0),)
    assert result.verdict is not None
    assert session.state()["saved"]
    assert not any(row["changed"] for row in session.state()["clips"])
    workspace = Workspace(found)  # the files of a review are not foreign
    rows, names = workspace.corrections_to_use(None), workspace.names_to_use(LabelNames())
    _, reused = workspace.fit(JointDiscovery(), corrections=rows, names=names)
    assert reused


def test_a_folder_without_a_discovery_is_named(tmp_path):
    with pytest.raises(WorkspaceError, match="that `discover` wrote"):
        ReviewSession(tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_is_shown_of_clips_without_an_answer_has_no_progress_either(found):
    result, corpus = Result.load(found / "result"), Corpus.load(found / "corpus")
    fewer = result.select(np.arange(len(result.clips) - 1))
    known = replace(
        fewer,
        progress=np.zeros(len(fewer.action_scores)),
        reached_chance=np.ones(len(fewer.clips)),
    )
    bare = bare_result(corpus, known)
    assert bare.reached == ("",) * len(corpus)
    assert ClipView(bare, len(corpus) - 1, 0.0).progress is None


def test_each_action_of_a_chain_is_corrected_by_its_number(tmp_path):
    found = make_chain(tmp_path)
    session = ReviewSession(found)
    try:
        state = settled(session)
        assert list(state["names"]) == ["state_1", "action_1", "state_2", "action_2", "state_3"]
        assert row_of(session, "clip 1")["answer"]["actions"] == [[1.6, 2.0], [3.6, 4.0]]
        session.set_action("clip 1", 3.0, 3.4, 2)
        session.confirm("clip 2")
        session.set_tracklet("clip 3", 3, "3")
        rows = read_corrections(found / "corrections.csv")
        assert {(row.clip, row.kind, row.start, row.end, row.value) for row in rows} == {
            ("clip 1", "action", 3.0, 3.4, "2"),
            ("clip 2", "confirm", 1.6, 2.0, "1"),
            ("clip 2", "confirm", 3.6, 4.0, "2"),
            ("clip 3", "state", 4.0, 5.6, "3"),
        }
        settled(session)
        answer = row_of(session, "clip 1")["answer"]
        np.testing.assert_allclose(answer["actions"], [[1.6, 2.0], [3.0, 3.4]], atol=0.05)
        session.set_action("clip 2", 1.2, 1.6, 1)
        told = {(row["kind"], row["value"]) for row in session.clip("clip 2")["corrections"]}
        assert told == {("action", "1"), ("confirm", "2")}, "the other stays confirmed"
        with pytest.raises(CorrectionError, match="no action 3"):
            session.set_action("clip 1", 3.0, 3.4, 3)
        session.rename(LabelNames.of("closed,open,shut", "opening,closing"))
        assert session.state()["names"]["action_2"] == "closing"
    finally:
        session.close()
