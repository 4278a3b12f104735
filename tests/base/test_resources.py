"""Lack of memory and disk, told from bad input, and how much memory is left."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import objectstates
from objectstates.base.errors import MemoryLackError, VideoError
from objectstates.base.resources import check_memory, lack_behind, memory_left
from objectstates.data.synthetic import synthetic_corpus


def test_the_cause_of_an_error_counts() -> None:
    problem = VideoError("cannot be copied")
    problem.__cause__ = OSError(28, "No space left on device")
    assert lack_behind(problem) == "disk"
    assert lack_behind(VideoError("cannot be read")) == ""


def test_the_memory_left_is_finite_and_more_is_refused_with_both_numbers() -> None:
    left = memory_left()
    assert 1e6 < left < math.inf
    check_memory(left / 2, "it", "do less")
    with pytest.raises(MemoryLackError, match=r"it needs about 9000000\.0 GB .* are left: do less"):
        check_memory(9e15, "it", "do less")


CLIP = Path(objectstates.__file__).parent / "demo" / "drawer" / "drawer_06.mp4"
FIT, INGEST = "fit corpus", f"ingest {CLIP} --processes 1 --cache cache"


@pytest.mark.parametrize(
    ("command", "gigabytes"), [(FIT, 0.3), (FIT, 1.2), (FIT, 2.2), (INGEST, 1.2)]
)
def test_under_a_limit_of_memory_a_command_says_how_much_is_needed(
    tmp_path: Path, command: str, gigabytes: float
) -> None:
    """It neither hangs nor crashes, as libraries do that get no memory."""
    synthetic_corpus(n_clips=4).save(tmp_path / "corpus")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 1e9),) * 2)

    done = subprocess.run(
        [sys.executable, "-m", "objectstates", *command.split(), "--out", "result"],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=100,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "GB are needed" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
