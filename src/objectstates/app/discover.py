"""The facade: from video files to a result and a report in one call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np

from objectstates.app.workspace import Workspace
from objectstates.base.cache import cache_folder
from objectstates.base.choices import PAPER_INGEST, Engine, paper_fit
from objectstates.base.errors import SettingError, VideoError
from objectstates.base.storage import make_folder
from objectstates.base.torch_utils import solver_device
from objectstates.data.corpus import Corpus
from objectstates.data.corrections import (
    Correction,
    UnusedCorrectionWarning,
    by_clip,
    check_clips,
    read_corrections,
    rows_of,
)
from objectstates.data.formats.truth_files import read_truth
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.discovery.estimator import JointDiscovery
from objectstates.discovery.settings import CHANGES
from objectstates.ingest.pipeline import IngestSettings, Report, ingest_to
from objectstates.parallel.pool import default_processes
from objectstates.robots.dataset_clips import find_dataset_clips


class Monitor(Protocol):
    """Receives the progress of `discover`; by default it ignores it."""

    def stage(self, name: str) -> AbstractContextManager[Callable[..., None] | None]:  # noqa: ARG002
        """A context around the stage "ingest", "fit" or "report"; its value gets the progress."""
        return nullcontext()

    def using_corrections(self, corrections: Path, count: int) -> None:  # noqa: ARG002
        """Called before ingest if the folder's own corrections are used, with their number."""
        return

    def ingested(self, corpus: Corpus, report: Report) -> None:  # noqa: ARG002
        """Called after ingest, with the corpus without its features."""
        return

    def finished(self, result: Result, reused: Mapping[str, bool]) -> None:  # noqa: ARG002
        """Called in the end; ``reused`` tells whether "fit" and "report" were up to date."""
        return


class _Silent(Monitor):
    pass


