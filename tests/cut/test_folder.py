"""Cutting: frames equal the source's, no gap, no overlap, sound kept, safe on disk."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from objectstates.base.errors import CutError, SettingError
from objectstates.cut import cut
from objectstates.cut.encode import PSNR_LIMIT
from objectstates.video.clip_list import find_clips
from objectstates.video.reader import probe, read_frames
from tests.chains import chain_result, draw_chain
from tests.cut.films import audio_packets, luma, result_on, sound_of, stored_frames
from tests.results import with_action
from tests.video.test_video_file import set_matrix
from tests.video.videos import corners, noise, times_of, write_video

PARTS = ("before", "action", "after")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def films_of(folder: Path, stem: str = "film") -> list[Path]:
    return [folder / row["file"] for row in rows(folder / "segments.csv")]


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    return write_video(path, noise(100), options={"crf": "20"})


def test_the_frames_of_all_segments_are_those_of_the_source(film, tmp_path):
    done = cut(result_on([("film", film, 4.0, (1.21, 2.6))]), tmp_path / "out")
    assert [row["part"] for row in rows(tmp_path / "out/segments.csv")] == list(PARTS)
    films = films_of(tmp_path / "out")
    assert [len(stored_frames(path)) for path in films] == [30, 35, 35]
    joined = [frame for path in films for frame in stored_frames(path)]
    for ours, theirs in zip(joined, stored_frames(film), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert done.problems == ()
    assert len(done.files) == 3
    assert done.kept == 0


def test_bounds_are_those_of_frames_without_gap_or_overlap(film, tmp_path):
    cut(result_on([("film", film, 4.0, (1.21, 2.6))]), tmp_path / "out")
    table = rows(tmp_path / "out/segments.csv")
    bounds = [(float(row["start"]), float(row["end"])) for row in table]
    assert bounds == [(0.0, 1.2), (1.2, 2.6), (2.6, 4.0)]
    assert {row["exact"] for row in table} == {"yes"}
    for path, (start, end) in zip(films_of(tmp_path / "out"), bounds, strict=True):
        assert probe(path).duration == pytest.approx(end - start, abs=1e-3)


def test_both_lists_are_read_as_clips(film, tmp_path):
    cut(result_on([("film", film, 4.0, (1.2, 2.6))]), tmp_path / "out")
    clips = find_clips(csv=tmp_path / "out/clips.csv")
    assert [clip.id for clip in clips] == [f"film_{part}" for part in PARTS]
    assert all(clip.video.is_file() for clip in clips)
    spans = find_clips([tmp_path / "out/spans.csv"])
    assert [(clip.video, clip.start, clip.end) for clip in spans] == [
        (film, 0.0, 1.2), (film, 1.2, 2.6), (film, 2.6, 4.0)
    ]  # fmt: skip


def test_only_the_span_of_a_clip_is_cut(film, tmp_path):
    result = result_on([("part", film, 4.0, (1.4, 2.0))], spans=[(1.0, 3.0)])
    cut(result, tmp_path / "out")
    joined = [frame for path in films_of(tmp_path / "out") for frame in stored_frames(path)]
    for ours, theirs in zip(joined, stored_frames(film)[25:75], strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("fast", [False, True])
def test_the_sound_of_the_segments_is_that_of_the_source(tmp_path, fast):
    source = write_loud_film(tmp_path / "loud.mp4")
    cut(result_on([("loud", source, 4.0, (1.5, 2.5))]), tmp_path / "out", fast=fast)
    films = films_of(tmp_path / "out")
    packets = [packet for path in films for packet in audio_packets(path)]
    assert packets == audio_packets(source)
    for path in films:  # and at its time: each starts as loud as the source is there
        assert probe(path).duration == pytest.approx(sound_of(path).shape[1] / 8000, abs=0.3)


def write_loud_film(path: Path) -> Path:
    """Four seconds of noise to see, and of a rising tone."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.gop_size = 12
        audio = container.add_stream("aac", rate=8000, layout="mono")
        for image in noise(100):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image)))
        container.mux(stream.encode())
        time = np.arange(32000) / 8000
        tone = (0.5 * np.sin(2 * np.pi * (200 + 100 * time) * time)).astype(np.float32)
        frame = av.AudioFrame.from_ndarray(tone[None], format="fltp", layout="mono")
        frame.sample_rate = 8000
        container.mux(audio.encode(frame))
        container.mux(audio.encode())
    return path


