import re
import tomllib

import pytest

from tools import lock
from tools.lock import canonical
from tools.sbom import read_lock

REPORT = {
    "install": [
        {
            "metadata": {"name": "Some.Package", "version": "1.2"},
            "download_info": {
                "url": "https://example.org/x.whl",
                "archive_info": {"hashes": {"sha256": "0" * 64}},
            },
        },
        {"metadata": {"name": "objectstates", "version": "0"}, "download_info": {"url": "file:x"}},
    ]
}


def test_a_lock_names_versions_and_hashes_and_no_address():
    assert lock.locked(REPORT) == [f"some.package==1.2 --hash=sha256:{'0' * 64}"]
    text = lock.LOCK.read_text()
    assert "//" not in text
    for line in text.splitlines():
        assert line.startswith("#") or re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line)


def test_extras_that_others_need_are_named():
    """Without them pip looks for `b[x]` and `c[z]` beside the pinned versions."""

    def item(name, *requires, **others):
        hashes = {"hashes": {"sha256": "0" * 64}}
        about = {"name": name, "version": "1", "requires_dist": list(requires)}
        return {"metadata": about, "download_info": {"archive_info": hashes}, **others}

    report = {
        "install": [
            item("c"),
            item("B_B", 'c[z]; extra == "x"', 'c[not]; extra == "y"'),
            item("a", 'b-b[x]>=1; python_version > "3"', 'c[never]; python_version < "3"'),
        ]
    }
    names = [line.split(" ")[0] for line in lock.locked(report)]
    assert names == ["a==1", "b_b[x]==1", "c[z]==1"]


def test_the_versions_of_a_lock_with_extras_are_read(tmp_path):
    path = tmp_path / "x.lock"
    path.write_text(f"b_b[x,y]==1 --hash=sha256:{'0' * 64}\n")
    assert read_lock(path) == {"b-b": ("1", "0" * 64)}


def test_a_package_without_a_hash_is_refused():
    bare = {"metadata": {"name": "a", "version": "1"}, "download_info": {"dir_info": {}}}
    with pytest.raises(SystemExit, match="no hash of a 1"):
        lock.locked({"install": [bare]})


def test_the_lock_has_all_that_is_required():
    project = tomllib.loads((lock.ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {canonical(re.split(r"[\[<>=!~ ]", requirement)[0]) for requirement in wanted}
    assert names <= read_lock().keys(), "run python -m tools.lock"


def test_a_lock_fits_one_python_and_platform(tmp_path):
    path = tmp_path / "x.lock"
    assert not lock.fits(path)
    path.write_text(f"{lock.MARK}CPython 2.7, other\n")
    assert not lock.fits(path)
    path.write_text(f"{lock.MARK}{lock.environment()}\na==1\n")
    assert lock.fits(path)
