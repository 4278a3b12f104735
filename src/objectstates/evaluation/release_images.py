"""The authors' images as a corpus of our own: from pictures to tracklets and features.

Detections are the boxes of the release (``BOXES_state``), or those of a detector. They are tracked,
cut into tracklets and described as `ingest` does, with the paper's settings. The annotations of the
release are carried over (`label_like_release`), because its tracklets are not ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.cache import content_digest, digest
from objectstates.base.choices import PAPER_INGEST
from objectstates.base.errors import CorpusError
from objectstates.base.geometry import MATCH_IOU, iou
from objectstates.base.storage import write_atomically
from objectstates.data.corpus import Array, Corpus
from objectstates.data.formats.authors_metadata import Metadata, read_metadata
from objectstates.data.formats.authors_release import (
    ACTIONS,
    ClipImages,
    ReleaseFiles,
    clip_images,
)
from objectstates.evaluation.kept_corpora import kept_corpus
from objectstates.ingest import pipeline
from objectstates.video.clip_list import ClipSpan
from objectstates.video.clips_around import span_around

VERSION = 1  # of the cached corpora; increase it when their meaning changes
PAPER_BACKBONE = "resnet50"


@dataclass(frozen=True)
class ImageSettings:
    """How corpora are made from images.

    detector : as for ingest, with ``{action}`` for the name of the action; empty for the boxes of
        the release, which have no scores.
    appearance, device : as for ingest; all else is the paper's.
    around : seconds before and after the action that a clip has; None for all its images.
    """

    detector: str = ""
    appearance: str = PAPER_BACKBONE
    device: str = "cpu"
    around: float | None = None
    processes: int = 1
    cache: Path | None = None

    def ingest(self, action: str, default: str) -> pipeline.IngestSettings:
        """The settings of ingest for an action; ``default`` is the detector unless one is given."""
        detector = self.detector.replace("{action}", action) or default
        settings: dict[str, Any] = {
            **PAPER_INGEST,
            "detector": detector,
            "object_name": ACTIONS.get(action) if self.detector else None,
            "appearance": self.appearance,
            "device": self.device,
        }
        if self.appearance != PAPER_BACKBONE:
            settings.pop("conv_words", None)  # words of the backbone that was asked for
        return pipeline.IngestSettings(**settings)


def corpus_of_images(
    files: ReleaseFiles,
    out: Path,
    settings: ImageSettings,
    *,
    fresh: bool = False,
    progress: Callable[[pipeline.Progress], None] | None = None,
) -> tuple[Corpus, list[str]]:
    """The corpus of an action's images, and what was left out; kept in ``out/corpora/<action>``."""
    if files.metadata is None:
        raise CorpusError(
            f"the metadata of {files.action} is missing: its annotations are needed to judge what "
            "is found in the images"
        )
    metadata = read_metadata(files.metadata)
    images = clip_images(metadata, files.images)
    if not images:
        raise CorpusError(
            f"`videos`: there are no images of {files.action}; they must be in folders "
            f"{files.action}/{metadata.clips[0]}"
        )
    boxes = out / "boxes" / f"{files.action}.json"
    write_atomically(boxes, json.dumps(boxes_as_coco(metadata)))
    spans = clip_spans(metadata, images, settings.around)
    key = digest(
        VERSION,
        pipeline.VERSION,
        content_digest(files.metadata),
        {**asdict(settings), "cache": None, "processes": None},
        [[span.id, content_digest(span.video), span.start, span.end] for span in spans],
    )

    def make() -> tuple[Corpus, list[str]]:
        corpus, report = pipeline.ingest(
            spans,
            settings.ingest(files.action, f"boxes:{boxes}"),
            cache=settings.cache,
            processes=settings.processes,
            progress=progress,
        )
        corpus = label_like_release(corpus, metadata, images)
        named = {"object": ACTIONS.get(files.action), "metadata": metadata.path.name}
        corpus = replace(corpus, info={**corpus.info, **named})
        return corpus, _notes(files.action, metadata, images, report)

    return kept_corpus(out / "corpora" / files.action, key, make, fresh=fresh)


def clip_spans(
    metadata: Metadata, images: Mapping[str, ClipImages], around: float | None = None
) -> list[ClipSpan]:
    """The clips that have images; ``around`` restricts them, see `ImageSettings`."""
    spans = []
    for n, clip in enumerate(metadata.clips):
        if clip not in images:
            continue
        rate = float(metadata.rates[n])
        span = ClipSpan(clip, images[clip].folder, image_fps=rate)
        action = _action_seconds(metadata, n, images[clip].first)
        if around is not None and action is not None:
            start, end = span_around(action, around)
            span = replace(span, start=start, end=end)
        spans.append(span)
    return spans


def _action_seconds(metadata: Metadata, n: int, first: int) -> tuple[float, float] | None:
    """The annotated action of clip n, in seconds from its first image; None without any."""
    frames = [
        metadata.chunk_frames[row] for row in metadata.chunk_rows(n) if metadata.chunk_label[row]
    ]
    if not frames:
        return None
    start, end = min(f[0] for f in frames) - first, max(f[-1] for f in frames) + 1 - first
    return float(start / metadata.rates[n]), float(end / metadata.rates[n])


