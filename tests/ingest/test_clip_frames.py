from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from objectstates.data.clips import EpisodeSpan
from objectstates.features.aligned_frames import SIDE
from objectstates.features.change_profile import ClipChange, clip_change
from objectstates.ingest import clip_frames
from objectstates.ingest.clip_frames import decoded_with_change, streamed
from objectstates.ingest.pipeline import IngestSettings, ingest
from objectstates.ingest.settings import ObserveSettings
from objectstates.video.clip_list import ClipSpan, RecordedEpisode
from objectstates.video.reader import probe
from tests.ingest.test_pipeline import FPS, scene
from tests.video.videos import write_images, write_video

SPANS = [(None, None, False), (0.5, 2.5, False), (0.5, 2.5, True)]


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clip")
    return write_video(folder / "a.mp4", scene(3), fps=FPS, options={"crf": "18"})


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize(("start", "end", "recorded"), SPANS)
def test_one_decoding_gives_what_two_do(video, start, end, recorded, every):
    span = EpisodeSpan(0, start or 0.0)
    episode = RecordedEpisode(video.parent, "front", span, 0, video) if recorded else None
    clip, settings = ClipSpan("a", video, start, end, episode), ObserveSettings()
    decoded = decoded_with_change(clip, probe(video), settings, every=every)
    assert decoded is not None
    with streamed(clip, settings, every=every) as source:
        expected = list(source.frames)
        frames, change = decoded
        for one, two in zip(frames.frames, expected, strict=True):
            assert (one.time, one.size, one.scale) == (two.time, two.size, two.scale)
            np.testing.assert_array_equal(one.gray, two.gray)
            np.testing.assert_equal(one.image, two.image)
        assert (frames.end(), frames.problems()) == (source.end(), source.problems())
    assert any(frame.image is not None for frame in expected)
    other = clip_change(video, start, end, origin=clip.origin)
    for field in fields(ClipChange):
        np.testing.assert_array_equal(getattr(change, field.name), getattr(other, field.name))
    assert max(change.amount.shape) <= SIDE


def test_a_clip_that_takes_too_much_memory_is_not_kept(video, monkeypatch):
    clip, settings, info = ClipSpan("a", video), ObserveSettings(), probe(video)
    pixels = info.duration * info.width * info.height
    needed = pixels * info.fps + pixels * 3 * settings.detect_fps
    for room, kept in ((1.05 * needed, True), (0.95 * needed, False)):
        monkeypatch.setattr(clip_frames, "MOST_BYTES", int(room))
        assert (decoded_with_change(clip, info, settings, every=False) is not None) == kept


def test_a_video_that_goes_on_after_its_declared_end_is_not_kept(video, monkeypatch):
    """Frames are counted, whatever length the file declares."""
    monkeypatch.setattr(clip_frames, "_expected_bytes", lambda *_args: 0.0)
    monkeypatch.setattr(clip_frames, "MOST_BYTES", 1 << 19)
    clip = ClipSpan("a", video)
    assert decoded_with_change(clip, probe(video), ObserveSettings(), every=False) is None


def test_an_image_that_cannot_be_read_is_counted_once(tmp_path):
    write_images(tmp_path / "images", range(20))
    damaged = sorted((tmp_path / "images").iterdir())[5]
    damaged.write_bytes(b"no image")
    clip = ClipSpan("a", tmp_path / "images")
    decoded = decoded_with_change(clip, probe(clip.video), ObserveSettings(), every=True)
    assert decoded is not None
    [problem] = decoded[0].problems()
    assert f"1 images cannot be read, beginning with {damaged.name}" in problem


@pytest.mark.parametrize("detector", ["motion", "boxes"])
def test_the_corpus_is_the_same_either_way(video, monkeypatch, detector):
    clips = [ClipSpan("a", video)]
    if detector == "boxes":
        rows = [f"{n + 1},1,20,20,60,60,0.8" for n in range(3 * FPS)]
        video.with_suffix(".csv").write_text("\n".join(rows) + "\n")
        detector = f"boxes:{video.with_suffix('.csv')}"
    settings = IngestSettings(detector=detector)
    one, _ = ingest(clips, settings)
    monkeypatch.setattr(clip_frames, "MOST_BYTES", 0)
    two, _ = ingest(clips, settings)
    assert len(one.tracklets.start)
    for table in ("tracklets", "chunks"):
        for name in ("features", "start", "end"):
            pair = [getattr(getattr(corpus, table), name) for corpus in (one, two)]
            np.testing.assert_array_equal(*pair)
    [a], [b] = list(one), list(two)
    assert a.change is not None
    assert b.change is not None
    np.testing.assert_array_equal(a.change.curve, b.change.curve)
