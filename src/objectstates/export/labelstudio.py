"""Label Studio: pre-annotations of videos, to review and to correct by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from objectstates.data.clips import Box
from objectstates.data.formats.exported_clip import FoundClip, FoundTracklet
from objectstates.data.label_names import LabelNames
from objectstates.export.names import number, xml_text
from objectstates.export.videos import ExportSource, ReadableVideo, readable_videos
from objectstates.report.clip_view import ClipView

LOCAL_FILES = "/data/local-files/?d="
"""URL prefix of Label Studio's local files, before the path from its document root."""

_CONFIG = """<View>
  <Labels name="states" toName="video">
{states}
    <Label value="no state" background="#7f7f7f"/>
  </Labels>
  <Video name="video" value="$video" frameRate="$fps" timelineHeight="120"/>
  <VideoRectangle name="box" toName="video"/>
  <TimelineLabels name="timeline" toName="video">
{labels}
  </TimelineLabels>
</View>
"""
_COLOURS = {
    "state": (
        *("#1f77b4", "#ff7f0e", "#009e73", "#f0e442", "#56b4e9", "#9467bd", "#8c564b"),
        "#bcbd22",
    ),
    "action": ("#d62728", "#cc79a7", "#800000", "#ff9da6", "#a0005a", "#e45756", "#5c1a33"),
}
"""Of states and actions, in order."""


def write_labelstudio(
    source: ExportSource, folder: Path, *, url: str | None = None, all_tracklets: bool = False
) -> list[str]:
    """``tasks.json``, a task per video to import, and ``config.xml``, the labelling interface.

    Tasks hold what was found, to tell edits by (``data/formats/corrected_labelstudio.py``); those
    of chains of changes do not: they are corrected by a CSV file.

    url : prefix of each video's file name; by default videos are Label Studio's local files, with
        the document root ``/``.
    """
    problems: list[str] = []
    tasks = []
    for video in readable_videos(source, problems):
        regions = [
            region
            for n, clip in enumerate(video.clips)
            for region in _regions(video, n, clip, all_tracklets, problems)
        ]
        confidence = sum(clip.confidence for clip in video.clips) / len(video.clips)
        data: dict[str, Any] = {
            "video": _address(video, url),
            "fps": video.info.fps,
            "object": source.object_name,
            "clips": [clip.name for clip in video.clips],
            "names": {label: _plain(name) for label, name in source.names.labels.items()},
        }
        if source.n_actions == 1:
            data["found"] = [_found(video, clip, all_tracklets) for clip in video.clips]
        prediction = {"model_version": "objectstates", "score": confidence, "result": regions}
        tasks.append({"data": data, "predictions": [prediction]})
    text = json.dumps(tasks, indent=1, allow_nan=False)
    (folder / "tasks.json").write_text(text + "\n", encoding="ascii")
    (folder / "config.xml").write_text(_config(source.names), encoding="utf-8")
    return problems


def _config(names: LabelNames) -> str:
    """The labelling interface; labels of the same name are there once."""
    lines: dict[str, str] = {}
    for label, name in names.labels.items():
        kind, _, number = label.partition("_")
        colour = _COLOURS[kind][int(number or 1) - 1]
        line = f'    <Label value={quoteattr(_plain(name))} background="{colour}"/>'
        lines.setdefault(name, line)
    states = dict.fromkeys(names.states)
    return _CONFIG.format(
        states="\n".join(lines[name] for name in states), labels="\n".join(lines.values())
    )


def _plain(name: str) -> str:
    """A name that Label Studio takes as it is: it reads a dollar sign as a variable."""
    return xml_text(name).replace("$", "\N{FULLWIDTH DOLLAR SIGN}")


def _address(video: ReadableVideo, url: str | None) -> str:
    path = Path(os.path.abspath(video.info.path))
    if url is not None:
        return url.rstrip("/") + "/" + quote(path.name)
    return LOCAL_FILES + quote(path.relative_to(path.anchor).as_posix())


def _regions(
    video: ReadableVideo, n: int, clip: ClipView, all_tracklets: bool, problems: list[str]
) -> list[dict[str, Any]]:
    boxed = clip.boxed_tracklets(unlabelled=all_tracklets)
    tracks = [(t, _sequence(video, video.boxes(clip, t, problems))) for t in boxed]
    regions = [
        {
            "id": f"box-{n}-{t.index}",
            "type": "videorectangle",
            "from_name": "box",
            "score": number(t.score),
            "meta": {"text": [clip.name, f"tracklet {t.index}"]},
            "value": {
                "framesCount": _count(video),
                "duration": video.info.duration,
                "sequence": sequence,
                "labels": [_plain(clip.result.names.of_state(t.state))],
            },
        }
        for t, sequence in tracks
        if sequence
    ]
    regions += [
        {
            "id": f"time-{n}-{i}",
            "type": "timelinelabels",
            "from_name": "timeline",
            "score": number(segment.score),
            "meta": {"text": [clip.name]},
            "value": {
                "ranges": [_range(video, segment.start, segment.end)],
                "timelinelabels": [_plain(clip.result.names[segment.label])],
            },
        }
        for i, segment in enumerate(clip.segments())
    ]
    return [{**region, "to_name": "video", "origin": "prediction"} for region in regions]


def _found(video: ReadableVideo, clip: ClipView, all_tracklets: bool) -> dict[str, Any]:
    """What the task shows of a clip, to tell edits by (``data/formats/corrected_labelstudio.py``).

    Beside a `FoundClip`, the frames of the clip, ``span``, and of its segments.
    """
    action = clip.action
    frames = None if action is None else _range(video, action.start, action.end)
    boxed = clip.boxed_tracklets(unlabelled=all_tracklets)
    found = FoundClip(
        clip.name,
        video.info.fps,
        None if action is None else (action.start, action.end),
        None if frames is None else (frames["start"], frames["end"] + 1),
        tuple(FoundTracklet(t.index, t.state, t.start, t.end) for t in boxed),
    )
    first, last = (_frame(video, time) for time in clip.extent)
    segments = []
    for segment in clip.segments():
        place = _range(video, segment.start, segment.end)
        name = _plain(clip.result.names[segment.label])
        segments.append([name, place["start"], place["end"]])
    return {**found.to_json(), "span": [first, last + 1], "segments": segments}


def _count(video: ReadableVideo) -> int:
    return max(1, round(video.info.duration * video.info.fps))


def _frame(video: ReadableVideo, time: float) -> int:
    """Label Studio counts frames from 1 and assumes a constant frame rate."""
    return min(max(round(time * video.info.fps) + 1, 1), _count(video))


def _range(video: ReadableVideo, start: float, end: float) -> dict[str, int]:
    """Frames from the first to the last, both included."""
    first = _frame(video, start)
    return {"start": first, "end": max(first, _frame(video, end) - 1)}


def _sequence(video: ReadableVideo, boxes: list[Box]) -> list[dict[str, Any]]:
    """Boxes in percent of the frame; the last one ends the sequence."""
    by_frame = {_frame(video, box.time): box for box in boxes}
    width, height = video.info.width / 100, video.info.height / 100
    return [
        {
            "frame": frame,
            "time": box.time,
            "enabled": box is not boxes[-1],
            "rotation": 0,
            "x": box.x1 / width,
            "y": box.y1 / height,
            "width": (box.x2 - box.x1) / width,
            "height": (box.y2 - box.y1) / height,
        }
        for frame, box in by_frame.items()
    ]
