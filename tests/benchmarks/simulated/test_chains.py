import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulated.chains import CHAINS, Plan, chain, plans
from benchmarks.simulated.tasks import manipulation
from objectstates.base.errors import SettingError


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_goes_from_state_to_state(name):
    steps, states, neighbour = CHAINS[name].steps, CHAINS[name].states, CHAINS[name].neighbour
    objects = [steps[0]] if neighbour is None else [steps[0], neighbour.task]
    assert len(states) == len(steps) + 1
    for step, before, after in zip(steps, states[:-1], states[1:], strict=True):
        assert step.states == (before, after)
        assert (step.whole, step.value) in [(each.whole, each.value) for each in objects]
    assert not steps[-1].keeps_hold


def test_a_manipulation_is_a_chain_of_one_step():
    single = chain("drawer-open")
    assert single.steps == (manipulation("drawer-open"),)
    assert Plan(single).performed == ((0, 0),)
    with pytest.raises(SettingError, match=r"'drawer-opne'.*drawer-open, .*lid-lift-place"):
        chain("drawer-opne")


@given(st.integers(0, 40), st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.integers(0, 9))
def test_a_step_is_left_out_in_the_share_that_was_asked_for(number, share, seed):
    made = plans(CHAINS["drawer-open-close"], number, seed, share, None)
    skipped = [plan for plan in made if not plan.complete]
    assert abs(len(skipped) - share * number) < 1
    assert all(plan.performed == ((0, 0),) for plan in skipped)
    # Rendering more clips keeps the plans of the first.
    assert made == plans(CHAINS["drawer-open-close"], number + 7, seed, share, None)[:number]


def test_long_videos_have_every_number_of_occurrences():
    made = plans(CHAINS["drawer-open-close"], 10, 3, 0.0, (0, 4))
    assert sorted(len(plan.performed) for plan in made) == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]
