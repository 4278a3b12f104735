"""How well narrations tell where a manipulation is: ``python -m benchmarks.wild.retrieval``.

Made-up narrations of long videos (see `benchmarks.wild.narrated`), the 20 best clips of each
action, and the share of them in which the action's middle really falls: for the paper's classifier,
for the same on sentence vectors, for nothing but a phrase, for clips chosen blindly, and for clips
around the words that do go with the deed, which is the best that words can do. All classifiers
learn from the sentences in the package; none was trained on the phrases of these videos.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.wild.narrated import WildVideo, make_video
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


class Remembering:
    """An encoder that computes each text once: all actions of a scene share its windows."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder
        self._known: dict[str, npt.NDArray[np.float32]] = {}

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known |= zip(new, self._encoder.encode(new), strict=True)
        return np.stack([self._known[text] for text in texts])


def make_videos(scene: str, count: int, seed: int) -> list[WildVideo]:
    return [make_video(f"{scene}{i:03d}", scene, 1000 * seed + i) for i in range(count)]


def precision(videos: Sequence[WildVideo], action: str, scorer: Scorer, top: int = 20) -> float:
    """Share of the retrieved clips that hold the middle of the action."""
    truth = {video.narration.name: video.timeline for video in videos}
    clips = retrieve([v.narration for v in videos], scorer, top=top, before=BEFORE, after=AFTER)
    hits = [
        any(e.action == action and clip.start <= e.middle < clip.end for e in events)
        for clip in clips
        for events in [truth[clip.narration.name].events]
    ]
    return float(np.mean(hits))


def ceiling(videos: Sequence[WildVideo], action: str) -> float:
    """The same for clips around words that do go with the deed: some are said too late after it,
    and no reader of words could do better.
    """
    hits = [
        any(
            e.action == action and said.start - BEFORE <= e.middle < said.end + AFTER
            for e in video.timeline.events
        )
        for video in videos
        for said in video.utterances
        if said.deed == action
    ]
    return float(np.mean(hits))


def chance(videos: Sequence[WildVideo], action: str, seed: int = 0) -> float:
    """The same for a clip anywhere in any of the videos."""
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
        encoder = Remembering(SentenceEncoder())
    except MissingExtraError as problem:
        print(f"without sentence vectors: {problem}")
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
