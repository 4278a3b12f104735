"""How well chains of states and actions are found, beside simple methods.

    python -m benchmarks.chains FOLDER --out OUT [--train FOLDER] [--detector motion]

FOLDER has a folder of films per chain, with ``<clip>.json`` beside ``<clip>.mp4``, such as those of
``benchmarks.simulated``; ``crops.json`` restricts the clips, unless ``--no-crops`` is given. A
few-shot detector is trained on the films of the same chain in ``--train``; without it, on the first
six films, which are then not judged. ``--detector`` replaces it. The discovery is told what a user
would tell: the number of changes; which states look alike, those of the same name; and which steps
are optional, those that some clip lacks.

Methods are those of ``evaluation/chain_baselines.py``, and ``joint``, the discovery of the chain at
the default settings; ``at best`` is the truth itself, imperfect where the detector missed the
object. Numbers are means over clips with 95 % bounds (``evaluation/precision.py``,
``evaluation/segments.py``); ``to interval`` and ``to change`` are the seconds from an action's time
to the true action and to the moment of the fastest true change: median and 90 % of the actions
found. The last tables are the means over chains of the same length, and the differences of
``joint`` to the others, clip by clip. ``table.md``, ``clips.json`` (a row per clip and method) and
``corpora/`` are written to OUT.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.change_profile import shown
from objectstates import Corpus, JointDiscovery, evaluate
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.data.truth import ClipTruth
from objectstates.discovery.constraints import InfeasibleClipWarning
from objectstates.evaluation import Evaluation
from objectstates.evaluation.baselines import mean_of_runs
from objectstates.evaluation.benchmark.manipulations import (
    Manipulation,
    find_manipulations,
    read_manipulation,
)
from objectstates.evaluation.benchmark.stages import BenchmarkSettings, Stages
from objectstates.evaluation.bootstrap import interval, paired
from objectstates.evaluation.chain_baselines import (
    equal_parts,
    independent_fits,
    ordered_chance,
    ordered_kmeans,
    true_labels,
)
from objectstates.evaluation.score_files import plain_number
from objectstates.evaluation.segments import IOUS, SegmentScore, segment_scores
from objectstates.evaluation.table_files import Table, comparison_table, to_markdown

CHANCE_RUNS = 20  # over which random labels are averaged


@dataclass(frozen=True)
class Chain:
    """What a user tells about the clips, as the parameters of `JointDiscovery`."""

    changes: int
    optional: tuple[int, ...] = ()
    pattern: str | None = None

    def model(self, seed: int = 0) -> JointDiscovery:
        return JointDiscovery(
            changes=self.changes,
            optional=self.optional,
            pattern=self.pattern,
            seed=seed,
            verdict=False,
        )


@dataclass(frozen=True, eq=False)
class Judged:
    """The scores of a method in the clips of one chain, in the same order."""

    clips: Evaluation
    segments: tuple[SegmentScore, ...]

    def f1(self, k: int) -> np.ndarray:
        """(N,) at the k-th of `IOUS`."""
        return np.array([row.f1[k] for row in self.segments])

    @property
    def edit(self) -> np.ndarray:
        return np.array([row.edit for row in self.segments])

    def seconds(self, name: str) -> np.ndarray:
        """(n,) ``to_action`` or ``to_change`` of the actions found."""
        found = np.array([getattr(row, name) for row in self.segments]).ravel()
        return np.asarray(found[~np.isnan(found)])


def _joint(corpus: Corpus, chain: Chain) -> list[Result]:
    return [chain.model().fit(corpus).result_]


METHODS: Mapping[str, Callable[[Corpus, Chain], list[Result]]] = {
    "chance": lambda corpus, _: [ordered_chance(corpus, seed=run) for run in range(CHANCE_RUNS)],
    "equal parts": lambda corpus, _: [equal_parts(corpus)],
    "k-means": lambda corpus, _: [ordered_kmeans(corpus)],
    "independent fits": lambda corpus, chain: [independent_fits(corpus, chain.model())],
    "joint": _joint,
    "at best": lambda corpus, _: [true_labels(corpus)],
}


def chain_of(truth: Mapping[str, ClipTruth], states: Sequence[str]) -> Chain:
    """From the truth of the clips, and the names of the states."""
    changes = len(next(iter(truth.values())).actions)
    left_out = {
        number
        for known in truth.values()
        for number, action in enumerate(known.actions, start=1)
        if action is None
    }
    names = LabelNames(tuple(states), LabelNames.usual(changes).actions)
    return Chain(changes, tuple(sorted(left_out)), names.pattern)


def state_names(manipulation: Manipulation) -> list[str]:
    """As the first film names them."""
    facts = json.loads(manipulation.test[0].video.with_suffix(".json").read_text())
    return [str(name) for name in facts["states"]]


def judge(corpus: Corpus, truth: Mapping[str, ClipTruth], chain: Chain) -> dict[str, Judged]:
    """The scores of every method; clips without a labelling count as wrong."""
    corpus = corpus.for_changes(chain.changes)
    judged = {}
    for name, method in METHODS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfeasibleClipWarning)
            found = method(corpus, chain)
        scores = [evaluate(result, corpus) for result in found]
        segments = [segment_scores(result, corpus, truth) for result in found]
        clips = scores[0] if len(scores) == 1 else mean_of_runs(scores)
        judged[name] = Judged(clips, mean_segments(segments))
    return judged


def mean_segments(runs: Sequence[tuple[SegmentScore, ...]]) -> tuple[SegmentScore, ...]:
    """Per-clip means over runs."""

    def mean(rows: Sequence[SegmentScore], name: str) -> tuple[float, ...]:
        return tuple(np.mean([getattr(row, name) for row in rows], axis=0).tolist())

    return tuple(
        SegmentScore(
            rows[0].clip,
            mean(rows, "f1"),
            float(np.mean([row.edit for row in rows])),
            mean(rows, "to_action"),
            mean(rows, "to_change"),
        )
        for rows in zip(*runs, strict=True)
    )


# --- tables -------------------------------------------------------------------------------------


def table(title: str, chains: Sequence[dict[str, Judged]], changes: int) -> Table:
    """A row per method: means over chains of this many changes, each of which counts the same."""
    states = [f"state {k}" for k in range(1, changes + 2)]
    actions = [f"action {k}" for k in range(1, changes + 1)]
    overlaps = [f"F1@{iou:g}" for iou in IOUS]
    rows = []
    for method in chains[0]:
        parts = [chain[method] for chain in chains]
        groups = [
            *([part.clips.each_action[:, k] for part in parts] for k in range(changes)),
            *([part.clips.precisions[:, k] for part in parts] for k in range(changes + 1)),
            *([part.f1(k) for part in parts] for k in range(len(IOUS))),
            [part.edit for part in parts],
        ]
        cells = [shown(interval(group)) for group in groups]
        rows.append((method, *cells, *(quantiles(parts, to) for to in ("to_action", "to_change"))))
    columns = ("method", *actions, *states, *overlaps, "edit", "to interval", "to change")
    return Table(title, columns, tuple(rows))


def quantiles(parts: Sequence[Judged], name: str) -> str:
    """Median and 90 % of the seconds of all actions found."""
    every = np.concatenate([part.seconds(name) for part in parts])
    return f"{np.median(every):.2f}, {np.quantile(every, 0.9):.2f}" if len(every) else ""


def differences(chains: Sequence[dict[str, Judged]]) -> Table:
    """Of ``joint`` to the other methods, on the same clips."""

    def scores(part: Judged, what: str) -> np.ndarray:
        if what == "F1@0.25":
            return part.f1(IOUS.index(0.25))
        columns = part.clips.each_action if what == "actions" else part.clips.precisions
        known = (~np.isnan(columns)).sum(axis=1)
        return np.asarray(np.nansum(columns, axis=1) / np.where(known, known, np.nan))

    rows = []
    for other in (name for name in chains[0] if name not in ("joint", "at best")):
        for what in ("actions", "states", "F1@0.25"):
            pairs = [(scores(each["joint"], what), scores(each[other], what)) for each in chains]
            rows.append((what, "joint", other, paired(pairs)))
    return comparison_table("Differences, clip by clip", rows)


def clip_rows(name: str, judged: dict[str, Judged]) -> list[dict[str, Any]]:
    """For JSON: a row per method and clip; null for NaN."""
    rows = []
    for method, part in judged.items():
        for score, segments in zip(part.clips.rows, part.segments, strict=True):
            row = {"chain": name, "method": method, **score.columns, **segments.columns}
            rows.append({key: plain_number(value) for key, value in row.items()})
    return rows


def manipulations(
    folder: Path, train: Path | None, tasks: Sequence[str] = (), *, crops: bool = True
) -> list[Manipulation]:
    """The chains in a folder, all unless ``tasks`` names some, with the clips to train on."""
    others = {} if train is None else {each.name: each for each in find_manipulations(train)}
    return [
        read_manipulation(where, others.get(where.name))
        for where in find_manipulations(folder, crops=crops)
        if not tasks or where.name in tasks
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--train", type=Path)
    parser.add_argument("--tasks", nargs="*", default=[])
    parser.add_argument("--no-crops", action="store_true")
    parser.add_argument("--detector", default="")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    settings = BenchmarkSettings(
        detector=options.detector,
        processes=options.processes,
        cache=options.cache or options.out / "cache",
    )
    by_length: dict[int, list[dict[str, Judged]]] = {}
    parts, rows = [], []
    crops = not options.no_crops
    for clips in manipulations(options.data, options.train, options.tasks, crops=crops):
        corpus = Stages(clips, options.out, settings, lambda *_: None).corpus
        chain = chain_of({clip.id: clips.truth[clip.id] for clip in clips.test}, state_names(clips))
        judged = judge(corpus, clips.truth, chain)
        by_length.setdefault(chain.changes, []).append(judged)
        rows += clip_rows(clips.name, judged)
        title = f"{clips.name}, {len(clips.test)} clips, {chain}"
        parts.append(to_markdown(table(title, [judged], chain.changes)))
        print(parts[-1], flush=True)
    for changes, chains in sorted(by_length.items()):
        mean = table(f"Mean over {len(chains)} chains of {changes} changes", chains, changes)
        parts += [to_markdown(mean), to_markdown(differences(chains))]
        print(*parts[-2:], sep="\n")
    (options.out / "table.md").write_text("\n".join(parts))
    (options.out / "clips.json").write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
