import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from objectstates import read_authors
from objectstates.base.errors import CorpusError, MissingExtraError
from objectstates.data.formats.authors import realise


def cell(items):
    array = np.empty((1, len(items)), dtype=object)
    for i, item in enumerate(items):
        array[0, i] = item
    return array


def predecessors(start, end):
    """The release's structure (Appendix C of the paper) of tracklets sorted by start."""
    m = len(start)
    lists: list[list[int]] = [[] for _ in range(m)]
    last = []
    for i in range(m):
        after = [j for j in range(i + 1, m) if end[i] <= start[j]]
        if not after:
            last.append(i)
            continue
        j = after[0]
        for k in [j, *(k for k in range(j + 1, m) if start[k] < end[j])]:
            lists[k].append(i)
    return [*(x or [-1] for x in lists), last]


@pytest.fixture
def variables():
    """Two clips in the schema of the release, with known intervals."""
    rng = np.random.default_rng(0)
    start = [np.array([0.0, 0.5, 1.2, 3.0]), np.array([10.0, 10.1, 12.0])]
    end = [np.array([1.0, 2.5, 2.2, 4.0]), np.array([11.0, 11.9, 13.0])]
    states = np.array([[1, 0], [0, 0], [0, 0], [0, 1], [1, 0], [0, 0], [0, 1]], float)
    return {
        "start": start,
        "end": end,
        "mat": {
            "X_action": rng.standard_normal((5, 3)),
            "X_state": rng.standard_normal((7, 4)),
            "T_action": np.array([[0.2, 0.6, 1.0, 10.2, 10.6]]).T,
            "T_state": np.concatenate([(s + e) / 2 for s, e in zip(start, end, strict=True)])[
                :, None
            ],
            "Z_GT": np.array([[0, 1, 0, 0, 1.0]]).T,
            "Y_GT": states,
            "clips_action": np.array([[3.0, 2]]),
            "clips_state": np.array([[4.0, 3]]),
            "constrs_action": cell([np.array([[1.0, 0, 1]]).T, np.ones((2, 1))]),
            "constrs_state": cell([np.ones((4, 2)), np.array([[1.0, 1], [0, 1], [1, 1]])]),
            "ptrs_tracks": cell(
                [
                    cell([np.array([p], float) for p in predecessors(s, e)])
                    for s, e in zip(start, end, strict=True)
                ]
            ),
            "annot_action": cell([np.ones((1, 1))] * 2),
            "annot_state": cell([np.array([[1.0, 2]])] * 2),
        },
    }


def save_hdf5(path, mat):
    """A MATLAB 7.3 file: HDF5 with transposed arrays, cells as references, after a user block."""
    with h5py.File(path, "w", userblock_size=512) as file:
        count = iter(range(10**6))

        def store(value, name):
            if value.dtype == object:
                refs = np.empty(value.T.shape, h5py.ref_dtype)
                for index, item in np.ndenumerate(value.T):
                    refs[index] = store(item, f"#refs#/{next(count)}").ref
                return file.create_dataset(name, data=refs, dtype=h5py.ref_dtype)
            return file.create_dataset(name, data=value.T)

        for name, value in mat.items():
            store(value, name)
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file")


def write(path, mat, form):
    save_hdf5(path, mat) if form == "7.3" else savemat(path, mat)


@pytest.mark.parametrize("form", ["5", "7.3"])
def test_release_is_read(tmp_path, variables, form):
    path, mat = tmp_path / "features_test.mat", variables["mat"]
    write(path, mat, form)
    corpus = read_authors(path)
    np.testing.assert_array_equal(corpus.tracklets.features, mat["X_state"].astype(np.float32))
    np.testing.assert_array_equal(corpus.chunks.features, mat["X_action"].astype(np.float32))
    np.testing.assert_array_equal(corpus.tracklets.time, mat["T_state"].ravel())
    np.testing.assert_array_equal(corpus.chunks.time, mat["T_action"].ravel())
    assert corpus.tracklets.label.tolist() == [1, 0, 0, 2, 1, 0, 2]
    assert corpus.chunks.label.tolist() == [0, 1, 0, 0, 1]
    assert corpus.chunks.allowed[:, 0].tolist() == [True, False, True, True, True]
    assert corpus.tracklets.allowed[5].tolist() == [False, True]
    for n in range(2):
        start, end = variables["start"][n], variables["end"][n]
        rows = list(corpus.tracklet_rows(n))
        rebuilt = corpus.tracklets.end[rows][:, None] <= corpus.tracklets.start[rows][None]
        np.testing.assert_array_equal(rebuilt, end[:, None] <= start[None])
        assert (corpus.tracklets.start[rows] <= corpus.tracklets.time[rows]).all()
        assert (corpus.tracklets.time[rows] <= corpus.tracklets.end[rows]).all()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5)), min_size=1, max_size=10))
