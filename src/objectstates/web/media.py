"""Videos and single frames over HTTP: nothing but the clips of a session.

A clip is named in the query (``video?clip=ID``), not in the path, because ids may hold slashes and
dots, which browsers resolve. ``path_of`` knows the clips; a path never comes from a request.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import cv2
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from objectstates.base.errors import VideoError
from objectstates.video.frames_at import frames_at
from objectstates.video.source import VIDEO_SUFFIXES
from objectstates.web.preview import needs_preview, preview_of

PathOf = Callable[[str], Path | None]
"""The video of a clip, by the clip's id; None for a clip that is not of the session."""

_SIDES = (16, 1920)  # pixels of the longer side of a frame
_QUALITY = 85  # of JPEG
_TOLERANCE = 1.0  # seconds from the requested time to its frame: any frame near is better than none
_TYPES = {".mp4": "video/mp4", ".m4v": "video/mp4", ".mov": "video/mp4", ".webm": "video/webm"}
# Browsers ask for many clips at once: decoding has threads of its own, so that other requests are
# answered meanwhile.
_previews = ThreadPoolExecutor(1, thread_name_prefix="preview")
_frames = ThreadPoolExecutor(2, thread_name_prefix="frame")


def video_routes(
    path_of: PathOf, *, image_fps: Callable[[Path], float] = lambda _: 25.0
) -> list[BaseRoute]:
    """``video?clip=ID``, with byte ranges, and ``frame?clip=ID&time=SECONDS&side=PIXELS``.

    The header ``X-Frame-Time`` of a frame has its time in seconds, which is the nearest there is.

    image_fps : frame rate of a folder of images.
    """

    async def video(request: Request) -> Response:
        source = _source(path_of, request)
        loop = asyncio.get_running_loop()
        try:
            if await loop.run_in_executor(_frames, needs_preview, source):
                make = partial(preview_of, source, image_fps=image_fps(source))
                source = await loop.run_in_executor(_previews, make)
        except VideoError as problem:
            raise HTTPException(404, str(problem)) from None
        return FileResponse(
            source,
            media_type=_TYPES.get(source.suffix.lower(), "video/mp4"),
            headers={"Cache-Control": "private, no-cache"},
        )

    async def frame(request: Request) -> Response:
        source = _source(path_of, request)
        time = _number(request, "time", 0.0, 1e7)
        side = round(_number(request, "side", *_SIDES, default=640.0))
        loop = asyncio.get_running_loop()
        make = partial(frame_jpeg, source, time, side, image_fps=image_fps(source))
        try:
            jpeg, found = await loop.run_in_executor(_frames, make)
        except VideoError as problem:
            raise HTTPException(404, str(problem)) from None
        headers = {"X-Frame-Time": repr(found), "Cache-Control": "private, max-age=600"}
        return Response(jpeg, media_type="image/jpeg", headers=headers)

    return [Route("/video", video, methods=["GET"]), Route("/frame", frame, methods=["GET"])]


def frame_jpeg(
    video: Path, time: float, side: int, *, image_fps: float = 25.0
) -> tuple[bytes, float]:
    """The frame nearest to a time (seconds) as JPEG, and its own time."""
    found = frames_at(video, [time], tolerance=_TOLERANCE, max_side=side, image_fps=image_fps)
    _, frame = next(found)
    bgr = cv2.cvtColor(frame.image, cv2.COLOR_RGB2BGR)
    _, jpeg = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return jpeg.tobytes(), float(frame.time)


def _source(path_of: PathOf, request: Request) -> Path:
    clip = request.query_params.get("clip")
    found = None if clip is None else path_of(clip)
    if found is None:
        raise HTTPException(404, "there is no such clip")
    if not found.is_dir() and found.suffix.lower() not in VIDEO_SUFFIXES:
        raise HTTPException(404, "this clip has no video")
    if not found.exists():
        raise HTTPException(404, f"{found} does not exist any more")
    return found


def _number(
    request: Request, name: str, least: float, greatest: float, default: float = math.nan
) -> float:
    text = request.query_params.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= greatest:
        raise HTTPException(400, f"{name} must be a number from {least:g} to {greatest:g}")
    return value
