"""Long videos made of concatenated simulated clips, and spans of them.

Every simulated clip (of ``benchmarks.simulated``) is in one long video: idle motion of an arm, an
action, and idle motion again. So a span of a long video may show the action, another one, or none,
and may contain a cut. Only retrieved spans are encoded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import av
import numpy as np

from benchmarks.wild.narrated import (
    Event,
    NarratedVideo,
    Rng,
    Timeline,
    simulate_recognition,
    simulate_speech,
)

FPS = 25


@dataclass(frozen=True, slots=True)
class Shot:
    """A simulated clip, and its first frame in the long video."""

    task: str
    video: Path
    first: int
    truth: dict[str, Any]

    @property
    def last(self) -> int:
        return self.first + int(self.truth["n_frames"])


@dataclass(frozen=True, slots=True)
class LongVideo:
    """Shots in order, and the narration."""

    name: str
    shots: tuple[Shot, ...]
    narrated: NarratedVideo


def make_long_videos(
    clips: Mapping[str, Sequence[Path]], videos: int, seed: int
) -> list[LongVideo]:
    """Long videos with at most one shot of each task; every clip of a task is used once."""
    rng = np.random.default_rng(seed)
    groups: list[list[Path]] = [[] for _ in range(videos)]
    for paths in clips.values():
        for n, clip in zip(rng.permutation(videos)[: len(paths)], paths, strict=True):
            groups[n].append(clip)
    return [_long_video(f"long{n:03d}", group, rng) for n, group in enumerate(groups) if group]


def _long_video(name: str, clips: Sequence[Path], rng: Rng) -> LongVideo:
    order = [clips[i] for i in rng.permutation(len(clips))]
    truths = [json.loads(clip.with_suffix(".json").read_text()) for clip in order]
    firsts = [0, *accumulate(int(truth["n_frames"]) for truth in truths)]
    shots = tuple(
        Shot(truth["task"], clip, first, truth)
        for clip, truth, first in zip(order, truths, firsts[:-1], strict=True)
    )
    events = tuple(
        Event(shot.task, *(shot.first / FPS + t for t in shot.truth["action_interval_s"]))
        for shot in shots
    )
    timeline = Timeline("robot", events, firsts[-1] / FPS)
    utterances = simulate_speech(timeline, rng)
    narration = simulate_recognition(name, utterances, rng)
    return LongVideo(name, shots, NarratedVideo(timeline, tuple(utterances), narration))


def write_span(video: LongVideo, start: float, end: float, path: Path) -> None:
    """Encode a span (seconds) of a long video."""
    first, last = round(start * FPS), min(round(end * FPS), video.shots[-1].last)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "18"})
        stream.width, stream.height = (int(video.shots[0].truth[s]) for s in ("width", "height"))
        stream.pix_fmt = "yuv420p"
        for shot in video.shots:
            if shot.last > first and shot.first < last:
                for image in _frames(shot, first - shot.first, last - shot.first):
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(image)))
        container.mux(stream.encode())


def _frames(shot: Shot, first: int, last: int) -> list[Any]:
    """Frames ``[first, last)`` of a shot."""
    with av.open(str(shot.video)) as container:
        images = []
        for number, frame in enumerate(container.decode(video=0)):
            if number >= last:
                break
            if number >= first:
                images.append(frame.to_ndarray(format="rgb24"))
        return images


def span_truth(video: LongVideo, task: str, start: float, end: float) -> dict[str, Any] | None:
    """Ground truth of a span, in the format of the simulated clips; None unless the middle of the
    action is in it. ``shot_s`` is the interval of the shot that shows the object.
    """
    first, last = round(start * FPS), min(round(end * FPS), video.shots[-1].last)
    for shot in video.shots:
        if shot.task != task:
            continue
        offset = shot.first - first  # of the shot's frames in the span
        a, b = (offset / FPS + t for t in shot.truth["action_interval_s"])
        if not 0 <= (a + b) / 2 < (last - first) / FPS:
            continue
        inside = range(max(0, -offset), min(shot.last - shot.first, last - shot.first))
        before, after = max(0, offset), last - first - max(0, offset) - len(inside)
        boxes = {
            thing: {
                "box": [None] * before
                + [shot.truth[thing]["box"][i] for i in inside]
                + [None] * after
            }
            for thing in ("object", "part")
        }
        return {
            "fps": FPS,
            "n_frames": last - first,
            "action_interval_s": [max(0.0, a), min((last - first) / FPS, b)],
            "shot_s": [before / FPS, (before + len(inside)) / FPS],
            **boxes,
        }
    return None
