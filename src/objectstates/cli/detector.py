"""The commands of ``detector``: train, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from objectstates.base.errors import DetectorError, SettingError
from objectstates.cli.options import ObjectName, Seed, flag
from objectstates.cli.output import add_command, show

if TYPE_CHECKING:
    from objectstates.detect.labels import Labels

detector_commands = typer.Typer(
    help="Train a detector on a few dozen labelled boxes, and evaluate it.", no_args_is_help=True
)
LabelPath = Annotated[
    Path,
    typer.Argument(
        metavar="LABELS",
        help="Boxes: COCO JSON, CVAT XML, LabelMe JSON, or a folder of YOLO, LabelMe or CVAT.",
    ),
]
Media = Annotated[
    Path | None,
    flag("Folder of the images or videos of CVAT, YOLO and LabelMe, if not beside the labels."),
]
Device = Annotated[str, flag("Of fasterrcnn: cpu, for a trial, or cuda (a GPU).")]


def train(
    labels: LabelPath,
    out: Annotated[Path, flag("The model file to write.")],
    object_name: ObjectName = None,
    media: Media = None,
    model: Annotated[
        Literal["fewshot", "fasterrcnn"],
        flag("fewshot: some dozen boxes, a CPU. fasterrcnn: some hundred, a GPU, the extra torch."),
    ] = "fewshot",
    backbone: Annotated[
        Literal["resnet50", "mobilenet"] | None,
        flag("Of fasterrcnn: the network, resnet50 unless given; mobilenet is faster."),
    ] = None,
    weights: Annotated[
        str | None,
        flag(
            "Of fasterrcnn: what training begins with: coco (the default) or imagenet, which are "
            "downloaded once, a file of weights, or random."
        ),
    ] = None,
    steps: Annotated[
        int | None, flag("Of fasterrcnn: steps of training; 1000, or 3000 from random weights.")
    ] = None,
    side: Annotated[
        int | None, flag("Of fasterrcnn: longer side of an image in pixels, 480 unless given.")
    ] = None,
    device: Device = "cpu",
    seed: Seed = 0,
) -> None:
    """Train a detector on labelled boxes: few-shot, on the CPU, in about a minute, or an R-CNN."""
    from objectstates.base.targets import check_file
    from objectstates.detect.labels import read_labels

    network = {"backbone": backbone, "weights": weights, "steps": steps, "side": side}
    given = {name: value for name, value in network.items() if value is not None}
    if model == "fewshot":
        for name in (*given, *(["device"] if device != "cpu" else [])):
            raise SettingError(f"`{name}` is for `model` fasterrcnn")
        from objectstates.detect import fewshot, fewshot_training

        check_file(out, [labels, media], fewshot.is_detector, DetectorError)
        drawn = read_labels(labels, object_name, media=media)
        fewshot_training.train(drawn, seed=seed).save(out)
    else:
        from objectstates.detect import rcnn

        check_file(out, [labels, media, weights], rcnn.is_detector, DetectorError)
        drawn = read_labels(labels, object_name, media=media)
        _train_rcnn(drawn, out, given, device, seed)
    kind = {} if model == "fewshot" else {"use_as": f"--detector fasterrcnn:{out}"}
    show({"trained_on": _trained_on(drawn.counts), **kind, "written_to": str(out)}, False)


def _train_rcnn(drawn: Labels, out: Path, given: dict[str, Any], device: str, seed: int) -> None:
    from objectstates.cli.progress import status_line
    from objectstates.detect import rcnn_training

    sizes = {name: given.pop(name) for name in ("steps", "side") if name in given}
    recipe = rcnn_training.RcnnRecipe(**sizes)
    with status_line("reading images") as update:

        def progress(step: int, steps: int, loss: float) -> None:
            update(f"step {step} of {steps}: loss {loss:.3f}")

        trained = rcnn_training.train(
            drawn, device=device, seed=seed, recipe=recipe, progress=progress, **given
        )
    trained.save(out)


def _trained_on(counts: dict[str, int]) -> str:
    """Such as "18 boxes in 20 images of 6 videos"."""
    sources = {"videos": counts["videos"], "image files": counts["image_files"]}
    of = " and ".join(f"{n} {name if n > 1 else name[:-1]}" for name, n in sources.items() if n)
    return f"{counts['boxes']} boxes in {counts['images']} images of {of}"


def evaluate(
    model: Annotated[Path, typer.Argument(help="The model file that train wrote.")],
    labels: LabelPath,
    object_name: ObjectName = None,
    media: Media = None,
    device: Device = "cpu",
    json: Annotated[bool, flag("Print as JSON.", "--json")] = False,
) -> None:
    """Compute average precision, and recall at the low threshold that ingest uses."""
    from objectstates.detect import metrics
    from objectstates.detect.detections import DetectorOptions
    from objectstates.detect.labels import read_labels
    from objectstates.detect.trained import load_trained

    detector = load_trained(model, DetectorOptions(device=device))
    drawn = read_labels(labels, object_name or detector.object, media=media)
    scores = metrics.evaluate(detector, drawn)
    show(
        {
            "images": len(scores.rows),
            "average_precision": scores.average_precision,
            "recall": scores.recall,
            "false_positives_per_image": scores.false_positives_per_image,
        },
        json,
    )


for command in (train, evaluate):
    add_command(detector_commands, command)
