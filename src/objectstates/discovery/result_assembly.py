"""Assembling results: columns, summaries, and the fitted attributes that follow from a result."""

from __future__ import annotations

import platform
import warnings
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

from objectstates.base.choices import SideName
from objectstates.data.actions import Actions
from objectstates.data.corpus import Corpus
from objectstates.data.result import Result
from objectstates.discovery.labelling import Labelling, action_rows
from objectstates.discovery.solver_runs import Run
from objectstates.solver.problem import Terms
from objectstates.solver.scale.moments import Reduction


def columns(corpus: Corpus, found: Labelling) -> dict[str, Any]:
    """The columns of a result."""
    n_tracklets, n_states = len(corpus.tracklets.start), corpus.n_states
    actions, state = Actions.none(len(corpus), len(corpus.chunks.start), n_states - 1), found.state
    if len(found.action):
        rows = action_rows(corpus, found.action)
        chunk = np.where(rows < 0, -1, rows - corpus.chunks.offsets[:-1, None])
        actions = Actions(chunk, found.action_time, found.action_span, found.action_scores)
    return {
        "corpus": _without_features(corpus),
        "actions": actions,
        "state": state if len(state) else np.zeros(n_tracklets, np.int8),
        "state_scores": found.state_scores
        if len(state)
        else np.full((n_tracklets, n_states), np.nan),
    }


def _without_features(corpus: Corpus) -> Corpus:
    """The corpus itself if it has none: checking its tables again would take time."""
    sizes = corpus.tracklets.features.shape[1], corpus.chunks.features.shape[1]
    return corpus if not any(sizes) and not corpus.arrays else corpus.without_features()


def run_summary(run: Run, terms: Terms) -> dict[str, Any]:
    """The objective ``terms`` of the labels, the certificate of the relaxed solution, its trace."""
    solution = run.solution
    return {
        "kind": "fit",
        "versions": versions(),
        "objective": {"total": terms.total, **asdict(terms)},
        "rounded_objective": solution.rounded_terms.total,
        "relaxed_objective": solution.terms.total,
        "relaxed_terms": asdict(solution.terms),
        "duality_gap": solution.gap,
        "converged": solution.converged,
        "passes": solution.passes,
        "rounded_at_pass": solution.rounded_at_pass,
        "trace": run.trace,
    }


def reduction_summary(
    reductions: dict[SideName, Reduction], found: Labelling
) -> dict[str, dict[str, Any]]:
    """What reducing the features of each side lost, and a bound on its effect on the objective."""
    labels = {"action": found.action, "state": found.state}
    return {
        side: {
            "from": each.size,
            "to": each.kept,
            "variance_lost": each.variance_lost,
            "error_share": each.error_share,
            "cost_error_at_most": each.cost_error(labels[side]),
        }
        for side, each in reductions.items()
    }


def sizes(corpus: Corpus) -> dict[str, Any]:
    """Numbers of clips and rows, and sizes of features."""
    return {
        "clips": len(corpus),
        "tracklets": list(corpus.tracklets.features.shape),
        "chunks": list(corpus.chunks.features.shape),
    }


def skipped_at(corpus: Corpus, kept: Corpus) -> dict[str, list[list[int]]]:
    """Where the clips that were left out are in the corpus, and how many tracklets each has."""
    chosen, counts = set(kept.clip_ids), np.diff(corpus.tracklets.offsets).tolist()
    rows = [[n, counts[n]] for n, clip in enumerate(corpus.clip_ids) if clip not in chosen]
    return {"skipped_at": rows} if rows else {}


def versions() -> dict[str, str]:
    """Of Python and of the packages that results depend on."""
    return dict(_installed())


@cache
def _installed() -> tuple[tuple[str, str], ...]:
    """Read once: parsing the metadata of packages takes as long as many passes."""
    packages = ("objectstates", "numpy", "scipy", "numba", "pyarrow")
    return ("python", platform.python_version()), *((name, version(name)) for name in packages)


def fitted_attributes(result: Result) -> dict[str, Any]:
    """The attributes of a fitted estimator, over the whole corpus with the clips left out."""
    skipped = np.array(result.summary.get("skipped_at", []), np.int64).reshape(-1, 2)
    if len(skipped) != len(result.skipped):
        warnings.warn(
            "the result was written by an earlier version: the attributes have no rows for the "
            "clips that were left out",
            stacklevel=3,
        )
    n_clips = len(result.clips) + len(skipped)
    kept = np.setdiff1d(np.arange(n_clips), skipped[:, 0])
    counts = np.empty(n_clips, np.int64)
    counts[kept] = np.diff(result.corpus.tracklets.offsets)
    counts[skipped[:, 0]] = skipped[:, 1]
    labels = np.zeros(int(counts.sum()), np.int8)
    labels[np.repeat(np.isin(np.arange(n_clips), kept), counts)] = result.state
    actions = Actions.none(n_clips, 0, result.n_actions)
    per_clip = {
        "action_chunk_": (result.actions.chunk, actions.chunk),
        "action_time_": (result.actions.time, actions.time),
        "action_span_": (result.actions.span, actions.span),
    }
    for values, column in per_clip.values():
        column[kept] = values
    reached = np.full(n_clips, "", dtype="<U6")
    reached[kept] = result.reached
    summary = result.summary
    return {
        "labels_": labels,
        **{
            name: column[:, 0] if result.n_actions == 1 else column
            for name, (_, column) in per_clip.items()
        },
        "objective_": float(summary["objective"]["total"]),
        "relaxed_objective_": float(summary["relaxed_objective"]),
        "gap_": float(summary["duality_gap"]),
        "n_iter_": int(summary["passes"]),
        "converged_": bool(summary["converged"]),
        "skipped_": result.skipped,
        "set_aside_": result.set_aside,
        "verdict_": result.verdict,
        "reached_": reached,
    }
