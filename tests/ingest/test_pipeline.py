"""From video files to a corpus: what is found, what is kept, what is reported."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from benchmarks.ingest import peak_memory
from objectstates import Corpus, JointDiscovery
from objectstates.base.cache import ArrayCache
from objectstates.base.errors import MemoryLackError, SettingError, StorageError, VideoError
from objectstates.data.corpus_io import ARTEFACT
from objectstates.ingest import observe as observation
from objectstates.ingest import worker
from objectstates.ingest.pipeline import IngestSettings, ingest, ingest_to, settings_of
from objectstates.video.clip_list import find_clips
from tests.video.videos import bad_file, gray, noise, write_images, write_video

FPS = 10
BOX = (40, 30, 100, 90)  # of the object, in pixels of a 160 x 120 video


def scene(seed: int, seconds: float = 6.0) -> list[np.ndarray]:
    """A textured thing on a textured table; a hand passes, and the thing looks different after."""
    rng = np.random.default_rng(seed)

    def texture(height, width, colour):
        rough = rng.integers(0, 120, (height // 4 + 1, width // 4 + 1, 1), np.uint8)
        smooth = cv2.resize(rough, (width, height), interpolation=cv2.INTER_LINEAR)[..., None]
        return np.clip(smooth + np.array(colour), 0, 255).astype(np.uint8)

    table = texture(120, 160, (60, 60, 60))
    x1, y1, x2, y2 = BOX
    before, after = texture(y2 - y1, x2 - x1, (130, 0, 0)), texture(y2 - y1, x2 - x1, (0, 0, 130))
    hand = texture(40, 40, (90, 90, 20))
    images = []
    n = round(seconds * FPS)
    for i in range(n):
        image = table.copy()
        progress = i / n
        image[y1:y2, x1:x2] = before if progress < 0.5 else after
        if 0.35 < progress < 0.65:
            x = round(200 * (progress - 0.35) / 0.3) - 40
            left, right = max(x, 0), min(x + 40, 160)
            if left < right:
                image[40:80, left:right] = hand[:, left - x : right - x]
        images.append(image)
    return images


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three clips and the boxes of their object, one MOT file each."""
    root = tmp_path_factory.mktemp("videos")
    (root / "boxes").mkdir()
    for seed, name in enumerate(("one", "two", "three ü")):
        write_video(root / f"{name}.mp4", scene(seed), fps=FPS, options={"crf": "18"})
        x1, y1, x2, y2 = BOX
        rows = [f"{i + 1},1,{x1},{y1},{x2 - x1},{y2 - y1},0.9" for i in range(0, 60, 2)]
        (root / "boxes" / f"{name}.csv").write_text("\n".join(rows) + "\n")
    return root


def videos_of(folder: Path):
    return find_clips(sorted(folder.glob("*.mp4")))


def with_boxes(folder: Path, **changes) -> IngestSettings:
    return IngestSettings(**{"detector": f"boxes:{folder / 'boxes'}", **changes})


def files(path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(path.iterdir())}


@pytest.fixture(scope="module")
def ingested(folder):
    return ingest(videos_of(folder), with_boxes(folder))


def test_videos_become_clips_with_tracklets_and_chunks(ingested):
    corpus, report = ingested
    assert corpus.clip_ids == ("one", "three ü", "two")
    assert report.failed == ()
    assert report.frames == 3 * 60
    for clip in corpus:
        assert (clip.start, clip.end) == (0.0, pytest.approx(6.0))
        assert len(clip.chunks) == 38
        assert clip.chunks[0].start == 0
        covered = sum(t.end - t.start for t in clip.tracklets)
        assert covered > 0.8 * 6.0
        for tracklet in clip.tracklets:
            assert 0.2 <= tracklet.end - tracklet.start <= 0.6
            assert tracklet.score == pytest.approx(0.9)
            assert np.linalg.norm(tracklet.feature) == pytest.approx(1, abs=1e-4)
            for box in tracklet.boxes:
                assert tracklet.start <= box.time < tracklet.end
                assert (box.x1, box.y1, box.x2, box.y2) == pytest.approx(BOX, abs=12)


