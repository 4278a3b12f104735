"""COCO: boxes on frames, to train detectors and for most tools that read boxes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from objectstates.base.errors import ExportError
from objectstates.data.clips import Box
from objectstates.export.names import number
from objectstates.export.sampling import check_fps, sample_times, write_jpeg
from objectstates.export.videos import ExportSource, ReadableVideo, readable_videos
from objectstates.report.clip_parts import TrackletView
from objectstates.report.clip_view import ClipView


def write_coco(
    source: ExportSource,
    folder: Path,
    *,
    fps: float = 5.0,
    images: bool = True,
    all_tracklets: bool = False,
) -> list[str]:
    """``annotations.json`` and, with ``images``, the folder ``images/``.

    Images are frames at times of boxes, at most ``fps`` per second. Beside COCO's own fields they
    have ``video`` and ``time`` in seconds. Annotations have ``attributes``.
    """
    check_fps(fps)
    problems: list[str] = []
    data: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": []}
    for video in readable_videos(source, problems):
        boxed = [
            (clip, t)
            for clip in video.clips
            for t in clip.boxed_tracklets(unlabelled=all_tracklets)
        ]
        times = sample_times((b.time for _, t in boxed for b in t.box_list), fps)
        first = len(data["images"]) + 1
        pictures = {time: _image(video, time, first + i) for i, time in enumerate(times)}
        if images:
            read = set()
            for time, frame in video.frames_at(times, problems):
                read.add(time)
                write_jpeg(folder / "images" / pictures[time]["file_name"], frame.image)
            pictures = {time: pictures[time] for time in times if time in read}
        data["images"] += pictures.values()
        for clip, tracklet in boxed:
            boxes = video.boxes(clip, tracklet, problems)
            _annotate(clip, tracklet, boxes, pictures, data["annotations"])
    if not data["annotations"]:
        remedy = "; ".join(problems) or "seek states, or set `all_tracklets`"
        raise ExportError(f"no box has a state: {remedy}")
    category = {"id": 1, "name": source.label, "supercategory": ""}
    text = json.dumps({**data, "categories": [category]}, allow_nan=False)
    (folder / "annotations.json").write_text(text + "\n", encoding="ascii")
    return problems


def _image(video: ReadableVideo, time: float, id: int) -> dict[str, Any]:
    return {
        "id": id,
        "file_name": f"{video.name}/{round(time * 1000):08d}.jpg",
        "width": video.info.width,
        "height": video.info.height,
        "video": video.video,
        "time": time,
    }


def _annotate(
    clip: ClipView,
    tracklet: TrackletView,
    boxes: list[Box],
    pictures: dict[float, dict[str, Any]],
    annotations: list[dict[str, Any]],
) -> None:
    for box in boxes:
        if box.time not in pictures:
            continue
        width, height = box.x2 - box.x1, box.y2 - box.y1
        annotations.append(
            {
                "id": len(annotations) + 1,
                "image_id": pictures[box.time]["id"],
                "category_id": 1,
                "bbox": [box.x1, box.y1, width, height],
                "area": width * height,
                "iscrowd": 0,
                "score": tracklet.detection_score,
                "attributes": {
                    "state": tracklet.state,
                    "score": number(tracklet.score),
                    "tracklet": tracklet.index,
                    "clip": clip.name,
                },
            }
        )
