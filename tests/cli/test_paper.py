"""``--paper`` means the whole of it, and says what is not."""

from __future__ import annotations

import numpy as np
import pytest

from objectstates.base.choices import PAPER_INGEST
from objectstates.cli.paper import notes
from objectstates.data.corpus import Corpus
from objectstates.data.result import Result
from objectstates.data.synthetic import synthetic_corpus
from tests.detect import torchvision_here
from tests.ingest.test_pipeline import FPS, scene
from tests.video.videos import write_video

LITE0 = ("--appearance", "lite0", "--conv-words", "lite0")


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    for seed in range(2):
        write_video(folder / f"{seed}.mp4", scene(seed), fps=FPS)
    return folder


@torchvision_here.missing
@pytest.mark.parametrize("command", ["ingest", "discover"])
def test_without_the_extra_there_is_one_error_that_names_it(run, films, tmp_path, command):
    code, out, err = run(command, films, "--out", tmp_path / "r", "--paper", "--no-cache")
    assert code == 2
    assert not out
    (line,) = [line for line in err.splitlines() if "note:" not in line]
    assert "pip install 'objectstates[torch]'" in line
    assert "--appearance lite0" in line
    assert not (tmp_path / "r").exists()


def test_other_features_are_called_what_they_are(run, films, tmp_path):
    out = tmp_path / "c"
    code, _, err = run("ingest", films, "--out", out, "--paper", *LITE0, "--no-cache")
    assert code == 0, err
    said = " ".join(err.split())
    assert "--appearance lite0 is not the paper's, ResNet-50: these are features of Eff" in said
    assert "--conv-words lite0 is not the paper's, VGG16's conv5" in said
    assert "--detector motion is not the paper's" in said
    facts = Corpus.load(out).info["ingest"]
    expected = {**PAPER_INGEST, "appearance": "lite0", "conv_words": "lite0"}
    assert {name: facts[name] for name in expected} == expected


@pytest.mark.parametrize("solver", ["block", "full"])
def test_the_solver_is_named_and_full_steps_are_the_papers(run, tmp_path, solver):
    synthetic_corpus(n_clips=3, tracklets_per_clip=6, chunks_per_clip=8).save(tmp_path / "c")
    words = ("fit", tmp_path / "c", "--out", tmp_path / "r", "--no-verdict", "--paper")
    code, _, err = run(*words, *(() if solver == "block" else ("--solver", "full")))
    assert code == 0
    assert ("lower duality gap" in " ".join(err.split())) == (solver == "block")
    result = Result.load(tmp_path / "r")
    assert result.settings["solver"] == solver
    if solver == "full":
        assert result.summary["passes"] == 630
        assert run(*words, "--solver", "full", "--max-passes", "40")[0] == 0
        assert Result.load(tmp_path / "r").summary["passes"] == 40


def test_the_file_that_contradicts_it_loses_and_is_told_so(run, tmp_path):
    synthetic_corpus(n_clips=3, tracklets_per_clip=6, chunks_per_clip=8).save(tmp_path / "c")
    (tmp_path / "s.toml").write_text("[fit]\nmu = 0.5\nlam = 0.01\ntol = 0.1\n")
    words = ("fit", tmp_path / "c", "--out", tmp_path / "r", "--no-verdict")
    paper = ("--paper", "--config", tmp_path / "s.toml")
    for order in (paper, (*paper[1:], paper[0])):
        code, _, err = run(*words, *order)
        assert code == 0
        said = " ".join(err.split())
        assert "s.toml sets mu to 0.5, --paper to 0.0001: --paper wins" in said
        assert "lam to" not in said  # no contradiction
        assert "tol to" not in said  # not the paper's to say, with this solver
        settings = Result.load(tmp_path / "r").settings
        assert (settings["mu"], settings["tol"]) == (1e-4, 0.1)


def test_the_papers_weights_from_a_file_are_the_papers():
    paper = {"appearance": "resnet50"}
    for value, told in (("resnet50:r.pth", 0), ("resnet50:random", 1), ("vgg16", 1)):
        found = list(notes({"appearance": value}, paper, {"appearance"}, "", {}))
        assert len(found) == told


@torchvision_here.needed
def test_random_networks_give_the_papers_widths(run, films, tmp_path):
    """2 x 2 x 2,048 numbers per tracklet; 2,000 and 1,000 words per chunk, if there are as many."""
    random = ("--appearance", "resnet50:random", "--conv-words", "vgg16:random")
    more = ("--max-side", "160", "--no-cache", "--processes", "1")
    code, _, err = run("ingest", films, "--out", tmp_path / "c", "--paper", *random, *more)
    assert code == 0, err
    corpus = Corpus.load(tmp_path / "c")
    assert corpus.tracklets.features.shape[1] == 8192
    assert corpus.arrays["conv_words"].shape[1] == 512
    assert corpus.arrays["hof_words"].shape[1] == 108
    words = len(corpus.arrays["hof_words"]) + len(corpus.arrays["conv_words"])
    assert corpus.chunks.features.shape[1] == words <= 3000
    assert np.isfinite(corpus.chunks.features).all()
