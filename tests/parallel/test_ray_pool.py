"""On a real Ray cluster of several nodes, some of them killed, the outcome is the same."""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from objectstates.base.errors import SettingError, VideoError
from objectstates.ingest.pipeline import IngestSettings, ingest
from objectstates.narration.subtitles import write_webvtt
from objectstates.parallel import ray_pool
from objectstates.parallel.pool import run_all
from objectstates.video.clip_list import find_clips
from tests.ingest.test_pipeline import BOX, FPS, scene
from tests.narration.test_retrieval import talk
from tests.parallel.workers import Broken, Slow, Squarer, Unmakeable, Where
from tests.video.videos import write_video

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'objectstates[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, of which there are many

# --- tasks ---------------------------------------------------------------------------------------


def test_outcomes_failures_and_deaths_are_those_of_local_processes(nodes, tmp_path):
    ticks: list[int] = []
    items = [3, "bad", "dies once", "bug", "dies", 5]
    make = partial(Squarer, tmp_path)
    outcomes = run_all(make, items, ray_address=nodes.address, on_ticks=ticks.append)
    assert [o.value for o in outcomes] == [9, None, "alive", None, None, 25]
    assert outcomes[1].failure == "cannot be squared"
    assert outcomes[3].failure == "unexpected ZeroDivisionError: oops"
    assert "died twice" in str(outcomes[4].failure)
    assert ticks == sorted(ticks)
    assert ticks[-1] >= 1


class OnlyHere(Squarer):
    """Of a module that the other machines do not have."""


def test_workers_that_cannot_be_made_say_why_and_leave_no_core_taken(connected, monkeypatch):
    with pytest.raises(VideoError, match="no such detector") as problem:
        run_all(Unmakeable, [1, 2, 3], ray_address="auto")
    with pytest.raises(RuntimeError, match="no such library"):
        run_all(Broken, [1, 2, 3], ray_address="auto")
    monkeypatch.setattr(OnlyHere, "__module__", "only_here")
    module = ModuleType("only_here")
    vars(module)["OnlyHere"] = OnlyHere
    monkeypatch.setitem(sys.modules, "only_here", module)
    with pytest.raises(SettingError, match=r"do not start .*only_here.* installed on all its mach"):
        run_all(OnlyHere, [1, 2, 3], ray_address="auto")
    outcomes = run_all(Squarer, [1, 2, 3], ray_address="auto")
    assert [o.value for o in outcomes] == [1, 4, 9]
    assert problem is not None  # whose traceback held on to the workers, and they to the cores


def test_at_most_one_item_a_core_is_in_work_and_a_lost_node_loses_none(connected, monkeypatch):
    at_a_time: list[int] = []
    lost: list[int] = []
    seen: list[int] = []
    submit, wait = ray_pool._Workers.submit, ray_pool._Workers.wait

    def counted_submit(workers, index, item):
        submit(workers, index, item)
        at_a_time.append(len(workers.busy))

    def counted_wait(workers):
        ended = wait(workers)
        lost.extend(index for index, outcome, _ in ended if outcome is None)
        return ended

    monkeypatch.setattr(ray_pool._Workers, "submit", counted_submit)
    monkeypatch.setattr(ray_pool._Workers, "wait", counted_wait)

    def lose_a_node(_ticks):
        # Two, so that the one killed works while the other goes on.
        if len(connected.others) == 2 and at_a_time and max(at_a_time) == 3:
            connected.kill(connected.others[0])

    outcomes = run_all(
        Slow, list(range(40)), ray_address="auto", on_ticks=lose_a_node,
        on_done=lambda index, _: seen.append(index),
    )  # fmt: skip
    values = [o.value for o in outcomes if o.value is not None]
    assert [value for value, _ in values] == [n * n for n in range(40)]
    assert sorted(seen) == list(range(40))
    assert len(lost) == 1
    assert max(at_a_time) == 3
    assert len({node for _, node in values}) >= 2


def test_no_room_for_workers_is_an_error(occupied):
    with pytest.raises(SettingError, match="no worker found room on the Ray cluster within 3 s"):
        run_all(Squarer, [1, 2], ray_address="auto")


