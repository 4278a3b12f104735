"""The model of a cluster keeps the books: nothing is lost, free or faster than its parts."""

import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.cluster_model import STEPS, Constants, Corpus, Fit, Machines, simulate_ingest
from benchmarks.cluster_simulation import Measured, calibrated, growth_of_passes, shard_makers
from benchmarks.scale import CHUNKS, SETTINGS, TRACKLETS, Made
from objectstates.parallel.actors import LocalActors
from objectstates.solver.frank_wolfe import minimise
from objectstates.solver.scale.moments import shift_of
from objectstates.solver.scale.sharded import ShardedProblem

CORPUS = Corpus(6_400, state_size=256, action_size=64)
STEADY = Constants(
    steps={step: (2e-10, 3e-9, 1e-9)[: len(CORPUS.amounts(step))] for step in STEPS}, frame=1e-2
)
ONE = Machines("one", 1, cores=1, memory=1e12)


def fit(corpus=CORPUS, machines=ONE, constants=STEADY, shards=64, **options):
    return Fit(corpus, machines, constants, shards, **options).run()


def test_work_is_conserved_and_divided():
    alone = fit()
    for count in (2, 8, 64):
        found = fit(machines=replace(ONE, count=count))
        assert found.core_seconds == pytest.approx(alone.core_seconds)
        assert found.flops == pytest.approx(alone.flops)
        assert found.read == pytest.approx(alone.read)
        working = found.seconds - found.stages["messages"]
        assert working == pytest.approx(found.core_seconds / count)
        assert sum(found.stages.values()) == pytest.approx(found.seconds)


def test_more_machines_are_never_slower_but_for_messages():
    noisy = replace(STEADY, spread=0.3)
    times = [fit(machines=replace(ONE, count=n), constants=noisy) for n in (1, 2, 4, 8, 16, 32, 64)]
    working = [bill.seconds - bill.stages["messages"] for bill in times]
    assert working == sorted(working, reverse=True)
    dear = replace(STEADY, call=1.0, passes_per_doubling=3.0)
    slower = [
        fit(machines=replace(ONE, count=n), constants=dear, shards=n).seconds for n in (16, 64)
    ]
    assert slower[1] > slower[0]


def test_a_step_waits_for_its_slowest_shard():
    calm, rough = (fit(constants=replace(STEADY, spread=s), shards=8) for s in (0.0, 0.5))
    assert rough.seconds > 1.3 * calm.seconds
    assert rough.core_seconds == pytest.approx(calm.core_seconds)


def test_rows_that_do_not_fit_are_read_from_disk_each_pass():
    slow = replace(ONE, count=8, disk=1e7)
    fits = fit(machines=slow, passes=60)
    not_fits = fit(machines=replace(slow, memory=1.9 * CORPUS.factor_bytes / 8), passes=60)
    each = CORPUS.factor_bytes / 8 / 1e7
    assert not_fits.stages["sweep"] == pytest.approx(60 * each)
    assert not_fits.stages["evaluate"] == pytest.approx(2 * each)  # at 55 and 60
    assert not_fits.seconds > fits.seconds


def test_a_death_costs_all_passes_so_far_and_the_others_carry_on():
    machines = replace(ONE, count=4, cores=16)
    quick = replace(STEADY, noticing=0.1)
    calm = fit(machines=machines, constants=quick, passes=60)
    mortal = replace(machines, hours_between_deaths=6 * calm.seconds / 3600)
    found = [fit(machines=mortal, constants=quick, passes=60, seed=seed) for seed in range(30)]
    assert {bill.deaths for bill in found} >= {0, 1, 2}
    for bill in found:
        assert bill.deaths <= 3
        assert bill.flops == pytest.approx(calm.flops)
        if bill.deaths:
            assert bill.stages["rebuild"] > quick.noticing
            assert bill.core_seconds > calm.core_seconds
            assert bill.seconds > calm.seconds
        else:
            assert bill.seconds == pytest.approx(calm.seconds)


def test_all_clips_are_done_by_whoever_is_free():
    constants = replace(STEADY, spread=0.4)
    for count, cores in ((1, 1), (3, 4), (16, 8)):
        machines = replace(ONE, count=count, cores=cores)
        bill = simulate_ingest(CORPUS, machines, constants)
        least = bill.core_seconds / (count * cores)
        assert least <= bill.seconds <= least + 40 * constants.frame * CORPUS.frames
        assert bill.messages == 2 * CORPUS.clips
    whole = simulate_ingest(CORPUS, ONE, STEADY)
    assert whole.seconds == pytest.approx(CORPUS.clips * CORPUS.frames * STEADY.frame)


