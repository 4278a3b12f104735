"""From videos to a report in one command, and what an interruption costs."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from objectstates import Corpus, Result
from objectstates.data.synthetic import synthetic_corpus
from tests.ingest.test_pipeline import BOX, FPS, scene
from tests.report.scenes import make_result
from tests.video.videos import write_video

NAMES = ("one", "three", "two")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three clips, the boxes of their object, and what is true of them."""
    root = tmp_path_factory.mktemp("videos")
    (root / "boxes").mkdir()
    truth = ["clip,action_start,action_end"]
    for seed, name in enumerate(NAMES):
        write_video(root / f"{name}.mp4", scene(seed), fps=FPS, options={"crf": "18"})
        x1, y1, x2, y2 = BOX
        rows = [f"{i + 1},1,{x1},{y1},{x2 - x1},{y2 - y1},0.9" for i in range(0, 60, 2)]
        (root / "boxes" / f"{name}.csv").write_text("\n".join(rows) + "\n")
        truth.append(f"{name},2.0,4.0")
    (root / "truth.csv").write_text("\n".join(truth) + "\n")
    return root


def words(folder, out, *more):
    return [
        "discover", *map(str, sorted(folder.glob("*.mp4"))), "--object", "thing",
        "--detector", f"boxes:{folder / 'boxes'}", "--out", str(out), "--processes", "1", *more,
    ]  # fmt: skip


def test_one_command_leads_from_videos_to_a_report(run, folder, tmp_path, shown):
    out = tmp_path / "out"
    code, text, _ = run(*words(folder, out, "--truth", folder / "truth.csv", "--open"))
    assert code == 0
    for name in (*NAMES, "action", "state 1", "confidence", "chance", "middle of the clip"):
        assert name in text
    assert "median lengths: tracklets of 0.4 s, chunks of 0.16 s" in text
    assert shown == [(out / "report.html").resolve().as_uri()]
    assert str(out / "report.html") in text
    assert "by time alone, an upper bound" in text
    assert text.index("note: 3 clips are few") < text.index("confidence")
    assert {path.name for path in out.iterdir()} == {
        "corpus", "result", "report.html", "discover.json",
    }  # fmt: skip
    assert len(Corpus.load(out / "corpus")) == 3
    result = Result.load(out / "result")
    assert result.summary["configuration"]["ingest"]["object"] == "thing"
    code, text, _ = run(*words(folder, out, "--truth", folder / "truth.csv", "--json"))
    facts = json.loads(text)
    assert facts["kept"] == ["fit", "ingest", "report"]
    assert "by time alone, an upper bound" in facts["truth"], "the list has times only"
    assert facts["advice"][0]["name"] == "few_clips"
    assert (facts["tracklet_seconds"], facts["chunk_seconds"]) == (0.4, 0.16)
    assert [clip["clip"] for clip in facts["clips"]] == list(NAMES)
    for clip, at in zip(facts["clips"], result.action_time, strict=True):
        assert clip["action_time"] == at
        assert clip["action"][0] <= at <= clip["action"][1]
        ((_, end),), ((start, _),) = clip["state_1"][-1:], clip["state_2"][:1]
        assert end <= start
    assert facts["precision"]["discovered"]["action"] >= facts["precision"]["chance"]["action"]
    code, text, _ = run("inspect", out, "--json")
    assert json.loads(text)["fingerprint"] == result.summary["fingerprint"]


def test_ingest_makes_the_corpus_of_discover_for_a_chain_too(run, folder, tmp_path):
    """Clips of several changes are divided as shorter ones."""
    chain = ("--changes", "3")
    assert run(*words(folder, tmp_path / "found", *chain, "--no-verdict"))[0] == 0
    code, text, _ = run("ingest", *words(folder, tmp_path / "corpus", *chain, "--json")[1:])
    assert code == 0
    assert json.loads(text)["chunk_seconds"] == 0.1, "0.16 for a single change"
    one, other = Corpus.load(tmp_path / "corpus"), Corpus.load(tmp_path / "found" / "corpus")
    np.testing.assert_array_equal(one.tracklets.start, other.tracklets.start)
    np.testing.assert_array_equal(one.chunks.features, other.chunks.features)
    code, _, problem = run("ingest", *words(folder, tmp_path / "c", "--changes", "many")[1:])
    assert code != 0
    assert "--changes must be a whole number" in problem


def test_only_the_stages_that_a_change_concerns_are_done_again(run, folder, tmp_path):
    out = tmp_path / "out"

    def kept(*more):
        code, text, err = run(*words(folder, out, "--json", *more))
        assert code == 0, err
        return json.loads(text)["kept"]

    kept()
    assert kept("--nu", "0.5") == ["ingest"]
    assert kept("--nu", "0.5") == ["fit", "ingest", "report"]
    (out / "report.html").unlink()
    assert kept("--nu", "0.5") == ["fit", "ingest"]
    (out / "result" / "clips.parquet").write_bytes(b"damaged")
    assert kept("--nu", "0.5") == ["ingest"]
    assert kept("--nu", "0.5", "--truth", str(folder / "truth.csv")) == ["ingest"]


def test_corrections_and_names_are_part_of_a_run(run, folder, tmp_path):
    out, file = tmp_path / "out", tmp_path / "c.csv"
    file.write_text("clip,kind,start,end,value\none,action,0.5,1.5,\ntwo,state,0,1,closed\n")
    more = ("--states", "closed,open", "--action", "opening", "--corrections", file)
    code, text, err = run(*words(folder, out, *more))
    assert code == 0, err
    for name in ("closed", "opening", "open", "corrected clips: one, two"):
        assert name in text
    code, text, _ = run(*words(folder, out, "--json", *more))
    facts = json.loads(text)
    assert facts["kept"] == ["fit", "ingest", "report"]
    assert facts["corrected"] == ["one", "two"]
    assert 0.5 <= facts["clips"][0]["action_time"] <= 1.5
    file.write_text("clip,kind,start,end,value\none,exclude,,,\n")
    code, text, _ = run(*words(folder, out, "--json", *more))
    assert [clip["clip"] for clip in json.loads(text)["skipped"]] == ["one"]
    file.write_text("clip,kind\nfour,exclude\n")
    code, _, err = run(*words(folder, out, *more))
    assert code == 2
    assert "c.csv, line 2: there is no clip 'four'" in err


def stamps(*paths: Path) -> dict[Path, int]:
    """When files were written; a file that is made again has another stamp."""
    files = [f for path in paths for f in path.rglob("*") if f.is_file() and f.suffix != ".onnx"]
    return {file: file.stat().st_mtime_ns for file in files}


STOPPING = """
import os, signal, sys
from importlib import import_module
signal.signal(signal.SIGINT, signal.default_int_handler)  # which background jobs ignore
module, owner, name, calls, how = sys.argv[1:6]
del sys.argv[1:6]
place = getattr(import_module(module), owner) if owner else import_module(module)
function, done = getattr(place, name), []

def stop(*arguments, **options):
    if len(done) == int(calls):
        os.kill(os.getpid(), getattr(signal, how))
    value = function(*arguments, **options)
    done.append(None)
    return value

setattr(place, name, stop)
from objectstates.__main__ import main
main()
"""
PUT = "objectstates.base.cache", "ArrayCache", "put"
FIT = "objectstates.discovery.estimator", "JointDiscovery", "fit"
REPORT = "objectstates.app.workspace", "", "write_report"


def stopped(command, function, calls, how):
    """Run a command that sends itself a signal after so many calls of a function."""
    script = [sys.executable, "-c", STOPPING, *function, str(calls), how, *command]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_interrupted_anywhere_it_continues(run, folder, tmp_path):
    """Killed or stopped by Ctrl-C in each stage: no finished work is written again."""
    out, cache = tmp_path / "out", tmp_path / "cache"
    command = words(folder, out, "--cache", str(cache), "--json")

    code, _ = stopped(command, PUT, 2, "SIGKILL")  # two entries per clip
    assert code == -signal.SIGKILL
    assert not (out / "corpus").exists()
    first_clip = stamps(cache)
    assert len(first_clip) == 2

    code, errors = stopped(command, PUT, 2, "SIGINT")
    assert code == 130
    assert "objectstates: interrupted: the same command goes on from here\n" in errors
    assert "Traceback" not in errors
    two_clips = stamps(cache)
    assert len(two_clips) == 4
    assert first_clip.items() <= two_clips.items()

    assert stopped(command, FIT, 0, "SIGKILL")[0] == -signal.SIGKILL
    assert (out / "corpus" / "corpus.json").exists()
    assert not (out / "result").exists()
    all_clips = stamps(cache)
    assert two_clips.items() <= all_clips.items()

    assert stopped(command, REPORT, 0, "SIGKILL")[0] == -signal.SIGKILL
    found = stamps(out / "result")
    assert found
    assert not (out / "report.html").exists()
    assert stamps(cache) == all_clips

    code, text, _ = run(*command)
    assert code == 0
    facts = json.loads(text)
    assert (facts["observed"], facts["from_cache"]) == (0, 3)
    assert facts["kept"] == ["fit", "ingest"]
    assert stamps(cache) == all_clips
    assert stamps(out / "result") == found
    assert "<html" in (out / "report.html").read_text()
    left = {path.name for path in out.iterdir()}
    assert left == {"corpus", "result", "report.html", "discover.json"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "no clip to read"),
        (["nowhere.mp4"], "nowhere.mp4"),
        (["empty"], "empty"),
        (["a.mp4", "--out", "taken"], "taken exists and holds something else (mine.txt)"),
        (["a.mp4", "--out", "a.mp4"], "a.mp4"),
        (["a.mp4", "--truth", "no.csv"], "no.csv does not exist"),
        (["a.mp4", "--detector", "magic"], "magic"),
        (["a.mp4", "--tracklet-seconds", "0"], "tracklet"),
        (["a.mp4", "--nu", "-1"], "nu must be"),
        (
            ["a.mp4", "--out-of-core", "--reject", "auto"],
            "--reject: clips cannot be rejected out of core: leave it out",
        ),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run, tmp_path, monkeypatch, more, message):
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / "a.mp4", scene(0, 1.0), fps=FPS)
    (tmp_path / "empty").mkdir()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("precious")
    out = [] if "--out" in more else ["--out", "new"]
    code, _, err = run("discover", *more, *out)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1, err
    assert (tmp_path / "taken" / "mine.txt").read_text() == "precious"
    assert os.listdir(tmp_path / "taken") == ["mine.txt"]


