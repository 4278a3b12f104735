"""Mixed corpora, and the tables about them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.success.footage import Episodes, without_action
from benchmarks.success.judging import Row, estimate, judged, table
from benchmarks.success.mixing import FOLDS, LEAD, mixed_corpora, starting_late
from benchmarks.trust.footage import Source
from objectstates.data.corpus import Corpus
from objectstates.data.truth import ClipTruth
from objectstates.discovery.progress import WEIGHTS
from objectstates.video.clip_list import ClipSpan
from tests.discovery.test_progress import episodes


@pytest.fixture(scope="module")
def source() -> Source:
    corpus = episodes(n_clips=10)
    clips = tuple(ClipSpan(name, Path(f"{name}.mp4"), 0.0, 8.0) for name in corpus.clip_ids)
    none = np.empty(0), np.empty((0, 4))
    truth = {name: ClipTruth.single(name, (3.8, 4.2), *none) for name in corpus.clip_ids}
    return Source("made", clips, truth)


@pytest.fixture(scope="module")
def made() -> Episodes:
    whole = episodes(n_clips=10)
    short = episodes(failed=tuple(range(10)), n_clips=10)
    failed = [replace(clip, id=f"{clip.id}+cut") for clip in short]
    return Episodes("made", whole, {"cut": Corpus.from_clips(failed)})


def test_failed_episodes_end_before_the_action(source: Source) -> None:
    found = list(without_action(source, "cut"))
    assert len(found) == 10
    assert all(clip.end == pytest.approx(3.7) for clip in found)
    assert found[0].id == "clip0+cut"


def test_every_clip_fails_once_and_a_fifth_at_a_time(made: Episodes, source: Source) -> None:
    *mixed, clean = mixed_corpora(made, dict(source.truth))
    assert len(mixed) == FOLDS
    assert not clean.failed.any()
    assert not clean.late.any()
    assert not any((one.late & one.failed).any() for one in mixed)
    assert np.sum([one.failed for one in mixed], axis=0).tolist() == [1] * 10
    assert {int(one.failed.sum()) for one in mixed} == {2}


def test_late_clips_start_shortly_before_the_action(made: Episodes, source: Source) -> None:
    late = starting_late(made.whole[0], source.truth["clip0"])
    assert late.chunks[0].start >= 3.8 - LEAD or late.id == made.whole[0].id
    assert late.chunks[-1].end == made.whole[0].chunks[-1].end


def test_clips_are_judged_one_by_one(made: Episodes, source: Source) -> None:
    mixed = next(mixed_corpora(made, dict(source.truth)))
    rows = judged(mixed, source)
    assert [row.failed for row in rows] == mixed.failed.tolist()
    assert all(0 <= row.chance <= 1 for row in rows)


def row(failed: bool, reached: str, name: str = "a", kind: str = "cut") -> Row:
    value = -1.0 if failed else 0.0
    return Row(
        name, kind, 0, "clip", failed, reached, 0.5, dict.fromkeys(WEIGHTS, value), False, 0.1, 0.2
    )


def test_the_table_has_precision_and_recall_of_not_reached() -> None:
    rows = [row(True, "no"), row(True, "unsure"), row(False, "no"), row(False, "yes")]
    line = table(rows).splitlines()[2]
    share = "0.50 (0.09-0.91)"
    assert line == f"| a | cut | 4 | 2 | 2 | {share} | {share} | 0/0; 1/2 | 0.25 | 0.10 | 0.20 |"


def test_weights_are_estimated_and_judged_on_other_manipulations() -> None:
    rows = [row(failed, "no", name) for name in "ab" for failed in (True, False)] * 5
    text = estimate(rows)
    assert "together: precision 1.00, recall 1.00" in text
