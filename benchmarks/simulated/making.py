"""One clip: draw lots until scene, acting and camera are good; then film it and write its truth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.simulated import acting, filming, looks, scene, truth
from benchmarks.simulated.tasks import Manipulation, manipulation
from objectstates.base.errors import ObjectStatesError
from objectstates.base.storage import write_atomically

TRIES = 80


class NoClipError(ObjectStatesError):
    """No lots drawn made a good clip."""


@dataclass(frozen=True)
class Order:
    """A clip to make. The same order makes the same bytes, given the same packages."""

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
        """Written last: where it is, the clip is whole."""
        return self.video.with_suffix(".json")

    def lots(self, attempt: int) -> int:
        """The seed of an attempt."""
        parts = [self.seed, crc32(self.task.encode()), self.index, attempt]
        return int(np.random.SeedSequence(parts).generate_state(1)[0])


@dataclass(frozen=True)
class Made:
    """What to tell of a clip that was made."""

    name: str
    frames: int
    action: tuple[int, int]
    rejected: dict[str, int]


def worker() -> Callable[[Order, Callable[[int], None]], Made]:
    """What each process holds."""
    return make_clip


def make_clip(order: Order, tick: Callable[[int], None]) -> Made:
    """Film a clip; ``tick`` hears of every frame."""
    task, rejected = manipulation(order.task), Counter[str]()
    for attempt in range(TRIES):
        seed = order.lots(attempt)
        try:
            facts = _attempt(task, seed, order.video, tick)
        except scene.RejectedError as reason:
            rejected[str(reason)] += 1
            continue
        head = {"version": truth.VERSION, "clip": order.name, "task": task.name}
        tail = {"seed": seed, "rejected_tries": dict(rejected)}
        text = json.dumps({**head, **facts, **tail}, separators=(",", ":"), allow_nan=False)
        write_atomically(order.json, text + "\n")
        first, last = facts["action_frames"]
        return Made(order.name, facts["n_frames"], (first, last), dict(rejected))
    reasons = ", ".join(f"{count} x {reason}" for reason, count in rejected.most_common())
    raise NoClipError(f"{order.name}: {TRIES} tries made no good clip ({reasons}): change --seed")


def _attempt(
    task: Manipulation, seed: int, video: Path, tick: Callable[[int], None]
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    stage = scene.build(task, rng)
    try:
        take = acting.act(stage, rng)
        look = looks.dress(stage, rng)
        origin = stage.model.body(task.whole[0]).pos
        camera = filming.draw_camera(task.view, origin, len(take.poses), rng)
        with filming.filming(stage, take, camera) as film:
            film.check()
            film.leave_out_unseen()
            boxes = filming.shoot(film, video, tick)
    finally:
        stage.env.close()
    return {
        "action": task.action,
        "states": list(task.states),
        "width": filming.WIDTH,
        "height": filming.HEIGHT,
        **truth.state_truth(
            take.values, take.action, take.touch, take.phases, take.pauses, acting.FPS
        ),
        "value_name": ":".join(task.value),
        "object": {"name": task.noun, **boxes.object},
        "part": {"name": task.part[0], **boxes.part},
        "gripper": {"box_visible": boxes.gripper},
        "things": [
            {"kind": thing.kind, "state": thing.state, "box_visible": seen}
            for thing, seen in zip(stage.things, boxes.things, strict=True)
        ],
        "camera": camera.facts(),
        "look": look,
    }
