"""The same labels whatever the number of threads and the instructions that BLAS uses.

Sums in another order differ in the last digits. The library is told so before it is loaded, hence
the processes.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

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


def labels(threads: str, kind: str, *arguments: str) -> dict[str, str]:
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
    first, *others = [labels(*each) for each in THREADS_AND_KINDS]
    for other in others:
        assert other == first


@pytest.mark.reference
def test_they_do_not_change_those_of_the_authors_problem(shared):
    path = str(shared / "reference" / "features_S.mat")
    first, *others = [labels(*each, path) for each in THREADS_AND_KINDS]
    for other in others:
        assert other == first