def test_a_variable_frame_rate_is_kept(tmp_path):
    times = np.cumsum([0, *np.tile([0.02, 0.1, 0.04], 20)]).round(3)
    source = write_video(tmp_path / "vfr.mkv", noise(61), times=times.tolist())
    cut(result_on([("vfr", source, 3.3, (1.0, 2.0))]), tmp_path / "out")
    starts = [float(row["start"]) for row in rows(tmp_path / "out/segments.csv")]
    found = [
        start + time
        for start, path in zip(starts, films_of(tmp_path / "out"), strict=True)
        for time in times_of(path)
    ]
    assert found == pytest.approx(times_of(source), abs=1e-3)
    joined = [frame for path in films_of(tmp_path / "out") for frame in stored_frames(path)]
    for ours, theirs in zip(joined, stored_frames(source), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_segments_of_a_rotated_film_are_upright(tmp_path):
    source = write_video(tmp_path / "turned.mp4", [corners()] * 30)
    set_matrix(source, 0, 1, -1, 0)
    cut(result_on([("turned", source, 1.2, (0.4, 0.8))]), tmp_path / "out")
    found = []
    for path in films_of(tmp_path / "out"):
        info = probe(path)
        assert (info.width, info.height, info.rotation) == (48, 64, 0)
        found += luma(path)
    for ours, theirs in zip(found, luma(source), strict=True):
        np.testing.assert_array_equal(ours, np.rot90(theirs, -1))


@pytest.mark.parametrize(
    ("pixels", "codec", "size"),
    [("yuv444p", "libx264", 48), ("yuv420p10le", "libx264", 48), ("bgr0", "ffv1", 48),
     ("yuv420p", "ffv1", 47), ("yuv422p", "ffv1", 48)],
)  # fmt: skip
def test_other_pixel_formats_and_odd_sizes_are_exact(tmp_path, pixels, codec, size):
    images = [image[:size, :size] for image in noise(30)]
    source = write_video(tmp_path / "film.mkv", images, codec=codec, pixels=pixels)
    cut(result_on([("film", source, 1.2, (0.4, 0.8))]), tmp_path / "out")
    joined = [frame for path in films_of(tmp_path / "out") for frame in stored_frames(path)]
    for ours, theirs in zip(joined, stored_frames(source), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_images_of_a_folder_are_copied(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for number, image in enumerate(noise(30)):
        cv2.imwrite(str(folder / f"{number:04d}.png"), image)
    info = {"ingest": {"image_fps": 10.0}}
    cut(result_on([("images", folder, 3.0, (1.0, 2.0))], info=info), tmp_path / "out")
    parts = films_of(tmp_path / "out")
    names = [sorted(os.listdir(part)) for part in parts]
    assert [name for part in names for name in part] == sorted(os.listdir(folder))
    for part in parts:
        for name in os.listdir(part):
            assert (part / name).read_bytes() == (folder / name).read_bytes()
    assert [len(list(read_frames(part, image_fps=10.0))) for part in parts] == [10, 10, 10]


def test_fast_copies_the_packets_between_key_frames(film, tmp_path):
    cut(result_on([("film", film, 4.0, (1.21, 2.6))]), tmp_path / "out", fast=True)
    table = rows(tmp_path / "out/segments.csv")
    with av.open(str(film)) as container:
        keys = {frame.time for frame in container.decode(video=0) if frame.key_frame}
    assert {float(row["start"]) for row in table} <= keys
    joined = [frame for path in films_of(tmp_path / "out") for frame in stored_frames(path)]
    for ours, theirs in zip(joined, stored_frames(film), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_fast_says_which_segments_have_no_key_frame(tmp_path):
    options = {"x264-params": "keyint=250:scenecut=0"}
    source = tmp_path / "one.mp4"
    with av.open(str(source), "w") as container:
        stream = container.add_stream("libx264", rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for image in noise(50):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image)))
        container.mux(stream.encode())
    done = cut(result_on([("one", source, 2.0, (0.8, 1.2))]), tmp_path / "out", fast=True)
    assert len(done.files) == 1
    assert len(done.problems) == 2
    assert "no key frame is near" in done.problems[0]
    assert len(stored_frames(tmp_path / "out" / done.files[0])) == 50


def test_a_lossy_cut_states_its_quality(film, tmp_path):
    done = cut(result_on([("film", film, 4.0, (1.2, 2.6))]), tmp_path / "out", crf=23)
    table = rows(tmp_path / "out/segments.csv")
    assert {row["exact"] for row in table} == {"no"}
    assert all(25 < float(row["psnr"]) < PSNR_LIMIT for row in table)
    theirs = [frame.image.astype(float) for frame in read_frames(film, 1.2, 2.6)]
    ours = [frame.image.astype(float) for frame in read_frames(tmp_path / "out" / done.files[1])]
    error = np.mean((np.array(theirs) - np.array(ours)) ** 2)
    assert float(table[1]["psnr"]) == pytest.approx(10 * np.log10(255**2 / error))


def still_ends(count: int, still: int) -> list[np.ndarray]:
    """A square that stands still, crosses the picture, and stands still, in some noise."""
    rng, images = np.random.default_rng(0), []
    for k in range(count):
        image = np.full((48, 96, 3), 90, np.uint8)
        x = int(np.clip(2 * (k - still), 0, 2 * (count - 2 * still))) % 80
        image[16:32, x : x + 16] = 220
        images.append(np.clip(image + rng.integers(-3, 4, image.shape), 0, 255).astype(np.uint8))
    return images


def test_idle_ends_are_dropped_and_listed(tmp_path):
    source = write_video(tmp_path / "idle.mp4", still_ends(125, 50), options={"crf": "18"})
    result = result_on([("idle", source, 5.0, (2.3, 2.7))])
    done = cut(result, tmp_path / "out", trim_idle=True)
    (first, start), (end, last) = done.clips[0].dropped
    assert (first, last) == (0.0, 5.0)
    assert start == pytest.approx(1.8, abs=0.15)
    assert end == pytest.approx(3.2, abs=0.15)
    table = rows(tmp_path / "out/segments.csv")
    assert float(table[0]["start"]) == start
    assert float(table[-1]["end"]) == end
    dropped = rows(tmp_path / "out/dropped.csv")
    assert [float(row["end"]) for row in dropped] == [start, last]
    assert done.dropped_seconds == pytest.approx(start + 5 - end)


def test_a_clip_in_which_nothing_moves_is_left_as_it_is(tmp_path):
    source = write_video(tmp_path / "still.mp4", [still_ends(1, 0)[0]] * 50)
    result = result_on([("still", source, 2.0, (0.8, 1.2))])
    assert cut(result, tmp_path / "out", trim_idle=True).clips[0].dropped == ()


def test_what_is_there_with_the_same_inputs_is_kept(film, tmp_path):
    other = write_video(tmp_path / "other.mp4", noise(50))
    result = result_on([("film", film, 4.0, (1.2, 2.6)), ("other", other, 2.0, (0.8, 1.2))])
    first = cut(result, tmp_path / "out")
    stamps = {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in first.files}
    (tmp_path / "out" / "other_action.mp4").unlink()  # as if it had been killed there
    assert cut(result, tmp_path / "out").kept == 1
    for name in first.files:
        same = (tmp_path / "out" / name).stat().st_mtime_ns == stamps[name]
        assert same == name.startswith("film")
    moved = replace(
        result, actions=replace(result.actions, span=(np.array([[1.2, 2.6], [0.4, 1.2]]))[:, None])
    )
    assert cut(moved, tmp_path / "out").kept == 1
    assert len(stored_frames(tmp_path / "out" / "other_before.mp4")) == 10


def test_files_of_clips_that_are_gone_are_removed(film, tmp_path):
    two = result_on([("a", film, 4.0, (1.2, 2.6)), ("b", film, 4.0, (1.2, 2.6))])
    cut(two, tmp_path / "out")
    cut(result_on([("b", film, 4.0, (1.2, 2.6))]), tmp_path / "out")
    assert not list((tmp_path / "out").glob("a_*"))
    assert list((tmp_path / "out").glob("b_*"))


def test_foreign_files_are_never_touched(film, tmp_path):
    result = result_on([("film", film, 4.0, (1.2, 2.6))])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "film_action.mp4").write_text("precious")
    with pytest.raises(CutError, match="holds something else"):
        cut(result, tmp_path / "mine")
    assert (tmp_path / "mine" / "film_action.mp4").read_text() == "precious"
    cut(result, tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("precious")
    with pytest.raises(CutError, match=r"notes\.txt"):
        cut(result, tmp_path / "out")
    assert (tmp_path / "out" / "notes.txt").read_text() == "precious"


def test_hostile_names_stay_in_the_folder(film, tmp_path):
    names = ["../../etc/x", "=cmd()", "a\nb", "CON", "-rf", "x" * 300, "A", "a"]
    result = result_on([(name, film, 4.0, (1.2, 2.6)) for name in names])
    done = cut(result, tmp_path / "out", lists_only=True)
    assert len({clip.stem.casefold() for clip in done.clips}) == len(names)
    cut(result_on([("-rf", film, 4.0, (1.2, 2.6))]), tmp_path / "real")
    assert all(clip.video.is_file() for clip in find_clips(csv=tmp_path / "real/clips.csv"))
    assert sorted(os.listdir(tmp_path)) == ["out", "real"]


def test_lists_only_writes_no_films(film, tmp_path):
    done = cut(result_on([("film", film, 4.0, (1.2, 2.6))]), tmp_path / "out", lists_only=True)
    assert done.files == []
    assert sorted(os.listdir(tmp_path / "out")) == [
        "clips.csv", "cut.json", "dropped.csv", "segments.csv", "spans.csv"
    ]  # fmt: skip
    assert len(rows(tmp_path / "out/spans.csv")) == 3


def test_a_video_that_cannot_be_read_is_reported(film, tmp_path):
    result = result_on([("film", film, 4.0, (1.2, 2.6)), ("gone", tmp_path / "x.mp4", 4.0, (1, 2))])
    done = cut(result, tmp_path / "out")
    assert len(done.clips) == 1
    assert any("x.mp4" in problem for problem in done.problems)


def test_settings_that_make_no_sense_are_refused(film, tmp_path):
    result = result_on([("film", film, 4.0, (1.2, 2.6))])
    with pytest.raises(SettingError, match="`crf`"):
        cut(result, tmp_path / "out", crf=99)
    with pytest.raises(SettingError, match="`fast`"):
        cut(result, tmp_path / "out", crf=20, fast=True)
    with pytest.raises(CutError, match="no action"):
        cut(
            with_action(result, chunk=np.array([-1])),
            tmp_path / "out",
        )
    assert not (tmp_path / "out").exists()


def test_the_manifest_names_settings_and_bounds(film, tmp_path):
    cut(result_on([("film", film, 4.0, (1.2, 2.6))]), tmp_path / "out")
    content = json.loads((tmp_path / "out/cut.json").read_text())
    assert content["settings"]["fast"] is False
    assert [row["segment"]["last"] for row in content["clips"][0]["written"]] == [30, 65, 100]
    (tmp_path / "out/cut.json").write_text("{}")
    with pytest.raises(CutError, match="cannot be read"):
        cut(result_on([("film", film, 4.0, (1.2, 2.6))]), tmp_path / "out")


def test_an_offset_of_the_timestamps_is_removed(tmp_path):
    source = tmp_path / "late.mkv"
    with av.open(str(source), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 25)
        for number, image in enumerate(noise(50)):
            frame = av.VideoFrame.from_ndarray(image)
            frame.pts, frame.time_base = 500 + number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    cut(result_on([("late", source, 2.0, (0.8, 1.2))]), tmp_path / "out")
    assert [len(stored_frames(path)) for path in films_of(tmp_path / "out")] == [20, 10, 20]


def test_a_chain_is_cut_into_its_states_and_actions(tmp_path):
    video = draw_chain(tmp_path / "chain.mp4", 3)
    result = chain_result(2, 2, video)
    done = cut(result, tmp_path / "out", crf=30)
    assert done.files == [
        *("clip_0_state1.mp4", "clip_0_action1.mp4", "clip_0_state2.mp4", "clip_0_action2.mp4"),
        *("clip_0_state3.mp4", "clip_1_state1.mp4", "clip_1_action1.mp4", "clip_1_state2.mp4"),
    ]
    assert done.problems == (), "a step that a clip lacks is not missed"
    found = rows(tmp_path / "out" / "segments.csv")
    assert [row["label"] for row in found][:5] == [
        *("state_1", "action_1", "state_2", "action_2", "state_3"),
    ]
    assert sum(int(row["frames"]) for row in found[:5]) == len(times_of(video))
    again = cut(result, tmp_path / "out", crf=30)
    assert again.kept == 2


def test_segments_that_were_discovered_in_are_not_deleted(film, tmp_path):
    """A second cut into the folder whose segments are its input would delete them first."""
    first = cut(result_on([("film", film, 4.0, (1.2, 2.6))]), tmp_path / "out")
    segment = tmp_path / "out" / first.files[1]
    with pytest.raises(CutError, match="holds the input"):
        cut(result_on([("segment", segment, 1.4, (0.4, 0.8))]), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").glob("*.mp4")) == sorted(first.files)
