"""Actors on a real Ray cluster, some nodes of which are killed."""

import os
import signal

import numpy as np
import pytest

from objectstates import Corpus, JointDiscovery
from objectstates.base.errors import CorpusError, SettingError, VideoError
from objectstates.data.result import Result
from objectstates.data.synthetic import synthetic_corpus
from objectstates.parallel.ray_actors import RayActors, Replay
from tests.parallel.workers import mortals, sums

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'objectstates[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, of which there are many

REPLAY = Replay(
    mutating=frozenset({"base", "reset", "add"}), reset="reset", setup=frozenset({"base"})
)


def test_a_lost_actor_repeats_the_calls_that_matter_and_no_other_actor_does(connected, tmp_path):
    with RayActors(ray, mortals(tmp_path), REPLAY) as actors:
        actors.call("base", [(2,)] * 3)
        actors.call("add", [(100,)] * 3)
        actors.call("reset", [()] * 3)
        actors.call("add", [(1,), (2,), (3,)])
        assert actors.call("dies", [(0,), (2,), (0,)]) == [2, 4, 6]
        assert actors.rebuilt == 2
        os.kill(actors.call("pid", [()] * 3)[2], signal.SIGKILL)
        assert actors.call("add", [(1,)] * 3) == [4, 6, 8]
        assert actors.rebuilt == 3
    calls = [len((tmp_path / f"calls{n}").read_text()) for n in range(3)]
    assert calls == [3, 5, 4]  # calls before the reset are not repeated
    assert len(list(tmp_path.glob("closed*"))) == 3


def test_an_actor_that_always_dies_or_cannot_be_created_is_an_error(connected, tmp_path):
    with (
        RayActors(ray, mortals(tmp_path), REPLAY) as actors,
        pytest.raises(SettingError, match="lost 4 times: too little memory"),
    ):
        actors.call("dies", [(99,), (0,), (0,)])
    with (
        RayActors(ray, sums(tmp_path, (0, 99)), REPLAY) as actors,
        pytest.raises(VideoError, match="cannot be made"),
    ):
        actors.call("add", [(1,)] * 2)


def test_no_room_for_actors_is_an_error(occupied, tmp_path):
    small_corpus().save(tmp_path / "corpus")
    with pytest.raises(SettingError, match=r"of 2 shards found no room .* fewer `shards`"):
        JointDiscovery().fit_folder(
            tmp_path / "corpus", shards=2, scratch=tmp_path, ray_address="auto"
        )


def small_corpus() -> Corpus:
    return synthetic_corpus(
        n_clips=12, tracklets_per_clip=15, chunks_per_clip=20, state_size=30, action_size=20
    )


def small_cycle() -> Corpus:
    """Clips of closed, open, closed, some of which are not closed again."""
    sizes = {"tracklets_per_clip": 15, "chunks_per_clip": 20, "state_size": 30, "action_size": 20}
    return synthetic_corpus(12, noise=0.5, changes=2, pattern="ABA", leave_out=0.25, **sizes)


def assert_same(one: Result, other: Result):
    np.testing.assert_array_equal(one.state, other.state)
    np.testing.assert_array_equal(one.actions.chunk, other.actions.chunk)
    for name in ("relaxed_objective", "rounded_objective"):
        assert one.summary[name] == pytest.approx(other.summary[name], rel=1e-6)
    assert one.summary["objective"] == pytest.approx(other.summary["objective"], rel=1e-6)
    assert one.summary["duality_gap"] == pytest.approx(other.summary["duality_gap"], rel=1e-6)
    assert one.summary["passes"] == other.summary["passes"]


CYCLE = ["--changes", 2, "--states", "closed,open,closed", "--optional", 2]


@pytest.mark.parametrize("chain", [[], CYCLE], ids=["single", "cycle"])
def test_a_fit_finds_the_same_everywhere(nodes, tmp_path, run, chain):
    corpus = small_cycle() if chain else small_corpus()
    corpus.save(tmp_path / "corpus")
    words = ["fit", tmp_path / "corpus", "--out-of-core", "--shards", 2, *chain]
    engines = {
        "local": [],
        "processes": ["--engine", "processes"],
        "ray": ["--engine", "ray", "--ray-address", nodes.address],
    }
    found = {}
    for name, options in engines.items():
        code, _, err = run(*words, *options, "--out", tmp_path / name)
        assert code == 0, err
        found[name] = Result.load(tmp_path / name)
    assert_same(found["local"], found["processes"])
    assert_same(found["local"], found["ray"])
    assert not list(tmp_path.glob(".objectstates-*"))


def test_a_node_killed_in_mid_fit_changes_nothing(connected, tmp_path):
    small_corpus().save(tmp_path / "corpus")
    shards = 4  # more than cores
    here = JointDiscovery().fit_folder(tmp_path / "corpus", shards=shards, scratch=tmp_path)
    killed = []

    def lose_a_node(progress):
        if progress.passes == 55:
            killed.append(connected.at_work()[0])
            connected.kill(killed[0])

    after = JointDiscovery().fit_folder(
        tmp_path / "corpus", lose_a_node, shards=shards, scratch=tmp_path, ray_address="auto"
    )
    assert killed
    assert_same(here.result_, after.result_)


def test_a_users_mistakes_in_a_fit_are_told_as_they_are_here(connected, tmp_path):
    small_corpus().save(tmp_path / "corpus")
    with pytest.raises(SettingError, match="`scratch`: no files can be written in"):
        JointDiscovery().fit_folder(
            tmp_path / "corpus", scratch=tmp_path / "missing", ray_address="auto"
        )
    (tmp_path / "corpus" / "tracklets.parquet").unlink()
    with pytest.raises(CorpusError, match="is missing"):
        JointDiscovery().fit_folder(tmp_path / "corpus", ray_address="auto")
