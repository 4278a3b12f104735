"""What a corpus or a result holds, and what it lacks, as plain facts for people and scripts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from objectstates.data.corpus import UNKNOWN, Corpus
from objectstates.data.result import Result
from objectstates.discovery import constraints as formulation
from objectstates.evaluation import evaluate
from objectstates.evaluation.baselines import chance, middle

SAME_INTERVAL = 0.25
"""Seconds between two tracklets of a state that still count as one interval."""


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
        "set_aside": [asdict(clip) for clip in result.set_aside],
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


def describe_beside_baselines(result: Result, corpus: Corpus) -> dict[str, dict[str, float]]:
    """Precision of states and action beside what guessing gives, where the truth is known."""
    rows = {
        "chance": chance(corpus),
        "middle of the clip": middle(corpus),
        "discovered": evaluate(result, corpus),
    }
    found = {
        name: {"states": row.state_precision, "action": row.action_precision}
        for name, row in rows.items()
    }
    known = {
        name: {side: value for side, value in row.items() if not np.isnan(value)}
        for name, row in found.items()
    }
    return known if any(known.values()) else {}


def describe_clips(result: Result) -> list[dict[str, Any]]:
    """Per clip when the action happens and how long, and when states are seen; in seconds."""
    time, span, confidence = result.action_time, result.action_span, result.confidence
    return [
        {
            "clip": clip,
            "action_time": None if np.isnan(time[n]) else float(time[n]),
            "action": None if np.isnan(span[n]).any() else (float(span[n, 0]), float(span[n, 1])),
            **{f"state_{k}": state_intervals(result, n, k) for k in (1, 2)},
            "confidence": float(confidence[n]),
        }
        for n, clip in enumerate(result.clips)
    ]


def state_intervals(result: Result, clip: int, state: int) -> list[tuple[float, float]]:
    """When the tracklets labelled with a state are seen; those that follow one another are one."""
    rows = np.flatnonzero((result.tracklet_clip == clip) & (result.state == state))
    table = result.corpus.tracklets
    merged: list[tuple[float, float]] = []
    for row in rows[np.argsort(table.start[rows])]:
        start, end = float(table.start[row]), float(table.end[row])
        if merged and start - merged[-1][1] <= SAME_INTERVAL:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


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
