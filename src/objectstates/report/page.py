"""Write the report: one self-contained HTML file that needs no network and no server."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from objectstates.base.cache import digest
from objectstates.base.errors import ReportError
from objectstates.base.storage import write_atomically
from objectstates.data.result import Result, confidence_columns
from objectstates.data.truth_labels import truth_count
from objectstates.discovery.preflight import warnings_about
from objectstates.evaluation.baselines import compare_with_baselines
from objectstates.parallel.pool import default_processes
from objectstates.report import headline
from objectstates.report.charts import average_clip
from objectstates.report.clip_parts import Moment
from objectstates.report.clip_view import ClipView, box_at, image_fps, view_clips
from objectstates.report.frames import (
    WHERE,
    FrameImage,
    FrameImages,
    FramePlan,
    FrameRequest,
    Progress,
    mean_crop,
    read_requests,
)
from objectstates.report.page_data import encoded_frames, script_data
from objectstates.report.pictures import data_url
from objectstates.report.verdict_text import section, side_texts, with_code
from objectstates.video import fingerprint

N_HIGHLIGHTS = 4  # clips shown large at the top
N_CROPS = 23  # crops per state in the montage; with the mean, 3 x 3 of them large, 32 cells
_FEW_VIDEOS = 16  # up to which starting processes takes longer than reading
_GENERATOR = b'<meta name="generator" content="objectstates'
_STYLES = ("theme.css", "style.css")
_SCRIPTS = ("data", "frames", "timeline", "player", "clip_list", "keys", "theme")
_OF_MARK = "{the result}"
_SIZE_MARK = "{the size of this file}"


def write_report(
    result: Result,
    path: str | Path,
    *,
    processes: int | None = None,
    progress: Progress | None = None,
    folder: str | Path | None = None,
) -> Path:
    """Write the page about ``result`` to the file ``path``; an earlier report there is replaced.

    Frames are read from the clips' videos, as far as these exist, by ``processes`` processes (one
    per core unless given). The page refers to the videos by their paths, so that it can play them;
    without them it shows the frames that it holds.

    folder : of the result, if it has one; the page remembers it, see `is_report_of`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from objectstates import JointDiscovery
    >>> from objectstates.data.synthetic import synthetic_corpus
    >>> result = JointDiscovery(verdict=False).fit(synthetic_corpus(n_clips=4)).result_
    >>> with TemporaryDirectory() as place:
    ...     write_report(result, Path(place) / "report.html").name
    'report.html'
    """
    target = check_target(path)
    plan = FramePlan.of(len(result.clips), result.n_states)
    clips = view_clips(result, key_frames=plan.key_frames)
    requests = _frame_requests(clips, plan)
    if processes is None:
        processes = 1 if len(requests) <= _FEW_VIDEOS else default_processes()
    rates = {video: image_fps(result, video) for video in requests}
    images = read_requests(requests, plan, image_fps=rates, processes=processes, progress=progress)
    page = _render(result, clips, images, plan, target.parent)
    page = page.replace(_OF_MARK, "" if folder is None else _identity(folder), 1)
    size = f"{len(page.encode()) / 1e6:.1f} MB"
    try:
        write_atomically(target, page.replace(_SIZE_MARK, size, 1))
    except OSError as problem:
        raise ReportError(f"cannot write {target}: {problem.strerror or problem}") from problem
    return target


def check_target(path: str | Path) -> Path:
    """Resolve the path; raise unless it is free or holds a report."""
    try:
        target = Path(path).resolve()
        if target.is_dir():
            raise ReportError(f"{path} is a folder: name a file, such as report.html")
        if target.exists():
            with target.open("rb") as file:
                ours = _GENERATOR in file.read(4096)
            if not ours:
                raise ReportError(f"{path} exists and is no report: choose another name")
    except (OSError, RuntimeError) as problem:
        raise ReportError(f"cannot write {path}: {problem}") from problem
    return target


def is_report_of(path: str | Path, folder: str | Path) -> bool:
    """Whether a file is the report about the result in this folder."""
    try:
        with open(path, "rb") as file:
            return f'content="{_identity(folder)}"'.encode() in file.read(4096)
    except OSError:
        return False


def _identity(folder: str | Path) -> str:
    """Tells the results of different folders apart, without naming the folder."""
    return digest("result", os.path.realpath(folder))


# --- which frames to read -------------------------------------------------------------------------


def _frame_requests(clips: Sequence[ClipView], plan: FramePlan) -> dict[str, list[FrameRequest]]:
    """The frames to read of each video; of the most confident clips if there are too many."""
    found = {video for video in {clip.video for clip in clips} if video and os.path.exists(video)}
    readable = [clip for clip in _by_confidence(clips) if clip.video in found]
    highlights = {clip.number for clip in readable[:N_HIGHLIGHTS]}
    states = range(1, clips[0].result.n_states + 1)
    montage = {key for state in states for key in _montage(readable, state)}
    requests: dict[str, list[FrameRequest]] = {}
    for clip in sorted(readable[: plan.clips], key=lambda clip: clip.number):
        for index, moment in enumerate(clip.moments):
            key = clip.number, index
            tracklet = None if moment.tracklet is None else clip.tracklets[moment.tracklet]
            requests.setdefault(clip.video or "", []).append(
                FrameRequest(
                    key,
                    moment.time,
                    boxes=tracklet.boxes if tracklet is not None and key in montage else None,
                    large=clip.number in highlights and moment.role != "key",
                )
            )
        if clip.change is not None:
            where = FrameRequest((clip.number, WHERE), clip.middle, where=clip.change.where)
            requests.setdefault(clip.video or "", []).append(where)
    return requests


def _by_confidence(clips: Sequence[ClipView]) -> list[ClipView]:
    return sorted(clips, key=lambda clip: (-clip.confidence, clip.number))


def _montage(clips: Sequence[ClipView], state: int) -> list[tuple[int, int]]:
    """Clip and moment of the best-scored tracklets of a state, one per clip."""
    found = []
    for clip in clips:
        for index, moment in enumerate(clip.moments):
            if moment.role == f"state {state}" and moment.tracklet is not None:
                tracklet = clip.tracklets[moment.tracklet]
                if len(tracklet.boxes):
                    score = 0.0 if math.isnan(tracklet.score) else tracklet.score
                    found.append((-score, clip.number, index))
    return [(number, index) for _, number, index in sorted(found)[:N_CROPS]]


# --- the page -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Thumbnail:
    """A frame or a crop on the page: ``source`` is a data URL, ``box`` x, y, width, height."""

    clip: ClipView
    moment: Moment
    source: str
    size: tuple[int, int]
    box: tuple[int, int, int, int] | None


def _render(
    result: Result, clips: Sequence[ClipView], images: FrameImages, plan: FramePlan, folder: Path
) -> str:
    environment = _environment()
    assets = Path(__file__).parent / "assets"
    script = _script(assets)
    rows = compare_with_baselines(result, result.corpus)
    precision = [*rows[-1:], *rows[:-1]]  # the result above the baselines
    chances = confidence_columns(result.n_actions)
    truth = truth_count(result.corpus)
    return environment.get_template("page.html.j2").render(
        version=version("objectstates"),
        style=Markup("".join((assets / name).read_text(encoding="utf-8") for name in _STYLES)),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        called=headline.called(result.names),
        headline=headline.headline(result),
        summary=headline.summary(result),
        size=_SIZE_MARK,
        of=_OF_MARK,
        clips=_by_confidence(clips),
        verdict=result.verdict,
        sides=[] if result.verdict is None else side_texts(result.verdict),
        advice=warnings_about(result),
        by_time=truth.by_time,
        truth_note=truth.note,
        mistake_names=headline.mistake_names(result),
        has_changes=any(clip.change is not None for clip in clips),
        has_progress=result.progress is not None,
        n_failed=sum(clip.reached == "no" for clip in clips),
        confidences=_confidence_range(clips),
        chances_known=result.confidences is not None,
        highlights=_highlights(clips, images),
        montage=_crops(clips, images),
        average=average_clip(clips),
        precision=precision,
        mistakes=headline.count_mistakes(result, clips) if precision else [],
        states=[role for role in headline.called(result.names) if role.startswith("state")],
        actions=[label.replace("_", " ") for label in result.action_labels],
        chain=result.n_actions > 1,
        zip=zip,
        steps=headline.steps(result, clips),
        answers=[column.rpartition("_")[0].replace("_", " ") for column in chances],
        charts=headline.optimisation_charts(result),
        certificate=headline.certificate(result),
        skipped=result.skipped,
        set_aside=result.set_aside,
        tables=headline.tables(result),
        missing=_missing(result, images, plan),
        data=script_data(result, clips, images, plan.boxes_per_tracklet, folder),
        frames=encoded_frames(clips, images),
        sought=str(result.settings.get("target", "joint")),
    )


def _script(assets: Path) -> str:
    """The scripts as one, in a scope of their own."""
    parts = [(assets / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("objectstates.report", "assets"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"with_code": with_code, "section": section, "style": _style}
    return environment


def _style(role: str) -> str:
    """The CSS class of a moment's role: all actions have one colour."""
    return "action" if role.startswith("action") else role.replace(" ", "-")


