"""How fast the solver is, as ratios measured in one run: ``python -m benchmarks.solver``.

At the paper's size (47 clips, 1,400 x 8,192 and 2,350 x 3,000) the whole fit, rounding included,
stands beside pure BLAS (the Gram matrices and Cholesky factors alone, which no exact method can do
without) and beside the authors' full-step schedule. All of these solve one problem, the paper's:
its nu in seconds, and its rounding for labels. So do 630 full steps of ours, the same number as the
schedule has. Further rows are of our own settings, which are another problem (nu in lengths of
clips, labels by scores held out), with and without the verdict. Times are medians of runs taken in
turns, peak memory is taken in processes of their own. CPU seconds are those of all threads: with
``OMP_NUM_THREADS=1`` they compare well on a busy machine. Then what restarts and the verdict cost
in single fits, the time per pass for 1, 4 and 16 times as many clips, and for chains of 2 to 5
states.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from objectstates.base.choices import PAPER

if TYPE_CHECKING:
    from benchmarks.authors import AuthorsSolution
    from objectstates.evaluation import Evaluation

RESULTS = Path(__file__).parent / "results"
REPEATS = 5


def paper_size() -> Any:
    from objectstates.data.synthetic import synthetic_corpus

    return synthetic_corpus(
        n_clips=47,
        tracklets_per_clip=[30] * 37 + [29] * 10,
        chunks_per_clip=50,
        state_size=8192,
        action_size=3000,
    )


# --- times, interleaved so that a busy moment hits all alike ----------------------------------


class Floor:
    """Gram matrices and Cholesky factors on the smaller side, in float64, already widened."""

    def __init__(self, corpus: Any) -> None:
        self.wide = [
            np.ascontiguousarray(features, np.float64).T
            for features in (corpus.tracklets.features, corpus.chunks.features)
        ]

    def run(self) -> None:
        from scipy.linalg import blas, lapack

        for x in self.wide:
            gram = blas.dsyrk(1.0, x, trans=1, lower=1)
            gram[np.diag_indices(len(gram))] += 1.0
            lapack.dpotrf(gram, lower=1, clean=0, overwrite_a=1)

    def facts(self) -> dict[str, Any]:
        return {}


SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {**PAPER, "verdict": False},
    "full": {**PAPER, "verdict": False, "solver": "full"},
    "ours": {"verdict": False},
    "ours_judged": {},
}
"""The settings of fits by name; "paper" and "full" have the objective and labels of `Authors`."""

STEPS = 630  # of the authors' schedule: 30 without coupling and 600 with it


class Fit:
    """The whole fit, labelling included, to a relative duality gap or a number of passes."""

    def __init__(self, corpus: Any, settings: str, tol: float, passes: int = 2000) -> None:
        from objectstates.discovery.estimator import JointDiscovery

        self.corpus = corpus
        self.model = JointDiscovery(tol=tol, max_passes=passes, **SETTINGS[settings])

    def run(self) -> None:
        self.model.fit(self.corpus)

    def facts(self) -> dict[str, Any]:
        from objectstates.evaluation import evaluate

        scores = evaluate(self.model.result_, self.corpus)
        return {
            "relative_gap": self.model.gap_ / self.model.relaxed_objective_,
            "passes": self.model.n_iter_,
            "relaxed": self.model.relaxed_objective_,
            "rounded": self.model.objective_,
            "state_precision": scores.state_precision,
            "action_precision": scores.action_precision,
        }


class Restarts(Fit):
    """Three runs from different random labels, which share one factorisation."""

    def __init__(self, corpus: Any) -> None:
        super().__init__(corpus, "ours", 0.01)
        self.model.restarts = 3


class Verdict:
    """The fits to parts of the clips that the verdict takes, their predictions and evidence."""

    def __init__(self, corpus: Any) -> None:
        from objectstates.discovery.estimator import JointDiscovery
        from objectstates.discovery.fit_steps import discover, pose_clips
        from objectstates.discovery.in_memory import KeptFactors
        from objectstates.discovery.solver_runs import Stopper, Stopwatch

        self.corpus, self.model, self.factors = corpus, JointDiscovery(), KeptFactors()
        pose = pose_clips(self.model, corpus, kept=self.factors)
        self.found = discover(self.model, corpus, pose, Stopper(None), Stopwatch(), {})

    def run(self) -> None:
        from objectstates.discovery.fit_steps import with_verdict

        with_verdict(self.model, self.corpus, self.found, {}, self.factors)

    def facts(self) -> dict[str, Any]:
        return {}


class Authors:
    """The authors' schedule in NumPy (``benchmarks/authors.py``)."""

    def __init__(self, corpus: Any, steps: int = 600) -> None:
        self.corpus, self.steps = corpus, steps

    def run(self) -> None:
        from benchmarks.authors import solve_as_authors

        self.answer = solve_as_authors(self.corpus, steps=self.steps)

    def facts(self) -> dict[str, Any]:
        answer = self.answer
        scores = scores_of(answer, self.corpus)
        return {
            "relative_gap": answer.gap / answer.relaxed,
            "passes": 30 + self.steps,
            "relaxed": answer.relaxed,
            "rounded": answer.rounded,
            "state_precision": scores.state_precision,
            "action_precision": scores.action_precision,
        }


