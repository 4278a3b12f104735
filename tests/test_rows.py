import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from objectstates.rows import Rows, stacked


@given(st.lists(st.integers(0, 40), max_size=12))
def test_rows_are_those_added(counts):
    parts = [np.random.default_rng(n).normal(size=(n, 3)) for n in counts]
    rows = Rows(3, np.float64)
    for part in parts:
        rows.extend(part)
    whole = np.concatenate([np.empty((0, 3)), *parts])
    assert len(rows) == len(whole)
    np.testing.assert_array_equal(rows.finish(), whole)
    assert len(rows) == 0
    rows.extend([1, 2, 3])
    assert rows.finish().tolist() == [[1, 2, 3]]
    if parts:
        np.testing.assert_array_equal(stacked(parts), whole)
        assert parts == []


def test_a_table_is_held_once():
    row = np.ones(5000, np.float32)
    tracemalloc.start()
    rows = Rows(5000, np.float32)
    for _ in range(1000):
        rows.extend(row)
    table = rows.finish()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * table.nbytes