def test_clips_that_end_after_their_video_are_recorded(folder, ingested):
    assert "ends_beyond_video" not in ingested[0].info
    one, three, two = videos_of(folder)
    spans = [replace(one, end=6.3), replace(three, end=8.0), replace(two, start=1.0, end=2.0)]
    corpus, report = ingest(spans, with_boxes(folder))
    assert corpus.info["ends_beyond_video"] == ["three ü"]
    assert report.failed == ()


def test_the_change_is_found(ingested):
    corpus, _ = ingested
    model = JointDiscovery(max_passes=150).fit(corpus)
    for n in range(len(corpus)):
        rows = list(corpus.tracklet_rows(n))
        times, labels = corpus.tracklets.time[rows], model.labels_[rows]
        assert times[labels == 1].max() < 3.5
        assert times[labels == 2].min() > 2.5
    assert (np.abs(model.action_time_ - 3.0) < 1.5).all()


def test_the_corpus_says_when_and_where_clips_change(ingested):
    corpus, _ = ingested
    for change in corpus.changes:
        assert (change.start, change.step) == (0.0, pytest.approx(0.1))
        assert len(change.curve) == 59, "between 60 frames"
        assert change.scale > 0
        times = change.start + change.step * (np.arange(len(change.curve)) + 0.5)
        near = np.abs(times - 3.0) < 1.0  # the hand hides parts of it for less than a second
        assert change.curve[near].sum() > 0.8 * change.curve.sum()
        assert change.where.shape == (30, 40)
        x1, y1, x2, y2 = np.array(BOX) // 4
        inside = change.where[y1 + 1 : y2 - 1, x1 + 1 : x2 - 1]
        assert inside.mean() > 150
        assert change.where[:, x2 + 2 :].mean() < 20


