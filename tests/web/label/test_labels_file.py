from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from objectstates.base.errors import LabelError
from objectstates.detect.labels import read_labels
from objectstates.web.label.labels_file import (
    LabelBox,
    LabelledFrame,
    LabelsFile,
    video_reference,
)
from tests.video.videos import gray, write_video


def frame(time: float = 0.4, *boxes: LabelBox, clip: str = "v") -> LabelledFrame:
    return LabelledFrame(clip, "v.mp4", time, 64, 48, boxes)


DRAWN, FOLLOWED = LabelBox(4, 4, 20.5, 20), LabelBox(6, 4, 22, 20, "followed")


def test_what_is_written_is_read_again_and_can_be_trained_on(tmp_path: Path):
    write_video(tmp_path / "v.mp4", gray(40))
    file = LabelsFile(tmp_path / "labels.json", "cup")
    file.put(frame(0.4, DRAWN), frame(0.8, FOLLOWED), frame(1.2))
    again = LabelsFile(tmp_path / "labels.json", "cup")
    assert again.frames == file.frames
    assert again.counts(["v"]) == {
        "by_hand": 1, "drawn": 1, "boxes": 2, "frames": 3, "with_box": 2, "absent": 1, "clips": 1,
    }  # fmt: skip
    labels = read_labels(tmp_path / "labels.json")
    assert labels.object == "cup"
    shown = [(image.boxes.tolist(), round(float(p.mean()) / 5)) for image, p in labels.load()]
    assert shown == [([[4, 4, 20.5, 20]], 10), ([[6, 4, 22, 20]], 20), ([], 30)]


def test_frames_of_removed_clips_wait_without_being_counted(tmp_path: Path):
    file = LabelsFile(tmp_path / "labels.json", "cup")
    file.put(frame(0.4, DRAWN), frame(0.4, DRAWN, clip="removed"))
    assert file.counts(["v"])["frames"] == file.counts(["v"])["clips"] == 1
    assert [each.clip for each in file.of_clips(["v"])] == ["v"]
    assert len(LabelsFile(tmp_path / "labels.json", "cup").frames) == 2


def test_a_frame_has_one_set_of_labels_and_can_lose_it(tmp_path: Path):
    file = LabelsFile(tmp_path / "labels.json", "cup")
    file.put(frame(0.4, DRAWN))
    file.put(frame(0.4000001))
    assert [f.boxes for f in file.frames.values()] == [()]
    file.remove(frame(0.4).key)
    assert LabelsFile(tmp_path / "labels.json", "cup").frames == {}


def test_a_failed_write_leaves_the_labels_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = LabelsFile(tmp_path / "labels.json", "cup")
    file.put(frame(0.4, DRAWN))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(LabelError, match=r"No space left.*not saved"):
        file.put(frame(0.8, DRAWN))
    assert len(file.frames) == 1
    assert LabelsFile(tmp_path / "labels.json", "cup").frames == file.frames


@pytest.mark.parametrize(
    "box", [(70, 4, 90, 20), (4, -9, 20, 0), (4, 4, 5, 20), (4, 4, math.nan, 20)]
)
def test_boxes_outside_the_frame_are_refused(box: tuple[float, float, float, float]):
    with pytest.raises(LabelError, match="box"):
        LabelBox(*box).inside(64, 48)
    assert LabelBox(-5, 4, 99, 20).inside(64, 48) == LabelBox(0, 4, 64, 20)


def test_files_of_others_are_never_replaced(tmp_path: Path):
    path = tmp_path / "labels.json"
    LabelsFile(path, "cup").put(frame(0.4, DRAWN))
    with pytest.raises(LabelError, match=r"labels of 'cup', not of 'plate'.*`out`"):
        LabelsFile(path, "plate")
    whole = json.loads(path.read_text())
    for damaged in ("", "[]", "{}", json.dumps(whole | {"info": {"description": "other"}})):
        path.write_text(damaged)
        with pytest.raises(LabelError, match="is not a file of"):
            LabelsFile(path, "cup")
        assert path.read_text() == damaged


def test_videos_are_named_relative_to_the_labels(tmp_path: Path):
    named = video_reference(tmp_path / "a" / "labels.json", tmp_path / "films" / "v.mp4")
    assert named == "../films/v.mp4"
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "films").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "er")
    linked = video_reference(tmp_path / "link" / "labels.json", tmp_path / "films" / "v.mp4")
    (tmp_path / "films" / "v.mp4").touch()
    assert (tmp_path / "link" / linked).exists()
