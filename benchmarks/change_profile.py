"""What the change profile and the automatic time scale contribute.

    python -m benchmarks.change_profile DATA --out FOLDER [--detector motion]

DATA is a folder as for ``objectstates benchmark``; only its test clips are used. The manipulations
are ingested with lengths that follow the clips and with the paper's (1 s, 0.4 s), and discovered
with and without the profile. Rows are means over manipulations with 95 % bounds. ``time`` is the
distance (s) from the action's time to the true action, 0 within it: median and 90 % of all clips.
``table.md`` and ``clips.json``, with a row per clip, are written to FOLDER.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from objectstates import Corpus, JointDiscovery, evaluate, label_corpus
from objectstates.base.choices import CHUNK_SECONDS, TRACKLET_SECONDS
from objectstates.data.result import Result
from objectstates.evaluation.baselines import METHODS, MethodSettings
from objectstates.evaluation.benchmark.manipulations import (
    Manipulation,
    find_manipulations,
    read_manipulation,
)
from objectstates.evaluation.bootstrap import Interval, interval, macro_mean
from objectstates.evaluation.precision import Evaluation
from objectstates.features.change_columns import WIDTHS
from objectstates.ingest.pipeline import IngestSettings, ingest_to
from objectstates.ingest.time_scale import Seconds

SCALES: dict[str, tuple[Seconds, Seconds]] = {  # lengths of tracklets and chunks
    "automatic": ("auto", "auto"),
    "fixed": (TRACKLET_SECONDS, CHUNK_SECONDS),
}
Judged = tuple[Evaluation, np.ndarray]  # and the distances of the action's time, in seconds


def without_profile(corpus: Corpus) -> Corpus:
    columns = corpus.chunks.features[:, : -len(WIDTHS)]
    return replace(corpus.with_features(chunks=columns), changes=(None,) * len(corpus))


def distances(result: Result, manipulation: Manipulation) -> np.ndarray:
    """(N,) seconds from the action's time to the true interval, 0 within it."""
    truth = [manipulation.truth[clip].action for clip in result.clips]
    start, end = np.array(truth, np.float64).T
    late = np.maximum(start - result.action_time, result.action_time - end)
    return np.asarray(np.maximum(late, 0), np.float64)


def judge(manipulation: Manipulation, out: Path, detector: str) -> Iterator[tuple[str, Judged]]:
    """Each condition's name, scores and distances on one manipulation."""
    for scale, (tracklet, chunk) in SCALES.items():
        path = out / "corpora" / f"{manipulation.name}-{scale}"
        if not path.exists():
            settings = IngestSettings(
                detector=detector, tracklet_seconds=tracklet, chunk_seconds=chunk
            )
            ingest_to(path, manipulation.test, settings, cache=out / "cache", processes=2)
        corpus = label_corpus(Corpus.load(path), manipulation.truth)
        if scale == "automatic":
            for name in ("chance", "middle"):
                yield name, (METHODS[name].run(corpus, MethodSettings()), np.empty(0))
        for profile, clips in (("with", corpus), ("without", without_profile(corpus))):
            result = JointDiscovery().fit(clips).result_
            scores = evaluate(result, clips), distances(result, manipulation)
            yield f"{scale} scale, {profile} profile", scores


def table(judged: dict[str, list[Judged]]) -> str:
    lines = ["| | states | recall | action | time |", "|---|---|---|---|---|"]
    for name, parts in judged.items():
        scores = [part for part, _ in parts]
        states, action = (
            interval([getattr(part, side) for part in scores]) for side in ("precisions", "actions")
        )
        apart = np.concatenate([each for _, each in parts])
        times = [np.median(apart), np.quantile(apart, 0.9)] if len(apart) else []
        cells = [
            name,
            shown(states),
            f"{macro_mean([part.recalls for part in scores]):.2f}".replace("nan", ""),
            shown(action),
            ", ".join(f"{time:.2f}" for time in times),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def shown(score: Interval) -> str:
    bounds = f" ({score.low:.2f}-{score.high:.2f})"
    return "" if np.isnan(score.mean) else f"{score.mean:.2f}{bounds}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--detector", default="motion")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    judged: dict[str, list[Judged]] = {}
    rows, parts = [], []
    for folder in find_manipulations(options.data):
        manipulation, own = read_manipulation(folder), dict[str, list[Judged]]()
        for name, scores in judge(manipulation, options.out, options.detector):
            judged.setdefault(name, []).append(scores)
            own[name] = [scores]
            for n, row in enumerate(scores[0].rows):
                apart = scores[1][n] if n < len(scores[1]) else None
                where = {"manipulation": manipulation.name, "condition": name, "time": apart}
                rows.append({**where, **row.columns})
        parts.append(f"**{manipulation.name}**, {len(manipulation.test)} clips\n\n{table(own)}")
        print(parts[-1], flush=True)
    text = "\n\n".join([*parts, f"**mean**\n\n{table(judged)}"]) + "\n"
    print(text)
    (options.out / "table.md").write_text(text)
    (options.out / "clips.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
