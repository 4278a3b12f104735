"""A project's folder holds all that its page shows."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from objectstates.base.errors import ObjectStatesError, SettingError, VideoError, WorkspaceError
from objectstates.video.clip_list import ClipSpan
from objectstates.web.studio.project import Job, Project
from tests.web.films import write_film


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "project")


@pytest.fixture
def elsewhere(tmp_path):
    folder = tmp_path / "else where"
    folder.mkdir()
    for name in ("b.mp4", "a.mp4"):
        write_film(folder / name, "libx264", [0, 40, 80])
    return folder


def test_choices_are_there_after_a_restart(project: Project, elsewhere: Path) -> None:
    names = {"object": "cup", "state_1": "empty", "action": "pouring", "state_2": "full"}
    project.change({**names, "boxes": "motion"})
    assert project.add_folder(str(elsewhere)) == 2
    again = Project(project.folder)
    assert again.choices == project.choices
    assert again.choices.names().to_json() == {k: v for k, v in names.items() if k != "object"}
    assert [span.id for span in again.clips()[0]] == ["a", "b"]
    again.remove_folder(str(elsewhere))
    assert Project(project.folder).clips() == ([], [])
    assert len(list(elsewhere.iterdir())) == 2


def test_a_discovery_that_was_killed_with_its_server_is_interrupted(project: Project) -> None:
    project.change({"job": Job("running", "x")})
    again = Project(project.folder)
    assert Project(project.folder).choices.job == Job("running", "x")  # it may still run elsewhere
    again.recover()
    assert Project(project.folder).choices.job == Job("interrupted", "x")


def test_videos_of_the_same_name_and_folders_that_are_gone(
    project: Project, elsewhere: Path
) -> None:
    write_film(project.videos / "a.mp4", "libx264", [0, 40])
    (project.videos / ".half.part").write_bytes(b"x")
    project.add_folder(str(elsewhere))
    clips, gone = project.clips()
    assert len({span.id for span in clips}) == 3
    assert gone == []
    before = project.inputs(clips)
    (elsewhere / "b.mp4").write_bytes(b"changed")
    assert project.inputs(clips) != before
    elsewhere.rename(elsewhere.with_name("moved"))
    clips, gone = project.clips()
    assert [span.id for span in clips] == ["a"]
    assert "else where" in gone[0]
    project.recover()
    assert [path.name for path in project.videos.iterdir()] == ["a.mp4"]


@pytest.mark.parametrize(
    "path", ["", "  ", "videos", "../..", "/no/such/folder", "/etc/\0x", "/dev/null", "{project}",
             "{project}/videos", "/" + 4000 * "x", "/\ud800"],
)  # fmt: skip
def test_folders_that_cannot_be_used_are_refused(project: Project, path: str) -> None:
    with pytest.raises(ObjectStatesError):
        project.add_folder(path.format(project=project.folder))
    assert project.choices.folders == ()


def test_a_folder_around_the_project_gives_only_its_own_videos(project: Project) -> None:
    write_film(project.videos / "a.mp4", "libx264", [0, 40])
    write_film(project.folder.parent / "b.mp4", "libx264", [0, 40])
    crops = project.found / "exports" / "crops"
    crops.mkdir(parents=True)
    for number in range(3):
        (crops / f"{number}.png").write_bytes(b"")
    assert project.add_folder(str(project.folder.parent)) == 1
    assert [span.id for span in project.clips()[0]] == ["a", "b"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all names are text")
def test_a_name_that_is_no_text_has_a_printable_id(project: Project, elsewhere: Path) -> None:
    (project.videos / os.fsdecode(b"caf\xe9.mp4")).touch()
    assert project.add_folder(str(elsewhere))
    clips, gone = project.clips()
    assert len(clips) == 3
    assert "caf%E9" in {clip.id for clip in clips}
    assert not gone


def test_a_folder_without_videos_says_so(project: Project, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(VideoError, match="no videos"):
        project.add_folder(str(tmp_path / "empty"))


@pytest.mark.parametrize(
    "values",
    [{"object": "a\nb"}, {"object": "x" * 61}, {"object": "a,b"}, {"object": " a"},
     {"state_1": "a", "state_2": "a"}, {"action": "state 2"}, {"boxes": "magic"}, {"object": 3}],
)  # fmt: skip
def test_names_that_cannot_be_used_change_nothing(project: Project, values) -> None:
    before = project.choices
    with pytest.raises(SettingError):
        project.change(values)
    assert project.choices == before
    assert Project(project.folder).choices == before


def test_labels_belong_to_the_object(project: Project) -> None:
    project.change({"object": "../a cup"})
    assert project.labels.parent == project.folder / "labels"
    clips = [ClipSpan("a", Path("a.mp4")), ClipSpan("b", Path("b.mp4"))]
    assert (project.labelled_frames(clips), project.detector) == (0, None)
    project.labels.mkdir(parents=True)
    (project.labels / "labels.json").write_text(
        '{"images": [{"clip": "a"}, {"clip": "a"}, {"clip": "removed"}]}'
    )
    (project.labels / f"{project.labels.name}.npz").write_bytes(b"x")
    assert project.labelled_frames(clips) == 2  # one is of a video that was removed
    assert project.detector is not None
    before = project.inputs(clips)
    project.detector.write_bytes(b"another")
    assert project.inputs(clips) != before
    other = Project(project.folder)
    other.change({"object": "bowl"})
    assert (other.labelled_frames(clips), other.detector) == (0, None)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format_version": 9}', '{"format_version": 1}'])
def test_a_damaged_file_is_named(project: Project, text: str) -> None:
    (project.folder / "studio.json").write_text(text)
    with pytest.raises(WorkspaceError, match=r"studio\.json cannot be read"):
        Project(project.folder)


def test_a_job_of_an_unknown_state_is_damage(project: Project) -> None:
    file = project.folder / "studio.json"
    facts = json.loads(file.read_text())
    facts["job"]["state"] = "lost"
    file.write_text(json.dumps(facts))
    with pytest.raises(WorkspaceError, match="lost"):
        Project(project.folder)


def test_other_folders_are_not_made_projects(tmp_path: Path, elsewhere: Path) -> None:
    with pytest.raises(WorkspaceError, match="no project of studio"):
        Project(elsewhere)
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkspaceError, match="choose another folder"):
        Project(tmp_path / "file")
