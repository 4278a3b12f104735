"""Chains: several manipulations of one scene, one after the other, and what a video shows of them.

A single manipulation is a chain of one step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from benchmarks.simulated.tasks import MANIPULATIONS, Manipulation, Neighbour, View
from objectstates.base.errors import SettingError


@dataclass(frozen=True)
class Chain:
    """Steps in the scene of the first of them.

    states : names of the K = number of steps + 1 states; equal names look alike.
    neighbour : a second object, that of other steps.
    """

    name: str
    steps: tuple[Manipulation, ...]
    states: tuple[str, ...]
    neighbour: Neighbour | None = None

    @property
    def scene(self) -> Manipulation:
        """The manipulation whose environment the steps share."""
        return self.steps[0]

    @property
    def cycle(self) -> bool:
        """Whether the chain ends in its first state, so that it can happen again."""
        return self.states[0] == self.states[-1]


@dataclass(frozen=True)
class Plan:
    """What one video shows of a chain.

    complete : false where the last step is left out. Only the last can be: the others prepare it.
    occurrences : how often the chain happens in a long video; None in a clip, where it does once.
    """

    chain: Chain
    complete: bool = True
    occurrences: int | None = None

    @property
    def performed(self) -> tuple[tuple[int, int], ...]:
        """Occurrence and step, both from 0, in order of time."""
        steps = range(len(self.chain.steps) - (not self.complete))
        times = 1 if self.occurrences is None else self.occurrences
        return tuple((occurrence, step) for occurrence in range(times) for step in steps)


_REACH = (0.8, 1.0)  # the hand is quicker in a chain, so that a clip has no long idle parts


def _in_turn(name: str, *steps: Manipulation) -> Chain:
    """Steps each of which starts in the state in which the one before it ends."""
    quick = tuple(replace(step, reach=_REACH) for step in steps)
    return Chain(name, quick, (steps[0].states[0], *(step.states[1] for step in steps)))


_OPEN_DRAWER, _CLOSE_DRAWER = MANIPULATIONS["drawer-open"], MANIPULATIONS["drawer-close"]
_LIFT_LID = replace(
    MANIPULATIONS["box-close"],
    name="lid-lift",
    environment="box-close",
    action="lift lid",
    states=("lid beside box", "lid in the air"),
    least_change=0.1,
    travel=0.06,
    withdraw=((0, 0, 0.14),),
    keeps_hold=True,
)
_PLACE_LID = replace(
    MANIPULATIONS["box-close"],
    name="lid-place",
    environment="box-close",
    action="put lid on box",
    states=("lid in the air", "lid on box"),
    least_change=0.12,
)
_OPEN_FIRST = replace(
    _OPEN_DRAWER,
    name="first-drawer-open",
    environment="drawer-open",
    states=("both closed", "drawer open"),
    clearance=MANIPULATIONS["window-open"].clearance,
    view=View((0.25, -0.12, 0.12), (112, 142), ((42, 62),), (-50, -28), (1.2, 1.5)),
)
_OPEN_SECOND = replace(
    MANIPULATIONS["window-open"],
    name="then-window-open",
    environment="window-open",
    states=("drawer open", "both open"),
)
_BESIDE_DRAWER = Neighbour(_OPEN_SECOND, (-0.26, 0, 0), ((0.2, 0.26), (0.78, 0.88), (0.2, 0.2)))
_ALL = (
    _in_turn("drawer-open-close", _OPEN_DRAWER, _CLOSE_DRAWER),
    _in_turn("window-open-close", MANIPULATIONS["window-open"], MANIPULATIONS["window-close"]),
    _in_turn("lid-lift-place", _LIFT_LID, _PLACE_LID),
    _in_turn("drawer-open-close-open", _OPEN_DRAWER, _CLOSE_DRAWER, _OPEN_DRAWER),
    replace(
        _in_turn("drawer-then-window", _OPEN_FIRST, _OPEN_SECOND),
        neighbour=_BESIDE_DRAWER,
    ),
)

CHAINS = {each.name: each for each in _ALL}


def chain(name: str) -> Chain:
    """The chain or manipulation of this name, or an error that lists all names."""
    if name in CHAINS:
        return CHAINS[name]
    if name in MANIPULATIONS:
        task = MANIPULATIONS[name]
        return Chain(name, (task,), task.states)
    known = ", ".join([*MANIPULATIONS, *CHAINS])
    raise SettingError(f"there is no simulated task {name!r}: choose from {known}")


def plans(
    chain: Chain, number: int, seed: int, leave_out: float, occurrences: tuple[int, int] | None
) -> list[Plan]:
    """What the first ``number`` videos of a chain show.

    leave_out : share of the clips without the last step, spread evenly over them.
    occurrences : least and most in a long video; every number is as frequent as the others.

    The first videos are the same for every ``number``.
    """
    rng = np.random.default_rng([seed, crc32(chain.name.encode())])
    if occurrences is None:
        counted = np.floor(leave_out * np.arange(number + 1) + rng.uniform())
        return [Plan(chain, complete=not skips) for skips in np.diff(counted).tolist()]
    low, high = occurrences
    counts: list[int] = []
    while len(counts) < number:
        counts.extend(rng.permutation(np.arange(low, high + 1)).tolist())
    return [Plan(chain, occurrences=count) for count in counts[:number]]
