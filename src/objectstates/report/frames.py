"""The page's pictures: frames at decisive moments, crops of tracklets, and the mean of crops.

All are JPEGs of bounded size. The more clips there are, the smaller and fewer their pictures, so
that a page of any number of clips can be opened. The same videos give the same bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from objectstates.base.errors import VideoError
from objectstates.data.corpus import Array
from objectstates.parallel.pool import run_all
from objectstates.parallel.tasks import Outcome, Tick
from objectstates.report.clip_view import interpolate
from objectstates.video.reader import Frame, Image, read_frames

READ_SIDE = 640  # frames are read no larger; what is shown is smaller
_NEAR = 1.0  # seconds around a moment in which a frame will do
_GAP = 4.0  # seconds from one moment to the next beyond which seeking pays
_READ_FPS = 12.5
_CROP_SIDE = 120
_CROP_CONTEXT = 1.2
_ENCODINGS = ((1.0, 82), (1.0, 72), (1.0, 60), (0.8, 60), (0.65, 55), (0.5, 50), (0.35, 40))


@dataclass(frozen=True)
class Plan:
    """How many pictures of what size a page of so many clips can have.

    side, bytes : of a frame, at most. ``key_frames``: frames per clip beside the decisive ones.
    clips : how many clips have pictures.
    """

    side: int
    bytes: int
    key_frames: int
    boxes_per_tracklet: int
    clips: int = 2000
    large_side: int = 560
    large_bytes: int = 60_000

    @classmethod
    def of(cls, n_clips: int) -> Plan:
        """At most about 22 MB of frames, whatever the number of clips.

        >>> Plan.of(10).key_frames, Plan.of(500).key_frames
        (9, 0)
        >>> [3 * n * Plan.of(n).bytes < 22_000_001 for n in (200, 500, 2000)]
        [True, True, True]
        """
        key_frames = 9 if n_clips <= 60 else 3 if n_clips <= 150 else 0
        side = 400 if n_clips <= 60 else 320 if n_clips <= 150 else 280 if n_clips <= 700 else 200
        pictures = min(n_clips, cls.clips) * (3 + key_frames)
        return cls(
            side=side,
            bytes=min(30_000, 22_000_000 // pictures),
            key_frames=key_frames,
            boxes_per_tracklet=9 if n_clips <= 150 else 5 if n_clips <= 700 else 2,
        )


@dataclass(frozen=True, eq=False)
class Wanted:
    """A picture that the page wants.

    key : which clip, and which of its moments.
    boxes : (B, 5) of the tracklet to be cut out too, if any.
    large : whether a larger one is wanted as well.
    """

    key: tuple[int, int]
    time: float
    boxes: Array | None = None
    large: bool = False


@dataclass(frozen=True)
class Picture:
    """A frame as JPEG.

    time : of the frame, which is near the time that was asked for.
    width, height : pixels of the video, which boxes are given in.
    """

    time: float
    width: int
    height: int
    frame: bytes
    crop: bytes | None = None
    large: bytes | None = None


@dataclass(frozen=True)
class Album:
    """All pictures by clip and moment, and what could not be had.

    problems : per video (as the corpus names it) what is wrong with it.
    """

    pictures: Mapping[tuple[int, int], Picture] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def take(
    wanted: Mapping[str, Sequence[Wanted]],
    plan: Plan,
    *,
    image_fps: float = 25.0,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Album:
    """Read the wanted moments of each video; what fails is told, and costs nothing else.

    progress : called with the number of videos done and of all.
    """
    items = [(video, tuple(wants)) for video, wants in wanted.items()]
    done = 0

    def on_done(_: int, __: Outcome[_Taken]) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(items))

    make = partial(_Photographer, plan, image_fps)
    outcomes = run_all(make, items, processes=processes, on_done=on_done)
    pictures: dict[tuple[int, int], Picture] = {}
    problems: dict[str, str] = {}
    for (video, _), outcome in zip(items, outcomes, strict=True):
        taken = outcome.value or _Taken({}, outcome.failure or "")
        pictures.update(taken.pictures)
        if taken.problem:
            problems[video] = taken.problem
    return Album(pictures, problems)


def mean_picture(crops: Sequence[bytes], most_bytes: int = 20_000) -> bytes | None:
    """The mean of crops, which shows what they have in common; None of none."""
    if not crops:
        return None
    total = np.zeros((_CROP_SIDE, _CROP_SIDE, 3))
    for crop in crops:
        total += np.asarray(cv2.imdecode(np.frombuffer(crop, np.uint8), cv2.IMREAD_COLOR))
    mean = np.round(total / len(crops)).astype(np.uint8)
    return encode(np.ascontiguousarray(mean[:, :, ::-1]), most_bytes)


def encode(image: Image, most_bytes: int) -> bytes:
    """RGB (H, W, 3) as a JPEG of no more bytes, as good as can be."""
    data = b""
    for scale, quality in _ENCODINGS:
        size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
        small = image if scale == 1 else cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_OPTIMIZE, 1]
        _, coded = cv2.imencode(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), options)
        data = coded.tobytes()
        if len(data) <= most_bytes:
            break
    return data


@dataclass(frozen=True)
class _Taken:
    pictures: dict[tuple[int, int], Picture]
    problem: str = ""


class _Photographer:
    """One process's reader of videos."""

    def __init__(self, plan: Plan, image_fps: float) -> None:
        cv2.setNumThreads(1)  # there is one process per core
        self.plan, self.image_fps = plan, image_fps

    def __call__(self, item: tuple[str, tuple[Wanted, ...]], tick: Tick) -> _Taken:
        video, wanted = item
        pictures: dict[tuple[int, int], Picture] = {}
        problem = ""
        for group in _groups(sorted(wanted, key=lambda want: want.time)):
            try:
                for want, frame in self._read(Path(video), group):
                    pictures[want.key] = self._picture(want, frame)
            except VideoError as failure:  # the other moments may still be read
                problem = problem or str(failure)
        tick(len(pictures))
        return _Taken(pictures, problem)

    def _read(self, video: Path, group: list[Wanted]) -> Iterator[tuple[Wanted, Frame]]:
        """The frame nearest to each moment, in one pass over a short stretch."""
        pending = deque(group)
        previous: Frame | None = None
        with read_frames(
            video,
            max(0.0, group[0].time - _NEAR),
            max(0.0, group[-1].time) + _NEAR,
            fps=_READ_FPS,
            max_side=READ_SIDE,
            image_fps=self.image_fps,
        ) as frames:
            for frame in frames:
                while pending and pending[0].time <= frame.time:
                    want = pending.popleft()
                    before = previous is not None and _nearer(previous, frame, want)
                    yield want, previous if previous and before else frame
                if not pending:
                    return
                previous = frame
        for want in pending:  # after the last frame
            if previous is not None and want.time - previous.time <= _NEAR:
                yield want, previous

    def _picture(self, want: Wanted, frame: Frame) -> Picture:
        height, width = frame.image.shape[:2]
        scale = np.array([*frame.scale, *frame.scale])
        crop = None
        if want.boxes is not None and len(want.boxes):
            square = _cut(frame.image, interpolate(want.boxes, frame.time) / scale)
            crop = encode(square, 5_000)
        plan = self.plan
        return Picture(
            time=frame.time,
            width=round(width * frame.scale[0]),
            height=round(height * frame.scale[1]),
            frame=encode(_within(frame.image, plan.side), plan.bytes),
            crop=crop,
            large=encode(_within(frame.image, plan.large_side), plan.large_bytes)
            if want.large
            else None,
        )


