"""A model of an ingest and of a sharded fit on a cluster, event by event, in seconds.

The constants are measured (``cluster_simulation.py``). It models:

* steps of a fit, which end with the slowest shard: its arithmetic on one core, or reading its rows
  from disk where they do not fit in the machine's memory, whichever takes longer, times a random
  factor per shard;
* messages before and after a step: latency, driver time per shard, and bytes through the driver's
  network (a message that is equal for all shards is sent once to each machine);
* machine failures: lost shards are rebuilt on the other machines, write their rows again and repeat
  all earlier passes in parallel, while the rest of the cluster waits;
* an ingest that assigns clips to free cores, one at a time, with driver time per clip; a machine
  that fails loses its clips in progress, which are repeated.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, log2

import numpy as np

from objectstates.solver.frank_wolfe import GROWING_PASSES, UNCOUPLED_PASSES
from objectstates.solver.scale.sharded import ROUND_EVERY

STARTING_PASSES = UNCOUPLED_PASSES + GROWING_PASSES  # before the joint ones
STEPS = ("measure", "prepare", "start", "sweep", "evaluate")
NOTED = 96  # bytes of a message around its numbers, about


@dataclass(frozen=True)
class Corpus:
    """What is to be done."""

    clips: int
    tracklets: int = 30  # per clip
    chunks: int = 20  # per clip
    state_size: int = 2048
    action_size: int = 128
    frames: int = 200  # per clip

    @property
    def rows(self) -> int:
        return self.clips * (self.tracklets + self.chunks)

    @property
    def feature_bytes(self) -> float:
        sizes = self.tracklets * self.state_size + self.chunks * self.action_size
        return 4.0 * self.clips * sizes

    @property
    def factor_bytes(self) -> float:
        """On disk, and read once in a pass: rows in float32, the blocks of A in float64."""
        rows = self.tracklets * (1 + self.state_size) + self.chunks * (1 + self.action_size)
        return self.clips * (4.0 * rows + 8.0 * (self.tracklets**2 + self.chunks**2))

    def amounts(self, step: str) -> tuple[float, ...]:
        """What the arithmetic of a step is proportional to, term by term."""
        m, t = self.clips * self.tracklets, self.clips * self.chunks
        values = 1.0 * m * self.state_size + t * self.action_size
        squares = 1.0 * m * self.state_size**2 + t * self.action_size**2
        labelled = 2.0 * m * self.state_size + t * self.action_size
        if step == "measure":
            return squares, values
        if step == "prepare":
            return squares, values, self._blocks
        return labelled, float(m + t)

    @property
    def _blocks(self) -> float:
        """Products of two numbers in the blocks of A: within each clip, row by row."""
        m, t = self.clips * self.tracklets, self.clips * self.chunks
        return 1.0 * m * self.tracklets * self.state_size + t * self.chunks * self.action_size

    def flops(self, step: str) -> float:
        """Additions and multiplications that a step cannot do without."""
        amounts = self.amounts(step)
        if step == "measure":
            return amounts[0]
        if step == "prepare":
            return amounts[0] + 2.0 * self._blocks
        return (2.0 if step == "start" else 4.0) * amounts[0]

    @property
    def message(self) -> int:
        """Bytes of F'Y of both sides, in float64."""
        return 8 * (1 + self.action_size + 2 * (1 + self.state_size))

    @property
    def matrices(self) -> int:
        """Bytes of the d x d numbers of both sides."""
        return 8 * (self.action_size**2 + self.state_size**2)


@dataclass(frozen=True)
class Machines:
    """A cluster; the driver is a machine more of the same kind, which does not die."""

    name: str
    count: int
    cores: int
    memory: float  # bytes, of which half may hold rows that were read
    disk: float = 2e9  # bytes per second, all cores of a machine together
    network: float = 1e9  # bytes per second of the driver
    dollars: float = 0.0  # per machine and hour
    hours_between_deaths: float = np.inf  # of one machine


