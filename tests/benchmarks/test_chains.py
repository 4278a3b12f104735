"""The benchmark of chains on a synthetic corpus: its tables need no films."""

import json

import numpy as np
import pytest

from benchmarks.chains import (
    METHODS,
    Chain,
    Judged,
    chain_of,
    clip_rows,
    differences,
    judge,
    manipulations,
    table,
)
from objectstates import Corpus
from objectstates.data.synthetic import synthetic_corpus
from objectstates.data.truth import ClipTruth
from objectstates.evaluation.table_files import to_markdown


def truth_of(corpus: Corpus) -> dict[str, ClipTruth]:
    """The intervals of the labelled chunks."""
    found = {}
    for n, clip in enumerate(corpus.clip_ids):
        rows = np.array(corpus.chunk_rows(n))
        label, actions = corpus.chunks.label[rows], []
        for k in range(1, corpus.n_states):
            mine = rows[label == k]
            bounds = corpus.chunks.start[mine], corpus.chunks.end[mine]
            actions.append((bounds[0].min(), bounds[1].max()) if len(mine) else None)
        found[clip] = ClipTruth(clip, tuple(actions), np.empty(0), np.empty((0, 4)))
    return found


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return synthetic_corpus(n_clips=10, changes=2, noise=0.6)


@pytest.fixture(scope="module")
def judged(corpus: Corpus) -> dict[str, Judged]:
    return judge(corpus, truth_of(corpus), Chain(2))


def test_the_joint_discovery_is_above_simple_methods(judged: dict[str, Judged]) -> None:
    joint = judged["joint"]
    assert joint.clips.action_precision > 0.9
    for name in ("chance", "equal parts", "k-means"):
        assert joint.clips.action_precision > judged[name].clips.action_precision + 0.1
        assert joint.f1(1).mean() > judged[name].f1(1).mean()


def test_nothing_is_above_the_truth(judged: dict[str, Judged]) -> None:
    best = judged["at best"]
    assert best.clips.state_precision == best.clips.action_precision == 1
    assert best.f1(2).mean() == best.edit.mean() == 1
    assert best.seconds("to_action").max() == 0


def test_what_a_user_tells_follows_from_the_films() -> None:
    clips = synthetic_corpus(n_clips=5, changes=2, leave_out=0.2)
    assert chain_of(truth_of(clips), ["closed", "open", "closed"]) == Chain(2, (2,), "ABA")
    whole = synthetic_corpus(n_clips=5, changes=3)
    assert chain_of(truth_of(whole), ["a", "b", "c", "d"]) == Chain(3)


def test_the_tables_have_every_state_and_action(judged: dict[str, Judged]) -> None:
    shown = table("A chain", [judged], 2)
    assert shown.columns == (
        "method", "action 1", "action 2", "state 1", "state 2", "state 3",
        "F1@0.1", "F1@0.25", "F1@0.5", "edit", "to interval", "to change",
    )  # fmt: skip
    assert [row[0] for row in shown.rows] == list(METHODS)
    beside = differences([judged, judged])
    assert len(beside.rows) == 3 * (len(METHODS) - 2)
    assert "F1@0.25" in to_markdown(beside)
    same = {**judged, "k-means": judged["joint"]}
    level = [row for row in differences([same]).rows if row[2] == "k-means"]
    assert [row[3] for row in level] == [0, 0, 0]


def test_rows_per_clip_are_json(judged: dict[str, Judged], corpus: Corpus) -> None:
    rows = clip_rows("drawer", judged)
    assert len(rows) == len(METHODS) * len(corpus)
    again = json.loads(json.dumps(rows, allow_nan=False))
    assert {"chain", "method", "clip", "precision_3", "action_2", "f1_25", "edit"} <= set(again[0])


def film(folder, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    actions = [{"step": 1, "interval_s": [1, 2]}, {"step": 2, "interval_s": [3, 4]}]
    facts = {"fps": 10, "n_frames": 1, "object": {"box": [[0, 0, 1, 1]]}, "actions": actions}
    (folder / f"{name}.mp4").touch()
    (folder / f"{name}.json").write_text(json.dumps(facts))


def test_the_detector_may_be_trained_on_another_folder(tmp_path) -> None:
    """Clips of the same name there are other clips, and all clips here are judged."""
    for name in ("00", "01"):
        film(tmp_path / "test" / "drawer", name)
        film(tmp_path / "dev" / "drawer", name)
    (chain,) = manipulations(tmp_path / "test", tmp_path / "dev")
    assert [clip.id for clip in chain.test] == ["00", "01"]
    assert [clip.id for clip in chain.train] == ["train/00", "train/01"]
    assert {clip.video.parent.parent.name for clip in chain.train} == {"dev"}
    assert {"00", "train/00"} <= set(chain.truth)
