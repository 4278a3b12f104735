from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.base.errors import CorpusError, SettingError
from objectstates.features.codebook import (
    Codebook,
    DescriptorSample,
    learn_codebook,
    merge_samples,
    sample_descriptors,
)


def blobs(n_blobs=12, each=200, dim=8, seed=0):
    """Well separated clusters: rows (n, d), and which cluster each is of."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_blobs, dim)) * 10
    member = np.repeat(np.arange(n_blobs), each)
    rows = centres[member] + rng.normal(size=(len(member), dim)) * 0.1
    return rows.astype(np.float32), member


CLIPS = {f"clip {n}": blobs(seed=n)[0][: 100 + 300 * n] for n in range(5)}


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(list(CLIPS)), cuts=st.lists(st.integers(0, 1400), max_size=4))
def test_the_sample_depends_on_no_order_of_work(order, cuts):
    """Clips in any order, each in batches cut anywhere, merged through a tree."""
    whole = merge_samples((sample_descriptors(c, d, size=500) for c, d in CLIPS.items()), size=500)
    parts = []
    for clip in order:
        edges = sorted({0, len(CLIPS[clip]), *(c for c in cuts if c < len(CLIPS[clip]))})
        batches = [
            sample_descriptors(clip, CLIPS[clip][lo:hi], first=lo, size=500)
            for lo, hi in pairwise(edges)
        ]
        parts.append(merge_samples(batches, size=500))
    merged = merge_samples([merge_samples(parts[:2], size=500), *parts[2:]], size=500)
    assert merged.rows.tobytes() == whole.rows.tobytes()
    assert merged.ranks.tobytes() == whole.ranks.tobytes()


def test_the_same_sample_gives_the_same_codebook_whatever_the_order():
    samples = [sample_descriptors(clip, rows, size=2000) for clip, rows in CLIPS.items()]
    one, two = (learn_codebook(merge_samples(s), 20) for s in (samples, samples[::-1]))
    assert one.centres.tobytes() == two.centres.tobytes()


def test_the_sample_is_uniform_and_bounded():
    rows = np.arange(20_000, dtype=np.float32)[:, None]
    sample = sample_descriptors("a", rows, size=2000)
    assert len(sample) == 2000
    counts, _ = np.histogram(sample.rows, bins=10, range=(0, 20_000))
    assert (np.abs(counts - 200) < 60).all()  # more than four standard deviations


def test_clips_and_seeds_have_samples_of_their_own():
    rows = np.arange(1000, dtype=np.float32)[:, None]
    one, clip, seed = (
        set(sample_descriptors(name, rows, size=100, seed=s).rows.ravel().tolist())
        for name, s in (("a", 0), ("b", 0), ("a", 1))
    )
    assert len(one & clip) < 30
    assert len(one & seed) < 30


def test_words_are_the_clusters():
    rows, member = blobs()
    codebook = learn_codebook(sample_descriptors("a", rows), 12)
    words = codebook.words(rows)
    pairs = set(zip(words.tolist(), member.tolist(), strict=True))
    assert len(pairs) == 12  # a word per cluster and a cluster per word


def test_the_word_is_the_nearest_centre():
    rng = np.random.default_rng(1)
    codebook = Codebook(rng.normal(size=(50, 6)).astype(np.float32))
    rows = rng.normal(size=(9000, 6)).astype(np.float32)
    distances = ((rows[:, None] - codebook.centres[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(codebook.words(rows), distances.argmin(axis=1))


def test_a_bag_is_the_roots_of_frequencies():
    codebook = Codebook(np.array([[0.0], [10.0], [20.0]], np.float32))
    rows = np.array([[1.0], [-1.0], [19.0], [0.5]], np.float32)
    np.testing.assert_allclose(codebook.histogram(codebook.words(rows)) ** 2, [0.75, 0, 0.25])


def test_an_empty_bag_is_zero():
    codebook = Codebook(np.array([[0.0], [10.0]], np.float32))
    assert codebook.histogram(np.empty(0, np.int64)).tolist() == [0, 0]


def test_few_descriptors_make_few_words():
    rows = np.repeat(np.eye(4, dtype=np.float32), 3, axis=0)
    codebook = learn_codebook(sample_descriptors("a", rows), 10)
    assert len(codebook) == 4
    assert sorted(codebook.centres.tolist()) == sorted(np.eye(4).tolist())


def test_nothing_to_learn_from_is_an_error():
    nothing = DescriptorSample(np.empty(0, np.uint64), np.empty((0, 4), np.float32))
    with pytest.raises(CorpusError, match="no descriptors"):
        learn_codebook(nothing, 10)
    with pytest.raises(SettingError, match="`n_words` must be at least 1"):
        learn_codebook(sample_descriptors("a", blobs()[0]), 0)