@dataclass(frozen=True)
class Constants:
    """Seconds, measured.

    steps : of one core, per unit of ``Corpus.amounts``.
    passes, passes_per_doubling : of a fit with one shard; more with each doubling.
    whiten : of the driver, per d^3. ask : between a call and its answer. call : of the driver, for
    each call. item : of the driver, for each clip. frame : of one core. spread : of the
    logarithm of how long equal work takes.
    """

    steps: dict[str, tuple[float, ...]] = field(default_factory=dict)
    whiten: float = 0.0
    passes: float = 80.0
    passes_per_doubling: float = 0.0
    ask: float = 0.0
    call: float = 0.0
    item: float = 0.0
    frame: float = 0.0
    spread: float = 0.0
    warming: float = 0.0  # until new processes have loaded what they need
    noticing: float = 30.0  # of a death, and the start of a process elsewhere

    def core_seconds(self, corpus: Corpus, step: str) -> float:
        return float(np.dot(self.steps[step], corpus.amounts(step)))

    def passes_with(self, shards: int) -> int:
        return ceil(self.passes + self.passes_per_doubling * log2(shards))


@dataclass
class Bill:
    """What something took."""

    seconds: float = 0.0
    stages: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))  # seconds
    messages: int = 0
    sent: float = 0.0  # bytes
    read: float = 0.0  # bytes, all machines
    flops: float = 0.0
    core_seconds: float = 0.0  # of work, lost work included
    deaths: int = 0
    redone: int = 0  # clips
    passes: int = 0

    def spend(self, stage: str, seconds: float) -> None:
        self.seconds += seconds
        self.stages[stage] += seconds

    def dollars(self, machines: Machines) -> float:
        return self.seconds / 3600 * (machines.count + 1) * machines.dollars


def plan_of(passes: int) -> Iterator[tuple[str, int]]:
    """The steps of a fit after factorisation: their name, and the number of passes before."""
    yield "start", 0
    for done in range(1, passes + 1):
        yield "sweep", done - 1
        if (done > STARTING_PASSES and done % ROUND_EVERY == 0) or done == passes:
            yield "evaluate", done


class Fit:
    """A fit of ``corpus`` in ``shards`` on ``machines``."""

    def __init__(
        self,
        corpus: Corpus,
        machines: Machines,
        constants: Constants,
        shards: int,
        *,
        passes: int | None = None,
        seed: int = 0,
    ) -> None:
        self.corpus, self.machines = corpus, machines
        self.constants, self.shards = constants, shards
        self.passes = constants.passes_with(shards) if passes is None else passes
        self.rng = np.random.default_rng(seed)
        self.alive = machines.count
        self.deaths = _deaths(machines, self.rng)
        self.bill = Bill(passes=self.passes)

    def run(self) -> Bill:
        c, bill = self.corpus, self.bill
        bill.spend("warming", self.constants.warming)
        self._step("measure", 0, request=8 * (c.state_size + c.action_size), reply=c.matrices)
        sizes = c.state_size, c.action_size
        bill.spend("whiten", self.constants.whiten * sum(size**3 for size in sizes))
        self._step("prepare", 0, request=c.matrices, reply=0)
        for step, done in plan_of(self.passes):
            request = 0 if step == "start" else c.message
            self._step(step, done, request=request, reply=c.message)
            if step == "sweep":
                self._messages(request=0, reply=0)  # the step sizes
        return bill

    def _step(self, step: str, done: int, *, request: float, reply: float) -> None:
        self._messages(request, reply)
        seconds = self._barrier(step, self.shards)
        self.bill.spend(step, seconds)
        self.bill.flops += self.corpus.flops(step)
        self.bill.read += self._bytes(step)
        while self.alive > 1 and self.deaths and self.deaths[0] <= self.bill.seconds:
            heapq.heappop(self.deaths)
            self._rebuild(done)

    def _barrier(self, step: str, shards: int) -> float:
        """Seconds until the last of ``shards``, spread over the machines alive, has ended."""
        constants, machines = self.constants, self.machines
        work = constants.core_seconds(self.corpus, step) / self.shards
        self.bill.core_seconds += work * shards
        factors = np.exp(constants.spread * self.rng.standard_normal(shards))
        here = ceil(shards / self.alive)  # on the machine with most
        rounds = max(1.0, here / machines.cores)
        reading = 0.0
        if step in ("measure", "prepare") or not self._fits():
            reading = here * self._bytes(step) / self.shards / machines.disk
        return max(work * float(factors.max()) * rounds, reading)

    def _fits(self) -> bool:
        return self.corpus.factor_bytes / self.alive <= self.machines.memory / 2

    def _bytes(self, step: str) -> float:
        return {
            "measure": self.corpus.feature_bytes,
            "prepare": self.corpus.feature_bytes + self.corpus.factor_bytes,
        }.get(step, self.corpus.factor_bytes)

    def _messages(self, request: float, reply: float) -> None:
        constants, machines = self.constants, self.machines
        request_bytes = machines.count * request
        sent = request_bytes + self.shards * (reply + 2 * NOTED)
        self.bill.messages += 2 * self.shards
        self.bill.sent += sent
        seconds = constants.ask + constants.call * self.shards + sent / machines.network
        self.bill.spend("messages", seconds)

    def _rebuild(self, done: int) -> None:
        """A machine died: its shards go through everything again on the others."""
        lost = ceil(self.shards / self.alive)
        self.alive -= 1
        self.bill.deaths += 1
        seconds = self.constants.noticing + self.constants.warming
        seconds += self._barrier("prepare", lost)
        for _ in range(done):
            seconds += self._barrier("sweep", lost)
        self.bill.spend("rebuild", seconds)


