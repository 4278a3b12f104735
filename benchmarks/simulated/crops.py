"""One-sided crops, which move the action away from the middle of a clip.

Idle times before and after the action have the same distribution, so the middle of a clip is a good
guess of its action. With one random end cut to about two seconds from the action it is not.
``crops.json`` lists the frames to keep: ``{clip: [first, last + 1]}``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from objectstates.base.errors import TruthError
from objectstates.base.storage import write_atomically

MARGIN_SECONDS = (1.6, 2.4)  # kept beside the action where a clip is cut


@dataclass(frozen=True)
class ClipFacts:
    """What a crop depends on.

    action : half-open, in frames; from the first to the last of a chain, None if there is none.
    changes : steps of the chain.
    """

    name: str
    task: str
    frames: int
    action: tuple[int, int] | None
    fps: float
    changes: int = 1


def one_sided(clip: ClipFacts, seed: int) -> tuple[int, int]:
    """Frames to keep, half-open. Depends on the seed and this clip alone."""
    if clip.action is None:
        return 0, clip.frames
    rng = np.random.default_rng([seed, crc32(clip.name.encode())])
    margin, (first, last) = int(clip.fps * rng.uniform(*MARGIN_SECONDS)), clip.action
    if rng.uniform() < 0.5:
        return max(0, first - margin), clip.frames
    return 0, min(clip.frames, last + margin)


def action_spans(facts: dict[str, Any]) -> list[tuple[int, int]]:
    """Frames of all actions that happen in a clip, half-open, from its JSON."""
    if "actions" not in facts:
        first, last = facts["action_frames"]
        return [(first, last)]
    return [(step["frames"][0], step["frames"][1]) for step in facts["actions"] if step["frames"]]


def read_clips(folder: Path) -> list[ClipFacts]:
    """All clips under a folder of tasks, by name."""
    clips = []
    for path in sorted(folder.glob("*/*.json")):
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            actions = action_spans(facts)
            span = (actions[0][0], actions[-1][1]) if actions else None
            kind = len(facts["states"]) - 1
            clips.append(
                ClipFacts(path.stem, facts["task"], facts["n_frames"], span, facts["fps"], kind)
            )
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise TruthError(
                f"{path} is not the truth of a simulated clip ({problem}): remove it"
            ) from problem
    return clips


def write_crops(folder: Path, seed: int) -> dict[str, tuple[int, int]]:
    """Crop all clips under the folder, and write ``crops.json`` there."""
    crops = {clip.name: one_sided(clip, seed) for clip in read_clips(folder)}
    write_atomically(folder / "crops.json", json.dumps(crops, separators=(",", ":")) + "\n")
    return crops


def middle_hits(clips: list[ClipFacts], crops: dict[str, tuple[int, int]]) -> tuple[float, float]:
    """Share of clips in whose action the middle falls: of whole clips, and of cropped ones."""
    hits = []
    for clip in clips:
        if clip.action is None:
            continue
        (first, last), (start, end) = clip.action, crops[clip.name]
        hits.append([first <= clip.frames / 2 < last, first <= (start + end) / 2 < last])
    whole, cropped = np.mean(hits, axis=0)
    return float(whole), float(cropped)
