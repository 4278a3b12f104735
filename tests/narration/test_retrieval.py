import csv
import os
import sys
from itertools import pairwise

import numpy as np
import pytest

from objectstates.base.errors import NarrationError, SettingError
from objectstates.narration import retrieval
from objectstates.narration.heatmap_page import write_page
from objectstates.narration.retrieval import Search, retrieve, retrieve_from_files, write_clips
from objectstates.narration.sentences import load_action
from objectstates.narration.subtitles import NarrationReader, find_narrations, write_webvtt
from objectstates.narration.text_classifier import TfidfSvm
from objectstates.narration.transcript import Cue, Narration
from objectstates.video.clip_list import find_clips


def narration(text, name="v", pace=0.5, video=None):
    words = text.split()
    starts = pace * np.arange(len(words))
    return Narration(name, words, np.stack([starts, starts + pace], 1), video)


@pytest.fixture(scope="module")
def svm():
    return TfidfSvm().fit(load_action("put-wheel").sentences)


IDLE = "so anyway my neighbour told me all about his holiday in spain and the food there"


def test_clips_are_around_the_words_the_best_video_first(svm, tmp_path):
    names = "put the spare wheel onto the studs and push it on"
    texts = {
        "later": f"{IDLE} {IDLE} {names} {IDLE}",
        "never": f"{IDLE} {IDLE}",
        "weaker": f"{IDLE} lift the tire {IDLE} {IDLE}",
    }
    found = retrieve([narration(text, name) for name, text in texts.items()], svm)
    assert found[0].narration.name == "later"
    assert [clip.score for clip in found] == sorted((c.score for c in found), reverse=True)
    best = found[0]
    begin = 0.5 * len(f"{IDLE} {IDLE}".split())
    assert begin <= best.time <= begin + 0.5 * len(names.split())
    assert (best.start, best.end) == (best.time - 5, best.time + 15)
    assert set(best.said.split()) & {"spare", "wheel", "studs"}
    assert len(retrieve([narration(t, n) for n, t in texts.items()], svm, top=1)) == 1


def test_a_window_around_a_silence_is_where_its_words_are(svm):
    first, then = "put the spare wheel on the studs", "and then wait for lunch it was good"
    words = [*first.split(), *then.split()]
    starts = np.array([*np.arange(7) * 0.5, *(np.arange(8) * 0.5 + 100)])
    spoken = Narration("v", words, np.stack([starts, starts + 0.4], 1))
    (clip,) = retrieve([spoken], svm)
    assert clip.time < 5


def test_several_clips_of_a_video_do_not_overlap(svm):
    text = f"put the wheel on the hub {IDLE} {IDLE} {IDLE} {IDLE} place the tire back on the studs"
    found = retrieve([narration(text)], svm, per_video=5)
    spans = sorted((clip.start, clip.end) for clip in found)
    assert len(spans) >= 2
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_of_two_narrations_of_a_video_the_better_counts(svm):
    texts = [IDLE, "put the spare wheel onto the studs now", f"put {IDLE}"]
    found = retrieve([narration(text, "same") for text in texts], svm)
    assert [clip.said for clip in found] == [texts[1]]


def test_the_list_is_one_that_ingest_takes(svm, tmp_path):
    names = ["a, b", 'quote"', "caf\u00e9"]
    clips = retrieve(
        [narration(f"put the wheel {n}", n, video=tmp_path / f"{n}.mp4") for n in names], svm
    )
    (tmp_path / "lists").mkdir()
    write_clips(tmp_path / "lists" / "clips.csv", clips)
    spans = find_clips(csv=tmp_path / "lists" / "clips.csv")
    assert sorted(span.id for span in spans) == sorted(names)
    assert {span.video.resolve() for span in spans} == {tmp_path / f"{n}.mp4" for n in names}
    assert all(span.start is not None and span.end is not None for span in spans)


def test_a_list_of_clips_runs_no_formula_in_a_spreadsheet(svm, tmp_path):
    names = ("=cmd()", "@x", "-1", "'quoted", "plain")
    clips = retrieve([narration(f"put the wheel {n}", n) for n in names], svm)
    write_clips(tmp_path / "clips.csv", clips)
    rows = list(csv.reader((tmp_path / "clips.csv").read_text().splitlines()))
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row[:4])
    found = find_clips(csv=tmp_path / "clips.csv")
    assert sorted(span.id for span in found) == sorted(names)
    assert sorted(span.video.name for span in found) == sorted(names)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all names are text")
