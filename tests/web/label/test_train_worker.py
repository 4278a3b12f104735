from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from objectstates.base.cache import content_digest
from objectstates.detect import fewshot
from objectstates.web.label.train_worker import serve
from tests.web.label.people import labelled


def test_training_tells_its_progress_the_detector_and_the_recall(tmp_path: Path):
    path, out = labelled(tmp_path / "labels.json", 6), tmp_path / "d.npz"
    told: list[dict[str, Any]] = []
    serve({"id": 7, "labels": str(path), "out": str(out), "final": False}, told.append)
    assert {answer["id"] for answer in told} == {7}
    kinds = list(dict.fromkeys(answer["kind"] for answer in told))
    assert kinds == ["progress", "trained", "recall"]
    assert fewshot.load(out).object == "drawer"
    train = [answer for answer in told if answer.get("stage") == "train"]
    assert train[-1]["done"] == train[-1]["total"]
    assert train[5]["done"] == 6  # of six images, all are read,
    assert train[5]["done"] / train[5]["total"] < 0.2  # which is the small part of the work
    last = told[-1]
    assert last["recall"]["objects"] == 6
    assert last["recall"]["recall"] >= 0.5
    assert last["counts"]["boxes"] == last["counts"]["videos"] == 6
    assert last["digest"] == content_digest(path)


def test_labels_of_videos_that_were_removed_are_passed_over(tmp_path: Path):
    path, out = labelled(tmp_path / "labels.json", 5), tmp_path / "d.npz"
    content = json.loads(path.read_text())
    content["images"][0]["video"] = "removed.mp4"
    path.write_text(json.dumps(content))
    told: list[dict[str, Any]] = []
    serve({"id": 7, "labels": str(path), "out": str(out), "final": False}, told.append)
    assert told[-1]["kind"] == "recall"
    assert told[-1]["counts"]["boxes"] == 4
    assert path.read_text() == json.dumps(content)


def test_what_cannot_be_trained_on_is_told(tmp_path: Path):
    told: list[dict[str, Any]] = []
    path = labelled(tmp_path / "labels.json", 2)
    serve({"id": 1, "labels": str(path), "out": "x", "final": True}, told.append)
    (answer,) = told
    assert answer["kind"] == "failed"
    assert "label at least 4" in answer["error"]


def test_the_process_ends_with_its_stdin():
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "objectstates.web.label.train_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0
    assert process.stdout is not None
    process.stdout.close()
