import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from objectstates import JointDiscovery
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.solver_runs import CHAIN_RESTARTS, Run, choose, restart_seed, typical
from objectstates.solver.frank_wolfe import Rounding, Solution
from objectstates.solver.problem import Terms

ROOT = Path(__file__).parents[2]

SCRIPT = """
import hashlib, json, sys, tempfile
from pathlib import Path
from objectstates import JointDiscovery, read_authors
from objectstates.data.synthetic import synthetic_corpus

def digest(model):
    result = model.result_
    return hashlib.sha256(result.action_chunk.tobytes() + result.state.tobytes()).hexdigest()

found = {}
if len(sys.argv) > 1:
    corpus = read_authors(sys.argv[1])
    found["authors"] = digest(JointDiscovery().fit(corpus))
    found["authors, their settings"] = digest(JointDiscovery.paper(nu=0.5).fit(corpus))
else:
    corpus = synthetic_corpus(n_clips=12, noise=0.5, seed=0)
    found["memory"] = digest(JointDiscovery().fit(corpus))
    found["paper"] = digest(JointDiscovery.paper().fit(corpus))
    found["full"] = digest(JointDiscovery.paper(solver="full", max_passes=100).fit(corpus))
    wide = synthetic_corpus(n_clips=5, state_size=600, action_size=400, seed=1)
    found["more features than rows"] = digest(JointDiscovery(max_passes=150).fit(wide))
    with tempfile.TemporaryDirectory() as folder:
        corpus.save(Path(folder) / "corpus")
        for shards in (1, 2):
            model = JointDiscovery(max_passes=100)
            model.fit_folder(Path(folder) / "corpus", shards=shards)
            found[f"{shards} shards"] = digest(model)
print(json.dumps(found))
"""

THREADS_AND_KINDS = [("1", "Haswell"), ("2", ""), ("4", "Nehalem")]


def labels(action, state):
    return np.array(action, np.int8), np.array(state, np.int8)


def test_the_labels_that_others_share_are_typical():
    odd = labels([0, 1, 0], [0, 2, 1, 2])
    usual = labels([1, 0, 0], [1, 2, 0, 0])
    near = labels([1, 0, 0], [1, 0, 2, 0])
    assert typical([odd, usual, near, usual]) == 1
    assert typical([odd, usual]) == 0  # the first of equal ones
    assert typical([odd]) == 0


def test_one_side_may_be_absent():
    assert typical([labels([], [1, 2, 0]), labels([], [1, 0, 2]), labels([], [1, 0, 2])]) == 1


def run_at(total, chunk):
    """A run that ended at this relaxed objective, with the action at a chunk of four."""
    action = np.zeros(4, np.int8)
    action[chunk] = 1
    terms = Terms(total, 0.0, 0.0)
    rounding = Rounding(action, np.zeros(0, np.int8), np.zeros((4, 1)), np.zeros((0, 2)), dict)
    return Run(rounding, Solution(terms, 0.0, 1, True, terms, 1), [])


def test_runs_that_end_clearly_higher_are_dropped_however_many_agree():
    higher = [run_at(1.2, 0)] * 3
    assert choose([*higher, run_at(1.0, 2)]) == 3
    assert choose([run_at(1.0, 2), *higher]) == 0
    assert choose([run_at(1.0, 2), *[run_at(1.01, 0)] * 3]) == 1  # not clearly


def test_a_chain_has_more_restarts_and_a_single_change_one():
    def restarts(changes, **settings):
        seen = set()
        model = JointDiscovery(changes=changes, verdict=False, **settings)
        corpus = synthetic_corpus(n_clips=4, changes=changes, noise=0.5)
        model.fit(corpus, callback=lambda progress: seen.add(progress.restart))
        return len(seen)

    assert restarts(1) == 1
    assert restarts(2) == CHAIN_RESTARTS
    assert restarts(2, restarts=2) == 2


def test_restarts_of_two_seeds_have_no_start_in_common():
    starts = [restart_seed(seed, restart) for seed in range(20) for restart in range(8)]
    assert len(set(starts)) == len(starts)


def test_more_restarts_agree_better_between_seeds():
    corpus = synthetic_corpus(n_clips=10, noise=1.5, seed=3)

    def spread(restarts):
        found = [
            JointDiscovery(seed=seed, restarts=restarts).fit(corpus).labels_ for seed in range(4)
        ]
        return np.mean([(a != b).mean() for a in found for b in found])

    assert spread(8) <= spread(1)


# --- threads and processors: BLAS reads the variables when it is loaded, hence the processes ------


def labels_with(threads: str, kind: str, *arguments: str) -> dict[str, str]:
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    if kind and platform.machine() in ("x86_64", "AMD64"):
        variables["OPENBLAS_CORETYPE"] = kind
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, *arguments],
        env=variables, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(json.loads(done.stdout))


def test_threads_and_processors_do_not_change_labels():
    first, *others = [labels_with(*each) for each in THREADS_AND_KINDS]
    for other in others:
        assert other == first


@pytest.mark.reference
def test_they_do_not_change_those_of_the_authors_problem(shared):
    path = str(shared / "reference" / "features_S.mat")
    first, *others = [labels_with(*each, path) for each in THREADS_AND_KINDS]
    for other in others:
        assert other == first
