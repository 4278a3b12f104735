from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from objectstates.base import storage
from objectstates.base.errors import ResultError
from objectstates.base.storage import (
    Artefact,
    clear_leftovers,
    exchange,
    is_running,
    leftover_of,
    replacing,
    scratch_folder,
    temporary_name,
    write_atomically,
)


@pytest.mark.parametrize("content", [b"content", "content"])
def test_a_file_and_its_folders_are_written(tmp_path: Path, content: bytes | str) -> None:
    write_atomically(tmp_path / "new" / "folder" / "x", content)
    assert (tmp_path / "new" / "folder" / "x").read_bytes() == b"content"
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["x"]


def test_a_failed_write_keeps_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("earlier")
    with pytest.raises(TypeError), replacing(path) as temporary:
        temporary.write_text(b"not text")  # type: ignore[arg-type]
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_replaces_the_earlier_one_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    for name in ("a", "b"):
        with replacing(path) as temporary:
            temporary.mkdir()
            (temporary / name).write_text(name)
            assert not (path / name).exists()
    assert [file.name for file in path.iterdir()] == ["b"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_folder_keeps_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "a").write_text("a")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "exchange", fail)
        with pytest.raises(OSError, match="disk full"), replacing(path) as temporary:
            temporary.mkdir()
    assert [file.name for file in path.iterdir()] == ["a"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_never_replaces_a_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("a")
    with pytest.raises(OSError, match="folder"):
        write_atomically(tmp_path / "folder", "content")
    assert (tmp_path / "folder" / "a").read_text() == "a"


def test_two_writers_of_one_path_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with replacing(path) as first, replacing(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the last to finish
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_with_other_files_is_not_overwritten(tmp_path: Path) -> None:
    artefact = Artefact("header.json", 1, frozenset({"table"}), ResultError)
    path = tmp_path / "folder"
    with artefact.writing(path) as folder:
        artefact.write_header(folder, {"a": 1})
    with artefact.writing(path) as folder:  # its own kind is replaced
        artefact.write_header(folder, {"a": 2})
    assert artefact.read_header(path)["a"] == 2
    (path / "thesis.txt").write_text("years of work")
    with pytest.raises(ResultError, match="something else"), artefact.writing(path):
        pass
    assert (path / "thesis.txt").exists()


@pytest.mark.parametrize("in_one_step", [True, False])
def test_two_folders_are_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_one_step: bool
) -> None:
    if not in_one_step:
        monkeypatch.setattr(storage, "_exchanged", lambda first, second: False)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    exchange(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / "b").exists()
    assert (tmp_path / "b" / "a").exists()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("in_one_step", [True, False])
def test_a_failed_exchange_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_one_step: bool
) -> None:
    if not in_one_step:
        monkeypatch.setattr(storage, "_exchanged", lambda first, second: False)
    (tmp_path / "b").mkdir()
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "missing", tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_processes_that_run_are_told_from_those_that_do_not() -> None:
    assert is_running(os.getpid())
    assert is_running(1)
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert not is_running(process.pid)


_KILLED = """
import os, signal, sys
from pathlib import Path
from objectstates.base.storage import replacing, scratch_folder, temporary_name
path = Path(sys.argv[1])
with replacing(path / "artefact") as folder, scratch_folder(path, "scratch") as scratch:
    folder.mkdir()
    (folder / "half").touch()
    (scratch / "rows").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_left_is_found_and_cleared_by_the_next(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    assert {leftover_of(path.name) for path in tmp_path.iterdir()} == {"artefact", "scratch"}
    with scratch_folder(tmp_path, "scratch") as scratch:
        assert [path for path in tmp_path.iterdir() if "scratch" in path.name] == [scratch]
        assert scratch.stat().st_mode & 0o077 == 0, "others cannot read it"
        clear_leftovers(tmp_path / "scratch")
        assert scratch.exists(), "it is in use"
    write_atomically(tmp_path / "artefact", "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["artefact"]


def test_files_of_another_machine_are_kept_for_a_day(tmp_path: Path) -> None:
    ours = temporary_name(tmp_path / "x").name
    elsewhere = tmp_path / ours.replace(storage._place(), "0" * 8)
    elsewhere.touch()
    clear_leftovers(tmp_path / "x")
    assert elsewhere.exists()
    os.utime(elsewhere, (0, 0))
    clear_leftovers(tmp_path / "x")
    assert not elsewhere.exists()


def test_a_folder_that_was_put_aside_is_put_back(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    aside = tmp_path / f".x.{process.pid}-{storage._place()}{'0' * 8}.old"
    aside.mkdir()
    (aside / "whole").touch()
    clear_leftovers(tmp_path / "x")
    assert (tmp_path / "x" / "whole").exists()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_another_process_made_meanwhile_is_replaced(tmp_path: Path) -> None:
    with replacing(tmp_path / "x") as temporary:
        temporary.mkdir()
        (temporary / "mine").touch()
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "theirs").touch()
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["mine"]


def test_a_folder_is_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no instant at which a kill would lose both the earlier and the new content."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "earlier").touch()
    monkeypatch.setattr(Path, "rename", lambda *_: pytest.fail("it was moved away"))
    with replacing(tmp_path / "x") as temporary:
        temporary.mkdir()
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]