def test_intervals_are_rebuilt_from_their_order(pieces):
    start = np.array(sorted(piece[0] for piece in pieces), float)
    end = start + np.array([piece[1] for piece in pieces])
    time = (start + end) / 2
    precedes = end[:, None] <= start[None]
    new_start, new_end = realise(precedes, time)
    np.testing.assert_array_equal(new_end[:, None] <= new_start[None], precedes)
    assert (new_start < new_end).all()
    assert (new_start - 1e-9 <= time).all()
    assert (time <= new_end + 1e-9).all()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("X_state", None, "lacks X_state"),
        ("ptrs_tracks", None, "lacks ptrs_tracks"),
        ("clips_state", np.array([[4.0, 2]]), "counts 6 tracklets, T_state has 7"),
        ("clips_state", np.array([[4.5, 2.5]]), "integers"),
        ("X_state", np.ones((3, 4)), "features has 3 rows"),
        ("Y_GT", np.ones((7, 3)), "Y_GT must have two columns"),
        ("X_state", np.full((7, 4), np.nan), "not finite"),
        ("ptrs_tracks", cell([cell([np.array([[5.0]])])] * 2), "one cell per tracklet"),
        ("ptrs_tracks", cell([cell([np.array([[2.0]])] * 5), cell([np.array([[-1.0]])] * 4)]),
         "predecessor 2 is not an earlier tracklet"),
        ("constrs_state", cell([np.ones((4, 3)), np.ones((3, 3))]), "constrs_state"),
        ("constrs_state", cell([np.ones((2, 4)), np.ones((2, 3))]), "constrs_state"),
        ("constrs_state", cell([np.ones((3, 2)), np.ones((4, 2))]), "constrs_state"),
        ("ptrs_tracks", cell([cell([np.array([[np.nan]])] * 5), cell([np.array([[-1.0]])] * 4)]),
         "predecessor nan is not an earlier tracklet"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path, variables, name, value, message):
    mat = dict(variables["mat"])
    mat.pop(name) if value is None else mat.update({name: value})
    path = tmp_path / "features_wrong.mat"
    savemat(path, mat)
    with pytest.raises(CorpusError, match=message) as caught:
        read_authors(path)
    assert "features_wrong.mat" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not a MATLAB file at all", b"\x89HDF\r\n\x1a\n" * 3])
def test_garbage_is_refused(tmp_path, content):
    path = tmp_path / "x.mat"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=r"x\.mat"):
        read_authors(path)
    with pytest.raises(CorpusError, match="cannot be read"):
        read_authors(tmp_path / "missing.mat")


def test_missing_h5py_names_the_extra(tmp_path, variables, monkeypatch):
    path = tmp_path / "new.mat"
    save_hdf5(path, variables["mat"])
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match="install h5py"):
        read_authors(path)


def test_a_hostile_file_ends_a_command_with_one_line(tmp_path):
    """On this file scipy's loadmat ends with a segmentation fault, from 1.11 to 1.17."""
    path = tmp_path / "features_x.mat"
    savemat(path, {"X_action": cell([np.ones((1, 1)), np.ones((2, 1))])})
    hostile = bytearray(path.read_bytes())
    hostile[232] = 0  # the type of the first item
    path.write_bytes(hostile)
    done = subprocess.run(
        [sys.executable, "-m", "objectstates", "inspect", path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1
    assert "features_x.mat is not a MATLAB file that can be read" in done.stderr
