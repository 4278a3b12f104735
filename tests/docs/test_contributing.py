"""`CONTRIBUTING.md`, the folders and the import contract describe the same packages."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "objectstates"
WITHOUT_CODE = ("demo",)  # clips only


def table() -> dict[str, set[str]]:
    """Package -> the modules that its row names, such as ``formats/authors``, in table order."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)/` \|.*\| (.*) \|$", text, re.MULTILINE)
    return {package: _modules(cell) for package, cell in rows}


def _modules(cell: str) -> set[str]:
    """``a``, ``b``; ``sub/``: ``c`` as {a, b, sub/c}."""
    found, folder = set(), ""
    for name in re.findall(r"`([\w/]+)`", cell):
        if name.endswith("/"):
            folder = name
        else:
            found.add(folder + name)
    return found


def test_the_table_has_the_layers_in_the_order_of_the_import_contract():
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c.get("containers") == ["objectstates"])
    packages = [name for name in table() if "/" not in name and name not in WITHOUT_CODE]
    assert packages == list(reversed(layers))


def test_the_table_has_every_package():
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert {name for name in table() if "/" not in name} == folders


def test_a_row_names_every_module_of_its_package():
    rows = table()
    for package, named in rows.items():
        inner = [
            f"{name.removeprefix(package)[1:]}/" for name in rows if name.startswith(f"{package}/")
        ]
        modules = {
            path.relative_to(SOURCE / package).with_suffix("").as_posix()
            for path in (SOURCE / package).rglob("*.py")
            if path.name != "__init__.py"
        }
        mine = {name for name in modules if not name.startswith(tuple(inner))}
        assert named == mine, package


def test_files_that_the_text_names_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"`([\w.]+/[\w./]*\.(?:py|md|toml))`", text)
    assert len(paths) > 20
    missing = [path for path in paths if not any((top / path).exists() for top in (ROOT, SOURCE))]
    assert not missing
