"""What is shipped is what the tools make."""

import json

import pytest

from tools.demo_clips import OBJECT, OUT, TASK, crop, cut_truth


def test_the_truth_of_the_demo_is_that_of_the_clips_it_was_cut_from(shared):
    folder = shared / "data" / "sim"
    if not (folder / "crops.json").is_file():
        pytest.skip(f"{folder} is not here")
    crops = json.loads((folder / "crops.json").read_text())
    shipped = sorted(OUT.glob(f"{OBJECT}_*.json"))
    assert len(shipped) == 14
    for path in shipped:
        name = f"{TASK}_{int(path.stem[-2:]):03d}"
        truth = json.loads((folder / TASK / f"{name}.json").read_text())
        first, last = crop(name, truth, tuple(crops[name]))
        assert json.loads(path.read_text()) == cut_truth(truth, first, last)
        start, end = truth["action_interval_s"]
        assert first / truth["fps"] < start - 1
        assert last / truth["fps"] > end + 1
