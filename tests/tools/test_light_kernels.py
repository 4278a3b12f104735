import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
from objectstates.solver import block_steps, cost, distortion, oracle, problem, rounding
from tools import light_kernels

def compiled():
    modules = block_steps, cost, distortion, oracle, problem, rounding
    kernels = {name: each for module in modules for name, each in vars(module).items()}
    return {name: tuple(each.signatures) for name, each in kernels.items()
            if hasattr(each, "signatures")}

light_kernels.main()
before = compiled()
assert before["sweep"], before

from objectstates import JointDiscovery
from objectstates.data.synthetic import synthetic_corpus

for size in (2, 64):
    corpus = synthetic_corpus(n_clips=4, state_size=size, action_size=size)
    JointDiscovery().fit(corpus)
after = compiled()
assert after == before, {name for name in after if after[name] != before[name]}
"""


def test_a_fit_compiles_nothing_more():
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
