"""The page's text about the whole result: headline, summary, mistakes, certificate, tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.data.truth_labels import truth_count
from objectstates.data.verdict import Finding
from objectstates.report.charts import Line, line_chart
from objectstates.report.clip_view import ClipView, object_name
from objectstates.report.mistakes import MISTAKES
from objectstates.report.verdict_text import side_texts


@dataclass(frozen=True)
class Step:
    """An action of a chain over all clips.

    label : "action 1" and so on. ``before`` and ``after`` : the labels of the states beside it.
    clips : how many have it. ``time`` : median seconds from the start of the clip; None if no clip
        has it. ``confidence`` : the mean chance that it is right; None if not known.
    """

    label: str
    before: str
    after: str
    clips: int
    time: float | None
    confidence: float | None


@dataclass(frozen=True)
class MistakeCount:
    """A kind of mistake, how often it was made, and in how many clips."""

    kind: str
    name: str
    meaning: str
    count: int
    clips: int


_MEANINGS = {
    "object": "a tracklet of something else has a state",
    "state": "the object is in the other state",
    "ambiguous": "the object is between the states",
    "action": "the action does not happen at the time found",
}
_BY_TIME = {
    "state": "the tracklet is on the other side of the true action",
    "ambiguous": "the tracklet overlaps the true action",
}
"""What is known if the truth has no boxes: whether the object is there is not."""

_OF_CHAINS = {
    "state": "the object is in another state",
    "action": "an action does not happen at the time found, or was not found",
}


def headline(result: Result) -> str:
    """The page's headline and title: the object, the steps of a chain and the number of clips."""
    name, n = object_name(result), len(result.clips)
    clips = f"{n} clip{'' if n == 1 else 's'}"
    if result.n_actions > 1:
        clips = f"{result.n_actions} steps and {clips}"
    findings = () if result.verdict is None else result.verdict.findings
    if findings and set(findings) == {"not_found"}:
        return f"No common change {f'of the {name} ' if name else ''}was found, in {clips}"
    return f"How the {name} changes, in {clips}" if name else f"What changes, and when, in {clips}"


def called(names: LabelNames) -> dict[str, str]:
    """What the user calls "state 1", "action", "state 2" and so on, in order."""
    return {label.replace("_", " "): name for label, name in names.labels.items()}


def summary(result: Result) -> str:
    """Sentences below the headline: what was sought, and how far it was found."""
    what = _what(result)
    how = (
        "with classifiers learned on other clips"
        if result.summary.get("kind") == "predict"
        else f"from what the clips have in common{'' if result.corrections else ' alone'}"
    )
    source = "No labels were used."
    if corrected := len({row.clip for row in result.corrections}):
        how += " and from the corrections"
        clips = "1 clip was" if corrected == 1 else f"{corrected} clips were"
        source = f"{clips} corrected by a person."
    verdict = result.verdict
    if verdict is None or set(verdict.findings) == {"found"}:
        return f"{source} In each clip objectstates found {what}, {how}."
    if set(verdict.findings) == {"not_found"}:
        return (
            f"objectstates looked for {what}, {how}, and did not find it. The labels below are "
            "only what fits the clips best: do not rely on them."
        )
    sentences = [f"objectstates looked for {what}, {how}."]
    for side in side_texts(verdict):
        of_actions = "times of the actions" if result.n_actions > 1 else "times of the action"
        what = of_actions if side.name == "action" else "states"
        sentences.append(_OPENINGS[side.finding].format(what=what))
    return " ".join(sentences)


def _what(result: Result) -> str:
    """What was sought."""
    sought, names = str(result.settings.get("target", "joint")), result.names
    if result.n_actions > 1:
        actions = f"the times of {result.n_actions} actions in a row ({', '.join(names.actions)})"
        states = f"the object before, between and after them ({', '.join(names.states)})"
        alone = f"the object's appearance in {result.n_states} states ({', '.join(names.states)})"
        return {"state": alone, "action": actions}.get(sought, f"{actions} and {states}")
    action = "the action" if names.action == LabelNames().action else f"the action ({names.action})"
    before, after = f"before ({names.state_1})", f"after ({names.state_2})"
    return {
        "state": f"the object's appearance {before} and {after} the change",
        "action": f"the time of {action}",
    }.get(sought, f"the time of {action} and the object {before} and {after} it")


_OPENINGS: dict[Finding, str] = {
    "found": "The {what} were found.",
    "doubtful": "Look at the {what} before you use them: some may be wrong.",
    "not_found": "The {what} were not found: do not rely on those shown.",
}


def steps(result: Result, clips: Sequence[ClipView]) -> list[Step]:
    """The actions of a chain; empty for one change, and if no action was sought."""
    if result.n_actions == 1 or not (result.actions.chunk >= 0).any():
        return []
    found = []
    for k, label in enumerate(result.action_labels):
        times = [
            action.time - clip.extent[0]
            for clip in clips
            for action in clip.actions
            if action.number == k + 1
        ]
        chances = np.array([np.nan]) if result.confidences is None else result.confidences[:, k]
        known = chances[~np.isnan(chances)]
        found.append(
            Step(
                label=label.replace("_", " "),
                before=f"state {k + 1}",
                after=f"state {k + 2}",
                clips=len(times),
                time=float(np.median(times)) if times else None,
                confidence=float(known.mean()) if len(known) else None,
            )
        )
    return found


