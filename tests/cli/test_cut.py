"""The command ``cut``."""

import json

from objectstates.robots.lerobot_dataset import read_dataset
from tests.cut.films import result_on
from tests.export.lerobot_results import result_of
from tests.robots.datasets import write_dataset
from tests.video.videos import noise, write_video


def test_cut_writes_segments_and_says_what_it_did(tmp_path, run):
    film = write_video(tmp_path / "film.mp4", noise(50))
    result_on([("film", film, 2.0, (0.8, 1.2))]).save(tmp_path / "found")
    words = ("cut", str(tmp_path / "found"), "--out", str(tmp_path / "out"), "--json")
    code, out, _ = run(*words)
    facts = json.loads(out)
    assert code == 0
    assert (facts["files"], facts["up_to_date"], facts["dropped"]) == (3, 0, [])
    assert json.loads(run(*words)[1])["up_to_date"] == 1


def test_the_folder_of_discover_is_taken_for_its_result(tmp_path, run):
    film = write_video(tmp_path / "film.mp4", noise(50))
    result_on([("film", film, 2.0, (0.8, 1.2))]).save(tmp_path / "found" / "result")
    (tmp_path / "found" / "discover.json").write_text("{}")
    code, _, err = run("cut", str(tmp_path / "found"), "--out", str(tmp_path / "out"), "--fast")
    assert code == 0, err
    assert (tmp_path / "out" / "film_action.mp4").is_file()


def test_mistakes_name_the_option(tmp_path, run):
    film = write_video(tmp_path / "film.mp4", noise(50))
    result_on([("film", film, 2.0, (0.8, 1.2))]).save(tmp_path / "found")
    words = ("cut", str(tmp_path / "found"), "--out", str(tmp_path / "out"), "--crf", "99")
    code, _, err = run(*words)
    assert code == 2
    assert "--crf" in err


def test_the_segments_of_a_dataset_become_one(tmp_path, run):
    root = write_dataset(tmp_path / "set", episodes=(2.0, 2.0))
    result_of(root).save(tmp_path / "found")
    root = root.rename(tmp_path / "moved")
    words = ("cut", str(tmp_path / "found"), "--out", str(tmp_path / "out"), "--format", "lerobot")
    code, _, err = run(*words)
    assert code != 0
    assert "--dataset" in err
    code, out, err = run(*words, "--dataset", str(root), "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["clips"], facts["episodes"], facts["problems"]) == (2, 6, 0)
    assert len(read_dataset(tmp_path / "out").episodes) == 6


def test_options_of_the_other_format_are_refused(tmp_path, run):
    words = ("cut", str(tmp_path / "found"), "--out", str(tmp_path / "out"))
    code, _, err = run(*words, "--format", "lerobot", "--fast")
    assert code == 2
    assert "--fast is for --format videos" in err
    assert "--dataset is for --format lerobot" in run(*words, "--dataset", "x")[2]
