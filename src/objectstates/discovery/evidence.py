"""Evidence for a discovery: what right answers have, and wrong ones rarely.

It is how well the discovery replicates in clips that were not learned from (``replication.py``);
whether the action changes the picture alike in all clips (``shared_change.py``); room before and
after the action; scores of the action that change smoothly over time; about as much lasting change
in every clip; and boxes of the states that contain what changes. All of it is free of scales, so
that it means the same in other scenes and for other objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from objectstates.data.clips import ChangeProfile
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result
from objectstates.discovery.replication import (
    Discover,
    Predict,
    Replication,
    own_changes,
    replicate,
)
from objectstates.discovery.shared_change import told_apart

ROOM = 1.0  # seconds before and after the action; more makes no difference
LEAST = 1e-6  # share of the picture; keeps logarithms finite
LEAST_AMOUNT = -1.5  # a thirtieth of the usual change is nothing
QUIET = np.log10(0.5)  # in clips with less of the usual change, something else may happen
SHARED = 0.6, 0.8  # how surely after is told from before in other changes, and in the same
USUAL_SHARED = 1.0  # of 0 to 1 between these; where it is not known
USUAL_COVER = 0.2  # of boxes without information: those of the change itself, or without a profile


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence by name, a number per clip (N,); names of measures of all clips end in "_all".

    action, states : None for a side that was not sought.
    measures : of all clips together, for people to read.
    """

    action: Mapping[str, Array] | None
    states: Mapping[str, Array] | None
    measures: Mapping[str, float]
    n_learned: int


def gather(
    corpus: Corpus, found: Result, discover: Discover, predict: Predict, *, seed: int = 0
) -> tuple[Evidence, ...]:
    """Collect the evidence for each change of ``found``, the result on ``corpus``."""
    aside = {clip.clip for clip in found.set_aside}
    learned = np.array([n for n, clip in enumerate(found.clips) if clip not in aside])
    again = replicate(corpus, found, learned, discover, predict, seed=seed)
    sought = bool((found.actions.chunk >= 0).any()), bool(found.state.any())
    evidence = []
    for k, replication in enumerate(again):
        clips = learned
        if found.n_actions > 1 and sought[0]:  # a clip may lack the action
            clips = learned[found.actions.chunk[learned, k] >= 0]
        own, change = own_changes(corpus, found, k), found.change(k)
        shared = np.full(len(corpus), np.nan)
        if sought[0]:
            windows = _windows(found, k)
            shared = told_apart(corpus, change.action_span, windows, clips, seed=seed)
        evidence.append(_of_change(own, change, replication, shared, clips, sought))
    return tuple(evidence)


def _windows(found: Result, k: int) -> Array:
    """(N, 2) from the end of the action before action k to the start of the next, in each clip."""
    spans = found.actions.span
    start = np.nanmax(np.hstack([np.full((len(spans), 1), -np.inf), spans[:, :k, 1]]), axis=1)
    end = np.nanmin(np.hstack([np.full((len(spans), 1), np.inf), spans[:, k + 1 :, 0]]), axis=1)
    return np.stack([start, end], axis=1)


def _of_change(
    corpus: Corpus,
    found: Result,
    again: Replication,
    shared: Array,
    learned: Array,
    sought: tuple[bool, bool],
) -> Evidence:
    action = _action_evidence(corpus, found, again, shared, learned) if sought[0] else None
    states = _state_evidence(corpus, found, again, learned) if sought[1] else None
    measures = _measures(again, shared, learned, action, states)
    return Evidence(action, states, measures, len(learned))


def _action_evidence(
    corpus: Corpus, found: Result, again: Replication, shared: Array, learned: Array
) -> dict[str, Array]:
    action = again.action
    known = not np.isnan(again.cues).all()  # else motion and appearance are all that was learned
    cues = (again.cues, again.cues_chance) if known else (action, again.action_chance)
    room, amount = _room(corpus, found), _amount(corpus, found, learned)
    return {
        "cues_all": _all(_above_chance(*cues, learned), action),
        "shared_all": _shared_all(shared, learned),
        "smoothness_all": _all(mean_known(_smoothness(corpus, found)[learned]), action),
        "room_all": _all(mean_known(room[learned]), action),
        "quiet_all": _all(mean_known((amount[learned] < QUIET).astype(np.float64)), action),
        "cues": _deviation(cues[0], learned),
        "shared": _deviation(_between(shared), learned),
        "room": _deviation(room, learned),
        "amount": _deviation(amount, learned),
    }


