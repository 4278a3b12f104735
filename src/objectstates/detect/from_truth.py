"""Labels to train and evaluate a detector with, from the ground truth of clips."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from objectstates.base.errors import LabelError
from objectstates.data.corpus import Array
from objectstates.data.truth import ClipTruth
from objectstates.detect.labels import LabelledImage, Labels
from objectstates.video.clip_list import ClipSpan

TRAIN_FRAMES = 8  # labelled frames of a clip to train on: as many as one would label by hand

JUDGE_EVERY = 0.48
"""Seconds between the frames of a clip to evaluate on: every 12th at 25 frames a second."""


def train_labels(
    clips: Sequence[tuple[ClipSpan, ClipTruth]], object: str, per_clip: int = TRAIN_FRAMES
) -> Labels:
    """``per_clip`` frames of every clip, evenly spread over the times with ground truth."""

    def chosen(times: Array) -> list[int]:
        count = len(times)
        return sorted({int((k + 0.5) * count / per_clip) for k in range(per_clip if count else 0)})

    return _labels([(clip, truth, chosen(truth.times)) for clip, truth in clips], object)


def judge_labels(clips: Sequence[tuple[ClipSpan, ClipTruth]], object: str) -> Labels:
    """A frame every `JUDGE_EVERY` seconds of the clips' spans, where there is ground truth."""

    def chosen(clip: ClipSpan, times: Array) -> list[int]:
        start, end = clip.start or 0.0, np.inf if clip.end is None else clip.end
        found: list[int] = []
        for i in np.flatnonzero((times >= start - 1e-6) & (times < end - 1e-6)):
            if not found or times[i] - times[found[-1]] >= JUDGE_EVERY - 1e-6:
                found.append(int(i))
        return found

    return _labels([(clip, truth, chosen(clip, truth.times)) for clip, truth in clips], object)


def _labels(chosen: Sequence[tuple[ClipSpan, ClipTruth, list[int]]], object: str) -> Labels:
    """The boxes at the indices chosen; one without a box shows background only."""
    images = []
    for clip, truth, indices in chosen:
        for i in indices:
            time, box = float(truth.times[i]), truth.boxes[i]
            seen = np.isfinite(box).all() and (box[2:] > box[:2]).all()
            images.append(
                LabelledImage(
                    name=f"{clip.video} at {time:.2f} s",
                    source=clip.video,
                    time=time,
                    boxes=np.array([box] if seen else [], np.float32).reshape(-1, 4),
                    ignored=np.empty((0, 4), np.float32),
                )
            )
    if not any(len(image.boxes) for image in images):
        raise LabelError(
            f"the ground truth of {object!r} has no box: no detector can be trained on it"
        )
    return Labels(chosen[0][0].video.parent, object, tuple(images))