def test_the_driver_is_a_limit_of_an_ingest():
    machines = replace(ONE, count=100, cores=100)
    bill = simulate_ingest(CORPUS, machines, replace(STEADY, item=0.01, frame=1e-4))
    assert bill.seconds >= CORPUS.clips * 0.01


def test_machines_that_die_lose_only_what_they_work_on():
    machines = replace(ONE, count=8, cores=4)
    calm = simulate_ingest(CORPUS, machines, STEADY)
    mortal = replace(machines, hours_between_deaths=calm.seconds / 3600)
    bill = simulate_ingest(CORPUS, mortal, STEADY)
    assert 1 <= bill.deaths <= 7
    assert bill.redone == bill.deaths * 4
    assert calm.core_seconds <= bill.core_seconds <= calm.core_seconds + bill.redone * 2.0 + 1e-6
    assert bill.seconds > calm.seconds
    assert bill.messages == 2 * (CORPUS.clips + bill.redone)


class Counted:
    """Actors that record the number and bytes of their messages."""

    def __init__(self, actors):
        self.actors, self.request, self.reply = actors, 0, 0
        self.asked: Counter[str] = Counter()

    def __len__(self):
        return len(self.actors)

    def call(self, method, arguments):
        answers = self.actors.call(method, arguments)
        if method != "keep_rounding":  # only after a better rounding
            self.asked[method] += 1
            self.request += len(pickle.dumps(arguments[0]))
            self.reply += sum(len(pickle.dumps(answer)) for answer in answers)
        return answers


def test_messages_are_those_of_a_real_fit(tmp_path):
    sizes, passes, shards = (96, 48), 60, 3
    made = Made(tmp_path, 90, state_size=sizes[0], action_size=sizes[1])
    (tmp_path / "rows").mkdir()
    makers = shard_makers(made, tmp_path / "rows", shards)
    with LocalActors([make() for make in makers]) as actors:
        counted = Counted(actors)
        _, _, chunks, tracklets = made.sides()
        shifts = shift_of(chunks), shift_of(tracklets)
        problem = ShardedProblem(counted, shifts, nu=0.1, **SETTINGS)
        minimise(problem, tol=0.0, max_passes=passes, round_every=5, evaluate_every=5)
    corpus = Corpus(90, TRACKLETS, CHUNKS, *sizes)
    bill = fit(corpus, replace(ONE, count=1), shards=shards, passes=passes)
    assert bill.messages == 2 * shards * sum(counted.asked.values())
    assert bill.sent == pytest.approx(counted.request + counted.reply, rel=0.25)


def test_calibration_finds_the_constants_of_what_obeys_them():
    points = []
    for clips, *sizes in ((300, 64, 32), (300, 256, 64), (1300, 128, 64), (2600, 64, 32)):
        corpus = Corpus(clips, TRACKLETS, CHUNKS, *sizes)
        steps = {step: STEADY.core_seconds(corpus, step) for step in STEPS}
        cubes = sizes[0] ** 3 + sizes[1] ** 3
        points.append(Measured(corpus, 1, steps, 1e-9 * cubes, 0.1, 80, 70, 1.0, 1.0))
    found = calibrated(points)
    unseen = Corpus(30_000, TRACKLETS, CHUNKS, 512, 128)
    for step in STEPS:
        predicted = found.core_seconds(unseen, step)
        assert predicted == pytest.approx(STEADY.core_seconds(unseen, step), rel=1e-6)
    assert found.whiten == pytest.approx(1e-9)


def test_passes_grow_with_shards_or_stay():
    assert growth_of_passes({1: 80, 2: 82, 4: 84}) == pytest.approx((80, 2))
    assert growth_of_passes({1: 80, 2: 79, 4: 81, 8: 78}) == pytest.approx((79.5, 0))
    counts = [replace(STEADY, passes_per_doubling=1.5).passes_with(s) for s in (1, 2, 8, 64)]
    assert counts == sorted(counts)
    assert np.isfinite(counts).all()
