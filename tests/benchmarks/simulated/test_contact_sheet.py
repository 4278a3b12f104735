from benchmarks.simulated.contact_sheet import shown_frames
from benchmarks.simulated.crops import action_spans
from tests.benchmarks.simulated.clip_facts import chain_facts


def test_a_contact_sheet_shows_every_state_and_action_of_a_chain():
    facts = chain_facts()
    shown = shown_frames(facts)
    for first, last in action_spans(facts):
        assert any(first <= frame < last for frame in shown)
    for start, end in facts["state_intervals_s"]:
        assert any(start <= frame / 25 < end for frame in shown)