def count_mistakes(result: Result, clips: Sequence[ClipView]) -> list[MistakeCount]:
    """How often each kind of mistake was made."""
    meanings = dict(_MEANINGS)
    if result.corpus.info.get("format") == "authors' release":
        meanings["object"] += ", or is ambiguous: the release does not distinguish these"
    if truth_count(result.corpus).by_time:
        meanings |= _BY_TIME
    if result.n_actions > 1:
        meanings |= _OF_CHAINS
    found = []
    for kind, name in mistake_names(result).items():
        count = sum(mistake.kind == kind for clip in clips for mistake in clip.judged.mistakes)
        affected = sum(kind in clip.judged.kinds for clip in clips)
        found.append(MistakeCount(kind, name, meanings[kind], count, affected))
    return found


def mistake_names(result: Result) -> dict[str, str]:
    """The kinds of mistakes that the truth can tell, with their names on the page."""
    truth = truth_count(result.corpus)
    unknown = {"object"} if truth.by_time and not truth.with_boxes else set()
    return {kind: name for kind, name in MISTAKES.items() if kind not in unknown}


def certificate(result: Result) -> list[str]:
    """What the duality gap says about the solution, in sentences."""
    values = result.summary
    if values.get("kind") == "predict":
        learned = values.get("learned_on") or {}
        return [
            "These clips were labelled with classifiers that were learned on "
            f"{learned.get('clips', 'other')} clips. Nothing was optimised here, so there is no "
            "certificate. Given the classifiers, the labels of each clip are the exact optimum."
        ]
    gap, objective = _number(values, "duality_gap"), _number(values, "relaxed_objective")
    if gap is None or objective is None:
        return ["This result has no certificate."]
    relative = objective > 0 and gap < objective
    amount = f"{gap / objective:.2%} of its objective" if relative else f"{gap:.1e}"
    outcome = (
        "the solver has converged."
        if values.get("converged")
        else "it stopped before it converged; more passes may find better labels."
    )
    joint = result.settings.get("target", "joint") == "joint" and result.settings.get("nu", 1)
    return [
        f"The duality gap of the relaxed problem is {amount} after {values.get('passes', '?')} "
        f"passes over the clips: {outcome}",
        "Because states and action are coupled the problem is not convex. The gap certifies that "
        "no linear step improves the relaxed solution; it does not exclude a better one elsewhere."
        if joint
        else "The problem is convex: no relaxed solution is better by more than this gap.",
    ]


def optimisation_charts(result: Result) -> list[tuple[str, Markup, list[tuple[str, str]]]]:
    """Title, drawing and legend (CSS class, name) of each chart; none without a trace."""
    try:
        trace = np.array(result.summary.get("trace") or (), np.float64)
    except (TypeError, ValueError):  # the header was edited by hand
        return []
    if trace.ndim != 2 or trace.shape[1] < 4 or len(trace) < 2:
        return []
    _, objective, gap, rounded = trace[:, :4].T
    passes = np.arange(1.0, len(trace) + 1)
    relative = np.divide(gap, objective, out=np.full(len(gap), np.nan), where=objective > 0)
    lines = [Line("relaxed", "relaxed", objective), Line("rounded", "best labels so far", rounded)]
    tol = _number(result.settings, "tol")
    gap_lines = [Line("gap", "gap", relative)]
    charts = [
        (
            "Objective",
            line_chart(passes, lines, label="The objective over the passes"),
            [(line.style, line.name) for line in lines],
        ),
        (
            "Duality gap, relative",
            line_chart(passes, gap_lines, label="The gap over the passes", log=True, mark=tol),
            [("gap", "gap"), *([("mark", f"tolerance: {tol:.2%}")] if tol else [])],
        ),
    ]
    return [chart for chart in charts if chart[1]]


def tables(result: Result) -> list[tuple[str, list[tuple[str, str]]]]:
    """Settings, sizes, seconds and versions, as names and values."""
    values, info = result.summary, result.corpus.info
    sources = (
        ("Settings", result.settings),
        ("Objective of the labels", values.get("objective")),
        ("Clips", values.get("corpus")),
        ("Ingest settings", info.get("ingest", info)),
        ("Seconds", values.get("seconds")),
        ("Versions", values.get("versions")),
    )
    return [
        (name, [(str(k).replace("_", " "), _text(v)) for k, v in rows.items()])
        for name, rows in sources
        if isinstance(rows, dict) and rows
    ]


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return " x ".join(map(_text, value))
    return str(value)


def _number(values: dict[str, Any], name: str) -> float | None:
    value = values.get(name)
    return float(value) if isinstance(value, (int, float)) and np.isfinite(value) else None
