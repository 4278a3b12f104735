from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import numpy as np
import pytest

from objectstates.export import export
from tests.export.conftest import COUNT, FPS, clip, images, make_result
from tests.video.videos import write_video

pytest.importorskip("rerun", reason="pip install '.[rerun]'")


def read(path):
    """Columns by entity and component, with their times in seconds, by the SDK's own reader."""
    from rerun.chunk import RrdReader

    found: dict[tuple[str, str], list[Any]] = {}
    for chunk in RrdReader(path).stream().to_chunks():
        batch = chunk.to_record_batch()
        times = None
        if "video_time" in batch.schema.names:
            times = batch["video_time"].cast("int64").to_numpy() / 1e9
        for name in batch.schema.names:
            if ":" in name:
                found.setdefault((chunk.entity_path, name), []).append(
                    (times, batch[name].to_pylist())
                )
    return found


def rows(found, entity, component):
    parts = found[entity, component]
    return sorted(
        (float(time), value)
        for times, values in parts
        for time, value in zip(times, values, strict=True)
    )


def test_the_sdk_reads_boxes_and_scores_back(result, tmp_path):
    export(result, "rerun", tmp_path / "x")
    found = read(tmp_path / "x" / "a.rrd")
    centres = dict(rows(found, "/video/boxes", "Boxes2D:centers"))
    halves = dict(rows(found, "/video/boxes", "Boxes2D:half_sizes"))
    states = dict(rows(found, "/video/boxes", "Boxes2D:class_ids"))
    seen = {}
    for time, middles in centres.items():
        for (x, y), (w, h), state in zip(middles, halves[time], states[time], strict=True):
            seen[round(time, 6)] = (state, x - w, y - h, x + w, y + h)
    expected = {
        round(b.time, 6): (state, b.x1, b.y1, b.x2, b.y2)
        for n in (0, 1)
        for i, state in ((0, 1), (1, 1), (3, 2))
        for b in result.corpus[n].tracklets[i].boxes
    }
    assert seen == expected
    ends = sorted(round(time, 6) for time, value in centres.items() if not value)
    assert ends == [0.96, 1.92, 2.96, 3.92]
    scores = [
        parts for (entity, name), parts in found.items()
        if name == "Scalars:scalars" and entity.endswith("/action")
    ]  # fmt: skip
    assert len(scores) == 2
    for parts in scores:
        assert [v for _, values in parts for [v] in values] == [0.0, 0.1, 0.6, 0.2, 0.0]
    actions = sorted(
        float(times[0]) for (entity, _), [(times, _)] in found.items() if "/actions" in entity
    )
    np.testing.assert_allclose(actions, result.action_time[:2])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all names are text")
def test_mp4_whose_name_is_no_text_is_embedded(videos, tmp_path):
    video = tmp_path / os.fsdecode(b"caf\xe9.mp4")
    shutil.copy(videos / "a.mp4", video)
    done = export(make_result([clip("one", str(video), 0.0)]), "rerun", tmp_path / "x")
    assert not done.problems
    [path] = (tmp_path / "x").glob("*.rrd")
    [(_, [[blob]])] = read(path)["/video", "AssetVideo:blob"]
    assert bytes(blob) == video.read_bytes()


def test_mp4_is_embedded_with_its_times(result, videos, tmp_path):
    export(result, "rerun", tmp_path / "x")
    found = read(tmp_path / "x" / "b.rrd")
    [(_, [[blob]])] = found["/video", "AssetVideo:blob"]
    assert bytes(blob) == (videos / "b.mp4").read_bytes()
    shown = rows(found, "/video", "VideoFrameReference:timestamp")
    np.testing.assert_allclose([time for time, _ in shown], np.arange(COUNT) / FPS)


@pytest.mark.parametrize(("name", "codec"), [("v.mkv", "libx264"), ("v.mp4", "mpeg4")])
def test_what_rerun_does_not_play_is_given_as_pictures(tmp_path, name, codec):
    path = write_video(tmp_path / name, list(images()), fps=FPS, codec=codec)
    export(make_result([clip("c", str(path), 0.0)]), "rerun", tmp_path / "x", fps=5)
    shown = rows(read(tmp_path / "x" / "v.rrd"), "/video", "EncodedImage:blob")
    np.testing.assert_allclose([time for time, _ in shown], np.arange(20) / 5)
    assert all(bytes(blob[:2]) == b"\xff\xd8" for _, [blob] in shown)


def test_states_have_names_and_the_recording_too(result, tmp_path):
    export(result, "rerun", tmp_path / "x")
    found = read(tmp_path / "x" / "a.rrd")
    assert found["/__properties", "RecordingInfo:name"][0][1] == [["a"]]
    text = str(found["/", "AnnotationContext:context"])
    for name in ("no state", "state 1", "state 2"):
        assert name in text
