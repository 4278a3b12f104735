"""The command that turns videos into a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from objectstates.base.choices import (
    BOX_CONTEXT,
    DETECTION_THRESHOLD,
    ChunkKind,
)
from objectstates.cli.options import (
    AsJson,
    Cache,
    EngineOption,
    ObjectName,
    Processes,
    RayAddress,
    Videos,
    cluster_address,
    flag,
    seconds,
)
from objectstates.cli.output import complain, show
from objectstates.cli.paper import follow_paper
from objectstates.cli.progress import ingest_bar
from objectstates.cli.settings_file import Config, Paper

if TYPE_CHECKING:
    from objectstates.ingest.pipeline import Report


# long: most of it declares the options
def ingest(
    call: typer.Context,
    videos: Videos = None,
    out: Annotated[Path, flag("The corpus folder to write.")] = ...,  # type: ignore[assignment]
    object_name: ObjectName = None,
    detector: Annotated[
        str,
        flag(
            "boxes:FILE, fewshot:MODEL, fasterrcnn:MODEL, onnx:FILE, torchvision:NAME, hf:MODEL, "
            "or motion (needs no detector; weaker)."
        ),
    ] = "motion",
    clips: Annotated[Path | None, flag("A CSV list of clips: video,start,end,id.")] = None,
    camera: Annotated[
        str | None,
        flag(
            "Of a LeRobot dataset: the camera, or several with commas; the only one unless given."
        ),
    ] = None,
    task: Annotated[
        str | None, flag("Of a LeRobot dataset: only episodes of this task, or of its number.")
    ] = None,
    episodes: Annotated[
        str | None, flag("Of a LeRobot dataset: only these episodes, such as 0:50 or 3,7,9.")
    ] = None,
    signals: Annotated[
        str,
        flag(
            "Of a LeRobot dataset: features of the robot to use beside the video, with commas. "
            "auto: observation.state and action."
        ),
    ] = "none",
    like: Annotated[Path | None, flag("Take all settings and codebooks from this corpus.")] = None,
    threshold: Annotated[float, flag("Drop detections below this score.")] = DETECTION_THRESHOLD,
    appearance: Annotated[
        str, flag("Backbone: lite0, resnet50, vgg16 (with :FILE of weights), or hf:MODEL.")
    ] = "lite0",
    chunks: Annotated[
        ChunkKind, flag("Dense descriptors, or the paper's bags of words.")
    ] = "dense",
    conv_words: Annotated[
        str, flag("Of bags of words: the backbone of the convolutional ones, or appearance's.")
    ] = "appearance",
    change_columns: Annotated[
        bool,
        flag(
            "Add the change profile to dense descriptors.", "--change-columns/--no-change-columns"
        ),
    ] = True,
    tracklet_seconds: Annotated[
        Any,
        seconds("Approximate length of a tracklet. auto: by the length of the clips."),
    ] = "auto",
    chunk_seconds: Annotated[
        Any, seconds("Length of a chunk. auto: two fifths of a tracklet.")
    ] = "auto",
    changes: Annotated[
        str | None, flag("How many actions a clip has: lengths auto are for one of them.")
    ] = None,
    context: Annotated[float, flag("Enlarge boxes by this factor.")] = BOX_CONTEXT,
    max_side: Annotated[int, flag("Scale longer frame sides down to these pixels.")] = 480,
    image_fps: Annotated[float, flag("Frame rate of folders of images.")] = 25.0,
    device: Annotated[str, flag("Device of torch models: cpu or cuda (a GPU).")] = "cpu",
    processes: Processes = None,
    engine: EngineOption = "local",
    ray_address: RayAddress = "auto",
    cache: Cache = None,
    no_cache: Annotated[bool, flag("Do not keep the observations of clips.", "--no-cache")] = False,
    seed: Annotated[int, flag("Seed of the codebooks.")] = 0,
    strict: Annotated[bool, flag("Stop at the first video with a problem.")] = False,
    paper: Paper = False,
    config: Config = None,
    json: AsJson = False,
) -> None:
    """Turn videos or a LeRobot dataset into a corpus, the input of fit."""
    from objectstates.app.discover import ingest_means, settings_from
    from objectstates.app.inspection import lengths_used
    from objectstates.base.errors import CorpusError
    from objectstates.base.targets import check_no_input
    from objectstates.data.corpus import Corpus
    from objectstates.data.corpus_io import ARTEFACT
    from objectstates.ingest.pipeline import ingest_to, settings_of
    from objectstates.robots.dataset_clips import find_dataset_clips

    follow_paper(call)
    ARTEFACT.check_target(out)
    check_no_input(out, [like], CorpusError)
    model = Corpus.load(like, features=False) if like is not None else None
    settings = settings_of(model) if model is not None else settings_from(call.params)
    chosen = {"camera": camera, "task": task, "episodes": episodes}
    spans = find_dataset_clips(videos or [], clips, **chosen)
    with ingest_bar() as progress:
        corpus, report = ingest_to(
            out,
            spans,
            settings,
            **ingest_means(cache, no_cache, processes),
            ray_address=cluster_address(engine, ray_address),
            strict=strict,
            like=model,
            progress=progress,
        )
    warn_of_problems(report)
    show(
        {
            "clips": len(corpus),
            "tracklets": len(corpus.tracklets.start),
            "chunks": len(corpus.chunks.start),
            **lengths_used(corpus),
            "frames": report.frames,
            "observed": report.observed,
            "from_cache": report.kept,
            "failed": [f"{clip}: {reason}" for clip, reason in report.failed],
            "written_to": str(out),
        },
        json,
    )


def warn_of_problems(report: Report) -> None:
    """Warn of clips that could not be read, or only in part."""
    for problem in report.problems:
        complain(f"warning: {problem}")
    for clip, reason in report.failed:
        complain(f"warning: left out {clip}: {reason}")
