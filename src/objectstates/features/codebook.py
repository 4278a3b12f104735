"""Bags of words: a codebook learned on a sample of descriptors, and histograms of its words.

Every descriptor has a rank, a hash of (seed, clip, its index in the clip), and those of lowest rank
are kept, in order of rank: a uniform sample of bounded size, independent of how clips are spread
over processes. k-means runs on one thread, for sums over threads depend on their number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import CorpusError, SettingError

Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

SAMPLE_SIZE = 100_000
ROWS_AT_ONCE = 4096  # descriptors compared with all words at a time


@dataclass(frozen=True, slots=True)
class DescriptorSample:
    """ranks : (m,) ascending; rows : (m, d) the descriptors."""

    ranks: npt.NDArray[np.uint64]
    rows: Floats32

    def __len__(self) -> int:
        return len(self.ranks)


def sample_descriptors(
    clip: str, descriptors: Floats32, *, first: int = 0, size: int = SAMPLE_SIZE, seed: int = 0
) -> DescriptorSample:
    """Sample at most ``size`` of a clip's descriptors (n, d).

    first : how many descriptors of the clip came before these.
    """
    key = hashlib.blake2b(f"{seed}\0{clip}".encode(), digest_size=8).digest()
    index = np.arange(first, first + len(descriptors), dtype=np.uint64)
    ranks = _mixed(_mixed(index) ^ np.uint64(int.from_bytes(key, "little")))
    lowest = np.argsort(ranks, kind="stable")[:size]
    return DescriptorSample(ranks[lowest], np.asarray(descriptors, np.float32)[lowest])


def merge_samples(
    samples: Iterable[DescriptorSample], *, size: int = SAMPLE_SIZE
) -> DescriptorSample:
    """The sample of the union of disjoint sets of descriptors, from their samples."""
    parts = list(samples)
    if not parts:
        raise CorpusError("there is no sample of descriptors to merge")
    ranks = np.concatenate([part.ranks for part in parts])
    lowest = np.argsort(ranks, kind="stable")[:size]
    return DescriptorSample(ranks[lowest], np.concatenate([p.rows for p in parts])[lowest])


@dataclass(frozen=True, slots=True)
class Codebook:
    """centres : (K, d) of the words; the word of a descriptor is the nearest."""

    centres: Floats32

    def __len__(self) -> int:
        return len(self.centres)

    def words(self, descriptors: Floats32) -> Ints:
        """The word of each descriptor, (n,) from (n, d)."""
        words = np.empty(len(descriptors), np.int64)
        half_squares = (self.centres**2).sum(axis=1) / 2
        for at in range(0, len(descriptors), ROWS_AT_ONCE):
            some = slice(at, at + ROWS_AT_ONCE)
            words[some] = (half_squares - descriptors[some] @ self.centres.T).argmin(axis=1)
        return words

    def histogram(self, words: Ints) -> Floats32:
        """A bag of words as (K,) square roots of frequencies; zero without words.

        The root makes dot products of bags Hellinger similarities.
        """
        counts = np.bincount(words, minlength=len(self))
        return np.sqrt(counts / max(len(words), 1.0)).astype(np.float32)


def learn_codebook(sample: DescriptorSample, n_words: int, *, seed: int = 0) -> Codebook:
    """Cluster the sample by mini-batch k-means. Fewer distinct descriptors make fewer words."""
    if n_words < 1:
        raise SettingError(f"`n_words` must be at least 1, not {n_words}")
    if len(sample) == 0:
        raise CorpusError("there are no descriptors to learn a codebook from: nothing moves?")
    # Importing scikit-learn takes a second.
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    if len(sample) <= 2 * n_words:
        distinct = np.unique(sample.rows, axis=0)
        if len(distinct) <= n_words:
            return Codebook(distinct)
    model = MiniBatchKMeans(
        n_words, batch_size=4096, n_init=1, max_iter=30, random_state=seed, reassignment_ratio=0.0
    )
    with threadpool_limits(1):
        model.fit(sample.rows)
    return Codebook(np.asarray(model.cluster_centers_, np.float32))


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """splitmix64: a bijection of 64-bit integers whose bits all depend on one another."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
