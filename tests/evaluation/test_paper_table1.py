import csv
import json

import numpy as np
import pytest
from scipy.io import savemat

from objectstates import JointDiscovery, evaluate, read_authors
from objectstates.base.errors import CorpusError, SettingError
from objectstates.data.formats.authors_release import find_release
from objectstates.data.synthetic import synthetic_corpus
from objectstates.evaluation.baselines import METHODS, MethodSettings
from objectstates.evaluation.paper_table1 import (
    ACTIONS,
    PAPER,
    ROWS,
    compared,
    long_table,
    paper_table,
    reproduce,
)
from tests.data.formats.test_authors import cell, predecessors

SETTINGS = MethodSettings(JointDiscovery(max_passes=60), runs=2)


def write_release(path, seed=0, n_clips=4):
    """A synthetic corpus in the schema of the release."""
    corpus = synthetic_corpus(n_clips, seed=seed, state_size=32, action_size=24)
    tracklets, chunks = corpus.tracklets, corpus.chunks
    rows = [list(corpus.tracklet_rows(n)) for n in range(n_clips)]
    lists = [predecessors(tracklets.start[r], tracklets.end[r]) for r in rows]
    savemat(
        path,
        {
            "X_action": chunks.features,
            "X_state": tracklets.features,
            "T_action": chunks.time[:, None],
            "T_state": tracklets.time[:, None],
            "Z_GT": (chunks.label == 1)[:, None].astype(float),
            "Y_GT": np.stack([tracklets.label == 1, tracklets.label == 2], 1).astype(float),
            "clips_action": np.diff(chunks.offsets)[None].astype(float),
            "clips_state": np.diff(tracklets.offsets)[None].astype(float),
            "ptrs_tracks": cell([cell([np.array([p], float) for p in x]) for x in lists]),
        },
    )
    return corpus


@pytest.fixture
def release(tmp_path):
    folder = tmp_path / "release" / "features"
    folder.mkdir(parents=True)
    for seed, action in enumerate(("pour_coffee", "put_wheel")):
        write_release(folder / f"features_{action}.mat", seed)
    return folder.parent


def test_the_papers_averages_are_those_it_prints():
    """The last column of its Table 1, and of Table 3 for the supervised one."""
    printed = {
        "a": 0.09, "b": 0.18, "c": 0.35, "d": 0.38, "e": 0.44, "f": 0.48, "g": 0.51, "h": 0.51,
        "i": 0.22, "ii": 0.20, "iii": 0.32, "iv": 0.55, "v": 0.59, "E1": 0.58, "E2": 0.61,
    }  # fmt: skip
    assert printed.keys() == PAPER.keys()
    for row, average in printed.items():
        assert len(PAPER[row]) == len(ACTIONS)
        assert np.mean(PAPER[row]) == pytest.approx(average, abs=0.0051), row


def test_every_row_is_computed_on_every_action(release, tmp_path):
    done = reproduce(release, out=tmp_path / "out", settings=SETTINGS)
    assert done.actions == ("put_wheel", "pour_coffee"), "the paper's order"
    for row in done.rows:
        if row.key == "g":
            assert "no detection scores" in done.failures["put_wheel", "joint_scores"]
        elif row.key == "E2":
            failure = done.failures["put_wheel", "supervised_trajectories"]
            assert "dense trajectories need the clips' videos" in failure
        else:
            assert len(done.parts(row)) == 2
    table = {str(row[0]).split(")")[0].strip("("): row for row in paper_table(done).rows}
    assert list(table) == list(ROWS)
    corpus = read_authors(release / "features" / "features_put_wheel.mat")
    scores = evaluate(JointDiscovery(max_passes=60).fit(corpus).result_, corpus)
    assert table["f"][2] == f"{scores.state_precision:.2f} (0.52)"
    assert table["iv"][2] == f"{scores.action_precision:.2f} (0.67)"
    assert table["g"][2] == "- (0.47)"
    mean = np.mean([part.state_precision for part in done.parts(ROWS["f"]).values()])
    assert table["f"][-3] == f"{mean:.2f} ({(0.52 + 0.39) / 2:.2f})"


def test_the_average_is_over_what_the_paper_has_too(release, tmp_path):
    write_release(release / "features_other.mat", seed=5)
    done = reproduce(release, out=tmp_path / "out", rows=["i"], settings=SETTINGS)
    assert done.actions[-1] == "other"
    parts = done.parts(ROWS["i"])
    mean = np.mean([parts[action].action_precision for action in ("put_wheel", "pour_coffee")])
    long = [row for row in long_table(done).rows if row[3] == "average"]
    assert long[0][5] == pytest.approx(mean)
    assert long[0][-1] == pytest.approx((0.31 + 0.40) / 2)


def test_rows_are_compared_clip_by_clip(release, tmp_path):
    done = reproduce(release, out=tmp_path / "out", rows=["c", "f", "ii"], settings=SETTINGS)
    (line,) = compared(done).rows
    assert line[:3] == ("states", "(f) Joint model", "(c) Constraints only")
    means = [
        np.mean([scores.state_precision for scores in done.parts(ROWS[key]).values()])
        for key in ("f", "c")
    ]
    difference, low, high = (float(cell or 0.0) for cell in line[3:6])
    assert difference == pytest.approx(means[0] - means[1])
    assert low < difference < high
    assert line[-1] == 8


