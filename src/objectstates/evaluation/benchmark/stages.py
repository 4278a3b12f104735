"""From a manipulation's videos to the scores of every method, in cached stages.

    train the detector -> ingest the test clips, label them by truth -> evaluate the detector
                                                                     -> evaluate every method

The result of a stage is cached in the output folder under a key of everything it depends on: the
content of videos, truth and earlier stages, the settings, and `VERSION`. A killed run resumes where
it stopped, and a run with other settings recomputes what they change. Observations of single clips
are cached by ``ingest/pipeline.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.cache import content_digest, digest
from objectstates.base.choices import Solver
from objectstates.base.errors import BenchmarkError, CorpusError, SettingError
from objectstates.data.corpus import Corpus
from objectstates.data.corpus_io import ARTEFACT
from objectstates.data.truth_labels import count_truth, label_corpus
from objectstates.detect import fewshot
from objectstates.detect.fewshot_training import train
from objectstates.detect.from_truth import judge_labels, train_labels
from objectstates.detect.labels import Labels
from objectstates.detect.metrics import evaluate as evaluate_detector
from objectstates.discovery.estimator import JointDiscovery
from objectstates.evaluation import Evaluation
from objectstates.evaluation.baselines import METHODS, MethodSettings
from objectstates.evaluation.benchmark.coverage import tracklet_coverage
from objectstates.evaluation.benchmark.manipulations import Manipulation
from objectstates.evaluation.score_files import cached_scores, read_keyed, write_keyed
from objectstates.ingest import pipeline

VERSION = 2  # of the cached stages; increase it when their meaning changes

Progress = Callable[[str, str, str], None]
"""Called with the manipulation, the stage, and how far it is."""


@dataclass(frozen=True)
class BenchmarkSettings:
    """Settings of a benchmark.

    detector : as for ingest; empty trains one on the train clips, or is motion if there are none.
    runs : number of runs of a random method that are averaged.
    seeds : number of seeds over which the spread of the precision is measured.
    solver, max_passes, restarts : of all discoveries, as in the estimator.
    cache : folder of observations; None caches none.
    fresh : whether to ignore what is cached.
    """

    detector: str = ""
    seed: int = 0
    runs: int = 10
    seeds: int = 1
    solver: Solver = "block"
    max_passes: int = JointDiscovery.max_passes
    restarts: int = 1
    processes: int = 1
    cache: Path | None = None
    fresh: bool = False

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("runs", 1), ("seeds", 1), ("processes", 1)):
            if (value := getattr(self, name)) < least:
                raise SettingError(
                    f"`{name}` must be a whole number of at least {least}, not {value}"
                )

    @property
    def methods(self) -> MethodSettings:
        """The settings of the estimator, defaults except those given."""
        model = JointDiscovery(
            seed=self.seed,
            solver=self.solver,
            max_passes=self.max_passes,
            restarts=self.restarts,
        )
        model.check()
        return MethodSettings(model, runs=self.runs, seeds=self.seeds)


@dataclass(frozen=True)
class DetectorRow:
    """How good the detections in the test clips are.

    recall, false_positives_per_image, average_precision : on single frames, for few-shot detectors.
    coverage : fraction of the true boxes that a tracklet overlaps.
    on_object : fraction of the tracklets that lie on the object; NaN if the truth lacks boxes.
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
    """The stages of one manipulation, each computed on first use."""

    def __init__(
        self, clips: Manipulation, out: Path, settings: BenchmarkSettings, progress: Progress
    ) -> None:
        self._clips, self._out, self._settings, self._progress = clips, out, settings, progress
        self.truth = count_truth(clips.truth.get(clip.id) for clip in clips.test)
        self.notes = list(clips.notes)
        if self.truth.note:
            self.notes.append(f"{clips.name}: {self.truth.note}")

    # --- detector -----------------------------------------------------------------------------

    @cached_property
    def _detector(self) -> str:
        """The detector as for ingest; a few-shot one is trained unless it is cached."""
        if self._settings.detector or not self._clips.train:
            return self._settings.detector or "motion"
        name = self._clips.name
        labels = train_labels(self._clips.with_truth(self._clips.train), name)
        key = digest(VERSION, "detector", _label_content(labels), self._settings.seed)
        path = self._out / "detectors" / f"{name}.npz"
        cached = self._cached(path.with_suffix(".json"), key)
        if cached is None or not path.is_file() or cached.get("content") != content_digest(path):
            stage = "training the detector"
            self._report(stage)
            detector = train(
                labels,
                seed=self._settings.seed,
                progress=lambda done, steps: self._report(stage, f"{done} of {steps}"),
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            detector.save(path)
            write_keyed(path.with_suffix(".json"), key, {"content": content_digest(path)})
        return f"fewshot:{path}"

    @cached_property
    def _detector_content(self) -> list[str]:
        """The kind of the detector and the content of its file, whatever the path."""
        kind, _, name = self._detector.partition(":")
        return [kind, _content(Path(name)) if name and Path(name).exists() else name]

    # --- corpus -------------------------------------------------------------------------------

    @cached_property
    def corpus(self) -> Corpus:
        """The test clips with labels from the truth; also saved as a folder."""
        name = self._clips.name
        changes = max(len(known.actions) for known in self._clips.truth.values())
        settings = pipeline.IngestSettings(
            detector=self._detector, object_name=name, changes=changes
        )
        path = self._out / "corpora" / name
        key_file = path.with_name(f"{path.name}.json")
        key = digest(
            VERSION,
            pipeline.VERSION,
            {**asdict(settings), "detector": self._detector_content},
            [
                [clip.id, str(clip.video.resolve()), _content(clip.video), clip.start, clip.end]
                for clip in self._clips.test
            ],
            [_truth_content(self._clips, clip.id) for clip in self._clips.test],
        )
        cached = self._cached(key_file, key)
        if cached is not None:
            try:
                corpus = Corpus.load(path)
                if cached.get("content") == content_digest(path):
                    self.notes += [str(note) for note in cached.get("notes", [])]
                    return corpus
            except CorpusError:
                pass  # removed or damaged: compute it again
        ARTEFACT.check_target(path)
        stage = "ingesting the test clips"
        self._report(stage)
        corpus, report = pipeline.ingest(
            self._clips.test,
            settings,
            cache=None if self._settings.fresh else self._settings.cache,
            processes=self._settings.processes,
            progress=lambda p: self._report(
                stage, f"{p.clips_done} of {p.clips}, {p.frames} frames"
            ),
        )
        corpus = label_corpus(corpus, self._clips.truth)
        corpus.save(path)
        notes = [f"{name}: {note}" for note in report.problems]
        notes += [f"{name}: {clip} is left out: {why}" for clip, why in report.failed]
        self.notes += notes
        write_keyed(key_file, key, {"content": content_digest(path), "notes": notes})
        return corpus

    @cached_property
    def _corpus_content(self) -> str:
        _ = self.corpus
        return content_digest(self._out / "corpora" / self._clips.name)

    # --- evaluation --------------------------------------------------------------------------

    def scores(self, method: str) -> Evaluation:
        """The per-clip scores of a method."""
        settings = self._settings.methods
        path = self._out / "runs" / f"{self._clips.name}.{method}.json"
        key = digest(VERSION, self._corpus_content, method, settings.as_dict())

        def compute() -> Evaluation:
            self._report(method)
            return METHODS[method].scores(self.corpus, settings)

        return cached_scores(path, key, compute, fresh=self._settings.fresh)

    def detector_row(self) -> DetectorRow:
        """How good the detections of the test clips are."""
        path = self._out / "runs" / f"{self._clips.name}.detector.json"
        key = digest(VERSION, self._corpus_content, self._detector_content)
        scores = self._cached(path, key)
        if scores is None:
            self._report("evaluating the detector")
            scores = {"frames": self._frame_scores(), "corpus": self._corpus_scores()}
            write_keyed(path, key, scores)
        kind = self._detector.partition(":")[0]
        values = [*scores["frames"], *scores["corpus"]]
        numbers = [np.nan if value is None else float(value) for value in values]
        return DetectorRow(kind, len(self._clips.train), len(self._clips.test), *numbers)

    def _frame_scores(self) -> list[float | None]:
        """Recall, false positives per image and average precision of a few-shot detector."""
        kind, _, path = self._detector.partition(":")
        if kind != "fewshot":
            return [None, None, None]
        inside = set(self.corpus.clip_ids)
        clips = [clip for clip in self._clips.test if clip.id in inside]
        labels = judge_labels(self._clips.with_truth(clips), self._clips.name)
        found = evaluate_detector(fewshot.load(path), labels)
        return [found.recall, found.false_positives_per_image, found.average_precision]

    def _corpus_scores(self) -> list[float | None]:
        """Coverage, fraction of tracklets on the object, tracklets per clip."""
        label = self.corpus.tracklets.label
        on_object = float((label > 0).mean()) if len(label) and not self.truth.by_time else None
        coverage = tracklet_coverage(self.corpus, self._clips.truth)
        return [coverage, on_object, len(label) / len(self.corpus)]

    def _cached(self, path: Path, key: str) -> dict[str, Any] | None:
        return None if self._settings.fresh else read_keyed(path, key)

    def _report(self, stage: str, how_far: str = "") -> None:
        self._progress(self._clips.name, stage, how_far)


def _label_content(labels: Labels) -> list[Any]:
    """Everything that training a detector on labels depends on."""
    contents = {source: _content(source) for source in {image.source for image in labels.images}}
    return [[contents[i.source], i.time, i.boxes.tolist()] for i in labels.images]


def _truth_content(manipulation: Manipulation, clip: str) -> list[Any]:
    known = manipulation.truth[clip]
    boxes = np.where(np.isfinite(known.boxes), known.boxes, -1.0)
    actions = [time for action in known.actions for time in action or (None, None)]
    return [*actions, known.times.tolist(), boxes.tolist()]


def _content(path: Path) -> str:
    try:
        return content_digest(path)
    except OSError as problem:
        raise BenchmarkError(f"{path} cannot be read: {problem.strerror}") from problem


def select_methods(names: Sequence[str]) -> tuple[str, ...]:
    """The methods of these names, in the order of `METHODS`; without any, all that are quick."""
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise BenchmarkError(
            f"`methods`: there is no {unknown[0]!r}; there are {', '.join(METHODS)}"
        )
    quick = [name for name, method in METHODS.items() if not method.on_request]
    return tuple(name for name in METHODS if name in (names or quick))
