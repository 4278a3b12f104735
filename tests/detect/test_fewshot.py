from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from benchmarks.detector import known
from objectstates.base.errors import DetectorError, LabelError
from objectstates.base.geometry import iou
from objectstates.detect import fewshot
from objectstates.detect.detections import Detections
from objectstates.detect.fewshot import Calibration, FewShotDetector, load
from objectstates.detect.fewshot_training import Recipe, _calibration, _HeldOut, train
from objectstates.detect.from_truth import judge_labels, train_labels
from objectstates.detect.metrics import evaluate
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, VideoInfo
from tests.detect.pictures import background, labelled_folder, picture, simulated

QUICK = Recipe(images=36, folds=3)


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return labelled_folder(tmp_path_factory.mktemp("train"), 12, seed=1)


@pytest.fixture(scope="module")
def detector(labels: Path) -> FewShotDetector:
    return train(labels, recipe=QUICK)


def test_it_finds_the_thing_in_pictures_it_has_not_seen(detector: FewShotDetector, tmp_path: Path):
    result = evaluate(detector, labelled_folder(tmp_path, 20, seed=2))
    assert result.threshold == 0.4
    assert result.recall >= 0.9
    assert result.false_positives_per_image <= 0.2
    assert result.average_precision >= 0.9
    assert sum(row.found for row in result.rows) == round(20 * result.recall)


def test_it_is_silent_where_the_thing_is_not(detector: FewShotDetector):
    rng = np.random.default_rng(3)
    found = detector.detect([Frame(0.0, background(rng)) for _ in range(10)])
    assert sum(len(f) for f in found) <= 2


def test_boxes_are_in_pixels_of_the_frame_whatever_its_size(detector: FewShotDetector):
    image, (x, y, width, height) = picture(np.random.default_rng(4))
    truth = np.array([[x, y, x + width, y + height]])
    for zoom in (0.5, 1, 3):
        size = round(160 * zoom), round(120 * zoom)
        resized = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        frame = Frame(0.0, np.asarray(resized, np.uint8))
        found = detector.detect([frame])[0]
        assert iou(found.boxes[:1], truth * zoom).item() > 0.6
        assert (found.boxes >= 0).all()
        assert (found.boxes <= [*size, *size]).all()


def test_scores_are_from_0_to_1_and_descending(detector: FewShotDetector):
    image, _ = picture(np.random.default_rng(5))
    everything = detector.with_threshold(0.0).detect([Frame(0.0, image)])[0]
    assert (np.diff(everything.scores) <= 0).all()
    assert ((everything.scores >= 0) & (everything.scores <= 1)).all()
    likely = detector.detect([Frame(0.0, image)])[0]
    assert len(likely) == (everything.scores >= 0.4).sum()


def held_out(objects: list[float], seed: int = 0) -> list[_HeldOut]:
    """40 images with an object of a given score, and nine boxes of background around -4."""
    rng = np.random.default_rng(seed)
    found = []
    for score in np.resize(objects, 40):
        scores = np.append(score, rng.normal(-4, 1, 9))
        order = np.argsort(-scores)
        found.append(_HeldOut(scores[order], (order == 0), 0))
    return found


def passing(found: list[_HeldOut], right: bool) -> float:
    """Boxes per image that pass the default threshold after calibration."""
    calibration = _calibration(found, len(found), sources=8)
    passed = [(calibration.confidences(s.scores) >= 0.4) & (s.right == right) for s in found]
    return float(np.concatenate(passed).sum()) / len(found)


def test_where_objects_score_high_nothing_else_passes():
    found = held_out([3.0, 3.2, 2.8])
    assert passing(found, right=True) == 1
    assert passing(found, right=False) == 0


def test_where_videos_differ_weak_objects_pass_with_some_false_positives():
    found = held_out([3.0, 1.0, -2.5])
    assert passing(found, right=True) > 0.9
    assert 0 < passing(found, right=False) <= 0.5 + 1 / 40


def test_false_positives_are_bounded_however_bad_the_detector():
    found = held_out([-4.0, -7.0, 2.0])
    assert passing(found, right=False) <= 0.5 + 1 / 40
    missed = [s._replace(right=np.zeros(10, bool), missed=1) for s in held_out([-4.0], 1)]
    assert passing([*found, *missed], right=False) <= 0.5 + 1 / 80


def test_a_box_is_less_likely_beside_a_better_one():
    calibration = Calibration(1.0, 0.5, 0.0)
    alone, beside = (
        calibration.confidences(np.array([1.0])),
        calibration.confidences(np.array([4.0, 1.0])),
    )
    assert alone[0] > beside[1]
    assert len(calibration.confidences(np.empty(0))) == 0


