"""The verdict: how likely each answer of a discovery is right, and whether to trust it as a whole.

Evidence about the clips together and about each clip (``evidence.py``) is combined by logistic
regression. The weights were estimated on corpora of several manipulations, right and wrong ones of
many kinds, and judged on those of others: ``benchmarks/trust``, docs/evaluation.md. The mean chance
over the clips is the share of right answers to expect, and the verdict follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result
from objectstates.data.verdict import Finding, Verdict
from objectstates.discovery.evidence import USUAL_COVER, Evidence, gather, mean_known
from objectstates.discovery.replication import Discover, Predict

FOUND, DOUBTFUL = 0.7, 0.4  # least shares of right answers to expect
FEWEST = 4  # clips; what fewer have in common is not evidence
UNKNOWN_ACTION = 0.5  # chance that stands for that of an action that was not sought


@dataclass(frozen=True)
class Weights:
    """Of a logistic regression, for evidence by name."""

    bias: float
    weights: Mapping[str, float]

    def chance(self, evidence: Mapping[str, Array]) -> Array:
        total = self.bias + sum(w * evidence[name] for name, w in self.weights.items())
        return np.asarray(1 / (1 + np.exp(-total)))


ACTION = Weights(0.0, {})
STATES = Weights(0.0, {})


def judge(
    corpus: Corpus, found: Result, discover: Discover, predict: Predict, *, seed: int = 0
) -> Result:
    """``found``, the result on ``corpus``, with its verdict and the chances of its answers.

    discover, predict : as for :func:`~objectstates.discovery.replication.replicate`.
    """
    evidence = gather(corpus, found, discover, predict, seed=seed)
    chances = chances_of(evidence, len(corpus))
    chances[_stated(found), 0] = 1.0
    return replace(found, confidences=chances, verdict=conclude(chances, evidence))


def _stated(found: Result) -> Array:
    """(N,) clips in which a person stated the time of the action."""
    clips = {row.clip for row in found.corrections if row.kind in ("action", "confirm")}
    return np.array([clip in clips for clip in found.clips], bool)


def judge_by_sample(found: Result, sample: Array, judged: Result) -> Result:
    """``found`` with the verdict on its clips ``sample``; other clips get their mean chances."""
    assert judged.confidences is not None
    mean = [mean_known(column) for column in judged.confidences.T]
    chances = np.tile(np.array(mean), (len(found.clips), 1))
    chances[sample] = judged.confidences
    return replace(found, verdict=judged.verdict, confidences=chances)


def chances_of(
    evidence: Evidence, n_clips: int, action: Weights = ACTION, states: Weights = STATES
) -> Array:
    """(N, 3) that action, state 1 and state 2 are right; NaN for what was not sought."""
    chances = np.full((n_clips, 3), np.nan)
    if evidence.action is not None:
        chances[:, 0] = action.chance(evidence.action)
    if evidence.states is not None:
        action_chance = np.nan_to_num(chances[:, 0], nan=UNKNOWN_ACTION)
        known = {"action": action_chance, "action_all": np.full(n_clips, action_chance.mean())}
        for k in (0, 1):
            chances[:, k + 1] = states.chance({**evidence.states[k], **known})
    if evidence.n_learned < FEWEST:
        chances = np.minimum(chances, FOUND - 0.01)
    return chances


# --- words ----------------------------------------------------------------------------------------


def conclude(chances: Array, evidence: Evidence) -> Verdict:
    """The verdict from the chances (N, 3) of all answers, with the reason and the remedy."""
    action, states = mean_known(chances[:, 0]), mean_known(chances[:, 1:])
    findings = finding(action), finding(states)
    expected = {"action": action, "states": states}
    why, remedy, topic = _explained(findings, evidence, evidence.measures)
    return Verdict(
        *findings,
        why,
        remedy,
        topic,
        {side: round(share, 4) for side, share in expected.items() if np.isfinite(share)},
        evidence.measures,
    )


def finding(expected: float) -> Finding | None:
    """What follows from the share of right answers to expect; None of NaN, which was not sought."""
    if np.isnan(expected):
        return None
    return "found" if expected >= FOUND else "doubtful" if expected >= DOUBTFUL else "not_found"


Words = tuple[str, str, str]
"""Reason, remedy and topic."""


def _explained(
    findings: tuple[Finding | None, Finding | None],
    evidence: Evidence,
    measures: Mapping[str, float],
) -> Words:
    action, states = findings
    if evidence.n_learned < FEWEST:
        return (
            f"What {evidence.n_learned} clips have in common is no evidence.",
            "Add clips of the same manipulation: ten at least, better twenty.",
            "few-clips",
        )
    if action not in (None, "found"):
        return _why_no_action(evidence, measures)
    if states not in (None, "found"):
        return _why_no_states(measures)
    return _why_found(findings, measures), "", ""


def _why_found(
    findings: tuple[Finding | None, Finding | None], measures: Mapping[str, float]
) -> str:
    parts = []
    if findings[0] is not None:
        parts.append(f"the same action in {_percent(measures['action_agreement'])} of the cases")
    if findings[1] is not None:
        parts.append(
            f"the same states for {_percent(measures['states_agreement'])} of the tracklets"
        )
    return f"Classifiers learned without a clip find in it {' and '.join(parts)}."


def _why_no_action(evidence: Evidence, measures: Mapping[str, float]) -> Words:
    assert evidence.action is not None
    if measures.get("cues_agreement", 1.0) == 0 and "cues_agreement" in measures:
        return (
            "Nothing in the picture changes for good where the clips move alike.",
            "Check that every clip shows the whole manipulation, with the object before and after.",
            "no-change",
        )
    agreement, chance = measures["action_agreement"], measures["action_chance"]
    weakest = min(
        ("replication_all", "cues_all", "room_all", "smoothness_all"),
        key=lambda name: (
            ACTION.weights[name] * (evidence.action[name][0] - USUAL[name])
            if evidence.action
            else 0.0
        ),
    )
    if weakest == "room_all":
        return (
            "The action found lies at the very start or end of many clips.",
            "Cut the clips more widely, with two seconds before and after the action.",
            "action-at-the-end",
        )
    if weakest == "cues_all" and "cues_agreement" in measures:
        return (
            "The motion that clips share and the lasting change of the picture are at the same "
            f"time in {_percent(measures['cues_agreement'])} of the cases "
            f"({_percent(measures['cues_chance'])} by chance).",
            "Use clips of one task in similar scenes; look at the change curves on the page.",
            "different-scenes",
        )
    if weakest == "smoothness_all":
        return (
            "The scores of the action jump from moment to moment, as those of noise do.",
            "Check that the times of the clips are right and that they show the same manipulation.",
            "different-actions",
        )
    return (
        "Classifiers learned without a clip place its action at the time found in "
        f"{_percent(agreement)} of the cases ({_percent(chance)} by chance).",
        "Check that all clips show the same manipulation, and add more of them.",
        "different-actions",
    )


def _why_no_states(measures: Mapping[str, float]) -> Words:
    if measures["boxes_on_change"] < USUAL_COVER / 2:
        return (
            "The boxes of the states contain little of what changes in the picture.",
            "Train a detector for the object that changes, or give its boxes.",
            "wrong-object",
        )
    return (
        "Classifiers learned without a clip give "
        f"{_percent(measures['states_agreement'])} of its tracklets the state found.",
        "Train a detector for the object with a few labelled frames (detector train).",
        "wrong-object",
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


USUAL: Mapping[str, float] = {
    "replication_all": 0.8,
    "cues_all": 0.7,
    "room_all": 0.95,
    "smoothness_all": 0.8,
}
"""Evidence of corpora with right answers, to which others are compared."""
