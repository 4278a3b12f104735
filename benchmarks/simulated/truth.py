"""Ground truth of a clip, from the simulator's state and segmentations: arrays to JSON.

Needs neither the simulator nor a video. The keys are explained in this folder's README.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Box = list[int]

VERSION = 2
LEFT_FIRST = 0.02  # of the change: the action has begun when the state is farther from the first
NEAR_LAST = 0.05  # of the change: it has ended when the state stays closer to the last
LEAST_PIXELS = 6  # of an object that counts as visible

# Codes of a segmentation; the n-th distractor has the code DISTRACTOR + n.
NOTHING, WHOLE, PART, GRIPPER, DISTRACTOR = 0, 1, 2, 3, 10


def last_value(values: Floats) -> Floats:
    """The state at the end, (k,) from (n, k): a mean, because it may oscillate."""
    return np.asarray(values[-10:].mean(axis=0))


def action_frames(values: Floats) -> tuple[int, int]:
    """First frame of the action and the first after it, from the state (n, k) alone.

    >>> action_frames(np.r_[np.zeros(20), np.linspace(0, 1, 51), np.ones(20)][:, None])
    (22, 68)
    """
    first, last = values[0], last_value(values)
    change = np.linalg.norm(last - first)
    if not change > 0:
        raise ValueError("the state is the same at the end as at the start: there is no action")
    begun = np.linalg.norm(values - first, axis=1) > LEFT_FIRST * change
    open_ended = np.linalg.norm(values - last, axis=1) > NEAR_LAST * change
    return int(np.argmax(begun)), int(np.flatnonzero(open_ended)[-1]) + 1


def progress(values: Floats) -> Floats:
    """Distance from the first state as a fraction of the whole change, (n,): 0 before, 1 after."""
    distance = np.linalg.norm(values - values[0], axis=1)
    return np.asarray(distance / np.linalg.norm(last_value(values) - values[0]))


def runs(names: Sequence[str]) -> list[tuple[str, int, int]]:
    """Equal neighbours as (name, first, last + 1).

    >>> runs("aab")
    [('a', 0, 2), ('b', 2, 3)]
    """
    found: list[tuple[str, int, int]] = []
    for index, name in enumerate(names):
        if found and found[-1][0] == name:
            found[-1] = name, found[-1][1], index + 1
        else:
            found.append((name, index, index + 1))
    return found


def box_of(mask: npt.NDArray[np.bool_]) -> Box | None:
    """``[x1, y1, x2, y2]`` in pixels around a mask (height, width), half-open; None if too small.

    >>> box_of(np.pad(np.ones((2, 3), bool), ((1, 1), (4, 0))))
    [4, 1, 7, 3]
    """
    if mask.sum() < LEAST_PIXELS:
        return None
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return [int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1]


def object_mask(codes: npt.NDArray[np.int8], separate: bool) -> npt.NDArray[np.bool_]:
    """The object in a segmentation: with its part, unless that is a separate object."""
    return np.isin(codes, [WHOLE] if separate else [WHOLE, PART])


class BoxLog:
    """Boxes of all frames, from two segmentations of each."""

    def __init__(self, distractors: int, separate: bool) -> None:
        self.separate = separate
        self.object: dict[str, list[Any]] = {"box": [], "box_visible": [], "visible_fraction": []}
        self.part: dict[str, list[Box | None]] = {"box": [], "box_visible": []}
        self.gripper: list[Box | None] = []
        self.distractors: list[list[Box | None]] = [[] for _ in range(distractors)]

    def add(self, alone: npt.NDArray[np.int8], seen: npt.NDArray[np.int8]) -> None:
        """One frame: codes (height, width) without robot and distractors, and as rendered."""
        whole, visible = object_mask(alone, self.separate), object_mask(seen, self.separate)
        self.object["box"].append(box_of(whole))
        self.object["box_visible"].append(box_of(visible))
        fraction = visible.sum() / max(1, whole.sum())
        self.object["visible_fraction"].append(round(float(fraction), 3))
        self.part["box"].append(box_of(alone == PART))
        self.part["box_visible"].append(box_of(seen == PART))
        self.gripper.append(box_of(seen == GRIPPER))
        for index, boxes in enumerate(self.distractors):
            boxes.append(box_of(seen == DISTRACTOR + index))


@dataclass(frozen=True)
class Step:
    """A step of a chain as it happened: first frame of its action and the first frame after it.

    frames : None where the step is left out.
    number, occurrence : from 1; the occurrence is None in a clip, where there is one.
    """

    name: str
    number: int
    frames: tuple[int, int] | None
    occurrence: int | None = None

    def facts(self, fps: int) -> dict[str, Any]:
        """For the JSON."""
        frames = None if self.frames is None else list(self.frames)
        return {
            "name": self.name,
            "step": self.number,
            **({} if self.occurrence is None else {"occurrence": self.occurrence}),
            "frames": frames,
            "interval_s": None if frames is None else [frame / fps for frame in frames],
        }


def state_intervals(
    actions: Sequence[tuple[int, int] | None], start: int, end: int
) -> list[tuple[int, int] | None]:
    """Frames of the K states around K - 1 actions, all within ``start`` to ``end``.

    The state after an action that is left out is None: it never comes.

    >>> state_intervals([(5, 7), (9, 12)], 0, 20)
    [(0, 5), (7, 9), (12, 20)]
    >>> state_intervals([(5, 7), None], 0, 20)
    [(0, 5), (7, 20), None]
    """
    done = [action for action in actions if action is not None]
    bounds = [start, *(frame for action in done for frame in action), end]
    present = iter(zip(bounds[::2], bounds[1::2], strict=True))
    return [next(present), *(None if action is None else next(present) for action in actions)]


def state_truth(
    values: Floats,
    action: tuple[int, int],
    touch: npt.NDArray[np.bool_],
    phases: Sequence[str],
    pauses: Sequence[tuple[str, int, int]],
    fps: int,
) -> dict[str, Any]:
    """The part of a clip's JSON that follows from an episode of one change; times in seconds."""
    (first, last), frames = action, len(values)
    change = {
        "action_interval_s": [first / fps, last / fps],
        "state1_interval_s": [0, first / fps],
        "state2_interval_s": [last / fps, frames / fps],
        "action_frames": [first, last],
    }
    return _episode_truth(values, change, progress(values), touch, phases, pauses, fps)


