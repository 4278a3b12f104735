"""The observations of all clips as one corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.row_table import Rows
from objectstates.data.clips import ChangeProfile
from objectstates.data.corpus import Array, Corpus
from objectstates.data.corpus_io import FeaturePieces, write_with_features
from objectstates.data.truth import ClipTruth
from objectstates.data.truth_labels import label_corpus
from objectstates.features.change_columns import WIDTHS, chunk_columns
from objectstates.features.codebook import Codebook
from objectstates.ingest.bag_of_words import chunk_bags, codebooks_of, learn_codebooks
from objectstates.ingest.robot_columns import (
    SignalColumns,
    dataset_facts,
    dataset_of,
    view_rows,
)
from objectstates.ingest.settings import VERSION, IngestSettings
from objectstates.ingest.stored_observation import SAMPLES, StoredObservation
from objectstates.ingest.time_scale import TimeScale
from objectstates.video import fingerprint

BEYOND = 0.5  # seconds by which a listed clip may end after its video: times in lists are rounded


def _info(
    settings: IngestSettings,
    scale: TimeScale,
    fingerprints: tuple[str, str],
    stored: Sequence[StoredObservation],
) -> dict[str, Any]:
    """How a corpus was made: the lengths used, those asked for, and clips that end too late."""
    beyond = [
        part.clip.id
        for part in stored
        if part.clip.end is not None and part.clip.end > part.span[1] + BEYOND
    ]
    clips = [part.clip for part in stored]
    dataset = dataset_of(clips)
    rates = {clip.video.name: clip.image_fps for clip in clips if clip.image_fps}
    return {
        "object": settings.object_name,
        **({"image_fps": rates} if rates else {}),
        **({} if dataset is None else {"dataset": dataset_facts(clips, dataset)}),
        **({"ends_beyond_video": beyond} if beyond else {}),
        fingerprint.INFO: fingerprint.fingerprints(str(clip.video) for clip in clips),
        "ingest": {
            "version": VERSION,
            **asdict(settings),
            **asdict(scale),
            "asked": {name: getattr(settings, name) for name in asdict(scale)},
            "detector_fingerprint": fingerprints[0],
            "appearance_fingerprint": fingerprints[1],
        },
    }


def write_corpus(
    path: Path,
    stored: Sequence[StoredObservation],
    settings: IngestSettings,
    scale: TimeScale,
    fingerprints: tuple[str, str],
    like: Corpus | None,
    truth: Mapping[str, ClipTruth] | None,
    scratch: Path | None,
    signals: SignalColumns,
) -> Corpus:
    """Write the observations of all clips as one corpus; return it without features.

    fingerprints : of the detector and the backbone.
    """
    codebooks: dict[str, Codebook] = {}
    if settings.chunks == "paper":
        codebooks = learn_codebooks(stored, settings.seed) if like is None else codebooks_of(like)
    arrays = {f"{name}_words": codebook.centres for name, codebook in codebooks.items()}
    info = _info(settings, scale, fingerprints, stored)
    corpus = _without_features(stored, info, {**arrays, **signals.arrays()})
    if truth is not None:
        corpus = label_corpus(corpus, truth)
    name = "tracklet_feature"
    rows = (rows for part in stored for rows in part.groups(name))
    if codebooks:
        chunks = chunk_bags(stored, codebooks, scratch, window=scale.window_seconds)
    else:
        chunks = _dense_features(stored, signals, settings.change_columns, scratch)
    write_with_features(corpus, path, FeaturePieces(stored[0].width(name), rows), chunks)
    return corpus


def _dense_features(
    stored: Sequence[StoredObservation],
    signals: SignalColumns,
    change_columns: bool,
    scratch: Path | None,
) -> FeaturePieces:
    """The dense features of chunks; beside them other cameras, signals, and the change profile.

    The change profile of the first camera comes last (``discovery/replication.py``).
    """
    width = len(WIDTHS) if change_columns else 0

    def pieces() -> Iterator[Array]:
        for part in stored:
            with part.kept_open():
                chunks = part.chunk_features(scratch)
                change = chunk_columns(part.change, part.chunk_span)[:, :width]
            views = [(view.chunk_features(scratch), view_rows(part, view)) for view in part.views]
            beside = np.hstack([signals.of(part), change])
            done = 0
            for rows in chunks.groups():
                some = slice(done, done + len(rows))
                others = [_rows_at(features, at[some]) for features, at in views]
                yield np.hstack([rows, *others, beside[some]])
                done += len(rows)

    size = sum(map(stored[0].width, SAMPLES))
    cameras = 1 + len(stored[0].views)
    return FeaturePieces(cameras * size + signals.size + width, pieces())


def _rows_at(table: Rows, indices: Array) -> Array:
    """Rows of a table on disk; the indices, at least one, do not decrease."""
    first, last = int(indices[0]), int(indices[-1])
    return np.asarray(table.read(first, last + 1)[indices - first])


def _without_features(
    stored: Sequence[StoredObservation], info: dict[str, Any], arrays: dict[str, Array]
) -> Corpus:
    """The clips, tracklets and chunks of all observations."""
    columns: dict[str, list[Array]] = defaultdict(list)
    changes = list[ChangeProfile | None]()
    for part in stored:
        with part.kept_open():
            for name in ("tracklet_span", "tracklet_score", "boxes"):
                columns[name].append(part.column(name))
            columns["chunk_span"].append(part.chunk_span)
            columns["boxes_of"].append(part.box_counts())
            changes.append(part.change)
    per_clip = [list(map(len, columns[name])) for name in ("tracklet_span", "chunk_span")]
    table = {name: np.concatenate(parts) for name, parts in columns.items()}
    corpus = Corpus.from_arrays(
        clip_ids=[part.clip.id for part in stored],
        videos=[str(part.clip.video) for part in stored],
        changes=changes,
        info=info,
        tracklets_per_clip=per_clip[0],
        tracklet_start=table["tracklet_span"][:, 0],
        tracklet_end=table["tracklet_span"][:, 1],
        tracklet_score=table["tracklet_score"],
        tracklet_features=np.empty((len(table["tracklet_span"]), 0)),
        chunks_per_clip=per_clip[1],
        chunk_start=table["chunk_span"][:, 0],
        chunk_end=table["chunk_span"][:, 1],
        chunk_features=np.empty((len(table["chunk_span"]), 0)),
    )
    box_offsets = np.concatenate([[0], np.cumsum(table["boxes_of"])]).astype(np.int64)
    boxes = replace(corpus.tracklets, boxes=table["boxes"], box_offsets=box_offsets)
    spans = tuple(part.span for part in stored)
    recorded = (part.clip.episode for part in stored)
    episodes = tuple(None if each is None else each.span for each in recorded)
    return replace(corpus, tracklets=boxes, spans=spans, arrays=arrays, episodes=episodes)
