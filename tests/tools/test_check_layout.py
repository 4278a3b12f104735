"""The checks of the layout find what is wrong in a small tree, and nothing where all is right."""

from pathlib import Path

import pytest

from tools.check_layout import disagreements, long_functions, missing_files, table, unmirrored

CONTRIBUTING = """
| package | what belongs in it | modules |
|---|---|---|
| `base/` | errors | `errors` |
| `data/` | clips | `clips`; `formats/`: `mot` |
| `data/more/` | a row of its own | `lists` |
| `demo/` | videos | |

| another | table |
|---|---|
| `cli/` | of no interest |
"""
PYPROJECT = '[[tool.importlinter.contracts]]\ntype = "layers"\nlayers = ["data", "base"]\n'


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A checkout with two layers and a test; returns the folder of the package."""
    files = {
        "CONTRIBUTING.md": CONTRIBUTING,
        "pyproject.toml": PYPROJECT,
        "tests/data/test_clips.py": "",
    }
    for folder, module in {"base": "errors", "data": "clips", "data/formats": "mot",
                           "data/more": "lists"}.items():  # fmt: skip
        for name in ("__init__", module):
            files[f"src/objectstates/{folder}/{name}.py"] = ""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "src" / "objectstates"


def differences(package: Path) -> list[str]:
    root = package.parents[1]
    return list(disagreements(package, root / "CONTRIBUTING.md", root / "pyproject.toml"))


def test_folders_table_and_contract_that_agree_pass(package):
    assert differences(package) == []
    rows = table(package.parents[1] / "CONTRIBUTING.md")
    assert rows["data"] == {"clips"}
    assert rows["data/formats"] == {"mot"}


@pytest.mark.parametrize(
    ("file", "before", "after", "complaint"),
    [
        ("pyproject.toml", '"data", "base"', '"base", "data"', "import contract data, base"),
        ("pyproject.toml", '"data", ', "", "no layer 'data'"),
        ("pyproject.toml", '"data", ', '"cli", "data", ', "no package 'cli'"),
        ("CONTRIBUTING.md", "| `base/` | errors | `errors` |\n", "", "lists the packages data"),
        ("CONTRIBUTING.md", "`clips`", "`clip`", "does not name module data/clips.py"),
        ("CONTRIBUTING.md", "`clips`", "`clips`, `x`", "names the missing module data/x.py"),
        ("CONTRIBUTING.md", "; `formats/`: `mot`", "", "module data/formats/mot.py"),
    ],
)
def test_a_disagreement_is_named(package, file, before, after, complaint):
    path = package.parents[1] / file
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    assert any(complaint in found for found in differences(package)), differences(package)


@pytest.mark.parametrize(
    ("above", "beside", "lines", "passes"),
    [
        ("", "", 60, True),
        ("", "", 61, False),
        ("# long: one case per kind of file\n", "", 61, True),
        ("", "  # long: one case per kind of file", 61, True),
        ("", "  # noqa: C901, PLR0912 - one branch per format", 61, True),
        ("", "  # noqa: C901", 61, False),
        ("# long:\n", "", 61, False),
        ("# a comment\n", "", 61, False),
    ],
)
def test_a_long_function_needs_a_reason(package, above, beside, lines, passes):
    body = "    x = 0\n" * (lines - 1)
    text = f"import functools\n\n{above}@functools.cache\ndef f():{beside}\n{body}"
    (package / "base" / "errors.py").write_text(text)
    found = list(long_functions(package))
    assert bool(found) != passes
    assert all("f has" in complaint and "base/errors.py" in complaint for complaint in found)


def test_a_test_file_without_its_module_is_named(package):
    root = package.parents[1]
    (root / "tests" / "data" / "test_formats.py").write_text("")
    (root / "tests" / "data" / "test_clip.py").write_text("")
    found = [complaint for complaint in unmirrored(root) if "WITHOUT_MODULE" not in complaint]
    assert len(found) == 1
    assert "tests/data/test_clip.py" in found[0]


def test_a_file_that_is_named_must_exist(package):
    text = '"""As in ``formats/mot.py``, `errors.py` and ``data/clips.py``, not ``mop.py``."""\n'
    (package / "data" / "clips.py").write_text(text)
    assert [found.split(": ")[1] for found in missing_files(package)] == ["there is no mop.py"]
