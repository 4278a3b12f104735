"""The folder of a discovery: what is ours, what is left of a run that was killed."""

import os
import subprocess
import sys

import numpy as np
import pytest

from objectstates import JointDiscovery
from objectstates.app.workspace import Workspace
from objectstates.base.errors import WorkspaceError
from objectstates.data.synthetic import synthetic_corpus


@pytest.fixture
def dead() -> int:
    """The id of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_what_a_killed_run_left_is_cleared_and_what_a_living_one_writes_is_not(tmp_path, dead):
    Workspace(tmp_path / "w")
    for name in (
        f".corpus.{dead}-1a2b.tmp",
        f".result.{dead}-1a2b.old",
        f".result.{os.getppid()}-1a2b.tmp",
    ):
        (tmp_path / "w" / name).mkdir()
    (tmp_path / "w" / f".report.html.{dead}-1a2b.tmp").write_text("half a page")
    Workspace(tmp_path / "w")
    left = {path.name for path in (tmp_path / "w").iterdir()}
    assert left == {"discover.json", f".result.{os.getppid()}-1a2b.tmp"}


def test_a_run_killed_before_its_first_mark_is_no_stranger(tmp_path, dead):
    (tmp_path / f".discover.json.{dead}-1a2b.tmp").write_text("{")
    Workspace(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["discover.json"]


@pytest.mark.parametrize("name", ["notes.txt", "corpus", "report.html", ".hidden"])
def test_a_folder_that_is_not_ours_is_left_alone(tmp_path, name):
    (tmp_path / name).write_text("precious")
    with pytest.raises(WorkspaceError, match="holds something else"):
        Workspace(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "f").write_text("precious")
    with pytest.raises(WorkspaceError, match="cannot write"):
        Workspace(tmp_path / "f")
    with pytest.raises(WorkspaceError, match="cannot write"):
        Workspace(tmp_path / "f" / "g")


def test_a_fit_is_repeated_only_if_corpus_or_settings_changed(tmp_path):
    workspace, corpus = Workspace(tmp_path), synthetic_corpus(n_clips=3)
    corpus.save(workspace.corpus)

    def fit(**settings):
        passes = []
        model = JointDiscovery(max_passes=60, **settings)
        result, kept = workspace.fit(model, callback=lambda p: passes.append(p) or None)
        assert kept == (not passes), "what is said to be kept was computed"
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
