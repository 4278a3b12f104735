import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from objectstates.base.errors import VideoError
from objectstates.parallel.pool import run_all


class Squarer:
    """A worker that can be told to fail, to crash, or to die once."""

    def __init__(self, folder=None):
        self.folder = folder

    def __call__(self, item, tick):
        tick(1)
        if item == "bad":
            raise VideoError("cannot be squared")
        if item == "bug":
            raise ZeroDivisionError("oops")
        if item == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if item == "dies once":
            marker = self.folder / "died"
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return "alive"
        return item * item


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


class Unmakeable:
    def __init__(self):
        raise VideoError("no such detector")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_worker_that_cannot_be_made_says_why(processes):
    with pytest.raises(VideoError, match="no such detector"):
        run_all(Unmakeable, [1, 2, 3], processes=processes)


@pytest.mark.parametrize("processes", [1, 2])
def test_ticks_are_counted(processes):
    ticks = []
    run_all(Squarer, [1, 2, 3], processes=processes, on_ticks=ticks.append)
    assert ticks[-1] == 3


def test_a_dead_process_takes_nothing_with_it(tmp_path):
    make = partial(Squarer, tmp_path)
    outcomes = run_all(make, [1, "dies once", 2, "dies", 3], processes=2)
    assert [o.value for o in outcomes] == [1, "alive", 4, None, 9]
    assert "died twice" in outcomes[3].failure


def test_an_exception_of_the_watcher_stops_the_work():
    def on_done(index, outcome):
        raise VideoError("enough")

    with pytest.raises(VideoError, match="enough"):
        run_all(Squarer, list(range(50)), processes=2, on_done=on_done)


@pytest.fixture
def sleepers(tmp_path):
    """A process with two workers that sleep; their ids."""
    script = tmp_path / "work.py"
    script.write_text(
        "import os, pathlib, time\n"
        "from objectstates.parallel.pool import run_all\n"
        "class Sleeper:\n"
        "    def __call__(self, item, tick):\n"
        f"        pathlib.Path({str(tmp_path)!r}, f'pid{{os.getpid()}}').touch()\n"
        "        time.sleep(60)\n"
        "if __name__ == '__main__':\n"
        "    run_all(Sleeper, [1, 2, 3], processes=2)\n"
    )
    process = subprocess.Popen(
        [sys.executable, script],
        stderr=subprocess.PIPE,
        # whoever runs the tests in the background has them ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for _ in range(300):
        workers = [int(path.name[3:]) for path in tmp_path.glob("pid*")]
        if len(workers) == 2:
            break
        time.sleep(0.1)
    assert len(workers) == 2
    return process, workers


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that has ended waits for its new parent to take note of it.
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z")


def test_ctrl_c_ends_all_processes(sleepers):
    process, workers = sleepers
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in errors
    assert not any(map(is_running, workers))


def test_workers_end_with_a_parent_that_is_killed(sleepers):
    process, workers = sleepers
    process.kill()
    process.wait()
    process.stderr.close()
    for _ in range(100):
        if not any(map(is_running, workers)):
            break
        time.sleep(0.1)
    assert not any(map(is_running, workers))
