import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import objectstates
from objectstates import ChangeProfile, Corpus, JointDiscovery, Result, __version__, evaluate
from objectstates.data.synthetic import synthetic_corpus


@pytest.fixture(scope="module")
def corpus_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "corpus"
    synthetic_corpus(n_clips=6).save(folder)
    return folder


def test_fit_predict_inspect(run, corpus_folder, tmp_path):
    code, out, _ = run("fit", corpus_folder, "--out", tmp_path / "r", "--nu", 0.5, "--seed", 2)
    assert code == 0
    assert "duality gap" in out
    result = Result.load(tmp_path / "r")
    assert result.settings["nu"] == 0.5
    assert result.settings["seed"] == 2
    synthetic_corpus(n_clips=3, seed=8).save(tmp_path / "new")
    code, out, _ = run("predict", tmp_path / "r", tmp_path / "new", "--out", tmp_path / "p")
    assert code == 0
    assert len(Result.load(tmp_path / "p").clips) == 3
    for path, words in (
        (corpus_folder, ["clips", "tracklet feature size", "256", "boxes"]),
        (tmp_path / "r", ["duality gap", "nu 0.5"]),
        (tmp_path / "p", ["predict"]),
    ):
        code, out, _ = run("inspect", path)
        assert code == 0
        for word in words:
            assert word in out


def test_json_is_for_scripts(run, corpus_folder, tmp_path):
    code, out, _ = run("fit", corpus_folder, "--out", tmp_path / "r", "--json", "--restarts", 2)
    summary = json.loads(out)
    assert code == 0
    assert summary["duality_gap"] <= 0.01 * summary["relaxed_objective"]
    scores = evaluate(Result.load(tmp_path / "r"), Corpus.load(corpus_folder))
    assert summary["state_precision"] == scores.state_precision
    assert json.loads(run("inspect", corpus_folder, "--json")[1])["clips"] == 6


def test_inspect_counts_the_clips_with_a_change_profile(run, tmp_path):
    corpus = synthetic_corpus(n_clips=4)
    profile = ChangeProfile(0.0, 0.1, np.ones(9, np.float32), np.zeros((3, 4), np.uint8))
    for changes, lacking in (((profile, None, profile, None), False), ((None,) * 4, True)):
        replace(corpus, changes=changes).save(tmp_path / "c")
        facts = json.loads(run("inspect", tmp_path / "c", "--json")[1])
        assert facts["clips_with_change_profile"] == sum(x is not None for x in changes)
        assert ("change profiles" in facts["missing"]) == lacking


