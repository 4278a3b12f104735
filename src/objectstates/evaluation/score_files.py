"""Scores that were computed once, as JSON files: an experiment goes on where it was stopped.

A file tells the key of what it holds: a digest of all that the scores depend on. One with another
key, or a damaged one, counts as absent.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.storage import write_atomically
from objectstates.data.result import SkippedClip
from objectstates.evaluation import ClipScore, Evaluation


def write_run(path: Path, key: str, scores: Evaluation) -> None:
    """Keep ``scores``; the file is whole or absent."""
    rows = [{name: _plain(value) for name, value in asdict(clip).items()} for clip in scores.rows]
    facts = {
        "rows": rows,
        "skipped": [asdict(clip) for clip in scores.skipped],
        "state_error": _plain(scores.state_error),
    }
    write_facts(path, key, facts)


def read_run(path: Path, key: str) -> Evaluation | None:
    """A run that was kept; none if it is of something else, or damaged."""
    facts = read_facts(path, key)
    try:
        if facts is None:
            return None
        rows = [{name: _number(value) for name, value in row.items()} for row in facts["rows"]]
        return Evaluation(
            tuple(ClipScore(**row) for row in rows),
            tuple(SkippedClip(**clip) for clip in facts["skipped"]),
            _number(facts["state_error"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def write_facts(path: Path, key: str, facts: dict[str, Any]) -> None:
    """Keep plain facts under ``key``."""
    write_atomically(path, json.dumps({"key": key, **facts}, indent=1, allow_nan=False) + "\n")


def read_facts(path: Path, key: str) -> dict[str, Any] | None:
    """What `write_facts` kept; none if it has another key, or is damaged."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return dict(facts) if facts["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and np.isnan(value) else value


def _number(value: Any) -> Any:
    return np.nan if value is None else value
