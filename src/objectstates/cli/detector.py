"""The commands of ``detector``: train, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from objectstates.cli.options import ObjectName, Seed, flag
from objectstates.cli.output import Command, show

detector_commands = typer.Typer(
    help="Train a detector on a few dozen labelled boxes, and evaluate it.", no_args_is_help=True
)
Labels = Annotated[Path, typer.Argument(help="Boxes in COCO format.")]


@detector_commands.command(cls=Command)
def train(
    labels: Labels,
    out: Annotated[Path, flag("The model file to write.")],
    object_name: ObjectName = None,
    seed: Seed = 0,
) -> None:
    """Train a few-shot detector on labelled boxes, on the CPU, in about a minute."""
    from objectstates.detect import fewshot_training

    fewshot_training.train(labels, object_name, seed=seed).save(out)
    show({"written_to": str(out)}, False)


@detector_commands.command(cls=Command)
def evaluate(
    model: Annotated[Path, typer.Argument(help="The model file that train wrote.")],
    labels: Labels,
    object_name: ObjectName = None,
    json: Annotated[bool, flag("Print as JSON.", "--json")] = False,
) -> None:
    """Compute average precision, and recall at the low threshold that ingest uses."""
    from objectstates.detect import fewshot, metrics

    scores = metrics.evaluate(fewshot.load(model), labels, object_name)
    show(
        {
            "images": len(scores.rows),
            "average_precision": scores.average_precision,
            "recall": scores.recall,
            "false_positives_per_image": scores.false_positives_per_image,
        },
        json,
    )