def _state_evidence(
    corpus: Corpus, found: Result, again: Replication, learned: Array
) -> dict[str, Array]:
    cover = _cover(corpus, found)
    return {
        "same_all": _all(mean_known(again.states[learned]), cover),
        "cover_all": _all(mean_known(cover[learned]), cover),
    }


def _measures(
    again: Replication,
    shared: Array,
    learned: Array,
    action: Mapping[str, Array] | None,
    states: Mapping[str, Array] | None,
) -> dict[str, float]:
    values = {"clips": float(len(learned))}
    if action is not None:
        values |= {
            "action_agreement": mean_known(again.action[learned]),
            "action_chance": mean_known(again.action_chance[learned]),
            "cues_agreement": mean_known(again.cues[learned]),
            "cues_chance": mean_known(again.cues_chance[learned]),
            "shared_change": mean_known(shared[learned]),
            "smoothness": float(action["smoothness_all"][0]),
            "room": float(action["room_all"][0]),
            "quiet": float(action["quiet_all"][0]),
        }
    if states is not None:
        values |= {
            "states_agreement": float(states["same_all"][0]),
            "boxes_on_change": float(states["cover_all"][0]),
        }
    return {name: round(value, 4) for name, value in values.items() if np.isfinite(value)}


def _shared_all(shared: Array, learned: Array) -> Array:
    known = mean_known(shared[learned])
    return _all(float(_between(np.array(known))) if np.isfinite(known) else USUAL_SHARED, shared)


def _between(shared: Array) -> Array:
    low, high = SHARED
    return np.asarray(np.clip((shared - low) / (high - low), 0, 1))


def _room(corpus: Corpus, found: Result) -> Array:
    """(N,) 0 to 1: the shorter time before or after the action, as a share of ``ROOM``."""
    chunks, firsts = corpus.chunks, corpus.chunks.offsets[:-1]
    before = found.action_span[:, 0] - chunks.start[firsts]
    after = chunks.end[corpus.chunks.offsets[1:] - 1] - found.action_span[:, 1]
    return np.asarray(np.clip(np.minimum(before, after) / ROOM, 0, 1))


def _amount(corpus: Corpus, found: Result, learned: Array) -> Array:
    """(N,) logarithm to base 10 of how much changes for good around the action, relative to the
    median clip, from -1.5 to 0; 0 without change profiles.

    Clips in which much less happens than in others may not show the manipulation.
    """
    amounts = changes_at_action(corpus, found)
    return amounts_relative_to(usual_amount(amounts[learned]), amounts)


def changes_at_action(corpus: Corpus, found: Result) -> Array:
    """(N,) share of the picture that changes for good around the action; NaN without profiles."""
    if not any(corpus.changes):
        return np.full(len(corpus), np.nan)
    amounts = np.zeros(len(corpus))
    margin = float(np.median(corpus.chunks.end - corpus.chunks.start))
    for n, profile in enumerate(corpus.changes):
        if profile is not None:
            times = profile.start + profile.step * (np.arange(len(profile.curve)) + 0.5)
            start, end = found.action_span[n]
            near = (times >= start - margin) & (times <= end + margin)
            amounts[n] = float(profile.curve[near].sum())
    return amounts


def usual_amount(amounts: Array) -> float:
    """The median of those (k,) that are not zero; 1 if there is none."""
    some = amounts[amounts > 0]
    return float(np.median(some)) if len(some) else 1.0


def amounts_relative_to(usual: float, amounts: Array) -> Array:
    """(N,) logarithm to base 10 of the ratio, from -1.5 to 0; 0 where it is unknown."""
    ratio = np.log10((amounts + LEAST) / (usual + LEAST))
    return np.asarray(np.nan_to_num(np.clip(ratio, LEAST_AMOUNT, 0)))


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
    return np.asarray(np.clip(np.minimum(at + 1, high) - np.maximum(at, low), 0, 1))


def _above_chance(share: Array, chance: Array, clips: Array) -> float:
    """(agreement - chance) / (1 - chance) of the means over clips; 0 if unknown."""
    found, expected = mean_known(share[clips]), mean_known(chance[clips])
    if not np.isfinite(found) or not expected < 1:
        return 0.0
    return (found - expected) / (1 - expected)


def _deviation(values: Array, clips: Array) -> Array:
    """(N,) from the mean over ``clips``; 0 where unknown."""
    return np.nan_to_num(values - mean_known(values[clips]))


def _all(value: float, like: Array) -> Array:
    return np.full(len(like), float(np.nan_to_num(value)))


def mean_known(values: Array) -> float:
    """The mean of what is not NaN; NaN if nothing is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan
