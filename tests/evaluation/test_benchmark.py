"""The paper's comparison from end to end, on little videos whose truth is known."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest

from objectstates import Corpus
from objectstates.base.cache import cache_folder
from objectstates.base.errors import BenchmarkError, SettingError
from objectstates.detect.fewshot_training import Recipe, train
from objectstates.evaluation import ClipScore, Evaluation
from objectstates.evaluation.baselines import METHODS
from objectstates.evaluation.benchmark import Benchmark, BenchmarkSettings, run_benchmark, stages
from objectstates.evaluation.benchmark.manipulations import find_manipulations, read_manipulation
from objectstates.evaluation.benchmark.tables import COLUMNS, differences, order_notes, write_tables
from objectstates.ingest import pipeline as ingesting
from tests.ingest.test_pipeline import BOX, FPS, scene
from tests.video.videos import write_video

ACTION = (2.1, 3.9)  # seconds in which the hand of a scene passes
FRAMES = 60


def write_clip(folder, name, seed):
    """A little video, its truth, and its object's boxes as a detector's file."""
    write_video(folder / f"{name}.mp4", scene(seed), fps=FPS, options={"crf": "18"})
    truth = {
        "fps": FPS,
        "n_frames": FRAMES,
        "action_interval_s": ACTION,
        "object": {"box": [BOX] * FRAMES},
    }
    (folder / f"{name}.json").write_text(json.dumps(truth))
    x1, y1, x2, y2 = BOX
    rows = [f"{i + 1},1,{x1},{y1},{x2 - x1},{y2 - y1},0.{90 + seed}" for i in range(0, FRAMES, 2)]
    boxes = folder.parent.parent / "boxes"
    boxes.mkdir(exist_ok=True)
    (boxes / f"{name}.csv").write_text("\n".join(rows) + "\n")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Two manipulations of six clips each; the first three of each are to train on."""
    root = tmp_path_factory.mktemp("drawn") / "data"
    for task, first in (("paint <b>", 0), ("turn", 6)):
        folder = root / task
        folder.mkdir(parents=True)
        for seed in range(first, first + 6):
            write_clip(folder, f"clip{seed}", seed % 10)
        names = [f"clip{first}", f"clip{first + 1}.mp4", "", f"clip{first + 2}.json"]
        (folder / "train.txt").write_text("\n".join(names))
    return root


@pytest.fixture
def data(drawn, tmp_path):
    """A copy that a test may spoil, with the boxes beside it."""
    shutil.copytree(drawn.parent, tmp_path / "copy")
    return tmp_path / "copy" / "data"


def with_boxes(data, **changes):
    """Settings with a cache of observations that all tests share."""
    detector, cache = f"boxes:{data.parent / 'boxes'}", cache_folder() / "ingest"
    return BenchmarkSettings(**{"detector": detector, "runs": 2, "cache": cache, **changes})


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_from_videos_to_the_table(data, tmp_path, run, monkeypatch):
    """One manipulation with its own detector; the other is damaged, named and passed over."""
    quick = Recipe(images=48, folds=3, rounds=2, iterations=40)
    monkeypatch.setattr(stages, "train", partial(train, recipe=quick))
    (data / "turn" / "clip9.json").write_text('{"fps": 10, "n_fr')
    out = tmp_path / "out"
    words = ("benchmark", data, "--out", out, "--processes", 1, "--cache", tmp_path / "cache")
    code, shown, err = run(*words, "--runs", 2)
    assert code == 0
    assert "clip9.json cannot be read as JSON" in err
    assert "turn is missing" in err
    assert "State discovery" in shown
    table = rows_of(out / "table.csv")
    assert tuple(table[0]) == COLUMNS
    assert [(row["manipulation"], row["method"]) for row in table] == [
        (name, method)
        for name in ("paint <b>", "average")
        for method in METHODS
        if not METHODS[method].on_request
    ]
    by_method = {row["method"]: row for row in table if row["manipulation"] == "average"}
    chance = [float(by_method["chance"][f"action{end}"]) for end in ("_low", "", "_high")]
    assert chance == [pytest.approx(11 / 38)] * 3, "in all clips the same chunks of 0.16 s"
    assert float(by_method["salient"]["labels_per_clip"]) == 2
    assert float(by_method["joint"]["states"]) > float(by_method["chance"]["states"])
    assert by_method["supervised"]["states"] == by_method["kmeans"]["action"] == ""
    clips = rows_of(out / "clips.csv")
    mine = [row for row in clips if row["method"] == "joint"]
    assert [row["clip"] for row in mine] == ["clip3", "clip4", "clip5"], "not those trained on"
    precision = np.mean([float(row[f"precision_{k}"]) for row in mine for k in (1, 2)])
    assert float(by_method["joint"]["states"]) == pytest.approx(precision)
    (detector,) = rows_of(out / "detectors.csv")
    assert (detector["detector"], detector["train_clips"], detector["test_clips"]) == (
        "fewshot", "3", "3",
    )  # fmt: skip
    assert float(detector["recall"]) > 0.8
    assert float(detector["coverage"]) > 0.8
    pairs = [(row["method"], row["over"]) for row in rows_of(out / "differences.csv")]
    assert ("joint", "at_least_one") in pairs
    page = (out / "table.html").read_text()
    assert "paint &lt;b&gt;" in page
    assert "paint <b>" not in page
    assert "turn is missing" in page
    assert "paint &lt;b&gt;" in (out / "table.md").read_text()


