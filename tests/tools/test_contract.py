"""The import contract of pyproject.toml rejects an import in the wrong direction."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules of the package, with the project's import contract beside them."""
    root = tmp_path_factory.mktemp("copy")
    package = ROOT / "src" / "objectstates"
    for path in package.rglob("*.py"):
        copy = root / "objectstates" / path.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()",
         "--no-cache", "--config", "pyproject.toml"],
        cwd=root, env={"PYTHONPATH": str(root), "PYTHONUTF8": "1"}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("module", "line", "named"),
    [
        (
            "base/errors.py",
            "import objectstates.cli.output",
            r"objectstates\.base is not allowed to import objectstates\.cli",
        ),
        (
            "video/reader.py",
            "def later():\n    from objectstates.detect import registry",
            r"objectstates\.video is not allowed to import objectstates\.detect",
        ),
        (
            "solver/oracle.py",
            "from objectstates.data import clips",
            r"objectstates\.solver is not allowed to import objectstates\.data",
        ),
    ],
    ids=["at the top", "inside a function", "data in the solver"],
)
def test_an_import_to_the_right_is_named(modules, module, line, named):
    path = modules / "objectstates" / module
    text = path.read_text()
    path.write_text(f"{text}\n{line}\n")
    try:
        found = lint_imports(modules)
    finally:
        path.write_text(text)
    assert found.returncode == 1
    assert re.search(named, " ".join(found.stdout.split())), found.stdout


def test_the_package_itself_keeps_the_contract(modules):
    found = lint_imports(modules)
    assert found.returncode == 0, found.stdout
