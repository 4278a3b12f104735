"""A Ray cluster for tests: three nodes (separate processes) of one core on this machine.

Tests may kill nodes; the next test gets a full cluster again. No test waits without a limit.
"""

import faulthandler
import signal

import pytest

SECONDS = 600  # per test: none takes a twentieth of it, but machines may be busy
ALL_SECONDS = 3000


class Nodes:
    """The cluster; ``others`` are the nodes beside the head, which can be killed."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        self.small = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **self.small})
        self.address = self.cluster.address
        self.others = []
        self.restore()

    def restore(self):
        """Two nodes of one core beside the head, and no killed one that Ray still counts."""
        while len(self.others) > 2:  # added by a test that failed before it killed them
            self.kill(self.others[-1])
        while len(self.others) < 2:
            self.add(num_cpus=1)
        self.cluster.wait_for_nodes(timeout=120)

    def add(self, **resources):
        node = self.cluster.add_node(**resources, **self.small)
        self.others.append(node)
        return node

    def kill(self, node):
        self.others.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)

    def at_work(self):
        """The killable nodes where an actor of ours lives."""
        import ray

        actors = ray._private.state.actors().values()
        places = {a["Address"]["NodeID"] for a in actors if a["State"] == "ALIVE"}
        return [node for node in self.others if node.node_id in places]


@pytest.fixture(scope="package")
def started():
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'objectstates[ray]'")
    # A start that hangs ends in the traceback of every thread, and ends the run.
    faulthandler.dump_traceback_later(ALL_SECONDS, exit=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # others may fill this machine's memory
        try:
            nodes = Nodes()
        except Exception as problem:  # Ray's own: nothing of ours has run yet
            pytest.skip(f"Ray does not start here: {problem}")
        yield nodes
        ray.shutdown()
        nodes.cluster.shutdown()
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def nodes(started):
    """A full cluster that this process is not connected to; a test that hangs fails."""
    import ray

    def too_long(*_):
        pytest.fail(f"not done after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    started.restore()
    yield started
    ray.shutdown()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


class Occupant:
    """An actor that only occupies a core."""

    def is_up(self):
        return True


@pytest.fixture
def occupied(connected, monkeypatch):
    """A cluster without a free core; waiting for one is given up soon."""
    import ray

    monkeypatch.setattr("objectstates.parallel.ray_pool.PLACING_SECONDS", 3.0)
    occupants = [ray.remote(num_cpus=1)(Occupant).remote() for _ in range(3)]
    assert ray.get([occupant.is_up.remote() for occupant in occupants], timeout=60) == [True] * 3
    yield connected
    for occupant in occupants:
        ray.kill(occupant)


@pytest.fixture
def connected(nodes):
    import ray

    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    return nodes