def scores_of(answer: AuthorsSolution, corpus: Any) -> Evaluation:
    """The precision of the authors' labels, by the same measure as ours."""
    from objectstates.evaluation import Evaluation
    from objectstates.evaluation.precision import score_clip

    rows = []
    for n in range(len(corpus)):
        y = answer.y[list(corpus.tracklet_rows(n))]
        state = np.where(y[:, 0] > 0, 1, np.where(y[:, 1] > 0, 2, 0))
        chunk = int(answer.z[list(corpus.chunk_rows(n))].argmax())
        rows.append(score_clip(corpus, n, state, chunk))
    return Evaluation(tuple(rows))


Name = TypeVar("Name", str, int)


def timed(contestants: Mapping[Name, Any], repeats: int) -> dict[Name, dict[str, Any]]:
    """Median seconds of each, and of the processor, taken in turns."""
    seconds: dict[Name, list[float]] = {name: [] for name in contestants}
    cpu: dict[Name, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, contestant in contestants.items():
            begin, begin_cpu = time.perf_counter(), time.process_time()
            contestant.run()
            seconds[name].append(time.perf_counter() - begin)
            cpu[name].append(time.process_time() - begin_cpu)
    return {
        name: {
            "seconds": median(seconds[name]),
            "cpu_seconds": median(cpu[name]),
            **contestant.facts(),
        }
        for name, contestant in contestants.items()
    }


# --- peak memory, each in a process of its own ---------------------------------------------------


def peak_memory(name: str, *args: Any) -> dict[str, float]:
    """Megabytes on top of the imported interpreter, the features themselves included."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_measure_memory, args=(name, args, theirs))
    process.start()
    theirs.close()
    try:
        return dict(ours.recv())
    except EOFError:
        sys.exit(f"{name} failed")
    finally:
        process.join()


def _measure_memory(name: str, args: tuple[Any, ...], pipe: Any) -> None:
    warm_up()
    corpus = paper_size()  # made once before, so that making it does not count
    features = corpus.tracklets.features.nbytes + corpus.chunks.features.nbytes
    without_features = _status("VmRSS") - features
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    globals()[name](corpus, *args).run()
    peak = _status("VmHWM") - without_features
    pipe.send({"peak_mb": peak / 2**20, "peak_to_features": peak / features})


def _status(name: str) -> int:
    """Bytes of memory as Linux counts them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def warm_up() -> None:
    """Load the compiled kernels, for both forms of the factorisation."""
    from objectstates.data.synthetic import synthetic_corpus
    from objectstates.discovery.estimator import JointDiscovery

    for size in (64, 400):
        small = synthetic_corpus(n_clips=3, state_size=size, action_size=size)
        JointDiscovery(max_passes=75).fit(small)


# --- further fits of the same clips --------------------------------------------------------------


def demo_size() -> Any:
    """As many clips and rows, of the same sizes, as the demo has."""
    from objectstates.data.synthetic import synthetic_corpus

    return synthetic_corpus(
        n_clips=14,
        tracklets_per_clip=[9] * 9 + [10] * 5,
        chunks_per_clip=[19] * 12 + [20] * 2,
        state_size=5568,
        action_size=1362,
    )


def in_single_fits(corpora: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What two more restarts, and the twelve fits of the verdict, cost in single fits."""
    rows = []
    for size, corpus in corpora.items():
        contestants = {
            "fit": Fit(corpus, "ours", 0.01),
            "restarts": Restarts(corpus),
            "verdict": Verdict(corpus),
        }
        times = timed(contestants, REPEATS)
        row: dict[str, Any] = {"size": size}
        for unit in ("seconds", "cpu_seconds"):
            fit = times["fit"][unit]
            row |= {
                f"fit_{unit}": fit,
                f"two_restarts_{unit}_in_fits": times["restarts"][unit] / fit - 1,
                f"verdict_{unit}_in_fits": times["verdict"][unit] / fit,
            }
        rows.append(row)
    return rows


# --- growth and start-up -------------------------------------------------------------------------


def growth(size: int = 256, passes: int = 100) -> list[dict[str, Any]]:
    """Time per pass (steps, objective, rounding) for ever more clips at a fixed feature size."""
    from objectstates.data.synthetic import synthetic_corpus
    from objectstates.discovery.estimator import JointDiscovery

    rows = []
    for times in (1, 4, 16):
        corpus = synthetic_corpus(n_clips=47 * times, state_size=size, action_size=size)
        model = JointDiscovery(tol=1e-9, max_passes=passes, verdict=False)
        seconds = median(
            model.fit(corpus).result_.summary["seconds"]["solve"] / passes for _ in range(3)
        )
        rows.append(
            {
                "clips": len(corpus),
                "tracklets": len(corpus.tracklets.start),
                "chunks": len(corpus.chunks.start),
                "ms_per_pass": 1e3 * seconds,
                "us_per_pass_and_clip": 1e6 * seconds / len(corpus),
            }
        )
    return rows


def chains(size: int = 256, passes: int = 60) -> list[dict[str, Any]]:
    """Time per pass (steps, objective, rounding) of chains of K states, in turns, to that of K = 2.

    The rounding alone is timed as well: it is exact over all ordered actions.
    """
    solvers = {k: _Chain(k, size, passes) for k in (2, 3, 4, 5)}
    for solver in solvers.values():
        solver.run()  # compiles
    times = timed(solvers, REPEATS)
    roundings = timed({k: _Rounding(solver) for k, solver in solvers.items()}, REPEATS)
    rows = []
    for k, row in times.items():
        rows.append(
            {
                "states": k,
                "ms_per_pass": 1e3 * row["seconds"] / passes,
                "to_two_states": row["seconds"] / times[2]["seconds"],
                "per_state": row["seconds"] / times[2]["seconds"] * 2 / int(k),
                "ms_of_rounding": 1e3 * roundings[k]["seconds"] / _Rounding.count,
            }
        )
    return rows


class _Chain:
    """Passes at full coupling over 47 clips of 30 tracklets and 50 chunks, rounded each time."""

    def __init__(self, n_states: int, size: int, passes: int) -> None:
        from objectstates.solver.cost import factorise
        from objectstates.solver.in_memory import InMemoryProblem
        from objectstates.solver.oracle import one_row, ordered_states
        from objectstates.solver.problem import JointProblem, make_side

        rng, sides = np.random.default_rng(n_states), []
        for rows, k in ((50, n_states - 1), (30, n_states)):
            offsets = rows * np.arange(48)
            start = np.tile(np.linspace(0, 10, rows, endpoint=False), 47)
            end, linear = start + 10 / rows, np.zeros((len(start), k))
            if k == 1:
                constraints = one_row(offsets, linear=linear, times=(start + end) / 2)
            else:
                constraints = ordered_states(
                    start, end, offsets, linear=linear, exactly_one=k < n_states
                )
            looks = rng.standard_normal((k, size))[(start / 10 * k).astype(int)]
            features = looks + 2 * rng.standard_normal((len(start), size))
            sides.append(make_side(factorise(features, 1e-2), constraints))
        self._passes = passes
        self.problem = InMemoryProblem(JointProblem(sides[0], sides[1], 0.3), self._no_classifier)

    def run(self) -> None:
        self.problem.start(0)
        for _ in range(self._passes):
            self.problem.run_pass("block", 1.0)
            self.problem.round()

    def facts(self) -> dict[str, Any]:
        return {}

    @staticmethod
    def _no_classifier(*_: Any) -> Any:
        raise AssertionError("passes need no classifier")


class _Rounding:
    """Roundings at the point where a chain's passes ended."""

    count = 20

    def __init__(self, chain: _Chain) -> None:
        self._chain = chain

    def run(self) -> None:
        for _ in range(self.count):
            self._chain.problem.round()

    def facts(self) -> dict[str, Any]:
        return {}


class _Command:
    def __init__(self, words: list[str]) -> None:
        self.words = words

    def run(self) -> None:
        subprocess.run(self.words, check=True, capture_output=True)

    def facts(self) -> dict[str, Any]:
        return {}


def start_up() -> dict[str, float]:
    """Seconds to import the package and to print the help, in fresh processes."""
    commands = {
        "import": [sys.executable, "-c", "import objectstates"],
        "help": [sys.executable, "-m", "objectstates", "--help"],
    }
    return {
        name: timed({name: _Command(command)}, REPEATS)[name]["seconds"]
        for name, command in commands.items()
    }


# --- the tables ----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the authors' schedule")
    options = parser.parse_args()
    warm_up()
    corpus = paper_size()
    fits: dict[str, tuple[Any, ...]] = {
        "paper's problem, to 10 %": ("paper", 0.10),
        "paper's problem, to 1 %": ("paper", 0.01),
        "our settings, to 1 %": ("ours", 0.01),
        "our settings, with verdict": ("ours_judged", 0.01),
    }
    solvers = {name: Fit(corpus, *settings) for name, settings in fits.items()}
    rows = timed({"BLAS floor": Floor(corpus), **solvers}, REPEATS)
    for name, settings in fits.items():
        rows[name] |= peak_memory("Fit", *settings)
    if not options.quick:
        full = {"paper's problem, 630 full steps": Fit(corpus, "full", 1e-12, STEPS)}
        rows |= timed({**full, "authors' schedule": Authors(corpus)}, 1)
        rows["authors' schedule"] |= peak_memory("Authors")
    for row in rows.values():
        for unit in ("", "cpu_"):
            row[f"{unit}to_floor"] = row[f"{unit}seconds"] / rows["BLAS floor"][f"{unit}seconds"]
        if "authors' schedule" in rows:
            row["faster_than_authors"] = rows["authors' schedule"]["seconds"] / row["seconds"]
    report = {
        "paper_size": rows,
        "restarts and halves of the verdict": in_single_fits(
            {"paper": corpus, "demo": demo_size()}
        ),
        "growth": growth(),
        "chains": chains(),
        "start_up_seconds": start_up(),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "solver.json").write_text(json.dumps(report, indent=1) + "\n")
    show(report)


def show(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=160)
    columns = ("seconds", "to_floor", "cpu_seconds", "cpu_to_floor", "faster_than_authors",
               "peak_mb", "peak_to_features", "relative_gap", "passes", "relaxed", "rounded",
               "state_precision", "action_precision")  # fmt: skip
    table = Table(title="47 clips, 1,400 x 8,192 and 2,350 x 3,000")
    for column in ("", *columns):
        table.add_column(column.replace("_", " "))
    for name, row in report["paper_size"].items():
        table.add_row(name, *(f"{row[c]:.4g}" if c in row else "" for c in columns))
    console.print(table)
    titles = {
        "restarts and halves of the verdict": "restarts and halves of the verdict, in single fits",
        "growth": "time per pass: growth",
        "chains": "time per pass: chains",
    }
    for part, title in titles.items():
        names = [name.replace("_", " ") for name in report[part][0]]
        table = Table(*names, title=title)
        for row in report[part]:
            table.add_row(*(v if isinstance(v, str) else f"{v:.4g}" for v in row.values()))
        console.print(table)
    seconds = report["start_up_seconds"]
    console.print(f"import {seconds['import']:.2f} s, --help {seconds['help']:.2f} s")


if __name__ == "__main__":
    main()
