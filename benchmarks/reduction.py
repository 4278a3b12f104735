"""What reducing wide features saves and loses: ``python -m benchmarks.reduction``.

One synthetic corpus, fitted out of core with all features and with fewer and fewer directions of
them: the megabytes of factors on disk, the state cost of the labels with reduced and with all
features, the bound on their difference in the result, and the fraction of tracklets labelled as
without reduction.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ingest import RESULTS
from objectstates import JointDiscovery, evaluate
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.solver_runs import FitProgress
from objectstates.solver.cost import factorise
from objectstates.solver.problem import one_hot


class Watcher:
    """The most bytes that the files in a folder had after any pass."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.most = folder, 0

    def __call__(self, _: FitProgress) -> None:
        sizes = [path.stat().st_size for path in self._folder.rglob("*") if path.is_file()]
        self.most = max(self.most, sum(sizes))


def measure(n_clips: int, size: int, kept: list[int], folder: Path) -> list[dict[str, float]]:
    """A row for all features, then one for each number of directions."""
    corpus = synthetic_corpus(
        n_clips=n_clips, chunks_per_clip=20, state_size=size, action_size=min(size, 128)
    )
    corpus.save(folder / "corpus")
    scratch = folder / "scratch"
    scratch.mkdir()
    model = JointDiscovery(tol=0.1)
    exact = factorise(corpus.tracklets.features, model.mu)
    rows, unreduced = [], None
    for reduce in (None, *kept):
        watcher = Watcher(scratch)
        found = model.set_params(reduce=reduce).fit_folder(
            folder / "corpus", watcher, scratch=scratch
        )
        labels, summary = found.labels_, found.result_.summary
        unreduced = labels if unreduced is None else unreduced
        loss = summary.get("reduced", {}).get("state", {})
        rows.append(
            {
                "directions": loss.get("to", size),
                "megabytes": watcher.most / 1e6,
                "variance_lost": loss.get("variance_lost", 0.0),
                "state_cost": summary["objective"]["state"],
                "with_all_features": exact.value(one_hot(labels, 2)),
                "bound": loss.get("cost_error_at_most", 0.0),
                "same_labels": float(np.mean(labels == unreduced)),
                "state_precision": evaluate(found.result_, corpus).state_precision,
                "passes": found.n_iter_,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=300)
    parser.add_argument("--features", type=int, default=1024)
    parser.add_argument("--reduce", type=int, nargs="+", default=[512, 256, 64, 32])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options.clips, options.features, options.reduce, Path(folder))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "reduction.json").write_text(json.dumps(rows, indent=1) + "\n")
    show(rows)


def show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*(name.replace("_", " ") for name in rows[0]))
    for row in rows:
        table.add_row(*(f"{value:.4g}" for value in row.values()))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
