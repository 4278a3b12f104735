"""The paper's Table 2: discovery in clips that narration found, wrong ones included.

    python -m benchmarks.wild.discovery ../shared/data/sim [--tasks drawer-open door-open]

Simulated clips 006 and on become long videos with narration (`footage`, `narrated`); the best
window of each video gives a clip, and the best 20 clips are discovered in, as in section 5.3. The
detector of each object learns from clips 000 to 005. Scores are those of the right clips, which do
hold the middle of the action, in every row; what becomes of wrong clips stands beside them.
``curated`` is the joint model on the right clips alone: what perfect retrieval would give.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.detector import TASKS, TRAIN_CLIPS, trained
from benchmarks.wild import retrieval
from benchmarks.wild.footage import LongVideo, deal, span_truth, write_span
from objectstates.baselines import METHODS, MethodSettings
from objectstates.corpus import Corpus
from objectstates.discovery import InfeasibleClipWarning
from objectstates.evaluation import ClipScore, Evaluation, compare, evaluate, method_row
from objectstates.ingest import IngestSettings, ingest
from objectstates.narration.retrieval import TfidfSvm, retrieve
from objectstates.narration.sentences import load_action
from objectstates.sources import ClipSpan
from objectstates.storage import write_whole
from objectstates.tables import comparison_table, method_table, to_markdown
from objectstates.truth import UnknownClipWarning, label_corpus, read_truth

RESULTS = Path(__file__).parents[1] / "results"
TEST_CLIPS = range(6, 100)
VIDEOS, TOP = 30, 20


@dataclass(frozen=True)
class Retrieval:
    """What was retrieved for a task: clips, which of them are right, and how many could be."""

    clips: tuple[ClipSpan, ...]
    right: frozenset[str]
    shown: int

    @property
    def facts(self) -> dict[str, float]:
        """Precision of all, of as many as there are right ones (R-precision), and recall."""
        hits = [clip.id in self.right for clip in self.clips]
        return {
            "clips": len(hits),
            "precision": float(np.mean(hits)),
            "r_precision": float(np.mean(hits[: self.shown])),
            "recall": sum(hits) / self.shown,
        }


def find_clips(videos: Sequence[LongVideo], task: str, folder: Path) -> Retrieval:
    """Retrieve by narration, and encode what was retrieved, truth beside it."""
    scorer = TfidfSvm().fit(load_action(task).sentences)
    by_name = {video.name: video for video in videos}
    clips, right = [], set()
    for rank, found in enumerate(retrieve([v.spoken.narration for v in videos], scorer, top=TOP)):
        video, name = by_name[found.narration.name], f"{rank:02d}-{found.narration.name}"
        write_span(video, found.start, found.end, folder / f"{name}.mp4")
        truth = span_truth(video, task, found.start, found.end)
        if truth is not None:
            (folder / f"{name}.json").write_text(json.dumps(truth))
            right.add(name)
        clips.append(ClipSpan(name, folder / f"{name}.mp4"))
    shown = sum(any(shot.task == task for shot in video.shots) for video in videos)
    return Retrieval(tuple(clips), frozenset(right), shown)


def make_corpus(found: Retrieval, detector: Path, folder: Path, processes: int) -> Corpus:
    """Ingest and label. In wrong clips, and outside the object's shot, nothing is right."""
    corpus, _ = ingest(
        list(found.clips), IngestSettings(detector=f"fewshot:{detector}"), processes=processes
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownClipWarning)
        corpus = label_corpus(corpus, read_truth(folder))
    state, action = corpus.tracklets.label.copy(), corpus.chunks.label.copy()
    for n, clip in enumerate(corpus.clip_ids):
        rows = slice(corpus.tracklet_rows(n).start, corpus.tracklet_rows(n).stop)
        if clip not in found.right:
            state[rows] = 0
            action[corpus.chunk_rows(n).start : corpus.chunk_rows(n).stop] = 0
            continue
        first, last = json.loads((folder / f"{clip}.json").read_text())["shot_s"]
        time = corpus.tracklets.time[rows]
        state[rows] = np.where((time >= first) & (time < last), state[rows], 0)
    return replace(
        corpus,
        tracklets=replace(corpus.tracklets, label=state),
        chunks=replace(corpus.chunks, label=action),
    )


