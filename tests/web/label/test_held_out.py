from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from objectstates.detect.labels import read_labels
from objectstates.web.label.held_out import held_out_recall
from tests.detect.pictures import labelled_folder


def test_recall_rests_on_all_that_was_held_out_in_turn(tmp_path: Path):
    labels = read_labels(labelled_folder(tmp_path, 9, seed=0))
    done: list[tuple[int, int]] = []
    found = held_out_recall(labels, {}, fold_done=lambda *step: done.append(step))
    assert found is not None
    assert (found.objects, found.images, found.clips) == (9, 9, 9)
    assert found.recall >= 0.75
    assert done == [(1, 3), (2, 3), (3, 3)]


def test_followed_frames_are_trained_on_but_do_not_count(tmp_path: Path):
    labels = read_labels(labelled_folder(tmp_path, 9, seed=0))
    by_hand = {image.name: n < 6 for n, image in enumerate(labels.images)}
    found = held_out_recall(labels, by_hand)
    assert found is not None
    assert found.objects == 6


def test_without_clips_to_hold_out_there_is_no_recall(tmp_path: Path):
    labels = read_labels(labelled_folder(tmp_path, 5, seed=0))
    one = [replace(image, source=tmp_path / "v.mp4", time=0.0) for image in labels.images]
    assert held_out_recall(replace(labels, images=tuple(one)), {}) is None
