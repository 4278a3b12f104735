"""The commands that label a corpus: fit, predict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from objectstates.base.choices import ConstraintName, Labelling, Reject, Solver, Target, TimeUnit
from objectstates.base.errors import ResultError, SettingError
from objectstates.cli.clip_tables import clip_table, precision_table
from objectstates.cli.inspect import read_corpus
from objectstates.cli.options import (
    AsJson,
    Changes,
    EngineOption,
    RayAddress,
    ResultFolder,
    ResultOut,
    Seed,
    Source,
    Truth,
    cluster_address,
    flag,
)
from objectstates.cli.output import print_table, show, warnings_in_a_line
from objectstates.cli.paper import follow_paper
from objectstates.cli.progress import fit_line
from objectstates.cli.settings_file import Config, Paper, effective
from objectstates.cli.verdict import Require, check_required, print_verdict

if TYPE_CHECKING:
    from objectstates.data.corpus import Corpus
    from objectstates.data.result import Result


# long: most of it declares the options
def fit(
    call: typer.Context,
    source: Source,
    out: ResultOut,
    nu: Annotated[float, flag("Coupling of states and action.")] = 3.0,
    mu: Annotated[float, flag("Ridge weight of the state classifier.")] = 1e-4,
    lam: Annotated[float, flag("Ridge weight of the action classifier.")] = 1e-2,
    detection_weight: Annotated[float, flag("Weight of the detector's scores.")] = 0.0,
    time_unit: Annotated[
        TimeUnit,
        flag("Unit of time of the coupling: mean clip length, or the paper's second (nu 1)."),
    ] = "clip",
    labelling: Annotated[
        Labelling,
        flag(
            "Label all tracklets like those of other clips, or about one per state as in the paper."
        ),
    ] = "held_out",
    reject: Annotated[Reject, flag("auto: do not learn from outlier clips.")] = "none",
    constraint: Annotated[ConstraintName, flag("Tracklets per state and clip.")] = "at_least_one",
    target: Annotated[Target, flag("Discover states and action, or one of them.")] = "joint",
    changes: Changes = None,
    optional: Annotated[
        str | None, flag("Numbers of the actions that a clip may lack, such as 2.")
    ] = None,
    price: Annotated[
        float, flag("A clip lacks a step that scores less than 1 minus this; 1: like in others.")
    ] = 0.55,
    solver: Annotated[
        Solver, flag("Block-coordinate Frank-Wolfe, or the paper's full steps.")
    ] = "block",
    tol: Annotated[float, flag("Stop at this relative duality gap ...")] = 0.01,
    max_passes: Annotated[int, flag("... or after this many passes.")] = 500,
    restarts: Annotated[
        int | None,
        flag("Runs from different random labels, the most typical is kept; 1, or 5 for a chain."),
    ] = None,
    seed: Seed = 0,
    reduce: Annotated[
        int | None, flag("Reduce features to this many principal directions.")
    ] = None,
    verdict: Annotated[
        bool,
        flag("Judge the result, by fits to parts of the clips.", "--verdict/--no-verdict"),
    ] = True,
    corrections: Annotated[
        Path | None, flag("CSV file with what you know of some clips: see docs/corrections.md.")
    ] = None,
    states: Annotated[
        str | None,
        flag("Names of the states, such as closed,open; the same name again: it looks the same."),
    ] = None,
    action: Annotated[
        str | None, flag("Name of the action, such as opening; of a chain opening,closing.")
    ] = None,
    strict: Annotated[bool, flag("Stop if a clip admits no labelling.")] = False,
    out_of_core: Annotated[bool, flag("Keep the features on disk instead of in memory.")] = False,
    shards: Annotated[int, flag("Out of core: number of parts, solved in parallel.")] = 1,
    scratch: Annotated[
        Path | None,
        flag(
            "Out of core: folder for temporary files as large as the features; beside the result "
            "unless given."
        ),
    ] = None,
    device: Annotated[
        str, flag("Device of the factorisation and, out of core, the solver: cpu or cuda.")
    ] = "cpu",
    engine: EngineOption = "local",
    ray_address: RayAddress = "auto",
    paper: Paper = False,
    config: Config = None,
    require: Require = None,
    json: AsJson = False,
) -> None:
    """Discover the states and the action in all clips of a corpus."""
    from objectstates.app.discover import chain_of, model_from
    from objectstates.base.storage import make_folder
    from objectstates.data.result import ARTEFACT
    from objectstates.discovery.in_memory import check_memory_for

    follow_paper(call)
    place = ARTEFACT.check_target(out)
    settings, names = chain_of(call.params, states, action)
    model, given = model_from(settings), {**_corrections(corrections, place), "names": names}
    if engine != "local" and not out_of_core:
        where = "on a Ray cluster" if engine == "ray" else "in processes"
        raise SettingError(f"a fit {where} is out of core: add `out_of_core`")
    if not out_of_core:
        check_memory_for(source)
    corpus = read_corpus(source, features=not out_of_core)
    if out_of_core:
        scratch = make_folder(scratch or place.parent, "scratch")
    with warnings_in_a_line(), fit_line() as progress:
        if out_of_core:
            model.fit_folder(
                source,
                progress,
                shards=shards,
                scratch=scratch,
                processes=shards if engine == "processes" else 1,
                ray_address=cluster_address(engine, ray_address),
                **given,
            )
        else:
            model.fit(corpus, callback=progress, **given)
    summary = {**model.result_.summary, "configuration": effective("fit", call.params)}
    result = replace(model.result_, summary=summary)
    result.save(out)
    _show_result(result, corpus, out, json)
    check_required(result, require)


def _corrections(corrections: Path | None, out: Path) -> dict[str, Any]:
    """What the user knows, for a fit; a ``confirm`` without times refers to the result ``out``."""
    from objectstates.data.corrections import read_corrections
    from objectstates.data.result import Result
    from objectstates.discovery.corrections import with_confirmed_times

    rows = () if corrections is None else read_corrections(corrections)
    open_ = any(row.kind == "confirm" and row.start is row.end is None for row in rows)
    earlier = Result.load(out) if open_ and (out / "result.json").exists() else None
    return {"corrections": with_confirmed_times(rows, earlier)}


def predict(
    result: ResultFolder,
    source: Source,
    out: ResultOut,
    truth: Truth = None,
    json: AsJson = False,
) -> None:
    """Label new clips with the classifiers of a fit."""
    from objectstates.app.inspection import describe_beside_baselines, describe_clips
    from objectstates.data.formats.truth_files import read_truth
    from objectstates.data.result import ARTEFACT
    from objectstates.data.truth_labels import label_corpus
    from objectstates.discovery.estimator import JointDiscovery

    if ARTEFACT.check_target(out) == result.resolve():
        raise ResultError(f"{out} is the model itself: choose another folder for the predictions")
    model = JointDiscovery.load(result)
    corpus = read_corpus(source)
    if truth is not None:
        corpus = label_corpus(corpus, read_truth(truth))
    with warnings_in_a_line():
        predicted = model.predict(corpus)
    predicted.save(out)
    if not json:
        print_table(clip_table(describe_clips(predicted), predicted.names))
        if rows := describe_beside_baselines(predicted, corpus):
            print_table(precision_table(rows))
    _show_result(predicted, corpus, out, json)


def _show_result(result: Result, corpus: Corpus, out: Path, json: bool) -> None:
    """All of the summary as JSON, the essentials of it as a table."""
    from objectstates.app import inspection

    facts = {**inspection.describe_result(result), **inspection.describe_precision(result, corpus)}
    if not json:
        print_verdict(result)
        wanted = ("corpus", "labels", "objective", "certificate", "reduced", "skipped", "set_aside",
                  "seconds", "state_precision", "state_recall", "action_precision",
                  "truth")  # fmt: skip
        if "duality_gap" in facts:
            facts["certificate"] = certificate(result.summary)
        if "reduced" in facts:
            facts["reduced"] = reduction(result.summary)
        facts = {name: facts[name] for name in wanted if name in facts}
    show({**facts, "written_to": str(out)}, json)


def certificate(summary: dict[str, Any]) -> str:
    """The duality gap of the relaxed solution, in words."""
    gap, objective = summary["duality_gap"], summary["relaxed_objective"]
    passes = f"after {summary['passes']} passes"
    if not gap < objective:  # with one target alone the objective can be near 0
        return f"duality gap {gap:.1e} at a relaxed objective of {objective:.1e} {passes}"
    return f"duality gap {gap / objective:.1%} of the relaxed objective {passes}"


def reduction(summary: dict[str, Any]) -> str:
    """The loss of reducing the features, in words; a line for each side."""
    lines = []
    for side, loss in summary["reduced"].items():
        size, kept = loss["from"], loss["to"]
        if size == kept:
            lines.append(f"{side}: not reduced, all of {size} features")
            continue
        lines.append(
            f"{side}: {kept} directions of {size} features, without "
            f"{loss['variance_lost']:.1%} of their variance; the objective is too high by "
            f"{loss['cost_error_at_most']:.1e} at most"
        )
    return "\n".join(lines)