def states_and_scores(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """States alone, with the detector's scores."""
    weight = settings.detection_weight
    model = settings.discovery(target="state", detection_weight=weight)
    return evaluate(model.fit(corpus).result_, corpus)


ROWS: dict[str, Callable[[Corpus, MethodSettings], Evaluation]] = {
    "chance": METHODS["chance"].run,
    "middle of the clip": METHODS["middle"].run,
    "(c) constraints only": METHODS["constraints"].run,
    "states + detection scores": states_and_scores,
    "(iii) action + object cues": METHODS["action_object_cues"].run,
    "joint": METHODS["joint"].run,
    "(g) joint + detection scores": METHODS["joint_scores"].run,
}


def discover(corpus: Corpus, right: frozenset[str]) -> tuple[dict[str, Evaluation], dict[str, Any]]:
    """Scores of the right clips by row, and which clips nothing was learned from."""
    settings = MethodSettings()
    rows = {name: _only(run(corpus, settings), right) for name, run in ROWS.items()}
    model = settings.discovery(reject="auto").fit(corpus)
    rows["joint, rejecting"] = _only(evaluate(model.result_, corpus), right)
    curated = corpus.select([n for n, clip in enumerate(corpus.clip_ids) if clip in right])
    rows["curated"] = _only(METHODS["joint"].run(curated, settings), right)
    aside = {clip.clip for clip in model.set_aside_}
    gone = {clip.clip for clip in model.skipped_}
    return rows, {
        "right": len(curated),
        "wrong": len(corpus) - len(curated),
        "wrong_without_labelling": len(gone - right),
        "wrong_set_aside": len(aside - right),
        "right_set_aside": len(aside & right),
        "set_aside": sorted(aside),
    }


def _only(scores: Evaluation, right: frozenset[str]) -> Evaluation:
    return Evaluation(tuple(row for row in scores.rows if row.clip in right), (), 0.0)


def words_alone(task: str, seed: int) -> dict[str, float]:
    """Precision of the best 20 of 60 narrations that have no pictures, as `retrieval` has it."""
    videos = retrieval.make_videos("robot", 60, seed)
    scorer = TfidfSvm().fit(load_action(task).sentences)
    return {
        "precision": retrieval.precision(videos, task, scorer, TOP),
        "ceiling": retrieval.ceiling(videos, task),
    }


def measure(folder: Path, task: str, seed: int, work: Path, processes: int) -> dict[str, Any]:
    place = work / f"{task}-{seed}"
    place.mkdir(parents=True)
    detector = work / f"{task}.npz"
    if not detector.exists():
        trained(folder / task, TRAIN_CLIPS)[0].save(detector)
    videos = deal(folder, TASKS, TEST_CLIPS, VIDEOS, seed)
    found = find_clips(videos, task, place)
    corpus = make_corpus(found, detector, place, processes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleClipWarning)
        rows, rejection = discover(corpus, found.right)
    print(f"\n{task}: retrieval {found.facts}\nwords alone {words_alone(task, seed)}")
    print(f"rejection {rejection}")
    show(task, {name: [scores] for name, scores in rows.items()})
    return {
        "retrieval": found.facts,
        "words_alone": words_alone(task, seed),
        "rejection": rejection,
        "rows": {name: [asdict(row) for row in scores.rows] for name, scores in rows.items()},
    }


def show(title: str, rows: dict[str, list[Evaluation]]) -> None:
    lines = [method_row(name, parts) for name, parts in rows.items()]
    print(to_markdown(method_table(title, lines)))
    pairs = [("joint, rejecting", "joint"), ("curated", "joint, rejecting"), ("curated", "joint")]
    compared = [
        (side, one, other, found)
        for one, other in pairs
        for side, found in compare(rows[one], rows[other]).items()
    ]
    print(to_markdown(comparison_table(f"{title}: differences", compared)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", nargs="+", default=["drawer-open", "door-open"], choices=TASKS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        facts = {
            task: measure(options.folder, task, options.seed, Path(work), options.processes)
            for task in options.tasks
        }
    if len(facts) > 1:
        names = next(iter(facts.values()))["rows"]
        parts = {
            name: [
                Evaluation(tuple(ClipScore(**r) for r in f["rows"][name])) for f in facts.values()
            ]
            for name in names
        }
        show("mean", parts)
    RESULTS.mkdir(exist_ok=True)
    write_whole(RESULTS / f"wild-{options.seed}.json", json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
