from typing import Any

import numpy as np
import pytest

from objectstates import JointDiscovery
from objectstates.base.errors import SettingError
from objectstates.data.synthetic import synthetic_corpus


@pytest.fixture(scope="module")
def corpus():
    return synthetic_corpus(n_clips=12, seed=0)


@pytest.mark.parametrize(
    "setting",
    [
        {"nu": -1}, {"nu": float("nan")}, {"mu": 0}, {"lam": -1e-3}, {"lam": "1"}, {"tol": 0},
        {"max_passes": 0}, {"max_passes": 2.5}, {"restarts": 0}, {"seed": -1}, {"seed": True},
        {"solver": "simplex"}, {"constraint": "two"}, {"target": "object"},
        {"on_infeasible": "ignore"}, {"detection_weight": -0.1}, {"mu": True}, {"nu": 10**400},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_named(corpus, setting):
    with pytest.raises(SettingError, match=next(iter(setting))):
        JointDiscovery(**setting).fit(corpus)


def test_numpy_numbers_are_numbers(corpus, tmp_path):
    numbers: dict[str, Any] = {
        "nu": np.float32(0.5), "seed": np.int64(3), "max_passes": np.int32(60)
    }  # fmt: skip
    JointDiscovery(**numbers).fit(corpus).save(tmp_path / "r")
    assert JointDiscovery.load(tmp_path / "r").seed == 3


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"changes": 0}, "`changes` must be"),
        ({"changes": 2, "optional": (3,)}, "no action 3"),
        ({"changes": 2, "optional": (2,), "target": "state"}, "`target` joint"),
        ({"changes": 2, "optional": (2,), "target": "action"}, "`target` joint"),
        ({"changes": 2, "optional": (1, 2)}, "one action at least"),
        ({"changes": 2, "pattern": "AB"}, "3 letters"),
        ({"changes": 2, "pattern": "AAB"}, "unlike the one before"),
        ({"changes": 2, "device": "cuda"}, "on the CPU"),
    ],
)
def test_chains_that_make_no_sense_are_refused(settings, says):
    with pytest.raises(SettingError, match=says):
        JointDiscovery(**settings).fit(synthetic_corpus(3))
