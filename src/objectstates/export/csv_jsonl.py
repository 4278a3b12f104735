"""CSV for spreadsheets and data frames; JSON Lines with everything in a result."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from objectstates.base.csv_cells import escaped
from objectstates.data.label_names import LabelNames
from objectstates.data.result import confidence_columns
from objectstates.export.names import number
from objectstates.export.videos import ExportSource
from objectstates.report.clip_view import ClipView

CLIP_COLUMNS = (
    *("clip", "video", "start", "end", "action_start", "action_time", "action_end"),
    *("action_score", "confidence", *confidence_columns(1), "reached", "reached_chance"),
)
PROGRESS_COLUMNS = ("clip", "video", "time", "progress")
SEGMENT_COLUMNS = ("clip", "video", "start", "end", "what", "score", "tracklet")
IN_EPISODE = {
    "clips": ("episode", *(f"action_{x}_in_episode" for x in ("start", "time", "end"))),
    "segments": ("episode", "start_in_episode", "end_in_episode"),
}
"""Further columns of robot datasets: the number of the episode, and seconds of the episode."""


def write_csv(source: ExportSource, folder: Path) -> list[str]:
    """``clips.csv``, a row per clip; ``segments.csv``, one per labelled tracklet and action; and
    ``progress.csv``, one per chunk, if progress is known."""
    more = IN_EPISODE if any(clip.episode for clip in source.clips) else {}
    of_clips = (
        [*_clip_row(clip), *(_action_in_episode(clip) if more else ())] for clip in source.clips
    )
    write_rows(folder / "clips.csv", (*CLIP_COLUMNS, *more.get("clips", ())), of_clips)
    rows = (
        [*row, *(_in_episode(clip, row[2], row[3]) if more else ())]
        for clip in source.clips
        for row in _segment_rows(clip, source.names)
    )
    write_rows(folder / "segments.csv", (*SEGMENT_COLUMNS, *more.get("segments", ())), rows)
    progress = [row for clip in source.clips for row in _progress_rows(clip)]
    if progress:
        write_rows(folder / "progress.csv", PROGRESS_COLUMNS, progress)
    return []


def _progress_rows(clip: ClipView) -> list[list[Any]]:
    if clip.progress is None:
        return []
    rows = zip(clip.chunks, clip.progress.tolist(), strict=True)
    return [[clip.name, clip.video, chunk.time, value] for chunk, value in rows]


def _action_in_episode(clip: ClipView) -> list[Any]:
    action = clip.action
    times = (None,) * 3 if action is None else (action.start, action.time, action.end)
    return _in_episode(clip, *times)


def _in_episode(clip: ClipView, *times: float | None) -> list[Any]:
    """The number of the episode, and times of the video in seconds of the episode."""
    episode = clip.episode
    if episode is None:
        return [None] * (1 + len(times))
    return [episode.index, *(None if time is None else episode.seconds(time) for time in times)]


def _clip_row(clip: ClipView) -> list[Any]:
    action = clip.action
    times = (None,) * 4 if action is None else (action.start, action.time, action.end, action.score)
    chances = clip.confidences or (None,) * 3
    success = clip.reached or None, clip.reached_chance
    return [clip.name, clip.video, *clip.span, *times, clip.confidence, *chances, *success]


def _segment_rows(clip: ClipView, names: LabelNames) -> list[list[Any]]:
    rows: list[list[Any]] = [
        [*clip.shown_interval(t), names.label(f"state_{t.state}"), t.score, t.index]
        for t in clip.tracklets
        if t.state
    ]
    if (action := clip.action) is not None:
        rows.append([action.start, action.end, names.label("action"), action.score, None])
    return [[clip.name, clip.video, *row] for row in sorted(rows, key=lambda r: r[:3])]


def write_rows(path: Path, columns: Iterable[str], rows: Iterable[list[Any]]) -> None:
    """A CSV file in UTF-8; unknown values are empty, and no cell is a formula."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    """A cell that no spreadsheet runs as a formula; numbers stay numbers."""
    if isinstance(value, str):
        return escaped(value)
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value


def write_jsonl(source: ExportSource, folder: Path) -> list[str]:
    """``clips.jsonl``, one object per clip with everything in the result; NaN is null."""
    with (folder / "clips.jsonl").open("w", encoding="ascii", newline="\n") as file:
        for clip in source.clips:
            content = _clip_object(clip, source.object_name, source.names)
            file.write(json.dumps(content, allow_nan=False) + "\n")
    return []


def _clip_object(clip: ClipView, object_name: str | None, names: LabelNames) -> dict[str, Any]:
    (start, end), action = clip.span, clip.action
    return {
        "clip": clip.name,
        "video": clip.video,
        "object": object_name,
        "names": names.to_json(),
        "start": start,
        "end": end,
        **({} if clip.episode is None else {"episode": asdict(clip.episode)}),
        "confidence": number(clip.confidence),
        **dict(
            zip(
                confidence_columns(1), map(number, clip.confidences or (math.nan,) * 3), strict=True
            )
        ),
        "reached": clip.reached or None,
        "reached_chance": None if clip.reached_chance is None else number(clip.reached_chance),
        "action": None if action is None else {**asdict(action), "score": number(action.score)},
        "tracklets": [
            {
                "tracklet": t.index,
                "start": t.start,
                "end": t.end,
                "time": t.time,
                "state": t.state,
                "score_1": number(t.scores[0]),
                "score_2": number(t.scores[1]),
                "detection_score": t.detection_score,
                "true_label": t.truth,
                "boxes": t.boxes.tolist(),
            }
            for t in clip.tracklets
        ],
        "chunks": [
            {
                "start": chunk.start,
                "end": chunk.end,
                "time": chunk.time,
                "score": number(float(score)),
                "progress": None if math.isnan(progress) else progress,
                "true_action": chunk.label,
            }
            for chunk, score, progress in zip(
                clip.chunks, clip.chunk_scores[:, 2], _known_progress(clip), strict=True
            )
        ],
    }


def _known_progress(clip: ClipView) -> list[float]:
    """Per chunk; NaN where it is not known."""
    return [math.nan] * len(clip.chunks) if clip.progress is None else clip.progress.tolist()
