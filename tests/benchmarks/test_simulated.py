"""The command for simulated clips, and rendering where the extra is installed."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.simulated.chains import CHAINS, Plan, chain
from benchmarks.simulated.check import check_clip
from benchmarks.simulated.tasks import MANIPULATIONS, manipulation

ROOT = Path(__file__).parents[2]
START = "import runpy, sys; {}; runpy.run_module('benchmarks.simulated', run_name='__main__')"


def command(*words, first="pass"):
    return subprocess.run(
        [sys.executable, "-c", START.format(first), *map(str, words)],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "COLUMNS": "200"},
    )


def test_the_command_lists_its_tasks_without_the_extra():
    listed = command("--list").stdout.split()
    assert {*MANIPULATIONS, *CHAINS} <= set(listed)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["drawer-open"], "pip install 'objectstates[simulated]'"),
        (["drawer-open", "--seed", -1], "--seed from 0"),
        (["drawer-opne"], "choose from drawer-open"),
        (["drawer-open-close", "--occurrences", "4:0"], "such as 0:4"),
        (["drawer-open-close", "--leave-out", "2"], "give 0 to 1"),
        (["lid-lift-place", "--occurrences", "0:4"], "does not end as it starts"),
        (["drawer-open", "--leave-out", "0.2"], "is no chain"),
        (["drawer-open-close", "--leave-out", "0.2", "--occurrences", "1:2"], "whole chains"),
        ([], "name a task"),
    ],
)
def test_one_line_says_what_to_mend(tmp_path, words, complaint):
    answer = command(*words, "--out", tmp_path, first="sys.modules['metaworld'] = None")
    assert answer.returncode == 2
    assert complaint in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


has_simulator = importlib.util.find_spec("metaworld") is not None


@pytest.mark.skipif(not has_simulator, reason="needs the extra 'simulated'")
class TestWithTheSimulator:
    def test_a_clip_is_whole_and_the_same_seed_makes_it_again(self, tmp_path):
        for folder in ("one", "two"):
            made = command("dial-turn", "--clips", 1, "--seed", 1, "--out", tmp_path / folder)
            assert made.returncode == 0, made.stderr
        name = "dial-turn/dial-turn_000"
        assert check_clip(tmp_path / "one" / f"{name}.json")[0] == []
        for kind in ("mp4", "json"):
            one, two = (tmp_path / folder / f"{name}.{kind}" for folder in ("one", "two"))
            assert one.read_bytes() == two.read_bytes()
        facts = json.loads((tmp_path / "one" / f"{name}.json").read_text())
        first, last = facts["action_frames"]
        assert 1 <= (last - first) / facts["fps"] <= 4
        touched = np.flatnonzero(facts["touch"])
        assert touched[0] <= first < touched[-1]
        again = command("dial-turn", "--clips", 1, "--seed", 1, "--out", tmp_path / "one")
        assert "1 of 1 clips are there" in again.stdout

    @pytest.mark.parametrize("name", CHAINS)
    def test_the_policies_of_a_chain_go_through_its_states(self, name):
        """Simulated, not rendered: the part moves in every step and rests between them."""
        from benchmarks.simulated import scene
        from benchmarks.simulated.episode import record_episode

        for attempt in range(30):
            rng = np.random.default_rng([1, attempt])
            try:
                stage = scene.build(chain(name).scene, rng, chain(name).neighbour)
                episode = record_episode(stage, Plan(chain(name)), rng)
                break
            except scene.RejectedError:
                continue
        steps = chain(name).steps
        assert len(episode.actions) == len(steps)
        for (first, last), start, end in zip(
            episode.actions, episode.cuts[:-1], episode.cuts[1:], strict=True
        ):
            assert start < first < last < end
            rests = episode.values[last:end]
            moved = np.linalg.norm(episode.values[last] - episode.values[first])
            assert np.ptp(rests, axis=0).max() < 0.1 * moved

    @pytest.mark.parametrize("name", ["drawer-open", "faucet-close", "box-close"])
    def test_a_twin_has_all_pieces_of_the_object_and_a_place_of_its_own(self, name):
        from benchmarks.simulated import scene

        task = manipulation(name)
        rng = np.random.default_rng(0)
        for _ in range(30):
            stage = scene.build(task, rng)
            if stage.distractors[0].kind == task.noun:
                break
        own = scene.subtree(stage.model, task.whole) if task.separate else stage.object()
        twin = {stage.distractor_bodies()[0]}
        assert len(scene.visible_geoms(stage.model, twin)) == len(
            scene.visible_geoms(stage.model, own)
        )
        own_low, own_high = scene.footprint(stage.model, stage.data, own)
        low, high = scene.footprint(stage.model, stage.data, twin)
        assert ((high < own_low) | (low > own_high)).any()

    def test_a_twin_has_the_shape_of_the_object(self):
        """In the first state, not rotated, its pieces lie where the object's lie."""
        from benchmarks.simulated import distractors, scene
        from benchmarks.simulated.simulator import mujoco

        task = manipulation("faucet-open")
        (twin, _), _ = scene.twins(task.name)
        lone = scene._environment(
            task, lambda spec: distractors.add_to(spec, "thing0", twin, np.random.default_rng(0))
        )
        stage = scene.Scene(task, lone, (twin,))
        lone.seed(0)
        lone.reset()
        body = stage.distractor_bodies()[0]
        stage.model.body_pos[body] = stage.model.body("faucetBase").pos
        mujoco.mj_forward(stage.model, stage.data)
        ours = scene.footprint(stage.model, stage.data, {body})
        theirs = scene.footprint(stage.model, stage.data, stage.object())
        np.testing.assert_allclose(ours, theirs, atol=2e-3)
