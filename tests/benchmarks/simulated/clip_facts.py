"""The truth of simulated clips as it is written, without a simulator."""

from itertools import pairwise

import numpy as np

from benchmarks.simulated import truth


def clip_facts(name="drawer-open_000"):
    """The truth of a clip as it is written, of a state that moves from frame 60 to 100."""
    values = np.r_[np.zeros(60), np.linspace(0, 0.15, 40), np.full(70, 0.15)][:, None]
    touch = (np.arange(170) > 55) & (np.arange(170) < 110)
    phases = ["before"] * 50 + ["policy"] * 55 + ["retreat"] * 25 + ["after"] * 40
    boxes = [[10, 10, 50, 40]] * 170
    return {
        "version": truth.VERSION,
        "clip": name,
        "task": name.split("_")[0],
        "action": "open drawer",
        "states": ["closed", "open"],
        "width": 320,
        "height": 240,
        **truth.state_truth(
            values, truth.action_frames(values), touch, phases, [("linger", 100, 105)], 25
        ),
        "value_name": "joint:goal_slidey",
        "object": {
            "name": "drawer",
            "box": boxes,
            "box_visible": boxes,
            "visible_fraction": [1.0] * 170,
        },
        "part": {"name": "drawer_link", "box": boxes, "box_visible": [None] * 170},
        "gripper": {"box_visible": [None] * 170},
        "things": [{"kind": "can", "state": None, "box_visible": boxes}],
        "camera": {"motion": "static"},
        "look": {},
        "seed": 1,
        "rejected_tries": {},
    }


def ramps(*moves):
    """A state (n, 1) that rests 50 frames at 0, then goes in 25 frames to each of ``moves`` and
    rests there for 50; and the frames of the cuts, in the middle of the rests between."""
    values, cuts = [np.zeros(50)], [0]
    for start, end in pairwise((0, *moves)):
        values.append(np.r_[np.linspace(start, end, 26)[1:], np.full(50, end)])
        cuts.append(cuts[-1] + (100 if len(cuts) == 1 else 75))
    return np.concatenate(values)[:, None], [*cuts[:-1], 50 + 75 * len(moves)]


def chain_facts(moves=(0.15, 0.0), occurrences=None, name="drawer-open-close_000"):
    """The truth of open, close as it is written; a long video if ``occurrences`` are given."""
    values, cuts = ramps(*moves)
    frames = [
        tuple(start + frame for frame in truth.action_frames(values[start:end]))
        for start, end in pairwise(cuts)
    ]
    long, names = occurrences is not None, ("open drawer", "close drawer")
    steps = [
        truth.Step(
            names[k],
            k + 1,
            frames[2 * o + k] if 2 * o + k < len(frames) else None,
            o + 1 if long else None,
        )
        for o in range(occurrences if long else 1)
        for k in range(2)
    ]
    count = len(values)
    facts = clip_facts(name)
    for key in ("action", "action_interval_s", "action_frames"):
        del facts[key]
    for key in ("state1_interval_s", "state2_interval_s"):
        del facts[key]
    boxes = [[10, 10, 50, 40]] * count
    facts |= truth.chain_truth(values, steps, cuts, values[:, 0] > 9, ["before"] * count, [], 25)
    facts["states"] = ["closed", "open", "closed"]
    facts["object"] |= {"box": boxes, "box_visible": boxes, "visible_fraction": [1.0] * count}
    facts["part"] |= {"box": boxes, "box_visible": boxes}
    facts["gripper"] = {"box_visible": [None] * count}
    facts["things"] = []
    return facts
