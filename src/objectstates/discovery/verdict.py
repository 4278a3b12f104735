"""The verdict: how likely each answer of a discovery is right, and whether to trust it as a whole.

Evidence about the clips together and about each clip is combined by logistic regression. Evidence
is how well the discovery replicates (``replication.py``), and what a wrong answer rarely has: room
before and after the action, scores that change smoothly over time, and boxes of the states that
contain what changes for good. The weights were estimated on corpora of several manipulations, right
and wrong ones of many kinds, and judged on those of others: ``benchmarks/trust``,
docs/evaluation.md. The mean chance over the clips is the share of right answers to expect, and the
verdict follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from objectstates.data.clips import ChangeProfile
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result
from objectstates.data.verdict import Finding, Verdict
from objectstates.discovery.replication import Discover, Predict, Replication, replicate

FOUND, DOUBTFUL = 0.7, 0.4  # least shares of right answers to expect
FEWEST = 4  # clips; what fewer have in common is not evidence
ROOM = 2.0  # seconds before and after the action; more makes no difference
USUAL_COVER = 0.2  # of boxes that tell nothing: those of the change itself, or without a profile
UNKNOWN_ACTION = 0.5  # chance that stands for that of an action that was not sought


@dataclass(frozen=True)
class Weights:
    """Of a logistic regression: the chance is 1 / (1 + exp(-(bias + sum of weights * evidence)))."""

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
    return replace(found, confidences=chances, verdict=conclude(chances, evidence))


def judge_by_sample(
    found: Result, sample: Array, judged: Result
) -> Result:
    """``found`` with the verdict on its clips ``sample``; other clips get their mean chances."""
    assert judged.confidences is not None
    mean = [_mean(column) for column in judged.confidences.T]
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
        mean = UNKNOWN_ACTION if np.isnan(chances[:, 0]).all() else chances[:, 0].mean()
        for k in (0, 1):
            of_state = {**evidence.states[k], "action_all": np.full(n_clips, mean)}
            chances[:, k + 1] = states.chance(of_state)
    if evidence.n_learned < FEWEST:
        chances = np.minimum(chances, FOUND - 0.01)
    return chances


# --- evidence -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence by name, a number per clip (N,); names of measures of all clips end in "_all".

    action : None if no action was sought. ``states`` : of each state, likewise.
    measures : of all clips together, for people to read.
    """

    action: Mapping[str, Array] | None
    states: tuple[Mapping[str, Array], Mapping[str, Array]] | None
    measures: Mapping[str, float]
    n_learned: int


def gather(
    corpus: Corpus, found: Result, discover: Discover, predict: Predict, *, seed: int = 0
) -> Evidence:
    """Collect the evidence for ``found``, the result on ``corpus``."""
    aside = {clip.clip for clip in found.set_aside}
    learned = np.array([n for n, clip in enumerate(found.clips) if clip not in aside])
    again = replicate(corpus, found, learned, discover, predict, seed=seed)
    sought = found.action_chunk.max(initial=-1) >= 0, bool(found.state.any())
    action = _action_evidence(corpus, found, again, learned) if sought[0] else None
    states = _state_evidence(corpus, found, again, learned) if sought[1] else None
    measures = _measures(again, learned, action, states)
    if action is not None and states is not None:
        shared = {name: states[0][name] for name in ("cover_all", "same_all")}
        action = {**action, **shared}
    elif action is not None:
        n = len(corpus)
        action = {**action, "cover_all": np.full(n, USUAL_COVER), "same_all": np.full(n, 0.5)}
    return Evidence(action, states, measures, len(learned))


def _action_evidence(
    corpus: Corpus, found: Result, again: Replication, learned: Array
) -> dict[str, Array]:
    action = again.action
    known = not np.isnan(again.cues).all()  # else motion and appearance are all that was learned
    cues = (again.cues, again.cues_chance) if known else (action, again.action_chance)
    room = _room(corpus, found)
    return {
        "replication_all": _all(_above_chance(action, again.action_chance, learned), action),
        "cues_all": _all(_above_chance(*cues, learned), action),
        "smoothness_all": _all(np.mean(_smoothness(corpus, found)[learned]), action),
        "room_all": _all(room[learned].mean(), action),
        "few_all": _all(min(1.0, FEWEST / len(learned)), action),
        "replication": _deviation(action, learned),
        "cues": _deviation(cues[0], learned),
        "room": _deviation(room, learned),
    }


def _state_evidence(
    corpus: Corpus, found: Result, again: Replication, learned: Array
) -> tuple[dict[str, Array], dict[str, Array]]:
    same, order = again.states, again.order
    cover = _cover(corpus, found)
    shared = {
        "same_all": _all(np.nanmean(same[learned]), order),
        "order_all": _all(_mean(order[learned]), order),
        "cover_all": _all(cover[learned].mean(), order),
        "few_all": _all(min(1.0, FEWEST / len(learned)), order),
        "order": _deviation(order, learned),
        "cover": _deviation(cover, learned),
    }
    first, second = ({**shared, "same": _deviation(same[:, k], learned)} for k in (0, 1))
    return first, second


