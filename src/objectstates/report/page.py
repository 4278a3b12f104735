"""From a result to one self-contained HTML file: no network, no server, no framework."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from objectstates import __version__
from objectstates.base.errors import ReportError
from objectstates.base.storage import write_atomically
from objectstates.data.result import Result
from objectstates.parallel.pool import default_processes
from objectstates.report import summary_text as story
from objectstates.report.charts import average_clip
from objectstates.report.clip_view import KINDS, ClipFacts, Moment, as_json, gather
from objectstates.report.frames import Album, Picture, Plan, Wanted, mean_picture, take

N_STARS = 4  # clips that are shown large, at the top
N_CROPS = 23  # crops per state in the montage
_FEW_VIDEOS = 16  # for which starting processes does not pay
_GENERATOR = b'<meta name="generator" content="objectstates'
_SIZE_MARK = "{the size of this file}"

Progress = Callable[[int, int], None]
"""Told how many videos were read, and how many there are."""


def write_report(
    result: Result,
    path: str | Path,
    *,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write the page about ``result`` to the file ``path``; an earlier report there is replaced.

    Pictures are read from the clips' videos, where these can be found, by so many processes (one
    per core unless given). The page names the videos by where they are now, so that it can play
    them; without them, it shows the pictures that it holds.
    """
    place = check_target(path)
    plan = Plan.of(len(result.clips))
    clips = gather(result, key_frames=plan.key_frames)
    found = {video for video in set(result.corpus.videos) if video and os.path.exists(video)}
    wanted = _wanted(result, clips, plan, found)
    if processes is None:
        processes = 1 if len(wanted) <= _FEW_VIDEOS else default_processes()
    facts = result.corpus.info.get("ingest")
    image_fps = facts.get("image_fps", 25.0) if isinstance(facts, dict) else 25.0
    album = take(wanted, plan, image_fps=image_fps, processes=processes, progress=progress)
    page = _render(result, clips, album, plan, place.parent)
    size = f"{len(page.encode()) / 1e6:.1f} MB"
    _write(place, page.replace(_SIZE_MARK, size, 1))
    return place


def check_target(path: str | Path) -> Path:
    """The real place of ``path``, once it is sure that writing there costs the user nothing."""
    try:
        place = Path(path).resolve()
        if place.is_dir():
            raise ReportError(f"{path} is a folder: name a file, such as report.html")
        if place.exists():
            with place.open("rb") as file:
                ours = _GENERATOR in file.read(4096)
            if not ours:
                raise ReportError(f"{path} exists and is no report: choose another name")
    except (OSError, RuntimeError) as problem:
        raise ReportError(f"cannot write {path}: {problem}") from problem
    return place


def _write(place: Path, page: str) -> None:
    try:
        write_atomically(place, page)
    except OSError as problem:
        raise ReportError(f"cannot write {place}: {problem.strerror or problem}") from problem


# --- which pictures -------------------------------------------------------------------------------


def _wanted(
    result: Result, clips: Sequence[ClipFacts], plan: Plan, found: set[str]
) -> dict[str, list[Wanted]]:
    """The moments to be read of each video; of the most confident clips if there are too many."""
    seen = [clip for clip in _by_confidence(clips) if result.corpus.videos[clip.number] in found]
    stars = {clip.number for clip in seen[:N_STARS]}
    montage = {key for state in (1, 2) for key in _montage(seen, state)}
    wanted: dict[str, list[Wanted]] = {}
    for clip in sorted(seen[: plan.clips], key=lambda clip: clip.number):
        video = result.corpus.videos[clip.number]
        assert video is not None
        for index, moment in enumerate(clip.moments):
            key = clip.number, index
            tracklet = None if moment.tracklet is None else clip.tracklets[moment.tracklet]
            wanted.setdefault(video, []).append(
                Wanted(
                    key,
                    moment.time,
                    boxes=tracklet.boxes if tracklet is not None and key in montage else None,
                    large=clip.number in stars and moment.role != "key",
                )
            )
    return wanted


