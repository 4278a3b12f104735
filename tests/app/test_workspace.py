"""The folder of a discovery: foreign files, and what a killed run left."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from objectstates import JointDiscovery
from objectstates.app.workspace import Workspace
from objectstates.base.errors import WorkspaceError
from objectstates.data.corrections import Correction, write_corrections
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.solver_runs import FitProgress


@pytest.fixture
def dead() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_leftovers_of_a_killed_run_are_removed_and_files_of_a_living_one_are_not(tmp_path, dead):
    Workspace(tmp_path / "w").result.mkdir()
    for name in (
        f".corpus.{dead}-1a2b.tmp",
        f".result.{dead}-scratch.tmp",
        f".result.{dead}.old",  # as earlier versions named them
        f".result.{dead}-1a2b.old",
        f".result.{os.getppid()}-1a2b.tmp",
    ):
        (tmp_path / "w" / name).mkdir()
    (tmp_path / "w" / f".report.html.{dead}-1a2b.tmp").write_text("half a page")
    Workspace(tmp_path / "w")
    left = {path.name for path in (tmp_path / "w").iterdir()}
    assert left == {"discover.json", "result", f".result.{os.getppid()}-1a2b.tmp"}


def test_a_run_killed_while_it_created_the_folder_can_be_repeated(tmp_path, dead):
    (tmp_path / f".discover.json.{dead}-1a2b.tmp").write_text("{")
    Workspace(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["discover.json"]


@pytest.mark.parametrize("name", ["notes.txt", "corpus", "report.html", ".hidden"])
def test_a_folder_with_other_files_is_left_alone(tmp_path, name):
    (tmp_path / name).write_text("precious")
    with pytest.raises(WorkspaceError, match="holds something else"):
        Workspace(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "name", [".~lock.corrections.csv#", "corrections.csv~", ".corrections.csv.swp", ".DS_Store"]
)
def test_an_editor_that_has_the_corrections_open_is_no_obstacle(tmp_path, name):
    Workspace(tmp_path)
    (tmp_path / name).write_text("its own")
    assert Workspace(tmp_path).corrections_to_use(None) == ()
    assert (tmp_path / name).read_text() == "its own"


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "f").write_text("precious")
    with pytest.raises(WorkspaceError, match="cannot write"):
        Workspace(tmp_path / "f")
    with pytest.raises(WorkspaceError, match="cannot write"):
        Workspace(tmp_path / "f" / "g")


def test_a_fit_is_repeated_only_if_corpus_or_settings_changed(tmp_path):
    workspace, corpus = Workspace(tmp_path), synthetic_corpus(n_clips=3)
    corpus.save(workspace.corpus)

    def fit(**settings):
        passes: list[FitProgress] = []
        model = JointDiscovery(max_passes=60, **settings)
        result, kept = workspace.fit(model, callback=passes.append)
        assert kept == (not passes), "a result that is reused is not computed"
        return result, kept

    first, kept = fit()
    assert not kept
    again, kept = fit()
    assert kept
    np.testing.assert_array_equal(first.state, again.state)
    assert again.summary["configuration"] == {}
    assert not fit(nu=0.5)[1]
    assert fit(nu=0.5)[1]
    synthetic_corpus(n_clips=3, seed=1).save(workspace.corpus)
    assert not fit(nu=0.5)[1]


def test_a_fit_is_repeated_if_corrections_changed_but_not_for_other_names(tmp_path):
    workspace, corpus = Workspace(tmp_path), synthetic_corpus(n_clips=4)
    corpus.save(workspace.corpus)
    clip = corpus.clip_ids[1]

    def fit(*rows, **names):
        model = JointDiscovery(max_passes=60)
        return workspace.fit(model, corrections=rows, names=LabelNames.of(**names))

    fit()
    result, kept = fit(Correction(clip, "action", 4.0, 6.0))
    assert not kept
    assert 4.0 <= result.action_time[1] <= 6.0
    assert fit(Correction(clip, "action", 4.0, 6.0, line=7))[1]
    assert not fit(Correction(clip, "action", 4.0, 7.0))[1]
    result, kept = fit(Correction(clip, "confirm"))
    assert not kept
    assert fit(Correction(clip, "confirm"))[1]
    fit()
    result, kept = fit(states="closed,open")
    assert kept
    assert Result.load(workspace.result).names.state_2 == "open"
    assert result.names.state_1 == "closed"


def test_corrections_of_a_review_are_used_and_never_dropped_silently(tmp_path):
    workspace = Workspace(tmp_path / "w")
    assert workspace.corrections_to_use(None) == ()
    own, other = Correction("a", "exclude"), Correction("b", "exclude")
    write_corrections(workspace.corrections, [own])
    write_corrections(tmp_path / "same.csv", [own])
    write_corrections(tmp_path / "other.csv", [other])
    assert workspace.corrections_to_use(None) == (own,)
    assert workspace.corrections_to_use(tmp_path / "same.csv") == (own,)
    with pytest.raises(WorkspaceError, match="holds other corrections"):
        workspace.corrections_to_use(tmp_path / "other.csv")
    workspace.corrections.unlink()
    assert workspace.corrections_to_use(tmp_path / "other.csv") == (other,)


def test_names_of_a_review_hold_unless_others_are_given(tmp_path):
    workspace, named = Workspace(tmp_path / "w"), LabelNames.of("closed,open", "opening")
    assert workspace.names_to_use(LabelNames()) == LabelNames()
    workspace.review.write_text(json.dumps({"names": named.to_json()}))
    assert workspace.names_to_use(LabelNames()) == named
    assert workspace.names_to_use(LabelNames.of("on,off")) == LabelNames.of("on,off")
    workspace.review.write_text("{")
    assert workspace.names_to_use(LabelNames()) == LabelNames()
    assert Workspace(tmp_path / "w").folder == tmp_path / "w"  # none of these files is foreign
