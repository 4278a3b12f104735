"""Contact sheet of simulated clips: ``python -m benchmarks.simulated.contact_sheet DIR OUT.png``.

One row per clip, from before to after the action; of a chain, every state and action. Green: the
object, yellow: what is visible of it, cyan: its part, magenta: the hand, orange: distractors, red:
twins of the object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from benchmarks.simulated.crops import action_spans
from objectstates.base.errors import ObjectStatesError, VideoError
from objectstates.video.reader import read_frames

GREEN, YELLOW, CYAN = (0, 255, 0), (255, 255, 0), (0, 255, 255)
MAGENTA, ORANGE, RED = (255, 0, 255), (255, 128, 0), (255, 0, 0)


def shown_frames(facts: dict[str, Any]) -> list[int]:
    """Three frames before the action, two in it, three after; of a chain, see the module."""
    spans, frames = action_spans(facts), facts["n_frames"]
    if "actions" in facts:
        bounds = [0, *(frame for span in spans for frame in span), frames]
        middles = [(start + end) // 2 for start, end in pairwise(bounds)]
        return sorted({5, *middles, frames - 4})
    first, last = spans[0]
    within = [first + (last - first) // 3, first + 2 * (last - first) // 3]
    return [5, first // 2, max(0, first - 3), *within, last + 2, (last + frames) // 2, frames - 4]


def boxes(facts: dict[str, Any], frame: int) -> list[tuple[list[int], tuple[int, int, int]]]:
    """What to draw in a frame, with its colour."""
    whole, part = facts["object"], facts["part"]
    found = [
        (whole["box"][frame], GREEN),
        (whole["box_visible"][frame], YELLOW),
        (part["box"][frame], CYAN),
        (facts["gripper"]["box_visible"][frame], MAGENTA),
    ]
    for thing in facts["things"]:
        colour = RED if thing["kind"] == whole["name"] else ORANGE
        found.append((thing["box_visible"][frame], colour))
    return [(box, colour) for box, colour in found if box is not None]


def row(video: Path) -> npt.NDArray[np.uint8]:
    """Frames of a clip side by side, (240, n x 320, 3)."""
    facts = json.loads(video.with_suffix(".json").read_text(encoding="utf-8"))
    wanted = shown_frames(facts)
    pictures: dict[int, npt.NDArray[np.uint8]] = {}
    with read_frames(video) as frames:
        for index, frame in enumerate(frames):
            if index in wanted:
                pictures[index] = np.ascontiguousarray(frame.image)
    for index, picture in pictures.items():
        for (x1, y1, x2, y2), colour in boxes(facts, index):
            cv2.rectangle(picture, (x1, y1), (x2 - 1, y2 - 1), colour)
        text = f"{facts['clip']} {index / facts['fps']:.1f} s {facts['progress'][index]:.2f}"
        cv2.putText(picture, text, (3, 12), cv2.FONT_HERSHEY_PLAIN, 0.8, (255, 255, 255))
    return np.hstack([pictures[index] for index in wanted])


def _padded(rows: list[npt.NDArray[np.uint8]]) -> Iterator[npt.NDArray[np.uint8]]:
    """Rows of equal width, filled with black."""
    width = max(each.shape[1] for each in rows)
    for each in rows:
        yield np.pad(each, ((0, 0), (0, width - each.shape[1]), (0, 0)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--clips", type=int, default=1, help="of each task")
    parser.add_argument("--scale", type=float, default=0.6)
    chosen = parser.parse_args()
    tasks = sorted(path for path in chosen.folder.glob("*") if path.is_dir())
    videos = [video for task in tasks for video in sorted(task.glob("*.mp4"))[: chosen.clips]]
    try:
        if not videos:
            raise VideoError(
                f"{chosen.folder} holds no folders of clips: name the one made by --out"
            )
        sheet = np.vstack(list(_padded([row(video) for video in videos])))
    except ObjectStatesError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    small = cv2.resize(sheet, None, fx=chosen.scale, fy=chosen.scale, interpolation=cv2.INTER_AREA)
    if not cv2.imwrite(str(chosen.out), small[..., ::-1]):
        print(f"error: cannot write {chosen.out}: choose another path", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
