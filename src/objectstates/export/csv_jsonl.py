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
from objectstates.data.result import action_labels, confidence_columns
from objectstates.export.names import number
from objectstates.export.videos import ExportSource
from objectstates.report.clip_view import ClipView

PROGRESS_COLUMNS = ("clip", "video", "time", "progress")
SEGMENT_COLUMNS = ("clip", "video", "start", "end", "what", "score", "tracklet")


def clip_columns(n_actions: int = 1) -> tuple[str, ...]:
    """Of ``clips.csv``; a chain of changes has those of each action.

    >>> clip_columns(2)[4:12]  # doctest: +NORMALIZE_WHITESPACE
    ('action_1_start', 'action_1_time', 'action_1_end', 'action_1_score',
     'action_2_start', 'action_2_time', 'action_2_end', 'action_2_score')
    """
    actions = (
        f"{label}_{x}"
        for label in action_labels(n_actions)
        for x in ("start", "time", "end", "score")
    )
    chances = ("confidence", *confidence_columns(n_actions), "reached", "reached_chance")
    return ("clip", "video", "start", "end", *actions, *chances)


def episode_columns(n_actions: int = 1) -> dict[str, tuple[str, ...]]:
    """Further columns of robot datasets: the number of the episode, and seconds of the episode."""
    edges = (
        f"{label}_{x}_in_episode"
        for label in action_labels(n_actions)
        for x in ("start", "time", "end")
    )
    return {
        "clips": ("episode", *edges),
        "segments": ("episode", "start_in_episode", "end_in_episode"),
    }


def write_csv(source: ExportSource, folder: Path) -> list[str]:
    """``clips.csv``, a row per clip; ``segments.csv``, one per labelled tracklet and action; and
    ``progress.csv``, one per chunk, if progress is known."""
    with_episodes = any(clip.episode for clip in source.clips)
    more = episode_columns(source.n_actions) if with_episodes else {}
    of_clips = (
        [*_clip_row(clip), *(_actions_in_episode(clip) if more else ())] for clip in source.clips
    )
    write_rows(
        folder / "clips.csv", (*clip_columns(source.n_actions), *more.get("clips", ())), of_clips
    )
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


def _actions_in_episode(clip: ClipView) -> list[Any]:
    times = [x for action in _all_actions(clip) for x in action[:3]]
    return _in_episode(clip, *times)


def _all_actions(clip: ClipView) -> list[tuple[float | None, ...]]:
    """Start, time, end and score of each action; unknown for those that the clip lacks."""
    found = {action.label: action for action in clip.actions}
    return [
        (None,) * 4 if action is None else (action.start, action.time, action.end, action.score)
        for action in map(found.get, clip.result.action_labels)
    ]


def _in_episode(clip: ClipView, *times: float | None) -> list[Any]:
    """The number of the episode, and times of the video in seconds of the episode."""
    episode = clip.episode
    if episode is None:
        return [None] * (1 + len(times))
    return [episode.index, *(None if time is None else episode.seconds(time) for time in times)]


def _clip_row(clip: ClipView) -> list[Any]:
    times = [x for action in _all_actions(clip) for x in action]
    chances = clip.confidences or (None,) * len(confidence_columns(clip.result.n_actions))
    success = clip.reached or None, clip.reached_chance
    return [clip.name, clip.video, *clip.span, *times, clip.confidence, *chances, *success]


def _segment_rows(clip: ClipView, names: LabelNames) -> list[list[Any]]:
    rows: list[list[Any]] = [
        [*clip.shown_interval(t), names.label(f"state_{t.state}"), t.score, t.index]
        for t in clip.tracklets
        if t.state
    ]
    rows += [[a.start, a.end, names.label(a.label), a.score, None] for a in clip.actions]
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
    start, end = clip.span
    columns = confidence_columns(clip.result.n_actions)
    chances = clip.confidences or (math.nan,) * len(columns)
    return {
        "clip": clip.name,
        "video": clip.video,
        "object": object_name,
        "names": names.to_json(),
        "start": start,
        "end": end,
        **({} if clip.episode is None else {"episode": asdict(clip.episode)}),
        "confidence": number(clip.confidence),
        **dict(zip(columns, map(number, chances), strict=True)),
        "reached": clip.reached or None,
        "reached_chance": None if clip.reached_chance is None else number(clip.reached_chance),
        **_action_objects(clip),
        "tracklets": [
            {
                "tracklet": t.index,
                "start": t.start,
                "end": t.end,
                "time": t.time,
                "state": t.state,
                **{f"score_{k}": number(score) for k, score in enumerate(t.scores, start=1)},
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
                **_chunk_scores(scores),
                "progress": None if math.isnan(progress) else progress,
                "true_action": chunk.label,
            }
            for chunk, scores, progress in zip(
                clip.chunks, clip.chunk_scores[:, 2:].tolist(), _known_progress(clip), strict=True
            )
        ],
    }


def _chunk_scores(scores: list[float]) -> dict[str, float | None]:
    """``score``; in a chain ``score_1``, ``score_2`` and so on, one per action."""
    names = ["score"] if len(scores) == 1 else [f"score_{k + 1}" for k in range(len(scores))]
    return {name: number(score) for name, score in zip(names, scores, strict=True)}


def _action_objects(clip: ClipView) -> dict[str, Any]:
    """``action``; in a chain ``actions``, a list of those that the clip has."""
    chain = clip.result.n_actions > 1
    found = [
        {
            **({"action": a.number} if chain else {}),
            "chunk": a.chunk,
            "start": a.start,
            "end": a.end,
            "time": a.time,
            "score": number(a.score),
        }
        for a in clip.actions
    ]
    return {"actions": found} if chain else {"action": found[0] if found else None}


def _known_progress(clip: ClipView) -> list[float]:
    """Per chunk; NaN where it is not known."""
    return [math.nan] * len(clip.chunks) if clip.progress is None else clip.progress.tolist()
