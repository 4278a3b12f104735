"""CVAT for video 1.1: tracks of boxes, to review and to correct by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from objectstates.base.errors import VideoError
from objectstates.data.clips import Box
from objectstates.data.corpus import Array
from objectstates.data.formats.exported_clip import FoundClip, FoundTracklet
from objectstates.export.names import xml_text
from objectstates.export.videos import ExportSource, ReadableVideo, readable_videos
from objectstates.report.clip_parts import Action
from objectstates.video.frames_at import TOLERANCE, nearest_index

_CREATED = "1970-01-01 00:00:00.000000+00:00"
"""CVAT requires a date; a constant one gives the same bytes for the same result."""


class _Track(NamedTuple):
    """Boxes by frame number; from frame ``end`` on there is none."""

    label: str
    boxes: dict[int, Box]
    end: int
    attributes: dict[str, str]


def write_cvat(source: ExportSource, folder: Path, *, all_tracklets: bool = False) -> list[str]:
    """``annotations/VIDEO.xml`` for each video, and ``labels.json`` to set up tasks with.

    A tracklet is a track with the attributes state, score, clip, and tracklet, its index (empty if
    no action was sought). An action is a track of a box around the whole frame, because the format
    has no intervals. Its attribute found tells edits (``data/formats/corrected_cvat.py``); chains
    of changes do not have it: they are corrected by a CSV file.
    """
    problems: list[str] = []
    labels = _labels(source, all_tracklets)
    (folder / "annotations").mkdir()  # a folder of its own, which ingest reads whole
    for video in readable_videos(source, problems):
        try:
            tracks, count = _tracks(video, source, all_tracklets, problems)
        except VideoError as problem:
            problems.append(f"left out {problem}")
            continue
        tree = ElementTree.ElementTree(_document(video, tracks, labels, count))
        ElementTree.indent(tree, " ")
        tree.write(
            folder / "annotations" / f"{video.name}.xml", encoding="utf-8", xml_declaration=True
        )
    text = json.dumps(labels, indent=1)
    (folder / "labels.json").write_text(text + "\n", encoding="ascii")
    return problems


def _tracks(
    video: ReadableVideo, source: ExportSource, all_tracklets: bool, problems: list[str]
) -> tuple[list[_Track], int]:
    """The tracks, and the number of frames of the video."""
    boxed = [
        (clip, t) for clip in video.clips for t in clip.boxed_tracklets(unlabelled=all_tracklets)
    ]
    actions = [(clip.name, action) for clip in video.clips for action in clip.actions]
    begins = [b.time for _, t in boxed for b in t.box_list] + [a.start for _, a in actions]
    ends = [t.end for _, t in boxed] + [a.end for _, a in actions]
    times = video.frame_times(max(begins + ends, default=0.0))
    last = times[-1] + TOLERANCE
    if any(begin > last for begin in begins):
        problems.append(
            f"{video.info.path}: left out what lies after its last frame at {times[-1]:.2f} s"
        )
    tracks: list[_Track] = []
    written: dict[str, list[FoundTracklet]] = {}
    for clip, t in boxed:
        inside = video.boxes(clip, t, problems)
        boxes = {nearest_index(times, box.time): box for box in inside if box.time <= last}
        if boxes:
            end = max(_first_from(times, t.end), max(boxes) + 1)
            attributes = {"state": str(t.state), "score": _decimal(t.score), "clip": clip.name}
            attributes["tracklet"] = str(t.index) if clip.actions else ""
            tracks.append(_Track(xml_text(source.label), boxes, end, attributes))
            if source.n_actions == 1:
                found = FoundTracklet(t.index, t.state, t.start, t.end)
                written.setdefault(clip.name, []).append(found)
    for name, action in actions:
        if action.start <= last:
            known = written.get(name, []) if source.n_actions == 1 else None
            label = xml_text(source.names[action.label])
            tracks.append(_action(video, label, (name, action), known, times))
    declared = round(video.info.duration * video.info.fps)
    return tracks, max(len(times), declared)


def _action(
    video: ReadableVideo,
    label: str,
    named: tuple[str, Action],
    tracklets: list[FoundTracklet] | None,
    times: Array,
) -> _Track:
    """The track of an action; without ``tracklets`` nothing to tell edits by."""
    clip, action = named
    first = min(_first_from(times, action.start), len(times) - 1)
    end = max(_first_from(times, action.end), first + 1)
    frame = Box(0.0, 0.0, 0.0, float(video.info.width), float(video.info.height))
    attributes = {"score": _decimal(action.score), "clip": clip}
    if tracklets is not None:
        span, fps = (action.start, action.end), video.info.fps
        found = FoundClip(xml_text(clip), fps, span, (first, end), tuple(tracklets))
        attributes["found"] = json.dumps(found.to_json())
    return _Track(label, {first: frame}, end, attributes)


def _first_from(times: Array, time: float) -> int:
    """The first frame at or after ``time``, up to rounding."""
    return int(np.searchsorted(times, time - 1e-6))


def _decimal(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"


def _labels(source: ExportSource, all_tracklets: bool) -> list[dict[str, Any]]:
    """Labels in the form of CVAT's raw label editor."""
    states = [str(k) for k in range(0 if all_tracklets else 1, len(source.names.states) + 1)]
    values = {"state": states, "score": [""], "clip": [""], "tracklet": [""], "found": [""]}
    state, score, clip, tracklet, found = (
        {
            "name": n,
            "input_type": "select" if n == "state" else "text",
            "mutable": False,
            "values": v,
            "default_value": v[0],
        }
        for n, v in values.items()
    )
    boxes = [state, score, clip, tracklet]
    of_actions = [score, clip, found] if source.n_actions == 1 else [score, clip]
    return [
        {"name": xml_text(source.label), "type": "rectangle", "attributes": boxes},
        *(
            {"name": xml_text(name), "type": "rectangle", "attributes": of_actions}
            for name in source.names.actions
        ),
    ]


