"""Generate one clip: sample scene, episode and camera until they pass, render, write the truth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.simulated import appearance, rendering, scene, truth
from benchmarks.simulated.episode import FPS, ROBOT_NAMES, record_episode
from benchmarks.simulated.tasks import Manipulation, manipulation
from objectstates.base.errors import ObjectStatesError
from objectstates.base.storage import write_atomically

ATTEMPTS = 80


class NoClipError(ObjectStatesError):
    """No attempt passed the checks."""


@dataclass(frozen=True)
class ClipRequest:
    """A clip to generate. The same request gives the same bytes, given the same packages."""

    task: str
    index: int
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.task}_{self.index:03d}"

    @property
    def video(self) -> Path:
        return self.folder / self.task / f"{self.name}.mp4"

    @property
    def json(self) -> Path:
        """Written last: if it exists, the clip is complete."""
        return self.video.with_suffix(".json")

    def attempt_seed(self, attempt: int) -> int:
        """The seed of an attempt."""
        parts = [self.seed, crc32(self.task.encode()), self.index, attempt]
        return int(np.random.SeedSequence(parts).generate_state(1)[0])


@dataclass(frozen=True)
class ClipSummary:
    """Summary of a generated clip."""

    name: str
    frames: int
    action: tuple[int, int]
    rejected: dict[str, int]


def worker() -> Callable[[ClipRequest, Callable[[int], None]], ClipSummary]:
    """The function that each process calls."""
    return generate_clip


def generate_clip(request: ClipRequest, tick: Callable[[int], None]) -> ClipSummary:
    """Generate a clip; ``tick`` is called with 1 for every frame."""
    task, rejected = manipulation(request.task), Counter[str]()
    for attempt in range(ATTEMPTS):
        seed = request.attempt_seed(attempt)
        try:
            facts = _attempt(task, seed, request.video, tick)
        except scene.RejectedError as reason:
            rejected[str(reason)] += 1
            continue
        head = {"version": truth.VERSION, "clip": request.name, "task": task.name}
        tail = {"seed": seed, "rejected_tries": dict(rejected)}
        text = json.dumps({**head, **facts, **tail}, separators=(",", ":"), allow_nan=False)
        write_atomically(request.json, text + "\n")
        first, last = facts["action_frames"]
        return ClipSummary(request.name, facts["n_frames"], (first, last), dict(rejected))
    reasons = ", ".join(f"{count} x {reason}" for reason, count in rejected.most_common())
    raise NoClipError(
        f"{request.name}: {ATTEMPTS} attempts gave no clip ({reasons}): change --seed"
    )


def _attempt(
    task: Manipulation, seed: int, video: Path, tick: Callable[[int], None]
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    stage = scene.build(task, rng)
    try:
        episode = record_episode(stage, rng)
        look = appearance.randomise(stage, rng)
        origin = stage.model.body(task.whole[0]).pos
        camera = rendering.sample_camera(task.view, origin, len(episode.poses), rng)
        with rendering.open_renderer(stage, episode, camera) as renderer:
            renderer.check()
            renderer.hide_unseen()
            boxes = rendering.render_clip(renderer, video, tick)
    finally:
        stage.env.close()
    return {
        "action": task.action,
        "states": list(task.states),
        "width": rendering.WIDTH,
        "height": rendering.HEIGHT,
        **truth.state_truth(
            episode.values, episode.action, episode.touch, episode.phases, episode.pauses, FPS
        ),
        "value_name": ":".join(task.value),
        "object": {"name": task.noun, **boxes.object},
        "part": {"name": task.part[0], **boxes.part},
        "gripper": {"box_visible": boxes.gripper},
        "things": [
            {"kind": distractor.kind, "state": distractor.state, "box_visible": seen}
            for distractor, seen in zip(stage.distractors, boxes.distractors, strict=True)
        ],
        "robot": {
            "names": list(ROBOT_NAMES),
            "state": episode.proprioception.round(5).tolist(),
            "action": episode.commands.round(5).tolist(),
        },
        "camera": camera.facts(),
        "look": look,
    }