def chain_truth(
    values: Floats,
    steps: Sequence[Step],
    cuts: Sequence[int],
    touch: npt.NDArray[np.bool_],
    phases: Sequence[str],
    pauses: Sequence[tuple[str, int, int]],
    fps: int,
) -> dict[str, Any]:
    """The same of a chain. Performed step i happens between frames ``cuts[i]`` and ``[i + 1]``.

    ``progress`` is the number of steps done in this occurrence, and the fraction of the present.
    """
    done = np.zeros(len(values))
    performed = [step for step in steps if step.frames is not None]
    for step, start, end in zip(performed, cuts[:-1], cuts[1:], strict=True):
        done[start:end] = step.number - 1 + progress(values[start:end])
    long = any(step.occurrence is not None for step in steps) or not steps
    change: dict[str, Any] = {"actions": [step.facts(fps) for step in steps]}
    if long:
        change |= _occurrences(steps, len(values), fps)
    else:
        states = state_intervals([step.frames for step in steps], 0, len(values))
        change["state_intervals_s"] = [_seconds(frames, fps) for frames in states]
    return _episode_truth(values, change, done, touch, phases, pauses, fps)


def _occurrences(steps: Sequence[Step], frames: int, fps: int) -> dict[str, Any]:
    """Of a long video: every occurrence from its first to its last action, and its states.

    The state between two occurrences is the last of one and the first of the other.
    """
    groups: dict[int, list[tuple[int, int]]] = {}
    for step in steps:
        if step.frames is not None and step.occurrence is not None:
            groups.setdefault(step.occurrence, []).append(step.frames)
    spans = [(actions[0][0], actions[-1][1]) for actions in groups.values()]
    starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), frames]
    states = [
        state_intervals(actions, starts[index], ends[index + 1])
        for index, actions in enumerate(groups.values())
    ]
    return {
        "occurrences_s": [_seconds(span, fps) for span in spans],
        "state_intervals_s": [[_seconds(each, fps) for each in row] for row in states],
    }


def _seconds(frames: tuple[int, int] | None, fps: int) -> list[float] | None:
    return None if frames is None else [frame / fps for frame in frames]


def _episode_truth(
    values: Floats,
    change: dict[str, Any],
    done: Floats,
    touch: npt.NDArray[np.bool_],
    phases: Sequence[str],
    pauses: Sequence[tuple[str, int, int]],
    fps: int,
) -> dict[str, Any]:
    frames = len(values)
    touched = np.flatnonzero(touch)
    contact = [int(touched[0]) / fps, (int(touched[-1]) + 1) / fps] if len(touched) else None
    plain = values if values.shape[1] > 1 else values[:, 0]
    return {
        "fps": fps,
        "n_frames": frames,
        "duration_s": frames / fps,
        **change,
        "action_thresholds": [LEFT_FIRST, NEAR_LAST],
        "touch_interval_s": contact,
        "phases": [[name, start / fps, end / fps] for name, start, end in runs(phases)],
        "pauses": [[name, start / fps, end / fps] for name, start, end in pauses],
        "value": np.round(plain, 4).tolist(),
        "progress": np.round(done, 3).tolist(),
        "touch": touch.astype(int).tolist(),
    }
