"""Long clips in segments: one corpus, whatever the processes, and little to redo after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from objectstates.base.cache import ArrayCache, content_digest
from objectstates.base.errors import VideoError
from objectstates.data.corpus import Corpus
from objectstates.features import change_profile
from objectstates.features.aligned_frames import read_aligned
from objectstates.features.change_columns import WIDTHS
from objectstates.features.object_motion import OBJECT_MOTION_DIM
from objectstates.ingest import observe as observation
from objectstates.ingest import schedule, worker
from objectstates.ingest.pipeline import IngestSettings, Progress, ingest, ingest_to
from objectstates.ingest.segments import MOST_SEGMENTS, segments_of
from objectstates.video.clip_list import ClipSpan, find_clips
from objectstates.video.reader import VideoInfo, probe
from tests.ingest.test_pipeline import BOX, FPS, files, scene
from tests.video.videos import write_images, write_video

SECONDS = 7.0  # of the video
BORDERS = (2.24, 4.16, 6.08)  # of segments of 2 s: at every second sampled frame, 0.32 s apart
SHORT: dict[str, Any] = {"tracklet_seconds": 0.4, "chunk_seconds": 0.16}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A video with a key frame every 1.2 s, and the boxes of its object in every second frame."""
    root = tmp_path_factory.mktemp("long")
    (root / "boxes").mkdir()
    count = round(SECONDS * FPS)
    write_video(root / "a.mp4", scene(3, SECONDS), fps=FPS, options={"crf": "18"})
    x1, y1, x2, y2 = BOX
    rows = [f"{i + 1},1,{x1},{y1},{x2 - x1},{y2 - y1},0.9" for i in range(0, count, 2)]
    (root / "boxes" / "a.csv").write_text("\n".join(rows) + "\n")
    return root


@pytest.fixture
def by_two_seconds(monkeypatch):
    monkeypatch.setattr(schedule, "SEGMENT_SECONDS", 2.0)


@pytest.fixture
def observed_spans(monkeypatch) -> list[tuple[float | None, float | None]]:
    """The spans that are observed in this process."""
    spans: list[tuple[float | None, float | None]] = []

    def observe(clip, *rest, **options):
        spans.append((clip.start, clip.end))
        return observation.observe(clip, *rest, **options)

    monkeypatch.setattr(worker, "observe", observe)
    return spans


def with_boxes(folder: Path, **changes) -> IngestSettings:
    return IngestSettings(**{"detector": f"boxes:{folder / 'boxes'}", **SHORT, **changes})


def clip_of(folder: Path) -> ClipSpan:
    return find_clips([folder / "a.mp4"])[0]


def dense(corpus: Corpus, part: slice) -> np.ndarray:
    return corpus.chunks.features[:, part]


MOTION = slice(0, OBJECT_MOTION_DIM)
FRAME = slice(OBJECT_MOTION_DIM, -len(WIDTHS))


# --- where segments begin and end -----------------------------------------------------------------


def described(duration: float, fps: float = 25.0) -> VideoInfo:
    return VideoInfo(Path("images"), 64, 48, duration, fps)


@pytest.fixture
def images(tmp_path):
    """A clip of a folder of images, whatever the duration: any frame of it can be read at once."""
    write_images(tmp_path / "images", range(1, 3), "%06d.jpg")
    return ClipSpan("a", tmp_path / "images")


@pytest.mark.parametrize(
    ("duration", "count"), [(1.0, 1), (89.9, 1), (90.1, 2), (149.0, 2), (1800.0, 30), (0.0, 1)]
)
def test_segments_last_a_minute_and_no_rest_is_short(images, duration, count):
    spans = segments_of(images, described(duration), 2.5)
    assert len(spans) == count
    assert (spans[0].start, spans[-1].end) == (None, None), "as far as the video really goes"
    edges = [0.0, *(span.end for span in spans[:-1] if span.end is not None), duration]
    assert edges == pytest.approx([60 * k for k in range(count)] + [duration], abs=0.001)