@pytest.mark.parametrize("wrong", [["--mu", "0"], ["--out-of-core", "--shards", "0"]])
def test_what_the_fit_would_refuse_is_refused_before_videos_are_read(run, folder, tmp_path, wrong):
    code, _, err = run(*words(folder, tmp_path / "out", "--cache", tmp_path / "cache", *wrong))
    assert code == 2
    assert "must be" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM"])
def test_an_interrupted_fit_says_so_and_leaves_nothing(tmp_path, how):
    synthetic_corpus(n_clips=8).save(tmp_path / "corpus")
    command = ["fit", str(tmp_path / "corpus"), "--out-of-core", "--out", str(tmp_path / "result")]
    shards = "objectstates.parallel.actors", "LocalActors", "call"
    code, errors = stopped(command, shards, 8, how)
    assert code == 128 + getattr(signal, how)
    assert errors == "objectstates: interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_a_killed_fit_out_of_core_can_be_repeated(run, tmp_path):
    synthetic_corpus(n_clips=8).save(tmp_path / "corpus")
    command = ["fit", str(tmp_path / "corpus"), "--out-of-core", "--out", str(tmp_path / "result")]
    shards = "objectstates.parallel.actors", "LocalActors", "call"
    assert stopped(command, shards, 8, "SIGKILL")[0] == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2, "the folder of the shard is left"
    assert run(*command)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "result"]


def test_a_killed_discovery_out_of_core_goes_on(run, folder, tmp_path):
    """What its fit left in the folder is cleared, and not refused as something else."""
    out = tmp_path / "out"
    command = words(folder, out, "--cache", str(tmp_path / "cache"), "--out-of-core")
    shards = "objectstates.parallel.actors", "LocalActors", "call"
    assert stopped(command, shards, 4, "SIGKILL")[0] == -signal.SIGKILL
    known = {"corpus", "discover.json"}
    assert {path.name for path in out.iterdir()} > known, "the folder of the shard is left"
    code, _, err = run(*command)
    assert code == 0, err
    assert {path.name for path in out.iterdir()} == {*known, "result", "report.html"}


def test_a_video_replaced_after_the_fit_is_named_by_report_and_export(run, folder, tmp_path):
    films, out = tmp_path / "films", tmp_path / "out"
    shutil.copytree(folder, films)
    assert run(*words(films, out))[0] == 0
    code, _, err = run("export", out, "--to", "csv", "--out", tmp_path / "csv")
    assert (code, "replaced" in err) == (0, False)
    shutil.copy(films / "two.mp4", films / "one.mp4")
    _, _, err = run("export", out, "--to", "csv", "--out", tmp_path / "csv")
    assert f"1 video was replaced after being read: {films / 'one.mp4'}" in err
    run("report", out, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert f"1 video was replaced after being read: {films / 'one.mp4'}" in page


def test_what_a_killed_export_left_is_cleared_by_the_next(run, tmp_path):
    make_result().save(tmp_path / "result")
    command = ["export", str(tmp_path / "result"), "--to", "csv", "--out", str(tmp_path / "csv")]
    writer = "objectstates.export.csv_jsonl", "", "write_csv"
    assert stopped(command, writer, 0, "SIGKILL")[0] == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2, "a temporary folder is left"
    assert run(*command)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["csv", "result"]
