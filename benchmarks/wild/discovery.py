r"""The paper's Table 2: discovery in clips that narration found, wrong ones included.

    python -m benchmarks.simulated drawer-open door-open --clips 36 --seed 21 --out wild
    python -m benchmarks.simulated drawer-close door-close faucet-open box-close coffee-pull \
        --clips 12 --seed 21 --out wild
    python -m benchmarks.wild.discovery wild --tasks drawer-open door-open

For each of ``--tasks``, a detector is trained on clips 000 to 005. All other clips become long
videos with narration (``footage.py``, ``narrated.py``): idle motion, an action, idle motion, and
another action, such as the reverse on the same kind of object. Discovery runs on two sets:

- ``retrieved``: the best window of each video gives a clip, and the best 20 are taken, as in
  section 5.3;
- ``noisy``: all right clips of best windows, and the best wrong ones, up to three per video, so
  that 40 % are wrong.

A clip is right if it contains the middle of the action. One table scores the ``right clips``,
including those rejected as outliers, with the labels that prediction gives them. Another scores the
``clips answered``: all but rejected ones and those without a feasible labelling; wrong clips score
0. ``curated`` is the joint model on the right clips alone, as with perfect retrieval.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.detector import TRAIN_CLIPS, trained
from benchmarks.wild.footage import LongVideo, make_long_videos, span_truth, write_span
from objectstates.base.storage import write_atomically
from objectstates.data.corpus import Corpus
from objectstates.data.formats.truth_files import read_truth
from objectstates.data.truth_labels import UnknownClipWarning, label_corpus
from objectstates.discovery.constraints import InfeasibleClipWarning
from objectstates.evaluation import Evaluation, compare, evaluate, method_row
from objectstates.evaluation.baselines import METHODS, MethodSettings
from objectstates.evaluation.table_files import comparison_table, method_table, to_markdown
from objectstates.ingest.pipeline import IngestSettings, ingest
from objectstates.narration.retrieval import Retrieved, retrieve
from objectstates.narration.sentences import load_action
from objectstates.narration.text_classifier import TfidfSvm
from objectstates.video.clip_list import ClipSpan

RESULTS = Path(__file__).parents[1] / "results"
VIDEOS, TOP, PER_VIDEO = 40, 20, 3
WRONG = 0.4


@dataclass(frozen=True)
class RetrievedSets:
    """Clips of a task by score, and which of them are right.

    retrieved, noisy : the two sets that discovery runs on.
    shown : number of videos that show the action.
    chance : fraction of random clips that are right.
    """

    right: frozenset[str]
    retrieved: tuple[str, ...]
    noisy: tuple[str, ...]
    shown: int
    chance: float

    @property
    def facts(self) -> dict[str, float]:
        hits = [clip in self.right for clip in self.retrieved]
        return {
            "clips": len(hits),
            "precision": float(np.mean(hits)),
            "recall": sum(hits) / self.shown,
            "chance": self.chance,
            "videos_with_the_action": self.shown,
            "noisy_clips": len(self.noisy),
            "noisy_wrong": float(np.mean([clip not in self.right for clip in self.noisy])),
        }


def find_clips(
    videos: Sequence[LongVideo], task: str, seed: int
) -> tuple[RetrievedSets, list[Retrieved]]:
    """Retrieve by narration; also the clips of both sets, without duplicates."""
    scorer = TfidfSvm().fit(load_action(task).sentences)
    narrations = [video.narrated.narration for video in videos]
    by_name = {video.name: video for video in videos}

    def is_right(clip: Retrieved) -> bool:
        return span_truth(by_name[clip.narration.name], task, clip.start, clip.end) is not None

    best = retrieve(narrations, scorer, top=len(videos))
    more = retrieve(narrations, scorer, top=PER_VIDEO * len(videos), per_video=PER_VIDEO)
    right = [clip for clip in best if is_right(clip)]
    wrong = [clip for clip in more if not is_right(clip)]
    wrong = wrong[: round(WRONG / (1 - WRONG) * len(right))]
    clips = {_name(clip): clip for clip in (*best[:TOP], *right, *wrong)}
    found = RetrievedSets(
        frozenset(_name(clip) for clip in right),
        tuple(_name(clip) for clip in best[:TOP]),
        tuple(_name(clip) for clip in sorted((*right, *wrong), key=lambda clip: -clip.score)),
        sum(any(shot.task == task for shot in video.shots) for video in videos),
        _chance(videos, task, seed),
    )
    return found, list(clips.values())


def _name(clip: Retrieved) -> str:
    return f"{clip.narration.name}-{clip.start:05.1f}"


def _chance(videos: Sequence[LongVideo], task: str, seed: int, draws: int = 100) -> float:
    """Fraction of random clips of the videos that are right."""
    rng = np.random.default_rng(seed)
    hits = []
    for video in videos:
        for start in rng.uniform(-5, video.narrated.timeline.duration - 5, draws):
            hits.append(span_truth(video, task, max(0.0, start), start + 20) is not None)
    return float(np.mean(hits))


def write_retrieved(
    videos: Sequence[LongVideo], task: str, clips: Sequence[Retrieved], folder: Path
) -> None:
    """Encode the retrieved clips, with ground truth beside them."""
    by_name = {video.name: video for video in videos}
    for clip in clips:
        video, path = by_name[clip.narration.name], folder / f"{_name(clip)}.mp4"
        if not path.exists():
            partial = path.with_suffix(".part.mp4")
            write_span(video, clip.start, clip.end, partial)
            partial.replace(path)
        truth = span_truth(video, task, clip.start, clip.end)
        if truth is not None:
            (folder / f"{_name(clip)}.json").write_text(json.dumps(truth))


def make_corpus(
    found: RetrievedSets, names: Sequence[str], detector: Path, folder: Path, processes: int
) -> Corpus:
    """Ingest and label. In wrong clips, and outside the object's shot, all labels are negative."""
    spans = [ClipSpan(name, folder / f"{name}.mp4") for name in names]
    settings = IngestSettings(detector=f"fewshot:{detector}")
    corpus, _ = ingest(spans, settings, cache=folder.parent / "cache", processes=processes)
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


