from __future__ import annotations

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
