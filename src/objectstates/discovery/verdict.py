"""The verdict: how likely each answer of a discovery is right, and whether to trust it as a whole.

Evidence about the clips together and about each clip (``evidence.py``) is combined by logistic
functions: one for the action; and a product of three for the states, which need a right action,
must be found again from other clips, and must lie on what changes. The weights were estimated on
corpora of several manipulations, right and wrong ones of many kinds, and judged on those of others:
``benchmarks/trust``, docs/evaluation.md. The mean chance over the clips is the share of right
answers to expect, and the verdict follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result
from objectstates.data.verdict import Finding, Verdict
from objectstates.discovery.evidence import (
    USUAL_COVER,
    USUAL_SHARED,
    Evidence,
    gather,
    mean_known,
)
from objectstates.discovery.replication import Discover, Predict

FOUND, DOUBTFUL = 0.7, 0.4  # least shares of right answers to expect
FEWEST = 4  # clips; what fewer have in common is not evidence


@dataclass(frozen=True)
class Weights:
    """Of a logistic regression, for evidence by name."""

    bias: float
    weights: Mapping[str, float]

    def chance(self, evidence: Mapping[str, Array]) -> Array:
        total = self.bias + sum(w * evidence[name] for name, w in self.weights.items())
        return np.asarray(1 / (1 + np.exp(-total)))


ACTION = Weights(
    -12.964,
    {
        "cues_all": 1.365,
        "shared_all": 1.615,
        "smoothness_all": 4.404,
        "room_all": 9.505,
        "quiet_all": -5.041,
        "cues": 0.292,
        "shared": 0.983,
        "room": 2.211,
        "amount": 0.546,
    },
)
STATES = (
    Weights(-1.21, {"action": 5.053}),
    Weights(-4.299, {"same_all": 7.732}),
    Weights(-1.129, {"cover_all": 14.697}),
)
"""Of conditions: all of them must hold, so their chances are multiplied."""
USUAL = {
    "cues_all": 0.48,
    "shared_all": USUAL_SHARED,
    "smoothness_all": 0.86,
    "room_all": 1.0,
    "quiet_all": 0.1,
}
"""Evidence of corpora with right answers; what lacks most of it explains a verdict."""


def judge(
    corpus: Corpus, found: Result, discover: Discover, predict: Predict, *, seed: int = 0
) -> Result:
    """``found``, the result on ``corpus``, with its verdict and the chances of its answers.

    discover, predict : as for :func:`~objectstates.discovery.replication.replicate`.
    """
    evidence = gather(corpus, found, discover, predict, seed=seed)
    of_changes = []
    for k, each in enumerate(evidence):
        chances = chances_of(each, len(corpus))
        chances[_stated(found, k), 0] = 1.0
        if found.n_actions > 1 and each.action is not None:
            chances[found.actions.chunk[:, k] < 0] = np.nan  # a clip may lack the action
        of_changes.append(chances)
    return replace(
        found,
        confidences=of_chain(of_changes),
        verdict=conclude_chain(of_changes, evidence),
    )


def _stated(found: Result, k: int) -> Array:
    """(N,) clips in which a person stated the time of action k, from 0."""
    clips = {
        row.clip
        for row in found.corrections
        if row.kind in ("action", "confirm") and found.names.action_number(row.value) == k + 1
    }
    return np.array([clip in clips for clip in found.clips], bool)


def of_chain(of_changes: Sequence[Array]) -> Array:
    """(N, 2 K - 1) chances of K - 1 actions, then K states, from those (N, 3) of each change.

    A state between two actions is right only if it is in both changes.
    """
    before = np.stack([chances[:, 1] for chances in of_changes], axis=1)
    after = np.stack([chances[:, 2] for chances in of_changes], axis=1)
    states = np.concatenate([before, after[:, -1:]], axis=1)
    states[:, 1:] = np.fmin(states[:, 1:], after)
    actions = np.stack([chances[:, 0] for chances in of_changes], axis=1)
    return np.concatenate([actions, states], axis=1)


def conclude_chain(of_changes: Sequence[Array], evidence: Sequence[Evidence]) -> Verdict:
    """The verdict on a chain: that on its weakest change, which is named."""
    verdicts = [conclude(*each) for each in zip(of_changes, evidence, strict=True)]
    if len(verdicts) == 1:
        return verdicts[0]
    expected = [min(verdict.expected.values(), default=np.inf) for verdict in verdicts]
    weakest = int(np.argmin(expected))
    verdict = verdicts[weakest]
    return replace(verdict, why=f"Change {weakest + 1} of {len(verdicts)}: {verdict.why}")


def judge_by_sample(found: Result, sample: Array, judged: Result) -> Result:
    """``found`` with the verdict on its clips ``sample``; other clips get their mean chances."""
    assert judged.confidences is not None
    mean = [mean_known(column) for column in judged.confidences.T]
    chances = np.tile(np.array(mean), (len(found.clips), 1))
    chances[sample] = judged.confidences
    return replace(found, verdict=judged.verdict, confidences=chances)


def chances_of(
    evidence: Evidence,
    n_clips: int,
    action: Weights = ACTION,
    states: Sequence[Weights] = STATES,
) -> Array:
    """(N, 3) that action, state 1 and state 2 are right; NaN for what was not sought."""
    chances = np.full((n_clips, 3), np.nan)
    if evidence.action is not None:
        chances[:, 0] = action.chance(evidence.action)
    if evidence.states is not None:
        known = dict(evidence.states)
        if evidence.action is not None:
            known["action"] = chances[:, 0]
        met = [each.chance(known) for each in states if each.weights.keys() <= known.keys()]
        chance = np.prod(met, axis=0)
        chances[:, 1:] = chance[:, None]  # evidence about the states is about both
    if evidence.n_learned < FEWEST:
        chances = np.minimum(chances, FOUND - 0.01)
    return chances


# --- words ----------------------------------------------------------------------------------------


def conclude(chances: Array, evidence: Evidence) -> Verdict:
    """The verdict from the chances (N, 3) of all answers, with the reason and the remedy."""
    action, states = mean_known(chances[:, 0]), mean_known(chances[:, 1:])
    findings = finding(action), finding(states)
    expected = {"action": action, "states": states}
    why, remedy, topic = _explained(findings, evidence)
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


def _explained(findings: tuple[Finding | None, Finding | None], evidence: Evidence) -> Words:
    action, states = findings
    if evidence.n_learned < FEWEST:
        return (
            f"There is no telling from {evidence.n_learned} "
            f"clip{'' if evidence.n_learned == 1 else 's'} what the manipulation has in common.",
            "Add clips of the same manipulation: ten at least, better twenty.",
            "few-clips",
        )
    if action not in (None, "found") and evidence.action is not None:
        lacking = {
            name: ACTION.weights[name] * (usual - float(evidence.action[name][0]))
            for name, usual in USUAL.items()
        }
        return _NO_ACTION[max(lacking, key=lambda name: lacking[name])](evidence.measures)
    if states not in (None, "found"):
        return _why_no_states(evidence.measures)
    return _why_found(findings, evidence.measures), "", ""


def _why_found(
    findings: tuple[Finding | None, Finding | None], measures: Mapping[str, float]
) -> str:
    parts = []
    if findings[0] is not None:
        parts.append(f"its action at the time found in {_percent(measures['action_agreement'])}")
    if findings[1] is not None:
        parts.append(f"{_percent(measures['states_agreement'])} of its tracklets in the same state")
    what = " of the cases, and ".join(parts)
    what += " of the cases" if findings[1] is None else ""
    return f"Classifiers that were learned without a clip find {what}."


def _different_times(measures: Mapping[str, float]) -> Words:
    if "cues_agreement" not in measures:  # no change profiles: motion and appearance alone
        agreement, chance = measures["action_agreement"], measures["action_chance"]
        return (
            "Classifiers that were learned without a clip find its action at the same time in only "
            f"{_percent(agreement)} of the cases ({_percent(chance)} by chance).",
            "Check that all clips show the same manipulation, and add more of them.",
            "different-actions",
        )
    if measures["cues_agreement"] == 0:
        return (
            "Nothing in the picture changes for good when the clips move alike.",
            "Check that every clip shows the whole manipulation, the object before and after it.",
            "no-change",
        )
    return (
        "The motion that the clips share and the lasting change of the picture coincide in only "
        f"{_percent(measures['cues_agreement'])} of the cases "
        f"({_percent(measures['cues_chance'])} by chance).",
        "Use clips of one manipulation in similar scenes, and look at the change curves.",
        "different-scenes",
    )


def _changing_otherwise(measures: Mapping[str, float]) -> Words:
    return (
        "What the action changes is not alike in the clips: classifiers of the others put a moment "
        f"after a clip's action above one before it in {_percent(measures['shared_change'])} of "
        "the cases (50 % by chance).",
        "Check that all clips show the same manipulation of the same kind of object.",
        "different-actions",
    )


def _jumping(_: Mapping[str, float]) -> Words:
    return (
        "The scores of the action jump from moment to moment, as those of noise do.",
        "Check that all clips show the same manipulation, and that their times are right.",
        "different-actions",
    )


def _at_the_end(_: Mapping[str, float]) -> Words:
    return (
        "In many clips the action found is at the very start or end, where a hand may just arrive.",
        "Cut clips that show a second or more before and after the action.",
        "action-at-the-end",
    )


def _uneven(measures: Mapping[str, float]) -> Words:
    return (
        f"{_percent(measures['quiet'])} of the clips change less than half as much as others: they "
        "may not show the manipulation.",
        "Look at the clips of lowest confidence, and leave out those without the manipulation.",
        "no-change",
    )


_NO_ACTION: Mapping[str, Callable[[Mapping[str, float]], Words]] = {
    "cues_all": _different_times,
    "shared_all": _changing_otherwise,
    "smoothness_all": _jumping,
    "room_all": _at_the_end,
    "quiet_all": _uneven,
}


def _why_no_states(measures: Mapping[str, float]) -> Words:
    """The boxes, if they are wrong or the weaker condition; states of wrong boxes do not repeat."""
    same, cover = (np.array(measures[name]) for name in ("states_agreement", "boxes_on_change"))
    known, (_, confirmed, on_change) = {"same_all": same, "cover_all": cover}, STATES
    if cover < USUAL_COVER / 2 or on_change.chance(known) < confirmed.chance(known):
        return (
            "The boxes of the states contain little of what changes in the picture.",
            "Train a detector for the object that changes, or give its boxes.",
            "wrong-object",
        )
    return (
        "Classifiers that were learned without a clip give only "
        f"{_percent(measures['states_agreement'])} of its tracklets the state found.",
        "Label the object in a few frames and train a detector (detector train).",
        "wrong-object",
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
