"""Corrections from a Label Studio export that a person has edited.

``export/labelstudio.py`` puts what was found into the ``data`` of each task, which Label Studio
keeps. A task with a submitted annotation was looked at: a clip whose action was left as it was is
confirmed. Tasks without an annotation give nothing. Edits mean:

* the action has another range: ``action``; it was deleted: ``no_change``;
* a range of a state was drawn or moved: ``state``;
* a box has another state: ``state``; it was deleted, or has no state: ``not_object``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from objectstates.base.errors import CorrectionError
from objectstates.data.correction_rows import Correction
from objectstates.data.formats.exported_clip import FoundClip, Frames
from objectstates.data.label_names import LabelNames


def corrections_from_labelstudio(text: str, file: str) -> tuple[Correction, ...]:
    """The edits in the text of a JSON export."""
    try:
        tasks = json.loads(text)
        tasks = tasks if isinstance(tasks, list) else [tasks]
        return tuple(row for task in tasks for row in _task(task, file))
    except CorrectionError:
        raise
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as problem:
        what = f"{problem} is missing" if isinstance(problem, KeyError) else str(problem)
        raise CorrectionError(
            f"{file}: {what}; corrections are read from our own export for Label Studio, after it "
            "exported it again as JSON (not JSON-MIN)"
        ) from problem


def _task(task: dict[str, Any], file: str) -> list[Correction]:
    submitted = [a for a in task.get("annotations") or () if not a.get("was_cancelled")]
    if not submitted:
        return []
    data = task["data"]
    labels = LabelNames.from_json(data["names"])
    found = [FoundClip.from_json(clip) for clip in data["found"]]
    segments = [{(s[0], int(s[1]), int(s[2])) for s in clip["segments"]} for clip in data["found"]]
    regions: list[list[dict[str, Any]]] = [[] for _ in found]
    for region in submitted[-1]["result"]:
        regions[_clip_of(region, found, data)].append(region)
    rows = []
    for clip, known, own in zip(found, segments, regions, strict=True):
        rows += _clip(clip, known, own, labels, file)
    return rows


def _clip_of(region: dict[str, Any], found: list[FoundClip], data: dict[str, Any]) -> int:
    """The clip that a region names, or for one that was drawn anew, that its first frame is in."""
    named = [str(text) for text in (region.get("meta") or {}).get("text") or ()]
    for n, clip in enumerate(found):
        if named and clip.clip == named[0]:
            return n
    if len(found) == 1:
        return 0
    value = region["value"]
    frame = int((value.get("ranges") or value.get("sequence"))[0].get("start", 1))
    for n, clip in enumerate(data["found"]):
        if clip["span"][0] <= frame < clip["span"][1]:
            return n
    raise ValueError(f"a region at frame {frame} is in none of the clips")


def _clip(
    found: FoundClip,
    known: set[tuple[str, int, int]],
    regions: list[dict[str, Any]],
    names: LabelNames,
    file: str,
) -> list[Correction]:
    frames: Frames | None = None
    states: dict[int, int] = {}
    rows = list[Correction]()
    for region in regions:
        value = region["value"]
        if region["type"] == "videorectangle":
            index = _tracklet(region)
            if index is not None:
                states[index] = names.state_number((value.get("labels") or [""])[0]) or 0
        for label in value.get("timelinelabels") or ():
            first, last = int(value["ranges"][0]["start"]), int(value["ranges"][0]["end"])
            if label == names.action:
                frames = first, last + 1
            elif (label, first, last) not in known and (state := names.state_number(label)):
                times = (first - 1) / found.fps, last / found.fps
                rows.append(Correction(found.clip, "state", *times, str(state), file=file))
    edits = found.corrections(frames, states, file=file)
    if found.action is not None and frames == found.frames:
        start, end = max(0.0, found.action[0]), found.action[1]
        rows.append(Correction(found.clip, "confirm", start, end, file=file))
    return rows + edits


def _tracklet(region: dict[str, Any]) -> int | None:
    """The index of the tracklet that a box shows; None for a box that was drawn anew."""
    for text in (region.get("meta") or {}).get("text") or ():
        if match := re.fullmatch(r"tracklet (\d{1,9})", str(text)):
            return int(match[1])
    return None
