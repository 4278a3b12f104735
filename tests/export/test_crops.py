from __future__ import annotations

import shutil
from dataclasses import replace

import cv2
import numpy as np
import pytest
from sklearn.datasets import load_files

from objectstates.base.errors import ExportError
from objectstates.data.label_names import LabelNames
from objectstates.export import export
from tests.export.conftest import FPS, HEIGHT, WIDTH, clip, images, make_result
from tests.video.videos import write_video


def pictures(folder):
    """Label and picture of each file, by a reader of folders that is not ours."""
    found = load_files(folder, random_state=0)
    decoded = [cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) for data in found.data]
    return [(found.target_names[k], x) for k, x in zip(found.target, decoded, strict=True)]


def test_a_reader_of_image_folders_gets_the_classes(result, tmp_path):
    export(result, "crops", tmp_path / "x", context=1.0)
    found = pictures(tmp_path / "x")
    assert sorted(label for label, _ in found) == ["action"] * 3 + ["state1"] * 6 + ["state2"] * 3
    for label, picture in found:
        if label != "action":
            assert picture.shape == (24, 32, 3)
            assert picture[3:-3, 3:-3, 0].mean() > 230  # the object, and nothing but it


def test_crops_show_the_frame_and_the_context(result, tmp_path):
    export(result, "crops", tmp_path / "x", context=1.5)
    for label, picture in pictures(tmp_path / "x"):
        if label != "action":
            assert picture.shape == (36, 48, 3)
            assert picture[10:-10, 12:-12, 0].mean() > 230
            assert picture[:3].std(axis=(0, 1)).max() < 6  # the background is even
    name = next((tmp_path / "x" / "state2").iterdir())
    time = int(name.stem[-8:]) / 1000
    brightness = np.asarray(cv2.imread(str(name)))[:3].mean()
    assert brightness == pytest.approx(5 * (round(time * FPS) % 50), abs=5)


def test_the_action_is_shown_around_both_states(result, tmp_path):
    export(result, "crops", tmp_path / "x", context=1.0)
    for name in (tmp_path / "x" / "action").iterdir():
        height, width = np.asarray(cv2.imread(str(name))).shape[:2]
        assert height == 24
        assert 32 <= width <= 40  # the object moves by four pixels a second


def test_without_states_the_action_is_the_whole_frame(without_states, tmp_path):
    export(without_states, "crops", tmp_path / "x")
    found = pictures(tmp_path / "x")
    assert [(label, x.shape) for label, x in found] == [("action", (HEIGHT, WIDTH, 3))] * 3


def test_more_crops_per_second(result, tmp_path):
    export(result, "crops", tmp_path / "x", fps=1000)
    boxes = sum(len(result.corpus[n].tracklets[i].boxes) for n in range(3) for i in (0, 1, 3))
    assert len(pictures(tmp_path / "x")) == boxes + 3


@pytest.mark.parametrize(
    "names",
    [
        ["../../up", "/etc/passwd", "..", "."],
        ["a/b", "a_b", "A/B"],
        ["x" * 400, "x" * 401, "ü" * 300],
        ["quo\"te'", "日本語", "nul\x00byte", "new\nline"],
    ],
)
def test_any_clip_gets_files_of_its_own(videos, tmp_path, names):
    clips = [clip(name, str(videos / "a.mp4"), 0.0) for name in names]
    export(make_result(clips), "crops", tmp_path / "in" / "x")
    assert len(pictures(tmp_path / "in" / "x")) == 4 * len(names)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_folders_of_images_are_videos_too(tmp_path):
    (tmp_path / "frames").mkdir()
    for i, image in enumerate(images()):
        cv2.imwrite(str(tmp_path / "frames" / f"{i:04d}.png"), image[..., ::-1])
    export(make_result([clip("c", str(tmp_path / "frames"), 1.0)]), "crops", tmp_path / "x")
    assert len(pictures(tmp_path / "x")) == 4


def test_what_a_cut_video_lacks_is_told(videos, tmp_path):
    half = write_video(tmp_path / "half.mp4", list(images())[:50], fps=FPS)
    late = make_result([clip("early", str(half), 0.0), clip("late", str(half), 2.8)])
    done = export(late, "crops", tmp_path / "x")
    assert len(done.files) == 4
    (problem,) = done.problems
    assert "half.mp4: 4 frames cannot be read, the first at 3.04 s" in problem
    shutil.rmtree(tmp_path / "x")
    nothing = make_result([clip("late", str(half), 2.8)])
    with pytest.raises(ExportError, match="nothing to crop"):
        export(nothing, "crops", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_chain_has_a_folder_per_action_and_one_for_states_of_the_same_name(chain, tmp_path):
    export(chain, "crops", tmp_path / "out")
    counts = {p.name: len(list(p.iterdir())) for p in (tmp_path / "out").iterdir() if p.is_dir()}
    assert counts == {"closed": 5, "open": 3, "opening": 3, "closing": 2}
    plain = replace(chain, names=LabelNames.usual(2))
    export(plain, "crops", tmp_path / "plain")
    folders = {p.name for p in (tmp_path / "plain").iterdir() if p.is_dir()}
    assert folders == {"state1", "action1", "state2", "action2", "state3"}
