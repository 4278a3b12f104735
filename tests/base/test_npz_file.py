import numpy as np
import pytest

from objectstates.base.npz_file import read_npz


def test_what_was_written_is_read(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.eye(2), y=np.array("text"))
    found = read_npz(tmp_path / "a.npz")
    assert set(found) == {"x", "y"}
    np.testing.assert_array_equal(found["x"], np.eye(2))


def test_damage_is_a_value_error_whatever_it_is(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.eye(2))
    whole = path.read_bytes()
    header = whole.replace(b"'descr': '<f8', 'f", b"'descr': (((((((f")  # which NumPy tokenizes
    for content in (b"", b"PK\x03\x04", whole[:100], header, b"\x93NUMPY\x01\x00"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="no file of arrays"):
            read_npz(path)
    np.save(tmp_path / "plain.npy", np.eye(2))
    with pytest.raises(ValueError, match="no file of arrays"):
        read_npz(tmp_path / "plain.npy")
    np.savez(path, x=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="no file of arrays"):
        read_npz(path)
    with pytest.raises(OSError, match="missing"):
        read_npz(tmp_path / "missing.npz")