def test_version_and_help(run):
    assert run("--version") == (0, f"objectstates {__version__}\n", "")
    code, out, _ = run("fit", "--help")
    assert code == 0
    assert "--nu" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "nowhere", "--out", "r"], "nowhere does not exist"),
        (["fit", "a.txt", "--out", "r"], "a.txt is neither a corpus folder nor a .mat file"),
        (["fit", "empty", "--out", "r"], "empty has no corpus.json"),
        (["fit", "corpus"], "--out"),
        (["fit", "corpus", "--out", "r", "--mu", "0"], "mu must be a number above 0"),
        (["fit", "corpus", "--out", "r", "--nu", "much"], "--nu"),
        (["fit", "corpus", "--out", "r", "--solver", "magic"], "--solver"),
        (["fit", "corpus", "--out", "a.txt"], "a.txt exists and holds something else"),
        (["fit", "corpus", "--out", "a.txt/r"], "cannot write a.txt/r"),
        (["fit", "a.mat", "--out", "r"], "a.mat is not a MATLAB file"),
        (["fit", "x" * 300, "--out", "r"], "name too long"),
        (["predict", "corpus", "corpus", "--out", "r"], "corpus has no result.json"),
        (["inspect", "nowhere"], "nowhere does not exist"),
        (["inspect", "corpus", "--loud"], "No such option"),
        (["sing"], "No such command 'sing'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(run, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    synthetic_corpus(n_clips=2).save("corpus")
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "a.mat").write_text("hello")
    (tmp_path / "empty").mkdir()
    before = sorted(path.name for path in tmp_path.iterdir())
    code, _, err = run(*words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1, err
    assert err.startswith("objectstates: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "something was left behind"


def test_either_side_alone_prints_its_certificate(run, corpus_folder, tmp_path):
    for target in ("state", "action"):
        code, out, _ = run("fit", corpus_folder, "--out", tmp_path / target, "--target", target)
        assert code == 0
        assert "duality gap" in out


@pytest.mark.parametrize("out_of_core", [(), ("--out-of-core",)])
def test_a_reduction_tells_what_it_loses(run, tmp_path, out_of_core):
    """In words and as JSON, by fit and by inspect; a side that has fewer features says so."""
    synthetic_corpus(n_clips=6, state_size=60, action_size=30).save(tmp_path / "c")
    common = tmp_path / "c", "--out", tmp_path / "r", "--max-passes", 60, *out_of_core
    code, out, _ = run("fit", *common, "--reduce", 40)
    assert code == 0
    words = " ".join(out.split())
    assert "state: 40 directions of 60 features, without" in words
    assert "the objective is too high by" in words
    assert "action: not reduced, all of 30 features" in words
    _, out, _ = run("inspect", tmp_path / "r", "--json")
    told = json.loads(out)["reduced"]
    assert told["action"] == {"from": 30, "to": 30, "variance_lost": 0.0, "error_share": 0.0,
                              "cost_error_at_most": 0.0}  # fmt: skip
    assert 0 < told["state"]["cost_error_at_most"] < 0.5
    code, _, err = run("fit", *common, "--reduce", 0)
    assert code == 2
    assert "reduce must be a whole number of at least 1 and below 2^32, not 0" in err


def test_a_model_is_not_overwritten_by_its_predictions(run, corpus_folder, tmp_path):
    run("fit", corpus_folder, "--out", tmp_path / "r", "--max-passes", 60)
    code, _, err = run("predict", tmp_path / "r", corpus_folder, "--out", tmp_path / "r")
    assert code == 2
    assert "is the model itself" in err


def test_names_do_not_steer_the_terminal(run, tmp_path):
    clips = list(synthetic_corpus(n_clips=3))
    clips[1] = type(clips[1])("\x1b[31mred :cat:", (), clips[1].chunks)
    Corpus.from_clips(clips).save(tmp_path / "c")
    _, out, _ = run("inspect", tmp_path / "c")
    assert "\x1b[31m" not in out
    assert ":cat:" in out


def test_left_out_clips_are_told_in_one_line(run, tmp_path):
    clips = list(synthetic_corpus(n_clips=4))
    clips[2] = type(clips[2])("lonely", (), clips[2].chunks)
    Corpus.from_clips(clips).save(tmp_path / "c")
    code, _, err = run("fit", tmp_path / "c", "--out", tmp_path / "r")
    assert code == 0
    assert "warning: 1 of 4 clips" in err
    assert "lonely" in err
    assert err.count("\n") == 1
    code, _, err = run("fit", tmp_path / "c", "--out", tmp_path / "s", "--strict")
    assert code == 2
    assert not (tmp_path / "s").exists()


def python(*words, **env):
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **env},
    ).stdout


def test_starting_is_light():
    """Neither the import nor --help loads what takes long: numba, scipy, pyarrow, numpy."""
    heavy = "{'numba', 'scipy', 'pyarrow', 'numpy', 'h5py'}"
    code = f"import sys, objectstates; print(sorted({heavy} & set(sys.modules)))"
    assert python("-c", code) == "[]\n"
    code = (
        "import sys\nfrom objectstates import cli\nsys.argv = ['objectstates', '--help']\n"
        f"try: cli.main()\nexcept SystemExit: print(sorted({heavy} & set(sys.modules)))"
    )
    assert python("-c", code).endswith("[]\n")


def test_workers_of_ingest_start_light():
    """Every worker imports these modules before its first clip."""
    code = (
        "import sys\n"
        "from objectstates.detect import change_detector\n"
        "from objectstates.features import lite0\n"
        "from objectstates.ingest import worker\n"
        "print(sorted({'scipy.ndimage', 'pyarrow', 'sklearn', 'torch'} & set(sys.modules)))"
    )
    assert python("-c", code) == "[]\n"


def test_kernels_are_compiled_once(tmp_path):
    """A second process finds the kernels of the first on disk, and computes the same bits."""
    code = (
        "import numpy as np\n"
        "from objectstates.solver import oracle\n"
        "start, offsets = np.arange(40.0), np.arange(0, 50, 10)\n"
        "costs = np.random.default_rng(0).standard_normal((40, 2))\n"
        "clips = oracle.ordered_states(start, start + 1.5, offsets, linear=np.zeros((40, 2)))\n"
        "print(oracle.label_clips(costs, clips)[0].sum().hex())\n"
        "stats = oracle._label_clips.stats\n"
        "print(stats.cache_misses.total(), stats.cache_hits.total())"
    )
    without = shutil.ignore_patterns("__pycache__", "demo")  # kernels of the package, large files
    shutil.copytree(Path(objectstates.__file__).parent, tmp_path / "objectstates", ignore=without)
    env = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    first, second = (python("-c", code, **env).split() for _ in range(2))
    assert first[1:] == ["1", "0"]
    assert second[1:] == ["0", "1"]
    assert first[0] == second[0]