def _groups(wanted: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    """Moments that are near enough to be read in one pass."""
    group: list[Wanted] = []
    for want in wanted:
        if group and want.time - group[-1].time > _GAP:
            yield group
            group = []
        group.append(want)
    if group:
        yield group


def _nearer(earlier: Frame, later: Frame, want: Wanted) -> bool:
    return want.time - earlier.time < later.time - want.time


def _within(image: Image, side: int) -> Image:
    factor = side / max(image.shape[:2])
    if factor >= 1:
        return image
    size = max(1, round(image.shape[1] * factor)), max(1, round(image.shape[0] * factor))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)


def _cut(image: Image, box: Array) -> Image:
    """A square around a box, (side, side, 3); beyond the border of the image it repeats."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    half = max(box[2] - box[0], box[3] - box[1], 2.0) * _CROP_CONTEXT / 2
    columns = np.linspace(x - half, x + half, 2 * _CROP_SIDE).astype(np.float32)
    rows = np.linspace(y - half, y + half, 2 * _CROP_SIDE).astype(np.float32)
    map_x, map_y = np.meshgrid(columns, rows)
    large = cv2.remap(image, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return _square(large.astype(np.uint8, copy=False))


def _square(image: Array) -> Image:
    size = _CROP_SIDE, _CROP_SIDE
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)
