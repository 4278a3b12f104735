"""Recall of a detector on clips that it was not trained on, by cross-validation.

The clips are split into folds. A detector is trained without each, by a quick recipe, which makes
the recall rather lower than higher, and looks for the objects of the fold, at its own threshold.
Boxes that were followed through a clip serve for training only: objects count in frames that a
person looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from objectstates.detect.fewshot_training import MIN_IMAGES, Recipe, train
from objectstates.detect.labels import LabelledImage, Labels
from objectstates.detect.metrics import evaluate

QUICK = Recipe(images=60, folds=3, rounds=2, iterations=60)
"""A few seconds of training, for proposals."""

QUICKEST = Recipe(images=40, folds=2, rounds=1, iterations=50)
"""For the recall, which needs `FOLDS` trainings."""

FOLDS = 3


@dataclass(frozen=True)
class HeldOutRecall:
    """Objects in held-out clips, how many of them were found (IoU at least 0.5), wrong boxes.

    objects, images, clips : what the recall rests on.
    """

    objects: int
    found: int
    wrong: int
    images: int
    clips: int

    @property
    def recall(self) -> float:
        return self.found / self.objects

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "recall": self.recall}


def held_out_recall(
    labels: Labels,
    by_hand: Mapping[str, bool],
    *,
    recipe: Recipe = QUICKEST,
    fold_done: Callable[[int, int], None] | None = None,
) -> HeldOutRecall | None:
    """None if there are too few clips with a box to train without some of them.

    by_hand : by the name of an image, whether a person looked at it.
    """
    clips = list(dict.fromkeys(image.source for image in labels.images if len(image.boxes)))
    folds = [clips[k::FOLDS] for k in range(min(FOLDS, len(clips)))]
    total = HeldOutRecall(0, 0, 0, 0, 0)
    for number, fold in enumerate(folds, 1):
        known = [image for image in labels.images if image.source not in fold]
        unseen = [i for i in labels.images if i.source in fold and by_hand.get(i.name, True)]
        if _enough(known) and any(len(image.boxes) for image in unseen):
            detector = train(replace(labels, images=tuple(known)), recipe=recipe)
            rows = evaluate(detector, replace(labels, images=tuple(unseen))).rows
            total = HeldOutRecall(
                total.objects + sum(row.objects for row in rows),
                total.found + sum(row.found for row in rows),
                total.wrong + sum(row.false_positives for row in rows),
                total.images + len(rows),
                total.clips + len(_sources(unseen)),
            )
        if fold_done is not None:
            fold_done(number, len(folds))
    return total if total.objects else None


def _enough(images: list[LabelledImage]) -> bool:
    return sum(len(image.boxes) > 0 for image in images) >= MIN_IMAGES


def _sources(images: list[LabelledImage]) -> set[Path]:
    return {image.source for image in images if len(image.boxes)}