def _confidence_range(clips: Sequence[ClipView]) -> tuple[float, float]:
    """Least and greatest confidence, rounded outwards to hundredths."""
    found = [clip.confidence for clip in clips]
    return math.floor(min(found) * 100) / 100, math.ceil(max(found) * 100) / 100


def _highlights(clips: Sequence[ClipView], images: FrameImages) -> list[list[_Thumbnail]]:
    """The most confident clips as rows of large frames."""
    rows = (
        [
            _thumbnail(clip, moment, image, image.large)
            for index, moment in enumerate(clip.moments)
            if (image := images.by_moment.get((clip.number, index))) and image.large
        ]
        for clip in _by_confidence(clips)
    )
    return [row for row in rows if row]


def _crops(clips: Sequence[ClipView], images: FrameImages) -> list[dict[str, Any]]:
    """Per state the crops and their mean; states without crops are left out."""
    states = []
    for state in range(1, clips[0].result.n_states + 1):
        thumbnails, crops = [], []
        for number, index in _montage(clips, state):
            image = images.by_moment.get((number, index))
            if image and image.crop:
                clip = clips[number]
                thumbnails.append(_thumbnail(clip, clip.moments[index], image, image.crop))
                crops.append(image.crop)
        mean = mean_crop(crops)
        if mean is not None:
            states.append({"state": state, "thumbnails": thumbnails, "mean": data_url(mean)})
    return states