def test_a_fit_gives_the_same_bits_in_every_process():
    """Whatever kernels a process used before; those of this process are found on disk."""
    sizes = {"n_clips": 12, "tracklets_per_clip": 15, "state_size": 30}
    code = (
        "from objectstates import JointDiscovery\n"
        "from objectstates.data.synthetic import synthetic_corpus\n"
        "from objectstates.solver.block_steps import sweep\n"
        f"print(JointDiscovery(tol=1e-6).fit(synthetic_corpus(**{sizes})).gap_.hex())\n"
        "print(sweep.stats.cache_misses.total(), sweep.stats.cache_hits.total())"
    )
    here = JointDiscovery(tol=1e-6).fit(synthetic_corpus(**sizes))  # type: ignore[arg-type]
    assert python("-c", code).split() == [here.gap_.hex(), "0", "1"]


def test_a_fit_takes_corrections_and_names(run, corpus_folder, tmp_path):
    clip = Corpus.load(corpus_folder, features=False).clip_ids[1]
    file, out = tmp_path / "c.csv", tmp_path / "r"
    file.write_text(f"clip,kind\n{clip},confirm\n")
    code, _, err = run("fit", corpus_folder, "--out", out, "--corrections", file)
    assert code == 2
    assert "c.csv, line 2" in err
    assert run("fit", corpus_folder, "--out", out)[0] == 0
    told = ("--corrections", file, "--states", "closed,open")
    code, _, err = run("fit", corpus_folder, "--out", out, *told)
    assert code == 0, err
    result = Result.load(out)
    assert result.names.state_2 == "open"
    assert result.corrected.tolist() == [name == clip for name in result.clips]
    assert result.corrections[0].start is not None


def test_inspect_prints_facts_and_the_trace_on_demand(run, corpus_folder, tmp_path):
    """Also of a folder that holds the result as ``result``, as discover's does."""
    assert run("fit", corpus_folder, "--out", tmp_path / "result")[0] == 0
    short = run("inspect", tmp_path)[1]
    assert len(short.splitlines()) < 60
    assert "relaxed objective" in short
    trace = Result.load(tmp_path / "result").summary["trace"]
    long = run("inspect", tmp_path, "--trace")[1]
    assert len(long.splitlines()) > len(short.splitlines()) + len(trace)
    assert json.loads(run("inspect", tmp_path, "--json")[1])["trace"] == trace
    for words in (("report", tmp_path, "--out", tmp_path / "r.html"),
                  ("export", tmp_path, "--to", "csv", "--out", tmp_path / "x")):  # fmt: skip
        assert run(*words)[0] == 0


def test_predict_prints_a_row_per_clip_and_precision_by_given_truth(run, corpus_folder, tmp_path):
    assert run("fit", corpus_folder, "--out", tmp_path / "result")[0] == 0
    corpus = Corpus.load(corpus_folder)
    labels = {"label": np.full_like(corpus.chunks.label, -1)}
    unknown = replace(
        corpus,
        chunks=replace(corpus.chunks, **labels),
        tracklets=replace(corpus.tracklets, label=np.full_like(corpus.tracklets.label, -1)),
    )
    unknown.save(tmp_path / "new")
    code, out, _ = run("predict", tmp_path, tmp_path / "new", "--out", tmp_path / "p")
    assert code == 0
    assert all(clip in out for clip in corpus.clip_ids)
    assert "precision" not in out
    rows = ["clip,action_start,action_end", *(f"{clip},0,1000" for clip in corpus.clip_ids)]
    (tmp_path / "truth.csv").write_text("\n".join(rows))
    words = "predict", tmp_path, tmp_path / "new", "--out", tmp_path / "p"
    code, out, _ = run(*words, "--truth", tmp_path / "truth.csv")
    assert code == 0
    assert "discovered" in out
    assert "action precision" in out


def test_files_follow_the_umask(run, corpus_folder, tmp_path):
    """Those of a result, a report, an export and a list of clips, and their folders."""
    (tmp_path / "a.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nput the wheel on\n")
    before = os.umask(0o027)
    try:
        for words in (
            ("fit", corpus_folder, "--out", tmp_path / "new" / "result"),
            ("report", tmp_path / "new", "--out", tmp_path / "new" / "r.html"),
            ("export", tmp_path / "new", "--to", "csv", "--out", tmp_path / "new" / "x"),
            ("retrieve", tmp_path, "--action", "put-wheel", "--out", tmp_path / "new" / "c.csv",
             "--page", tmp_path / "new" / "c.html"),
            ("config", "init", tmp_path / "new" / "settings.toml"),
        ):  # fmt: skip
            code, _, err = run(*words)
            assert code == 0, err
    finally:
        os.umask(before)
    for path in (tmp_path / "new").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o750 if path.is_dir() else 0o640), path
