import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from objectstates.base.errors import MemoryLackError, StorageError, VideoError
from objectstates.parallel.pool import run_all
from tests.parallel.workers import Broken, Meeting, Squarer, Unmakeable

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_outcomes_come_in_order_whatever_the_processes(processes):
    seen = []
    outcomes = run_all(
        Squarer, [3, "bad", 4, "bug", 5], processes=processes, on_done=lambda i, o: seen.append(i)
    )
    assert [o.value for o in outcomes] == [9, None, 16, None, 25]
    assert outcomes[1].failure == "cannot be squared"
    assert outcomes[3].failure == "unexpected ZeroDivisionError: oops"
    assert sorted(seen) == [0, 1, 2, 3, 4]


def test_processes_begin_with_the_most_work(tmp_path):
    """The two largest wait for each other; the smallest finds that both have begun."""
    outcomes = run_all(partial(Meeting, tmp_path), [1, 3, 2], processes=2, effort=float)
    assert [outcome.value for outcome in outcomes] == [["2", "3"], [], []]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_worker_that_cannot_be_made_says_why(processes):
    with pytest.raises(VideoError, match="no such detector"):
        run_all(Unmakeable, [1, 2, 3], processes=processes)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_worker_that_fails_to_start_is_one_error(processes, capfd):
    with pytest.raises(RuntimeError, match="no such library"):
        run_all(Broken, [1, 2, 3], processes=processes)
    assert not capfd.readouterr().err


@pytest.mark.parametrize("processes", [1, 2])
def test_ticks_are_counted(processes):
    ticks: list[int] = []
    run_all(Squarer, [1, 2, 3], processes=processes, on_ticks=ticks.append)
    assert ticks[-1] == 3


def test_a_dead_process_takes_nothing_with_it(tmp_path):
    make = partial(Squarer, tmp_path)
    outcomes = run_all(make, [1, "dies once", 2, "crashes", 3], processes=2)
    assert [o.value for o in outcomes] == [1, "alive", 4, None, 9]
    assert "died twice" in str(outcomes[3].failure)


def test_a_process_that_the_system_kills_twice_fails_the_whole(tmp_path):
    done = []
    with pytest.raises(MemoryLackError, match=r"1 of 4 tasks \(its process died twice\)"):
        run_all(Squarer, [1, 2, "dies", 3], processes=2, on_done=lambda i, _: done.append(i))
    assert sorted(done) == [0, 1, 2, 3], "the others are done, and kept where they keep something"


@pytest.mark.parametrize("processes", [1, 2])
def test_a_full_disk_ends_the_work_at_once(processes):
    done = []
    with pytest.raises(StorageError, match="no room"):
        run_all(
            Squarer,
            ["full", *range(50)],
            processes=processes,
            on_done=lambda i, _: done.append(i),
        )
    assert len(done) < 50


def test_an_exception_of_the_watcher_stops_the_work():
    def on_done(index, outcome):
        raise VideoError("enough")

    with pytest.raises(VideoError, match="enough"):
        run_all(Squarer, list(range(50)), processes=2, on_done=on_done)


@pytest.fixture
def waiting(tmp_path):
    """A process with two workers that never end, which hold its stdout open; their ids."""
    script = tmp_path / "work.py"
    script.write_text(
        "import signal\n"
        "from objectstates.parallel.pool import run_all\n"
        "from tests.parallel.workers import Waiter\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # off in background jobs
        "run_all(Waiter, [1, 2, 3], processes=2)\n"
    )
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    return process, [int(process.stdout.readline()) for _ in range(2)]


def is_running(pid):
    """Whether a process exists; children of this process must have been joined."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_ctrl_c_ends_all_processes(waiting):
    process, workers = waiting
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in errors
    assert not any(map(is_running, workers))


def test_workers_end_with_a_parent_that_is_killed(waiting):
    """Else their stdout, which they inherited, would stay open, and this test would hang."""
    process, _ = waiting
    process.kill()
    rest, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert rest == b""
