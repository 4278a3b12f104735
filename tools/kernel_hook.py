"""Build hook: a wheel brings compiled kernels for the machine that builds it.

Those are the kernels of ``light_kernels.py``. Compiling them takes 45 s of one core, which a user
would else wait for at the first use. A wheel that is used elsewhere works too: kernels for another
CPU, Python or numba are not found, and compiled on first use (``base/jit.py``).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

IN_PACKAGE = "objectstates/__pycache__"  # where `base/jit.py` looks


class KernelHook(BuildHookInterface):  # type: ignore[misc]
    """Compiles the kernels, and adds them to the wheel."""

    PLUGIN_NAME = "kernels"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is written; an editable one uses the kernels in ``src``."""
        self._scratch = tempfile.TemporaryDirectory()
        # pip's environment of the build is in this variable too.
        paths = [str(Path(self.root) / "src"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        if version != "editable":
            environment["NUMBA_CACHE_DIR"] = self._scratch.name
        done = subprocess.run(
            [sys.executable, "-m", "tools.light_kernels"], cwd=self.root, env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            self.app.display_warning(f"no kernels are compiled before use: {done.stderr}")
            return
        for folder in Path(self._scratch.name).iterdir():
            build_data["force_include"][str(folder)] = f"{IN_PACKAGE}/{folder.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called after the wheel is written."""
        del version, build_data, artifact_path
        self._scratch.cleanup()