@pytest.mark.parametrize("fps", [2.5, 6.25, 12.5, 25.0, 2.5 / 0.7])
@pytest.mark.parametrize("start", [None, 0.0, 3.17, 100.01])
def test_segments_meet_where_frames_are_sampled(images, fps, start):
    clip = replace(images, start=start, end=500.0)
    spans = segments_of(clip, described(1000.0), fps)
    assert len(spans) == round((500 - (start or 0)) / 60)
    for one, other in pairwise(spans):
        assert one.end == other.start
        assert other.start is not None
        periods = other.start * fps
        assert abs(periods - round(periods)) < 1e-5
        assert 0 <= (other.start + 1e-5 - (start or 0)) % 60 <= 2 / fps + 1e-4


def test_a_wrong_duration_makes_no_end_of_segments(images):
    assert len(segments_of(images, described(1e12), 2.5)) == MOST_SEGMENTS
    assert len(segments_of(images, described(float("inf")), 2.5)) == MOST_SEGMENTS


def test_a_video_with_few_key_frames_is_not_decoded_again_and_again(tmp_path):
    options = {"g": "1000", "keyint_min": "1000", "sc_threshold": "0"}
    one = write_video(tmp_path / "one.mp4", scene(0), fps=FPS, options=options)
    cut = partial(segments_of, detect_fps=2.5, seconds=1.6)
    assert len(cut(ClipSpan("a", one), probe(one))) == 1
    options = {"g": "24", "keyint_min": "24", "sc_threshold": "0"}  # at 0, 2.4, 4.8 and 7.2 s
    some = write_video(tmp_path / "some.mp4", scene(0, 9), fps=FPS, options=options)
    spans = cut(ClipSpan("a", some), probe(some))
    assert [span.start or 0 for span in spans] == pytest.approx([0, 3.2, 6.4, 8.0], abs=1e-5)


# --- the corpus -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(folder):
    """The corpus of the video as one segment."""
    return ingest([clip_of(folder)], with_boxes(folder))[0]


@pytest.mark.usefixtures("by_two_seconds")
def test_chunks_do_not_know_of_segments(folder, whole, observed_spans):
    corpus, report = ingest([clip_of(folder)], with_boxes(folder))
    assert [start for start, _ in observed_spans[1:]] == pytest.approx(BORDERS, abs=1e-5)
    assert (report.failed, report.frames, report.observed) == ((), round(SECONDS * FPS), 1)
    assert corpus.spans == whole.spans
    np.testing.assert_array_equal(corpus.chunks.start, whole.chunks.start)
    np.testing.assert_array_equal(corpus.chunks.end, whole.chunks.end)
    np.testing.assert_array_equal(dense(corpus, FRAME), dense(whole, FRAME))
    ours, one = corpus.changes[0], whole.changes[0]
    assert ours is not None
    assert one is not None
    np.testing.assert_array_equal(ours.curve, one.curve)
    np.testing.assert_array_equal(ours.where, one.where)
    times = corpus.chunks.time
    same = np.abs(times[:, None] - np.array(BORDERS)).min(axis=1) > 0.4  # flow starts anew there
    same &= np.abs(times - SECONDS / 2) > 1.5  # a hand passes the object, and boxes differ
    assert same.sum() > 12
    np.testing.assert_allclose(dense(corpus, MOTION)[same], dense(whole, MOTION)[same], atol=1e-5)
    assert np.abs(dense(corpus, MOTION) - dense(whole, MOTION)).mean() < 0.01


@pytest.mark.usefixtures("by_two_seconds")
def test_tracklets_are_on_both_sides_of_a_border_and_not_across(folder, whole):
    corpus, _ = ingest([clip_of(folder)], with_boxes(folder))
    rows = corpus.tracklets
    assert (np.diff(rows.start) >= 0).all()
    times = np.split(rows.boxes[:, 0], rows.box_offsets[1:-1])
    for border in BORDERS:
        assert not any(own[0] < border < own[-1] for own in times)
        assert any(border - 0.15 < own[-1] < border for own in times)
        assert any(border < own[0] < border + 0.15 for own in times)
    covered = [(c.tracklets.end - c.tracklets.start).sum() for c in (corpus, whole)]
    assert covered[0] > 0.9 * covered[1]


