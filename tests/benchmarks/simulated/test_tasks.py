import numpy as np
import pytest

from benchmarks.simulated.tasks import MANIPULATIONS, manipulation
from objectstates.base.errors import SettingError


@pytest.mark.parametrize("task", MANIPULATIONS.values(), ids=MANIPULATIONS)
def test_a_task_makes_sense(task):
    assert task.states[0] != task.states[1]
    assert task.value[0] in ("joint", "pos")
    # The state is the value of a joint of the object, or the position of a separate part.
    assert (task.change != 0) == (task.value[0] == "joint") == (not task.separate)
    if task.change:
        assert abs(task.change) >= task.least_change
    assert task.travel is None or task.travel >= task.least_change
    assert 0 < task.pace[0] < task.pace[1] <= 1
    assert 0 < task.reach[0] < task.reach[1] <= 1
    for low, high in (task.view.primary, *task.view.secondary, task.view.elevation):
        assert low < high
    assert -90 < task.view.elevation[0] < task.view.elevation[1] < 0


def test_what_can_be_opened_can_be_closed():
    for distractor in ("drawer", "door", "window", "faucet"):
        opens, closes = manipulation(f"{distractor}-open"), manipulation(f"{distractor}-close")
        assert opens.states == closes.states[::-1]
        assert opens.noun == closes.noun
        assert np.sign(opens.change) == -np.sign(closes.change)


def test_an_unknown_task_is_answered_with_all_names():
    with pytest.raises(SettingError, match=r"'drawer-opne'.*drawer-open, drawer-close"):
        manipulation("drawer-opne")