def simulate_ingest(
    corpus: Corpus, machines: Machines, constants: Constants, *, seed: int = 0
) -> Bill:
    """All clips through all cores; clips are handed out in order, to free cores."""
    rng = np.random.default_rng(seed)
    bill = Bill()
    mean = constants.frame * corpus.frames
    durations = mean * np.exp(constants.spread * rng.standard_normal(corpus.clips))
    deaths = _deaths(machines, rng)
    dead: set[int] = set()
    free = [(0.0, m) for m in range(machines.count) for _ in range(machines.cores)]
    heapq.heapify(free)
    waiting = list(range(corpus.clips))[::-1]
    driver = 0.0
    running: list[tuple[float, int, int]] = []  # end, machine, clip
    end = 0.0
    while waiting or running:
        if waiting and free:
            since, machine = heapq.heappop(free)
            if machine in dead:
                continue
            clip = waiting.pop()
            driver = max(driver, since) + constants.item
            heapq.heappush(running, (driver + durations[clip], machine, clip))
            bill.messages += 2
            bill.sent += 2 * 1024
            continue
        if len(dead) + 1 < machines.count and deaths and deaths[0] <= running[0][0]:
            when = heapq.heappop(deaths)
            victim = next(m for m in range(machines.count) if m not in dead)
            dead.add(victim)
            lost = [job for job in running if job[1] == victim]
            running = [job for job in running if job[1] != victim]
            heapq.heapify(running)
            waiting += [clip for _, _, clip in lost]
            bill.core_seconds += sum(
                max(0.0, durations[clip] - (ends - when)) for ends, _, clip in lost
            )
            bill.deaths += 1
            bill.redone += len(lost)
            continue
        ended, machine, clip = heapq.heappop(running)
        bill.core_seconds += durations[clip]
        end = max(end, ended)
        heapq.heappush(free, (ended, machine))
    bill.spend("ingest", end)
    return bill


def _deaths(machines: Machines, rng: np.random.Generator) -> list[float]:
    """When machines die, one each, as a heap; none where they do not."""
    if not np.isfinite(machines.hours_between_deaths):
        return []
    hours = rng.exponential(machines.hours_between_deaths, machines.count)
    return sorted((3600 * hours).tolist())
