"""Datasets changed in place: all or nothing, whatever happens on the way."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from objectstates.base.errors import ExportError
from objectstates.export import export
from objectstates.export.dataset_folders import rewrite_in_place
from objectstates.robots.dataset_clips import find_dataset_clips
from objectstates.robots.lerobot_dataset import read_dataset
from objectstates.video.reader import probe
from tests.export.lerobot_results import result_of
from tests.export.test_lerobot import contents
from tests.robots.datasets import convert_to_v3, write_dataset

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=["v2.1", "v3.0"])
def original(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    root = write_dataset(folder / "v2", episodes=(2.5,) * 3)
    return root if request.param == "v2.1" else convert_to_v3(root, folder / "v3")


@pytest.fixture
def root(original, tmp_path):
    return shutil.copytree(original, tmp_path / "sets" / "my set")


def has_language(root: Path) -> list[bool]:
    """Of every Parquet file of frames, after checking that the whole dataset can be read."""
    dataset = read_dataset(root)
    for clip in dataset.clips(dataset.cameras):
        probe(clip.video)
    paths = sorted((root / "data").rglob("*.parquet"))
    columns = [pq.read_table(path).column_names for path in paths]
    return ["language_persistent" in names for names in columns]


@pytest.mark.parametrize("format", ["lerobot", "lerobot-subtask-index", "sarm"])
def test_in_place_and_copy_are_the_same(root, tmp_path, format):
    if format == "sarm" and not (root / "meta" / "episodes").exists():
        pytest.skip("of v3.0 only")
    export(result_of(root), format, tmp_path / "copy")
    done = export(result_of(root), format, None, in_place=True)
    copy = contents(tmp_path / "copy")
    del copy["export.json"]
    assert contents(root) == copy
    assert "meta/info.json" in done.files or format == "sarm"
    assert [path.name for path in root.parent.iterdir()] == [root.name]


def test_the_sidecar_touches_no_other_file(root):
    before = {path: path.stat() for path in root.rglob("*") if path.is_file()}
    export(result_of(root), "lerobot-sidecar", None, in_place=True)
    for path, stat in before.items():
        assert path.stat().st_mtime_ns == stat.st_mtime_ns
        assert path.stat().st_ino == stat.st_ino
    assert set(contents(root)) - {p.relative_to(root).as_posix() for p in before} == {
        "meta/lerobot_annotations.json"
    }


def test_videos_are_not_copied(root):
    """They may be large: in place they stay the same files."""
    videos = sorted(root.rglob("*.mp4"))
    before = [path.stat().st_ino for path in videos]
    export(result_of(root), "lerobot", None, in_place=True)
    assert [path.stat().st_ino for path in videos] == before


def test_an_error_leaves_the_dataset_as_it_was(root):
    before = contents(root)

    def fails(folder):
        (folder / "meta").mkdir()
        (folder / "meta" / "info.json").write_text("{}")
        raise OSError(28, "No space left on device")

    with pytest.raises(ExportError, match=r"No space left on device.*is as it was"):
        rewrite_in_place(root, fails)
    assert contents(root) == before
    assert [path.name for path in root.parent.iterdir()] == [root.name]


SCRIPT = textwrap.dedent(
    """
    import resource, sys
    from pathlib import Path
    from objectstates.export import export
    from tests.export.lerobot_results import result_of
    root = Path(sys.argv[1])
    result = result_of(root)
    if sys.argv[2] == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
    if sys.argv[2] == "slow":  # stop where the test says, so that it can kill the process there
        import time
        from objectstates.export import dataset_folders
        name = sys.argv[3]
        original = getattr(dataset_folders, name)
        def stop(*arguments):
            original(*arguments)
            print("here", flush=True)
            time.sleep(60)
        setattr(dataset_folders, name, stop)
    print("begun", flush=True)
    export(result, "lerobot", None, in_place=True)
    """
)


@contextmanager
def start(root: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that changes the dataset; it is killed in the end."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", SCRIPT, str(root), *arguments]
    process = subprocess.Popen(
        command, env=environment, cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize(
    ("where", "changed"), [("_link_others", False), ("_flush", False), ("exchange", True)]
)
def test_kill_leaves_the_old_dataset_or_the_new(root, where, changed):
    """Before the exchange nothing has changed, and after it everything has."""
    before = contents(root)
    with start(root, "slow", where) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(2)] == ["begun", "here"]
    assert set(has_language(root)) == {changed}
    if not changed:
        assert contents(root) == before
    assert len(list(root.parent.iterdir())) == 2  # with what the killed process left
    export(result_of(root), "lerobot", None, in_place=True)
    assert set(has_language(root)) == {True}
    assert [path.name for path in root.parent.iterdir()] == [root.name]


def test_kill_at_any_time_leaves_a_loadable_dataset(root):
    for delay in (0.0, 0.004, 0.01, 0.02, 0.05):
        with start(root, "at once") as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
        assert len(set(has_language(root))) == 1


@pytest.mark.parametrize("limit", [100, 3000, 9000])
def test_a_full_disk_leaves_the_dataset_as_it_was(root, limit):
    """A limit on the size of files stands for a full disk: writing fails in the same way."""
    before = contents(root)
    largest = max(path.stat().st_size for path in (root / "data").rglob("*.parquet"))
    with start(root, "full", str(min(limit, largest))) as process:
        _, errors = process.communicate()
    assert process.returncode != 0
    assert "ExportError" in errors
    assert contents(root) == before
    assert [path.name for path in root.parent.iterdir()] == [root.name]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != limit  # of the other process alone


def test_links_to_files_stay_links(root, tmp_path):
    """As in the cache of the Hugging Face hub, where a dataset is links to its files."""
    store = tmp_path / "blobs"
    store.mkdir()
    video = next(root.rglob("*.mp4"))
    kept = video.rename(store / "blob")
    video.symlink_to(kept)
    export(result_of(root), "lerobot", None, in_place=True)
    assert video.is_symlink()
    assert find_dataset_clips([root])[0].video.exists()


@pytest.mark.parametrize("folder", ["videos", "data", "meta"])
def test_folders_that_are_links_stay_whole(root, tmp_path, folder):
    """Large folders often lie on another disk; nothing is written there."""
    elsewhere = tmp_path / "disk" / folder
    elsewhere.parent.mkdir()
    (root / folder).rename(elsewhere)
    (root / folder).symlink_to(elsewhere)
    before = contents(elsewhere)
    export(result_of(root), "lerobot", tmp_path / "copy")
    assert all(has_language(tmp_path / "copy"))
    export(result_of(root), "lerobot-sidecar", None, in_place=True)
    export(result_of(root), "lerobot", None, in_place=True)
    assert all(has_language(root))
    assert contents(elsewhere) == before
    assert (root / "meta" / "lerobot_annotations.json").is_file()
    assert (root / "videos").is_symlink() == (folder == "videos")


def test_links_that_lead_nowhere_or_in_circles_are_no_obstacle(root, tmp_path):
    (root / "meta" / "gone.json").symlink_to(tmp_path / "gone.json")
    (root / "meta" / "circle").symlink_to(root)
    export(result_of(root), "lerobot", tmp_path / "copy")
    export(result_of(root), "lerobot", None, in_place=True)
    assert all(has_language(root))
    assert all(has_language(tmp_path / "copy"))
    assert (root / "meta" / "gone.json").is_symlink()
