import os
import subprocess
import sys

import pytest

PRELUDE = """
from threading import Barrier, Thread
from threadpoolctl import ThreadpoolController
from objectstates.base.blas import numpy_on_one_thread
from objectstates.solver import cost  # loads SciPy's BLAS

def threads():
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    own = [each.num_threads for each in libraries if "numpy" in each.filepath]
    return own, [each.num_threads for each in libraries if "numpy" not in each.filepath]

if threads() != ([2], [2]):
    print("NumPy and SciPy have no BLAS of their own with two threads:", threads())
    raise SystemExit
"""

NESTED = """
with numpy_on_one_thread:
    assert threads() == ([1], [2])
    with numpy_on_one_thread:
        assert threads() == ([1], [2])
    assert threads() == ([1], [2])
assert threads() == ([2], [2])
"""

SEVERAL_THREADS = """
both_inside, first_left = Barrier(2), Barrier(2)
seen = []

@numpy_on_one_thread
def leave_last():
    both_inside.wait(10)
    first_left.wait(10)
    seen.append(threads())

for _ in range(2):
    other = Thread(target=leave_last)
    other.start()
    with numpy_on_one_thread:
        both_inside.wait(10)
    first_left.wait(10)
    other.join(10)
    assert threads() == ([2], [2])
assert seen == 2 * [([1], [2])]
"""

ERROR = """
try:
    with numpy_on_one_thread:
        raise ZeroDivisionError
except ZeroDivisionError:
    assert threads() == ([2], [2])
"""


@pytest.mark.parametrize(
    "script",
    [NESTED, SEVERAL_THREADS, ERROR],
    ids=["only numpy's is limited", "until the last thread leaves", "an error lifts the limit"],
)
def test_numpys_blas_is_limited_meanwhile(script):
    """In a new process: others may have limited the threads of this one."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if done.stdout:
        pytest.skip(done.stdout.strip())
