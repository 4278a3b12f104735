import pytest

from benchmarks.simulated.check import problems
from tests.benchmarks.simulated.clip_facts import chain_facts, clip_facts


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda facts: facts.pop("touch"), "lacks touch"),
        (lambda facts: facts.update(action_frames=[100, 60]), "not within"),
        (lambda facts: facts.update(duration_s=3.0), "duration_s"),
        (lambda facts: facts.update(action_interval_s=[1.0, 2.0]), "do not follow"),
        (lambda facts: facts["progress"].pop(), "progress has 169 rows"),
        (lambda facts: facts["part"].update(box=[[300, 10, 330, 20]] * 170), "part.box of frame 0"),
        (lambda facts: facts["phases"].pop(), "phases do not fill"),
    ],
)
def test_the_check_finds_what_is_wrong(change, complaint):
    facts = clip_facts()
    change(facts)
    assert any(complaint in problem for problem in problems(facts))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda facts: facts.pop("state_intervals_s"), "lacks state_intervals_s"),
        (lambda facts: facts["actions"].reverse(), "not [1, 2] each"),
        (lambda facts: facts["actions"].pop(), "not [1, 2] each"),
        (lambda facts: facts["actions"][0].update(interval_s=[1.0, 2.0]), "does not follow"),
        (lambda facts: facts["actions"][0].update(frames=[50, 140]), "not in order"),
        (lambda facts: facts["state_intervals_s"].pop(), "do not follow from actions"),
    ],
)
def test_the_check_finds_what_is_wrong_with_a_chain(change, complaint):
    facts = chain_facts()
    change(facts)
    assert any(complaint in problem for problem in problems(facts))
