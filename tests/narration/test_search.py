"""Searching files in parts finds what searching them all at once finds."""

import numpy as np
import pytest

from objectstates.base.errors import NarrationError, SettingError
from objectstates.narration import Cue, TfidfSvm, load_action, retrieve, write_webvtt
from objectstates.narration import search as searching
from objectstates.narration.retrieval import Search
from objectstates.narration.search import search_files
from objectstates.narration.subtitles import find_narrations, read_narrations


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
def svm():
    return TfidfSvm().fit(load_action("open-fridge").sentences)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Forty videos' narrations, of which four have two, and one file that holds none."""
    root = tmp_path_factory.mktemp("said")
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
@pytest.mark.parametrize("at_a_time", [1, 7, 64])
def test_parts_give_the_whole(svm, said, monkeypatch, top, per_video, at_a_time):
    monkeypatch.setattr(searching, "FILES_AT_A_TIME", at_a_time)
    paths, problems = find_narrations([said]), []
    narrations = read_narrations(paths, problems=problems)
    whole = retrieve(narrations, svm, top=top, per_video=per_video)
    clips, left_out = search_files(paths, Search(svm, top, per_video))
    assert rows(clips) == rows(whole)
    assert left_out == problems
    assert len(left_out) == 1


def test_processes_find_the_same(svm, said, monkeypatch):
    monkeypatch.setattr(searching, "FILES_AT_A_TIME", 10)
    paths = find_narrations([said])
    here, _ = search_files(paths, Search(svm, 12, 2))
    there, left_out = search_files(paths, Search(svm, 12, 2), processes=2)
    assert rows(there) == rows(here)
    assert len(left_out) == 1


def test_what_comes_back_is_small(svm, said):
    searcher = searching._Searcher(Search(svm, 20), None)
    part = searcher(find_narrations([said]), lambda count: None)
    assert len(part.videos) == 20
    assert all(len(clip.narration.words) == 0 for _, found in part.videos for clip in found)


class Unscorable:
    def score(self, narration):
        raise ZeroDivisionError("oops")


def test_a_fault_is_told(said):
    with pytest.raises(NarrationError, match="could not be searched: unexpected ZeroDivision"):
        search_files(find_narrations([said]), Search(Unscorable()))
    with pytest.raises(SettingError, match="top=0"):
        Search(Unscorable(), top=0)
