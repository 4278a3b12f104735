"""Check simulated clips: ``python -m benchmarks.simulated.check DIR``.

Every JSON against the schema and its video, and per task: how long clips, actions and contacts are,
how much of the object is visible, and how much its pixels differ between the states.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.simulated.crops import action_spans
from benchmarks.simulated.truth import state_intervals
from objectstates.base.errors import ObjectStatesError, TruthError
from objectstates.video.reader import read_frames

CHANGED_LEVELS = 12  # of 255, between the median pictures of the two states
CLEAR = 0.97  # visible share of the object in frames that make a median picture
KEYS = (
    "version clip task states fps n_frames width height duration_s action_thresholds "
    "touch_interval_s phases pauses value_name value progress object part gripper things touch "
    "camera look seed rejected_tries"
)
CHANGE_KEYS = "action action_interval_s state1_interval_s state2_interval_s action_frames"
CHAIN_KEYS = "actions state_intervals_s"


def problems(facts: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the truth of a clip, one line each."""
    own = CHAIN_KEYS if "actions" in facts else CHANGE_KEYS
    if missing := sorted({*KEYS.split(), *own.split()} - set(facts)):
        yield f"lacks {', '.join(missing)}"
        return
    frames, fps = facts["n_frames"], facts["fps"]
    if facts["duration_s"] != frames / fps:
        yield f"duration_s is not {frames} frames at {fps} a second"
    yield from (_chain_problems if "actions" in facts else _change_problems)(facts)
    yield from _row_problems(facts)
    if [facts["phases"][0][1], facts["phases"][-1][2]] != [0, facts["duration_s"]]:
        yield "phases do not fill the clip"


def _change_problems(facts: dict[str, Any]) -> Iterator[str]:
    frames, fps, (first, last) = facts["n_frames"], facts["fps"], facts["action_frames"]
    if not 0 < first < last < frames:
        yield f"action_frames {first} to {last} are not within 0 to {frames}"
    intervals = [facts[f"{name}_interval_s"] for name in ("state1", "action", "state2")]
    bounds = [[0, first / fps], [first / fps, last / fps], [last / fps, frames / fps]]
    if intervals != bounds:
        yield f"intervals {intervals} do not follow from action_frames: {bounds}"


def _chain_problems(facts: dict[str, Any]) -> Iterator[str]:
    frames, fps, steps = facts["n_frames"], facts["fps"], facts["actions"]
    expected = list(range(1, len(facts["states"])))
    groups: dict[int | None, list[int]] = {} if "occurrences_s" in facts else {None: []}
    for step in steps:
        groups.setdefault(step.get("occurrence"), []).append(step["step"])
        seconds = step["frames"] and [frame / fps for frame in step["frames"]]
        if step["interval_s"] != seconds:
            yield f"interval_s of step {step['step']} does not follow from its frames"
    if any(numbers != expected for numbers in groups.values()):
        yield f"actions have the steps {list(groups.values())}, not {expected} each"
    bounds = [0, *(frame for span in action_spans(facts) for frame in span), frames]
    if any(start >= end for start, end in pairwise(bounds)):
        yield f"actions are not in order within 0 to {frames}"
    elif "occurrences_s" not in facts:
        states = state_intervals([step["frames"] for step in steps], 0, frames)
        if facts["state_intervals_s"] != [span and [f / fps for f in span] for span in states]:
            yield "state_intervals_s do not follow from actions"
    elif len(facts["occurrences_s"]) != len(groups):
        yield f"occurrences_s has {len(facts['occurrences_s'])} rows, not {len(groups)}"


def _row_problems(facts: dict[str, Any]) -> Iterator[str]:
    """Whether everything that is told per frame has all frames."""
    frames = facts["n_frames"]
    rows = {name: facts[name] for name in ("value", "progress", "touch")}
    rows |= {f"object.{name}": facts["object"][name] for name in ("box", "box_visible")}
    rows |= {f"part.{name}": facts["part"][name] for name in ("box", "box_visible")}
    rows["object.visible_fraction"] = facts["object"]["visible_fraction"]
    rows["gripper.box_visible"] = facts["gripper"]["box_visible"]
    for index, thing in enumerate(facts["things"]):
        rows[f"things[{index}].box_visible"] = thing["box_visible"]
    for name, row in rows.items():
        if len(row) != frames:
            yield f"{name} has {len(row)} rows, not {frames}"
        if "box" in name:
            yield from _box_problems(name, row, facts["width"], facts["height"])


