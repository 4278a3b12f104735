"""What a corpus or a result holds, and what it lacks, as plain facts for people and scripts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from objectstates import formulation
from objectstates.corpus import UNKNOWN, Corpus
from objectstates.evaluation import evaluate
from objectstates.result import Result


def describe_corpus(corpus: Corpus) -> dict[str, Any]:
    """Counts, sizes, and everything that a user may wish to add."""
    tracklets, chunks = corpus.tracklets, corpus.chunks
    state, action = formulation.state_constraints(corpus), formulation.action_constraints(corpus)
    return {
        "kind": "corpus",
        "clips": len(corpus),
        "tracklets": len(tracklets.start),
        "tracklets_per_clip": _range(np.diff(tracklets.offsets)),
        "tracklet_feature_size": tracklets.features.shape[1],
        "chunks": len(chunks.start),
        "chunks_per_clip": _range(np.diff(chunks.offsets)),
        "chunk_feature_size": chunks.features.shape[1],
        "clip_seconds": _range(_clip_seconds(corpus)),
        "info": corpus.info,
        "cannot_be_labelled": [
            f"{clip.clip}: {clip.reason}"
            for clip in formulation.infeasible_clips(corpus, action, state)
        ],
        "missing": _missing(corpus),
    }


def describe_result(result: Result) -> dict[str, Any]:
    """The certificate, the sizes and the settings."""
    return {
        **result.summary,
        "labels": {f"state_{k}": int((result.state == k).sum()) for k in (1, 2)},
        "skipped": [asdict(clip) for clip in result.skipped],
        "settings": result.settings,
    }


def describe_precision(result: Result, corpus: Corpus) -> dict[str, Any]:
    """Precision where the corpus knows the truth; nothing where it does not."""
    scores = evaluate(result, corpus)
    found = {
        "state_precision": scores.state_precision,
        "state_recall": scores.state_recall,
        "action_precision": scores.action_precision,
    }
    return {name: value for name, value in found.items() if not np.isnan(value)}


def _missing(corpus: Corpus) -> list[str]:
    tracklets, chunks = corpus.tracklets, corpus.chunks
    facts = {
        "detection scores (all are 1)": bool((tracklets.score == 1).all()),
        "boxes": len(tracklets.boxes) == 0,
        "true states": bool((tracklets.label == UNKNOWN).all()),
        "true actions": bool((chunks.label == UNKNOWN).all()),
        "videos": not any(corpus.videos),
    }
    return [name for name, lacking in facts.items() if lacking]


def _clip_seconds(corpus: Corpus) -> np.ndarray:
    first = corpus.chunks.offsets[:-1]
    ends = np.maximum.reduceat(corpus.chunks.end, first)
    return np.asarray(ends - corpus.chunks.start[first])


def _range(values: np.ndarray) -> dict[str, float]:
    return {"from": float(values.min()), "to": float(values.max())}
