"""How far the verdict and the confidence per clip can be trusted.

    python -m benchmarks.trust ../shared/data --out trust [--simulated FOLDER ...] [--estimate]

Clips of several manipulations, simulated and real, are ingested with right and wrong detectors
(``footage.py``) and made into corpora, right ones and wrong ones of many kinds (``corpora.py``).
Each is fitted and judged. The manipulations of ``CHOSEN_ON`` served to choose measures, weights and
bounds; all others are only reported. ``--simulated`` adds clips of ``benchmarks.simulated``,
rendered with ``--seed 21 --clips 14`` (20 of window-open). ``--estimate`` prints weights for
``discovery/verdict.py`` and their scores when each manipulation is left out in turn.

``table.md`` has a row per corpus; ``answers.json`` the chance and truth of every answer;
``reliability.svg`` is the diagram in docs/evaluation.md. Ingest takes about an hour, and is cached.
"""

from __future__ import annotations

import argparse
import json
import pickle
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.trust.corpora import judged_corpora
from benchmarks.trust.diagram import reliability_diagram
from benchmarks.trust.estimate import estimate
from benchmarks.trust.footage import Footage, Source, all_sources
from benchmarks.trust.judging import Answers, Outcome, Side, answers, outcome, reliability, score
from objectstates.discovery.verdict import finding

SIDES: tuple[Side, Side] = ("action", "states")


def all_outcomes(sources: Sequence[Source], out: Path, processes: int) -> list[Outcome]:
    """Judge every corpus; those judged before are read from ``out``."""
    path, found = out / "outcomes.pickle", dict[tuple[str, str, bool], Outcome | None]()
    if path.exists():
        found = pickle.loads(path.read_bytes())  # noqa: S301 - written below
    for judged in judged_corpora(sources, Footage(out, processes)):
        key = judged.name, judged.kind, judged.chosen_on
        if key not in found:
            found[key] = outcome(judged)
            path.write_bytes(pickle.dumps(found))
            print(f"{judged.name}, {judged.kind}: judged", flush=True)
    return [one for one in found.values() if one is not None]


def left_out(outcomes: Sequence[Outcome], side: Side) -> list[Answers]:
    """The answers on each manipulation by weights estimated on the others."""
    parts: list[Answers] = []
    for name in sorted({one.name for one in outcomes}):
        weights = estimate([one for one in outcomes if one.name != name])
        parts += answers([one for one in outcomes if one.name == name], side, *weights)
    return parts


def table(parts: dict[Side, list[Answers]]) -> str:
    lines = [
        "| corpus | side | clips' answers right | expected | verdict |",
        "|---|---|---|---|---|",
    ]
    for side, every in parts.items():
        for part in sorted(every, key=lambda part: -part.expected):
            lines.append(
                f"| {part.name}, {part.kind} | {side} | {part.precision:.2f} | "
                f"{part.expected:.2f} | {finding(part.expected)} |"
            )
    return "\n".join(lines)


def summary(title: str, parts: dict[Side, list[Answers]]) -> str:
    lines = [
        f"**{title}**\n",
        "| side | corpora | right | called found | precision | recall | ROC area | calibration |",
        "|---|---|---|---|---|---|---|---|",
    ]
    both = [part for every in parts.values() for part in every]
    for side, every in (*parts.items(), ("both", both)):
        s = score(every)
        lines.append(
            f"| {side} | {s.corpora} | {s.right} | {s.found} | {s.precision:.2f} | {s.recall:.2f} "
            f"| {s.auc:.3f} | {s.ece:.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--simulated", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--estimate", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    sources = all_sources(options.data, options.simulated)
    outcomes = all_outcomes(sources, options.out, options.processes)
    chosen = [one for one in outcomes if one.chosen_on]
    reported = [one for one in outcomes if not one.chosen_on]
    if options.estimate:
        print(*estimate(chosen), sep="\n")
        print(summary("chosen on, each left out", {side: left_out(chosen, side) for side in SIDES}))
    parts = {side: answers(reported, side) for side in SIDES}
    text = f"{summary('reported', parts)}\n\n{table(parts)}\n"
    print(text)
    (options.out / "table.md").write_text(text)
    every = [part for side in parts.values() for part in side]
    (options.out / "reliability.svg").write_text(reliability_diagram(reliability(every)))
    rows = [
        {**asdict(part), "chance": part.chance.tolist(), "truth": part.truth.tolist(), "side": side}
        for side, group in parts.items()
        for part in group
    ]
    (options.out / "answers.json").write_text(json.dumps(rows) + "\n")


if __name__ == "__main__":
    main()