# long: half of it declares and documents the parameters
def discover(
    videos: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    object: str | None = None,
    detector: str = "motion",
    clips: str | Path | None = None,
    camera: str | None = None,
    task: str | None = None,
    episodes: str | None = None,
    truth: str | Path | None = None,
    corrections: str | Path | None = None,
    states: str | Sequence[str] | None = None,
    action: str | Sequence[str] | None = None,
    strict: bool = False,
    processes: int | None = None,
    engine: Engine = "local",
    ray_address: str = "auto",
    cache: str | Path | None = None,
    no_cache: bool = False,
    out_of_core: bool = False,
    shards: int = 1,
    scratch: str | Path | None = None,
    monitor: Monitor | None = None,
    paper: bool = False,
    configuration: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Result:
    """Find the action and the object's states in videos: ingest, fit and report in one call.

    videos : video files, folders of them, CSV lists of clips, or one LeRobot dataset.
    out : folder for the corpus, the result and ``report.html``. A repeated call continues from what
        is there, and only repeats the stages that a change of input or settings concerns.
    object : name of the object, such as "drawer", for detectors that know several.
    detector : "motion" (needs no detector; weaker), or for example "fewshot:model.npz".
    clips : a CSV list of clips: video, start, end, id.
    camera, task, episodes : of a LeRobot dataset: which camera (several with commas), which task,
        which episodes, such as "0:50" (docs/robots.md).
    truth : annotations to compare with: a CSV file, or a folder with a JSON file per clip.
    corrections : a CSV file with what is known of some clips (docs/corrections.md); unless given,
        ``corrections.csv`` in ``out``, which a review writes, if it is there.
    states, action : what to call them, such as "closed,open" and "opening"; of a chain of changes
        "closed,open,closed" and "opening,closing". States of the same name look alike.
    strict : raise if a video cannot be read or a clip admits no labelling, instead of leaving it
        out.
    processes : number of worker processes; one per core unless given.
    engine, ray_address : "local", or "ray" to run on the Ray cluster at this address. With
        "processes", the shards of an out-of-core fit are worker processes instead of threads.
    cache, no_cache : folder for per-clip observations (the user's cache unless given), or none.
    out_of_core, shards, scratch : fit with features on disk (``JointDiscovery.fit_folder``).
    monitor : receives progress.
    paper : use the paper's settings, except those given (docs/method.md); needs the extra torch.
    configuration : recorded in the result's summary.
    settings : of ``IngestSettings`` and `JointDiscovery`, such as ``nu=1.0`` or ``max_side=320``.

    >>> result = discover("my_videos", object="drawer", out="found")  # doctest: +SKIP
    >>> result.to_frame()  # doctest: +SKIP
    """
    monitor = monitor or _Silent()
    if engine not in get_args(Engine):
        raise SettingError(f"`engine` must be one of {', '.join(get_args(Engine))}, not {engine!r}")
    if "object_name" in settings:
        raise SettingError("there is no setting `object_name`: use `object`")
    settings = {k: v.item() if isinstance(v, np.generic) else v for k, v in settings.items()}
    if paper:
        settings = {**paper_fit(settings.get("solver", "block")), **PAPER_INGEST, **settings}
    settings |= {"object_name": object, "detector": detector, "strict": strict}
    _check_names(settings)
    settings, names = chain_of(settings, states, action)
    ingest_settings, model = settings_from(settings), model_from(settings)
    address = ray_address if engine == "ray" else None
    n_shards = shards if out_of_core else None
    model.check(shards=n_shards, ray_address=address)  # before hours are spent on the videos
    paths = [videos] if isinstance(videos, str | Path) else videos
    spans = find_dataset_clips(paths, clips, camera=camera, task=task, episodes=episodes)
    if not spans:
        raise VideoError("there is no clip to read: name videos, folders or a list of clips")
    if corrections is not None:
        check_clips(read_corrections(corrections), [span.id for span in spans])
    annotations = None if truth is None else read_truth(Path(truth))
    if scratch is not None:
        scratch = make_folder(Path(scratch), "scratch")
    workspace = Workspace(out)
    rows, names = workspace.corrections_to_use(corrections), workspace.names_to_use(names)
    present = [span.id for span in spans]
    if corrections is None and (count := len(rows_of(rows, present))):
        monitor.using_corrections(workspace.corrections, count)
    with monitor.stage("ingest") as progress:
        _warn_of_others(rows, present, workspace.corrections)
        corpus, report = ingest_to(
            workspace.corpus,
            spans,
            ingest_settings,
            truth=annotations,
            **ingest_means(cache, no_cache, processes),
            ray_address=address,
            strict=strict,
            progress=progress,
        )
    monitor.ingested(corpus, report)
    with monitor.stage("fit") as progress:
        result, fit_reused = workspace.fit(
            model,
            shards=n_shards,
            scratch=scratch,
            processes=min(processes or shards, shards) if engine == "processes" else 1,
            ray_address=address,
            configuration=configuration,
            callback=progress,
            corrections=rows_of(rows, corpus.clip_ids),  # other clips failed, or are gone
            names=names,
        )
    with monitor.stage("report") as progress:
        report_reused = workspace.write_report(result, processes=processes, progress=progress)
    monitor.finished(result, {"fit": fit_reused, "report": report_reused})
    return result


def _warn_of_others(rows: Sequence[Correction], clips: Sequence[str], place: Path) -> None:
    """Name the corrections of clips that are gone; they stay in the file."""
    gone = [clip for clip in by_clip(rows) if clip not in clips]
    if gone:
        warnings.warn(
            f"{place} has corrections of clips that are not among the videos, which are kept but "
            f"not used: {len(gone)}, the first of {gone[0]!r}",
            UnusedCorrectionWarning,
            stacklevel=3,
        )


def chain_of(
    settings: Mapping[str, Any],
    states: str | Sequence[str] | None,
    action: str | Sequence[str] | None,
) -> tuple[dict[str, Any], LabelNames]:
    """The settings with those of the chain, and the names.

    There are as many changes as ``changes`` says, else as there are names, else one. ``optional``
    may be text, such as "2,3".
    """
    changes = _number_of_changes(settings.get("changes"))
    if changes == "auto":
        if states is not None or action is not None:
            raise SettingError("`changes` auto: there are no names before the number is known")
        return {**settings, "optional": settings.get("optional") or ()}, LabelNames()
    names = LabelNames.of(states, action, changes)
    optional = settings.get("optional") or ()
    if isinstance(optional, str):
        numbers = [part.strip() for part in optional.split(",")]
        if not all(number.isdigit() for number in numbers):
            raise SettingError(f"`optional` must be numbers of actions, such as 2, not {optional}")
        optional = tuple(map(int, numbers))
    chain = {"changes": len(names.actions), "optional": tuple(optional)}
    return {**settings, **chain, "pattern": settings.get("pattern") or names.pattern}, names


def _number_of_changes(value: Any) -> int | Literal["auto"] | None:
    """The option ``changes``, which may be a number as text."""
    changes = int(value) if isinstance(value, str) and value.isdigit() else value
    if changes is not None and not CHANGES.allows(changes):
        raise SettingError(f"`changes` must be {CHANGES.text}, not {changes!r}")
    return changes


def settings_from(options: Mapping[str, Any]) -> IngestSettings:
    """The ingest settings among named options."""
    changes = _number_of_changes(options.get("changes"))
    number = changes if isinstance(changes, int) else 1  # auto: as for a single one
    return IngestSettings(**_arguments(IngestSettings, {**options, "changes": number}))


def model_from(options: Mapping[str, Any]) -> JointDiscovery:
    """The estimator that named options describe, ``strict`` among them."""
    options = {"on_infeasible": "raise" if options.get("strict") else "skip", **options}
    if options.get("device", "cpu") != "cpu":
        solver_device(options["device"])  # an error now, before anything is read
    return JointDiscovery(**_arguments(JointDiscovery, options))


def ingest_means(cache: str | Path | None, no_cache: bool, processes: int | None) -> dict[str, Any]:
    """The cache folder and the number of processes of ingest, with their defaults."""
    folder = None if no_cache else Path(cache or cache_folder() / "ingest")
    count = default_processes() if processes is None else processes
    return {"cache": folder, "processes": count}


def _arguments(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in signature(kind).parameters if name in options}


def _check_names(settings: Mapping[str, Any]) -> None:
    known = {*signature(IngestSettings).parameters, *signature(JointDiscovery).parameters, "strict"}
    for name in sorted(set(settings) - known):
        near = get_close_matches(name, sorted(known), n=1)
        hint = f": did you mean `{near[0]}`?" if near else ""
        raise SettingError(f"there is no setting `{name}`{hint}")
