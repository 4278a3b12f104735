"""Objects that stay, in threads or in processes: the same answers, also after deaths."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from objectstates import JointDiscovery
from objectstates.base.errors import SettingError, VideoError
from objectstates.data.synthetic import synthetic_corpus
from objectstates.parallel.actors import Memory, ProcessCrew
from objectstates.parallel.pool import crew_of
from tests.parallel.test_pool import is_running

MEMORY = Memory(
    changing=frozenset({"base", "reset", "add"}), fresh="reset", lasting=frozenset({"base"})
)


class Sum:
    """Adds up what it is told; can be told to die, as often as there are lives in its folder."""

    def __init__(self, folder: Path, number: int):
        if number == 99:
            raise VideoError("cannot be made")
        self.folder, self.number, self.factor, self.total = folder, number, 1, 0

    def base(self, factor):
        self.factor = factor

    def reset(self):
        self.total = 0

    def add(self, amount):
        with (self.folder / f"calls{self.number}").open("a") as file:
            file.write("x")
        self.total += self.factor * amount
        return self.total

    def dies(self, times):
        """Before it answers, so many times in all."""
        deaths = self.folder / f"deaths{self.number}"
        count = len(deaths.read_text()) if deaths.exists() else 0
        if count < times:
            deaths.write_text("x" * (count + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return self.total

    def fails(self):
        raise VideoError(f"{self.number} cannot")

    def sleeps(self):
        time.sleep(60)

    def pid(self):
        return os.getpid()

    def close(self):
        (self.folder / f"closed{self.number}").touch()


def makers(folder, numbers=(0, 1, 2)):
    return [partial(Sum, folder, number) for number in numbers]


@pytest.mark.parametrize("processes", [False, True])
def test_answers_are_the_same_in_threads_and_processes(tmp_path, processes):
    with crew_of(makers(tmp_path), MEMORY, processes=processes) as crew:
        crew.ask("base", [(2,)] * 3)
        assert crew.ask("add", [(1,), (2,), (3,)]) == [2, 4, 6]
        assert crew.ask("add", [(1,), (1,), (1,)]) == [4, 6, 8]
        crew.ask("reset", [()] * 3)
        assert crew.ask("add", [(5,)] * 3) == [10, 10, 10]
        with pytest.raises(VideoError, match="0 cannot"):
            crew.ask("fails", [()] * 3)
        assert crew.ask("add", [(0,)] * 3) == [10, 10, 10]  # no answer was left over
        pids = crew.ask("pid", [()] * 3)
        assert len(set(pids)) == (3 if processes else 1)
    assert len(list(tmp_path.glob("closed*"))) == 3
    assert not processes or not any(map(is_running, pids))


def test_who_dies_is_told_again_what_matters_and_nobody_else_is(tmp_path):
    with ProcessCrew(makers(tmp_path), MEMORY) as crew:
        crew.ask("base", [(2,)] * 3)
        crew.ask("add", [(100,)] * 3)
        crew.ask("reset", [()] * 3)
        crew.ask("add", [(1,), (2,), (3,)])
        assert crew.ask("dies", [(0,), (2,), (0,)]) == [2, 4, 6]
        assert crew.rebuilt == 2
        os.kill(crew.ask("pid", [()] * 3)[2], signal.SIGKILL)
        assert crew.ask("add", [(1,)] * 3) == [4, 6, 8]
        assert crew.rebuilt == 3
    calls = [len((tmp_path / f"calls{n}").read_text()) for n in range(3)]
    assert calls == [3, 5, 4]  # what was before the reset is not done again


def test_who_always_dies_and_who_cannot_be_made_end_it(tmp_path):
    with (
        ProcessCrew(makers(tmp_path), MEMORY) as crew,
        pytest.raises(SettingError, match="lost 4 times: too little memory"),
    ):
        crew.ask("dies", [(99,), (0,), (0,)])
    with (
        ProcessCrew(makers(tmp_path, (0, 99)), MEMORY) as crew,
        pytest.raises(VideoError, match="cannot be made"),
    ):
        crew.ask("add", [(1,)] * 2)


def test_an_interrupt_does_not_wait_for_what_is_in_work(tmp_path):
    crew = ProcessCrew(makers(tmp_path), MEMORY).__enter__()
    pids = crew.ask("pid", [()] * 3)
    crew._send(1, "sleeps", ())
    begun = time.monotonic()
    crew.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert time.monotonic() - begun < 30
    assert not any(map(is_running, pids))


@pytest.mark.parametrize("processes", [False, True])
def test_an_interrupted_fit_leaves_no_files(tmp_path, processes):
    synthetic_corpus(n_clips=4, state_size=5, action_size=5).save(tmp_path / "corpus")

    def interrupt(progress):
        assert len(list(tmp_path.glob("objectstates-*/state.rows"))) == 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        JointDiscovery().fit_folder(
            tmp_path / "corpus", interrupt, shards=2, scratch=tmp_path, processes=processes
        )
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_a_fit_in_processes_survives_the_death_of_one_unchanged(tmp_path):
    corpus = synthetic_corpus(
        n_clips=12, tracklets_per_clip=15, chunks_per_clip=20, state_size=30, action_size=20
    )
    corpus.save(tmp_path / "corpus")
    here = JointDiscovery().fit_folder(tmp_path / "corpus", shards=2, scratch=tmp_path)
    killed = []

    def kill_one(progress):
        if progress.passes == 55:
            killed.append(children()[0])
            os.kill(killed[0], signal.SIGKILL)

    there = JointDiscovery().fit_folder(
        tmp_path / "corpus", kill_one, shards=2, scratch=tmp_path, processes=True
    )
    assert killed
    np.testing.assert_array_equal(here.labels_, there.labels_)
    np.testing.assert_array_equal(here.action_chunk_, there.action_chunk_)
    assert there.relaxed_objective_ == pytest.approx(here.relaxed_objective_, rel=1e-6)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-6)
    assert there.n_iter_ == here.n_iter_
    for _ in range(100):
        if not list(tmp_path.glob("objectstates-*")):
            break
        time.sleep(0.1)
    assert not list(tmp_path.glob("objectstates-*"))  # nor are the files of the one that died left


def children():
    import multiprocessing

    return [process.pid for process in multiprocessing.active_children()]