def test_an_address_without_a_cluster_is_named(nodes):
    with pytest.raises(SettingError, match=r"there is no Ray cluster at 'nonsense'.*ray start"):
        run_all(Squarer, [1, 2], ray_address="nonsense")


# --- GPUs ----------------------------------------------------------------------------------------


def test_workers_with_a_gpu_run_where_one_is_and_share_it(connected):
    with pytest.raises(SettingError, match="no machine of the Ray cluster has a GPU"):
        run_all(Where, [1], ray_address="auto", gpu=True)
    node = connected.add(num_cpus=2, num_gpus=1)
    for _ in range(100):
        if ray.cluster_resources().get("GPU"):
            break
        time.sleep(0.1)
    assert ray_pool.worker_reservation(ray, True) == ray_pool.Reservation(1.0, 0.5, 2)
    assert ray_pool.worker_reservation(ray, False) == ray_pool.Reservation(1.0, 0.0, 5)
    outcomes = run_all(Where, list(range(6)), ray_address="auto", gpu=True)
    assert {o.value for o in outcomes} == {(node.node_id, (0,))}
    connected.kill(node)


@pytest.mark.parametrize(
    ("machines", "expected"),
    [
        ([{"CPU": 16.0, "GPU": 1.0}], (0.125, 8)),  # eight at most
        ([{"CPU": 8.0, "GPU": 4.0}, {"CPU": 64.0}], (0.5, 8)),  # two cores beside each
        ([{"CPU": 2.0, "GPU": 4.0}], (1.0, 2)),  # fewer cores than GPUs
        ([{"CPU": 3.0, "GPU": 1.0}, {"CPU": 3.0, "GPU": 1.0}], (0.3333, 6)),
    ],
)
def test_fractions_of_gpus(machines, expected):
    class Known:
        def nodes(self):
            dead = {"Alive": False, "Resources": {"CPU": 99.0, "GPU": 99.0}}
            return [{"Alive": True, "Resources": m} for m in machines] + [dead]

    found = ray_pool.worker_reservation(Known(), True)
    assert (found.gpus, found.capacity) == expected


# --- ingest --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """Nine short clips, and the boxes of their object."""
    root = tmp_path_factory.mktemp("videos")
    (root / "boxes").mkdir()
    x1, y1, x2, y2 = BOX
    for seed in range(9):
        write_video(root / f"clip{seed}.mp4", scene(seed, 3.0), fps=FPS, options={"crf": "18"})
        rows = [f"{i + 1},1,{x1},{y1},{x2 - x1},{y2 - y1},0.9" for i in range(0, 30, 2)]
        (root / "boxes" / f"clip{seed}.csv").write_text("\n".join(rows) + "\n")
    return root


@pytest.fixture(scope="module")
def serial(started, videos, tmp_path_factory):
    """The corpus that one process makes."""
    out = tmp_path_factory.mktemp("serial") / "corpus"
    corpus, _ = ingest(find_clips([videos]), settings(videos))
    corpus.save(out)
    return out


def settings(videos, **changes):
    return IngestSettings(**{"detector": f"boxes:{videos / 'boxes'}", **changes})


def files(path):
    return {p.name: p.read_bytes() for p in sorted(path.iterdir())}


def stamps(cache):
    """Of every entry, that it is the same file."""
    return {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in sorted(cache.rglob("*.npz"))}


def test_videos_become_the_same_bytes_everywhere(nodes, videos, serial, tmp_path, run):
    words = ["ingest", videos, "--detector", f"boxes:{videos / 'boxes'}"]
    engines = {
        "processes": ["--processes", 2],
        "ray": ["--engine", "ray", "--ray-address", nodes.address],
    }
    for name, options in engines.items():
        out, cache = tmp_path / name, tmp_path / f"{name} cache"
        code, _, err = run(*words, "--out", out, "--cache", cache, *options)
        assert code == 0, err
        assert files(out) == files(serial), name
        assert len(stamps(cache)) == 2 * 9
    assert not ray.is_initialized()
    code, _, err = run(*words, "--out", tmp_path / "x", *engines["ray"], "--device", "cuda")
    assert (code, err.count("\n")) == (2, 1)
    assert "no machine of the Ray cluster has a GPU" in err


