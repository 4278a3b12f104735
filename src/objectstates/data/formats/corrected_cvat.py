"""Corrections from a CVAT export that a person has edited (``export/cvat.py`` wrote it).

Every track of the action has an attribute ``found`` with a `FoundClip`, and every track of a
tracklet the attribute ``tracklet``. Edits mean:

* the action begins or ends at another frame: ``action``;
* a tracklet has another ``state``: ``state``; it was deleted, or has state 0: ``not_object``;
* the action was deleted, but the clip has other tracks: ``no_change``.

A clip without edits gives no correction. Moved boxes are ignored.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import NamedTuple
from xml.etree import ElementTree

from objectstates.base.errors import CorrectionError
from objectstates.base.safe_xml import parse_xml
from objectstates.data.correction_rows import Correction
from objectstates.data.formats.exported_clip import FoundClip, Frames


class _Track(NamedTuple):
    attributes: dict[str, str]
    frames: Frames


def corrections_from_cvat(text: str, file: str) -> tuple[Correction, ...]:
    """The edits in the text of a file «CVAT for video»."""
    try:
        root = parse_xml(text)
        if root.tag != "annotations" or root.find("image") is not None:
            raise ValueError("this is not «CVAT for video 1.1»")
        stop = int(root.findtext("meta//stop_frame") or 0) + 1
        tracks = [_track(element, stop) for element in root.iterfind("track")]
        return tuple(_edits([t for t in tracks if t is not None], file))
    except CorrectionError:
        raise
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as problem:
        what = f"{problem} is missing" if isinstance(problem, KeyError) else str(problem)
        raise CorrectionError(
            f"{file}: {what}; corrections are read from our own export for CVAT, after CVAT "
            "exported it again as «CVAT for video 1.1»"
        ) from problem


def _track(element: ElementTree.Element, stop: int) -> _Track | None:
    """None for a track that is never visible: CVAT leaves such of deleted ones."""
    boxes = sorted(element.iterfind("box"), key=lambda box: int(box.attrib["frame"]))
    seen = [int(box.attrib["frame"]) for box in boxes if box.get("outside") != "1"]
    if not seen:
        return None
    hidden = [int(box.attrib["frame"]) for box in boxes if box.get("outside") == "1"]
    end = min((frame for frame in hidden if frame > seen[-1]), default=max(stop, seen[-1] + 1))
    attributes = {a.attrib["name"]: a.text or "" for a in boxes[-1].iterfind("attribute")}
    return _Track(attributes, (seen[0], end))


def _edits(tracks: list[_Track], file: str) -> list[Correction]:
    actions = [t for t in tracks if "tracklet" not in t.attributes]
    if any(not t.attributes.get("found") for t in actions):
        raise ValueError(
            "a track of the action was drawn anew: move the first and the last frame of the one "
            "that was exported instead"
        )
    found = [FoundClip.from_json(json.loads(t.attributes["found"])) for t in actions]
    twice = [clip for clip, n in Counter(f.clip for f in found).items() if n > 1]
    if twice:
        raise ValueError(f"clip {twice[0]!r} has two tracks of the action: delete one")
    states: dict[str, dict[int, int]] = {}
    for track in tracks:
        if index := track.attributes.get("tracklet"):  # empty: drawn anew, or no action sought
            of_clip = states.setdefault(track.attributes["clip"], {})
            of_clip[int(index)] = int(track.attributes["state"])
    if not states and not found:
        raise ValueError("it has neither tracklets nor an action that were exported")
    rows: list[Correction] = []
    for clip, track in zip(found, actions, strict=True):
        rows += clip.corrections(track.frames, states.get(clip.clip, {}), file=file)
    without = [name for name in states if name not in {f.clip for f in found}]
    return rows + [Correction(name, "no_change", file=file) for name in without]
