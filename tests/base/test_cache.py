import numpy as np
import pytest

from objectstates.base.cache import ArrayCache, content_digest, digest
from objectstates.base.errors import StorageError
from objectstates.base.row_table import Rows


def test_arrays_come_back(tmp_path):
    cache = ArrayCache(tmp_path)
    arrays = {"a": np.arange(6).reshape(2, 3), "names": np.array(["x", "ü"]), "none": np.empty(0)}
    assert cache.get("key") is None
    cache.put("key", arrays)
    found = cache.get("key")
    assert found is not None
    for name, value in found.items():
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


def test_no_flipped_byte_passes_or_raises(tmp_path):
    cache = ArrayCache(tmp_path)
    cache.put("key", {"a": np.arange(12.0), "names": np.array(["x"])})
    path = next(tmp_path.rglob("*.npz"))
    content = path.read_bytes()
    assert cache.entry("key").is_whole()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        assert not cache.entry("key").is_whole()
        assert cache.get("key") is None
    for length in range(len(content)):
        path.write_bytes(content[:length])
        assert cache.get("key") is None


def test_tables_go_to_disk_and_come_back_in_groups(tmp_path):
    cache, rows = ArrayCache(tmp_path), Rows(3, np.float32)
    table = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    rows.extend(table)
    cache.put("key", {"table": rows, "plain": table, "times": table[:, 0], "none": Rows(2, int)})
    found = cache.get("key")
    assert found is not None
    np.testing.assert_array_equal(found["table"], table)
    entry = cache.entry("key")
    assert entry.is_whole()
    assert entry.shape("table") == (1000, 3)
    np.testing.assert_array_equal(entry["plain"], table)
    assert list(entry.groups("none")) == []
    for name in ("table", "plain", "times"):
        groups = list(entry.groups(name, 300))
        assert list(map(len, groups)) == [300, 300, 300, 100]
        np.testing.assert_array_equal(np.concatenate(groups), entry[name])


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_damage_is_seen_and_named(tmp_path, place):
    cache = ArrayCache(tmp_path)
    entry = cache.entry("key")
    assert not entry.is_whole()
    cache.put("key", {"a": np.random.default_rng(0).normal(size=(1000, 5))})
    assert entry.is_whole()
    path = next(tmp_path.rglob("*.npz"))
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)
    assert not entry.is_whole()
    with pytest.raises(StorageError, match=r"key\.npz cannot be read .*: delete it"):
        sum(map(len, entry.groups("a")))


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