def _box_problems(name: str, row: list[Any], width: int, height: int) -> Iterator[str]:
    for frame, box in enumerate(row):
        if box is not None:
            x1, y1, x2, y2 = box
            if not (0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height):
                yield f"{name} of frame {frame} is {box}, in a picture of {width} x {height}"
                return


def visible_change(
    facts: dict[str, Any],
    pictures: npt.NDArray[np.uint8],
    before: tuple[int, int],
    after: tuple[int, int],
) -> float:
    """Share of pixels of object and part that differ between two states; ``pictures`` are
    (n, height, width, 3), ``before`` and ``after`` the frames of the states.

    NaN where the camera moves, or the object is never clear of the arm.
    """
    clear = np.array(facts["object"]["visible_fraction"]) > CLEAR
    picked = [start + np.flatnonzero(clear[start:end]) for start, end in (before, after)]
    if facts["camera"]["motion"] != "static" or min(map(len, picked)) < 6:
        return float("nan")
    where = np.zeros(pictures.shape[1:3], bool)
    for frame in (picked[0][0], picked[1][-1]):
        for name in ("object", "part"):
            if (box := facts[name]["box"][frame]) is not None:
                where[box[1] : box[3], box[0] : box[2]] = True
    medians = [
        np.median(pictures[frames[:: max(1, len(frames) // 15)]], axis=0) for frames in picked
    ]
    differs = np.abs(medians[0] - medians[1]).max(axis=2) > CHANGED_LEVELS
    return float(differs[where].mean())


def check_clip(path: Path) -> tuple[list[str], dict[str, float]]:
    """Problems of a clip, and its measures (none where there are problems)."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise TruthError(f"{path} cannot be read ({problem}): generate it again") from problem
    if found := list(problems(facts)):
        return found, {}
    with read_frames(path.with_suffix(".mp4")) as frames:
        pictures = np.stack([frame.image for frame in frames])
    shape = facts["n_frames"], facts["height"], facts["width"], 3
    if pictures.shape != shape:
        return [f"its video is {pictures.shape}, not {shape}"], {}
    return [], _measures(facts, pictures)


def _measures(facts: dict[str, Any], pictures: npt.NDArray[np.uint8]) -> dict[str, float]:
    """Of a clip; of a chain, the mean over its actions, and the state that is seen least."""
    spans, fps = action_spans(facts), facts["fps"]
    bounds = [0, *(frame for span in spans for frame in span), facts["n_frames"]]
    states = list(zip(bounds[::2], bounds[1::2], strict=True))
    visible = np.array(facts["object"]["visible_fraction"]) > 0.8
    seen = [float(visible[start:end].mean()) for start, end in states]
    changed = [visible_change(facts, pictures, *pair) for pair in pairwise(states)]
    twin = any(thing["kind"] == facts["object"]["name"] for thing in facts["things"])
    return {
        "seconds": facts["duration_s"],
        "actions": len(spans),
        "action": mean((last - first) / fps for first, last in spans),
        "touch": sum(facts["touch"]) / fps,
        "seen first": seen[0],
        "seen last": seen[-1],
        "seen least": min(seen),
        "twin": twin,
        "changed": mean(changed),
    }


def mean(values: Iterable[float]) -> float:
    """Of the values that are known; NaN if there are none."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    bad, measures = 0, dict[str, list[dict[str, float]]]()
    try:
        paths = sorted(folder.glob("*/*.json"))
        if not paths:
            raise TruthError(f"{folder} holds no clips: name the folder made by --out")
        for path in paths:
            found, measured = check_clip(path)
            bad += bool(found)
            for problem in found:
                print(f"{path}: {problem}")
            if measured:
                measures.setdefault(path.parent.name, []).append(measured)
    except ObjectStatesError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    for task, rows in measures.items():
        means = [mean(float(row[name]) for row in rows) for name in rows[0]]
        facts = ", ".join(f"{name} {mean:.2f}" for name, mean in zip(rows[0], means, strict=True))
        print(f"{task}: {len(rows)} clips, {facts}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