def test_same_bytes_whatever_the_processes(ingested, folder, tmp_path):
    corpus, _ = ingested
    corpus.save(tmp_path / "one")
    again, _ = ingest(videos_of(folder), with_boxes(folder), processes=2)
    again.save(tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_a_folder_is_written_as_the_corpus_would_be_saved(ingested, folder, tmp_path):
    corpus, report = ingested
    clips = videos_of(folder)
    written, told = ingest_to(tmp_path / "one", clips, with_boxes(folder))
    corpus.save(tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert told == report
    assert written.clip_ids == corpus.clip_ids
    np.testing.assert_array_equal(written.tracklets.start, corpus.tracklets.start)
    assert written.tracklets.features.shape == (len(corpus.tracklets.start), 0)


def test_a_cache_that_cannot_be_made_is_a_warning(ingested, folder, tmp_path):
    (tmp_path / "file").touch()
    cache = tmp_path / "file" / "cache"
    corpus, report = ingest(videos_of(folder), with_boxes(folder), cache=cache)
    assert corpus.clip_ids == ingested[0].clip_ids
    (warning,) = report.problems
    assert "nothing is kept for later runs" in warning
    assert "file/cache cannot be made" in warning


def test_only_what_changed_is_redone(folder, tmp_path, monkeypatch):
    clips, settings = videos_of(folder), with_boxes(folder)
    corpus, first = ingest(clips, settings, cache=tmp_path / "cache")
    assert (first.observed, first.kept) == (3, 0)
    again, second = ingest(clips, settings, cache=tmp_path / "cache")
    assert (second.observed, second.kept) == (0, 3)
    assert (again.tracklets.features == corpus.tracklets.features).all()
    calls: list[int] = []
    from objectstates.detect.precomputed_boxes import ClipBoxes

    original = ClipBoxes.detect

    def counted(self, frames):
        calls.append(len(frames))
        return original(self, frames)

    monkeypatch.setattr(ClipBoxes, "detect", counted)
    wider = with_boxes(folder, context=1.6)
    changed, third = ingest(clips, wider, cache=tmp_path / "cache")
    assert third.observed == 3
    assert not calls, "the detector ran again, though only what follows it changed"
    fresh, _ = ingest(clips, wider)
    assert calls
    np.testing.assert_array_equal(changed.tracklets.features, fresh.tracklets.features)
    assert (changed.tracklets.features != corpus.tracklets.features).any()


def test_a_damaged_cache_is_no_harm(ingested, folder, tmp_path):
    cache = tmp_path / "cache"
    ingest(videos_of(folder), with_boxes(folder), cache=cache)
    for path in cache.rglob("*.npz"):
        path.write_bytes(path.read_bytes()[:50])
    again, report = ingest(videos_of(folder), with_boxes(folder), cache=cache)
    assert report.observed == 3
    np.testing.assert_array_equal(again.chunks.features, ingested[0].chunks.features)


def test_without_a_cache_nothing_is_left(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    corpus, report = ingest(videos_of(folder)[:1], with_boxes(folder))
    assert (len(corpus), report.observed, report.kept) == (1, 1, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def full(monkeypatch):
    """Makes the disk of the cache full after some entries, or all disks."""

    def fill(*folders, after=0):
        original, count = ArrayCache.put, 0

        def put(self, key, arrays):
            nonlocal count
            count += 1
            here = not folders or any(map(self.folder.is_relative_to, folders))
            if here and count > after:
                raise OSError(28, "No space left on device")
            original(self, key, arrays)

        monkeypatch.setattr(ArrayCache, "put", put)

    return fill


@pytest.mark.parametrize("after", [0, 3])
def test_a_full_cache_loses_no_clip(ingested, folder, tmp_path, full, after):
    full(tmp_path / "cache", after=after)
    out, clips = tmp_path / "corpus", videos_of(folder)
    _, report = ingest_to(out, clips, with_boxes(folder), cache=tmp_path / "cache")
    assert not report.failed
    ingested[0].save(tmp_path / "whole")
    assert files(out) == files(tmp_path / "whole")
    (warning,) = report.problems
    kept = after // 2  # there are two entries per clip
    assert f"(No space left on device): {3 - kept} of 3" in warning
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "corpus", "whole"]


def test_a_command_with_a_full_cache_keeps_the_clips_of_the_earlier_corpus(
    ingested, folder, tmp_path, full, run
):
    """It had ended with code 0 and a corpus of the one clip for which there was room."""
    out, cache = tmp_path / "corpus", tmp_path / "cache"
    ingested[0].save(out)
    earlier = Corpus.load(out).clip_ids
    full(cache, after=2)
    code, _, err = run(
        "ingest", *sorted(folder.glob("*.mp4")), "--detector", f"boxes:{folder / 'boxes'}",
        "--out", out, "--cache", cache, "--processes", "1",
    )  # fmt: skip
    assert code == 0
    assert Corpus.load(out).clip_ids == earlier
    assert "cannot be written (No space left on device): 2 of 3" in err


def test_full_disks_end_the_run_and_cost_no_earlier_corpus(ingested, folder, tmp_path, full):
    out = tmp_path / "corpus"
    ingested[0].save(out)
    earlier = files(out)
    full(after=2)
    with pytest.raises(StorageError, match=r"no room .* \(No space left on device\): make some"):
        ingest_to(out, videos_of(folder), with_boxes(folder), cache=tmp_path / "cache")
    assert files(out) == earlier
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "corpus"]


def test_a_clip_without_memory_is_no_bad_clip(ingested, folder, tmp_path, monkeypatch):
    out = tmp_path / "corpus"
    ingested[0].save(out)
    earlier, original = files(out), observation.observe

    def observe(clip, *rest, **options):
        if clip.id == ingested[0].clip_ids[1]:
            raise MemoryError("3 GiB")
        return original(clip, *rest, **options)

    monkeypatch.setattr(worker, "observe", observe)
    with pytest.raises(MemoryLackError, match="too little memory for 1 of 3"):
        ingest_to(out, videos_of(folder), with_boxes(folder), cache=tmp_path / "cache")
    assert files(out) == earlier
    assert len(list((tmp_path / "cache").rglob("*.npz"))) == 4, "the others were done"


def test_killed_work_is_resumed(ingested, folder, tmp_path, run):
    """kill -9 in the middle: what was done before is not done again, and the corpus is the same."""
    cache, out = tmp_path / "cache", tmp_path / "corpus"
    words = [
        "ingest", *map(str, sorted(folder.glob("*.mp4"))), "--out", str(out), "--json",
        "--detector", f"boxes:{folder / 'boxes'}", "--cache", str(cache), "--processes", "1",
    ]  # fmt: skip
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "objectstates", *words],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    while process.poll() is None and len(list(cache.rglob("*.npz"))) < 2:  # one clip's two entries
        time.sleep(0.02)
    assert process.poll() is None, "it was over before it could be killed"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not out.exists()
    assert not list(temporary.glob(".objectstates-*"))
    code, text, err = run(*words)
    assert code == 0, err
    summary = json.loads(text)
    assert summary["observed"] + summary["from_cache"] == 3
    assert 1 <= summary["observed"] <= 2
    np.testing.assert_array_equal(
        Corpus.load(out).tracklets.features, ingested[0].tracklets.features
    )


def test_bad_files_are_named_and_the_others_go_on(folder, tmp_path):
    paths = [bad_file(tmp_path, kind) for kind in ("empty", "text", "sound", "unindexed")]
    clips = find_clips([*paths, folder / "one.mp4"])
    corpus, report = ingest(clips, with_boxes(folder), processes=2)
    assert corpus.clip_ids == ("one",)
    assert {clip for clip, _ in report.failed} == {"empty", "text", "sound", "unindexed"}
    for clip, reason in report.failed:
        assert clip in reason
    with pytest.raises(VideoError, match="empty"):
        ingest(clips, with_boxes(folder), strict=True)
    with pytest.raises(VideoError, match="none of 4 clips"):
        ingest(clips[:4], IngestSettings(detector="motion"))


def test_what_is_cut_off_is_used_as_far_as_it_goes(folder, tmp_path):
    path = tmp_path / "one.mkv"
    write_video(path, scene(0), fps=FPS, options={"crf": "18"})
    path.write_bytes(path.read_bytes()[: int(0.7 * path.stat().st_size)])
    (tmp_path / "boxes").mkdir()
    (tmp_path / "boxes" / "one.csv").write_text((folder / "boxes" / "one.csv").read_text())
    corpus, report = ingest(find_clips([path]), with_boxes(tmp_path))
    span = corpus.spans[0]
    assert span is not None
    assert 2 < span[1] < 6
    assert any("truncated" in problem for problem in report.problems)


def odd(kind: str, tmp_path: Path) -> Path:
    path = tmp_path / f"{kind} ä.mp4"
    match kind:
        case "one frame":
            write_video(path, noise(1))
        case "tiny":
            write_video(path, gray(30, 8, 8))
        case "4k":
            write_video(path, gray(3, 3840, 2160))
        case "120 fps":
            write_video(path, noise(120), fps=120)
        case "vfr":
            times = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.3, 30))
            write_video(path, noise(30), times=times.tolist())
        case "odd size":
            write_video(path, [i[:47, :63] for i in noise(30)], pixels="yuv444p")
        case "images":
            path = tmp_path / "images ä"
            write_images(path, range(1, 30), "%06d.jpg")
    return path


