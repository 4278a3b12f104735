import numpy as np
import pytest

from objectstates.cache import ArrayCache, content_digest, digest, write_atomically


def test_arrays_come_back(tmp_path):
    cache = ArrayCache(tmp_path)
    arrays = {"a": np.arange(6).reshape(2, 3), "names": np.array(["x", "ü"]), "none": np.empty(0)}
    assert cache.get("key") is None
    cache.put("key", arrays)
    for name, value in cache.get("key").items():
        np.testing.assert_array_equal(value, arrays[name])
        assert value.dtype == arrays[name].dtype


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 half", b"not a zip"])
def test_a_damaged_entry_counts_as_absent(tmp_path, damage):
    cache = ArrayCache(tmp_path)
    cache.put("key", {"a": np.ones(1000)})
    path = next(tmp_path.rglob("*.npz"))
    path.write_bytes(damage)
    assert cache.get("key") is None
    path.unlink()
    np.savez(path, a=np.array([{}], dtype=object))  # a pickle is never loaded
    assert cache.get("key") is None


def test_without_a_folder_nothing_is_kept():
    cache = ArrayCache(None)
    cache.put("key", {"a": np.ones(3)})
    assert cache.get("key") is None


def test_digests_tell_facts_and_contents_apart(tmp_path):
    assert digest("a", 1, {"x": 2.5, "y": None}) == digest("a", 1, {"y": None, "x": 2.5})
    assert digest("a", 1) != digest("a", 2)
    assert digest(["ab"]) != digest(["a", "b"])
    one, two, copy = (tmp_path / name for name in ("one", "two", "copy"))
    one.write_bytes(b"1" * 3_000_000)
    two.write_bytes(b"1" * 2_999_999 + b"2")
    copy.write_bytes(one.read_bytes())
    assert content_digest(one) == content_digest(copy), "the name of a video is no part of it"
    assert content_digest(one) != content_digest(two)
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "000001.jpg").write_bytes(b"a")
    before = content_digest(folder)
    (folder / "000002.jpg").write_bytes(b"b")
    assert content_digest(folder) != before


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(tmp_path / "x", b"content")
    assert list(tmp_path.iterdir()) == []