@pytest.mark.parametrize("detector", ["boxes", "motion"])
@pytest.mark.usefixtures("by_two_seconds")
def test_same_bytes_whatever_the_processes_and_the_cache(folder, tmp_path, detector):
    settings = with_boxes(folder) if detector == "boxes" else IngestSettings(**SHORT)
    other = write_video(tmp_path / "b.mp4", scene(4, 2.5), fps=FPS)
    (folder / "boxes" / "b.csv").write_text((folder / "boxes" / "a.csv").read_text())
    clips = [clip_of(folder), *find_clips([other])]
    cache = tmp_path / "cache"
    for name, options in {
        "one": {},
        "two": {"processes": 2},
        "three": {"processes": 3, "cache": cache},
        "cached": {"cache": cache},
    }.items():
        _, report = ingest_to(tmp_path / name, clips, settings, **options)
        assert report.failed == ()
        assert (report.observed, report.kept) == ((0, 2) if name == "cached" else (2, 0))
        assert files(tmp_path / name) == files(tmp_path / "one")


@pytest.mark.usefixtures("by_two_seconds")
def test_bags_of_words_go_on_across_borders(folder, monkeypatch):
    monkeypatch.setattr("objectstates.ingest.bag_of_words.WORDS", {"hof": 20, "conv": 30})
    settings = with_boxes(folder, chunks="paper")
    parts, _ = ingest([clip_of(folder)], settings)
    monkeypatch.setattr(schedule, "SEGMENT_SECONDS", 60.0)
    one, _ = ingest([clip_of(folder)], settings)
    np.testing.assert_array_equal(parts.arrays["conv_words"], one.arrays["conv_words"])
    np.testing.assert_array_equal(parts.chunks.features[:, 20:], one.chunks.features[:, 20:])


@pytest.mark.usefixtures("by_two_seconds")
def test_an_image_folder_has_segments_too(tmp_path, observed_spans):
    write_images(tmp_path / "images", range(1, 131), "%06d.jpg")
    corpus, report = ingest(find_clips([tmp_path / "images"]), IngestSettings(**SHORT))
    assert len(observed_spans) == 3
    assert report.frames == 130
    assert corpus.spans[0] is not None
    assert corpus.spans[0] == pytest.approx((0.0, 5.2))


# --- what is kept ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("by_two_seconds")
def test_only_missing_segments_are_observed_again(folder, tmp_path, observed_spans):
    cache, clip = tmp_path / "cache", clip_of(folder)
    _, first = ingest([clip], with_boxes(folder), cache=cache)
    assert (first.observed, first.kept) == (1, 0)
    spans = list(observed_spans)
    observed_spans.clear()
    # Entries of the second segment vanish, as if the run had been killed before it was done.
    for path in cache.rglob("*.npz"):
        entry = ArrayCache(cache).get(path.stem) or {}
        if "span" in entry and 1.9 < entry["span"][0] < 2.5:
            path.unlink()
    corpus, second = ingest([clip], with_boxes(folder), cache=cache)
    assert observed_spans == [spans[1]]
    assert (second.observed, second.kept) == (1, 0)
    assert second.frames == first.frames
    fresh, _ = ingest([clip], with_boxes(folder))
    np.testing.assert_array_equal(corpus.chunks.features, fresh.chunks.features)
    observed_spans.clear()
    _, third = ingest([clip], with_boxes(folder), cache=cache)
    assert observed_spans == []
    assert (third.observed, third.kept) == (0, 1)


KILLED = """
import sys
from objectstates.ingest import schedule
from objectstates.ingest.pipeline import IngestSettings, ingest_to
from objectstates.video.clip_list import find_clips
from pathlib import Path

schedule.SEGMENT_SECONDS = 2.0
video, boxes, cache, processes = sys.argv[1:]
settings = IngestSettings(f"boxes:{boxes}", tracklet_seconds=0.4, chunk_seconds=0.16)
clips = find_clips([video])
ingest_to(Path(cache) / "c", clips, settings, cache=Path(cache), processes=int(processes))
"""