def test_a_name_that_is_no_text_is_listed_and_found_again(fridge_svm, tmp_path):
    stem = os.fsdecode(b"caf\xe9")
    (tmp_path / f"{stem}.mp4").touch()
    (tmp_path / f"{stem}.srt").write_text("1\n00:00:01,000 --> 00:00:04,000\nopen the fridge\n")
    files = [tmp_path / f"{stem}.srt"]
    clips, problems = retrieve_from_files(files, Search(fridge_svm))
    assert not problems
    write_clips(tmp_path / "clips.csv", clips)
    write_page(tmp_path / "page.html", clips, fridge_svm, "title")
    (span,) = find_clips(csv=tmp_path / "clips.csv")
    assert (span.id, span.video.resolve()) == ("caf%E9", tmp_path / f"{stem}.mp4")


# --- files ---------------------------------------------------------------------------------------


def talk(videos, seed=0):
    """Cues of made-up speech about kitchens; some name the action, often in the same words."""
    rng = np.random.default_rng(seed)
    sentences = load_action("open-fridge").sentences
    for _ in range(videos):
        texts = [sentences.negative[i] for i in rng.integers(0, len(sentences.negative), 6)]
        if rng.random() < 0.5:
            texts[rng.integers(6)] = sentences.positive[rng.integers(3)]
        yield [Cue(20.0 * i, 20.0 * i + 5, text) for i, text in enumerate(texts)]


@pytest.fixture(scope="module")
def fridge_svm():
    return TfidfSvm().fit(load_action("open-fridge").sentences)


@pytest.fixture(scope="module")
def subtitles(tmp_path_factory):
    """Narrations of forty videos, of which four have two, and one file without words."""
    root = tmp_path_factory.mktemp("subtitles")
    for number, cues in enumerate(talk(40)):
        write_webvtt(root / f"video{number:02d}.vtt", cues)
    for number, cues in enumerate(talk(4, seed=1)):
        write_webvtt(root / f"video{number:02d}.en.vtt", cues)
        (root / f"video{number:02d}.mp4").touch()
    (root / "empty.vtt").write_text("WEBVTT\n")
    return root


def rows(clips):
    return [(c.narration.identity, c.start, c.end, c.score, c.first, c.last, c.said) for c in clips]


@pytest.mark.parametrize(("top", "per_video"), [(1, 1), (5, 1), (12, 3), (500, 9)])
@pytest.mark.parametrize("per_task", [1, 7, 64])
def test_files_in_tasks_give_the_same_as_all_at_once(
    fridge_svm, subtitles, monkeypatch, top, per_video, per_task
):
    monkeypatch.setattr(retrieval, "_FILES_PER_TASK", per_task)
    paths, reader = find_narrations([subtitles]), NarrationReader()
    narrations = [reader.read(path) for path in paths if path.stem != "empty"]
    whole = retrieve(narrations, fridge_svm, top=top, per_video=per_video)
    clips, left_out = retrieve_from_files(paths, Search(fridge_svm, top, per_video))
    assert rows(clips) == rows(whole)
    assert len(left_out) == 1
    assert "empty.vtt" in left_out[0]


def test_processes_find_the_same(fridge_svm, subtitles, monkeypatch):
    monkeypatch.setattr(retrieval, "_FILES_PER_TASK", 10)
    paths = find_narrations([subtitles])
    here, _ = retrieve_from_files(paths, Search(fridge_svm, 12, 2))
    there, left_out = retrieve_from_files(paths, Search(fridge_svm, 12, 2), processes=2)
    assert rows(there) == rows(here)
    assert len(left_out) == 1


def test_workers_return_no_words(fridge_svm, subtitles):
    worker = retrieval._FileSearch(Search(fridge_svm, 20), None)
    videos, _ = worker(find_narrations([subtitles]), lambda count: None)
    assert len(videos) == 20
    assert all(len(clip.narration.words) == 0 for _, found in videos for clip in found)


class Unscorable:
    def score(self, narration):
        raise ZeroDivisionError("oops")


def test_an_unexpected_error_is_reported(subtitles):
    with pytest.raises(NarrationError, match="could not be searched: unexpected ZeroDivision"):
        retrieve_from_files(find_narrations([subtitles]), Search(Unscorable()))
    with pytest.raises(SettingError, match="`top`=0"):
        Search(Unscorable(), top=0)
    with pytest.raises(NarrationError, match="shape"):
        Narration("v", ["a"], np.zeros((2, 2)))
