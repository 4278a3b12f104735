from threading import Barrier, Thread

import pytest
from threadpoolctl import ThreadpoolController

from objectstates.base.blas import numpy_on_one_thread
from objectstates.solver import cost  # noqa: F401 - loads SciPy's BLAS


def threads_by_owner():
    """Of NumPy's BLAS, and of the others."""
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    own = [each.num_threads for each in libraries if "numpy" in each.filepath]
    return own, [each.num_threads for each in libraries if "numpy" not in each.filepath]


@pytest.fixture
def two_threads():
    """Every BLAS has two threads."""
    own, others = threads_by_owner()
    if not own or not others:
        pytest.skip("NumPy and SciPy use the same BLAS here")
    with ThreadpoolController().limit(limits=2):
        if threads_by_owner() != ([2], [2]):
            pytest.skip("OPENBLAS_NUM_THREADS or the processor permits one thread only")
        yield


def test_only_numpys_blas_is_limited_and_only_meanwhile(two_threads):
    with numpy_on_one_thread:
        assert threads_by_owner() == ([1], [2])
        with numpy_on_one_thread:
            assert threads_by_owner() == ([1], [2])
        assert threads_by_owner() == ([1], [2])
    assert threads_by_owner() == ([2], [2])


def test_it_is_limited_until_the_last_of_several_threads_leaves(two_threads):
    both_inside, first_left = Barrier(2), Barrier(2)
    seen = []

    @numpy_on_one_thread
    def leave_last():
        both_inside.wait(10)
        first_left.wait(10)
        seen.append(threads_by_owner())

    other = Thread(target=leave_last)
    other.start()
    with numpy_on_one_thread:
        both_inside.wait(10)
    first_left.wait(10)
    other.join(10)
    assert seen == [([1], [2])]
    assert threads_by_owner() == ([2], [2])


def test_an_error_lifts_the_limit(two_threads):
    with pytest.raises(ZeroDivisionError), numpy_on_one_thread:
        raise ZeroDivisionError
    assert threads_by_owner() == ([2], [2])
