from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest

from objectstates import Result
from objectstates.data.clips import EpisodeSpan
from objectstates.export import export
from tests.export.conftest import NAMES, clip, make_result


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def unmarked(text):
    return text.removeprefix("'")


def test_csv_holds_what_was_found(result, tmp_path):
    export(result, "csv", tmp_path / "x")
    clips = rows(tmp_path / "x" / "clips.csv")
    assert [unmarked(row["clip"]) for row in clips] == list(result.clips)
    assert [row["video"] for row in clips] == list(result.corpus.videos)
    assert [float(row["action_time"]) for row in clips] == result.action_time.tolist()
    assert [float(row["confidence"]) for row in clips] == result.confidence.tolist()
    assert [(float(r["start"]), float(r["end"])) for r in clips] == list(result.corpus.spans)
    found = rows(tmp_path / "x" / "segments.csv")
    for n, name in enumerate(result.clips):
        mine = [row for row in found if unmarked(row["clip"]) == name]
        clip = result.corpus[n]
        expected = [
            (clip.tracklets[0].start, clip.tracklets[0].end, "state_1", 0.9),
            (clip.tracklets[1].start, clip.chunks[2].start, "state_1", 0.8),  # action begins
            (clip.chunks[2].start, clip.chunks[2].end, "action", 0.6),
            (clip.tracklets[3].start, clip.tracklets[3].end, "state_2", 0.7),
        ]
        seen = [(float(r["start"]), float(r["end"]), r["what"], float(r["score"])) for r in mine]
        assert seen == sorted(expected)


def test_chances_are_columns_beside_the_confidence(result, tmp_path):
    names = ("action_confidence", "state_1_confidence", "state_2_confidence")
    chances = np.array([[0.9, 0.8, 0.6]] * 2 + [[np.nan, 0.8, 0.6]])
    for known in (None, chances):
        export(replace(result, confidences=known), "csv", tmp_path / "c")
        export(replace(result, confidences=known), "jsonl", tmp_path / "j")
        lines = (tmp_path / "j" / "clips.jsonl").read_text().splitlines()
        table = rows(tmp_path / "c" / "clips.csv")
        for n, (row, line) in enumerate(zip(table, lines, strict=True)):
            written = [json.loads(line)[name] for name in names]
            expected = [None] * 3 if known is None else known[n].tolist()
            expected = [None if x is None or np.isnan(x) else x for x in expected]
            assert written == expected
            assert [float(row[name]) if row[name] else None for name in names] == expected


def test_no_cell_of_csv_is_a_formula(result, tmp_path):
    export(result, "csv", tmp_path / "x")
    for name in ("clips.csv", "segments.csv"):
        for row in rows(tmp_path / "x" / name):
            assert not row["clip"].startswith(("=", "+", "-", "@", "\t", "\r"))
    assert rows(tmp_path / "x" / "clips.csv")[2]["clip"] == f"'{NAMES[2]}"


def test_unknown_cells_are_empty(without_states, without_actions, tmp_path):
    export(without_actions, "csv", tmp_path / "x")
    row = rows(tmp_path / "x" / "clips.csv")[0]
    assert [row[f"action_{name}"] for name in ("start", "time", "end", "score")] == [""] * 4
    export(without_states, "csv", tmp_path / "y")
    assert {row["what"] for row in rows(tmp_path / "y" / "segments.csv")} == {"action"}


def test_arrow_reads_the_tables(result, tmp_path):
    export(result, "csv", tmp_path / "c")
    options = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(tmp_path / "c" / "segments.csv", parse_options=options)
    assert table["score"].to_pylist().count(0.9) == 3
    export(result, "jsonl", tmp_path / "j")
    table = pyarrow.json.read_json(tmp_path / "j" / "clips.jsonl")
    assert table["clip"].to_pylist() == list(NAMES)


def test_jsonl_holds_all_of_it(result, tmp_path):
    export(result, "jsonl", tmp_path / "x")
    lines = (tmp_path / "x" / "clips.jsonl").read_text().splitlines()
    assert len(lines) == 3
    for n, line in enumerate(lines):
        data, clip = json.loads(line), result.corpus[n]
        assert (data["clip"], data["video"]) == (clip.id, clip.video)
        assert (data["start"], data["end"]) == (clip.start, clip.end)
        assert data["object"] == "cup <big> & co"
        assert data["action"]["time"] == result.action_time[n]
        assert data["action"]["chunk"] == 2
        assert [c["score"] for c in data["chunks"]] == [0.0, 0.1, 0.6, 0.2, 0.0]
        assert [t["state"] for t in data["tracklets"]] == [1, 1, 0, 2]
        assert [t["true_label"] for t in data["tracklets"]] == [1, None, None, None]
        for written, tracklet in zip(data["tracklets"], clip.tracklets, strict=True):
            assert (written["start"], written["end"]) == (tracklet.start, tracklet.end)
            assert written["detection_score"] == 0.75
            boxes = [(b.time, b.x1, b.y1, b.x2, b.y2) for b in tracklet.boxes]
            assert list(map(tuple, written["boxes"])) == boxes


@pytest.mark.parametrize("side", ["without_states", "without_actions"])
def test_jsonl_has_no_nan(request, side, tmp_path):
    export(request.getfixturevalue(side), "jsonl", tmp_path / "x")
    text = (tmp_path / "x" / "clips.jsonl").read_text()
    data = json.loads(text.splitlines()[0], parse_constant=pytest.fail)
    if side == "without_states":
        assert data["tracklets"][0]["score_1"] is None
    else:
        assert data["action"] is None
        assert data["chunks"][0]["score"] is None