def _measures(
    again: Replication,
    learned: Array,
    action: Mapping[str, Array] | None,
    states: tuple[Mapping[str, Array], Mapping[str, Array]] | None,
) -> dict[str, float]:
    values = {"clips": float(len(learned))}
    if action is not None:
        values |= {
            "action_agreement": _mean(again.action[learned]),
            "action_chance": _mean(again.action_chance[learned]),
            "cues_agreement": _mean(again.cues[learned]),
            "cues_chance": _mean(again.cues_chance[learned]),
            "smoothness": float(action["smoothness_all"][0]),
            "room": float(action["room_all"][0]),
        }
    if states is not None:
        values |= {
            "states_agreement": float(states[0]["same_all"][0]),
            "states_order": float(states[0]["order_all"][0]),
            "boxes_on_change": float(states[0]["cover_all"][0]),
        }
    return {name: round(value, 4) for name, value in values.items() if np.isfinite(value)}


def _room(corpus: Corpus, found: Result) -> Array:
    """(N,) 0 to 1: the shorter time before or after the action, as a share of ``ROOM``."""
    chunks, firsts = corpus.chunks, corpus.chunks.offsets[:-1]
    before = found.action_span[:, 0] - chunks.start[firsts]
    after = chunks.end[corpus.chunks.offsets[1:] - 1] - found.action_span[:, 1]
    return np.asarray(np.clip(np.minimum(before, after) / ROOM, 0, 1))


def _smoothness(corpus: Corpus, found: Result) -> Array:
    """(N,) autocorrelation of the action's scores from each chunk to the next.

    Content that jumps from chunk to chunk is not that of a film.
    """
    values = np.zeros(len(corpus))
    for n in range(len(corpus)):
        rows = corpus.chunk_rows(n)
        scores = found.action_scores[rows.start : rows.stop]
        apart = scores - scores.mean()
        power = float((apart**2).sum())
        values[n] = float((apart[1:] * apart[:-1]).sum()) / power if power > 0 else 0.0
    return values


def _cover(corpus: Corpus, found: Result) -> Array:
    """(N,) share of the lasting change that lies in the boxes of tracklets with a state, above the
    boxes' share of the picture; at most 1."""
    made = corpus.info.get("ingest")
    detector = str(made.get("detector")) if isinstance(made, dict) else ""
    table = corpus.tracklets
    if detector.startswith("motion") or not len(table.boxes):
        return np.full(len(corpus), USUAL_COVER)
    values = np.full(len(corpus), USUAL_COVER)
    for n, profile in enumerate(corpus.changes):
        if profile is None or not profile.scale:
            continue
        rows = [row for row in corpus.tracklet_rows(n) if found.state[row]]
        middles = (table.box_offsets[rows] + table.box_offsets[[row + 1 for row in rows]]) // 2
        values[n] = change_in_boxes(profile, table.boxes[middles, 1:]) if rows else 0.0
    return values


def change_in_boxes(profile: ChangeProfile, boxes: Array) -> float:
    """The mean over boxes (k, 4) of the share of change within, above their share of the picture.

    0 for boxes placed at random, 1 if all of the change is in each of them.
    """
    weight = profile.where.astype(np.float64)
    if not weight.any():
        return 0.0
    height, width = weight.shape
    shares = []
    for x1, y1, x2, y2 in boxes / profile.scale:
        inside = np.outer(_covered(y1, y2, height), _covered(x1, x2, width))
        area = float(inside.mean())
        shares.append((float((weight * inside).sum() / weight.sum()) - area) / max(1 - area, 0.01))
    return float(np.mean(shares))


def _covered(low: float, high: float, count: int) -> Array:
    """(count,) how much of each unit of a line from 0 lies between two points."""
    at = np.arange(count)
    return np.clip(np.minimum(at + 1, high) - np.maximum(at, low), 0, 1)


def _above_chance(share: Array, chance: Array, clips: Array) -> float:
    """(agreement - chance) / (1 - chance) of the means over clips; 0 if unknown."""
    found, expected = _mean(share[clips]), _mean(chance[clips])
    if not np.isfinite(found) or not expected < 1:
        return 0.0
    return (found - expected) / (1 - expected)


def _deviation(values: Array, clips: Array) -> Array:
    """(N,) from the mean over ``clips``; 0 where unknown."""
    return np.nan_to_num(values - _mean(values[clips]))


def _all(value: float, like: Array) -> Array:
    return np.full(len(like), float(np.nan_to_num(value)))


def _mean(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan


# --- words ----------------------------------------------------------------------------------------


def conclude(chances: Array, evidence: Evidence) -> Verdict:
    """The verdict from the chances (N, 3) of all answers, with the reason and the remedy."""
    action, states = _mean(chances[:, 0]), _mean(chances[:, 1:])
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
