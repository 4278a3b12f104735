"""One episode: the hand idles, and for every step of a chain reaches, manipulates with pauses,
releases and idles again.

One step of the environment is one frame of the clip, so all counts here are frames.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.simulated.chains import Plan
from benchmarks.simulated.scene import Floats, RejectedError, Scene, subtree
from benchmarks.simulated.simulator import POLICIES
from benchmarks.simulated.tasks import Manipulation
from benchmarks.simulated.truth import action_frames, last_value

FPS = 25
ACTION_SECONDS = (1.0, 4.0)
CLIP_SECONDS = (9.0, 22.0)
IDLE_SECONDS = (2.0, 8.0)  # before and after each
MOST_IDLE = 9.5  # seconds, both together
MOST_CHAIN_IDLE = 7.0  # the same of chains
BETWEEN_SECONDS = (1.5, 4.0)  # idle between two steps of a chain
APART_SECONDS = (5.0, 12.0)  # idle between two occurrences of a chain
NOTHING_SECONDS = (25.0, 45.0)  # a long video in which nothing happens
LONGER_SECONDS = 7.0  # what a clip may be longer for every further step
MOST_DISTURBED = 0.02  # of a step's change: what another object may move meanwhile
PATIENCE = 420  # frames for the policy

HESITATE_SHARE, HESITATE_FRAMES = 0.5, (6, 28)  # near the object, before the first touch
DWELL_SHARE, DWELL_FRAMES = 0.5, (4, 16)  # at the first touch
BREAK_SHARE, BREAK_FRAMES = 0.35, (5, 18)  # in mid action
SWING_FRAMES = 15  # until what the hand has lifted hangs still
LINGER_FRAMES = (5, 30)  # when all is done; often, not always, still in touch

ROBOT_NAMES = ("x", "y", "z", "gripper")
"""Of the hand's place in metres and the opening of the gripper from 0 to 1; as commands, the
velocity of the hand and the force that closes the gripper, all from -1 to 1."""


@dataclass(frozen=True)
class Episode:
    """Everything that happened, frame by frame.

    poses : (n, q) joint positions of the whole scene.
    values : (n, k) the state.
    touch : (n,) whether robot and object were in contact.
    proprioception, commands : (n, 4) see `ROBOT_NAMES`: what the robot measures at a frame, and
        what it is told there.
    actions : first frame and the first frame after it, of every step performed.
    cuts : (number of actions + 1) frames; action i happens between cuts i and i + 1.
    """

    poses: Floats
    values: Floats
    touch: npt.NDArray[np.bool_]
    phases: tuple[str, ...]
    pauses: tuple[tuple[str, int, int], ...]
    actions: tuple[tuple[int, int], ...]
    cuts: tuple[int, ...]
    proprioception: Floats
    commands: Floats


def record_episode(scene: Scene, plan: Plan, rng: np.random.Generator) -> Episode:
    """Simulate one episode; raises :class:`RejectedError` if it fails a check."""
    return HandController(scene, plan, rng).play()


class HandController:
    """Moves the hand and records every frame."""

    def __init__(self, scene: Scene, plan: Plan, rng: np.random.Generator) -> None:
        self.scene, self.plan, self.rng = scene, plan, rng
        self.task: Manipulation = scene.task  # the present step
        self.env = scene.env
        self.object, self.robot = scene.object(), scene.robot()
        self.distractors = set(scene.distractor_bodies())
        self.grip = -1.0  # open
        self.phase: str | None = None  # nothing is recorded yet
        self.log: list[tuple[Floats, Floats, bool, str]] = []
        self.robot_log: list[tuple[Floats, Floats]] = []
        self.pauses: list[tuple[str, int, int]] = []
        self.cuts: list[int] = [0]
        self.actions: list[tuple[int, int]] = []
        self.observation: Any = None

    def play(self) -> Episode:
        self._settle()
        before, after = self._sample_idle_frames()
        performed = self.plan.performed
        if not performed:
            before = self._frames(NOTHING_SECONDS)
        start = self.scene.value()
        self._rest("before", before, 0)
        for number, (occurrence, step) in enumerate(performed):
            self._begin(self.plan.chain.steps[step])
            self.phase = "policy"
            with warnings.catch_warnings():  # actions beyond 1 are clipped, here too
                warnings.simplefilter("ignore", UserWarning)
                self._manipulate(start)
            self.phase = "retreat"
            self._release()
            start = self.scene.value()
            if number == len(performed) - 1:
                self._rest("after", after, 5)
                self._end_step(len(self.log))
            else:
                again = performed[number + 1][0] != occurrence
                frames = self._frames(APART_SECONDS if again else BETWEEN_SECONDS)
                first = len(self.log)
                self._rest("between", frames, 5)
                self._end_step((first + len(self.log)) // 2)
        return self._checked()

    def _frames(self, seconds: tuple[float, float]) -> int:
        return int(self.rng.uniform(*seconds) * FPS)

    def _sample_idle_frames(self) -> tuple[int, int]:
        most = MOST_IDLE if len(self.plan.chain.steps) == 1 else MOST_CHAIN_IDLE
        while True:
            before, after = self.rng.uniform(*IDLE_SECONDS, 2)
            if before + after <= most:
                return int(before * FPS), int(after * FPS)

    # ---- the hand

    @property
    def hand(self) -> Floats:
        return np.array(self.env.get_endeff_pos())

    def _step(self, action: Floats) -> tuple[bool, bool]:
        """Returns whether the policy's goal is reached, and whether the object is touched."""
        command = np.clip(action, -1, 1).astype(np.float32)
        self.observation, _, _, _, info = self.env.step(command)
        touched = self._contact()
        if self.phase is not None:
            pose, value = self.scene.data.qpos.copy(), self.scene.value()
            self.log.append((pose, value, touched, self.phase))
            self.robot_log.append((np.array(self.observation[:4], float), command.astype(float)))
        return bool(info["success"]), touched

    def _contact(self) -> bool:
        """Whether the robot touched the object in this frame; it must touch no distractor."""
        touched = False
        for pair in self.env.contacts:
            if not self.robot.isdisjoint(pair):
                touched |= not self.object.isdisjoint(pair)
                if self.phase is not None and not self.distractors.isdisjoint(pair):
                    raise RejectedError("bumped into a thing")
        return touched

    def _path(self, target: Floats, speed: float, most: int = 200) -> Iterator[None]:
        """Towards ``target`` (3,), a frame at a time; ``speed`` 1 is 25 cm/s."""
        for _ in range(most):
            error = target - self.hand
            if np.linalg.norm(error) < 0.02:
                return
            move = np.clip(error * 12, -1, 1)
            move /= max(1.0, float(np.linalg.norm(move)))
            self._step(np.r_[move * speed, self.grip])
            yield

    def _still(self, frames: int) -> Iterator[None]:
        for _ in range(frames):
            self._step(np.r_[0, 0, 0, self.grip])
            yield

    def _move_to(self, target: Floats, speed: float, most: int = 200) -> None:
        for _ in self._path(target, speed, most):
            pass

    def _hold_still(self, frames: int) -> None:
        for _ in self._still(frames):
            pass

    def _pause(self, name: str, frames: tuple[int, int]) -> None:
        """Hold still, and note it."""
        first = len(self.log)
        self._hold_still(int(self.rng.integers(*frames, endpoint=True)))
        self.pauses.append((name, first, len(self.log)))

    def _raised(self, height: float) -> Floats:
        return np.array([*self.hand[:2], min(height, float(self.env.mocap_high[2]))])

    # ---- phases

    def _begin(self, step: Manipulation) -> None:
        """Make ``step`` the present one; the policy of another task sees its own observation."""
        self.task = step
        if len(self.plan.chain.steps) > 1:
            self.scene.observe_for(step)

    def _rest(self, phase: str, frames: int, grace: int) -> None:
        """Idle, or hold still with the part in the hand.

        The object may be touched in the first ``grace`` frames only.
        """
        self.phase, first = phase, len(self.log)
        if self.task.keeps_hold and phase != "before":
            self._hold_still(frames)
            return
        self._idle(frames)
        if any(touched for _, _, touched, _ in self.log[first + grace :]):
            raise RejectedError(f"touch {phase}")

    def _settle(self) -> None:
        self._move_to(self._raised(self.task.clearance), 0.6, 100)
        self._hold_still(40)
        rng = self.rng
        self._move_to(
            np.array([rng.uniform(-0.3, 0.3), rng.uniform(0.45, 0.6), self._over()]), 0.8, 100
        )
        self._hold_still(10)

    def _over(self) -> float:
        """A height (m) above everything on the table."""
        highest = max(float(self.env.mocap_high[2]) - 0.01, self.task.clearance + 0.02)
        return float(self.rng.uniform(self.task.clearance, highest))

    def _idle(self, frames: int) -> None:
        """Idle motion for ``frames``, then up to clearance; touches nothing."""
        left = frames
        while left > 0:
            for _ in self._idle_move():
                left -= 1
                if left <= 0:
                    break
        if self.hand[2] < self.task.clearance - 0.04:
            self._move_to(self._raised(self.task.clearance), 0.7)

    def _idle_move(self) -> Iterator[None]:
        rng = self.rng
        speed = rng.uniform(0.3, 0.8)
        kind = rng.choice(["roam", "dip", "hover", "rest", "grip"], p=[0.4, 0.2, 0.15, 0.12, 0.13])
        if kind == "roam":
            place = np.array(
                [rng.uniform(-0.35, 0.35), rng.uniform(self._near(), 0.62), self._over()]
            )
            yield from self._path(place, speed)
        elif kind == "hover":  # as if the action began
            above = self.scene.data.xpos[min(self._part())] + rng.normal(0, 0.04, 3)
            place = np.array([above[0], max(above[1] - 0.08, self._near()), self._over()])
            yield from self._path(place, speed)
            yield from self._still(int(rng.integers(5, 20)))
        elif kind == "rest":
            yield from self._still(int(rng.integers(6, 25)))
        elif kind == "grip":
            self.grip = -self.grip
            yield from self._still(int(rng.integers(6, 14)))
        else:
            yield from self._dip(speed)

    def _dip(self, speed: float) -> Iterator[None]:
        """Down to the free table, open or close the hand, and up again."""
        place = self._free_table()
        if place is None:
            yield from self._still(5)
            return
        yield from self._path(np.array([*place, self.task.clearance]), speed)
        yield from self._path(np.array([*place, self.rng.uniform(0.1, 0.16)]), 0.8 * speed)
        self.grip = -self.grip
        yield from self._still(int(self.rng.integers(6, 14)))
        yield from self._path(np.array([*place, self.task.clearance]), speed)

    def _near(self) -> float:
        """The least y in metres that the hand idles at."""
        return float(max(self.env.mocap_low[1] + 0.02, 0.42))

    def _free_table(self) -> Floats | None:
        bodies = self.object | self.distractors
        taken = self.scene.data.xpos[sorted(bodies), :2]
        for _ in range(30):
            place = np.array([self.rng.uniform(-0.42, 0.42), self.rng.uniform(self._near(), 0.66)])
            if np.linalg.norm(taken - place, axis=1).min() > 0.26:
                return place
        return None

    def _manipulate(self, start: Floats) -> None:
        """Meta-World's policy, slowed once the object moves, with pauses as people make them."""
        rng, task = self.rng, self.task
        policy = POLICIES[task.metaworld]()
        reach, pace = rng.uniform(*task.reach), np.exp(rng.uniform(*np.log(task.pace)))
        hesitates, dwells, breaks = rng.uniform(size=3) < (HESITATE_SHARE, DWELL_SHARE, BREAK_SHARE)
        near, halfway = rng.uniform(0.09, 0.16), rng.uniform(0.25, 0.75)
        slow, reached, history = False, 0, [start]
        self._hold_still(1)
        if task.approach is not None:
            self._move_to(self.scene.model.body(task.whole[0]).pos + task.approach, reach)
        for _ in range(PATIENCE):
            action = np.clip(np.asarray(policy.get_action(self.observation), float), -1, 1)
            action[:3] *= pace if slow else reach
            self.grip = float(action[3])
            success, touched = self._step(action)
            success &= task.metaworld == self.scene.task.metaworld  # else of another step
            value = self.scene.value()
            moved = self._moved(start, value)
            history.append(value)
            reached = reached + 1 if success else 0
            if self._is_done(start, history, reached):
                return
            if hesitates and not touched and not slow and self._distance() < near:
                hesitates = False
                self._pause("hesitate", HESITATE_FRAMES)
            if touched and dwells and task.touch_slows and moved < 0.01 * task.least_change:
                dwells = False
                self._pause("dwell", DWELL_FRAMES)
            if breaks and task.touch_slows and moved > halfway * task.least_change:
                breaks = False
                self._pause("break", BREAK_FRAMES)
            begun = 0.01 if task.touch_slows else 0.2
            slow |= (touched and task.touch_slows) or moved > begun * task.least_change
        raise RejectedError("policy too slow")

    def _part(self) -> set[int]:
        """Bodies that the present step moves."""
        return subtree(self.scene.model, self.task.part)

    def _distance(self) -> float:
        """Metres from the hand to the nearest geometry of the part."""
        model, data = self.scene.model, self.scene.data
        geoms = np.isin(model.geom_bodyid, sorted(self._part()))
        return float(np.linalg.norm(data.geom_xpos[geoms] - self.hand, axis=1).min())

    def _moved(self, start: Floats, value: Floats) -> float:
        """Change of the state in its unit; negative for a joint that moves the wrong way."""
        change = (value - start)[self.scene.columns(self.task)]
        if self.task.value[0] == "joint":
            return float(change[0] * np.sign(self.task.change))
        return float(np.linalg.norm(change))

    def _is_done(self, start: Floats, history: list[Floats], reached: int) -> bool:
        """``reached`` : frames since the policy first reported success."""
        task, value = self.task, history[-1]
        moved = self._moved(start, value)
        if moved <= task.least_change:
            return reached > 60
        if task.travel is not None:
            if moved >= task.travel:
                return True
        elif task.value[0] == "joint":
            low, high = self.scene.model.joint(task.value[1]).range
            slack = 0.02 * (high - low)
            (own,) = value[self.scene.columns(task)]
            if own >= high - slack if task.change > 0 else own <= low + slack:
                return True
        static = len(history) > 8 and np.linalg.norm(value - history[-8]) < 0.01 * moved
        return reached > 60 or (reached > 12 and bool(static))

    def _release(self) -> None:
        """Stop pushing, pause, open the hand, withdraw, go up; or withdraw with what it holds."""
        self.env.data.mocap_pos[0] = self.hand
        self._pause("linger", LINGER_FRAMES)
        if not self.task.keeps_hold:
            self.grip = -1.0
            self._hold_still(10)
        chain = len(self.plan.chain.steps) > 1
        speed = self.rng.uniform(0.7, 1.0) if chain else self.rng.uniform(0.4, 0.8)
        for offset in self.task.withdraw:
            self._move_to(self.hand + offset, speed, 45)
        if self.task.keeps_hold:
            self.env.data.mocap_pos[0] = self.hand  # it lags behind its target
            self._hold_still(SWING_FRAMES)
        else:
            self._move_to(self._raised(self.task.clearance + 0.06), speed, 120)

    # ---- checks

    def _end_step(self, cut: int) -> None:
        """Check the present step, which ends before frame ``cut``, and note its action."""
        begin, task = self.cuts[-1], self.task
        values = np.array([value for _, value, _, _ in self.log[begin:cut]])
        if self._moved(values[0], last_value(values)) < task.least_change:
            raise RejectedError("no state change")
        others = np.delete(values - values[0], self.scene.columns(task), axis=1)
        if np.abs(others).max(initial=0) > MOST_DISTURBED * task.least_change:
            raise RejectedError("moved the other object")
        first, last = (begin + frame for frame in action_frames(values))
        if self.log[first][3] != "policy" or self.log[last][3] in ("between", "after"):
            raise RejectedError("moved while idle")
        self.cuts.append(cut)
        self.actions.append((first, last))
        if len(self.plan.chain.steps) > 1:
            self._check_action(first, last)

    def _check_action(self, first: int, last: int) -> None:
        if not ACTION_SECONDS[0] <= (last - first) / FPS <= ACTION_SECONDS[1]:
            raise RejectedError("action too short or too long")

    def _checked(self) -> Episode:
        seconds, steps = len(self.log) / FPS, len(self.actions)
        longest = CLIP_SECONDS[1] + LONGER_SECONDS * (steps - 1)
        if self.plan.occurrences is None and not CLIP_SECONDS[0] <= seconds <= longest:
            raise RejectedError("clip too short or too long")
        for first, last in self.actions:
            self._check_action(first, last)
        return Episode(
            np.array([pose for pose, _, _, _ in self.log]),
            np.array([value for _, value, _, _ in self.log]),
            np.array([touched for _, _, touched, _ in self.log]),
            tuple(phase for _, _, _, phase in self.log),
            tuple(self.pauses),
            tuple(self.actions),
            tuple(self.cuts),
            np.array([measured for measured, _ in self.robot_log]),
            np.array([command for _, command in self.robot_log]),
        )
