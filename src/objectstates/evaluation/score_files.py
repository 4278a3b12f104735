"""Cached scores as JSON files, so that an interrupted experiment resumes where it stopped.

Each file holds a key, a digest of everything that its content depends on. A file with another key,
or a damaged one, counts as absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.storage import write_atomically
from objectstates.data.result import SkippedClip
from objectstates.evaluation import ClipScore, Evaluation, SeedSpread


def cached_scores(
    path: Path, key: str, compute: Callable[[], Evaluation], *, fresh: bool = False
) -> Evaluation:
    """The scores in ``path`` if it has the key and ``fresh`` is not set, else computed ones."""
    scores = None if fresh else _read_scores(path, key)
    if scores is None:
        scores = compute()
        rows = [{name: plain_number(x) for name, x in clip.columns.items()} for clip in scores.rows]
        content = {
            "rows": rows,
            "skipped": [asdict(clip) for clip in scores.skipped],
            "state_error": plain_number(scores.state_error),
            "gap": plain_number(scores.gap),
            "spread": [plain_number(scores.spread.states), plain_number(scores.spread.action)],
        }
        write_keyed(path, key, content)
    return scores


def _read_scores(path: Path, key: str) -> Evaluation | None:
    content = read_keyed(path, key)
    try:
        if content is None:
            return None
        rows = [{name: _number(value) for name, value in row.items()} for row in content["rows"]]
        return Evaluation(
            tuple(ClipScore.from_columns(row) for row in rows),
            tuple(SkippedClip(**clip) for clip in content["skipped"]),
            _number(content["state_error"]),
            _number(content["gap"]),
            SeedSpread(*map(_number, content["spread"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def write_keyed(path: Path, key: str, content: dict[str, Any]) -> None:
    """Write a JSON object together with its key."""
    write_atomically(path, json.dumps({"key": key, **content}, indent=1, allow_nan=False) + "\n")


def read_keyed(path: Path, key: str) -> dict[str, Any] | None:
    """The object that `write_keyed` wrote; None if it has another key or is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return dict(content) if content["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def plain_number(value: Any) -> Any:
    """None for NaN, which JSON does not have."""
    return None if isinstance(value, float) and np.isnan(value) else value


def _number(value: Any) -> Any:
    return np.nan if value is None else value