def clips_by_task(folder: Path, targets: Sequence[str]) -> dict[str, list[Path]]:
    """All clips by task, without the detectors' training clips of the tasks ``targets``."""
    return {
        place.name: [
            path
            for path in sorted(place.glob("*.mp4"))
            if place.name not in targets or int(path.stem[-3:]) not in TRAIN_CLIPS
        ]
        for place in sorted(folder.iterdir())
        if place.is_dir()
    }


def prepare(
    folder: Path, task: str, videos: Sequence[LongVideo], seed: int, work: Path, processes: int
) -> tuple[RetrievedSets, Corpus]:
    """All steps up to the corpus, which is cached in ``work``; an interrupted run resumes."""
    place = work / f"{task}-{seed}"
    place.mkdir(parents=True, exist_ok=True)
    detector = work / f"{task}.npz"
    if not detector.exists():
        trained(folder / task, TRAIN_CLIPS)[0].save(detector)
    found, clips = find_clips(videos, task, seed)
    if (place / "corpus").exists():
        return found, Corpus.load(place / "corpus")
    write_retrieved(videos, task, clips, place)
    corpus = make_corpus(found, [_name(clip) for clip in clips], detector, place, processes)
    corpus.save(place / "corpus")
    return found, corpus


def states_and_scores(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """The state model alone, with detection scores."""
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


@dataclass(frozen=True)
class Scores:
    """Evaluation of a set of clips by method, and the numbers of rejected clips.

    right : of the right clips alone. ``answered`` : of all clips that the method labels.
    """

    right: dict[str, Evaluation]
    answered: dict[str, Evaluation]
    rejection: dict[str, Any]


def evaluate_methods(corpus: Corpus, right: frozenset[str]) -> Scores:
    settings = MethodSettings()
    scores = {name: run(corpus, settings) for name, run in ROWS.items()}
    model = settings.discovery(reject="auto").fit(corpus)
    scores["joint, rejecting"] = evaluate(model.result_, corpus)
    curated = corpus.select([n for n, clip in enumerate(corpus.clip_ids) if clip in right])
    scores["curated"] = METHODS["joint"].run(curated, settings)
    aside = {clip.clip for clip in model.set_aside_}
    gone = {clip.clip for clip in model.skipped_}
    answered = frozenset(corpus.clip_ids) - gone
    return Scores(
        {name: _only(found, right) for name, found in scores.items()},
        {
            "joint": _only(scores["joint"], answered),
            "joint, rejecting": _only(scores["joint, rejecting"], answered - aside),
        },
        {
            "right": len(curated),
            "wrong": len(corpus) - len(curated),
            "wrong_without_labelling": len(gone - right),
            "wrong_set_aside": len(aside - right),
            "right_set_aside": len(aside & right),
            "set_aside": sorted(aside),
        },
    )


def _only(scores: Evaluation, clips: frozenset[str]) -> Evaluation:
    return Evaluation(tuple(row for row in scores.rows if row.clip in clips), (), 0.0)


def show(title: str, judged: Sequence[Scores]) -> None:
    """Print the tables of one task, or of the means of several."""
    right = {name: [part.right[name] for part in judged] for name in judged[0].right}
    print(to_markdown(method_table(title, [method_row(*row) for row in right.items()])))
    pairs = [("joint, rejecting", "joint"), ("curated", "joint, rejecting"), ("curated", "joint")]
    compared = [
        (side, one, other, found)
        for one, other in pairs
        for side, found in compare(right[one], right[other]).items()
    ]
    print(to_markdown(comparison_table(f"{title}: differences on right clips", compared)))
    names = judged[0].answered
    answered = {name: [part.answered[name] for part in judged] for name in names}
    lines = [method_row(*row) for row in answered.items()]
    print(to_markdown(method_table(f"{title}: clips answered", lines)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", nargs="+", default=["drawer-open", "door-open"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", type=Path, help="cache of clips and corpora")
    options = parser.parse_args()
    warnings.simplefilter("ignore", InfeasibleClipWarning)
    facts: dict[str, Any] = {}
    every: dict[str, list[Scores]] = {"retrieved": [], "noisy": []}
    videos = make_long_videos(clips_by_task(options.folder, options.tasks), VIDEOS, options.seed)
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        for task in options.tasks:
            found, corpus = prepare(
                options.folder, task, videos, options.seed, work, options.processes
            )
            print(f"\n{task}: {found.facts}")
            facts[task] = {"retrieval": found.facts}
            for kind, clips in (("retrieved", found.retrieved), ("noisy", found.noisy)):
                part = corpus.select([n for n, c in enumerate(corpus.clip_ids) if c in clips])
                judged = evaluate_methods(part, found.right)
                every[kind].append(judged)
                facts[task][kind] = _facts(judged)
                print(f"{kind}: {judged.rejection}")
                show(f"{task}, {kind}", [judged])
    for kind, parts in every.items():
        show(f"mean, {kind}", parts)
    RESULTS.mkdir(exist_ok=True)
    write_atomically(RESULTS / f"wild-{options.seed}.json", json.dumps(facts, indent=1) + "\n")


def _facts(judged: Scores) -> dict[str, Any]:
    def rows(scores: dict[str, Evaluation]) -> dict[str, Any]:
        return {name: [row.columns for row in found.rows] for name, found in scores.items()}

    return {
        "rejection": judged.rejection,
        "right": rows(judged.right),
        "answered": rows(judged.answered),
    }


if __name__ == "__main__":
    main()
