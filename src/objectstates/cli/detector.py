"""The commands of ``detector``: train, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from objectstates.cli.options import ObjectName, Seed, flag
from objectstates.cli.output import add_command, show

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


def train(
    labels: LabelPath,
    out: Annotated[Path, flag("The model file to write.")],
    object_name: ObjectName = None,
    media: Media = None,
    seed: Seed = 0,
) -> None:
    """Train a few-shot detector on labelled boxes, on the CPU, in about a minute."""
    from objectstates.detect import fewshot_training
    from objectstates.detect.labels import read_labels

    drawn = read_labels(labels, object_name, media=media)
    fewshot_training.train(drawn, seed=seed).save(out)
    show({"trained_on": _trained_on(drawn.counts), "written_to": str(out)}, False)


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
    json: Annotated[bool, flag("Print as JSON.", "--json")] = False,
) -> None:
    """Compute average precision, and recall at the low threshold that ingest uses."""
    from objectstates.detect import fewshot, metrics
    from objectstates.detect.labels import read_labels

    detector = fewshot.load(model)
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
