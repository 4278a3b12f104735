"""Child processes of a server: modules of this package that talk by lines of JSON.

A child ends when its stdin ends, so it never outlives a server that was killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO


def start_child(module: str, *, stderr: IO[bytes] | None = None) -> subprocess.Popen[str]:
    """Run a module of this package, with pipes to its stdin and from its stdout."""
    return subprocess.Popen(
        # -P: a file of the user's folder must not be imported in place of ours.
        [sys.executable, "-P", "-m", module],
        env={**os.environ, "PYTHONPATH": import_path()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        encoding="utf-8",
        start_new_session=os.name == "posix",  # Ctrl-C is for the server, which ends it
    )


def import_path() -> str:
    """``PYTHONPATH`` of the child: absolute, because its working directory may be another."""
    ours = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join([ours, *filter(None, [os.environ.get("PYTHONPATH")])])