def _thumbnail(clip: ClipView, moment: Moment, image: FrameImage, picture: bytes) -> _Thumbnail:
    box = None
    if moment.tracklet is not None and len(boxes := clip.tracklets[moment.tracklet].boxes):
        x1, y1, x2, y2 = (round(float(side)) for side in box_at(boxes, image.time))
        box = x1, y1, x2 - x1, y2 - y1
    return _Thumbnail(clip, moment, data_url(picture), (image.width, image.height), box)


def _missing(result: Result, images: FrameImages, plan: FramePlan) -> list[str]:
    """Sentences about the frames that the page lacks."""
    videos = result.corpus.videos
    recorded = result.corpus.info.get(fingerprint.INFO)
    lines = fingerprint.about_replaced(fingerprint.replaced_videos(recorded, videos))
    none = sum(video is None for video in videos)
    if none:
        lines.append(f"{none} of {len(videos)} clips name no video, so they have no frames.")
    gone = sorted({video for video in videos if video and not os.path.exists(video)})
    if gone:
        more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
        lines.append(
            f"Videos not found: {', '.join(gone[:3])}{more}. Restore them and write the report "
            "again to see their frames."
        )
    if len(videos) > plan.clips:
        lines.append(f"Only the {plan.clips} most confident clips have frames.")
    return lines + list(images.problems.values())[:5]
