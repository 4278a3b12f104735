"""Commands that read videos: ingest, and the training of detectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from objectstates.base.choices import ChunkKind
from objectstates.cli.configuration import Config, Paper
from objectstates.cli.engine import EngineOption, RayAddress, ray_from
from objectstates.cli.output import complain, show

if TYPE_CHECKING:
    from objectstates.ingest.pipeline import IngestSettings, Progress, Report

detector_commands = typer.Typer(
    help="Learn a detector from a few dozen boxes, and judge it.", no_args_is_help=True
)

Labels = Annotated[Path, typer.Argument(help="Boxes in COCO format.")]
Videos = Annotated[
    list[Path] | None, typer.Argument(help="Video files, folders, or CSV lists of clips.")
]
ObjectName = Annotated[
    str | None, typer.Option("--object", help="The object's name, such as drawer.")
]


def ingest(
    call: typer.Context,
    videos: Videos = None,
    out: Annotated[Path, typer.Option(help="The corpus folder to write.")] = ...,  # type: ignore[assignment]
    object_name: ObjectName = None,
    detector: Annotated[
        str,
        typer.Option(
            help="boxes:FILE, fewshot:MODEL, onnx:FILE, torchvision:NAME, hf:MODEL, or motion "
            "(no detector at all; weaker)."
        ),
    ] = "motion",
    clips: Annotated[
        Path | None, typer.Option(help="A CSV list of clips: video,start,end,id.")
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="Take all settings and codebooks from this corpus.")
    ] = None,
    threshold: Annotated[float, typer.Option(help="Drop detections below this score.")] = 0.4,
    appearance: Annotated[
        str, typer.Option(help="Backbone: lite0, resnet50, or hf:MODEL.")
    ] = "lite0",
    chunks: Annotated[
        ChunkKind, typer.Option(help="Dense descriptors, or the paper's bags of words.")
    ] = "dense",
    tracklet_seconds: Annotated[float, typer.Option(help="Length of a tracklet, about.")] = 1.0,
    context: Annotated[float, typer.Option(help="Enlarge boxes by this factor.")] = 1.25,
    max_side: Annotated[int, typer.Option(help="Bring larger frames down to this size.")] = 480,
    image_fps: Annotated[float, typer.Option(help="Frame rate of folders of images.")] = 25.0,
    device: Annotated[str, typer.Option(help="Where torch models run: cpu or cuda.")] = "cpu",
    processes: Annotated[
        int | None, typer.Option(help="How many at a time; one per core unless given.")
    ] = None,
    engine: EngineOption = "local",
    ray_address: RayAddress = "auto",
    cache: Annotated[
        Path | None,
        typer.Option(help="Where to keep what was computed, if not in the user's cache."),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep nothing of what was computed.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the codebooks.")] = 0,
    strict: Annotated[bool, typer.Option(help="Stop at the first video with a problem.")] = False,
    paper: Paper = False,
    config: Config = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Turn videos into the corpus that fit reads."""
    from objectstates.data.corpus import Corpus
    from objectstates.data.corpus_io import ARTEFACT
    from objectstates.ingest.pipeline import ingest_to, settings_of
    from objectstates.video.clip_list import find_clips

    ARTEFACT.check_target(out)
    model = Corpus.load(like, features=False) if like is not None else None
    settings = settings_of(model) if model is not None else settings_from(call.params)
    spans = find_clips(videos or [], clips)
    with observing() as watch:
        corpus, report = ingest_to(
            out, spans, settings, **means_from(call.params), like=model, progress=watch
        )
    tell(report)
    show(
        {
            "clips": len(corpus),
            "tracklets": len(corpus.tracklets.start),
            "chunks": len(corpus.chunks.start),
            "frames": report.frames,
            "observed": report.observed,
            "from_cache": report.kept,
            "failed": [f"{clip}: {reason}" for clip, reason in report.failed],
            "written_to": str(out),
        },
        json,
    )


@detector_commands.command()
def train(
    labels: Labels,
    out: Annotated[Path, typer.Option(help="The model file to write.")],
    object_name: ObjectName = None,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
) -> None:
    """Learn a detector from boxes, on the CPU, in about a minute."""
    from objectstates.detect import fewshot_training as learning

    learning.train(labels, object_name, seed=seed).save(out)
    show({"written_to": str(out)}, False)


@detector_commands.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="The model that train wrote.")],
    labels: Labels,
    object_name: ObjectName = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Average precision, and recall at the low threshold that ingest uses."""
    from objectstates.detect import fewshot
    from objectstates.detect import metrics as evaluation

    scores = evaluation.evaluate(fewshot.load(model), labels, object_name)
    show(
        {
            "images": len(scores.rows),
            "average_precision": scores.average_precision,
            "recall": scores.recall,
            "false_positives_per_image": scores.false_positives_per_image,
        },
        json,
    )


def settings_from(options: Mapping[str, Any]) -> IngestSettings:
    """What decides the corpus, of the options of the command line."""
    from objectstates.ingest.pipeline import IngestSettings

    names = [setting.name for setting in fields(IngestSettings)]
    return IngestSettings(**{name: options[name] for name in names})


def means_from(options: Mapping[str, Any]) -> dict[str, Any]:
    """How a corpus is made, of the options of the command line; none of it changes the corpus."""
    from objectstates.base.cache import cache_folder
    from objectstates.parallel.pool import default_processes

    cache = options["cache"] or cache_folder() / "ingest"
    return {
        "cache": None if options["no_cache"] else cache,
        "processes": options["processes"] or default_processes(),
        "ray_address": ray_from(options),
        "strict": options["strict"],
    }


def tell(report: Report) -> None:
    """Warn of clips that could not be read, or only in part."""
    for problem in report.problems:
        complain(f"warning: {problem}")
    for clip, reason in report.failed:
        complain(f"warning: left out {clip}: {reason}")


@contextmanager
def observing() -> Iterator[Callable[[Progress], None]]:
    """Clips done, frames per second and time left, on stderr; nothing without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(
        TextColumn("observing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:.0f} frames/s"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("observing", total=None, rate=0.0)

        def watch(progress: Progress) -> None:
            elapsed = bar.tasks[task].elapsed or 0.0
            rate = progress.frames / elapsed if elapsed > 0 else 0.0
            bar.update(task, total=progress.clips, completed=progress.clips_done, rate=rate)

        yield watch
