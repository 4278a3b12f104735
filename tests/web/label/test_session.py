from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from objectstates.base.errors import LabelError
from objectstates.base.geometry import paired_iou
from objectstates.detect import fewshot
from objectstates.detect.fewshot import FewShotDetector
from objectstates.detect.labels import read_labels
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, read_frames
from objectstates.web.label.session import FIRST_TRAINING, LabelSession
from tests.web.label.people import demo_clips, draw, eventually, true_box


@pytest.fixture
def session(tmp_path: Path) -> Iterator[LabelSession]:
    """Without background work."""
    made = LabelSession(demo_clips(3), "drawer", tmp_path / "labels")
    yield made
    made.close()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelSession]:
    """A session in which ten boxes were drawn, and the detector was trained to the end."""
    folder = tmp_path_factory.mktemp("session") / "labels"
    made = LabelSession(demo_clips(10), "drawer", folder, next_command=str)
    made.start()
    draw(made, 10)
    made.finish()
    eventually(lambda: made.state()["finished"], "the detector is trained", 400)
    eventually(lambda: not made.state()["training"]["busy"], "training has ended", 400)
    yield made
    made.close()


def test_ten_boxes_give_a_detector_that_finds_the_object_in_other_clips(trained: LabelSession):
    state = trained.state()
    recall = state["finished"]["recall"]
    assert (recall["objects"], recall["clips"]) == (10, 10)
    assert recall["recall"] >= 0.9
    assert state["finished"]["boxes"] == 10
    assert not state["finished"]["outdated"]
    assert state["finished"]["command"] == str(trained.detector_path)
    detector = fewshot.load(trained.detector_path)
    found = [_iou(detector, clip.id) for clip in demo_clips(14)[10:]]
    assert min(found) >= 0.5  # clips that the session never saw


def _iou(detector: FewShotDetector, clip: str) -> float:
    video = next(c.video for c in demo_clips(14) if c.id == clip)
    with read_frames(video, 1.0, 1.2) as frames:
        frame: Frame = next(iter(frames))
    boxes = detector.detect([frame])[0].boxes[:1]
    return float(paired_iou(boxes, np.array([true_box(clip, frame.time)])).max(initial=0.0))


def test_another_session_in_the_folder_goes_on(trained: LabelSession):
    again = LabelSession(demo_clips(10), "drawer", trained.folder, next_command=str)
    try:
        before, after = trained.state(), again.state()
        before["training"]["busy"] = after["training"]["busy"]
        assert after == before
        found = again.next_frame()
        assert found is not None
        assert found["proposals"]  # the detector was on disk
        truth = np.array([true_box(found["clip"], found["time"])])
        assert paired_iou(np.array([found["proposals"][0]["box"]]), truth)[0] > 0.5
    finally:
        again.close()


def test_a_finished_detector_tells_that_labels_changed_since(trained: LabelSession, tmp_path: Path):
    folder = shutil.copytree(trained.folder, tmp_path / "copy")
    again = LabelSession(demo_clips(10), "drawer", folder)
    try:
        frame = next(iter(again.state()["frames"]))
        again.unlabel(frame["clip"], frame["time"])
        assert again.state()["finished"]["outdated"]
    finally:
        again.close()


def test_the_first_frame_is_there_at_once_and_frames_differ(session: LabelSession):
    seen = draw(session, FIRST_TRAINING - 1)
    assert {frame["clip"] for frame in seen[:3]} == {"drawer_06", "drawer_07", "drawer_08"}
    assert not session.state()["training"]["busy"]  # too few boxes to train on
    assert session.state()["counts"]["by_hand"] == FIRST_TRAINING - 1


def test_frames_of_a_video_that_was_removed_are_neither_shown_nor_counted(session: LabelSession):
    draw(session, 3)  # one of each clip
    fewer = LabelSession(demo_clips(2), "drawer", session.folder)
    try:
        state = fewer.state()
        assert {frame["clip"] for frame in state["frames"]} == {"drawer_06", "drawer_07"}
        assert (state["counts"]["by_hand"], state["counts"]["clips"]) == (2, 2)
        with pytest.raises(LabelError, match="2 frames have a box"):
            fewer.finish()
    finally:
        fewer.close()


