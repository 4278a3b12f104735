"""A clip divided without gaps or overlap into its states and actions, in time and in frames.

Where the states change without an action that was sought, the bound is in the middle between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from objectstates.report.clip_view import ClipView


@dataclass(frozen=True, slots=True)
class Phase:
    """From ``start`` to ``end``, seconds of the video; infinite at the ends of the clip.

    label : state_1, action, state_2; in a chain state_1, action_1, state_2, action_2, ...
    """

    label: str
    start: float
    end: float

    @property
    def bounds(self) -> tuple[float, ...]:
        """Those of start and end that are not the ends of the clip."""
        return tuple(edge for edge in (self.start, self.end) if math.isfinite(edge))

    @property
    def is_action(self) -> bool:
        return self.label.startswith("action")


@dataclass(frozen=True, slots=True)
class FrameRange:
    """The frames ``first`` to ``last`` (exclusive) of a clip, with the label of their phase."""

    label: str
    first: int
    last: int


def place_in_chain(label: str) -> int:
    """Where a label comes among state_1, action_1, state_2, ...

    >>> sorted(["action_2", "state_2", "state_1", "action_1"], key=place_in_chain)
    ['state_1', 'action_1', 'state_2', 'action_2']
    """
    kind, _, number = label.partition("_")
    return 2 * int(number or 1) + (kind == "action")


def phases_of(clip: ClipView) -> tuple[Phase, ...]:
    """State 1, then each action that the clip has and the state after it."""
    if not clip.actions:
        return _phases_of_states(clip)
    found, since, state = [], -math.inf, 1
    for action in clip.actions:
        found.append(Phase(f"state_{state}", since, action.start))
        found.append(Phase(action.label, action.start, action.end))
        since, state = action.end, action.number + 1
    return (*found, Phase(f"state_{state}", since, math.inf))


def phases_in_episode(clip: ClipView) -> tuple[Phase, ...]:
    """The same in seconds of the episode that the clip shows."""
    assert clip.episode is not None
    seconds = clip.episode.seconds
    return tuple(Phase(p.label, seconds(p.start), seconds(p.end)) for p in phases_of(clip))


def _phases_of_states(clip: ClipView) -> tuple[Phase, ...]:
    """Of a clip without actions: the states that it has, else all of it is the last state."""
    states = range(1, clip.result.n_states + 1)
    seen = {k: segments for k in states if (segments := clip.state_segments(k))}
    numbers = list(seen) or [states[-1]]
    bounds = [(seen[k][-1].end + seen[after][0].start) / 2 for k, after in pairwise(numbers)]
    edges = [-math.inf, *bounds, math.inf]
    return tuple(
        Phase(f"state_{k}", start, end)
        for k, (start, end) in zip(numbers, pairwise(edges), strict=True)
    )


def frame_ranges(
    phases: Sequence[Phase],
    snap: Callable[[float], int],
    kept: tuple[int, int],
    *,
    widen: bool = True,
) -> list[FrameRange]:
    """The frames of each phase, within ``kept``; phases without frames are left out.

    snap : the frame that starts at a time or nearest to it, n for the end of the last frame.
    kept : the first frame to use and the one after the last.
    widen : whether an action that is shorter than a frame takes one from the state beside it.
    """
    first, last = kept
    bounds, since = list[list[int]](), first
    for phase in phases:
        until = last if phase.end == math.inf else min(max(snap(phase.end), since), last)
        if phase.is_action and widen and until == since:
            since, until = _widened(bounds, since, last)
        bounds.append([since, until])
        since = until
    return [
        FrameRange(phase.label, a, b) for phase, (a, b) in zip(phases, bounds, strict=True) if b > a
    ]


def _widened(bounds: list[list[int]], at: int, last: int) -> tuple[int, int]:
    """A frame for an action at frame ``at``: that frame, else the last of the state before it."""
    if at < last:
        return at, at + 1
    bounds[-1][1] = max(at - 1, bounds[-1][0])
    return bounds[-1][1], at
