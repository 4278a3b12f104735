"""Megabytes of the core dependencies: ``python -m tools.weights`` prints a table.

Run it in an environment of ``pip install .``. A row is a dependency of ``pyproject.toml`` with all
that only it needs. Sizes are of the installed files (``RECORD``), and of the bytecode that pip
compiles from them.
"""

from __future__ import annotations

import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from tools.lock import ROOT, canonical
from tools.sbom import needed

MB = 1e6


class Weight(NamedTuple):
    """Bytes of files, and of bytecode."""

    files: int
    bytecode: int

    def plus(self, other: Weight) -> Weight:
        return Weight(self.files + other.files, self.bytecode + other.bytecode)


def weight(name: str) -> Weight:
    """Of an installed distribution alone."""
    total = Weight(0, 0)
    for file in distribution(name).files or ():
        path = Path(str(file.locate()))
        if path.is_file():
            size, compiled = path.stat().st_size, path.suffix == ".pyc"
            total = total.plus(Weight(0, size) if compiled else Weight(size, 0))
    return total


def shares(requirements: list[str]) -> dict[str, set[str]]:
    """Each requirement with the distributions that no other one needs; the others as ``shared``."""
    direct = [canonical(Requirement(text).name) for text in requirements]
    whole = {name: set(needed([name])) for name in direct}
    owners = {
        part: {name for name in direct if part in whole[name]}
        for part in set().union(*whole.values())
    }
    found: dict[str, set[str]] = {name: {name} for name in direct}
    for part, of in owners.items():
        if part not in direct:
            found.setdefault(next(iter(of)) if len(of) == 1 else "shared", set()).add(part)
    return found


def main() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    rows: dict[str, Weight] = {}
    for name, parts in shares(settings["project"]["dependencies"]).items():
        label = ", ".join([name, *sorted(parts - {name})])
        rows[label] = Weight(*map(sum, zip(*map(weight, parts), strict=True)))
    rows["objectstates"] = weight("objectstates")
    print("| dependency | MB | with bytecode |\n|---|---|---|")
    for label, of in sorted(rows.items(), key=lambda row: -sum(row[1])):
        print(f"| {label} | {of.files / MB:.0f} | {sum(of) / MB:.0f} |")
    files, both = sum(of.files for of in rows.values()), sum(map(sum, rows.values()))
    print(f"| all | {files / MB:.0f} | {both / MB:.0f} |")


if __name__ == "__main__":
    main()
