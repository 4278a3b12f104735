"""On a Ray cluster of several nodes, with one of them killed, the outcome is the same."""

import os
import time
from functools import partial

import numpy as np
import pytest

from objectstates import JointDiscovery
from objectstates.engine import run_all
from objectstates.errors import CorpusError, SettingError, VideoError
from objectstates.synthetic import synthetic_corpus
from tests.test_engine import Squarer, Unmakeable

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'objectstates[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, of which there are many


@pytest.fixture
def cluster():
    """Three nodes (processes that know nothing of each other) with a core each, on this machine."""
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    memory = 80 * 2**20
    nodes = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": memory}
    )
    others = [nodes.add_node(num_cpus=1, object_store_memory=memory) for _ in range(2)]
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    yield nodes, others
    ray.shutdown()
    nodes.shutdown()


class Slow:
    """A worker that says where it ran."""

    def __call__(self, item, tick):
        tick(1)
        time.sleep(0.3)
        return item * item, ray.get_runtime_context().get_node_id()


def test_items(cluster, tmp_path):
    nodes, others = cluster
    ticks = []
    outcomes = run_all(
        partial(Squarer, tmp_path), [3, "bad", "dies once", "bug", "dies", 5],
        ray_address="auto", on_ticks=ticks.append,
    )  # fmt: skip
    assert [o.value for o in outcomes] == [9, None, "alive", None, None, 25]
    assert outcomes[1].failure == "cannot be squared"
    assert outcomes[3].failure == "unexpected ZeroDivisionError: oops"
    assert "died twice" in outcomes[4].failure
    assert ticks[-1] >= 2
    with pytest.raises(VideoError, match="no such detector"):
        run_all(Unmakeable, [1, 2, 3], ray_address="auto")

    def lose_a_node(index, outcome):
        if len(seen) == 0:
            nodes.remove_node(others[0], allow_graceful=False)
        seen.append(index)

    seen = []
    outcomes = run_all(Slow, list(range(12)), ray_address="auto", on_done=lose_a_node)
    assert [o.value[0] for o in outcomes] == [n * n for n in range(12)]
    assert sorted(seen) == list(range(12))
    assert len({o.value[1] for o in outcomes}) >= 2  # not all on one node


def test_a_fit_survives_the_loss_of_a_node_unchanged(cluster, tmp_path):
    nodes, others = cluster
    corpus = synthetic_corpus(
        n_clips=12, tracklets_per_clip=15, chunks_per_clip=20, state_size=30, action_size=20
    )
    corpus.save(tmp_path / "corpus")
    here = JointDiscovery().fit_folder(tmp_path / "corpus", shards=2, scratch=tmp_path)
    there = JointDiscovery().fit_folder(
        tmp_path / "corpus", shards=2, scratch=tmp_path, ray_address="auto"
    )
    assert_same(here, there)
    told = []

    def lose_a_node(progress):
        if progress.passes == 55:
            told.extend(node for node in others if node.node_id in nodes_with_a_shard())
            nodes.remove_node(told[0], allow_graceful=False)

    after = JointDiscovery().fit_folder(
        tmp_path / "corpus", lose_a_node, shards=2, scratch=tmp_path, ray_address="auto"
    )
    assert told
    assert_same(here, after)
    with pytest.raises(SettingError, match="no files can be written in"):
        JointDiscovery().fit_folder(
            tmp_path / "corpus", scratch=tmp_path / "missing", ray_address="auto"
        )
    (tmp_path / "corpus" / "tracklets.parquet").unlink()
    with pytest.raises(CorpusError, match="is missing"):
        JointDiscovery().fit_folder(tmp_path / "corpus", ray_address="auto")


def nodes_with_a_shard():
    actors = ray._private.state.actors().values()
    return {a["Address"]["NodeID"] for a in actors if a["State"] == "ALIVE"}


def assert_same(one, other):
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_array_equal(one.action_chunk_, other.action_chunk_)
    assert one.relaxed_objective_ == pytest.approx(other.relaxed_objective_, rel=1e-9)
    assert one.gap_ == pytest.approx(other.gap_, rel=1e-6)
    assert one.n_iter_ == other.n_iter_