def test_a_killed_run_resumes_where_it_stopped(data, tmp_path, monkeypatch):
    whole = run_benchmark(data, tmp_path / "whole", with_boxes(data))
    out, cache = tmp_path / "out", tmp_path / "cache"
    words = ["benchmark", data, "--out", out, "--detector", f"boxes:{data.parent / 'boxes'}"]
    words += ["--processes", 1, "--runs", 2, "--cache", cache]
    process = subprocess.Popen(
        [sys.executable, "-m", "objectstates", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    runs = out / "runs"
    while len(list(runs.glob("[!.]*.json"))) < 4 and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was killed in the midst"
    kept = {path.name for path in runs.glob("[!.]*.json")}
    ran: list[tuple[str, str]] = []
    observed = []
    watched = run_benchmark(
        data,
        out,
        with_boxes(data, cache=cache),
        progress=lambda name, stage, how_far: ran.append((name, stage)),
    )
    methods = [f"{name}.{stage}.json" for name, stage in ran if stage in METHODS]
    done_before = kept - {f"{n}.detector.json" for n in whole.manipulations}
    assert len(methods) + len(done_before) == 2 * len(whole.methods)
    assert not kept & {*methods}
    assert watched.scores.keys() == whole.scores.keys()
    for name, scores in whole.scores.items():
        np.testing.assert_array_equal(scores.precisions, watched.scores[name].precisions)
        np.testing.assert_array_equal(scores.actions, watched.scores[name].actions)
    monkeypatch.setattr(ingesting, "ingest", lambda *_, **__: observed.append(1))
    ran.clear()
    run_benchmark(data, out, with_boxes(data), progress=lambda name, *_: ran.append((name, "")))
    assert not ran, "all of it was kept"
    assert not observed


def test_only_what_changed_is_recomputed(data, tmp_path):
    def ran(**changes):
        told = []
        settings = with_boxes(data, cache=tmp_path / "cache", **changes)
        run_benchmark(
            data / "turn",
            tmp_path / "out",
            settings,
            methods=["chance", "salient"],
            progress=lambda name, stage, how_far: told.append(stage),
        )
        return list(dict.fromkeys(told))

    everything = ["ingesting the test clips", "evaluating the detector", "chance", "salient"]
    assert ran() == everything
    assert ran() == []
    assert ran(seed=1) == ["chance", "salient"]
    assert ran(seed=1, fresh=True) == everything
    facts = json.loads((data / "turn" / "clip9.json").read_text())
    facts["action_interval_s"] = [2.5, 4.5]
    (data / "turn" / "clip9.json").write_text(json.dumps(facts))
    assert ran(seed=1) == everything
    (tmp_path / "out" / "runs" / "turn.chance.json").write_text("{")
    assert ran(seed=1) == ["chance"]
    (tmp_path / "out" / "corpora" / "turn" / "tracklets.parquet").write_bytes(b"")
    assert ran(seed=1) == ["ingesting the test clips"], "the same corpus again"


def test_crops_restrict_the_test_clips(data, tmp_path):
    (data / "crops.json").write_text(json.dumps({"clip9": [10, 50], "clip6": [0, 5]}))
    for place, crops, span in (
        (data / "turn", True, (1.0, 5.0)),
        (data, True, (1.0, 5.0)),
        (data, False, (0.0, 6.0)),
    ):
        out = tmp_path / f"out{crops}{place.name}"
        run_benchmark(place, out, with_boxes(data), tasks=["turn"], methods=["chance"], crops=crops)
        corpus = Corpus.load(out / "corpora" / "turn")
        assert corpus.spans[corpus.clip_ids.index("clip9")] == pytest.approx(span)
        assert corpus.spans[corpus.clip_ids.index("clip10")] == pytest.approx((0, 6))
        label = corpus.chunks.label[list(corpus.chunk_rows(corpus.clip_ids.index("clip9")))]
        time = corpus.chunks.time[list(corpus.chunk_rows(corpus.clip_ids.index("clip9")))]
        inside = (time >= ACTION[0] - 1e-6) & (time < ACTION[1] - 1e-6)
        np.testing.assert_array_equal(label == 1, inside)  # in time of the whole video


def test_clips_may_be_cut_around_the_action(data, tmp_path):
    out = tmp_path / "out"
    run_benchmark(data, out, with_boxes(data), tasks=["turn"], methods=["chance"], around=1.5)
    corpus = Corpus.load(out / "corpora" / "turn")
    for span in corpus.spans:
        assert span == pytest.approx((1.5, 4.5))
    assert (corpus.chunks.label == 1).any()


def test_the_first_six_train_unless_a_list_says_otherwise(tmp_path):
    for name in "abcdefgh":
        (tmp_path / f"{name}.mp4").touch()
        facts = {"fps": 1, "n_frames": 3, "action_interval_s": [1, 2], "object": {"box": [BOX] * 3}}
        (tmp_path / f"{name}.json").write_text(json.dumps(facts))

    def split():
        (folder,) = find_manipulations(tmp_path)
        read = read_manipulation(folder)
        return "".join(c.id for c in read.train), "".join(c.id for c in read.test)

    assert split() == ("abcdef", "gh")
    (tmp_path / "i.mp4").touch()
    assert split() == ("abcdef", "gh"), "i has no truth"
    (tmp_path / "train.txt").write_text("# mine\nh.mp4\n\na\n")
    assert split() == ("ha", "bcdefg")
    (tmp_path / "train.txt").write_text("a\nz.mp4\n")
    with pytest.raises(BenchmarkError, match=r"train\.txt, line 2: 'z\.mp4'"):
        split()
    (tmp_path / "train.txt").write_text("\n".join("abcdefgh"))
    with pytest.raises(BenchmarkError, match="none is left to test"):
        split()


def test_annotations_by_hand_are_tested_with_the_motion_detector(data, tmp_path):
    entries = [
        {
            "file": f"turn/clip{n}.mp4",
            "fps": FPS,
            "action_interval_s": ACTION,
            "object_box_before": BOX,
            "frame_before": 0,
            "object_box_after": BOX,
            "frame_after": 59,
        }
        for n in range(7, 11)
    ]
    (data / "annotations.json").write_text(json.dumps(entries))
    (data / "turn" / "train.txt").unlink()
    done = run_benchmark(
        data, tmp_path / "out", BenchmarkSettings(), methods=["chance", "supervised"]
    )
    assert done.manipulations == ("turn",)
    assert done.detectors["turn"].detector == "motion"
    assert np.isnan(done.detectors["turn"].recall)
    clips = [row.clip for row in done.scores["turn", "chance"].rows]
    assert clips == ["clip10", "clip7", "clip8", "clip9"]
    assert any("clip6" in note for note in done.notes), "it has no truth"
    fraction = (ACTION[1] - ACTION[0]) / (FRAMES / FPS)
    assert done.scores["turn", "chance"].action_precision == pytest.approx(fraction, abs=0.1)
    assert done.scores["turn", "supervised"].action_precision > 0.5
    assert not np.isnan(done.detectors["turn"].on_object)
    assert not any("by time alone" in note for note in done.notes)


def test_truth_without_boxes_gives_an_upper_bound(data, tmp_path):
    entries = [
        {
            "file": f"turn/clip{n}.mp4",
            "fps": FPS,
            "action_interval_s": ACTION,
            "object_box_before": None,
            "object_box_after": None,
        }
        for n in range(7, 11)
    ]
    (data / "annotations.json").write_text(json.dumps(entries))
    (data / "turn" / "train.txt").unlink()
    done = run_benchmark(data, tmp_path / "out", BenchmarkSettings(), methods=["chance"])
    assert any("by time alone, an upper bound" in note for note in done.notes)
    assert np.isnan(done.detectors["turn"].on_object), "whether the object is there is not known"
    assert np.isnan(done.detectors["turn"].coverage)


def test_unusable_data_are_named(data, tmp_path):
    with pytest.raises(BenchmarkError, match="no folder"):
        run_benchmark(data / "nowhere", tmp_path / "out")
    with pytest.raises(BenchmarkError, match="`methods`: there is no 'magic'"):
        run_benchmark(data, tmp_path / "out", methods=["magic"])
    with pytest.raises(BenchmarkError, match="has no 'fry'; there are paint <b>, turn"):
        run_benchmark(data, tmp_path / "out", tasks=["fry"])
    for name, value in (("seed", -1), ("runs", 0), ("processes", 0)):
        with pytest.raises(SettingError, match=f"`{name}` must be a whole number of at least"):
            with_boxes(data, **{name: value})
    (data / "crops.json").write_text('{"clip9": [5, 5]}')
    with pytest.raises(BenchmarkError, match=r"crops\.json: the span 5 to 5 of clip9"):
        run_benchmark(data, tmp_path / "out")
    (data / "crops.json").unlink()
    for path in (data / "paint <b>").glob("*.mp4"):
        path.unlink()
    (data / "turn" / "clip11.mp4").write_bytes(b"no video")
    done = run_benchmark(data, tmp_path / "out", with_boxes(data), methods=["chance"])
    assert "has no videos" in done.failures["paint <b>", None]
    assert any("clip11 is left out" in note for note in done.notes)
    again = run_benchmark(data, tmp_path / "out", with_boxes(data), methods=["chance"])
    assert again.notes == done.notes, "kept with what was kept"
    for path in (data / "turn").glob("*.json"):
        path.write_text("[]")
    with pytest.raises(BenchmarkError, match=r"has no videos.*turn: .*clip10\.json lacks action"):
        run_benchmark(data, tmp_path / "out", with_boxes(data))


def made_up(**precision):
    """A benchmark of one manipulation, in which every clip has the given precision."""
    scores = {
        ("task", name): Evaluation(
            tuple(ClipScore(str(n), (value, value), (1.0, 1.0), (value,), 2) for n in range(5))
        )
        for name, value in precision.items()
    }
    return Benchmark(("task",), tuple(precision), scores)


def test_the_papers_order_is_compared_with_what_was_measured(tmp_path):
    as_in_paper = made_up(constraints=0.2, salient=0.3, at_least_one=0.4)
    (note,) = order_notes(differences(as_in_paper))
    assert "in the paper's order" in note
    other = made_up(constraints=0.2, salient=0.5, at_least_one=0.4, joint=0.4)
    first, second = order_notes(differences(other))
    assert "at_least_one above salient; here it is below it by 0.10" in first
    assert "beyond chance" in first
    assert "joint above at_least_one; here they are level" in second
    written = write_tables(other, tmp_path)
    assert first in written.remarks
    assert first in (tmp_path / "table.md").read_text()


def test_the_average_counts_manipulations_the_same(tmp_path):
    few = made_up(joint=1.0).scores["task", "joint"]
    many = Evaluation(tuple(ClipScore(str(n), (0.0, 0.0), (0, 0), (0,), 4) for n in range(50)))
    done = Benchmark(("a", "b"), ("joint",), {("a", "joint"): few, ("b", "joint"): many})
    write_tables(done, tmp_path)
    last = rows_of(tmp_path / "table.csv")[-1]
    assert (last["manipulation"], float(last["states"]), float(last["action"])) == (
        "average", 0.5, 0.5,
    )  # fmt: skip
    assert float(last["labels_per_clip"]) == 3


def test_simulated_manipulations_are_read(shared):
    folders = find_manipulations(shared / "data" / "sim")
    assert len(folders) >= 5
    for folder in folders:
        read = read_manipulation(folder)
        assert [clip.id[-3:] for clip in read.train] == [f"{n:03d}" for n in range(6)]
        assert len(read.test) >= 14
        for clip in read.test:
            start, end = read.truth[clip.id].action
            assert clip.start is not None
            assert clip.end is not None
            assert clip.start <= start < end <= clip.end


def test_chains_are_for_another_benchmark(tmp_path):
    actions = [{"step": 1, "interval_s": [1, 2]}, {"step": 2, "interval_s": [3, 4]}]
    facts = {"fps": 10, "n_frames": 1, "object": {"box": [[0, 0, 1, 1]]}, "actions": actions}
    for name in "abcdefg":
        (tmp_path / f"{name}.mp4").touch()
        (tmp_path / f"{name}.json").write_text(json.dumps(facts))
    with pytest.raises(BenchmarkError, match="chain of 2 actions"):
        run_benchmark(tmp_path, tmp_path / "out")


def test_nothing_is_written_among_files_of_others(data, tmp_path):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "clips.csv").write_text("the user's own list")
    with pytest.raises(BenchmarkError, match=r"mine exists and holds something else"):
        run_benchmark(data, out, with_boxes(data))
    assert [path.name for path in out.iterdir()] == ["clips.csv"]
    assert (out / "clips.csv").read_text() == "the user's own list"


def test_a_given_detector_is_judged_on_all_clips_but_those_it_was_trained_on(data):
    (*_, folder) = find_manipulations(data)
    assert len(read_manipulation(folder, trains=False).test) == 3
    (folder.folder / "train.txt").unlink()
    found = read_manipulation(folder, trains=False)
    assert found.train == ()
    assert len(found.test) == 6
    with pytest.raises(BenchmarkError, match="all 6 clips are for training"):
        read_manipulation(folder)
