"""The command line: parse, call, print. What takes long to import is imported where it is used."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from objectstates import __version__
from objectstates.errors import CorpusError, ObjectStatesError
from objectstates.settings import ConstraintName, Solver, Target

if TYPE_CHECKING:
    from rich.table import Table

    from objectstates.corpus import Corpus
    from objectstates.discovery import FitProgress
    from objectstates.result import Result

app = typer.Typer(
    help="Find when a manipulation happens and what the object looks like before and after it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


Source = Annotated[
    Path, typer.Argument(help="A corpus folder, or a features_*.mat of the authors' release.")
]
Out = Annotated[Path, typer.Option(help="Folder to write; an earlier result there is replaced.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def main() -> NoReturn:
    """Run the command line; a user's mistake is one line on stderr and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except ObjectStatesError as problem:
        _complain(str(problem))
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted")
        code = 130
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        code = 0
    except Exception as problem:
        message = getattr(problem, "format_message", None)
        if message is None:
            raise
        _complain(f"{message()} (see objectstates --help)")
        code = 2
    sys.exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"objectstates {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of all commands."""


@app.command()
def fit(
    source: Source,
    out: Out,
    nu: Annotated[
        float, typer.Option(help="Coupling of states and action; 1 is the paper's.")
    ] = 1.0,
    mu: Annotated[float, typer.Option(help="Ridge weight of the state classifier.")] = 1e-4,
    lam: Annotated[float, typer.Option(help="Ridge weight of the action classifier.")] = 1e-2,
    detection_weight: Annotated[float, typer.Option(help="Weight of the detector's scores.")] = 0.0,
    constraint: Annotated[
        ConstraintName, typer.Option(help="Tracklets per state and clip.")
    ] = "at_least_one",
    target: Annotated[Target, typer.Option(help="What is sought.")] = "joint",
    solver: Annotated[
        Solver, typer.Option(help="Frank-Wolfe clip by clip, or the paper's full steps.")
    ] = "block",
    tol: Annotated[float, typer.Option(help="Stop at this relative duality gap ...")] = 0.01,
    max_passes: Annotated[int, typer.Option(help="... or after this many passes.")] = 500,
    restarts: Annotated[int, typer.Option(help="Runs from different random labels.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    strict: Annotated[bool, typer.Option(help="Stop if a clip cannot be labelled.")] = False,
    json: AsJson = False,
) -> None:
    """Discover the states and the action in all clips of a corpus."""
    from objectstates.discovery import JointDiscovery

    corpus = _read(source)
    model = JointDiscovery(
        nu=nu,
        mu=mu,
        lam=lam,
        detection_weight=detection_weight,
        constraint=constraint,
        target=target,
        solver=solver,
        tol=tol,
        max_passes=max_passes,
        restarts=restarts,
        seed=seed,
        on_infeasible="raise" if strict else "skip",
    )
    with _warnings_in_a_line(), _progress() as report:
        model.fit(corpus, callback=report)
    model.save(out)
    _show_result(model.result_, corpus, out, json)


@app.command()
def predict(
    result: Annotated[Path, typer.Argument(help="The result folder that fit wrote.")],
    source: Source,
    out: Out,
    json: AsJson = False,
) -> None:
    """Label clips that were not in the fit, with the classifiers it learned."""
    from objectstates.discovery import JointDiscovery

    model = JointDiscovery.load(result)
    corpus = _read(source)
    with _warnings_in_a_line():
        predicted = model.predict(corpus)
    predicted.save(out)
    _show_result(predicted, corpus, out, json)


@app.command()
def inspect(
    path: Annotated[Path, typer.Argument(help="A corpus folder, a .mat, or a result folder.")],
    json: AsJson = False,
) -> None:
    """Say what a corpus or a result holds, and what it lacks."""
    from objectstates import inspection
    from objectstates.result import HEADER, Result

    if (path / HEADER).is_file():
        facts = inspection.describe_result(Result.load(path))
    else:
        facts = inspection.describe_corpus(_read(path))
    _show(facts, json)


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Seed of the synthetic clips.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write the result to.")] = None,
) -> None:
    """Discover states and actions in synthetic clips whose truth is known, beside baselines."""
    from objectstates.baselines import chance, constraints_only
    from objectstates.discovery import JointDiscovery
    from objectstates.evaluation import evaluate
    from objectstates.synthetic import synthetic_corpus

    corpus = synthetic_corpus(n_clips=20, seed=seed, noise=1.5)
    unseen = synthetic_corpus(n_clips=20, seed=seed + 1, noise=1.5)
    print(f"{corpus}, made with seed {seed}; the labels serve to evaluate, not to learn.")
    model = JointDiscovery(seed=seed)
    with _progress() as report:
        model.fit(corpus, callback=report)
    random, constrained = chance(corpus), constraints_only(corpus, seed=seed)
    table = _table("precision", "states", "action")
    for name, scored in (
        ("chance", random),
        ("constraints only", constrained),
        ("joint discovery", evaluate(model.result_, corpus)),
        ("... on clips it has not seen", evaluate(model.predict(unseen), unseen)),
    ):
        table.add_row(name, f"{scored.state_precision:.2f}", f"{scored.action_precision:.2f}")
    _print(table)
    summary = model.result_.summary
    seconds = sum(summary["seconds"].values())
    print(f"{_certificate(summary)}, {seconds:.1f} s (the first run also compiles the kernels)")
    if out is not None:
        model.save(out)
        print(f"wrote {out}")


# --- reading and printing ------------------------------------------------------------------------


def _read(source: Path) -> Corpus:
    from objectstates.corpus import Corpus
    from objectstates.interop.authors import read_authors

    if source.is_dir():
        return Corpus.load(source)
    if not source.exists():
        raise CorpusError(f"{source} does not exist")
    if source.suffix.lower() == ".mat":
        return read_authors(source)
    raise CorpusError(f"{source} is neither a corpus folder nor a .mat file")


def _show_result(result: Result, corpus: Corpus, out: Path, json: bool) -> None:
    """All of the result's header for scripts, what matters of it for people."""
    from objectstates import inspection

    facts = {**inspection.describe_result(result), **inspection.describe_precision(result, corpus)}
    if not json:
        wanted = ("corpus", "labels", "objective", "certificate", "skipped", "seconds",
                  "state_precision", "state_recall", "action_precision")  # fmt: skip
        if "duality_gap" in facts:
            facts["certificate"] = _certificate(result.summary)
        facts = {name: facts[name] for name in wanted if name in facts}
    _show({**facts, "written_to": str(out)}, json)


def _show(facts: dict[str, Any], json: bool) -> None:
    if json:
        from json import dumps

        print(dumps(facts, indent=1))
        return
    table = _table("", "")
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), _text(value))
    _print(table)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        numbers = all(isinstance(item, int) for item in value)
        return (" x " if numbers else "\n").join(map(_text, value)) or "none"
    return str(value)


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(table: Table) -> None:
    from rich.console import Console

    Console(highlight=False, markup=False).print(table)


def _complain(message: str) -> None:
    print(f"objectstates: {' '.join(message.split())}", file=sys.stderr)


def _certificate(summary: dict[str, Any]) -> str:
    share = summary["duality_gap"] / summary["relaxed_objective"]
    return f"duality gap {share:.1%} of the relaxed objective after {summary['passes']} passes"


@contextmanager
def _progress() -> Iterator[Callable[[FitProgress], None]]:
    """A live line on stderr: pass, objective, gap. Nothing where stderr is not a terminal."""
    from rich.console import Console

    with Console(stderr=True).status("factorising") as status:

        def report(progress: FitProgress) -> None:
            share = progress.gap / progress.objective if progress.objective > 0 else 0.0
            status.update(
                f"{progress.stage}, run {progress.restart + 1}, pass {progress.passes}: "
                f"objective {progress.objective:.4e}, gap {share:.1%}, "
                f"rounded {progress.rounded:.4e}"
            )

        yield report


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        _complain(f"warning: {warning.message}")
