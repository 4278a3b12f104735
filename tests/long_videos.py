"""Long videos of synthetic clips, one after another, with or without what happens in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from objectstates import Chunk, Clip, Corpus, Tracklet
from objectstates.data.clips import ChangeProfile
from objectstates.data.synthetic import synthetic_corpus
from objectstates.evaluation.occurrences import Span

IDLE = 2  # clips whose beginning is idle time, before and after
Row = TypeVar("Row", Chunk, Tracklet)

CLOSED_OPEN_CLOSED = {"changes": 2, "pattern": "ABA", "noise": 0.5}


def once(n_clips: int = 10, **settings: object) -> Corpus:
    """Clips that show it once, to learn from."""
    return synthetic_corpus(n_clips, seed=0, **(CLOSED_OPEN_CLOSED | settings))  # type: ignore[arg-type]


def long_videos(counts: Sequence[int], seed: int = 5, **settings: object) -> Corpus:
    """A video for each of ``counts``, in which it happens so many times.

    It begins and ends with idle time: what precedes the first action in some clips.
    """
    source = synthetic_corpus(
        sum(counts) + 2 * IDLE * len(counts),
        seed=seed,
        **(CLOSED_OPEN_CLOSED | settings),  # type: ignore[arg-type]
    )
    clips, videos = iter(source), []
    for number, count in enumerate(counts):
        before = [_idle(next(clips)) for _ in range(IDLE)]
        after = [_idle(next(clips)) for _ in range(IDLE)]
        shown = [next(clips) for _ in range(count)]
        videos.append(_joined(f"video{number}", [*before, *shown, *after]))
    return Corpus.from_clips(videos, source.info)


def true_spans(videos: Corpus) -> dict[str, list[Span]]:
    """From the start of the first action to the end of the last, by the labels of chunks."""
    spans: dict[str, list[Span]] = {}
    n_actions = videos.n_states - 1
    for clip in videos:
        spans[clip.id] = []
        labels = [0, *(int(chunk.label or 0) for chunk in clip.chunks)]
        start = 0.0
        for chunk, before, label in zip(clip.chunks, labels, labels[1:], strict=False):
            if label == 1 and before != 1:
                start = chunk.start
            if before == n_actions and label != before:
                spans[clip.id].append((start, chunk.start))
    return spans


def _idle(clip: Clip) -> Clip:
    """What precedes the first action."""
    until = next(chunk.start for chunk in clip.chunks if chunk.label == 1)
    return replace(
        clip,
        chunks=tuple(chunk for chunk in clip.chunks if chunk.end <= until),
        tracklets=tuple(x for x in clip.tracklets if x.end <= until),
    )


def _joined(name: str, parts: Sequence[Clip]) -> Clip:
    chunks: list[Chunk] = []
    tracklets: list[Tracklet] = []
    time = 0.0
    for part in parts:
        by = time - part.chunks[0].start
        chunks += [_moved(chunk, by) for chunk in part.chunks]
        tracklets += [_moved(x, by) for x in part.tracklets]
        time = chunks[-1].end
    curve = np.zeros(round(time / 0.1), np.float32)
    change = ChangeProfile(0.0, 0.1, curve, np.zeros((3, 4), np.uint8))
    ordered = tuple(sorted(tracklets, key=lambda x: x.start))
    return Clip(name, ordered, tuple(chunks), f"{name}.mp4", 0.0, time, change)


def _moved(row: Row, by: float) -> Row:
    assert row.time is not None
    return replace(row, start=row.start + by, end=row.end + by, time=row.time + by)
