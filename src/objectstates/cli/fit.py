"""Commands on a corpus: fit, predict, inspect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from objectstates.base.choices import ConstraintName, Labelling, Reject, Solver, Target, TimeUnit
from objectstates.base.errors import CorpusError, ResultError, SettingError
from objectstates.base.storage import made_folder
from objectstates.cli.configuration import Config, Paper, effective
from objectstates.cli.engine import EngineOption, RayAddress, ray_from
from objectstates.cli.output import show, warnings_in_a_line

if TYPE_CHECKING:
    from objectstates.data.corpus import Corpus
    from objectstates.data.result import Result
    from objectstates.discovery.estimator import JointDiscovery
    from objectstates.discovery.solver_runs import FitProgress

Source = Annotated[
    Path, typer.Argument(help="A corpus folder, or a features_*.mat of the authors' release.")
]
Out = Annotated[Path, typer.Option(help="Folder to write; an earlier result there is replaced.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def fit(
    call: typer.Context,
    source: Source,
    out: Out,
    nu: Annotated[float, typer.Option(help="Coupling of states and action.")] = 3.0,
    mu: Annotated[float, typer.Option(help="Ridge weight of the state classifier.")] = 1e-4,
    lam: Annotated[float, typer.Option(help="Ridge weight of the action classifier.")] = 1e-2,
    detection_weight: Annotated[float, typer.Option(help="Weight of the detector's scores.")] = 0.0,
    time_unit: Annotated[
        TimeUnit,
        typer.Option(help="What the coupling measures time in; the paper has seconds, and nu 1."),
    ] = "clip",
    labelling: Annotated[
        Labelling,
        typer.Option(help="All tracklets that look alike, or the paper's, about one per state."),
    ] = "held_out",
    reject: Annotated[
        Reject,
        typer.Option(help="auto: learn nothing from clips that look like none of the others."),
    ] = "none",
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
    reduce: Annotated[
        int | None,
        typer.Option(
            help="Reduce wide features to this many principal directions; what that loses is told."
        ),
    ] = None,
    strict: Annotated[bool, typer.Option(help="Stop if a clip cannot be labelled.")] = False,
    out_of_core: Annotated[
        bool, typer.Option(help="Leave the features on disk, however many there are.")
    ] = False,
    shards: Annotated[
        int,
        typer.Option(help="Out of core: threads, or processes, with clips of their own."),
    ] = 1,
    scratch: Annotated[
        Path | None,
        typer.Option(
            help="Out of core: folder for temporary files of the size of the features; that of "
            "the result unless given."
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(help="Where it is factored and, out of core, solved: cpu or cuda (a GPU)."),
    ] = "cpu",
    engine: EngineOption = "local",
    ray_address: RayAddress = "auto",
    paper: Paper = False,
    config: Config = None,
    json: AsJson = False,
) -> None:
    """Discover the states and the action in all clips of a corpus."""
    from objectstates.data.result import ARTEFACT

    place = ARTEFACT.check_target(out)
    model = model_of(call.params)
    if engine != "local" and not out_of_core:
        where = "on a Ray cluster" if engine == "ray" else "in processes"
        raise SettingError(f"a fit {where} is out of core: add --out-of-core")
    scratch = made_folder(scratch or place.parent, "--scratch") if out_of_core else None
    corpus = _read_without_features(source) if out_of_core else _read(source)
    with warnings_in_a_line(), progress_line() as report:
        if out_of_core:
            model.fit_folder(
                source,
                report,
                shards=shards,
                scratch=scratch,
                processes=shards if engine == "processes" else 1,
                ray_address=ray_from(call.params),
            )
        else:
            model.fit(corpus, callback=report)
    configuration = effective("fit", call.params)
    result = replace(
        model.result_, summary={**model.result_.summary, "configuration": configuration}
    )
    result.save(out)
    _show_result(result, corpus, out, json)


def model_of(options: Mapping[str, Any]) -> JointDiscovery:
    """The estimator that the options of the command line describe."""
    from objectstates.base.torch_utils import solver_device
    from objectstates.discovery.estimator import JointDiscovery

    if options["device"] != "cpu":
        solver_device(options["device"])  # before anything is read or observed
    known = {setting.name for setting in fields(JointDiscovery)}
    chosen = {name: value for name, value in options.items() if name in known}
    return JointDiscovery(**chosen, on_infeasible="raise" if options["strict"] else "skip")


def predict(
    result: Annotated[Path, typer.Argument(help="The result folder that fit wrote.")],
    source: Source,
    out: Out,
    json: AsJson = False,
) -> None:
    """Label clips that were not in the fit, with the classifiers it learned."""
    from objectstates.data.result import ARTEFACT
    from objectstates.discovery.estimator import JointDiscovery

    if ARTEFACT.check_target(out) == result.resolve():
        raise ResultError(f"{out} is the model itself: choose another folder for the predictions")
    model = JointDiscovery.load(result)
    corpus = _read(source)
    with warnings_in_a_line():
        predicted = model.predict(corpus)
    predicted.save(out)
    _show_result(predicted, corpus, out, json)


def inspect(
    path: Annotated[
        Path, typer.Argument(help="A corpus folder, a .mat, a result folder, or that of discover.")
    ],
    json: AsJson = False,
) -> None:
    """Say what a corpus or a result holds, and what it lacks."""
    from objectstates.app import inspection
    from objectstates.data.result import ARTEFACT, Result

    if (path / "result" / ARTEFACT.header).is_file():
        path = path / "result"  # of a folder that discover wrote
    if (path / ARTEFACT.header).is_file():
        facts = inspection.describe_result(Result.load(path))
    else:
        facts = inspection.describe_corpus(_read(path))
    show(facts, json)


def _read(source: Path) -> Corpus:
    from objectstates.data.corpus import Corpus
    from objectstates.data.formats.authors import read_authors

    if source.is_dir():
        return Corpus.load(source)
    if not source.exists():
        raise CorpusError(f"{source} does not exist")
    if source.suffix.lower() == ".mat":
        return read_authors(source)
    raise CorpusError(f"{source} is neither a corpus folder nor a .mat file")


def _read_without_features(source: Path) -> Corpus:
    from objectstates.data.corpus_io import read_without_features

    if not source.is_dir():
        raise CorpusError(f"{source} is no corpus folder, which --out-of-core needs")
    return read_without_features(source)


def _show_result(result: Result, corpus: Corpus, out: Path, json: bool) -> None:
    """All of the result's header for scripts, what matters of it for people."""
    from objectstates.app import inspection

    facts = {**inspection.describe_result(result), **inspection.describe_precision(result, corpus)}
    if not json:
        wanted = ("corpus", "labels", "objective", "certificate", "reduced", "skipped", "set_aside",
                  "seconds", "state_precision", "state_recall", "action_precision")  # fmt: skip
        if "duality_gap" in facts:
            facts["certificate"] = certificate(result.summary)
        if "reduced" in facts:
            facts["reduced"] = reduction(result.summary)
        facts = {name: facts[name] for name in wanted if name in facts}
    show({**facts, "written_to": str(out)}, json)


def certificate(summary: dict[str, Any]) -> str:
    """How far from optimal the relaxed solution is, in words."""
    gap, objective = summary["duality_gap"], summary["relaxed_objective"]
    passes = f"after {summary['passes']} passes"
    if not gap < objective:  # alone, states or actions can cost next to nothing
        return f"duality gap {gap:.1e} at a relaxed objective of {objective:.1e} {passes}"
    return f"duality gap {gap / objective:.1%} of the relaxed objective {passes}"


def reduction(summary: dict[str, Any]) -> str:
    """What reducing the features lost, in words; a line for each side."""
    lines = []
    for side, told in summary["reduced"].items():
        size, kept = told["from"], told["to"]
        if size == kept:
            lines.append(f"{side}: not reduced, all of {size} features")
            continue
        lines.append(
            f"{side}: {kept} directions of {size} features, without "
            f"{told['variance_lost']:.1%} of their variance; the objective is too high by "
            f"{told['cost_error_at_most']:.1e} at most"
        )
    return "\n".join(lines)


@contextmanager
def progress_line() -> Iterator[Callable[[FitProgress], None]]:
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