def test_progress_and_success_are_written_where_they_are_known(result, tmp_path):
    n, t = len(result.clips), len(result.action_scores)
    known = replace(
        result, progress=np.linspace(0, 1, t), reached_chance=np.array([0.9, 0.1, 0.7])[:n]
    )
    export(known, "csv", tmp_path / "c")
    clips = rows(tmp_path / "c" / "clips.csv")
    assert [row["reached"] for row in clips] == ["yes", "no", "unsure"]
    assert [float(row["reached_chance"]) for row in clips] == [0.9, 0.1, 0.7]
    progress = rows(tmp_path / "c" / "progress.csv")
    assert [float(row["progress"]) for row in progress] == known.progress.tolist()
    assert [float(row["time"]) for row in progress] == known.corpus.chunks.time.tolist()
    export(known, "jsonl", tmp_path / "j")
    lines = [json.loads(x) for x in (tmp_path / "j" / "clips.jsonl").read_text().splitlines()]
    assert [line["reached"] for line in lines] == ["yes", "no", "unsure"]
    assert [chunk["progress"] for line in lines for chunk in line["chunks"]] == (
        known.progress.tolist()
    )
    export(result, "csv", tmp_path / "none")
    assert not (tmp_path / "none" / "progress.csv").exists()
    assert {row["reached"] for row in rows(tmp_path / "none" / "clips.csv")} == {""}


def test_episodes_have_their_own_seconds(tmp_path):
    clips = [
        replace(clip("late", None, 10.0), episode=EpisodeSpan(7, 9.5)),
        clip("plain", None, 0.0),
    ]
    result = make_result(clips)
    export(result, "csv", tmp_path / "csv")
    first, second = rows(tmp_path / "csv" / "clips.csv")
    assert first["episode"] == "7"
    for name in ("start", "time", "end"):
        seconds = float(first[f"action_{name}_in_episode"])
        assert seconds == pytest.approx(float(first[f"action_{name}"]) - 9.5)
        assert second[f"action_{name}_in_episode"] == ""
    segments = rows(tmp_path / "csv" / "segments.csv")
    assert {row["episode"] for row in segments if row["clip"] == "late"} == {"7"}
    for row in segments:
        if row["clip"] == "late":
            assert float(row["end_in_episode"]) == pytest.approx(float(row["end"]) - 9.5)
    export(result, "jsonl", tmp_path / "jsonl")
    late, plain = (tmp_path / "jsonl" / "clips.jsonl").read_text().splitlines()
    assert json.loads(late)["episode"] == {"index": 7, "start": 9.5}
    assert "episode" not in json.loads(plain)


def test_the_table_of_a_result_has_seconds_of_the_episode(tmp_path):
    made = replace(clip("late", None, 10.0), episode=EpisodeSpan(7, 9.5))
    result = make_result([made])
    result.save(tmp_path / "result")
    again = Result.load(tmp_path / "result")
    assert again.corpus.episodes == (EpisodeSpan(7, 9.5),)
    row = pq.read_table(tmp_path / "result" / "clips.parquet").to_pylist()[0]
    assert (row["episode"], row["episode_start"]) == (7, 9.5)
    assert row["action_time_in_episode"] == pytest.approx(row["action_time"] - 9.5)


def test_a_chain_has_columns_for_each_action_and_a_row_for_each_segment(chain, tmp_path):
    export(chain, "csv", tmp_path / "csv")
    first, *_, last = rows(tmp_path / "csv" / "clips.csv")
    assert (first["action_1_start"], first["action_1_end"]) == ("1.6", "2.0")
    assert (first["action_2_time"], first["action_2_score"]) == ("3.8", "0.8")
    assert (last["action_2_start"], last["action_2_score"]) == ("", ""), "it lacks this one"
    assert {"action_2_confidence", "state_3_confidence"} < set(first)
    assert not {"action_start", "action_time", "action_confidence"} & set(first)
    segments = rows(tmp_path / "csv" / "segments.csv")
    assert [row["what"] for row in segments if row["clip"] == "clip 0"] == [
        *("closed", "opening", "open", "closing", "closed"),
    ]
    assert [row["what"] for row in segments if row["clip"] == "clip 2"] == [
        *("closed", "opening", "open"),
    ]


def test_a_chain_of_a_robot_has_the_times_of_each_action_in_the_episode(chain, tmp_path):
    episodes = (EpisodeSpan(4, 1.0), *chain.corpus.episodes[1:])
    robot = replace(chain, corpus=replace(chain.corpus, episodes=episodes))
    export(robot, "csv", tmp_path / "csv")
    row = rows(tmp_path / "csv" / "clips.csv")[0]
    assert row["episode"] == "4"
    assert float(row["action_2_start_in_episode"]) == pytest.approx(2.6)


def test_the_lines_of_a_chain_hold_all_actions(chain, tmp_path):
    export(chain, "jsonl", tmp_path / "jsonl")
    lines = (tmp_path / "jsonl" / "clips.jsonl").read_text().splitlines()
    first, *_, last = map(json.loads, lines)
    assert [(a["action"], a["start"], a["end"]) for a in first["actions"]] == [
        (1, 1.6, 2.0),
        (2, 3.6, 4.0),
    ]
    assert [a["action"] for a in last["actions"]] == [1]
    assert "action" not in first
    assert first["names"] == {
        "states": ["closed", "open", "closed"],
        "actions": ["opening", "closing"],
    }
    assert [t["score_3"] for t in first["tracklets"] if t["state"] == 3] == [0.9]
    assert {c["score_2"] for c in first["chunks"] if c["true_action"] == 2} == {0.8}