def _document(
    video: ReadableVideo, tracks: Iterable[_Track], labels: list[dict[str, Any]], count: int
) -> ElementTree.Element:
    attribute_tags = ("name", "mutable", "input_type", "default_value")
    task = [
        ("id", 1),
        ("name", video.name),
        ("size", count),
        ("mode", "interpolation"),
        ("overlap", 0),
        ("bugtracker", ""),
        ("created", _CREATED),
        ("updated", _CREATED),
        ("start_frame", 0),
        ("stop_frame", count - 1),
        ("frame_filter", ""),
        ("labels", [("label", [
            ("name", label["name"]),
            ("type", label["type"]),
            ("attributes", [("attribute", [
                *((tag, attribute[tag]) for tag in attribute_tags),
                ("values", "\n".join(attribute["values"])),
            ]) for attribute in label["attributes"]]),
        ]) for label in labels]),
        ("original_size", [("width", video.info.width), ("height", video.info.height)]),
        ("source", Path(video.video).name),
    ]  # fmt: skip
    root = ElementTree.Element("annotations")
    _add(root, "version", "1.1")
    _add(root, "meta", [("task", task), ("dumped", _CREATED)])
    for number, track in enumerate(tracks):
        _add_track(root, number, track, count)
    return root


def _add_track(root: ElementTree.Element, number: int, track: _Track, count: int) -> None:
    element = _add(root, "track", [], id=str(number), label=track.label, source="auto")
    frames = sorted(track.boxes)
    boxes = [(frame, track.boxes[frame], "0") for frame in frames]
    if track.end < count:
        boxes.append((track.end, track.boxes[frames[-1]], "1"))
    for frame, box, outside in boxes:
        flags = {"frame": str(frame), "keyframe": "1", "outside": outside, "occluded": "0"}
        corners = zip(("xtl", "ytl", "xbr", "ybr"), (box.x1, box.y1, box.x2, box.y2), strict=True)
        sides = {name: f"{value:.2f}" for name, value in corners}
        drawn = _add(element, "box", [], **flags, **sides, z_order="0")
        for name, value in track.attributes.items():
            _add(drawn, "attribute", value, name=name)


def _add(
    parent: ElementTree.Element, tag: str, content: object, **attributes: str
) -> ElementTree.Element:
    """Append an element; a list holds the tags and contents of its children, else it is text."""
    element = ElementTree.SubElement(parent, tag, attributes)
    if isinstance(content, list):
        for child, part in content:
            _add(element, child, part)
    else:
        element.text = xml_text(str(content))
    return element