def test_a_clip_that_cannot_be_read_is_named_and_never_proposed(tmp_path: Path):
    broken = ClipSpan("broken", tmp_path / "broken.mp4")
    broken.video.write_bytes(b"not a video")
    session = LabelSession([broken, *demo_clips(1)], "drawer", tmp_path / "labels")
    session.start()
    try:
        failed = eventually(lambda: session.state()["clips"][0].get("failed"), "it is opened")
        assert "not a video" in failed
        assert {frame["clip"] for frame in draw(session, 3)} == {"drawer_06"}
    finally:
        session.close()


def test_each_box_is_on_disk_when_it_is_answered(session: LabelSession):
    (frame,) = draw(session, 1)
    (image,) = read_labels(session.folder / "labels.json").images
    assert image.time == frame["time"]
    np.testing.assert_allclose(image.boxes, [true_box(frame["clip"], frame["time"])])
    session.label(frame["clip"], frame["time"], [])
    content = json.loads((session.folder / "labels.json").read_text())
    assert len(content["images"]) == 1
    assert content["annotations"] == []  # the object is not visible
    assert session.unlabel(frame["clip"], frame["time"])["labelled"] is False
    assert session.state()["frames"] == []


def test_followed_boxes_become_labels_only_by_a_nod(session: LabelSession):
    session.label("drawer_08", 4.0, [(true_box("drawer_08", 4.0), "drawn")])
    found = session.follow("drawer_08", 4.0)
    assert len(found["frames"]) >= 8
    assert len(session.state()["frames"]) == 1
    times = [frame["time"] for frame in found["frames"]]
    kept = [time for time in times if 3.0 <= time <= 5.0]
    assert session.accept_followed(found["id"], 3.0, 5.0) == len(kept) > 0
    labels = session.state()["frames"]
    assert sorted(f["time"] for f in labels if not f["by_hand"]) == kept
    assert session.state()["counts"]["by_hand"] == 1
    for frame in labels:
        box = np.array([frame["boxes"][0]["box"]])
        truth = np.array([true_box("drawer_08", frame["time"])])
        assert paired_iou(box, truth)[0] > 0.6
    with pytest.raises(LabelError, match="follow the box again"):
        session.accept_followed(found["id"], 0.0, 9.0)


def test_a_nod_never_replaces_what_a_person_said(session: LabelSession):
    session.label("drawer_08", 4.0, [(true_box("drawer_08", 4.0), "drawn")])
    found = session.follow("drawer_08", 4.0)
    other = found["frames"][0]["time"]
    session.label("drawer_08", other, [])
    session.accept_followed(found["id"], 0.0, 99.0)
    (frame,) = [f for f in session.state()["frames"] if f["time"] == other]
    assert frame["boxes"] == []


def test_a_skipped_frame_is_replaced_by_another(session: LabelSession):
    first: Any = session.next_frame()
    second: Any = session.next_frame((first["clip"], first["time"]))
    assert (first["clip"], first["time"]) != (second["clip"], second["time"])


def test_what_makes_no_sense_is_refused(session: LabelSession):
    box = [(true_box("drawer_06", 1.0), "drawn")]
    for wrong, message in (
        (lambda: session.label("nobody", 1.0, box), "no clip 'nobody'"),  # type: ignore[arg-type]
        (lambda: session.label("drawer_06", 999.0, box), "no frame at 999 s"),  # type: ignore[arg-type]
        (lambda: session.label("drawer_06", 1.0, [([900, 0, 950, 9], "drawn")]), "outside"),
        (lambda: session.label("drawer_06", 1.0, box * 51), "more than 50"),  # type: ignore[arg-type]
        (lambda: session.follow("drawer_06", 1.0), "draw one first"),
        (lambda: session.unlabel("nobody", 1.0), "no clip"),
        (session.finish, "label at least 4"),
    ):
        with pytest.raises(LabelError, match=message):
            wrong()
    assert session.state()["frames"] == []
    for name in ("", "a\nb", "x" * 61):
        with pytest.raises(LabelError, match="`object`"):
            LabelSession(demo_clips(1), name, session.folder)
