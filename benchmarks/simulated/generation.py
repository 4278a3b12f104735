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
from benchmarks.simulated.chains import Plan
from benchmarks.simulated.episode import FPS, ROBOT_NAMES, Episode, record_episode
from objectstates.base.errors import ObjectStatesError
from objectstates.base.storage import write_atomically

ATTEMPTS = 80


class NoClipError(ObjectStatesError):
    """No attempt passed the checks."""


@dataclass(frozen=True)
class ClipRequest:
    """A clip to generate. The same request gives the same bytes, given the same packages."""

    plan: Plan
    index: int
    seed: int
    folder: Path

    @property
    def task(self) -> str:
        """Name of the manipulation or the chain."""
        return self.plan.chain.name

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
    actions: tuple[tuple[int, int], ...]
    rejected: dict[str, int]


def worker() -> Callable[[ClipRequest, Callable[[int], None]], ClipSummary]:
    """The function that each process calls."""
    return generate_clip


def generate_clip(request: ClipRequest, tick: Callable[[int], None]) -> ClipSummary:
    """Generate a clip; ``tick`` is called with 1 for every frame."""
    rejected = Counter[str]()
    for attempt in range(ATTEMPTS):
        seed = request.attempt_seed(attempt)
        try:
            episode, facts = _attempt(request.plan, seed, request.video, tick)
        except scene.RejectedError as reason:
            rejected[str(reason)] += 1
            continue
        head = {"version": truth.VERSION, "clip": request.name, "task": request.task}
        tail = {"seed": seed, "rejected_tries": dict(rejected)}
        text = json.dumps({**head, **facts, **tail}, separators=(",", ":"), allow_nan=False)
        write_atomically(request.json, text + "\n")
        return ClipSummary(request.name, facts["n_frames"], episode.actions, dict(rejected))
    reasons = ", ".join(f"{count} x {reason}" for reason, count in rejected.most_common())
    raise NoClipError(
        f"{request.name}: {ATTEMPTS} attempts gave no clip ({reasons}): change --seed"
    )


def _attempt(
    plan: Plan, seed: int, video: Path, tick: Callable[[int], None]
) -> tuple[Episode, dict[str, Any]]:
    rng, task = np.random.default_rng(seed), plan.chain.scene
    stage = scene.build(task, rng, plan.chain.neighbour)
    try:
        episode = record_episode(stage, plan, rng)
        look = appearance.randomise(stage, rng)
        origin = stage.model.body(task.whole[0]).pos
        camera = rendering.sample_camera(task.view, origin, len(episode.poses), rng)
        with rendering.open_renderer(stage, episode, camera) as renderer:
            renderer.check()
            renderer.hide_unseen()
            boxes = rendering.render_clip(renderer, video, tick)
    finally:
        stage.env.close()
    return episode, {
        **({"action": task.action} if len(plan.chain.steps) == 1 else {}),
        "states": list(plan.chain.states),
        "width": rendering.WIDTH,
        "height": rendering.HEIGHT,
        **_change_truth(plan, episode),
        "value_name": " ".join(":".join(each.value) for each in stage.objects),
        "object": {"name": " and ".join(each.noun for each in stage.objects), **boxes.object},
        "part": {"name": " and ".join(each.part[0] for each in stage.objects), **boxes.part},
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


def _change_truth(plan: Plan, episode: Episode) -> dict[str, Any]:
    """The part of the JSON that follows from the episode."""
    rest = episode.touch, episode.phases, episode.pauses, FPS
    if len(plan.chain.steps) == 1:
        return truth.state_truth(episode.values, episode.actions[0], *rest)
    frames = dict(zip(plan.performed, episode.actions, strict=True))
    long = plan.occurrences is not None
    steps = [
        truth.Step(
            step.action,
            number + 1,
            frames.get((occurrence, number)),
            occurrence + 1 if long else None,
        )
        for occurrence in range(1 if plan.occurrences is None else plan.occurrences)
        for number, step in enumerate(plan.chain.steps)
    ]
    return truth.chain_truth(episode.values, steps, episode.cuts, *rest)
