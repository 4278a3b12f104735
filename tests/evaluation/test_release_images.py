"""From the images of the release to labelled corpora."""

from dataclasses import replace

import numpy as np
import pytest

from objectstates.base.errors import CorpusError
from objectstates.data.formats.authors_metadata import read_metadata
from objectstates.data.formats.authors_release import clip_images, find_release, read_release
from objectstates.detect.precomputed_boxes import BoxesDetector
from objectstates.evaluation.release_images import (
    ImageSettings,
    boxes_as_coco,
    clip_spans,
    corpus_of_images,
    label_like_release,
)
from objectstates.video.reader import probe
from tests.release import make_release

ACTION = "open_fridge"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("release")
    make_release(root, ACTION, clips=2)
    return find_release(root)[ACTION]


@pytest.fixture(scope="module")
def metadata(files):
    return read_metadata(files.metadata)


@pytest.fixture(scope="module")
def images(files, metadata):
    return clip_images(metadata, files.images)


def test_the_annotations_of_the_release_label_its_own_tracklets_alike(files, metadata, images):
    corpus = read_release(files)
    again = label_like_release(corpus, metadata, images)
    np.testing.assert_array_equal(again.tracklets.label, corpus.tracklets.label)
    np.testing.assert_array_equal(again.chunks.label, corpus.chunks.label)


def test_a_box_elsewhere_is_a_false_positive(files, metadata, images):
    corpus = read_release(files)
    boxes = corpus.tracklets.boxes.copy()
    boxes[:, 1:] += 150.0
    moved = replace(corpus, tracklets=replace(corpus.tracklets, boxes=boxes))
    assert not label_like_release(moved, metadata, images).tracklets.label.any()


def test_a_tracklet_of_two_states_alike_is_ambiguous(files, metadata, images):
    """Half of its boxes lie in an annotated tracklet of state 1, half in one of state 2."""
    corpus = read_release(files)
    table, rows = corpus.tracklets, list(corpus.tracklet_rows(0))
    pair = [next(i for i in rows if table.label[i] == state) for state in (1, 2)]
    parts = [table.boxes[table.box_offsets[i] : table.box_offsets[i + 1]] for i in pair]
    counts = np.diff(table.box_offsets)
    counts[0] = len(parts[0]) + len(parts[1])
    joined = np.concatenate([*parts, table.boxes[table.box_offsets[1] :]])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    mixed = replace(corpus, tracklets=replace(table, boxes=joined, box_offsets=offsets))
    assert label_like_release(mixed, metadata, images).tracklets.label[0] == -2


def test_boxes_of_the_release_are_found_at_their_images(files, metadata, images, tmp_path):
    import json

    path = tmp_path / "boxes.json"
    path.write_text(json.dumps(boxes_as_coco(metadata)))
    detector = BoxesDetector(path)
    spans = clip_spans(metadata, images)
    for n, span in enumerate(spans):
        video = probe(span.video, image_fps=span.image_fps or 0)
        boxes = detector.for_clip(span, video)
        row = metadata.tracklet_rows(n)[0]
        expected = metadata.boxes[row][2]
        at = np.abs(boxes.times - 2 / metadata.rates[n]).argmin()
        found = boxes.boxes[boxes.starts[at] : boxes.starts[at + 1]]
        assert (np.abs(found - expected).max(axis=1) < 1e-3).any()


def test_clips_may_be_cut_around_the_action(metadata, images):
    for whole, part in zip(clip_spans(metadata, images), clip_spans(metadata, images, 1.5),
                           strict=True):  # fmt: skip
        assert whole.start is whole.end is None
        assert part.start is not None
        assert part.end is not None
        n = metadata.clips.index(part.id)
        rows = [i for i in metadata.chunk_rows(n) if metadata.chunk_label[i]]
        times = (metadata.chunk_time[rows] - images[part.id].first / metadata.rates[n]).tolist()
        assert part.start <= min(times)
        assert part.end >= max(times)
        assert part.end - part.start <= 3.6, "3 s, or the action"


def test_a_corpus_is_made_once_and_says_what_it_lacks(files, metadata, tmp_path, monkeypatch):
    settings = ImageSettings(appearance="lite0", cache=tmp_path / "cache")
    corpus, notes = corpus_of_images(files, tmp_path, settings)
    assert not notes
    assert corpus.clip_ids == metadata.clips
    assert corpus.chunks.features.shape[1] == 3000, "the paper's words"
    assert {0, 1, 2} <= set(corpus.tracklets.label.tolist())
    assert corpus.info["image_fps"] == dict(zip(metadata.clips, metadata.rates, strict=True))
    near_action = (corpus.chunks.label == 1).sum()
    assert 0 < near_action < len(corpus.chunks.label) / 2
    monkeypatch.setattr("objectstates.ingest.pipeline.ingest", None)
    again, _ = corpus_of_images(files, tmp_path, settings)
    np.testing.assert_array_equal(again.tracklets.features, corpus.tracklets.features)
    with pytest.raises(CorpusError, match="the metadata of open_fridge is missing"):
        corpus_of_images(replace(files, metadata=None), tmp_path, settings)
    with pytest.raises(CorpusError, match="`videos`: there are no images of open_fridge"):
        corpus_of_images(replace(files, images=None), tmp_path, settings)
