from __future__ import annotations

import json

from tests.detect import torchvision_here
from tests.detect.pictures import labelled_folder


def test_training_says_how_many_boxes_of_how_many_images_it_used(run, tmp_path):
    labelled_folder(tmp_path / "set" / "images", 5, seed=0)
    (tmp_path / "set" / "images" / "labels.json").unlink()
    (tmp_path / "set" / "labels").mkdir()
    for n in range(5):
        text = "" if n == 4 else "0 .5 .5 .3 .4\n"
        (tmp_path / "set" / "labels" / f"{n}.txt").write_text(text)
    (tmp_path / "set" / "classes.txt").write_text("board\n")
    code, out, err = run("detector", "train", tmp_path / "set", "--out", tmp_path / "board.npz")
    assert code == 0, err
    assert "4 boxes in 5 images of 5 image files" in " ".join(out.split())
    assert (tmp_path / "board.npz").is_file()


def test_what_is_missing_is_said_with_the_flag(run, tmp_path):
    (tmp_path / "a.xml").write_text(
        '<annotations><image id="0" name="a.png" width="9" height="9"/></annotations>'
    )
    code, _, err = run("detector", "train", tmp_path / "a.xml", "--out", tmp_path / "x.npz")
    assert code == 2
    assert "a.png" in err
    assert "--media" in err


def test_neither_the_labels_nor_anything_else_is_written_over(run, tmp_path):
    labelled_folder(tmp_path / "set", 5, seed=0)
    labels, thesis = tmp_path / "set" / "labels.json", tmp_path / "thesis.npz"
    thesis.write_text("years of work")
    before = labels.read_bytes()
    for out, message in ((labels, "is an input"), (thesis, "exists and is something else")):
        code, _, err = run("detector", "train", labels, "--out", out)
        assert code == 2
        assert message in err
        assert err.count("\n") == 1
    assert labels.read_bytes() == before
    assert thesis.read_text() == "years of work"


def test_options_of_the_other_model_are_refused(run, tmp_path):
    labels = labelled_folder(tmp_path / "set", 5, seed=0)
    for words, flag in (
        (("--weights", "random"), "--weights"),
        (("--steps", "3"), "--steps"),
        (("--device", "cuda"), "--device"),
    ):
        code, _, err = run("detector", "train", labels, "--out", tmp_path / "x.npz", *words)
        assert code == 2
        assert f"{flag} is for --model fasterrcnn" in err
    assert not (tmp_path / "x.npz").exists()


@torchvision_here.missing
def test_without_torchvision_the_extra_is_named(run, tmp_path):
    labels = labelled_folder(tmp_path / "set", 5, seed=0)
    words = ("--model", "fasterrcnn", "--weights", "random", "--out", tmp_path / "x.pt")
    code, _, err = run("detector", "train", labels, *words)
    assert code == 2
    assert "pip install 'objectstates[torch]'" in err
    assert err.count("\n") == 1


@torchvision_here.needed
def test_a_trial_of_an_r_cnn_is_trained_and_evaluated(run, tmp_path):
    labels = labelled_folder(tmp_path / "set", 5, seed=0)
    model = tmp_path / "x.pt"
    small = ("--backbone", "mobilenet", "--weights", "random", "--steps", "2", "--side", "96")
    code, out, err = run(
        "detector", "train", labels, "--model", "fasterrcnn", *small, "--out", model
    )
    assert code == 0, err
    assert "--detector fasterrcnn:" in " ".join(out.split())
    code, out, err = run("detector", "evaluate", model, labels, "--json")
    assert code == 0, err
    assert 0 <= json.loads(out)["recall"] <= 1
