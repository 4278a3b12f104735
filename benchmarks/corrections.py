"""What corrections by a person are worth, and in which order to ask for them.

    python -m benchmarks.corrections ../shared/data --out FOLDER [--only g1_bottle ...]

The clips are those of ``benchmarks.trust``, ingested with the ``motion`` detector: test clips of
simulated manipulations, and real ones. A person is simulated by the truth: a correction is a row
``action`` with the true interval. Clips are corrected in random order, typical ones first, and in
the order of ``discovery/ask_next.py``, by the chances of the first fit. Each draw has a seed of its
own, for the fit and the random order.

``untouched`` is the action precision of the clips that were not corrected, ``before`` that of the
same clips without corrections, ``all`` that of all clips, of which corrected ones are right. An
order that asks for difficult clips first leaves easy ones untouched: ``before`` shows by how much.
``needed`` is the number of corrections with which the precision of random order is reached, as a
share of those that random order takes: the mean over the numbers of corrections. Bounds are 95 %,
clips being resampled. ``corrections.md`` and ``corrections.json`` are written
to FOLDER.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.trust.footage import Footage, all_sources
from objectstates import Corpus, JointDiscovery
from objectstates.data.corrections import Correction
from objectstates.data.result import Result
from objectstates.data.truth import ClipTruth
from objectstates.discovery.ask_next import ask_next
from objectstates.evaluation.bootstrap import Interval, interval, paired
from objectstates.evaluation.precision import score_clip

Floats = npt.NDArray[np.float64]
COUNTS = (0, 1, 2, 4, 8, 12)
MOST = 0.6  # of the clips are corrected at most: fewer would be left to judge by
Order = Callable[[Result, Corpus, np.random.Generator], list[str]]


def shuffled(result: Result, corpus: Corpus, rng: np.random.Generator) -> list[str]:  # noqa: ARG001
    left = [clip for clip, done in zip(result.clips, result.corrected, strict=True) if not done]
    return [str(clip) for clip in rng.permutation(left)]


def typical(result: Result, corpus: Corpus, rng: np.random.Generator) -> list[str]:  # noqa: ARG001
    return list(ask_next(replace(result, confidences=None), corpus))


def least_likely(result: Result, corpus: Corpus, rng: np.random.Generator) -> list[str]:  # noqa: ARG001
    return list(ask_next(result, corpus))


ORDERS: Mapping[str, Order] = {
    "random": shuffled,
    "typical": typical,
    "ask next": least_likely,
}


class Curves(NamedTuple):
    """Per clip and number of corrections (draws, counts, clips): 1 right, 0 wrong.

    after : of clips that were not corrected, NaN elsewhere. ``before`` : the same clips without
    corrections. ``all`` : of all clips.
    """

    after: Floats
    before: Floats
    all: Floats


def true_correction(clip: str, truth: ClipTruth) -> Correction:
    return Correction(clip, "action", max(truth.action[0], 0.0), truth.action[1])


def actions_right(result: Result, corpus: Corpus) -> Floats:
    """(N,) whether the action of each clip is right; clips that were left out count as wrong."""
    right, at = np.zeros(len(corpus)), {clip: n for n, clip in enumerate(result.clips)}
    for n, clip in enumerate(corpus.clip_ids):
        if clip in at:
            score = score_clip(corpus, n, None, int(result.action_chunk[at[clip]]))
            right[n] = score.action
    return right


def curve(
    corpus: Corpus, truth: Mapping[str, ClipTruth], order: Order, counts: Iterable[int], seed: int
) -> list[tuple[Floats, Floats, Floats]]:
    """Of one draw, per number of corrections: after, before and all, each (N,)."""
    rng, ids = np.random.default_rng([seed, 1]), np.array(corpus.clip_ids, object)
    result = JointDiscovery(seed=seed).fit(corpus).result_
    asked = order(result, corpus, rng)
    first, points = actions_right(result, corpus), []
    for count in counts:
        corrected = asked[:count]
        if corrected:
            rows = [true_correction(clip, truth[clip]) for clip in corrected]
            model = JointDiscovery(seed=seed, verdict=False)
            result = model.fit(corpus, corrections=rows).result_
        right, touched = actions_right(result, corpus), np.isin(ids, corrected)
        after, before = (np.where(touched, np.nan, each) for each in (right, first))
        points.append((after, before, np.where(touched, 1.0, right)))
    return points


def curves(
    corpus: Corpus, truth: Mapping[str, ClipTruth], counts: list[int], draws: int
) -> dict[str, Curves]:
    found = {}
    for name, order in ORDERS.items():
        rows = np.array([curve(corpus, truth, order, counts, seed) for seed in range(draws)])
        found[name] = Curves(*(rows[:, :, part] for part in range(3)))
    return found


def per_clip(draws: Floats) -> Floats:
    """(N,) the mean over draws (draws, N), NaN for a clip that was corrected in all of them."""
    known = ~np.isnan(draws)
    total, count = np.where(known, draws, 0.0).sum(axis=0), known.sum(axis=0)
    return np.asarray(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))


def needed(ours: Floats, random: Floats, counts: list[int]) -> float:
    """The share of corrections with which the curve ``ours`` (counts,) reaches ``random``.

    Both are mean precisions per number of corrections, interpolated linearly. The mean over the
    numbers of corrections with which random order is better than without any; NaN if there are
    none. A precision that ``ours`` does not reach counts as the largest number.
    """
    shares = []
    for count, level in zip(counts[1:], random[1:], strict=True):
        if level <= random[0] + 1e-9:
            continue
        best, reached = np.maximum.accumulate(ours), float(counts[-1])
        above = int(np.argmax(best >= level - 1e-9)) if best[-1] >= level - 1e-9 else -1
        if above == 0:
            reached = 0.0
        elif above > 0:
            low, high = best[above - 1], best[above]
            share = (level - low) / (high - low)
            reached = counts[above - 1] + share * (counts[above] - counts[above - 1])
        shares.append(reached / count)
    return float(np.mean(shares)) if shares else np.nan


def table(groups: list[dict[str, Curves]], counts: list[int]) -> str:
    """Means over corpora, a row per order and number of corrections; then ``needed``."""
    lines = [
        "| order | corrected | untouched | before | change | all |",
        "|---|---|---|---|---|---|",
    ]
    for name in ORDERS:
        for k, count in enumerate(counts):
            parts = [group[name] for group in groups]
            after, before, everything = (
                [per_clip(getattr(part, which)[:, k]) for part in parts] for which in Curves._fields
            )
            change = paired(list(zip(after, before, strict=True)))
            cells = [
                name,
                str(count),
                shown(interval(after)),
                f"{interval(before).mean:.2f}",
                f"{change.difference:+.2f} ({change.low:+.2f} to {change.high:+.2f})",
                shown(interval(everything)),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| order | needed (untouched) | needed (all) |", "|---|---|---|"]
    for name in ORDERS:
        shares = [needed_of(groups, name, which, counts) for which in ("after", "all")]
        lines.append(f"| {name} | {shares[0]:.2f} | {shares[1]:.2f} |")
    return "\n".join(lines)


def needed_of(groups: list[dict[str, Curves]], name: str, which: str, counts: list[int]) -> float:
    """The mean of `needed` over corpora in which random order gains anything."""
    shares = []
    for group in groups:
        ours, random = (
            np.nanmean(np.nanmean(getattr(group[order], which), axis=2), axis=0)
            for order in (name, "random")
        )
        shares.append(needed(ours, random, counts))
    known = [share for share in shares if not np.isnan(share)]
    return float(np.mean(known)) if known else np.nan


def shown(score: Interval) -> str:
    return f"{score.mean:.2f} ({score.low:.2f}-{score.high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", help="names of manipulations")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    footage = Footage(options.out, options.processes)
    groups, texts, written = list[dict[str, Curves]](), list[str](), list[dict[str, Any]]()
    counts = sorted({0, *options.counts})
    for source in all_sources(options.data):
        if options.only and source.name not in options.only:
            continue
        corpus = footage.corpus(source, "motion")
        assert corpus is not None
        fit_counts = [count for count in counts if count <= MOST * len(corpus)]
        found = curves(corpus, source.truth, fit_counts, options.draws)
        text = f"**{source.name}**, {len(corpus)} clips\n\n{table([found], fit_counts)}"
        print(text, flush=True)
        groups.append(found)
        texts.append(text)
        rows = {name: {k: v.tolist() for k, v in c._asdict().items()} for name, c in found.items()}
        written.append({"manipulation": source.name, "counts": fit_counts, "curves": rows})
    common = [k for k in counts if all(k in entry["counts"] for entry in written)]
    cut = [
        {name: Curves(*(part[:, : len(common)] for part in c)) for name, c in group.items()}
        for group in groups
    ]
    text = "\n\n".join([*texts, f"**mean**\n\n{table(cut, common)}"]) + "\n"
    print(text)
    (options.out / "corrections.md").write_text(text)
    draws = json.dumps(written).replace("NaN", "null")
    (options.out / "corrections.json").write_text(draws + "\n")


if __name__ == "__main__":
    main()