@pytest.mark.parametrize(
    "kind", ["one frame", "tiny", "4k", "120 fps", "vfr", "odd size", "images"]
)
def test_odd_videos_are_ingested(kind, tmp_path):
    path = odd(kind, tmp_path)
    clips = find_clips([path])
    (tmp_path / "boxes").mkdir()
    (tmp_path / "boxes" / f"{clips[0].video.stem}.csv").write_text("1,1,1,1,5,5,0.9\n")
    corpus, report = ingest(clips, with_boxes(tmp_path))
    assert report.failed == ()
    assert len(corpus[0].chunks) >= 1
    assert np.isfinite(corpus.chunks.features).all()
    assert corpus[0].change is not None
    assert len(corpus[0].change.curve) >= 1


def test_the_papers_words_are_learned_kept_and_reused(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("objectstates.ingest.bag_of_words.WORDS", {"hof": 20, "conv": 30})
    clips = videos_of(folder)
    corpus, _ = ingest(clips[:2], with_boxes(folder, chunks="paper"))
    assert corpus.chunks.features.shape[1] == 50
    corpus.save(tmp_path / "c")
    model = Corpus.load(tmp_path / "c")
    lengths = {"tracklet_seconds": 1.0, "chunk_seconds": 0.4}
    assert settings_of(model) == with_boxes(folder, chunks="paper", **lengths)
    assert [len(clip.chunks) for clip in model] == [15, 15], "the paper's, whatever the clips"
    for name, value in (("seed", "x"), ("max_side", [3]), ("detector", 7), ("chunks", None)):
        facts = {**model.info["ingest"], name: value}
        with pytest.raises(SettingError, match=f"`like`: the corpus says that `{name}` is"):
            settings_of(replace(model, info={**model.info, "ingest": facts}))
    new, _ = ingest(clips[1:], settings_of(model), like=model)
    rows = list(model.chunk_rows(1)), list(new.chunk_rows(0))  # the clip that both have
    np.testing.assert_array_equal(model.chunks.features[rows[0]], new.chunks.features[rows[1]])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ingest", "--out", "c"], "no clip"),
        (["ingest", "nowhere.mp4", "--out", "c"], "nowhere.mp4"),
        (["ingest", "a.mp4", "--out", "c", "--detector", "magic"], "magic"),
        (["ingest", "a.mp4", "--out", "c", "--detector", "boxes:nofile.json"], "nofile.json"),
        (["ingest", "a.mp4", "--out", "c", "--detector", "fewshot:nomodel"], "nomodel"),
        (["ingest", "a.mp4", "b.mp4", "--out", "c", "--detector", "boxes:no.json"], "no.json"),
        (["ingest", "a.mp4", "--out", "c", "--appearance", "vgg"], "vgg"),
        (["ingest", "a.mp4", "--out", "c", "--tracklet-seconds", "0"], "--tracklet-seconds must"),
        (["ingest", "a.mp4", "--out", "c", "--chunk-seconds", "long"], "nor auto"),
        (["ingest", "a.mp4", "--out", "c", "--like", "nocorpus"], "nocorpus"),
        (["ingest", "empty.mp4", "--out", "c", "--detector", "motion"], "empty"),
        (["detector", "train", "nolabels.json", "--out", "m"], "nolabels.json"),
        (["detector", "evaluate", "nomodel", "nolabels.json"], "nomodel"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path, monkeypatch, run, words, message):
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / "a.mp4", gray(5))
    write_video(tmp_path / "b.mp4", gray(6))
    (tmp_path / "empty.mp4").touch()
    code, _, err = run(*words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1, err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    "setting",
    [
        {"context": 0},
        {"chunks": "bag"},
        {"max_side": -1},
        {"tracklet_seconds": "long"},
        {"tracklet_seconds": float("nan")},
        {"chunk_seconds": 0},
    ],
)
def test_settings_that_make_no_sense_are_named(setting):
    with pytest.raises(SettingError, match=next(iter(setting))):
        IngestSettings(**setting)


