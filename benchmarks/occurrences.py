"""How many occurrences of a chain are found in long videos.

    python -m benchmarks.occurrences FOLDER --learn FOLDER --out OUT [--detector motion]

FOLDER has a folder of long films per chain, with ``occurrences_s`` in ``<clip>.json`` beside
``<clip>.mp4`` (``benchmarks.simulated --occurrences``). ``--learn`` has the same folders with clips
that show the chain once. A few-shot detector is trained on those, unless ``--detector`` names one;
they are fitted at the default settings, and occurrences are sought in the long films. Compared with
pieces of the mean length of a true clip's chain, one after another through the whole video
(``pieces``). Precision, recall and F1 are those of all occurrences together at an overlap of IoU
.25, with 95 % bounds over videos. Corpora, models and ``table.md`` are written to OUT.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from objectstates import Corpus, JointDiscovery
from objectstates.data.formats.truth_files import read_truth
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.data.truth import ClipTruth
from objectstates.detect.fewshot_training import train
from objectstates.detect.from_truth import train_labels
from objectstates.discovery.occurrences import MINIMUM, NoOccurrenceError
from objectstates.evaluation.occurrences import (
    OccurrenceScore,
    Span,
    occurrence_spans,
    score_occurrences,
)
from objectstates.ingest.pipeline import IngestSettings, ingest_to, settings_of
from objectstates.video.clip_list import find_clips

HEADER = "| chain | method | videos | true | found | precision | recall | F1 | right number |"


def true_occurrences(folder: Path) -> dict[str, list[Span]]:
    """Spans by video, from the films' JSON files."""
    spans = {}
    for path in sorted(folder.glob("*.json")):
        facts = json.loads(path.read_text())
        if "occurrences_s" in facts:
            spans[path.stem] = [(float(a), float(b)) for a, b in facts["occurrences_s"]]
    return spans


def detector_of(clips: Path, out: Path) -> str:
    """A few-shot detector, trained on frames of the clips with their true boxes."""
    place = out / "detector.npz"
    if not place.exists():
        truth = read_truth(clips)
        spans = [(clip, truth[clip.id]) for clip in find_clips([clips])]
        train(train_labels(spans, clips.name)).save(place)
    return f"fewshot:{place}"


def corpus_of(films: Path, place: Path, settings: IngestSettings, like: Corpus | None) -> Corpus:
    """Of the films of a folder; that in ``place`` if there is one."""
    if not place.exists():
        used = settings if like is None else settings_of(like)
        ingest_to(place, find_clips([films]), used, like=like, processes=1)
    return Corpus.load(place)


def model_of(corpus: Corpus, clips: Path, place: Path) -> JointDiscovery:
    """Fitted to clips that show the chain once; told which states look alike, by their names."""
    if not place.exists():
        facts = json.loads(next(iter(sorted(clips.glob("*.json")))).read_text())
        states, changes = tuple(facts["states"]), len(facts["states"]) - 1
        names = LabelNames(states, LabelNames.usual(changes).actions)
        model = JointDiscovery(changes=changes, pattern=names.pattern, verdict=False)
        model.fit(corpus).save(place)
    return JointDiscovery.load(place)


def pieces(corpus: Corpus, truth: dict[str, ClipTruth]) -> dict[str, list[Span]]:
    """The whole of each video, in pieces as long as the true chain is on average."""
    known = [[a for a in clip.actions if a is not None] for clip in truth.values()]
    length = float(np.mean([actions[-1][1] - actions[0][0] for actions in known]))
    found = {}
    for n, video in enumerate(corpus.clip_ids):
        end = corpus.chunks.end[corpus.chunk_rows(n)[-1]]
        found[video] = [(k * length, (k + 1) * length) for k in range(int(end / length))]
    return found


def sought(model: JointDiscovery, corpus: Corpus, minimum: float) -> dict[str, list[Span]]:
    """What is found in long videos."""
    try:
        result: Result = model.occurrences(corpus, minimum=minimum)
    except NoOccurrenceError:
        return {}
    return occurrence_spans(result)


def line(chain: str, method: str, score: OccurrenceScore) -> str:
    low, high = score.f1_bounds()
    counts = [sum(getattr(row, name) for row in score.videos) for name in ("true", "found")]
    return (
        f"| {chain} | {method} | {len(score.videos)} | {counts[0]} | {counts[1]} | "
        f"{score.precision:.2f} | {score.recall:.2f} | {score.f1:.2f} ({low:.2f} to {high:.2f}) | "
        f"{score.right_number:.2f} |"
    )


def main() -> None:
    """Judge all chains of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("films", type=Path)
    parser.add_argument("--learn", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--detector", default="")
    parser.add_argument("--minimum", type=float, default=MINIMUM)
    given = parser.parse_args()
    rows = [HEADER, "|---|---|---|---|---|---|---|---|---|"]
    for films in sorted(folder for folder in given.films.iterdir() if folder.is_dir()):
        clips, out = given.learn / films.name, given.out / films.name
        out.mkdir(parents=True, exist_ok=True)
        detector = given.detector or detector_of(clips, out)
        settings = IngestSettings(detector=detector, object_name=films.name)
        corpus = corpus_of(clips, out / "clips", settings, None)
        model = model_of(corpus, clips, out / "model")
        long = corpus_of(films, out / "long", settings, corpus)
        truth = true_occurrences(films)
        found = {
            "pieces": pieces(long, read_truth(clips)),
            "occurrences": sought(model, long, given.minimum),
        }
        for method, spans in found.items():
            rows.append(line(films.name, method, score_occurrences(spans, truth)))
            print(rows[-1], flush=True)
    (given.out / "table.md").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
