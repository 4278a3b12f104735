import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TASKS = "run_all(Squarer, [2, 3], processes=2)"
ACTORS = """
with start_actors([partial(Sum, Path("."), n) for n in (1, 2)], None, processes=2) as actors:
    assert actors.call("add", [(3,), (4,)]) == [3, 4]
"""


@pytest.mark.parametrize("work", [TASKS, ACTORS])
def test_a_script_without_a_guard_runs_once(tmp_path, work):
    script = tmp_path / "script.py"
    script.write_text(
        "from functools import partial\n"
        "from pathlib import Path\n"
        "from objectstates.parallel.pool import run_all, start_actors\n"
        "from tests.parallel.workers import Squarer, Sum\n"
        "print('begun', flush=True)\n"
        f"{work}\n"
        "print('done', flush=True)\n"
    )
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("begun\ndone\n", 0), done.stderr
