"""Precision of retrieval by narration: ``python -m benchmarks.wild.retrieval``.

On simulated narrations (`benchmarks.wild.narrated`), the 20 best clips of each action, and the
fraction of them that contain the middle of the action: for the paper's classifier, an SVM on
sentence embeddings, the similarity to a phrase, random clips (chance), and clips around the true
mentions of the action (ceiling). Classifiers are trained on the package's sentences, which share no
phrases with these narrations.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.wild.narrated import NarratedVideo, make_video
from benchmarks.wild.phrases import SCENES
from objectstates.base.errors import MissingExtraError
from objectstates.cli.output import make_table, print_table
from objectstates.narration.embeddings import EmbeddingSvm, PhraseMatcher
from objectstates.narration.retrieval import retrieve
from objectstates.narration.sentence_encoder import SentenceEncoder
from objectstates.narration.sentences import load_action
from objectstates.narration.text_classifier import TfidfSvm
from objectstates.narration.windows import Scorer

RESULTS = Path(__file__).parents[1] / "results"
AFTER, BEFORE = 15.0, 5.0


class CachingEncoder:
    """Embeds each text once: all actions of a scene have the same windows."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder
        self._known: dict[str, npt.NDArray[np.float32]] = {}

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known |= zip(new, self._encoder.encode(new), strict=True)
        return np.stack([self._known[text] for text in texts])


def make_videos(scene: str, count: int, seed: int) -> list[NarratedVideo]:
    return [make_video(f"{scene}{i:03d}", scene, 1000 * seed + i) for i in range(count)]


def precision(videos: Sequence[NarratedVideo], action: str, scorer: Scorer, top: int = 20) -> float:
    """Fraction of the retrieved clips that contain the middle of the action."""
    truth = {video.narration.name: video.timeline for video in videos}
    clips = retrieve([v.narration for v in videos], scorer, top=top, before=BEFORE, after=AFTER)
    hits = [
        any(e.action == action and clip.start <= e.middle < clip.end for e in events)
        for clip in clips
        for events in [truth[clip.narration.name].events]
    ]
    return float(np.mean(hits))


def ceiling(videos: Sequence[NarratedVideo], action: str) -> float:
    """The same for clips around the true mentions, the best that text allows: some mentions come
    too late after the action.
    """
    hits = [
        any(
            e.action == action and said.start - BEFORE <= e.middle < said.end + AFTER
            for e in video.timeline.events
        )
        for video in videos
        for said in video.utterances
        if said.action == action
    ]
    return float(np.mean(hits))


def chance(videos: Sequence[NarratedVideo], action: str, seed: int = 0) -> float:
    """The same for random clips of the videos."""
    rng = np.random.default_rng(seed)
    hits = 0
    for video in videos:
        starts = rng.uniform(0, video.timeline.duration - BEFORE - AFTER, 200)
        inside = [
            (starts <= e.middle) & (e.middle < starts + BEFORE + AFTER)
            for e in video.timeline.events
            if e.action == action
        ]
        hits += int(np.any(inside, 0).sum()) if inside else 0
    return hits / (200 * len(videos))


def measure(count: int, seed: int, top: int) -> dict[str, dict[str, float]]:
    scorers: dict[str, Callable[[str], Scorer]] = {
        "tfidf": lambda action: TfidfSvm().fit(load_action(action).sentences)
    }
    try:
        encoder = CachingEncoder(SentenceEncoder())
    except MissingExtraError as problem:
        print(f"without sentence embeddings: {problem}")
    else:
        scorers["vectors"] = lambda action: EmbeddingSvm(encoder).fit(load_action(action).sentences)
        scorers["phrase"] = lambda action: PhraseMatcher(encoder, load_action(action).phrase)
    rows: dict[str, dict[str, float]] = {}
    for scene, (actions, _) in SCENES.items():
        videos = make_videos(scene, count, seed)
        for action in actions:
            shown = [any(e.action == action for e in v.timeline.events) for v in videos]
            rows[action] = {"videos": len(videos), "with it": sum(shown)}
            rows[action]["chance"] = chance(videos, action)
            rows[action]["ceiling"] = ceiling(videos, action)
            for name, make in scorers.items():
                rows[action][name] = precision(videos, action, make(action), top)
    means = ["chance", "ceiling", *scorers]
    rows["mean"] = {name: float(np.mean([row[name] for row in rows.values()])) for name in means}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--videos", type=int, default=60, help="of each scene")
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = measure(options.videos, options.seed, options.top)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "retrieval.json").write_text(json.dumps(rows, indent=1) + "\n")
    columns = list(next(iter(rows.values())))
    table = make_table(f"best {options.top}", *columns)
    for action, row in rows.items():
        cells = [f"{row[name]:.3g}" if name in row else "" for name in columns]
        table.add_row(action, *cells)
    print_table(table)


if __name__ == "__main__":
    main()
