"""Actors in threads and in worker processes: the same answers; a death is an error."""

import multiprocessing
import os
import signal
import threading

import numpy as np
import pytest

from objectstates import JointDiscovery
from objectstates.base.errors import VideoError, WorkerError
from objectstates.data.synthetic import synthetic_corpus
from objectstates.parallel.actors import LocalActors, ProcessActors
from objectstates.parallel.pool import start_actors
from objectstates.parallel.ray_actors import Replay
from tests.parallel.test_pool import is_running
from tests.parallel.workers import sums

NOTHING = Replay(frozenset(), "", frozenset())  # local actors are not rebuilt


@pytest.mark.parametrize("processes", [1, 2, 3, 7])
def test_answers_are_the_same_in_threads_and_processes(tmp_path, processes):
    with start_actors(sums(tmp_path), NOTHING, processes=processes) as actors:
        assert len(actors) == 3
        actors.call("base", [(2,)] * 3)
        assert actors.call("add", [(1,), (2,), (3,)]) == [2, 4, 6]
        assert actors.call("add", [(1,), (1,), (1,)]) == [4, 6, 8]
        actors.call("reset", [()] * 3)
        assert actors.call("add", [(5,)] * 3) == [10, 10, 10]
        with pytest.raises(VideoError, match="0 cannot"):
            actors.call("fails", [()] * 3)
        assert actors.call("add", [(0,)] * 3) == [10, 10, 10]  # no answer was left over
        with pytest.raises(ValueError, match="argument"):
            actors.call("add", [(0,)] * 2)
        pids = actors.call("pid", [()] * 3)
        assert len(set(pids)) == min(processes, 3)
        assert (os.getpid() in pids) == (processes == 1)
    assert len(list(tmp_path.glob("closed*"))) == 3
    assert processes == 1 or not any(map(is_running, pids))


class Meeting:
    """An actor whose call ends only when the calls of all other actors run too."""

    def __init__(self, barrier):
        self.barrier = barrier

    def meet(self):
        return self.barrier.wait()

    def close(self):
        pass


def test_actors_run_at_the_same_time():
    barrier = threading.Barrier(3)
    with LocalActors([Meeting(barrier) for _ in range(3)]) as actors:
        assert sorted(actors.call("meet", [()] * 3)) == [0, 1, 2]


def test_a_process_that_dies_is_an_error_and_ends_the_others(tmp_path):
    with ProcessActors(sums(tmp_path), 3) as actors:
        pids = actors.call("pid", [()] * 3)
        with pytest.raises(WorkerError, match=f"process {pids[1]} died with exit code -9 in dies"):
            actors.call("dies", [(1,)] * 3)
        with pytest.raises(WorkerError, match=f"process {pids[1]} died"):
            actors.call("add", [(1,)] * 3)
    assert not any(map(is_running, pids))


def test_an_actor_that_cannot_be_made_says_why(tmp_path):
    with (
        ProcessActors(sums(tmp_path, (0, 99)), 2) as actors,
        pytest.raises(VideoError, match="cannot be made"),
    ):
        actors.call("add", [(1,)] * 2)
    assert [path.name for path in tmp_path.glob("closed*")] == ["closed0"]


def test_an_interrupt_ends_processes_whose_call_never_ends(tmp_path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        with ProcessActors(sums(tmp_path), 3) as actors:
            pids = actors.call("pid", [()] * 3)
            actors.call("interrupts", [()] * 3)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGINT, before)
    assert not any(map(is_running, pids))


@pytest.mark.parametrize("processes", [1, 2])
def test_an_interrupted_fit_leaves_no_files(tmp_path, processes):
    synthetic_corpus(n_clips=4, state_size=5, action_size=5).save(tmp_path / "corpus")

    def interrupt(progress):
        assert len(list(tmp_path.glob(".objectstates-fit.*/state.rows"))) == 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        JointDiscovery().fit_folder(
            tmp_path / "corpus", interrupt, shards=2, scratch=tmp_path, processes=processes
        )
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_a_fit_in_processes_finds_what_threads_find_and_a_death_leaves_no_files(tmp_path):
    corpus = synthetic_corpus(
        n_clips=12, tracklets_per_clip=15, chunks_per_clip=20, state_size=30, action_size=20
    )
    corpus.save(tmp_path / "corpus")

    def fit(processes, callback=None):
        return JointDiscovery().fit_folder(
            tmp_path / "corpus", callback, shards=3, scratch=tmp_path, processes=processes
        )

    here, there = fit(1), fit(2)
    np.testing.assert_array_equal(here.labels_, there.labels_)
    np.testing.assert_array_equal(here.action_chunk_, there.action_chunk_)
    assert there.relaxed_objective_ == pytest.approx(here.relaxed_objective_, rel=1e-6)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-6)
    assert there.n_iter_ == here.n_iter_

    def kill_one(progress):
        multiprocessing.active_children()[0].kill()

    with pytest.raises(WorkerError, match="died with exit code -9"):
        fit(2, kill_one)
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
