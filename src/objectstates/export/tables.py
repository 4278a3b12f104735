"""CSV for spreadsheets and data frames; JSON Lines with all that a result holds."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from objectstates.export.findings import Findings, FoundClip
from objectstates.export.names import number

CLIP_COLUMNS = (
    *("clip", "video", "start", "end", "action_start", "action_time", "action_end"),
    *("action_score", "confidence"),
)
SEGMENT_COLUMNS = ("clip", "video", "start", "end", "what", "score", "tracklet")


def write_csv(findings: Findings, folder: Path) -> list[str]:
    """``clips.csv``, a row per clip, and ``segments.csv``, one per labelled tracklet and action."""
    _write_rows(folder / "clips.csv", CLIP_COLUMNS, map(_clip_row, findings.clips))
    rows = (row for clip in findings.clips for row in _segment_rows(clip))
    _write_rows(folder / "segments.csv", SEGMENT_COLUMNS, rows)
    return []


def _clip_row(found: FoundClip) -> list[Any]:
    clip, action = found.clip, found.action
    times = (None,) * 4 if action is None else (action.start, action.time, action.end, action.score)
    return [clip.id, clip.video, clip.start, clip.end, *times, found.confidence]


def _segment_rows(found: FoundClip) -> list[list[Any]]:
    rows: list[list[Any]] = [
        [t.tracklet.start, t.tracklet.end, f"state_{t.state}", t.score, t.index]
        for t in found.tracklets
        if t.state
    ]
    if (action := found.action) is not None:
        rows.append([action.start, action.end, "action", action.score, None])
    return [[found.clip.id, found.clip.video, *row] for row in sorted(rows, key=lambda r: r[:3])]


def _write_rows(path: Path, columns: Iterable[str], rows: Iterable[list[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    """A cell that no spreadsheet runs.

    Text that begins like a formula gets an apostrophe in front, the mark by which spreadsheets know
    text; so does text that begins with one, and the mark can be taken off again without doubt.
    Numbers stay numbers.
    """
    if isinstance(value, str):
        return (
            f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "'")) else value
        )
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value


def write_jsonl(findings: Findings, folder: Path) -> list[str]:
    """``clips.jsonl``, an object per clip with all of it; NaN is null."""
    with (folder / "clips.jsonl").open("w", encoding="ascii", newline="\n") as file:
        for found in findings.clips:
            file.write(json.dumps(_clip_object(found, findings), allow_nan=False) + "\n")
    return []


def _clip_object(found: FoundClip, findings: Findings) -> dict[str, Any]:
    clip, action = found.clip, found.action
    return {
        "clip": clip.id,
        "video": clip.video,
        "object": findings.object_name,
        "start": clip.start,
        "end": clip.end,
        "confidence": number(found.confidence),
        "action": None if action is None else {**asdict(action), "score": number(action.score)},
        "tracklets": [
            {
                "tracklet": t.index,
                "start": t.tracklet.start,
                "end": t.tracklet.end,
                "time": t.tracklet.time,
                "state": t.state,
                "score_1": number(t.scores[0]),
                "score_2": number(t.scores[1]),
                "detection_score": t.tracklet.score,
                "true_label": None if t.tracklet.label is None else int(t.tracklet.label),
                "boxes": [[b.time, b.x1, b.y1, b.x2, b.y2] for b in t.tracklet.boxes],
            }
            for t in found.tracklets
        ],
        "chunks": [
            {
                "start": chunk.start,
                "end": chunk.end,
                "time": chunk.time,
                "score": number(score),
                "true_action": chunk.label,
            }
            for chunk, score in zip(clip.chunks, found.chunk_scores, strict=True)
        ],
    }