def _by_confidence(clips: Sequence[ClipFacts]) -> list[ClipFacts]:
    return sorted(clips, key=lambda clip: (-clip.confidence, clip.number))


def _montage(clips: Sequence[ClipFacts], state: int) -> list[tuple[int, int]]:
    """Clip and moment of the surest tracklets of a state, one per clip."""
    found = []
    for clip in clips:
        for index, moment in enumerate(clip.moments):
            if moment.role == f"state {state}" and moment.tracklet is not None:
                tracklet = clip.tracklets[moment.tracklet]
                if len(tracklet.boxes):
                    found.append((-(tracklet.score or 0.0), clip.number, index))
    return [(number, index) for _, number, index in sorted(found)[:N_CROPS]]


# --- the page -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shot:
    """A picture of a star, or a crop: what it shows, and where it is from."""

    clip: ClipFacts
    moment: Moment
    source: str
    size: tuple[int, int] = (1, 1)
    box: tuple[float, ...] | None = None


def _render(
    result: Result, clips: Sequence[ClipFacts], album: Album, plan: Plan, folder: Path
) -> str:
    environment = Environment(
        loader=PackageLoader("objectstates.report", "assets"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    assets = Path(__file__).parent / "assets"
    script = (assets / "page.js").read_text(encoding="utf-8")
    precision = story.precision(result)
    return environment.get_template("page.html.j2").render(
        version=__version__,
        style=Markup((assets / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        title=story.title(result),
        lede=story.lede(result),
        size=_SIZE_MARK,
        clips=_by_confidence(clips),
        kinds=KINDS,
        least=_confidence_range(clips),
        stars=_stars(clips, album),
        montage=_crops(clips, album),
        average=average_clip(clips),
        precision=precision,
        failures=story.failures(result, clips) if precision else [],
        charts=story.optimisation_charts(result),
        certificate=story.certificate(result),
        skipped=result.skipped,
        set_aside=result.set_aside,
        tables=story.tables(result),
        missing=_missing(result, album, plan),
        facts=_script_json(_facts(result, clips, album, plan, folder)),
        pictures=_pictures(clips, album),
        sought=str(result.settings.get("target", "joint")),
    )


def _confidence_range(clips: Sequence[ClipFacts]) -> tuple[float, float]:
    """Between which bounds, in hundredths, clips can be filtered by confidence."""
    found = [clip.confidence for clip in clips]
    return math.floor(min(found) * 100) / 100, math.ceil(max(found) * 100) / 100


def _stars(clips: Sequence[ClipFacts], album: Album) -> list[list[_Shot]]:
    """The most confident clips as rows of large pictures."""
    rows = []
    for clip in _by_confidence(clips):
        shots = [
            _shot(clip, moment, picture, picture.large)
            for index, moment in enumerate(clip.moments)
            if (picture := album.pictures.get((clip.number, index))) and picture.large
        ]
        if shots:
            rows.append(shots)
    return rows


def _crops(clips: Sequence[ClipFacts], album: Album) -> list[dict[str, Any]]:
    """Per state the crops, and their mean; nothing where there are none."""
    states = []
    for state in (1, 2):
        shots, crops = [], []
        for number, index in _montage(clips, state):
            picture = album.pictures.get((number, index))
            if picture and picture.crop:
                clip = clips[number]
                shots.append(_shot(clip, clip.moments[index], picture, picture.crop))
                crops.append(picture.crop)
        mean = mean_picture(crops)
        if mean is not None:
            states.append({"state": state, "shots": shots, "mean": _data_url(mean)})
    return states


def _shot(clip: ClipFacts, moment: Moment, picture: Picture, data: bytes) -> _Shot:
    box = None
    if moment.tracklet is not None and len(boxes := clip.tracklets[moment.tracklet].boxes):
        at = [round(float(np.interp(picture.time, boxes[:, 0], boxes[:, k]))) for k in range(1, 5)]
        box = at[0], at[1], at[2] - at[0], at[3] - at[1]
    return _Shot(clip, moment, _data_url(data), (picture.width, picture.height), box)


def _facts(
    result: Result, clips: Sequence[ClipFacts], album: Album, plan: Plan, folder: Path
) -> dict[str, Any]:
    """What the script of the page needs; clips by number."""
    scores = result.action_scores[~np.isnan(result.action_scores)]
    rows = []
    for clip in clips:
        shots = _positions(clip, album)
        decisive = [
            [round(moment.time, 2), moment.role, moment.tracklet, shots.get(index, -1)]
            for index, moment in enumerate(clip.moments)
            if moment.role != "key"
        ]
        pictures = [album.pictures[clip.number, index] for index in shots]
        rows.append(
            {
                **as_json(clip, boxes_per_tracklet=plan.boxes_per_tracklet),
                "moments": decisive,
                "pictures": [round(picture.time, 3) for picture in pictures],
                "size": _frame_size(clip, pictures),
                "video": _addresses(result.corpus.videos[clip.number], folder),
            }
        )
    low = min(0.0, float(scores.min(initial=0.0)))
    high = float(scores.max(initial=low + 1e-6))  # the curves of all clips have one scale
    return {"clips": rows, "scale": [low, high]}


def _positions(clip: ClipFacts, album: Album) -> dict[int, int]:
    """Where in the clip's list of pictures, which is in order of time, each moment's stands."""
    have = [i for i in range(len(clip.moments)) if (clip.number, i) in album.pictures]
    have.sort(key=lambda i: (album.pictures[clip.number, i].time, i))
    return {index: position for position, index in enumerate(have)}


def _pictures(clips: Sequence[ClipFacts], album: Album) -> list[tuple[int, str]]:
    """Per clip its pictures in base64, apart by spaces: read when the clip is scrolled to."""
    rows = []
    for clip in clips:
        shots = [album.pictures[clip.number, index].frame for index in _positions(clip, album)]
        if shots:
            rows.append((clip.number, " ".join(base64.b64encode(x).decode() for x in shots)))
    return rows


def _frame_size(clip: ClipFacts, pictures: Sequence[Picture]) -> list[int] | None:
    """Pixels of the video; without it, of what the boxes reach over."""
    if pictures:
        return [pictures[0].width, pictures[0].height]
    boxes = [x.boxes for x in clip.tracklets if len(x.boxes)]
    if not boxes:
        return None
    reach = np.concatenate(boxes)[:, 3:5].max(axis=0)
    return [max(1, round(float(side) * 1.05)) for side in reach]


def _addresses(video: str | None, folder: Path) -> list[str]:
    """Where the page finds a video: relative to itself, should both move, or absolute."""
    if video is None or not os.path.isfile(video):
        return []
    place = Path(video).resolve()
    try:
        relative = os.path.relpath(place, folder).replace(os.sep, "/")
        return ["./" + quote(os.fsencode(relative)), place.as_uri()]
    except ValueError:  # on another drive
        return [place.as_uri()]


def _missing(result: Result, album: Album, plan: Plan) -> list[str]:
    """What the page lacks, in words."""
    videos = result.corpus.videos
    told = []
    none = sum(video is None for video in videos)
    if none:
        told.append(f"{none} of {len(videos)} clips name no video: they have no pictures.")
    gone = sorted({video for video in videos if video and not os.path.exists(video)})
    if gone:
        more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
        told.append(f"Videos not found: {', '.join(gone[:3])}{more}. Put them back, write again.")
    if len(videos) > plan.clips:
        told.append(f"Only the {plan.clips} most confident clips have pictures.")
    told += list(album.problems.values())[:5]
    return told


def _script_json(facts: Any) -> Markup:
    """JSON that no parser of HTML takes for markup."""
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _data_url(jpeg: bytes) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode()
