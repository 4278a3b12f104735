"""From a manipulation's videos to the scores of every method, each stage kept.

    detector -> corpus, labelled by truth -> how good the detector is
                                          -> scores of every method

A stage is kept in the output folder with the key of all that it depends on: the content of videos,
truth and what earlier stages gave, settings, and `VERSION`. So a run that was killed goes on where
it was, and one with other settings redoes what they change. Observations of single clips are kept
in the cache, as `objectstates.ingest.pipeline` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.cache import content_digest, digest
from objectstates.base.errors import BenchmarkError, CorpusError, DetectorError, SettingError
from objectstates.data.corpus import Corpus
from objectstates.data.corpus_io import ARTEFACT
from objectstates.data.truth import label_corpus
from objectstates.detect import fewshot
from objectstates.detect.fewshot_training import train
from objectstates.detect.from_truth import judge_labels, train_labels
from objectstates.detect.labels import Labels
from objectstates.detect.metrics import evaluate
from objectstates.discovery.estimator import JointDiscovery
from objectstates.evaluation import Evaluation
from objectstates.evaluation.baselines import METHODS, MethodSettings
from objectstates.evaluation.benchmark.coverage import covered
from objectstates.evaluation.benchmark.manipulations import Manipulation
from objectstates.evaluation.score_files import read_facts, read_run, write_facts, write_run
from objectstates.ingest import pipeline as ingesting

VERSION = 1  # of what a kept stage means; a change makes older ones stale

Watch = Callable[[str, str, str], None]
"""Told the manipulation, what is done with it, and how far that is."""


@dataclass(frozen=True)
class BenchmarkSettings:
    """What decides the table, and how it is computed.

    detector : a spec as of ingest; empty is few-shot from the train clips, or motion without any.
    runs : of random methods, which are averaged.
    cache : where observations are kept; none keeps nothing.
    fresh : use nothing that was kept.
    """

    detector: str = ""
    seed: int = 0
    runs: int = 10
    processes: int = 1
    cache: Path | None = None
    fresh: bool = False

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("runs", 1), ("processes", 1)):
            if getattr(self, name) < least:
                value = getattr(self, name)
                raise SettingError(
                    f"{name} must be a whole number of at least {least}, not {value}"
                )

    @property
    def methods(self) -> MethodSettings:
        """The defaults of the estimator: what users get."""
        return MethodSettings(JointDiscovery(seed=self.seed), runs=self.runs)


@dataclass(frozen=True)
class DetectorRow:
    """How good the detections are that the methods had to do with.

    recall, false_positives_per_image, average_precision : of single frames of the test clips, for
        few-shot detectors.
    coverage : share of the moments with a known box in which some tracklet lies on it.
    on_object : share of the tracklets that lie on the object.
    """

    detector: str
    train_clips: int
    test_clips: int
    recall: float
    false_positives_per_image: float
    average_precision: float
    coverage: float
    on_object: float
    tracklets_per_clip: float


class Stages:
    """The stages of one manipulation, each computed when first asked for."""

    def __init__(
        self, what: Manipulation, out: Path, settings: BenchmarkSettings, watch: Watch
    ) -> None:
        self._what, self._out, self._settings = what, out, settings
        self._watch = watch
        self.notes = list(what.notes)

    # --- detector -----------------------------------------------------------------------------

    @cached_property
    def _detector(self) -> str:
        """The spec of the detector, which is trained if need be."""
        if self._settings.detector or not self._what.train:
            return self._settings.detector or "motion"
        name = self._what.name
        labels = train_labels(self._what.known(self._what.train), name)
        key = digest(VERSION, "detector", _facts_of(labels), self._settings.seed)
        path = self._out / "detectors" / f"{name}.npz"
        kept = self._kept(path.with_suffix(".json"), key)
        if kept is None or not path.is_file() or kept.get("content") != content_digest(path):
            self._tell("training the detector")
            detector = train(
                labels,
                seed=self._settings.seed,
                progress=lambda done, steps: self._tell(
                    "training the detector", f"{done} of {steps}"
                ),
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            detector.save(path)
            write_facts(path.with_suffix(".json"), key, {"content": content_digest(path)})
        return f"fewshot:{path}"

    @cached_property
    def _detector_content(self) -> list[str]:
        """What tells the detector apart, wherever its file lies."""
        kind, _, name = self._detector.partition(":")
        try:
            if name and Path(name).exists():
                return [kind, content_digest(Path(name))]
        except OSError as problem:
            raise DetectorError(f"{name} cannot be read: {problem.strerror}") from problem
        return [kind, name]

    # --- corpus -------------------------------------------------------------------------------

    @cached_property
    def corpus(self) -> Corpus:
        """The test clips, with the labels that truth implies; written as a folder, too."""
        settings = ingesting.IngestSettings(detector=self._detector, object_name=self._what.name)
        path = self._out / "corpora" / self._what.name
        beside = path.with_name(f"{path.name}.json")
        key = digest(
            VERSION,
            ingesting.VERSION,
            {**asdict(settings), "detector": self._detector_content},
            [
                [clip.id, str(clip.video.resolve()), _content(clip.video), clip.start, clip.end]
                for clip in self._what.test
            ],
            [_truth_facts(self._what, clip.id) for clip in self._what.test],
        )
        kept = self._kept(beside, key)
        if kept is not None:
            try:
                corpus = Corpus.load(path)
                if kept.get("content") == content_digest(path):
                    self.notes += [str(note) for note in kept.get("notes", [])]
                    return corpus
            except CorpusError:
                pass  # gone or damaged: to be made again
        ARTEFACT.check_target(path)
        self._tell("observing the test clips")
        corpus, report = ingesting.ingest(
            self._what.test,
            settings,
            cache=None if self._settings.fresh else self._settings.cache,
            processes=self._settings.processes,
            progress=lambda p: self._tell(
                "observing the test clips", f"{p.clips_done} of {p.clips}, {p.frames} frames"
            ),
        )
        corpus = label_corpus(corpus, self._what.truth)
        corpus.save(path)
        notes = [f"{self._what.name}: {note}" for note in report.problems]
        notes += [f"{self._what.name}: {clip} is left out: {why}" for clip, why in report.failed]
        self.notes += notes
        write_facts(beside, key, {"content": content_digest(path), "notes": notes})
        return corpus

    @cached_property
    def _corpus_content(self) -> str:
        _ = self.corpus
        return content_digest(self._out / "corpora" / self._what.name)

    # --- what is measured ---------------------------------------------------------------------

    def scores(self, method: str) -> Evaluation:
        """The per-clip scores of a method."""
        settings = self._settings.methods
        path = self._out / "runs" / f"{self._what.name}.{method}.json"
        choices = {**asdict(settings), "model": settings.model.get_params()}
        key = digest(VERSION, self._corpus_content, method, choices)
        kept = None if self._settings.fresh else read_run(path, key)
        if kept is not None:
            return kept
        self._tell(method)
        scores = METHODS[method].run(self.corpus, settings)
        write_run(path, key, scores)
        return scores

    def detector_row(self) -> DetectorRow:
        """How good the detections of the test clips are."""
        path = self._out / "runs" / f"{self._what.name}.detector.json"
        key = digest(VERSION, self._corpus_content, self._detector_content)
        facts = self._kept(path, key)
        if facts is None:
            self._tell("judging the detector")
            facts = {"frames": self._frame_scores(), "corpus": self._corpus_scores()}
            write_facts(path, key, facts)
        frames, corpus = facts["frames"], facts["corpus"]
        kind = self._detector.partition(":")[0]
        numbers = [np.nan if value is None else float(value) for value in [*frames, *corpus]]
        return DetectorRow(kind, len(self._what.train), len(self._what.test), *numbers)

    def _frame_scores(self) -> list[float | None]:
        """Recall, false positives per image and average precision of a few-shot detector."""
        kind, _, path = self._detector.partition(":")
        if kind != "fewshot":
            return [None, None, None]
        inside = set(self.corpus.clip_ids)
        clips = [clip for clip in self._what.test if clip.id in inside]
        labels = judge_labels(self._what.known(clips), self._what.name)
        found = evaluate(fewshot.load(path), labels)
        return [found.recall, found.false_positives_per_image, found.average_precision]

    def _corpus_scores(self) -> list[float | None]:
        """Coverage, share of tracklets on the object, tracklets per clip."""
        label = self.corpus.tracklets.label
        on_object = float((label > 0).mean()) if len(label) else None
        return [covered(self.corpus, self._what.truth), on_object, len(label) / len(self.corpus)]

    def _kept(self, path: Path, key: str) -> dict[str, Any] | None:
        return None if self._settings.fresh else read_facts(path, key)

    def _tell(self, stage: str, how_far: str = "") -> None:
        self._watch(self._what.name, stage, how_far)


def _facts_of(labels: Labels) -> list[Any]:
    """All that a detector learned from labels depends on."""
    contents = {image.source: "" for image in labels.images}
    for source in contents:
        contents[source] = _content(source)
    return [[contents[i.source], i.time, i.boxes.tolist()] for i in labels.images]


def _truth_facts(what: Manipulation, clip: str) -> list[Any]:
    known = what.truth[clip]
    boxes = np.where(np.isfinite(known.boxes), known.boxes, -1.0)
    return [*known.action, known.times.tolist(), boxes.tolist()]


def _content(video: Path) -> str:
    try:
        return content_digest(video)
    except OSError as problem:
        raise BenchmarkError(f"{video} cannot be read: {problem.strerror}") from problem


def wanted_methods(names: Sequence[str]) -> tuple[str, ...]:
    """The methods wanted, all unless given, in the order of the table."""
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise BenchmarkError(f"there is no method {unknown[0]!r}; there are {', '.join(METHODS)}")
    return tuple(name for name in METHODS if not names or name in names)
