"""The lengths of tracklets and chunks follow those of the clips."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectstates import Corpus, JointDiscovery
from objectstates.base.errors import CorpusError
from objectstates.ingest.pipeline import IngestSettings, ingest, settings_of
from objectstates.ingest.time_scale import (
    MOST_FPS,
    PAPER_SAMPLES,
    PROBED,
    SAMPLES,
    TimeScale,
    scale_for,
    tracklet_for,
)
from objectstates.video.clip_list import ClipSpan, find_clips
from objectstates.video.reader import probe
from tests.ingest.test_pipeline import scene
from tests.video.videos import bad_file, gray, write_images, write_video

USUAL = TimeScale(1.0, 0.4)
DURATIONS = st.floats(0.5, 3600)


def lengths_of(clips, **options):
    return tuple(asdict(scale_for(clips, **options)).values())


@given(DURATIONS, DURATIONS)
def test_longer_clips_never_have_shorter_tracklets(one, two):
    short, long = sorted((one, two))
    assert tracklet_for(short) <= tracklet_for(long)


@given(DURATIONS)
def test_a_clip_has_some_tracklets_and_not_too_many(duration):
    assert 0.2 <= tracklet_for(duration) <= 4.0
    if 1.0 <= duration <= 60:
        assert 5 <= duration / tracklet_for(duration) <= 35


@given(st.floats(7, 20))
def test_clips_of_about_15_seconds_keep_the_papers_lengths(duration):
    assert tracklet_for(duration) == 1.0


def test_the_papers_scale_is_what_it_was():
    assert TimeScale() == USUAL
    assert (USUAL.window_seconds, USUAL.shortest_track, USUAL.longest_track) == (1.2, 0.4, 10.0)
    assert USUAL.detect_fps(PAPER_SAMPLES) == 5.0
    assert (USUAL.detect_fps(), USUAL.flow_fps, USUAL.track_fps) == (2.5, 6.25, 12.5)


@given(st.floats(0.01, 60), st.floats(0.01, 60))
def test_the_parts_of_a_scale_fit_each_other(tracklet, chunk):
    scale = TimeScale(tracklet, chunk)
    assert 2.5 <= scale.detect_fps() <= scale.flow_fps <= scale.track_fps <= MOST_FPS
    assert scale.shortest_track <= tracklet < scale.longest_track
    assert scale.window_seconds == pytest.approx(3 * chunk, abs=1e-6)
    for samples in (SAMPLES, PAPER_SAMPLES):
        rate = scale.detect_fps(samples)
        if rate < MOST_FPS:
            assert rate * tracklet >= samples - 1e-9
            assert rate * chunk >= 0.4 * samples - 1e-9


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """A video of 2 s and one of 16 s, at 25 frames per second."""
    root = tmp_path_factory.mktemp("videos")
    write_video(root / "short.mp4", gray(50))
    write_video(root / "long.mp4", gray(400))
    return root


def test_the_median_clip_decides(videos):
    short, long = ClipSpan("s", videos / "short.mp4"), ClipSpan("l", videos / "long.mp4")
    assert lengths_of([short, short, long]) == (0.2, 0.08)
    assert lengths_of([short, long, long]) == (1.0, 0.4)


def test_spans_count_and_not_their_videos(videos):
    spans = [ClipSpan(f"{k}", videos / "long.mp4", float(k), k + 2.0) for k in range(3)]
    assert lengths_of(spans) == (0.2, 0.08)
    beyond = ClipSpan("b", videos / "long.mp4", 14.0, 1000.0)
    assert lengths_of([beyond]) == (0.2, 0.08), "it ends with the video"


def test_what_is_given_is_kept(videos):
    clips = find_clips([videos / "short.mp4"])
    assert lengths_of(clips, tracklet_seconds=0.5) == (0.5, 0.2)
    assert lengths_of(clips, chunk_seconds=0.3) == (0.2, 0.3)
    assert lengths_of([ClipSpan("none", videos / "none.mp4")], tracklet_seconds=2) == (2.0, 0.8)


def test_clips_that_cannot_be_opened_do_not_count(videos, tmp_path):
    bad = [ClipSpan(kind, bad_file(tmp_path, kind)) for kind in ("empty", "text")]
    assert lengths_of([*bad, ClipSpan("s", videos / "short.mp4")]) == (0.2, 0.08)
    assert lengths_of(bad) == (1.0, 0.4)


def test_a_chunk_has_at_least_a_frame(tmp_path):
    write_images(tmp_path / "images", range(1, 11), "%04d.png")
    clips = find_clips([tmp_path / "images"])
    assert lengths_of(clips, image_fps=5.0) == (0.5, 0.2)
    assert lengths_of(clips, image_fps=0.5) == (2.5, 1.0), "20 s, but frames are 2 s apart"


def test_few_clips_of_many_are_opened(videos, monkeypatch):
    opened = []

    def counted(path, *, image_fps):
        opened.append(path)
        return probe(path, image_fps=image_fps)

    monkeypatch.setattr("objectstates.ingest.time_scale.probe", counted)
    clips = [ClipSpan(f"{k}", videos / "short.mp4") for k in range(1001)]
    assert scale_for(clips).tracklet_seconds == 0.2
    assert 100 < len(opened) <= PROBED


# --- of a corpus ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def short_clips(tmp_path_factory):
    """Three clips of two seconds, as a video that is played fast."""
    root = tmp_path_factory.mktemp("short")
    for seed in range(3):
        write_video(root / f"{seed}.mp4", scene(seed, seconds=5.0), fps=25, options={"crf": "18"})
    return find_clips([root])


@pytest.fixture(scope="module")
def corpus(short_clips):
    return ingest(short_clips, IngestSettings())[0]


def test_short_clips_have_several_tracklets_before_and_after_the_change(corpus):
    for n in range(len(corpus)):
        rows = list(corpus.tracklet_rows(n))
        assert (corpus.tracklets.end[rows] < 0.7).sum() >= 3
        assert (corpus.tracklets.start[rows] > 1.3).sum() >= 3
    model = JointDiscovery(max_passes=150).fit(corpus)
    assert (np.abs(model.action_time_ - 1.0) < 0.5).all()


def test_a_corpus_knows_the_lengths_used_and_those_asked_for(corpus, short_clips):
    facts = corpus.info["ingest"]
    assert (facts["tracklet_seconds"], facts["chunk_seconds"]) == (0.2, 0.08)
    assert facts["asked"] == {"tracklet_seconds": "auto", "chunk_seconds": "auto"}
    assert settings_of(corpus).scale(short_clips) == TimeScale(0.2, 0.08)


def test_the_papers_words_have_the_papers_lengths(short_clips):
    settings = IngestSettings(chunks="paper")
    assert settings.scale(short_clips) == USUAL
    given = IngestSettings(chunks="paper", tracklet_seconds=0.5)
    assert given.scale(short_clips) == TimeScale(0.5, 0.4)


def test_new_clips_are_cut_as_those_the_model_was_learned_on(corpus, short_clips, tmp_path):
    model = JointDiscovery(max_passes=50).fit(corpus)
    write_video(tmp_path / "long.mp4", scene(5, seconds=40.0), fps=25)
    clips = find_clips([tmp_path / "long.mp4"])
    like, _ = ingest(clips, settings_of(corpus), like=corpus)
    assert like.info["ingest"]["tracklet_seconds"] == 0.2
    assert np.median(like.chunks.end - like.chunks.start) == pytest.approx(0.08)
    assert len(model.predict(like).clips) == 1
    other, _ = ingest(clips, IngestSettings())
    with pytest.raises(CorpusError, match=r"tracklets of 1 s.*tracklets of 0\.2 s.*`like`"):
        model.predict(other)


def test_one_more_clip_takes_the_others_from_the_cache(short_clips, tmp_path):
    _, first = ingest(short_clips[:2], IngestSettings(), cache=tmp_path / "cache")
    _, second = ingest(short_clips, IngestSettings(), cache=tmp_path / "cache")
    assert (first.observed, second.observed, second.kept) == (2, 1, 2)
    changed = IngestSettings(tracklet_seconds=0.4)
    _, third = ingest(short_clips, changed, cache=tmp_path / "cache")
    assert third.kept == 0


def test_the_command_says_which_lengths_it_used(short_clips, tmp_path, monkeypatch, capsys):
    from objectstates import cli

    (tmp_path / "s.toml").write_text('[ingest]\ntracklet_seconds = 0.5\nchunk_seconds = "auto"\n')
    video, out = str(short_clips[0].video), str(tmp_path / "corpus")
    common = ["objectstates", "ingest", video, "--out", out, "--no-cache", "--json"]
    config = ["--config", str(tmp_path / "s.toml")]
    for words, tracklet in (
        ([], 0.2),
        (config, 0.5),
        ([*config, "--tracklet-seconds", "auto"], 0.2),
        ([*config, "--paper", "--chunks", "dense", "--appearance", "lite0"], 1.0),
    ):
        monkeypatch.setattr("sys.argv", [*common, *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        told = json.loads(capsys.readouterr().out)
        assert told["chunk_seconds"] == pytest.approx(0.4 * tracklet)
        assert Corpus.load(out).info["ingest"]["tracklet_seconds"] == tracklet
