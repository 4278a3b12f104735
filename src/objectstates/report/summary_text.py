"""What the page tells of the whole: how good, how sure, how it came about, in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from objectstates.data.corpus import UNKNOWN, Corpus
from objectstates.data.result import Result
from objectstates.evaluation import evaluate
from objectstates.evaluation.baselines import chance
from objectstates.report.charts import Line, line_chart
from objectstates.report.clip_view import KINDS, ClipFacts


@dataclass(frozen=True)
class Score:
    """A row of the table of precisions; None where there is no truth, or no such answer."""

    name: str
    states: float | None
    action: float | None


@dataclass(frozen=True)
class Failure:
    """A kind of mistake, and how often it was made."""

    kind: str
    name: str
    meaning: str
    count: int
    clips: int


_MEANINGS = {
    "object": "a tracklet of something else was given a state",
    "state": "the object is there, in the other state",
    "ambiguous": "the object is there, half-way between the states",
    "action": "the action was placed where it does not happen",
}


def title(result: Result) -> str:
    """What the page is about, in a line."""
    thing = result.corpus.info.get("object")
    n, clips = len(result.clips), "clip" if len(result.clips) == 1 else "clips"
    if isinstance(thing, str) and thing:
        return f"How the {thing} changes, in {n} {clips}"
    return f"What changes, and when, in {n} {clips}"


def lede(result: Result) -> str:
    """How to read the page, in a sentence or two, by what was sought."""
    sought = str(result.settings.get("target", "joint"))
    what = {
        "state": "what the object looks like before (state 1) and after (state 2) it changes",
        "action": "the moment of the action",
    }.get(sought, "the moment of the action, and the object before (state 1) and after (state 2)")
    how = (
        "with classifiers learned on other clips"
        if result.summary.get("kind") == "predict"
        else "by what the clips have in common alone"
    )
    return f"Nobody labelled these clips. In each of them objectstates found {what}, {how}."


def precision(result: Result) -> list[Score]:
    """The precision beside what it must beat; nothing where no truth is known."""
    scores = evaluate(result, result.corpus)
    states, action = _known(scores.state_precision), _known(scores.action_precision)
    if states is None and action is None:
        return []
    corpus = result.corpus
    with_states = _labelled(corpus, corpus.tracklets.label, corpus.tracklets.offsets)
    with_action = _labelled(corpus, corpus.chunks.label, corpus.chunks.offsets)
    rows = [Score("found here", states, action)]
    rows.append(
        Score(
            "chance",
            chance(with_states).state_precision if states is not None and with_states else None,
            chance(with_action).action_precision if action is not None and with_action else None,
        )
    )
    if action is not None and with_action is not None:
        rows.append(Score("always the middle", None, _middle(with_action)))
    return rows


def failures(result: Result, clips: Sequence[ClipFacts]) -> list[Failure]:
    """How often each kind of mistake was made."""
    found = []
    meanings = dict(_MEANINGS)
    if result.corpus.info.get("format") == "authors' release":
        meanings["object"] += ", or an ambiguous one: the release does not tell them apart"
    for kind, name in KINDS.items():
        count = sum(mistake.kind == kind for clip in clips for mistake in clip.mistakes)
        affected = sum(kind in clip.kinds for clip in clips)
        found.append(Failure(kind, name, meanings[kind], count, affected))
    return found


def certificate(result: Result) -> list[str]:
    """What is known about the optimum, in words."""
    summary = result.summary
    if summary.get("kind") == "predict":
        learned = summary.get("learned_on") or {}
        return [
            "These clips were labelled with classifiers that were learned on "
            f"{learned.get('clips', 'other')} clips; nothing was optimised here, so there is no "
            "certificate. Given the classifiers, the labels of each clip are the exact optimum."
        ]
    gap, objective = _number(summary, "duality_gap"), _number(summary, "relaxed_objective")
    if gap is None or objective is None:
        return ["This result carries no certificate."]
    share = f"{gap / objective:.2%}" if objective > 0 and gap < objective else f"{gap:.1e}"
    passes = f"after {summary.get('passes', '?')} passes over the clips"
    told = [
        f"The duality gap of the relaxed problem is {share}"
        + (" of its objective " if share.endswith("%") else " ")
        + passes
        + (
            ": the solver has converged."
            if summary.get("converged")
            else ": it stopped before it converged; more passes may find better labels."
        )
    ]
    joint = result.settings.get("target", "joint") == "joint" and result.settings.get("nu", 1)
    told.append(
        "Because states and action are coupled the problem is not convex. The gap certifies that "
        "no linear step improves the relaxed solution; it does not exclude a better one elsewhere."
        if joint
        else "The problem is convex: no relaxed labelling whatever is better by more than this gap."
    )
    return told


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
    gap_share = np.divide(gap, objective, out=np.full(len(gap), np.nan), where=objective > 0)
    lines = [Line("relaxed", "relaxed", objective), Line("rounded", "best labels so far", rounded)]
    tol = _number(result.settings, "tol")
    gap_lines = [Line("gap", "gap", gap_share)]
    charts = [
        (
            "Objective",
            line_chart(passes, lines, label="The objective over the passes"),
            [(line.style, line.name) for line in lines],
        ),
        (
            "Duality gap, relative",
            line_chart(passes, gap_lines, label="The gap over the passes", log=True, mark=tol),
            [("gap", "gap"), *([("mark", f"asked for: {tol:.2%}")] if tol else [])],
        ),
    ]
    return [chart for chart in charts if chart[1]]


def tables(result: Result) -> list[tuple[str, list[tuple[str, str]]]]:
    """Settings, sizes, seconds and versions, as names and values."""
    summary, info = result.summary, result.corpus.info
    sources = (
        ("Settings", result.settings),
        ("Objective of the labels", summary.get("objective")),
        ("Clips", summary.get("corpus")),
        ("How the clips were looked at", info.get("ingest", info)),
        ("Seconds", summary.get("seconds")),
        ("Versions", summary.get("versions")),
    )
    return [
        (name, [(str(k).replace("_", " "), _text(v)) for k, v in facts.items()])
        for name, facts in sources
        if isinstance(facts, dict) and facts
    ]


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return " x ".join(map(_text, value))
    return str(value)


def _labelled(corpus: Corpus, label: np.ndarray, offsets: np.ndarray) -> Corpus | None:
    """The clips all of whose rows have a truth."""
    whole = [
        n
        for n in range(len(corpus))
        if offsets[n] < offsets[n + 1] and (label[offsets[n] : offsets[n + 1]] != UNKNOWN).all()
    ]
    return corpus.select(whole) if whole else None


def _middle(corpus: Corpus) -> float:
    """How often the action happens in the middle of the clip."""
    right = []
    for n in range(len(corpus)):
        rows = list(corpus.chunk_rows(n))
        start, end = corpus.chunks.start[rows], corpus.chunks.end[rows]
        middle = (start.min() + end.max()) / 2
        there = (start <= middle) & (middle < end)
        right.append(bool((corpus.chunks.label[rows][there] == 1).any()))
    return float(np.mean(right))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _number(facts: dict[str, Any], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, (int, float)) and np.isfinite(value) else None