def test_a_run_that_was_interrupted_goes_on(release, tmp_path, monkeypatch):
    ran = []

    def counting(name):
        method = METHODS[name]

        def counted(corpus, settings):
            ran.append(name)
            if len(ran) == 2:
                raise KeyboardInterrupt
            return method.run(corpus, settings)

        return type(method)(name, method.title, counted, method.state_row, method.action_row)

    def reproduced(fresh=False):
        return reproduce(
            release, out=tmp_path / "out", rows=["a", "iv", "middle"], actions=["put_wheel"],
            settings=SETTINGS, fresh=fresh,
        )  # fmt: skip

    for name in ("chance", "joint", "middle"):
        monkeypatch.setitem(METHODS, name, counting(name))
    with pytest.raises(KeyboardInterrupt):
        reproduced()
    done = reproduced()
    assert ran == ["chance", "middle", "middle", "joint"], "chance was cached"
    again = reproduced()
    assert len(ran) == 4
    for key, scores in done.scores.items():
        np.testing.assert_array_equal(again.scores[key].precisions, scores.precisions)
        np.testing.assert_array_equal(again.scores[key].actions, scores.actions)
    reproduced(fresh=True)
    assert len(ran) == 7


def test_runs_of_something_else_are_not_taken(release, tmp_path):
    wanted = {"out": tmp_path / "out", "rows": ["iv"], "actions": ["put_wheel"]}
    reproduce(release, settings=SETTINGS, **wanted)
    kept = tmp_path / "out" / "runs" / "put_wheel.joint.json"
    first = json.loads(kept.read_text())["key"]
    reproduce(release, settings=MethodSettings(JointDiscovery(nu=0.5, max_passes=60)), **wanted)
    second = json.loads(kept.read_text())["key"]
    write_release(release / "features" / "features_put_wheel.mat", seed=9)
    reproduce(release, settings=SETTINGS, **wanted)
    third = json.loads(kept.read_text())["key"]
    assert len({first, second, third}) == 3
    kept.write_text("{")  # damaged: computed anew
    reproduce(release, settings=SETTINGS, **wanted)
    assert json.loads(kept.read_text())["key"] == third


def test_a_damaged_file_is_named_and_the_others_go_on(release, tmp_path):
    (release / "features_open_oyster.mat").write_bytes(b"no MATLAB")
    done = reproduce(
        release, out=tmp_path / "out", rows=["a"], settings=SETTINGS,
        actions=["open_oyster", "open_fridge", "put_wheel"],
    )  # fmt: skip
    assert set(done.scores) == {("put_wheel", "chance")}
    assert "features_open_oyster.mat" in done.failures["open_oyster", None]
    assert "is not in" in done.failures["open_fridge", None]
    notes = " ".join(paper_table(done).notes)
    assert "features_open_oyster.mat" in notes
    assert "features_open_fridge.mat" in notes


def test_what_makes_no_sense_is_refused(release, tmp_path):
    with pytest.raises(SettingError, match="`rows`: there is no 'z'; there are a, b"):
        reproduce(release, out=tmp_path, rows=["z"])
    with pytest.raises(CorpusError, match="does not exist"):
        find_release(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="has no features_"):
        find_release(tmp_path / "empty")
    with pytest.raises(CorpusError, match="nothing could be computed"):
        reproduce(release, out=tmp_path / "out", rows=["a"], actions=["open_oyster"])
    (release / "features_put_wheel.mat").touch()
    with pytest.raises(CorpusError, match="are about put_wheel"):
        find_release(release)


def test_the_command_prints_and_writes_the_table(run, release, tmp_path):
    out = tmp_path / "out"
    code, shown, err = run("reproduce", release, "--out", out, "--rows", "a,i", "--runs", 2)
    assert code == 0
    assert "(a) Chance" in shown
    assert "withdraw_wheel" in err, "what is not there is named"
    names = sorted(path.name for path in out.iterdir() if path.stem != "differences")
    assert names == ["reproduce.json", "runs", "scores.csv", "scores.html", "scores.md",
                     "table1.csv", "table1.html", "table1.md"]  # fmt: skip
    rows = list(csv.DictReader((out / "scores.csv").read_text().splitlines()))
    assert {(row["row"], row["action"]) for row in rows} == {
        (key, action) for key in ("a", "i") for action in ("put_wheel", "pour_coffee", "average")
    }
    code, _, err = run("reproduce", tmp_path / "nowhere", "--out", out)
    assert code == 2
    assert "does not exist" in err


@pytest.mark.reference
def test_the_reference_problem(shared, tmp_path):
    done = reproduce(
        shared / "reference" / "features_S.mat", out=tmp_path, rows=["f", "iv"],
        settings=MethodSettings(JointDiscovery(nu=0.5)),
    )  # fmt: skip
    stored = json.loads((shared / "reference" / "answers_S.json").read_text())
    scores = done.scores["S", "joint"]
    assert scores.state_precision >= stored["precision_state"] - 0.1
    assert scores.action_precision >= stored["precision_action"] - 0.1
