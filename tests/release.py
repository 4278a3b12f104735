"""A release in the authors' layout, made from the clips of the demo: features, metadata, images.

    raw_images/<action>/<action>_0012/000104.jpg    every second or third frame of a clip
    metadata/<action>.mat                           tracklets and chunks with their annotations
    features/features_<action>.mat                  small pictures of boxes, differences of frames

Clips have different frame rates, and their images start at different numbers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from scipy.io import savemat

from objectstates.video.reader import read_frames
from tests.data.formats.test_authors import cell, predecessors

DEMO = Path(__file__).parents[1] / "src" / "objectstates" / "demo" / "drawer"
FPS = 25
ELSEWHERE = (4, 4, 60, 50)  # a box in which no object is, in pixels


@dataclass
class Piece:
    """A tracklet or a chunk: the numbers of its images, its annotation and its feature."""

    frames: list[int]
    label: int
    feature: np.ndarray
    boxes: list[Any] = field(default_factory=list)


@dataclass
class ReleaseClip:
    """A clip of the release; ``rate`` in frames per second."""

    name: str
    rate: float
    tracklets: list[Piece] = field(default_factory=list)
    chunks: list[Piece] = field(default_factory=list)


def make_release(root: Path, action: str = "open_fridge", clips: int = 4) -> list[ReleaseClip]:
    """Write a release of one action to ``root``; the clips as they were written."""
    made = [_make_clip(root, action, n) for n in range(clips)]
    for folder in ("features", "metadata"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    savemat(root / "features" / f"features_{action}.mat", features_of(made))
    savemat(root / "metadata" / f"{action}.mat", metadata_of(made))
    return made


def _make_clip(root: Path, action: str, n: int) -> ReleaseClip:
    source, step, first = DEMO / f"drawer_{6 + n:02d}.mp4", 2 + n % 2, 1 + 50 * n
    truth = json.loads(source.with_suffix(".json").read_text())
    clip = ReleaseClip(f"{action}_{3 * n + 1:04d}", FPS / step)
    folder = root / "raw_images" / action / clip.name
    folder.mkdir(parents=True)
    with read_frames(source) as reading:
        images = [frame.image for k, frame in enumerate(reading) if k % step == 0]
    boxes = truth["object"]["box"][::step][: len(images)]
    begin, end = (round(time * FPS / step) for time in truth["action_interval_s"])
    for k, image in enumerate(images):
        rgb = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
        cv2.imwrite(str(folder / f"{first + k:06d}.jpg"), rgb)
    length = round(clip.rate)  # frames of a tracklet, about a second
    for start in range(0, len(images) - length + 1, length):
        span = range(start, start + length)
        state = 1 if span[-1] < begin else 2 if span[0] >= end else 3
        for places, label in (([boxes[k] for k in span], state), ([ELSEWHERE] * length, 0)):
            crops = [_crop(images[k], box) for k, box in zip(span, places, strict=True)]
            feature = np.mean(crops, axis=0)
            clip.tracklets.append(Piece([first + k for k in span], label, feature, places))
    for start in range(0, len(images) - 5 + 1, 5):
        middle = start + 2
        change = cv2.absdiff(images[start], images[start + 4]).mean(axis=2)
        feature = cv2.resize(change, (12, 9), interpolation=cv2.INTER_AREA).ravel()
        label = int(begin <= middle < end)
        clip.chunks.append(Piece([first + k for k in range(start, start + 5)], label, feature))
    return clip


def _crop(image: np.ndarray, box: tuple[int, ...]) -> np.ndarray:
    x1, y1, x2, y2 = box
    return cv2.resize(image[y1:y2, x1:x2], (8, 8), interpolation=cv2.INTER_AREA).ravel() / 255


def times_of(clip: ReleaseClip, pieces: list[Piece]) -> list[float]:
    """Mean over the frames, in seconds, as in the release."""
    return [float(np.mean(piece.frames)) / clip.rate for piece in pieces]


def _column(values: list[Any]) -> np.ndarray:
    return np.array(values, float)[:, None]


def features_of(clips: list[ReleaseClip]) -> dict[str, Any]:
    """The variables of ``features_<action>.mat``."""
    tracklets = [piece for clip in clips for piece in clip.tracklets]
    chunks = [piece for clip in clips for piece in clip.chunks]
    states = [[piece.label == 1, piece.label == 2] for piece in tracklets]
    lists = []
    for clip in clips:
        start = np.array([piece.frames[0] for piece in clip.tracklets])
        end = np.array([piece.frames[-1] + 1 for piece in clip.tracklets])
        lists.append(cell([np.array([p], float) for p in predecessors(start, end)]))
    return {
        "X_action": np.stack([piece.feature for piece in chunks]),
        "X_state": np.stack([piece.feature for piece in tracklets]),
        "T_action": _column([t for clip in clips for t in times_of(clip, clip.chunks)]),
        "T_state": _column([t for clip in clips for t in times_of(clip, clip.tracklets)]),
        "Z_GT": _column([piece.label for piece in chunks]),
        "Y_GT": np.array(states, float),
        "clips_action": np.array([[len(clip.chunks) for clip in clips]], float),
        "clips_state": np.array([[len(clip.tracklets) for clip in clips]], float),
        "ptrs_tracks": cell(lists),
        "constrs_action": cell([np.ones((len(clip.chunks), 1)) for clip in clips]),
        "constrs_state": cell([np.ones((len(clip.tracklets), 2)) for clip in clips]),
        "annot_action": cell([np.ones((1, 1))] * len(clips)),
        "annot_state": cell([np.array([[1.0, 2]])] * len(clips)),
    }


def metadata_of(clips: list[ReleaseClip]) -> dict[str, Any]:
    """The variables of the metadata; boxes are ``x1, x2, y1, y2``."""
    tracklets = [piece for clip in clips for piece in clip.tracklets]
    chunks = [piece for clip in clips for piece in clip.chunks]
    numbers = {clip.name: int(clip.name[-4:]) for clip in clips}
    return {
        "clipids_state": cell([clip.name for clip in clips]),
        "clips": np.array([[len(clip.tracklets) for clip in clips]], float),
        "state_GT": np.array([[piece.label for piece in tracklets]], float),
        "vids_state": np.array([[numbers[c.name] for c in clips for _ in c.tracklets]], float),
        "FRAMES_state": cell([np.array([piece.frames], float) for piece in tracklets]),
        "BOXES_state": cell([np.array(p.boxes, float)[:, [0, 2, 1, 3]] for p in tracklets]),
        "T_state": _column([t for clip in clips for t in times_of(clip, clip.tracklets)]),
        "vids_action": _column([numbers[clip.name] for clip in clips for _ in clip.chunks]),
        "T_action": _column([t for clip in clips for t in times_of(clip, clip.chunks)]),
        "FRAMES_action": cell([np.array([piece.frames], float) for piece in chunks]),
        "action_GT": _column([piece.label for piece in chunks]),
    }