def test_a_node_killed_in_mid_ingest_costs_nothing(
    connected, videos, serial, tmp_path, monkeypatch
):
    lost: list[int] = []
    before: dict[Path, tuple[int, int]] = {}
    wait = ray_pool._Workers.wait

    def watched(workers):
        ended = wait(workers)
        lost.extend(index for index, outcome, _ in ended if outcome is None)
        return ended

    monkeypatch.setattr(ray_pool._Workers, "wait", watched)

    def lose_a_node(progress):
        working = connected.at_work()
        if not before and 1 <= progress.clips_done <= 5 and working:
            before.update(stamps(tmp_path / "cache"))
            connected.kill(working[0])

    corpus, report = ingest(
        find_clips([videos]), settings(videos), cache=tmp_path / "cache", ray_address="auto",
        progress=lose_a_node,
    )  # fmt: skip
    corpus.save(tmp_path / "corpus")
    assert files(tmp_path / "corpus") == files(serial)
    assert (report.failed, report.observed, report.frames) == ((), 9, 9 * 30)
    after = stamps(tmp_path / "cache")
    assert len(before) >= 2
    assert {path: after[path] for path in before} == before  # what was done was not done again
    assert len(after) == 2 * 9
    assert len(lost) == 1
    _, again = ingest(
        find_clips([videos]), settings(videos), cache=tmp_path / "cache", ray_address="auto"
    )
    assert (again.observed, again.kept) == (0, 9)
    assert stamps(tmp_path / "cache") == after


# --- narrations ----------------------------------------------------------------------------------


def test_narrations_are_searched_with_the_same_outcome(nodes, tmp_path, run):
    for number, cues in enumerate(talk(150)):
        write_webvtt(tmp_path / "said" / f"video{number:03d}.vtt", cues)
    words = ["retrieve", tmp_path / "said", "--action", "open-fridge", "--top", 30]
    code, _, err = run(*words, "--out", tmp_path / "here.csv")
    assert code == 0, err
    code, _, err = run(*words, "--out", tmp_path / "there.csv",
                       "--engine", "ray", "--ray-address", nodes.address)  # fmt: skip
    assert code == 0, err
    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


# --- privacy --------------------------------------------------------------------------------------

LISTENERS = """
import os, sys
from pathlib import Path
from objectstates.parallel.ray_pool import cluster

def parent(process):
    return int((process / "stat").read_text().rpartition(")")[2].split()[1])

with cluster("local"):
    ours, processes = {os.getpid()}, [p for p in Path("/proc").iterdir() if p.name.isdigit()]
    for _ in range(5):  # generations
        for process in processes:
            try:
                if parent(process) in ours:
                    ours.add(int(process.name))
            except OSError:
                pass
    for number in ours:
        process, inodes = Path(f"/proc/{number}"), set()
        try:
            print("process", (process / "cmdline").read_text().replace("\\0", " ")[:80])
            for file in (process / "fd").iterdir():
                inodes.add(os.readlink(file).partition("socket:[")[2].rstrip("]"))
        except OSError:
            continue
        for table in ("tcp", "tcp6"):
            for line in (process / "net" / table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in inodes:
                    print("listens", words[1].partition(":")[0])
print("usage", os.environ["RAY_USAGE_STATS_ENABLED"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_cluster_of_this_machine_listens_on_the_loopback_and_counts_nothing():
    """Ray listens on all network interfaces unless it is told otherwise, and reports its use."""
    kept = {k: v for k, v in os.environ.items() if k != "RAY_USAGE_STATS_ENABLED"}
    done = subprocess.run(
        [sys.executable, "-c", LISTENERS], capture_output=True, text=True, check=True, env=kept,
        timeout=300,
    )  # fmt: skip
    lines = [line.split() for line in done.stdout.splitlines()]
    listening = {words[1] for words in lines if words[0] == "listens"}
    assert listening, "nothing was found to listen"
    assert listening <= {"0100007F", "0000000000000000FFFF00000100007F"}, done.stdout
    assert "dashboard.py" not in done.stdout
    assert lines[-1] == ["usage", "0"]
