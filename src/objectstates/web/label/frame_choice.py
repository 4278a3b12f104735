"""Which frame to label next: one that differs from those labelled, in clip, time and look.

Some frames of each clip are candidates. The next one is of a clip with the fewest labelled frames,
and among these the one farthest from all labelled candidates: the distance of their looks (mean
feature of the network over the frame, of length 1) plus that of their positions in their clips.
Looks are computed in the background; a clip whose looks are not known yet differs in time alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import VideoError
from objectstates.features.lite0 import Lite0
from objectstates.video.clip_list import ClipSpan
from objectstates.video.frames_at import frames_at
from objectstates.video.reader import Image, probe
from objectstates.web.label.labels_file import Key

PER_CLIP = 8  # candidates
POSITIONS = tuple((2 * k + 1) / (2 * PER_CLIP) for k in (1, 6, 3, 4, 0, 7, 2, 5))
"""Where in its clip a candidate lies, 0 to 1: the first ones before and after most actions."""

TIME_WEIGHT = 0.5  # of the distance from the first to the last frame of a clip
SIDE = 224  # pixels of the longer side of the frames that looks are computed of

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ClipExtent:
    """A clip that can be read: ``[start, end)`` in seconds, and pixels of its video."""

    start: float
    end: float
    width: int
    height: int


def clip_extent(clip: ClipSpan) -> ClipExtent:
    """Raise `VideoError` if the video cannot be read."""
    info = probe(clip.video)
    start = clip.start or 0.0
    end = info.duration if clip.end is None else min(clip.end, info.duration)
    if not start < end:
        raise VideoError(f"{clip.video}: clip {clip.id!r} is empty; correct its span")
    return ClipExtent(start, end, info.width, info.height)


class FrameChoice:
    """The candidates of some clips, and what is known of their looks.

    Threads may call it; `prepare` is for a thread of its own.
    """

    def __init__(self, clips: Sequence[ClipSpan]) -> None:
        self._clips = {clip.id: clip for clip in clips}
        self._extents: dict[str, ClipExtent] = {}
        self._looks: dict[tuple[str, int], Vector] = {}  # by clip and number of the candidate
        self.failed: dict[str, str] = {}
        self._lock = threading.Lock()

    def extent(self, clip: str) -> ClipExtent:
        """The extent of a clip, read if need be; raise `VideoError` if it cannot be."""
        with self._lock:
            found, failure = self._extents.get(clip), self.failed.get(clip)
        if failure is not None:
            raise VideoError(failure)
        if found is None:
            try:
                found = clip_extent(self._clips[clip])
            except VideoError as problem:
                with self._lock:
                    self.failed[clip] = str(problem)
                raise
            with self._lock:
                self._extents[clip] = found
        return found

    def probe(self, stopped: Callable[[], bool]) -> None:
        """Open all clips, until ``stopped``, so that `failed` names those that cannot be read."""
        for clip in self._clips:
            if stopped():
                return
            with suppress(VideoError):
                self.extent(clip)

    def prepare(self, stopped: Callable[[], bool]) -> None:
        """Compute the looks of all clips, until ``stopped``."""
        network = Lite0((32,))
        for clip in self._clips.values():
            if stopped():
                return
            try:
                extent = self.extent(clip.id)
                times = {round(_time(extent, p), 3): n for n, p in enumerate(POSITIONS)}
                found = frames_at(clip.video, times, max_side=SIDE, problems=[])
                for time, frame in found:
                    look = _look(network, frame.image)
                    with self._lock:
                        self._looks[clip.id, times[time]] = look
            except VideoError:
                continue  # named in `failed`, or its frames cannot be read: it has no looks

    def next(self, labelled: Mapping[Key, object], skipped: Collection[Key]) -> Key | None:
        """The frame to label next, or None if all clips have been gone through."""
        with self._lock:
            looks, failed = dict(self._looks), set(self.failed)
        counts = dict.fromkeys((clip for clip in self._clips if clip not in failed), 0)
        for clip, _ in labelled:
            if clip in counts:
                counts[clip] += 1
        seen = [self._place(key, looks) for key in labelled if key[0] in counts]
        taken = {(clip, number) for clip, number, _, _ in seen}
        taken |= {self._place(key, looks)[:2] for key in skipped if key[0] in counts}
        for fewest in sorted(set(counts.values())):
            free = [
                (clip, number)
                for clip, count in counts.items()
                for number in range(PER_CLIP)
                if count == fewest and (clip, number) not in taken
            ]
            for index in np.argsort(-_novelties(free, looks, seen), kind="stable").tolist():
                clip, number = free[index]
                try:
                    time = _time(self.extent(clip), POSITIONS[number])
                except VideoError:
                    continue
                return clip, round(time * 1000)
        return None

    def _place(
        self, key: Key, looks: Mapping[tuple[str, int], Vector]
    ) -> tuple[str, int, float, Vector | None]:
        """Clip, nearest candidate, position in the clip and look of a frame."""
        clip, milliseconds = key
        try:
            extent = self.extent(clip)
        except VideoError:
            return clip, 0, 0.5, None
        position = (milliseconds / 1000 - extent.start) / (extent.end - extent.start)
        number = int(np.abs(np.array(POSITIONS) - position).argmin())
        return clip, number, position, looks.get((clip, number))


def _time(extent: ClipExtent, position: float) -> float:
    return extent.start + position * (extent.end - extent.start)


def _novelties(
    free: Sequence[tuple[str, int]],
    looks: Mapping[tuple[str, int], Vector],
    seen: Sequence[tuple[str, int, float, Vector | None]],
) -> npt.NDArray[np.float64]:
    """(m,) distance of each free candidate to the nearest of the frames seen; 0 without any."""
    numbers = np.array([number for _, number in free], np.int64)
    if not seen:
        return np.asarray(-1e-6 * numbers, np.float64)  # in the order of `POSITIONS`
    positions = np.array(POSITIONS)[numbers]
    apart = TIME_WEIGHT * np.abs(positions[:, None] - np.array([place[2] for place in seen]))
    known = [n for n, place in enumerate(seen) if place[3] is not None]
    have = [n for n, candidate in enumerate(free) if candidate in looks]
    if known and have:
        ours = np.stack([looks[free[n]] for n in have])
        theirs = np.stack([look for *_, look in seen if look is not None])
        distance = np.sqrt(np.maximum(2 - 2 * ours @ theirs.T, 0))  # of vectors of length 1
        apart[np.ix_(have, known)] += distance
    return np.asarray(apart.min(axis=1) - 1e-6 * numbers)


def _look(network: Lite0, image: Image) -> Vector:
    """(C,) mean feature over the frame, of length 1."""
    values = network.maps(image[None])[0].values[0]
    mean = values.reshape(-1, values.shape[-1]).mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-6), np.float32)