def boxes_as_coco(metadata: Metadata) -> dict[str, Any]:
    """The boxes of all tracklets, as the file of a detector; images are named by number."""
    images: dict[str, int] = {}
    annotations = []
    for n, clip in enumerate(metadata.clips):
        for row in metadata.tracklet_rows(n):
            pairs = zip(metadata.tracklet_frames[row], metadata.boxes[row], strict=True)
            for frame, (x1, y1, x2, y2) in pairs:
                image = images.setdefault(f"{clip}/{frame:06d}.jpg", len(images))
                box = [float(x1), float(y1), float(x2 - x1), float(y2 - y1)]
                annotations.append({"image_id": image, "category_id": 1, "bbox": box})
    return {
        "images": [{"id": number, "file_name": name} for name, number in images.items()],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "object"}],
    }


# --- annotations --------------------------------------------------------------------------------


def label_like_release(
    corpus: Corpus, metadata: Metadata, images: Mapping[str, ClipImages]
) -> Corpus:
    """The corpus with labels that follow from the annotated tracklets and chunks of the release.

    A box has the label of the annotated box of its frame that it overlaps most, if the IoU reaches
    `MATCH_IOU`, else it is a false positive. A tracklet has the label of most of its boxes; of
    labels that are equally frequent, ambiguous. A chunk is the action if the image at its middle
    is in a chunk that is.
    """
    number = {clip: n for n, clip in enumerate(metadata.clips)}
    state = np.zeros(len(corpus.tracklets.start), np.int8)
    action = np.zeros(len(corpus.chunks.start), np.int8)
    table = corpus.tracklets
    for m, clip in enumerate(corpus.clip_ids):
        n, first = number[clip], images[clip].first
        known = _boxes_by_frame(metadata, n)
        for row in corpus.tracklet_rows(m):
            boxes = table.boxes[table.box_offsets[row] : table.box_offsets[row + 1]]
            frames = _numbers(boxes[:, 0], metadata.rates[n], first)
            labels = [_label_of(box, known.get(f)) for f, box in zip(frames, boxes, strict=True)]
            state[row] = _most_frequent(np.array(labels))
        shown = {
            int(frame)
            for row in metadata.chunk_rows(n)
            if metadata.chunk_label[row]
            for frame in metadata.chunk_frames[row]
        }
        rows = list(corpus.chunk_rows(m))
        middles = _numbers(corpus.chunks.time[rows], metadata.rates[n], first)
        action[rows] = [int(frame) in shown for frame in middles]
    return replace(
        corpus,
        tracklets=replace(corpus.tracklets, label=state),
        chunks=replace(corpus.chunks, label=action),
    )


def _numbers(times: Array, rate: float, first: int) -> Array:
    """(n,) the numbers of the images shown at these times; the first is at 0 s."""
    return np.floor(times * rate + 1e-3).astype(np.int64) + first


def _boxes_by_frame(metadata: Metadata, n: int) -> dict[int, tuple[Array, Array]]:
    """The annotated boxes (k, 4) of a clip and their labels (k,), by number of the image."""
    found: dict[int, list[tuple[Array, int]]] = {}
    for row in metadata.tracklet_rows(n):
        label = int(metadata.tracklet_label[row])
        for frame, box in zip(metadata.tracklet_frames[row], metadata.boxes[row], strict=True):
            found.setdefault(int(frame), []).append((box, label))
    return {
        frame: (np.stack([box for box, _ in pairs]), np.array([label for _, label in pairs]))
        for frame, pairs in found.items()
    }


def _label_of(box: Array, known: tuple[Array, Array] | None) -> int:
    """The label of one box (5,), time first."""
    if known is None:
        return 0
    overlap = iou(box[None, 1:], known[0])[0]
    best = int(overlap.argmax())
    return int(known[1][best]) if overlap[best] >= MATCH_IOU else 0


def _most_frequent(labels: Array) -> int:
    """The label that occurs most, or ambiguous (-2) if several do; 0 without labels.

    >>> _most_frequent(np.array([1, 1, 0])), _most_frequent(np.array([1, 2]))
    (1, -2)
    """
    if not len(labels):
        return 0
    values, counts = np.unique(labels, return_counts=True)
    most = values[counts == counts.max()]
    return int(most[0]) if len(most) == 1 else -2


def _notes(
    action: str, metadata: Metadata, images: Mapping[str, ClipImages], report: pipeline.Report
) -> list[str]:
    lacking = [clip for clip in metadata.clips if clip not in images]
    without = f"{action}: {len(lacking)} clips have no images, first {''.join(lacking[:1])}"
    notes = [without] if lacking else []
    notes += [f"{action}: {clip} is left out: {why}" for clip, why in report.failed]
    return [*notes, *(f"{action}: {problem}" for problem in report.problems)]
