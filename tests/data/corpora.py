"""Small corpora, and their comparison."""

from dataclasses import replace

import numpy as np

from objectstates import Box, ChangeProfile, Chunk, Clip, Corpus, Tracklet, TrackletLabel


def columns(**changes):
    """Two clips: two and three tracklets, two and one chunks."""
    rng = np.random.default_rng(0)
    return {
        "clip_ids": ["a", "b"],
        "tracklets_per_clip": [2, 3],
        "tracklet_start": [0.0, 1.0, 0.0, 0.0, 2.0],
        "tracklet_end": [1.0, 2.0, 1.0, 3.0, 3.0],
        "tracklet_features": rng.standard_normal((5, 4)),
        "chunks_per_clip": [2, 1],
        "chunk_start": [0.0, 0.4, 0.0],
        "chunk_end": [0.4, 0.8, 0.4],
        "chunk_features": rng.standard_normal((3, 6)),
        **changes,
    }


def profile(**changes):
    """Five bins from 10 s on, and a picture of two by three pixels."""
    curve = np.array([0.0, 0.25, 0.5, 0.0, 0.0], np.float32)
    where = np.array([[0, 10, 255], [0, 0, 128]], np.uint8)
    return replace(ChangeProfile(10.0, 0.4, curve, where, 106.5), **changes)


def plain_clips():
    feature = np.arange(4, dtype=np.float32)
    boxes = (Box(0.0, 1, 2, 3, 4), Box(0.5, 2, 3, 4, 5))
    tracklets = (
        Tracklet(0.0, 1.0, feature, score=0.5, boxes=boxes, label=TrackletLabel.STATE_1),
        Tracklet(1.0, 2.0, -feature, time=1.25, allowed=(False, True)),
    )
    chunks = (Chunk(0.0, 0.4, np.ones(2, np.float32), label=True, allowed=False),)
    first = Clip("first", tracklets, chunks, "some/video.mp4", 10.0, 12.0, profile())
    return [first, Clip("no tracklets", (), chunks)]


def comparable(change):
    if change is None:
        return None
    arrays = (change.curve, change.where, change.local, change.motion)
    numbers = change.start, change.step, change.scale
    return *numbers, *(x if x is None else (x.dtype, x.shape, x.tobytes()) for x in arrays)


def assert_same(one: Corpus, two: Corpus):
    assert one.clip_ids == two.clip_ids
    assert one.videos == two.videos
    assert one.spans == two.spans
    assert one.info == two.info
    assert list(map(comparable, one.changes)) == list(map(comparable, two.changes))
    for table in ("tracklets", "chunks"):
        for name, column in vars(getattr(one, table)).items():
            other = getattr(getattr(two, table), name)
            assert column.dtype == other.dtype, (table, name)
            np.testing.assert_array_equal(column, other)
