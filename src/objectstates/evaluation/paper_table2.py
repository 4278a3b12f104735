"""The paper's Table 2: discovery in clips that narration retrieves, wrong ones included.

The input is a folder per action, named as the action, with long videos and beside each of them its
subtitles and, if the action occurs in it, its truth (``truth.csv`` or ``<video>.json``, see
``data/formats/truth_files.py``). A video without truth does not show the action. Sentences to learn
from are ``positive.txt`` and ``negative.txt`` in the folder, or those of the package.

As in section 5.3 the best window of ten words gives one clip per video, from 5 s before it to 15 s
after it, and the best 20 are taken. All of them are scored: where a clip lacks the action, no time
of it is right, and where it lacks a state, no tracklet. ``Curated`` has in place of each clip the
one around the true action of its video.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from objectstates.base.cache import content_digest, digest
from objectstates.base.errors import BenchmarkError, ObjectStatesError, SettingError
from objectstates.data.corpus import UNKNOWN, Corpus
from objectstates.data.formats.authors_release import in_order
from objectstates.data.formats.truth_files import read_truth
from objectstates.data.truth import ClipTruth
from objectstates.data.truth_labels import UnknownClipWarning, label_corpus
from objectstates.evaluation import Evaluation
from objectstates.evaluation.baselines import METHODS, MethodSettings
from objectstates.evaluation.bootstrap import macro_mean
from objectstates.evaluation.kept_corpora import kept_corpus
from objectstates.evaluation.paper_table1 import ACTIONS, FOLDER
from objectstates.evaluation.precision import Side
from objectstates.evaluation.release_images import ImageSettings
from objectstates.evaluation.score_files import cached_scores
from objectstates.evaluation.table_files import Cell, Table, text
from objectstates.ingest import pipeline
from objectstates.narration.retrieval import Search, retrieve_from_files
from objectstates.narration.sentences import Sentences, load_action, read_sentences
from objectstates.narration.subtitles import find_narrations
from objectstates.narration.text_classifier import TfidfSvm
from objectstates.video.clip_list import ClipSpan
from objectstates.video.clips_around import clips_around

VERSION = 1  # of what is cached; increase it when its meaning changes
AROUND = 10.0  # seconds before and after the action of a curated clip
OWN_SENTENCES = ("positive.txt", "negative.txt")
COLUMNS = ("put_wheel", "withdraw_wheel", "place_plant", "open_oyster", "pour_coffee")
"""The actions of the paper's table, in the order of its columns."""

ClipSet = Literal["retrieved", "curated"]


@dataclass(frozen=True)
class WildRow:
    """A row of the table: the state or action scores of a method on a set of clips.

    paper : the paper's numbers, in the order of `COLUMNS`.
    """

    name: str
    method: str
    side: Side
    clips: ClipSet
    paper: tuple[float, ...]

    def paper_number(self, action: str) -> float:
        """NaN if the paper has no such column."""
        return self.paper[COLUMNS.index(action)] if action in COLUMNS else np.nan


ROWS = (
    WildRow("(c) Constraints only", "constraints", "states", "retrieved",
            (0.23, 0.34, 0.25, 0.29, 0.11)),
    WildRow("States + detection scores", "state_scores", "states", "retrieved",
            (0.33, 0.48, 0.28, 0.40, 0.13)),
    WildRow("(g) Joint + detection scores", "joint_scores", "states", "retrieved",
            (0.38, 0.53, 0.25, 0.43, 0.20)),
    WildRow("(g) Curated", "joint_scores", "states", "curated", (0.63, 0.68, 0.63, 0.63, 0.53)),
    WildRow("(i) Chance", "chance", "action", "retrieved", (0.14, 0.10, 0.06, 0.10, 0.15)),
    WildRow("(iii) Action + object cues", "action_object_cues", "action", "retrieved",
            (0.05, 0.10, 0.00, 0.15, 0.25)),
    WildRow("(iv) Joint", "joint", "action", "retrieved", (0.30, 0.30, 0.20, 0.20, 0.20)),
    WildRow("(iv) Curated", "joint", "action", "curated", (0.53, 0.35, 0.32, 0.40, 0.59)),
)  # fmt: skip
"""All rows of Table 2."""


