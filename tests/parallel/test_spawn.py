import os
import subprocess
import sys
from pathlib import Path

import pytest

from objectstates.parallel.pool import run_all
from tests.parallel.workers import Environment

ROOT = Path(__file__).parents[2]
TASKS = "run_all(Squarer, [2, 3], processes=2)"
ACTORS = """
with start_actors([partial(Sum, Path("."), n) for n in (1, 2)], None, processes=2) as actors:
    assert actors.call("add", [(3,), (4,)]) == [3, 4]
"""


def run_script(place, text, folder=None):
    """Write a script to ``place``, and run it in ``folder``, by default in the same one."""
    (place / "script.py").write_text(text)
    path = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", ""), str(place)]
    return subprocess.run(
        [sys.executable, place / "script.py"], cwd=folder or place,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("work", [TASKS, ACTORS])
def test_a_script_without_a_guard_runs_once(tmp_path, work):
    done = run_script(
        tmp_path,
        "from functools import partial\n"
        "from pathlib import Path\n"
        "from objectstates.parallel.pool import run_all, start_actors\n"
        "from tests.parallel.workers import Squarer, Sum\n"
        "print('begun', flush=True)\n"
        f"{work}\n"
        "print('done', flush=True)\n",
    )
    assert (done.stdout, done.returncode) == ("begun\ndone\n", 0), done.stderr


def test_workers_have_the_environment_of_their_parent(monkeypatch):
    """Also where it has changed since the first worker was started."""
    assert run_all(Environment, ["HOME", "HOME"], processes=2)[0].value == os.environ["HOME"]
    monkeypatch.setenv("OBJECTSTATES_SPAWN_TEST", "é")
    monkeypatch.delenv("HOME")
    names = ["OBJECTSTATES_SPAWN_TEST", "HOME", "PYTHONSAFEPATH"]
    outcomes = run_all(Environment, names, processes=2)
    assert [outcome.value for outcome in outcomes] == ["é", None, None]


def test_no_file_of_the_working_folder_is_run(tmp_path):
    """Not even one named as a module that Python imports to start a worker."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "selectors.py").write_text("print('run', flush=True)\n")
    (tmp_path / "here" / "pickle.py").write_text("print('run', flush=True)\n")
    script = (
        "from objectstates.parallel.pool import run_all\n"
        "from tests.parallel.workers import Squarer\n"
        "print([o.value for o in run_all(Squarer, [2, 3], processes=2)])\n"
    )
    done = run_script(tmp_path, script, folder=tmp_path / "here")
    assert (done.stdout, done.returncode) == ("[4, 9]\n", 0), done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server")
def test_what_is_preloaded_is_imported_once(tmp_path):
    (tmp_path / "loaded.py").write_text("print('loaded', flush=True)\n")
    done = run_script(
        tmp_path,
        "from objectstates.parallel.pool import run_all\n"
        "from tests.parallel.workers import Squarer\n"
        "for _ in range(2):\n"
        "    run_all(Squarer, [2, 3, 4], processes=3, preload='loaded')\n",
    )
    assert (done.stdout, done.returncode) == ("loaded\n", 0), done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server")
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_the_users_own_server_is_another(tmp_path, first):
    """Their processes can be interrupted, ours cannot, whichever are started first."""
    (tmp_path / "theirs.py").write_text(
        "import os, signal\n"
        "def report():\n"
        "    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])\n"
        "    print(blocked, os.environ.get('PYTHONSAFEPATH'), flush=True)\n"
    )
    ours = "    print(run_all(Masked, [1, 2], processes=2)[0].value, flush=True)\n"
    theirs = "    process = own.Process(target=report); process.start(); process.join()\n"
    done = run_script(
        tmp_path,
        "import multiprocessing\n"
        "from objectstates.parallel.pool import run_all\n"
        "from tests.parallel.workers import Masked\n"
        "from theirs import report\n"
        "if __name__ == '__main__':\n"
        "    own = multiprocessing.get_context('forkserver')\n"
        + (ours + theirs if first == "ours" else theirs + ours),
    )
    expected = ["True", "False None"] if first == "ours" else ["False None", "True"]
    assert done.stdout.splitlines() == expected, done.stderr
