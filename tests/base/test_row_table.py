import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectstates.base.errors import StorageError
from objectstates.base.row_table import Rows


@given(
    counts=st.lists(st.integers(0, 40), max_size=12),
    at_once=st.integers(1, 50),
    span=st.tuples(st.integers(0, 300), st.integers(0, 300)),
)
def test_rows_are_those_added(counts, at_once, span):
    parts = [np.random.default_rng(n).normal(size=(n, 3)) for n in counts]
    rows = Rows(3, np.float64)
    for part in parts:
        rows.extend(part)
    whole = np.concatenate([np.empty((0, 3)), *parts])
    assert rows.shape == whole.shape
    np.testing.assert_array_equal(rows, whole)
    np.testing.assert_array_equal(rows.read(*span), whole[slice(*span)])
    groups = list(rows.groups(at_once))
    assert all(len(group) == at_once for group in groups[:-1])
    np.testing.assert_array_equal(np.concatenate([np.empty((0, 3)), *groups]), whole)
    rows.extend([1, 2, 3])
    assert rows.read(len(whole)).tolist() == [[1, 2, 3]]


def test_a_table_is_not_held(tmp_path):
    row = np.ones(5000, np.float32)
    tracemalloc.start()
    rows = Rows(5000, np.float32, tmp_path)
    for _ in range(1000):
        rows.extend(row)
    total = sum(float(group.sum()) for group in rows.groups(20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 5000 * 1000
    assert peak < 0.1 * row.nbytes * len(rows)


def test_what_lies_on_disk_is_gone_with_its_process(tmp_path):
    rows = Rows(1000, np.float32, tmp_path)
    rows.extend(np.ones((1000, 1000)))
    assert list(tmp_path.iterdir()) == [], "a name that a killed process would leave behind"


def test_a_disk_without_room_is_named(tmp_path):
    rows = Rows(1000, np.float32, tmp_path / "missing")
    with pytest.raises(StorageError, match=r"missing \(No such file.*\): free some"):
        rows.extend(np.ones((1000, 1000)))
