"""The demo's clips, and a person who labels them by their truth."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable
from pathlib import Path
from typing import Any

from objectstates.video.clip_list import ClipSpan, find_clips
from objectstates.web.label.labels_file import LabelBox, LabelledFrame, LabelsFile
from objectstates.web.label.session import LabelSession

DEMO = Path(__file__).parents[3] / "src" / "objectstates" / "demo" / "drawer"
SIZE = (320, 240)


def demo_clips(count: int) -> list[ClipSpan]:
    return find_clips(sorted(DEMO.glob("*.mp4"))[:count])


def true_box(clip: str, time: float) -> list[float]:
    """Where the drawer is in the frame at ``time``."""
    truth = json.loads((DEMO / f"{clip}.json").read_text())
    boxes = truth["object"]["box"]
    return [float(v) for v in boxes[min(round(time * truth["fps"]), len(boxes) - 1)]]


def labelled(path: Path, count: int) -> Path:
    """A label file of some of the demo's clips, one frame each."""
    frames = [
        LabelledFrame(
            c.id, str(c.video), 1.0, *SIZE, boxes=(LabelBox.of(true_box(c.id, 1.0), "drawn"),)
        )
        for c in demo_clips(count)
    ]
    LabelsFile(path, "drawer").put(*frames)
    return path


def draw(session: LabelSession, count: int) -> list[dict[str, Any]]:
    """Label the frames that the session proposes."""
    seen = []
    for _ in range(count):
        frame = session.next_frame()
        assert frame is not None
        clip, time = frame["clip"], frame["time"]
        seen.append(session.label(clip, time, [(true_box(clip, time), "drawn")]))
    return seen


def eventually(condition: Callable[[], Any], what: str, seconds: float = 180.0) -> Any:
    """Wait for background work, which other processes may slow down."""
    end = clock.monotonic() + seconds
    while clock.monotonic() < end:
        if value := condition():
            return value
        clock.sleep(0.05)
    raise AssertionError(f"it never came to be that {what}")
