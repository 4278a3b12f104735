"""Summaries of a corpus or a result, as plain dictionaries for the terminal and for JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np

from objectstates.data.corpus import UNKNOWN, Corpus
from objectstates.data.result import Result, confidence_columns
from objectstates.data.truth_labels import truth_count
from objectstates.discovery import constraints
from objectstates.discovery.preflight import warnings_about
from objectstates.evaluation import evaluate
from objectstates.evaluation.baselines import compare_with_baselines
from objectstates.report.clip_view import ClipView, view_clips
from objectstates.robots.lerobot_dataset import LeRobotDataset
from objectstates.video import fingerprint

VERDICT_KEYS = ("verdict", "advice")
"""Of `describe_result`: what the terminal shows in sentences instead."""


def describe_corpus(corpus: Corpus) -> dict[str, Any]:
    """Counts and sizes, clips that admit no labelling, and what the corpus lacks."""
    tracklets, chunks = corpus.tracklets, corpus.chunks
    state, action = constraints.state_constraints(corpus), constraints.action_constraints(corpus)
    return {
        "kind": "corpus",
        "clips": len(corpus),
        "tracklets": len(tracklets.start),
        "tracklets_per_clip": _range(np.diff(tracklets.offsets)),
        "tracklet_feature_size": tracklets.features.shape[1],
        "chunks": len(chunks.start),
        "chunks_per_clip": _range(np.diff(chunks.offsets)),
        "chunk_feature_size": chunks.features.shape[1],
        **lengths_used(corpus),
        "clip_seconds": _range(_clip_seconds(corpus)),
        "clips_with_change_profile": sum(change is not None for change in corpus.changes),
        "info": {name: fact for name, fact in corpus.info.items() if name != fingerprint.INFO},
        "cannot_be_labelled": [
            f"{clip.clip}: {clip.reason}"
            for clip in constraints.infeasible_clips(corpus, action, state)
        ],
        "missing": _missing(corpus),
    }


MOST_MISSING = 100  # numbers of missing episodes that are listed


def describe_dataset(dataset: LeRobotDataset) -> dict[str, Any]:
    """Version, cameras, signals, tasks with their numbers of episodes, and what is missing."""
    episodes = dataset.episodes
    counts = Counter(task for episode in episodes for task in episode.tasks)
    named = dict.fromkeys([*dataset.tasks.values(), *counts])
    lengths = [episode.length / dataset.fps for episode in episodes if episode.length]
    videos = [video.path for episode in episodes for video in episode.videos.values()]
    files = [*dict.fromkeys(videos), *dict.fromkeys(episode.record for episode in episodes)]
    numbers = {episode.index for episode in episodes}
    missing = (n for n in range(max(numbers, default=-1) + 1) if n not in numbers)
    return {
        "kind": f"LeRobot dataset {dataset.version}",
        "robot": dataset.robot,
        "fps": dataset.fps,
        "cameras": list(dataset.cameras),
        **({"stored_as_images": list(dataset.pictures)} if dataset.pictures else {}),
        "signals": dict(dataset.signals),
        "episodes": len(episodes),
        "tasks": {task: counts[task] for task in named},
        **({"episode_seconds": _range(np.array(lengths))} if lengths else {}),
        "missing_episodes": list(islice(missing, MOST_MISSING)),
        "missing_files": [str(path) for path in files if not path.exists()],
    }


def lengths_used(corpus: Corpus) -> dict[str, float]:
    """Median lengths of the tracklets and the chunks that the corpus has, in seconds."""
    tracklets, chunks = corpus.tracklets, corpus.chunks
    lengths = {
        "tracklet_seconds": tracklets.end - tracklets.start,
        "chunk_seconds": chunks.end - chunks.start,
    }
    return {name: round(float(np.median(x)), 3) for name, x in lengths.items() if len(x)}


def describe_verdict(result: Result) -> dict[str, Any]:
    """The verdict, if the result has one, and the advice about its clips."""
    advice = [asdict(item) for item in warnings_about(result)]
    verdict = {} if result.verdict is None else {"verdict": result.verdict.to_json()}
    return {**verdict, "advice": advice}


def describe_result(result: Result) -> dict[str, Any]:
    """The verdict, the summary with its certificate, the labels, clips left out, the settings."""
    return {
        **describe_verdict(result),
        **{name: fact for name, fact in result.summary.items() if name != "skipped_at"},
        "labels": {
            f"state_{k}": int((result.state == k).sum()) for k in range(1, result.n_states + 1)
        },
        "skipped": [asdict(clip) for clip in result.skipped],
        "set_aside": [asdict(clip) for clip in result.set_aside],
        "settings": result.settings,
    }


def describe_precision(result: Result, corpus: Corpus) -> dict[str, Any]:
    """Precision and recall of what was sought and has a truth; empty without truth.

    ``truth`` tells if they are an upper bound, because the truth has no boxes.
    """
    scores = evaluate(result, corpus)
    found = {
        "state_precision": scores.state_precision,
        "state_recall": scores.state_recall,
        "action_precision": scores.action_precision,
    }
    known: dict[str, Any] = {k: value for k, value in found.items() if not np.isnan(value)}
    note = truth_count(corpus).note
    return {**known, "truth": note} if known and note else known


def describe_beside_baselines(result: Result, corpus: Corpus) -> dict[str, dict[str, float]]:
    """Precision of states and action beside the baselines'; empty without truth."""
    return {
        row.method: {
            side: value
            for side, value in (("states", row.states), ("action", row.action))
            if value is not None
        }
        for row in compare_with_baselines(result, corpus)
    }