def test_a_killed_run_loses_the_running_segments_at_most(
    folder, tmp_path, observed_spans, monkeypatch
):
    """kill -9 once some segments of one long video are in the cache."""
    video = write_video(tmp_path / "a.mp4", scene(3, 40), fps=FPS, options={"crf": "18"})
    cache = tmp_path / "cache"

    def stored() -> int:
        """Segments in the cache."""
        found = [ArrayCache(cache).get(path.stem) or {} for path in cache.rglob("*.npz")]
        return sum("span" in entry for entry in found)

    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, video, folder / "boxes", cache, "2"],
        stdout=subprocess.DEVNULL,
    )
    while process.poll() is None and len(list(cache.rglob("*.npz"))) < 9:
        time.sleep(0.02)
    assert process.poll() is None, "it was over before it could be killed"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.5)  # its workers end with it
    before = stored()
    assert before >= 3
    monkeypatch.setattr(schedule, "SEGMENT_SECONDS", 2.0)
    _, report = ingest(find_clips([video]), with_boxes(folder), cache=cache)
    assert report.failed == ()
    assert stored() == 20
    assert len(observed_spans) == 20 - before


@pytest.mark.usefixtures("by_two_seconds")
def test_detections_of_segments_serve_other_settings(folder, tmp_path, monkeypatch):
    from objectstates.detect.precomputed_boxes import ClipBoxes

    calls: list[int] = []
    detect = ClipBoxes.detect

    def counted(self, frames):
        calls.append(len(frames))
        return detect(self, frames)

    clip = clip_of(folder)
    ingest([clip], with_boxes(folder), cache=tmp_path)
    monkeypatch.setattr(ClipBoxes, "detect", counted)
    _, report = ingest([clip], with_boxes(folder, context=1.6), cache=tmp_path)
    assert (report.observed, calls) == (1, [])


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.usefixtures("by_two_seconds")
def test_the_video_is_read_once_for_its_change_and_hashed_once(
    folder, tmp_path, monkeypatch, cached
):
    """The detector ``motion`` needs the change of the whole clip in every segment."""
    counts = {"read": 0, "hashed": 0}

    def counted(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            counts[name] += 1
            return function(*args, **options)

        return call

    monkeypatch.setattr(change_profile, "read_aligned", counted("read", read_aligned))
    monkeypatch.setattr(worker, "content_digest", counted("hashed", content_digest))
    cache = tmp_path / "cache" if cached else None
    corpus, _ = ingest([clip_of(folder)], IngestSettings(**SHORT), cache=cache)
    assert counts == {"read": 1, "hashed": 1}
    times = corpus.tracklets.time
    assert (times < 2).any()
    assert (times > 5).any()
    if cached:
        other = IngestSettings(**SHORT, context=1.6)
        _, report = ingest([clip_of(folder)], other, cache=cache)
        assert report.observed == 1
        assert counts["read"] == 1


# --- what may go wrong ----------------------------------------------------------------------------


def declares(monkeypatch, duration: float) -> None:
    """Let files declare a wrong duration."""
    monkeypatch.setattr(
        "objectstates.video.video_file.VideoFile._declared_duration", lambda _file: duration
    )


@pytest.mark.parametrize("declared", [1.0, 5.0, 8.2, 60.0])
@pytest.mark.usefixtures("by_two_seconds")
def test_a_video_is_read_to_its_real_end(folder, whole, monkeypatch, declared):
    declares(monkeypatch, declared)
    settings = with_boxes(folder, change_columns=False)
    corpus, report = ingest([clip_of(folder)], settings)
    assert report.failed == ()
    assert report.frames == round(SECONDS * FPS)
    assert corpus.spans == whole.spans
    np.testing.assert_array_equal(
        corpus.chunks.features[:, OBJECT_MOTION_DIM:], dense(whole, FRAME)
    )
    assert len(report.problems) == (declared > SECONDS + 0.5), "truncated, said once"


@pytest.mark.usefixtures("by_two_seconds")
def test_a_segment_without_frames_is_no_error_but_a_clip_is(tmp_path):
    """A gap of seconds between two frames; a span after the end."""
    times = [*np.arange(0, 3, 0.1), *np.arange(9, 12, 0.1)]
    path = write_video(tmp_path / "a.mp4", scene(0), times=times, options={"crf": "18"})
    corpus, report = ingest([ClipSpan("a", path)], IngestSettings(**SHORT))
    assert (report.failed, report.frames) == ((), 60)
    assert corpus.spans[0] is not None
    assert corpus.spans[0] == pytest.approx((0.0, 12.0), abs=0.2)
    _, report = ingest(
        [ClipSpan("a", path), ClipSpan("b", path, 20.0, 40.0)], IngestSettings(**SHORT)
    )
    [(clip, reason)] = report.failed
    assert clip == "b"
    assert "no frame from 20 to 40 s" in reason


@pytest.mark.usefixtures("by_two_seconds")
def test_all_segments_without_frames_are_an_error(folder, monkeypatch):
    declares(monkeypatch, 60.0)
    images = replace(clip_of(folder), id="b", start=20.0)
    monkeypatch.setattr(
        "objectstates.ingest.segments._decodable", lambda _clip, borders, _: borders
    )
    _, report = ingest([clip_of(folder), images], with_boxes(folder))
    [(clip, reason)] = report.failed
    assert clip == "b"
    assert "no frame from 20 to" in reason


@pytest.mark.usefixtures("by_two_seconds")
def test_a_failed_segment_fails_its_clip_with_the_reason(folder, tmp_path, monkeypatch):
    other = write_video(tmp_path / "b.mp4", scene(4, 2.5), fps=FPS)

    def observe(clip, *rest, **options):
        if clip.start is not None and clip.start > 3:
            raise VideoError("a.mp4: torn tape")
        return observation.observe(clip, *rest, **options)

    monkeypatch.setattr(worker, "observe", observe)
    clips = [clip_of(folder), *find_clips([other])]
    seen: list[Progress] = []
    corpus, report = ingest(clips, IngestSettings(**SHORT), progress=seen.append)
    assert corpus.clip_ids == ("b",)
    assert report.failed == (("a", "a.mp4: torn tape"),)
    assert seen[-1].clips_done == 2
    with pytest.raises(VideoError, match=r"a: a\.mp4: torn tape"):
        ingest(clips, IngestSettings(**SHORT), strict=True)


@pytest.mark.usefixtures("by_two_seconds")
def test_progress_counts_clips_and_all_frames(folder, tmp_path):
    other = write_video(tmp_path / "b.mp4", scene(4, 2.5), fps=FPS)
    seen: list[Progress] = []
    ingest([*find_clips([other]), clip_of(folder)], IngestSettings(**SHORT), progress=seen.append)
    assert [p.frames for p in seen] == sorted(p.frames for p in seen)
    assert [p.clips_done for p in seen] == sorted(p.clips_done for p in seen)
    assert {p.clips_done for p in seen} == {0, 1, 2}
    assert seen[-1] == Progress(2, 2, 25 + round(SECONDS * FPS))
    alone = [p for p in seen if p.clips_done == 1]
    assert len(alone) > 4, "the long one is done once, with its last segment"


@pytest.mark.usefixtures("by_two_seconds")
def test_a_damaged_stretch_is_reported(tmp_path, folder):
    path = tmp_path / "a.mkv"
    write_video(path, scene(3, SECONDS), fps=FPS, options={"crf": "18"})
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 200] = bytes(200)
    path.write_bytes(content)
    corpus, report = ingest(find_clips([path]), with_boxes(folder))
    assert report.failed == ()
    assert len(corpus) == 1
    assert len(set(report.problems)) == len(report.problems)
    assert json.dumps(report.problems).count("a.mkv") == len(report.problems) >= 1


@pytest.mark.filterwarnings("ignore")  # Ray's own, of which there are many
@pytest.mark.usefixtures("by_two_seconds")
def test_a_ray_cluster_gives_the_same_bytes(folder, tmp_path):
    pytest.importorskip("ray", reason="needs Ray: pip install 'objectstates[ray]'")
    clips, settings = [clip_of(folder)], IngestSettings(**SHORT)
    ingest_to(tmp_path / "one", clips, settings)
    cache = tmp_path / "cache"
    _, report = ingest_to(tmp_path / "ray", clips, settings, cache=cache, ray_address="local")
    assert report.failed == ()
    assert files(tmp_path / "ray") == files(tmp_path / "one")
