"""The paper's bags of words as chunk features: codebooks of all clips, then one bag per chunk.

Words are of two kinds: ``hof``, flow histograms along trajectories, and ``conv``, cells of a
feature map. Descriptors and words stay on disk; memory holds a sample and one group of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from objectstates.base.errors import CorpusError
from objectstates.base.row_table import GROUP, Rows
from objectstates.data.corpus import Array, Corpus
from objectstates.data.corpus_io import FeaturePieces
from objectstates.features.chunks import WINDOW_SECONDS, chunk_windows
from objectstates.features.codebook import (
    ROWS_AT_ONCE,
    Codebook,
    DescriptorSample,
    learn_codebook,
    merge_samples,
    sample_descriptors,
)
from objectstates.ingest.stored_observation import StoredObservation

WORDS = {"hof": 2000, "conv": 1000}  # sizes of the codebooks, the paper's
SAMPLED_AT_ONCE = 50_000  # descriptors


def learn_codebooks(stored: Sequence[StoredObservation], seed: int) -> dict[str, Codebook]:
    """Codebooks of the descriptors of all clips."""
    return {
        name: learn_codebook(_sample(name, stored, seed), size, seed=seed)
        for name, size in WORDS.items()
    }


def codebooks_of(corpus: Corpus) -> dict[str, Codebook]:
    """The codebooks that a corpus was made with."""
    for name in WORDS:
        words = corpus.arrays.get(f"{name}_words")
        if words is None or words.ndim != 2 or words.dtype.kind != "f":
            raise CorpusError(f"`like`: the corpus has no codebook {name}: make it again")
    return {name: Codebook(corpus.arrays[f"{name}_words"]) for name in WORDS}


def chunk_bags(
    stored: Sequence[StoredObservation],
    codebooks: dict[str, Codebook],
    scratch: Path | None,
    *,
    window: float = WINDOW_SECONDS,
) -> FeaturePieces:
    """The bags of words of all chunks, the kinds side by side; ``window`` is in seconds."""
    pieces = (bags for part in stored for bags in _bags(part, codebooks, scratch, window))
    return FeaturePieces(sum(map(len, codebooks.values())), pieces)


def _sample(name: str, stored: Sequence[StoredObservation], seed: int) -> DescriptorSample:
    size = stored[0].width(name)
    sample = DescriptorSample(np.empty(0, np.uint64), np.empty((0, size), np.float32))
    for part in stored:
        first = 0
        for rows in part.groups(name, SAMPLED_AT_ONCE):
            piece = sample_descriptors(part.clip.id, rows, first=first, seed=seed)
            sample = merge_samples([sample, piece])
            first += len(rows)
    return sample


def _bags(
    part: StoredObservation, codebooks: dict[str, Codebook], scratch: Path | None, window: float
) -> Iterator[Array]:
    """The bags of a clip's chunks, `GROUP` at a time."""
    words, windows = [], []
    for name, codebook in codebooks.items():
        words.append(Rows(1, np.int32, scratch))
        for rows in part.groups(name, ROWS_AT_ONCE):
            words[-1].extend(codebook.words(rows.astype(np.float32)))
        windows.append(_windows(part, name, window))
    for first in range(0, len(windows[0]), GROUP):
        some = slice(first, first + GROUP)
        parts = zip(codebooks.values(), words, windows, strict=True)
        bags = [_histograms(codebook, found, of[some]) for codebook, found, of in parts]
        yield np.concatenate(bags, axis=1)


def _windows(part: StoredObservation, name: str, window: float) -> Array:
    """(T, 2) range of the descriptors in the window of each chunk; they are in order of time."""
    times, counts = [np.empty(0)], [np.zeros(1, np.int64)]
    for some in part.groups(f"{name}_time", SAMPLED_AT_ONCE):
        distinct, count = np.unique(some, return_counts=True)
        times.append(distinct)
        counts.append(count)
    windows = chunk_windows(np.concatenate(times), part.chunk_span, window=window)
    return np.asarray(np.cumsum(np.concatenate(counts))[windows])


def _histograms(codebook: Codebook, words: Rows, windows: Array) -> Array:
    first, last = int(windows[0, 0]), int(windows[-1, 1])
    found = words.read(first, last)[:, 0]
    return np.stack([codebook.histogram(found[a:b]) for a, b in windows - first])
