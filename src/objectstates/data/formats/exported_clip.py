"""What was found in a clip, as exports for correction hold it beside what can be edited.

A file that comes back from a labelling tool is compared with it: only what a person changed becomes
a correction. So the file alone suffices, whatever result there is by then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from objectstates.data.correction_rows import Correction

Frames = tuple[int, int]


@dataclass(frozen=True)
class FoundTracklet:
    """``state`` is 0 if it has none; times are seconds of the video."""

    index: int
    state: int
    start: float
    end: float

    def __post_init__(self) -> None:
        if self.index < 0 or self.state not in (0, 1, 2):
            raise ValueError(f"tracklet {self.index} has the state {self.state}")
        _check_interval(self.start, self.end)


@dataclass(frozen=True)
class FoundClip:
    """One clip.

    action : seconds of the video; None if it was not sought. ``frames`` : the first frame of the
        action and the one after its last, as the tool counts them.
    fps : frames per second by which edited frames become times.
    """

    clip: str
    fps: float
    action: tuple[float, float] | None
    frames: Frames | None
    tracklets: tuple[FoundTracklet, ...]

    def __post_init__(self) -> None:
        if not 0 < self.fps < math.inf:
            raise ValueError(f"the frame rate is {self.fps}")
        if (self.action is None) != (self.frames is None):
            raise ValueError("the action has no frames")
        if self.action is not None:
            _check_interval(*self.action)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> FoundClip:
        """Raise unless ``data`` is as `to_json` returns it.

        LookupError, TypeError, ValueError or ArithmeticError.
        """
        action, frames = data["action"], data["frames"]
        return cls(
            str(data["clip"]),
            float(data["fps"]),
            None if action is None else (float(action[0]), float(action[1])),
            None if frames is None else (int(frames[0]), int(frames[1])),
            tuple(
                FoundTracklet(int(t["index"]), int(t["state"]), float(t["start"]), float(t["end"]))
                for t in data["tracklets"]
            ),
        )

    def corrections(
        self, frames: Frames | None, states: Mapping[int, int], *, file: str = ""
    ) -> list[Correction]:
        """What differs from what was found.

        frames : of the action now; None if it was deleted, which means that nothing happens.
        states : of the tracklets that are still there, by index.
        """

        def row(
            kind: Literal["action", "state", "not_object", "no_change"],
            start: float | None = None,
            end: float | None = None,
            value: str = "",
        ) -> Correction:
            return Correction(self.clip, kind, start, end, value, file=file)

        if self.action is not None and frames is None:
            return [row("no_change")]
        rows = []
        if self.action is not None and self.frames is not None and frames != self.frames:
            rows.append(row("action", *self._moved(frames or self.frames)))
        for found in self.tracklets:
            state = states.get(found.index, 0)
            if state in (1, 2) and state != found.state:
                rows.append(row("state", max(found.start, 0.0), found.end, str(state)))
            elif state == 0 and found.state:
                rows.append(row("not_object", value=str(found.index)))
        return rows

    def _moved(self, frames: Frames) -> tuple[float, float]:
        """Seconds of the action's edges, each counted from where it was."""
        if self.action is None or self.frames is None:
            raise ValueError("there is no action to move")
        start, end = (
            max(0.0, time + (now - was) / self.fps)
            for time, was, now in zip(self.action, self.frames, frames, strict=True)
        )
        return round(start, 6), round(max(end, start + 1 / self.fps), 6)


def _check_interval(start: float, end: float) -> None:
    if not (math.isfinite(start) and math.isfinite(end) and start <= end):
        raise ValueError(f"the interval {start} to {end} s is none")
