import re
from pathlib import Path

from objectstates import Result
from objectstates.data.formats.truth_files import read_truth

CLIPS = Path(__file__).parents[2] / "src" / "objectstates" / "demo" / "drawer"


def test_demo_beats_guessing_from_video_files(run, tmp_path, shown):
    code, out, err = run("demo", "--out", tmp_path / "demo")
    assert code == 0, err
    number = r"([0-9.]+|-)"
    rows = {
        name: found.groups()
        for name in ("chance", "middle of the clip", "discovered")
        if (found := re.search(rf"{name} +{number} +{number}", out))
    }
    states, action = map(float, rows["discovered"])
    assert states > float(rows["chance"][0]) + 0.3
    assert action > max(float(rows["chance"][1]), float(rows["middle of the clip"][1])) + 0.5
    result = Result.load(tmp_path / "demo" / "result")
    assert set(result.clips) == set(read_truth(CLIPS))
    page = tmp_path / "demo" / "report.html"
    assert shown == [page.resolve().as_uri()]
    code, out, err = run("demo", "--out", tmp_path / "demo", "--no-open")
    assert code == 0, err
    assert str(page) in out
    assert len(shown) == 1


def test_without_a_desktop_the_report_is_only_written(monkeypatch, tmp_path):
    from objectstates.cli.output import show_page

    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("webbrowser.open", lambda address: 1 / 0)
    assert not show_page(tmp_path / "report.html")


def test_what_is_shipped_is_small_and_its_truth_is_not_in_the_middle():
    size = sum(path.stat().st_size for path in CLIPS.iterdir())
    assert size < 4e6
    truth = read_truth(CLIPS)
    assert len(truth) >= 12
    assert {path.stem for path in CLIPS.glob("*.mp4")} == set(truth)
    middles = [t.times[-1] / 2 for t in truth.values()]
    hits = [t.action[0] <= m < t.action[1] for t, m in zip(truth.values(), middles, strict=True)]
    assert sum(hits) <= len(hits) / 4


def test_demo_of_a_real_robot(run, tmp_path, shown):
    """Eight episodes as a LeRobot dataset; what is found is exported into a copy of it."""
    code, out, err = run("demo", "--robot", "--out", tmp_path / "demo")
    assert code == 0, err
    assert "Yifan Tian, MIT license" in out
    result = Result.load(tmp_path / "demo" / "result")
    assert [episode.index for episode in result.corpus.episodes if episode] == list(range(8))
    assert len(shown) == 1
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert "episode 7, action" in page
    copy = tmp_path / "copy"
    code, out, err = run("export", tmp_path / "demo", "--to", "lerobot", "--out", copy)
    assert code == 0, err
    assert (copy / "LICENSE").is_file()


def test_the_episodes_that_are_shipped_are_small():
    files = [path for path in (CLIPS.parent / "robot").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 3e6
    assert "MIT License" in (CLIPS.parent / "robot" / "LICENSE").read_text()
