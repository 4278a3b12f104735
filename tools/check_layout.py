"""Check what linters do not: ``python -m tools.check_layout`` prints what is wrong, one per line.

* A function in ``src`` that is longer than `LONGEST` lines has its reason in a comment
  ``# long: ...`` above it or on its ``def`` lines.
* The packages of ``src``, the table in ``CONTRIBUTING.md`` and the import contract in
  ``pyproject.toml`` name the same layers in the same order, and the table every module.
* ``tests/<package>/test_<module>.py`` has a module ``<package>/<module>`` that it tests.
* A Python file named in a docstring or comment of ``src`` exists.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST = 60  # lines of a function: about a screen
REASON = re.compile(r"# long: \w|# noqa: [A-Z0-9, ]*(C901|PLR09\d\d)\b.*\w")
NAMED_FILE = re.compile(r"``([\w/]+\.py)``|`([\w/]+\.py)`")

WITHOUT_CODE = ("demo",)
"""Folders of the package that hold data only, so that the import contract leaves them out."""

WITHOUT_MODULE = {
    "benchmarks/test_wild.py": "the modules of benchmarks/wild that search narrations",
    "benchmarks/test_wild_footage.py": "the modules of benchmarks/wild that judge footage",
    "cli/test_cli.py": "the entry point, and what all commands have in common",
    "cli/test_narrated_videos.py": "all commands from raw videos with sound to a report",
    "discovery/test_chains.py": "chains of changes, from fit to prediction",
    "discovery/test_reference.py": "comparison with answers of the authors' code",
    "docs/test_docs.py": "the pages of the documentation",
    "faults/test_parsers.py": "mutated files for every parser of the package",
    "examples/test_quickstart.py": "examples/quickstart.ipynb",
    "report/test_browser.py": "the report in a browser",
    "solver/test_backends.py": "every backend against the dense reference",
    "test_api.py": "the public names of the package, and rules for all modules",
    "web/label/test_browser.py": "the labelling page in a browser",
    "web/review/test_browser.py": "the review in a browser",
    "web/test_studio_browser.py": "the studio in a browser",
    "tools/test_contract.py": "the import contract of pyproject.toml",
    "tools/test_citation.py": "CITATION.cff",
}
"""Test files that belong to no single module, and what they test."""


def long_functions(package: Path) -> Iterator[str]:
    """Functions of more than `LONGEST` lines without a reason beside them."""
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
            beside = lines[_comment_start(lines, first) : node.body[0].lineno]
            if length > LONGEST and not any(REASON.search(line) for line in beside):
                name = path.relative_to(package.parent)
                yield (
                    f"{name}:{node.lineno}: {node.name} has {length} lines, more than {LONGEST}: "
                    "divide it, or say why not in a comment '# long: ...' above it"
                )


def _comment_start(lines: list[str], first: int) -> int:
    """The first line of the comment that ends above line ``first``, or ``first`` itself."""
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return first


def layers(pyproject: Path) -> list[str]:
    """The packages of the import contract, from the one that imports none to the command line."""
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    return list(reversed(contract["layers"]))


def table(contributing: Path) -> dict[str, set[str]]:
    """The modules that the table of layers names, by package, in the order of the table.

    A row is ``| `package/` | what belongs in it | `module`, ...; `folder/`: `module`, ... |``.
    """
    found: dict[str, set[str]] = {}
    for line in contributing.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 5 or not (package := re.fullmatch(r"`([\w/]+)/`", cells[1])):
            continue
        for part in cells[3].split(";"):
            folder = re.match(r"\s*`(\w+)/`", part)
            place = f"{package[1]}/{folder[1]}" if folder else package[1]
            found[place] = set(re.findall(r"`(\w+)`", part))
    return found


def disagreements(package: Path, contributing: Path, pyproject: Path) -> Iterator[str]:
    """Where folders, table and import contract differ."""
    order, rows = layers(pyproject), table(contributing)
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    for name in sorted(folders ^ set(order)):
        where = "pyproject.toml has no layer" if name in folders else "src has no package"
        yield f"{where} {name!r}: the import contract must name every package"
    top = [name for name in rows if "/" not in name and name not in WITHOUT_CODE]
    if top != order:
        yield (
            f"CONTRIBUTING.md lists the packages {', '.join(top)}, but the import contract "
            f"{', '.join(order)}"
        )
    modules: dict[str, set[str]] = {}
    for path in package.glob("*/**/*.py"):
        place = path.parent.relative_to(package).as_posix()
        modules.setdefault(place, set()).update({path.stem} - {"__init__"})
    for place, found in sorted(modules.items()):
        for name in sorted(found ^ rows.get(place, set())):
            fault = "does not name" if name in found else "names the missing"
            yield f"CONTRIBUTING.md {fault} module {place}/{name}.py"


def unmirrored(root: Path) -> Iterator[str]:
    """Test files that correspond to no module."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        name = path.relative_to(root / "tests")
        if name.as_posix() in WITHOUT_MODULE:
            continue
        module = name.parent / path.stem.removeprefix("test_")
        places = [place / module for place in (root / "src/objectstates", root, root / "tests")]
        if not any(p.with_suffix(".py").is_file() or (p / "__init__.py").is_file() for p in places):
            yield f"tests/{name} tests no module {module}.py: rename it after what it tests"
    for known in sorted(WITHOUT_MODULE):
        if not (root / "tests" / known).is_file():
            yield f"tests/{known} does not exist: remove it from WITHOUT_MODULE"


def missing_files(package: Path) -> Iterator[str]:
    """Python files that a docstring or comment names and that do not exist."""
    root = package.parents[1]
    present = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    present |= {p.relative_to(root).as_posix() for f in ("benchmarks", "tools", "tests")
                for p in (root / f).rglob("*.py")}  # fmt: skip
    for path in sorted(package.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for match in NAMED_FILE.finditer(line):
                name = match[1] or match[2]
                if not any(f"/{file}".endswith(f"/{name}") for file in present):
                    yield f"{path.relative_to(root)}:{number}: there is no {name}"


def complaints(root: Path = ROOT) -> list[str]:
    """Everything that is wrong in a checkout."""
    package = root / "src" / "objectstates"
    return [
        *long_functions(package),
        *disagreements(package, root / "CONTRIBUTING.md", root / "pyproject.toml"),
        *unmirrored(root),
        *missing_files(package),
    ]


def main() -> int:
    found = complaints()
    print("\n".join(found) or "layout: nothing to complain about")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
