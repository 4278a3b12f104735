import time

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from objectstates.base.errors import CorpusError
from objectstates.data.formats import mat_file
from objectstates.data.formats.mat_file import read_mat


def cell(*items):
    array = np.empty((1, len(items)), dtype=object)
    for i, item in enumerate(items):
        array[0, i] = item
    return array


def test_numbers_text_cells_and_structs_are_read(tmp_path):
    path = tmp_path / "a.mat"
    struct = {"name": "cup", "sizes": np.arange(3.0)}
    savemat(path, {"x": np.eye(2), "c": cell(np.ones((1, 2)), cell(np.zeros(1))), "s": struct})
    found = read_mat(path)
    np.testing.assert_array_equal(found["x"], np.eye(2))
    assert [np.shape(item) for item in found["c"][0:1]] == [(1, 2)]
    assert isinstance(found["c"][1], list)
    assert found["s"]["name"].item() == "cup"
    assert found["s"]["sizes"].ravel().tolist() == [0, 1, 2]
    assert set(read_mat(path, ["x", "missing"])) == {"x"}


def test_a_file_that_crashes_the_library_is_an_error(tmp_path):
    path = tmp_path / "hostile.mat"
    savemat(path, {"x": cell(np.ones((1, 1)), np.ones((2, 1)))})
    hostile = bytearray(path.read_bytes())
    hostile[224] = 0  # on which loadmat of scipy 1.11 to 1.16 ends with a segmentation fault
    path.write_bytes(hostile)
    with pytest.raises(CorpusError, match=r"hostile\.mat is not a MATLAB file"):
        read_mat(path)


def test_a_small_file_with_gigabytes_of_zeros_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(mat_file, "MEMORY", 1 << 30)
    path = tmp_path / "zeros.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("x", shape=(1 << 28,), chunks=(1 << 20,), dtype="f8")
    with pytest.raises(CorpusError, match=r"zeros\.mat .*memory"):
        read_mat(path)


@pytest.mark.parametrize("loop", [True, False])
def test_cells_that_hold_each_other_are_refused(tmp_path, monkeypatch, loop):
    monkeypatch.setattr(mat_file, "SECONDS", 3.0)
    path = tmp_path / "nested.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        inner = file.create_dataset("x", (1,), h5py.ref_dtype)
        inner[0] = inner.ref
        if not loop:  # 8 references each, nested 12 deep: 7e10 values
            for n in range(12):
                outer = file.create_dataset(f"n{n}", (8,), h5py.ref_dtype)
                outer[:] = (
                    [inner.ref] * 8 if n else [file.create_dataset("z", data=np.ones(1)).ref] * 8
                )
                inner = outer
            del file["x"]
            file["x"] = inner
    began = time.monotonic()
    with pytest.raises(CorpusError, match=r"nested\.mat .*(nested deeper|takes more|ended with)"):
        read_mat(path, ["x"])
    assert time.monotonic() - began < 15
