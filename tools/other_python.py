"""Print the path of another Python than this one; exit with 1 where there is none.

Preferred is the newest supported release of another minor version; otherwise another
build of the same, such as Debian's. Looked for in the PATH, in pyenv and in /usr/bin.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LOWEST, NEWEST = (3, 11), (3, 14)  # requires-python; the newest minor version with wheels for all
PROBE = "import ensurepip, sys, venv; print(*sys.version_info[:3], sys.base_prefix)"

Found = tuple[tuple[int, int, int], Path]
"""Version and path of an interpreter."""


def candidates() -> Iterator[Path]:
    """Paths that may be interpreters."""
    names = ["python3", *(f"python3.{minor}" for minor in range(LOWEST[1], NEWEST[1] + 1))]
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders += [Path("/usr/bin"), *(path / "bin" for path in sorted(pyenv.glob("3.*")))]
    for folder in folders:
        for name in names:
            if (folder / name).exists():
                yield folder / name


def probe(path: Path) -> Found | None:
    """What ``path`` is, if it runs and can make environments."""
    try:
        done = subprocess.run(
            [path, "-c", PROBE], capture_output=True, text=True, timeout=60, check=True
        )
        major, minor, micro, prefix = done.stdout.split(maxsplit=3)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None  # a shim of a version that is not active, or without venv
    if Path(prefix.strip()) == Path(sys.base_prefix):
        return None  # this one
    return (int(major), int(minor), int(micro)), path


def choose(found: list[Found], this: tuple[int, int]) -> Path | None:
    """The newest of another minor version, else any; None if there is none in the range."""
    usable = [each for each in found if LOWEST <= each[0][:2] <= NEWEST]
    if not usable:
        return None
    return max(usable, key=lambda each: (each[0][:2] != this, each[0]))[1]


def main() -> int:
    found = [each for each in map(probe, candidates()) if each is not None]
    path = choose(found, (sys.version_info[0], sys.version_info[1]))
    if path is None:
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
