"""Long videos made of simulated clips, one after the other, and the spans of them that are wanted.

Every simulated clip (the layout of `../shared/data/sim`) appears in one long video, whole: an arm
that wanders idly, then a manipulation, then the arm again. So a span of a long video may show the
action, or another one, or none, and may reach over a cut. Only spans that were retrieved are ever
encoded.
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

from benchmarks.wild.narrated import Event, Rng, Timeline, WildVideo, hear, talk

FPS = 25


@dataclass(frozen=True, slots=True)
class Shot:
    """A simulated clip, and where it begins in the long video, in frames."""

    task: str
    video: Path
    first: int
    truth: dict[str, Any]

    @property
    def last(self) -> int:
        return self.first + int(self.truth["n_frames"])


@dataclass(frozen=True, slots=True)
class LongVideo:
    """Shots in order, and what is said along them."""

    name: str
    shots: tuple[Shot, ...]
    spoken: WildVideo


def deal(clips: Mapping[str, Sequence[Path]], videos: int, seed: int) -> list[LongVideo]:
    """Long videos with at most one shot of each task; every clip of a task is used once."""
    rng = np.random.default_rng(seed)
    hands: list[list[Path]] = [[] for _ in range(videos)]
    for paths in clips.values():
        for hand, clip in zip(rng.permutation(videos)[: len(paths)], paths, strict=True):
            hands[hand].append(clip)
    return [_long_video(f"long{n:03d}", hand, rng) for n, hand in enumerate(hands) if hand]


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
    utterances = talk(timeline, rng)
    heard = hear(name, utterances, rng)
    return LongVideo(name, shots, WildVideo(timeline, tuple(utterances), heard))


def write_span(video: LongVideo, start: float, end: float, path: Path) -> None:
    """Encode what a long video shows between two moments."""
    first, last = round(start * FPS), min(round(end * FPS), video.shots[-1].last)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "18"})
        stream.width, stream.height = (int(video.shots[0].truth[s]) for s in ("width", "height"))
        stream.pix_fmt = "yuv420p"
        for shot in video.shots:
            if shot.last > first and shot.first < last:
                for picture in _pictures(shot, first - shot.first, last - shot.first):
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())


def _pictures(shot: Shot, first: int, last: int) -> list[Any]:
    """Frames of a shot, counted from its beginning."""
    with av.open(str(shot.video)) as container:
        pictures = []
        for number, frame in enumerate(container.decode(video=0)):
            if number >= last:
                break
            if number >= first:
                pictures.append(frame.to_ndarray(format="rgb24"))
        return pictures


def span_truth(video: LongVideo, task: str, start: float, end: float) -> dict[str, Any] | None:
    """The truth of a span in the layout of the clips' own; None where the action's middle is not
    in it. ``shot_s`` is when the object is in the picture at all.
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
