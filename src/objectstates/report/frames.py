"""The page's images: frames at given times, crops of tracklets, and the mean of crops.

All are of bounded size, twice the pixels that the page shows, for screens of high density. The more
clips there are, the fewer and smaller their frames, so that a page of any number of clips can be
opened. The same videos give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import cv2
import numpy as np

from objectstates.data.corpus import Array
from objectstates.parallel.pool import run_all
from objectstates.parallel.tasks import Outcome, Tick
from objectstates.report.clip_view import box_at
from objectstates.report.pictures import QUALITY, Encoder, decode, encode, shrink
from objectstates.video.frames_at import frames_at
from objectstates.video.reader import Frame, Image

READ_SIDE = 640  # pixels; the largest image on the page has 560, and crops are enlarged
_NEAR = 0.2  # seconds from a requested time to its frame, in a complete video of 2.5 fps or more
_TOLERANCE = 1.0  # the same in other videos: any frame near is better than none
_READ_FPS = 12.5  # the nearest frame is then at most 0.04 s away
_CROP_SIDE = 120  # pixels, twice what the page's montage shows, for screens of high density
_CROP_CONTEXT = 1.2  # a crop's side relative to the longer side of its box
_CROP_BYTES = 3_500
_CHANGED = (255, 214, 0)  # the colour of changed places; the page's colour of changes

MOST_BYTES = 11_000_000
"""Of all frames of the list of clips, before base64."""

WHERE = -1
"""Stands for the index of a moment in the key of the frame that shows where a clip changed."""

Progress = Callable[[int, int], None]
"""Called with the number of videos read and of all videos."""


@dataclass(frozen=True)
class FramePlan:
    """How many frames of what size a page has, by its number of clips.

    side, bytes, quality : limits of a frame. The list of clips shows a frame 135 pixels wide (222
        on tablets), the player up to 720, so more pixels serve the player.
    key_frames : frames per clip beside the decisive moments. ``clips``: how many have frames.
    """

    side: int
    bytes: int
    quality: int
    key_frames: int
    boxes_per_tracklet: int
    clips: int = 2000
    large_side: int = 560
    large_bytes: int = 36_000

    @classmethod
    def of(cls, n_clips: int, n_states: int = 2) -> FramePlan:
        """At most about 11 MB of frames, whatever the numbers of clips and states.

        >>> FramePlan.of(10).key_frames, FramePlan.of(500).key_frames
        (9, 0)
        >>> [4 * n * FramePlan.of(n).bytes <= MOST_BYTES for n in (200, 500, 2000)]
        [True, True, True]
        """
        key_frames = 9 if n_clips <= 60 else 3 if n_clips <= 150 else 0
        side = 400 if n_clips <= 60 else 320 if n_clips <= 150 else 270 if n_clips <= 700 else 200
        decisive = 2 * n_states  # of the states and actions, and one of where the clip changed
        frames = min(n_clips, cls.clips) * (decisive + key_frames)
        return cls(
            side=side,
            bytes=min(18_000, MOST_BYTES // frames),
            quality=QUALITY if n_clips <= 150 else 75,
            key_frames=key_frames,
            boxes_per_tracklet=9 if n_clips <= 150 else 5 if n_clips <= 700 else 2,
        )


@dataclass(frozen=True, eq=False)
class FrameRequest:
    """A frame that the page needs.

    key : number of the clip, and index of the moment in it, or `WHERE`.
    boxes : (B, 5) boxes of the tracklet to crop; None for no crop.
    large : whether a larger image is needed too.
    where : (h, w) 0 to 255, places to tint in a frame without colours; None for the frame as it is.
    """

    key: tuple[int, int]
    time: float
    boxes: Array | None = None
    large: bool = False
    where: Array | None = None


@dataclass(frozen=True)
class FrameImage:
    """A frame as encoded pictures.

    time : of the frame, near the requested time.
    width, height : of the video in pixels, the units of boxes.
    picture : at the size of the list of clips. ``crop``: of a tracklet. ``large``: at the top.
    """

    time: float
    width: int
    height: int
    picture: bytes
    crop: bytes | None = None
    large: bytes | None = None


@dataclass(frozen=True)
class FrameImages:
    """The frames by clip and moment, and what could not be read.

    problems : the error of each video that has one, by the video's path in the corpus.
    """

    by_moment: Mapping[tuple[int, int], FrameImage] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def read_requests(
    requests: Mapping[str, Sequence[FrameRequest]],
    plan: FramePlan,
    *,
    image_fps: float | Mapping[str, float] = 25.0,
    processes: int = 1,
    progress: Progress | None = None,
) -> FrameImages:
    """Read the requested frames of each video; videos that fail do not affect the others.

    image_fps : frame rate of folders of images, or of each of them.
    """
    items = [(video, tuple(wanted)) for video, wanted in requests.items()]
    done = count(1)

    def on_done(_: int, __: Outcome[_Frames]) -> None:
        if progress is not None:
            progress(next(done), len(items))

    make = partial(_FrameReader, plan, image_fps)
    outcomes = run_all(make, items, processes=processes, on_done=on_done)
    images: dict[tuple[int, int], FrameImage] = {}
    problems: dict[str, str] = {}
    for (video, _), outcome in zip(items, outcomes, strict=True):
        read, problem = outcome.value or ({}, outcome.failure or "")
        images.update(read)
        if problem:
            problems[video] = problem
    return FrameImages(images, problems)


def mean_crop(crops: Sequence[bytes], most_bytes: int = 12_000) -> bytes | None:
    """The mean image of crops, encoded; None if there are none."""
    if not crops:
        return None
    total = np.zeros((_CROP_SIDE, _CROP_SIDE, 3))
    for crop in crops:
        total += cv2.resize(decode(crop), (_CROP_SIDE, _CROP_SIDE))  # some were made smaller
    mean = np.round(total / len(crops)).astype(np.uint8)
    return encode(mean, most_bytes, quality=92)  # it is smooth, and shown larger than it is


_Frames = tuple[dict[tuple[int, int], FrameImage], str]
"""The images of a video by clip and moment, and its first problem."""


class _FrameReader:
    """Reads the requested frames of one video after another, in a worker process."""

    def __init__(self, plan: FramePlan, image_fps: float | Mapping[str, float]) -> None:
        cv2.setNumThreads(1)  # there is one process per core
        self.plan, self.image_fps = plan, image_fps

    def __call__(self, item: tuple[str, tuple[FrameRequest, ...]], tick: Tick) -> _Frames:
        video, requests = item
        images, problems = self._read(video, requests, _NEAR)
        if len(images) < len(requests):
            images, problems = self._read(video, requests, _TOLERANCE)
        tick(len(images))
        return images, "".join(problems[-1:])  # frames that cannot be read come last

    def _read(
        self, video: str, requests: Sequence[FrameRequest], tolerance: float
    ) -> tuple[dict[tuple[int, int], FrameImage], list[str]]:
        """The images and problems; frames are converted from ``tolerance`` s before each time."""
        rate = self.image_fps if isinstance(self.image_fps, int | float) else self.image_fps[video]
        by_time: dict[float, list[FrameRequest]] = {}
        for request in requests:
            by_time.setdefault(request.time, []).append(request)
        encoder = Encoder(self.plan.bytes, self.plan.quality)  # one per video, for the same bytes
        details = any(request.large or request.boxes is not None for request in requests)
        problems: list[str] = []
        images = {
            request.key: self._encode(request, frame, encoder)
            for time, frame in frames_at(
                video,
                by_time,
                tolerance=tolerance,
                fps=_READ_FPS,
                max_side=READ_SIDE if details else self.plan.side,
                image_fps=rate,
                problems=problems,
            )
            for request in by_time[time]
        }
        return images, problems

    def _encode(self, request: FrameRequest, frame: Frame, encoder: Encoder) -> FrameImage:
        height, width = frame.image.shape[:2]
        scale = np.array([*frame.scale, *frame.scale])
        crop = None
        if request.boxes is not None and len(request.boxes):
            square = _crop_square(frame.image, box_at(request.boxes, frame.time) / scale)
            crop = encode(square, _CROP_BYTES)
        plan = self.plan
        small = _shrink(frame.image, plan.side)
        if request.where is not None:
            small = _tint(small, request.where)
        return FrameImage(
            time=frame.time,
            width=round(width * frame.scale[0]),
            height=round(height * frame.scale[1]),
            picture=encoder(small),
            crop=crop,
            large=encode(_shrink(frame.image, plan.large_side), plan.large_bytes)
            if request.large
            else None,
        )


def _shrink(image: Image, side: int) -> Image:
    return shrink(image, side / max(image.shape[:2]))


def _tint(image: Image, where: Array) -> Image:
    """The image in grey, with the places ``where`` (h, w), 0 to 255, in colour."""
    height, width = image.shape[:2]
    light = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.float32)
    grey = light[..., None] / 255
    amount = cv2.resize(where.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
    share = np.asarray(amount)[..., None] / 255
    colour = np.array(_CHANGED, np.float32) * (0.45 + 0.55 * grey)  # the darker pixels stay darker
    return np.round((1 - share) * (25 + 170 * grey) + share * colour).astype(np.uint8)


def _crop_square(image: Image, box: Array) -> Image:
    """A square around a box, (side, side, 3); beyond the image its border is replicated."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    half = max(box[2] - box[0], box[3] - box[1], 2.0) * _CROP_CONTEXT / 2
    columns = np.linspace(x - half, x + half, 2 * _CROP_SIDE).astype(np.float32)
    rows = np.linspace(y - half, y + half, 2 * _CROP_SIDE).astype(np.float32)
    map_x, map_y = np.meshgrid(columns, rows)
    large = cv2.remap(image, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return shrink(large.astype(np.uint8, copy=False), 0.5)
