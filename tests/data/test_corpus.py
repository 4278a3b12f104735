from dataclasses import replace

import numpy as np
import pytest

from objectstates import Corpus
from objectstates.base.errors import CorpusError
from tests.data.corpora import columns, plain_clips, profile


def test_arrays_become_clips():
    corpus = Corpus.from_arrays(**columns())
    assert len(corpus) == 2
    clip = corpus[1]
    assert clip.id == "b"
    assert [(t.start, t.end, t.time) for t in clip.tracklets] == [
        (0, 1, 0.5),
        (0, 3, 1.5),
        (2, 3, 2.5),
    ]
    assert clip.tracklets[0].score == 1
    assert clip.tracklets[0].label is None
    assert corpus.tracklets.features.dtype == np.float32
    assert corpus[-1].id == "b"
    with pytest.raises(IndexError):
        corpus[2]


@pytest.mark.parametrize("name", ["local", "motion"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(4, np.float32), r"must be float32 of shape \(5,\), as the curve"),
        (np.zeros(5), "must be float32"),
        (np.full(5, -1, np.float32), "must have finite values of 0 or more"),
    ],
)
def test_curves_beside_the_curve_are_checked(name, values, message):
    first, second = plain_clips()
    with pytest.raises(CorpusError, match=f"{name} {message}"):
        Corpus.from_clips([replace(first, change=profile(**{name: values})), second])


def test_select_keeps_the_clips_asked_for():
    corpus = Corpus.from_clips([plain_clips()[0], replace(plain_clips()[0], id="second")])
    assert corpus.select(np.array([False, True])).clip_ids == corpus.select([-1]).clip_ids
    chosen = corpus.select([1, 0])
    assert chosen.clip_ids == ("second", "first")
    for mine, theirs in ((chosen[0], corpus[1]), (chosen[1], corpus[0])):
        assert mine.tracklets[0].boxes == theirs.tracklets[0].boxes
        np.testing.assert_array_equal(mine.tracklets[1].feature, theirs.tracklets[1].feature)


nan_features = np.ones((5, 4))
nan_features[3, 2] = np.nan


def floats(values):
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tracklet_start": [1.0, 0.0, 0, 0, 2], "tracklet_end": [2.0, 1.0, 1, 3, 3]},
         "clip 'a', tracklet 1: start 0 lies before the previous tracklet's: sort"),
        ({"tracklet_end": [1.0, 0.5, 1, 3, 3]},
         "clip 'a', tracklet 1: end 0.5 must lie after the start"),
        ({"tracklet_end": [1.0, 1.0, 1, 3, 3]}, "must lie after the start"),
        ({"chunk_end": [0.4, 0.8, -1]}, "clip 'b', chunk 0: end -1 must lie after the start"),
        ({"chunk_start": [0.4, 0.0, 0.0], "chunk_end": [0.8, 0.4, 0.4]}, "clip 'a', chunk 1.*sort"),
        ({"tracklet_start": [0, np.nan, 0, 0, 2]}, "tracklet 1: start nan must be finite"),
        ({"tracklet_time": [0, 1, 2, 3, np.inf]}, "time inf must be finite"),
        ({"tracklet_features": nan_features}, "clip 'b', tracklet 1: feature has values .*NaN"),
        ({"tracklet_features": np.full((5, 4), 1e300)}, "not finite"),
        ({"chunks_per_clip": [3, 0]}, "clip 'b' has no chunk"),
        ({"tracklet_end": [1.0, 2.0]}, "end has 2 rows, but the clips have 5 tracklets"),
        ({"tracklet_features": np.ones((4, 4))}, "features has 4 rows"),
        ({"tracklets_per_clip": [2, 2]}, "start has 5 rows, but the clips have 4"),
        ({"chunks_per_clip": [3]}, "2 clips, `chunks_per_clip` for 1"),
        ({"chunks_per_clip": [1.5, 1.5]}, "integers"),
        ({"tracklets_per_clip": [6, -1]}, "integers"),
        ({"clip_ids": ["a", "a"]}, "clip id 'a' occurs more than once"),
        ({"clip_ids": ["a"]}, "given for 2 of 1 clips|one video"),
        ({"clip_ids": ["a", ""]}, "non-empty"),
        ({"tracklet_score": [0, 0.5, 1, 1.5, 0]}, "score 1.5 must lie between 0 and 1"),
        ({"tracklet_score": [0, 0.5, 1, np.nan, 0]}, "score nan"),
        ({"tracklet_label": [0, 1, 2, 3, 9]}, "from 0 to 8"),
        ({"chunk_label": [0, 1, -2]}, "from 0 to 8"),
        ({"tracklet_allowed": np.ones((5, 3))}, "one action less than states"),
        ({"tracklet_allowed": np.ones(5)}, "one column per state"),
        ({"tracklet_features": np.ones(5)}, "must be a matrix"),
        ({"tracklet_features": [["x"] * 4] * 5}, "matrix of numbers"),
        ({"tracklet_start": ["x"] * 5}, "must be numbers"),
        ({"tracklets_per_clip": [], "chunks_per_clip": [], "clip_ids": []}, "no clips"),
        ({"changes": [None]}, "`changes` has 1 change profiles for 2 clips"),
        ({"changes": [None, profile(start=np.nan)]}, "clip 'b', change profile: start nan"),
        ({"changes": [None, profile(step=0.0)]}, "step 0 must be a number of seconds above 0"),
        ({"changes": [None, profile(curve=np.ones(3))]}, "curve must be float32 .* not float64"),
        ({"changes": [None, profile(curve=floats([0, -1]))]}, "finite values of 0 or more"),
        ({"changes": [None, profile(curve=floats([np.inf]))]}, "finite values of 0 or more"),
        ({"changes": [None, profile(curve=floats([]))]}, r"not float32 of \(0,\)"),
        ({"changes": [None, profile(where=np.ones((2, 3)))]}, "where must be uint8"),
        ({"changes": [None, profile(where=np.ones(3, np.uint8))]}, r"of shape \(h, w\)"),
        ({"changes": [None, profile(where=np.ones((2, 41), np.uint8))]}, "41 pixels wide"),
    ],
)  # fmt: skip
def test_bad_arrays_give_one_clear_error(changes, message):
    with pytest.raises(CorpusError, match=message) as caught:
        Corpus.from_arrays(**columns(**changes))
    assert "\n" not in str(caught.value)


def test_features_of_clips_must_agree_in_size():
    clip = plain_clips()[0]
    other = replace(clip, id="x", chunks=(replace(clip.chunks[0], feature=np.ones(3)),))
    with pytest.raises(CorpusError, match="chunk features differ in shape"):
        Corpus.from_clips([clip, other])