def describe_clips(result: Result) -> list[dict[str, Any]]:
    """Per clip the actions' times and intervals, and the intervals of the states, in seconds.

    Keys are ``action_time``, ``action``, ``state_1`` and ``state_2``; in a chain of changes
    ``action_1_time``, ``action_1``, ``action_2_time`` and so on. An action that a clip lacks is
    null.
    """
    return [
        {
            "clip": clip.name,
            **_actions(clip),
            **{
                f"state_{k}": [(s.start, s.end) for s in clip.state_segments(k)]
                for k in range(1, result.n_states + 1)
            },
            "confidence": clip.confidence,
            **_chances(clip),
            **_success(clip),
            **_in_episode(clip),
        }
        for clip in view_clips(result)
    ]


def _actions(clip: ClipView) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    found = {action.label: action for action in clip.actions}
    for label in clip.result.action_labels:
        action = found.get(label)
        rows[f"{label}_time"] = action and action.time
        rows[label] = action and (action.start, action.end)
    return rows


def _chances(clip: ClipView) -> dict[str, float | None]:
    """The chances that the answers of a clip are right; null for what was not sought."""
    if clip.confidences is None:
        return {}
    return {
        name: None if np.isnan(chance) else chance
        for name, chance in zip(
            confidence_columns(clip.result.n_actions), clip.confidences, strict=True
        )
    }


def _success(clip: ClipView) -> dict[str, str | float | None]:
    """Whether the clip ends in state 2, if it was judged."""
    if clip.reached_chance is None:
        return {}
    return {"reached": clip.reached, "reached_chance": clip.reached_chance}


def _in_episode(clip: ClipView) -> dict[str, Any]:
    """The episode of a robot dataset, and the actions' times in seconds of it."""
    episode = clip.episode
    if episode is None:
        return {}
    times = {action.label: episode.seconds(action.time) for action in clip.actions}
    return {
        "episode": episode.index,
        **{f"{label}_time_in_episode": times.get(label) for label in clip.result.action_labels},
    }


def _missing(corpus: Corpus) -> list[str]:
    tracklets, chunks = corpus.tracklets, corpus.chunks
    lacking = {
        "detection scores (all are 1)": bool((tracklets.score == 1).all()),
        "boxes": len(tracklets.boxes) == 0,
        "true states": bool((tracklets.label == UNKNOWN).all()),
        "true actions": bool((chunks.label == UNKNOWN).all()),
        "videos": not any(corpus.videos),
        "change profiles": all(change is None for change in corpus.changes),
    }
    return [name for name, is_lacking in lacking.items() if is_lacking]


def _clip_seconds(corpus: Corpus) -> np.ndarray:
    first = corpus.chunks.offsets[:-1]
    ends = np.maximum.reduceat(corpus.chunks.end, first)
    return np.asarray(ends - corpus.chunks.start[first])


def _range(values: np.ndarray) -> dict[str, float]:
    return {"from": float(values.min()), "to": float(values.max())}
