from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from objectstates.web.label.trainer import Request, Trainer
from tests.web.label.people import eventually, labelled

TOO_FEW = 2  # clips: refused at once, so that a test need not wait for a training


class Heard(list[tuple[Path, str]]):
    """What a trainer tells: the file to be written, and the kind of each answer."""

    def __call__(self, request: Request, answer: dict[str, Any]) -> None:
        self.append((request.out, answer["kind"]))

    def ended(self, out: Path) -> bool:
        return (out, "done") in self


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def trainer(heard: Heard):
    made = Trainer(heard)
    yield made
    made.close()


def test_only_the_newest_request_waits(trainer: Trainer, heard: Heard, tmp_path: Path):
    path = labelled(tmp_path / "labels.json", TOO_FEW)
    outs = [tmp_path / f"{n}.npz" for n in range(6)]
    for out in outs:
        trainer.request(Request(path, out))
    eventually(lambda: heard.ended(outs[-1]), "the newest is trained")
    assert len({out for out, _ in heard}) <= 3
    assert not trainer.busy


def test_a_final_training_is_not_displaced(trainer: Trainer, heard: Heard, tmp_path: Path):
    path = labelled(tmp_path / "labels.json", TOO_FEW)
    final = Request(path, tmp_path / "final.npz", final=True)
    trainer.request(Request(path, tmp_path / "a.npz"))
    trainer.request(final)
    assert trainer.final in ("waiting", "running")  # from the first moment
    trainer.request(Request(path, tmp_path / "b.npz"))
    eventually(lambda: heard.ended(final.out), "the final one is trained")
    assert not trainer.final


def test_a_process_that_dies_is_told_and_replaced(trainer: Trainer, heard: Heard, tmp_path: Path):
    path, out = labelled(tmp_path / "labels.json", 6), tmp_path / "a.npz"
    trainer.request(Request(path, out))
    eventually(lambda: (out, "progress") in heard, "it is training")
    assert trainer._process is not None
    trainer._process.kill()
    eventually(lambda: heard.ended(out), "its end is noticed")
    assert (out, "failed") in heard
    assert not out.exists()
    few = labelled(tmp_path / "few.json", TOO_FEW)
    trainer.request(Request(few, tmp_path / "b.npz"))
    eventually(lambda: heard.ended(tmp_path / "b.npz"), "another one serves")


def test_closing_ends_the_process_at_once(heard: Heard, tmp_path: Path):
    trainer = Trainer(heard)
    path, out = labelled(tmp_path / "labels.json", 6), tmp_path / "a.npz"
    trainer.request(Request(path, out))
    eventually(lambda: (out, "progress") in heard, "it is training")
    process = trainer._process
    trainer.close()
    assert process is not None
    assert process.wait(10) != 0
    assert not heard.ended(out)
