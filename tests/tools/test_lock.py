import re
import tomllib

import pytest

from tools import lock
from tools.sbom import normal, read_lock

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


def test_a_package_without_a_hash_is_refused():
    bare = {"metadata": {"name": "a", "version": "1"}, "download_info": {"dir_info": {}}}
    with pytest.raises(SystemExit, match="no hash of a 1"):
        lock.locked({"install": [bare]})


def test_the_lock_has_all_that_is_required():
    project = tomllib.loads((lock.ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {normal(re.split(r"[\[<>=!~ ]", requirement)[0]) for requirement in wanted}
    assert names <= read_lock().keys(), "run python -m tools.lock"


def test_a_lock_fits_one_python_and_platform(tmp_path):
    path = tmp_path / "x.lock"
    assert not lock.fits(path)
    path.write_text(f"{lock.MARK}CPython 2.7, other\n")
    assert not lock.fits(path)
    path.write_text(f"{lock.MARK}{lock.environment()}\na==1\n")
    assert lock.fits(path)