def test_odd_frames_are_no_trouble(detector: FewShotDetector):
    for shape in ((1, 1), (8, 8), (37, 200), (200, 37), (3, 640)):
        found = detector.detect([Frame(0.0, np.zeros((*shape, 3), np.uint8))])
        assert isinstance(found[0], Detections)


def test_the_same_labels_give_the_same_detector(tmp_path: Path):
    path = labelled_folder(tmp_path / "labels", 6, seed=0)
    one, other = (train(path, recipe=Recipe(images=12, folds=2, rounds=1)) for _ in range(2))
    assert one.fingerprint == other.fingerprint
    one.save(tmp_path / "a")
    other.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_saved_detector_finds_the_same(detector: FewShotDetector, tmp_path: Path):
    detector.save(tmp_path / "board.model")
    loaded = load(tmp_path / "board.model")
    assert loaded.fingerprint == detector.fingerprint
    assert loaded.object == "board"
    assert loaded.trained_on == {"images": 12, "boxes": 12, "sources": 12}
    image, _ = picture(np.random.default_rng(6))
    ours, theirs = (d.detect([Frame(0.0, image)])[0] for d in (detector, loaded))
    np.testing.assert_array_equal(ours.boxes, theirs.boxes)
    np.testing.assert_array_equal(ours.scores, theirs.scores)
    assert load(tmp_path / "board.model", threshold=0.9).fingerprint != detector.fingerprint


def test_what_is_no_detector_is_refused(detector: FewShotDetector, tmp_path: Path):
    path = tmp_path / "model"
    with pytest.raises(DetectorError, match="does not exist"):
        load(path)
    detector.save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"text", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(DetectorError, match="train it again"):
            load(path)
    with path.open("wb") as file:
        np.savez(file, header=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DetectorError, match="train it again"):
        load(path)


@pytest.mark.parametrize(
    "spoilt",
    [
        {"shapes": np.full((200_000, 2), 9.0)},
        {"shapes": np.zeros((2, 2))},
        {"weights": np.nan},
        {"moves": np.inf},
    ],
)
def test_numbers_that_no_training_gives_are_refused(
    detector: FewShotDetector, tmp_path: Path, spoilt: dict[str, Any]
):
    path = tmp_path / "model.npz"
    detector.save(path)
    with np.load(path) as arrays:
        content = dict(arrays)
    for name, value in spoilt.items():
        content[name] = value if np.ndim(value) else content[name] * value
    np.savez(path, **content)
    with pytest.raises(DetectorError, match=r"model\.npz is not a few-shot detector"):
        load(path)


def test_other_versions_are_refused(
    detector: FewShotDetector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    detector.save(tmp_path / "model")
    monkeypatch.setattr(fewshot, "FORMAT_VERSION", 99)
    with pytest.raises(DetectorError, match=r"format version 2.*reads 99"):
        load(tmp_path / "model")


def test_a_failed_write_leaves_the_old_file(
    detector: FewShotDetector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "model"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DetectorError, match="No space left"):
        detector.save(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model"]


def test_too_few_labels_are_refused(tmp_path: Path):
    with pytest.raises(LabelError, match=r"has 3 images with a box of 'board': label at least 4"):
        train(labelled_folder(tmp_path, 3, seed=0))


def test_progress_ends_at_its_total(tmp_path: Path):
    seen: list[tuple[int, int]] = []
    quick = Recipe(images=4, folds=2, rounds=1)
    path = labelled_folder(tmp_path, 4, seed=0)
    train(path, recipe=quick, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][0] == seen[-1][1]


def test_regions_to_ignore_count_neither_way(detector: FewShotDetector, tmp_path: Path):
    path = labelled_folder(tmp_path, 6, seed=7)
    content = json.loads(path.read_text())
    for annotation in content["annotations"][:3]:
        annotation["iscrowd"] = 1
    path.write_text(json.dumps(content))
    result = evaluate(detector, path)
    assert sum(row.objects for row in result.rows) == 3
    assert result.recall == 1
    assert result.false_positives_per_image <= 0.2


def test_one_detector_serves_all_clips(detector: FewShotDetector):
    video = VideoInfo(Path("v.mp4"), 160, 120, 1.0, 25.0)
    assert detector.for_clip(ClipSpan("v", Path("v.mp4")), video) is detector


def test_it_finds_drawers_in_a_clip_it_has_not_seen():
    folder = simulated("drawer-open")
    trained_on = train_labels(known(folder, [0, 2, 3, 4]), "drawer", per_clip=6)
    detector = train(trained_on, recipe=replace(QUICK, images=72))
    result = evaluate(detector, judge_labels(known(folder, [1]), "drawer"))
    assert result.recall >= 0.85
    assert result.false_positives_per_image <= 0.5
