"""Subtasks in LeRobot datasets, read back with pyarrow alone."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from objectstates.base.errors import ExportError, SettingError
from objectstates.data.actions import Actions
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.export import export
from objectstates.export.lerobot import UNLABELLED
from objectstates.robots.lerobot_dataset import read_dataset
from tests.export.lerobot_results import ACTION, NAMES, result_of
from tests.robots.datasets import CAMERA, FPS, SECONDS, convert_to_v3, write_dataset

WORDS = [NAMES.state_1, NAMES.action, NAMES.state_2]
FIRST, LAST = (round(t * FPS) for t in ACTION)


@pytest.fixture(scope="module")
def v2(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("v2") / "set")


@pytest.fixture(scope="module")
def v3(v2, tmp_path_factory):
    return convert_to_v3(v2, tmp_path_factory.mktemp("v3") / "set")


@pytest.fixture(params=["v2.1", "v3.0"])
def root(request, v2, v3):
    return v2 if request.param == "v2.1" else v3


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def records(root: Path) -> list[Path]:
    return sorted((root / "data").rglob("*.parquet"))


def other_columns_are_equal(root: Path, copy: Path, new: str) -> bool:
    for path in records(root):
        old, table = pq.read_table(path), pq.read_table(copy / path.relative_to(root))
        if not table.drop_columns([new]).equals(old):
            return False
    return True


def test_the_sidecar_has_the_subtasks_and_nothing_else(root, tmp_path):
    done = export(result_of(root), "lerobot-sidecar", tmp_path / "out")
    assert done.files == ("meta/lerobot_annotations.json",)
    assert done.problems == ()
    found = json.loads((tmp_path / "out" / done.files[0]).read_text())
    assert found["version"] == 2
    assert list(found["episodes"]) == [str(n) for n in range(len(SECONDS))]
    for episode in found["episodes"].values():
        assert [atom["content"] for atom in episode["atoms"]] == WORDS
        starts = [atom["timestamp"] for atom in episode["atoms"]]
        assert starts == pytest.approx([0.0, *ACTION], abs=1e-6)
        for atom in episode["atoms"]:
            rest = {k: atom[k] for k in ("role", "style", "tool_calls")}
            assert rest == {"role": "assistant", "style": "subtask", "tool_calls": None}


def test_the_language_column_is_the_same_on_all_frames(root, tmp_path):
    copy = tmp_path / "copy"
    export(result_of(root), "lerobot", copy)
    assert other_columns_are_equal(root, copy, "language_persistent")
    for path in records(copy):
        file = pq.ParquetFile(path)
        kind = file.schema_arrow.field("language_persistent").type.value_type
        assert [field.name for field in kind] == [
            "role", "content", "style", "timestamp", "camera", "tool_calls",
        ]  # fmt: skip
        assert str(kind.field("timestamp").type) == "float"
        for group in range(file.num_row_groups):  # one per episode
            table = file.read_row_group(group)
            assert len(table["episode_index"].unique()) == 1
            said = table["language_persistent"].to_pylist()
            assert all(rows == said[0] for rows in said)
            assert [row["content"] for row in said[0]] == WORDS
            times = np.array([row["timestamp"] for row in said[0]], np.float32)
            assert np.isin(times, table["timestamp"].to_numpy()).all()  # to the bit
            assert {row["camera"] for row in said[0]} == {None}
        episodes = {e.index for e in read_dataset(copy).episodes if e.record == path}
        assert file.num_row_groups == len(episodes)
    info = json.loads((copy / "meta" / "info.json").read_text())
    feature = info["features"].pop("language_persistent")
    assert feature == {"dtype": "language", "shape": [1], "names": None}
    assert info == json.loads((root / "meta" / "info.json").read_text())


def test_a_copy_has_all_files_of_the_dataset_and_leaves_that_alone(root, tmp_path):
    before = contents(root)
    export(result_of(root), "lerobot", tmp_path / "copy")
    assert contents(root) == before
    after = contents(tmp_path / "copy")
    assert set(before) | {"export.json"} == set(after)
    videos = [name for name in before if name.endswith(".mp4")]
    assert videos
    assert all(after[name] == before[name] for name in videos)
    assert [e.length for e in read_dataset(tmp_path / "copy").episodes] == [
        round(seconds * FPS) for seconds in SECONDS
    ]


def test_what_others_wrote_into_the_language_column_stays(root, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    export(result_of(root), "lerobot", first)
    for path in records(first):
        table = pq.read_table(path)
        plan = {"role": "user", "content": "tidy up", "style": "plan", "timestamp": 0.5,
                "camera": None, "tool_calls": None}  # fmt: skip
        said = [[*rows, plan] for rows in table["language_persistent"].to_pylist()]
        at = table.column_names.index("language_persistent")
        kind = table.schema.field(at).type
        pq.write_table(table.set_column(at, "language_persistent", pa.array(said, kind)), path)
    export(result_of(first), "lerobot", second)
    for path in records(second):
        for rows in pq.read_table(path)["language_persistent"].to_pylist():
            assert [row["content"] for row in rows] == [WORDS[0], "tidy up", *WORDS[1:]]


def test_numbers_of_subtasks_are_given_per_frame(root, tmp_path):
    copy = tmp_path / "copy"
    export(result_of(root, episodes="0:3"), "lerobot-subtask-index", copy)
    assert other_columns_are_equal(root, copy, "subtask_index")
    table = pq.read_table(copy / "meta" / "subtasks.parquet")
    assert table.to_pydict() == {"subtask_index": [0, 1, 2, 3], "subtask": [*WORDS, UNLABELLED]}
    meta = json.loads(table.schema.metadata[b"pandas"])
    assert meta["index_columns"] == ["subtask"]
    for path in records(copy):
        for row in (
            pq.read_table(path)
            .select(["episode_index", "frame_index", "subtask_index"])
            .to_pylist()
        ):
            frame = row["frame_index"]
            wanted = 3 if row["episode_index"] == 3 else int(frame >= FIRST) + int(frame >= LAST)
            assert row["subtask_index"] == wanted


def test_sarm_gets_lists_per_episode_and_mean_shares(v3, tmp_path):
    copy = tmp_path / "copy"
    export(result_of(v3, episodes="0:3"), "sarm", copy)
    [path] = (copy / "meta" / "episodes").rglob("*.parquet")
    [old] = (v3 / "meta" / "episodes").rglob("*.parquet")
    table, rows = pq.read_table(path), pq.read_table(path).to_pylist()
    assert table.select(pq.read_table(old).column_names).equals(pq.read_table(old))
    for row in rows[:3]:
        assert row["dense_subtask_names"] == WORDS
        assert row["dense_subtask_start_frames"] == [0, FIRST, LAST]
        assert row["dense_subtask_end_frames"] == [FIRST, LAST, row["length"]]
        assert row["dense_subtask_start_times"][1:] == pytest.approx(ACTION)
        assert row["dense_subtask_end_times"][-1] == pytest.approx(row["length"] / FPS, abs=1e-5)
        assert row["sparse_subtask_names"] == ["task"]
        assert row["sparse_subtask_end_frames"] == [row["length"]]
    assert rows[3]["dense_subtask_names"] is None
    shares = json.loads((copy / "meta" / "temporal_proportions_dense.json").read_text())
    assert list(shares) == WORDS
    assert sum(shares.values()) == pytest.approx(1)
    mean = np.mean([(LAST - FIRST) / round(seconds * FPS) for seconds in SECONDS[:3]])
    assert shares[NAMES.action] == pytest.approx(mean)
    sparse = json.loads((copy / "meta" / "temporal_proportions_sparse.json").read_text())
    assert sparse == {"task": 1.0}


def test_sarm_needs_the_newer_version(v2, tmp_path):
    with pytest.raises(ExportError, match=r"sarm needs meta/episodes.*convert it to v3.0"):
        export(result_of(v2), "sarm", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_moved_dataset_is_given_by_hand(v2, tmp_path):
    result = result_of(v2)
    result.corpus.info["dataset"]["path"] = "/gone"
    with pytest.raises(ExportError, match="/gone is no LeRobot dataset: if it was moved"):
        export(result, "lerobot-sidecar", tmp_path / "out")
    export(result, "lerobot-sidecar", tmp_path / "out", dataset=v2)


def test_what_cannot_be_written_is_explained(v2, tmp_path, result):
    with pytest.raises(ExportError, match="are no episodes of a LeRobot dataset"):
        export(result, "lerobot", tmp_path / "out")
    with pytest.raises(ExportError, match="lies within the dataset"):
        export(result_of(v2), "lerobot", v2 / "meta" / "copy")
    with pytest.raises(SettingError, match="give a folder to write as `out`, or `in_place`"):
        export(result_of(v2), "lerobot", None)
    with pytest.raises(SettingError, match="`in_place` is for LeRobot datasets, not for csv"):
        export(result_of(v2), "csv", None, in_place=True)
    assert CAMERA in contents(v2)["meta/info.json"].decode()


CHAIN = LabelNames.of("off,on,off", "press the switch,press again")


def chain_of(root: Path) -> Result:
    """Episodes act from 0.8 to 1.2 s and from 1.6 to 2 s, but the last of them only once."""
    single = result_of(root)
    n = len(single.clips)
    chunks = single.corpus.chunks
    actions = Actions(
        np.tile([2, 4], (n, 1)),
        np.stack([chunks.time[2::5], chunks.time[4::5]], axis=1),
        np.stack(
            [np.stack([chunks.start[k::5], chunks.end[k::5]], axis=1) for k in (2, 4)], axis=1
        ),
        np.tile(single.actions.scores, (1, 2)),
    )
    actions.chunk[-1, 1], actions.span[-1, 1], actions.time[-1, 1] = -1, np.nan, np.nan
    scores = np.column_stack([single.state_scores, np.zeros(len(single.state))])
    corpus = single.corpus.for_changes(2)
    return replace(single, corpus=corpus, actions=actions, state_scores=scores, names=CHAIN)


def test_the_subtasks_of_a_chain_are_its_states_and_actions(root, tmp_path):
    result = chain_of(root)
    export(result, "lerobot-sidecar", tmp_path / "out")
    text = (tmp_path / "out" / "meta" / "lerobot_annotations.json").read_text()
    atoms = [episode["atoms"] for episode in json.loads(text)["episodes"].values()]
    names = [[atom["content"] for atom in each] for each in atoms]
    assert names[0] == ["off", "press the switch", "on", "press again", "off"]
    assert names[-1] == ["off", "press the switch", "on"]
    export(result, "lerobot-subtask-index", tmp_path / "index")
    table = pq.read_table(tmp_path / "index" / "meta" / "subtasks.parquet")
    named = dict(zip(table["subtask_index"].to_pylist(), table["subtask"].to_pylist(), strict=True))
    assert named == {0: "off", 1: "press the switch", 2: "on", 3: "press again"}


def test_stages_of_a_chain_have_different_names(v3, tmp_path):
    export(chain_of(v3), "sarm", tmp_path / "out")
    text = (tmp_path / "out" / "meta" / "temporal_proportions_dense.json").read_text()
    shares = json.loads(text)
    assert list(shares) == ["off (1)", "press the switch", "on", "press again", "off (3)"]
    assert sum(shares.values()) == pytest.approx(1)