# Memory

TREMBLING_FPS = 5


def trembling(folder: Path, seconds: int) -> Path:
    """A shaking texture with twelve boxes in every frame: many features of few frames."""
    rng = np.random.default_rng(0)
    picture = np.kron(rng.integers(0, 255, (32, 42, 3)), np.ones((4, 4, 1))).astype(np.uint8)
    places = rng.integers(0, 4, (seconds * TREMBLING_FPS, 2))
    images = [picture[y : y + 120, x : x + 160] for x, y in places]
    video = write_video(folder / f"{seconds}.mp4", images, fps=TREMBLING_FPS)
    parts = [(x, y) for x in (4, 44, 84, 124) for y in (4, 44, 84)]
    rows = [f"{i},1,{x},{y},32,32,0.9" for i in range(1, len(images) + 1) for x, y in parts]
    video.with_suffix(".csv").write_text("\n".join(rows) + "\n")
    return video


def feature_bytes(corpus: Path) -> int:
    header = ARTEFACT.read_header(corpus)
    return sum(4 * t["rows"] * t["feature_size"] for t in (header["tracklets"], header["chunks"]))


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_peak_memory_does_not_grow_with_what_comes_out(tmp_path):
    """Twelve seconds are more than tracks reach back; from there on the memory stays as it is."""
    peaks, sizes = [], []
    for seconds in (12, 60):
        video, out = trembling(tmp_path, seconds), tmp_path / f"corpus{seconds}"
        detector = f"boxes:{video.with_suffix('.csv')}"
        options = ["--detector", detector, "--tracklet-seconds", "0.2"]
        peaks.append(peak_memory(video, out, *options))
        sizes.append(feature_bytes(out) / 2**20)
    grown = sizes[1] - sizes[0]
    assert grown > 60, "too few features to tell"
    assert peaks[1] - peaks[0] < 0.3 * grown