@dataclass(frozen=True)
class Wild:
    """The scores of every action, set of clips and method.

    right : by action, the fraction of the retrieved clips that contain the middle of the action.
    failures : why scores are missing, by action and row; by action and None if it has none.
    """

    actions: tuple[str, ...]
    scores: dict[tuple[str, ClipSet, str], Evaluation] = field(default_factory=dict)
    right: dict[str, float] = field(default_factory=dict)
    failures: dict[tuple[str, str | None], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def parts(self, row: WildRow) -> dict[str, Evaluation]:
        """The scores of a row, by action."""
        found = {a: self.scores.get((a, row.clips, row.method)) for a in self.actions}
        return {action: scores for action, scores in found.items() if scores is not None}


def wild(
    data: str | Path,
    *,
    out: str | Path,
    actions: Sequence[str] = (),
    settings: MethodSettings | None = None,
    ingest: ImageSettings | None = None,
    top: int = 20,
    fresh: bool = False,
    progress: Callable[[str, str], None] | None = None,
) -> Wild:
    """Run all rows on ``actions`` (default: all folders of ``data``).

    out : folder of what is kept; ``fresh`` ignores what it holds.
    ingest : how corpora are made; `motion` is the detector unless one is given, and ``around`` is
        that of curated clips, `AROUND` unless given.
    top : the number of clips to retrieve.
    """
    folders = _folders(Path(data), actions)
    settings, ingest = settings or MethodSettings(), ingest or ImageSettings()
    if top < 1:
        raise SettingError(f"`top` must be 1 or more, not {top}")
    FOLDER.open(out)
    done = Wild(tuple(folders))
    for action, folder in folders.items():
        report = progress or (lambda *_: None)
        part = _Action(action, folder, Path(out), settings, ingest, top, fresh, report)
        try:
            done.right[action] = part.right
        except ObjectStatesError as problem:
            done.failures[action, None] = str(problem)
            continue
        for row in ROWS:
            try:
                done.scores[action, row.clips, row.method] = part.scores(row)
            except ObjectStatesError as problem:
                done.failures[action, row.name] = str(problem)
        done.notes.extend(dict.fromkeys(part.notes))
    if not done.scores:
        raise BenchmarkError(f"nothing could be computed: {next(iter(done.failures.values()))}")
    return done


def _folders(data: Path, actions: Sequence[str]) -> dict[str, Path]:
    if not data.is_dir():
        raise BenchmarkError(f"{data} is no folder: give the one with a folder per action")
    found = {p.name: p for p in sorted(data.iterdir()) if p.is_dir() and p.name[0] != "."}
    names = in_order(actions or found)
    missing = [name for name in names if name not in found]
    if missing or not names:
        raise BenchmarkError(f"{data} has no folder {missing[0] if missing else 'of an action'}")
    return {name: found[name] for name in names}


# --- one action ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Action:
    """The clips and scores of one action, made on first use."""

    action: str
    folder: Path
    out: Path
    settings: MethodSettings
    ingest: ImageSettings
    top: int
    fresh: bool
    progress: Callable[[str, str], None]
    notes: list[str] = field(default_factory=list)

    @cached_property
    def truth(self) -> dict[str, ClipTruth]:
        """By the name of the video."""
        table = self.folder / "truth.csv"
        found = read_truth(table if table.is_file() else self.folder)
        chains = [clip for clip, truth in found.items() if len(truth.actions) != 1]
        if chains:
            raise BenchmarkError(f"{chains[0]} has a chain of actions; the table is of single ones")
        return found

    @cached_property
    def retrieved(self) -> list[ClipSpan]:
        """The best clips by narration, best first."""
        self.progress(self.action, "searching the narrations")
        files = [
            path
            for path in find_narrations([self.folder])
            if path.suffix.lower() != ".json" and path.name not in OWN_SENTENCES
        ]
        if not files:
            raise BenchmarkError(f"{self.folder}: there are no subtitles beside the videos")
        scorer = TfidfSvm().fit(self._sentences())
        clips, problems = retrieve_from_files(files, Search(scorer, top=self.top))
        self.notes.extend(f"{self.action}: left out {problem}" for problem in problems)
        spans = []
        for clip in clips:
            if clip.narration.video is None:
                self.notes.append(f"{self.action}: {clip.narration.name} has no video beside it")
            else:
                video = clip.narration.video
                spans.append(ClipSpan(video.stem, video, clip.start, clip.end))
        if not spans:
            raise BenchmarkError(f"{self.folder}: no video is beside its subtitles")
        return spans

    def _sentences(self) -> Sentences:
        own = [self.folder / name for name in OWN_SENTENCES]
        if all(path.is_file() for path in own):
            return Sentences(*(tuple(read_sentences(path)) for path in own))
        return load_action(self.action).sentences

    @property
    def right(self) -> float:
        """The fraction of the retrieved clips that contain the middle of the action."""
        hits = [
            span.id in self.truth and _contains(span, self.truth[span.id])
            for span in self.retrieved
        ]
        return float(np.mean(hits))

    def spans(self, clips: ClipSet) -> list[ClipSpan]:
        """The clips of a set."""
        if clips == "retrieved":
            return self.retrieved
        whole = [ClipSpan(span.id, span.video) for span in self.retrieved]
        actions = {clip: (truth.action,) for clip, truth in self.truth.items()}
        found = clips_around(whole, actions, self.ingest.around or AROUND)
        if not found:
            raise BenchmarkError(f"{self.folder}: no retrieved video has truth to cut clips by")
        return found

    def corpus(self, clips: ClipSet) -> tuple[Corpus, Path]:
        """The labelled corpus of a set, and its folder."""
        spans, path = self.spans(clips), self.out / "corpora" / f"{self.action}.{clips}"
        settings = self.ingest.ingest(self.action, "motion")
        truth = [
            [s.id, t.action, t.times.tolist(), np.nan_to_num(t.boxes, nan=-1).tolist()]
            for s in spans
            if (t := self.truth.get(s.id)) is not None
        ]
        videos = {span.video: content_digest(span.video) for span in spans}
        where = [[span.id, videos[span.video], span.start, span.end] for span in spans]
        key = digest(VERSION, pipeline.VERSION, asdict(settings), where, truth)

        def make() -> tuple[Corpus, list[str]]:
            self.progress(self.action, f"reading {len(spans)} {clips} clips")
            corpus, report = pipeline.ingest(
                spans, settings, cache=self.ingest.cache, processes=self.ingest.processes
            )
            notes = [f"{self.action}: {clip} is left out: {why}" for clip, why in report.failed]
            return label_with_wrong_clips(corpus, self.truth), notes

        corpus, notes = kept_corpus(path, key, make, fresh=self.fresh)
        self.notes.extend(notes)
        return corpus, path

    def scores(self, row: WildRow) -> Evaluation:
        """The scores of a method on all clips of its set."""
        corpus, path = self.corpus(row.clips)
        key = digest(VERSION, content_digest(path), row.method, self.settings.as_dict())
        name = f"{self.action}.{row.clips}.{row.method}.json"

        def compute() -> Evaluation:
            self.progress(self.action, row.name)
            return METHODS[row.method].scores(corpus, self.settings)

        return cached_scores(self.out / "runs" / name, key, compute, fresh=self.fresh)


def _contains(span: ClipSpan, truth: ClipTruth) -> bool:
    middle = sum(truth.action) / 2
    return (span.start or 0.0) <= middle and (span.end is None or middle < span.end)


def label_with_wrong_clips(corpus: Corpus, truth: Mapping[str, ClipTruth]) -> Corpus:
    """The corpus labelled by ``truth``; in clips without any, nothing is a state or the action."""
    if any(clip in truth for clip in corpus.clip_ids):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownClipWarning)
            corpus = label_corpus(corpus, truth)
    state, action = (
        np.where(table.label == UNKNOWN, 0, table.label).astype(np.int8)
        for table in (corpus.tracklets, corpus.chunks)
    )
    return replace(
        corpus,
        tracklets=replace(corpus.tracklets, label=state),
        chunks=replace(corpus.chunks, label=action),
    )


