import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import objectstates

SOURCE = Path(objectstates.__file__).parent
CALLEE = """
from objectstates.base.jit import compiled
@compiled
def number():
    return {0}
"""
CALLER = """
from objectstates.base.jit import compiled
from objectstates.base.callee import number
@compiled
def twice():
    return 2 * number()
"""
SCRIPT = """
from objectstates.base.caller import twice
print(twice(), sum(twice.stats.cache_hits.values()))
"""


class SmallPackage:
    """A copy of what kernels need, with a kernel that calls one of another file."""

    def __init__(self, root):
        self.root, self.base = root, root / "objectstates" / "base"
        shutil.copytree(SOURCE / "base", self.base, ignore=shutil.ignore_patterns("__pycache__"))
        (root / "objectstates" / "__init__.py").touch()
        (self.base / "caller.py").write_text(CALLER)
        self.define(1)

    def define(self, value, dated=None):
        """Let the called kernel return ``value``, in a file of the given date."""
        path = self.base / "callee.py"
        path.write_text(CALLEE.format(value))
        when = time.time() - 5000 if dated is None else dated
        os.utime(path, (when, when))

    def run(self, **environment):
        """What the calling kernel returns in a new process, and whether it was in the cache."""
        names = {"PYTHONPATH": str(self.root), "OBJECTSTATES_CACHE": str(self.root / "cache")}
        kept = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
        done = subprocess.run(
            [sys.executable, "-B", "-c", SCRIPT], env={**kept, **names, **environment},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        value, hits = done.stdout.split()
        return int(value), hits != "0"


@pytest.mark.parametrize("place", ["NUMBA_CACHE_DIR", "read-only package"])
def test_kernels_of_an_older_source_are_not_used(tmp_path, place):
    """numba alone would answer 2 again: the file of the calling kernel did not change."""
    package, environment = SmallPackage(tmp_path), {}
    if place == "NUMBA_CACHE_DIR":
        environment = {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    else:
        (tmp_path / "objectstates" / "__pycache__").touch()  # no folder can be made in its place
    assert package.run(**environment) == (2, False)
    package.define(5)
    assert package.run(**environment) == (10, False)
    package.define(1)
    assert package.run(**environment) == (2, True)  # both are kept


def test_a_source_dated_in_the_future_is_compiled_once_and_old_kernels_are_deleted(tmp_path):
    package = SmallPackage(tmp_path)
    package.define(1, dated=time.time() + 1e6)
    assert package.run() == (2, False)
    (old,) = (tmp_path / "objectstates" / "__pycache__").glob("objectstates-kernels-*")
    os.utime(old, (1e9, 1e9))
    assert package.run() == (2, True)  # it is in use, however old
    os.utime(old, (1e9, 1e9))
    package.define(5)
    assert package.run() == (10, False)
    assert not old.exists()


def test_kernels_that_came_with_the_package_are_used_wherever_it_lies(tmp_path):
    """A wheel is built in one folder, installed in another, perhaps read by others than root."""
    built, installed = SmallPackage(tmp_path / "built"), tmp_path / "installed"
    assert built.run() == (2, False)
    shutil.move(built.root, installed)
    os.utime(installed / "objectstates" / "base" / "callee.py", (1e9, 1e9))
    built.root, elsewhere = installed, tmp_path / "numba"
    assert built.run(NUMBA_CACHE_DIR=str(elsewhere)) == (2, True)
    assert not list(elsewhere.rglob("*.nbc"))


WITHOUT_BLAS = """
import sys
from objectstates.base.jit import compiled, load_without_blas
load_without_blas()
@compiled
def total(values):
    return values.sum()
import numpy as np
print(total(np.arange(4.0)), "scipy.linalg" in sys.modules)
import scipy.linalg.cython_blas
"""


def test_kernels_need_no_blas():
    """It would take longer to load than the kernels of a worker."""
    words = [sys.executable, "-c", WITHOUT_BLAS]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.split()) == (0, ["6.0", "False"]), run.stderr
