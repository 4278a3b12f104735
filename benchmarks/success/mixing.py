"""Corpora in which some episodes fail.

The clips of a manipulation are divided into `FOLDS` parts. In each mixed corpus one part is
replaced by failed episodes, so that 20 % of the clips fail, and each clip fails once. Another part
*starts late*, shortly before its action: such clips are as short as failed ones, but succeed.
Without them the length of a clip would tell which ones were cut. One more corpus has no failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.success.footage import Episodes
from objectstates.data.clips import Clip
from objectstates.data.corpus import Corpus
from objectstates.data.truth import ClipTruth

FOLDS = 5
LEAD = 1.5  # seconds before the action at which a late clip starts


@dataclass(frozen=True, eq=False)
class Mixed:
    """A corpus, with failures of one kind; failed, late : (N,)."""

    name: str
    kind: str
    fold: int
    corpus: Corpus
    failed: np.ndarray
    late: np.ndarray


def mixed_corpora(episodes: Episodes, truth: dict[str, ClipTruth]) -> Iterator[Mixed]:
    """All mixed corpora of a manipulation, then the one without failures."""
    whole = list(episodes.whole)
    for kind, corpus in episodes.failed.items():
        failed = {clip.id.partition("+")[0]: clip for clip in corpus}
        for fold in range(FOLDS):
            clips = [
                failed[clip.id]
                if n % FOLDS == fold and clip.id in failed
                else starting_late(clip, truth[clip.id])
                if n % FOLDS == (fold + 1) % FOLDS
                else clip
                for n, clip in enumerate(whole)
            ]
            yield _mixed(episodes, kind, fold, clips)
    yield _mixed(episodes, "none", 0, whole)


def _mixed(episodes: Episodes, kind: str, fold: int, clips: list[Clip]) -> Mixed:
    corpus = Corpus.from_clips(clips, episodes.whole.info)
    failed = np.array(["+" in clip.id for clip in clips])
    late = np.array(
        [len(a.chunks) < len(b.chunks) for a, b in zip(clips, episodes.whole, strict=True)]
    )
    return Mixed(episodes.name, kind, fold, corpus, failed, late & ~failed)


def starting_late(clip: Clip, truth: ClipTruth) -> Clip:
    """The clip without what comes more than `LEAD` seconds before the action."""
    first = truth.action[0] - LEAD
    chunks = tuple(chunk for chunk in clip.chunks if chunk.start >= first)
    tracklets = tuple(row for row in clip.tracklets if row.start >= first)
    if len(chunks) == len(clip.chunks) or len(tracklets) < 2:
        return clip
    change = clip.change
    if change is not None:
        change = change.within(first, np.inf)
    return replace(clip, chunks=chunks, tracklets=tracklets, start=chunks[0].start, change=change)