# --- the table ------------------------------------------------------------------------------------


def wild_table(done: Wild) -> Table:
    """Table 2 in the paper's layout: our precision over all clips, and the paper's in brackets."""
    rows: list[tuple[Cell, ...]] = []
    for row in ROWS:
        ours = {action: scores.precision(row.side) for action, scores in done.parts(row).items()}
        averaged = [action for action in ours if action in COLUMNS] or list(ours)
        cells = [_beside(ours.get(a, np.nan), row.paper_number(a)) for a in done.actions]
        paper = _mean([row.paper_number(action) for action in averaged])
        average = _beside(_mean([ours[action] for action in averaged]), paper)
        rows.append((row.name, row.side, *cells, average))
    columns = ("method", "finds", *(ACTIONS.get(a, a) for a in done.actions), "average")
    return Table("Discovery in retrieved clips", columns, tuple(rows), _notes(done))


def _mean(values: Sequence[float]) -> float:
    return macro_mean([np.array(values)])


def _beside(ours: float, theirs: float) -> str:
    return text(ours) if np.isnan(theirs) else f"{text(ours)} ({text(theirs)})"


def _notes(done: Wild) -> tuple[str, ...]:
    right = ", ".join(f"{action} {text(share)}" for action, share in done.right.items())
    notes = [
        "Precision over all clips, wrong ones included, mean over clips and states; the paper's in "
        f"brackets. Retrieved clips that contain the middle of the action: {right}."
    ]
    reasons: dict[tuple[str | None, str], list[str]] = {}
    for (action, row), reason in done.failures.items():
        reasons.setdefault((row, reason), []).append(action)
    for (row_name, reason), actions in reasons.items():
        what = "" if row_name is None else f" {row_name}:"
        notes.append(f"Missing ({', '.join(actions)}):{what} {reason}.")
    return (*notes, *done.notes)
