"""The paper's Table 1 (and its Appendix E), recomputed from the authors' release.

Every method is run on every action that is found: on the features of the release, or on those that
are computed from its images (``release_images.py``). Scores are cached in
``runs/<action>.<method>.json`` by the content of the files and the settings, so an interrupted run
resumes. Missing and damaged files are reported; the others are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from objectstates.base.cache import content_digest, digest
from objectstates.base.errors import CorpusError, ObjectStatesError, SettingError
from objectstates.base.targets import OwnFolder
from objectstates.data.corpus import Corpus
from objectstates.data.formats.authors_release import (
    ReleaseFiles,
    find_release,
    in_order,
    read_release,
)
from objectstates.evaluation import Evaluation, compare, method_row
from objectstates.evaluation.baselines import METHODS, MethodSettings
from objectstates.evaluation.bootstrap import macro_mean
from objectstates.evaluation.precision import Side
from objectstates.evaluation.release_images import ImageSettings, corpus_of_images
from objectstates.evaluation.score_files import cached_scores
from objectstates.evaluation.table_files import Cell, Table, comparison_table, text
from objectstates.ingest.pipeline import Progress

VERSION = 3  # of the cached scores; increase it when their meaning changes

ACTIONS = {
    "put_wheel": "put wheel",
    "withdraw_wheel": "remove wheel",
    "place_plant": "fill pot",
    "open_oyster": "open oyster",
    "pour_coffee": "fill coffee cup",
    "open_fridge": "open fridge",
    "close_fridge": "close fridge",
}
"""The release's and the paper's name of each action, in the order of the paper's columns."""

PAPER = {
    "a": (0.10, 0.11, 0.10, 0.07, 0.06, 0.10, 0.10),
    "b": (0.25, 0.12, 0.11, 0.23, 0.14, 0.19, 0.22),
    "c": (0.35, 0.38, 0.35, 0.36, 0.31, 0.29, 0.42),
    "d": (0.35, 0.48, 0.35, 0.38, 0.30, 0.40, 0.37),
    "e": (0.43, 0.55, 0.46, 0.52, 0.29, 0.43, 0.39),
    "f": (0.52, 0.59, 0.50, 0.45, 0.39, 0.47, 0.47),
    "g": (0.47, 0.65, 0.50, 0.61, 0.44, 0.46, 0.43),
    "h": (0.55, 0.56, 0.56, 0.52, 0.46, 0.45, 0.49),
    "i": (0.31, 0.20, 0.15, 0.11, 0.40, 0.23, 0.17),
    "ii": (0.24, 0.13, 0.11, 0.14, 0.26, 0.29, 0.23),
    "iii": (0.24, 0.13, 0.26, 0.07, 0.84, 0.33, 0.37),
    "iv": (0.67, 0.57, 0.48, 0.32, 0.82, 0.57, 0.44),
    "v": (0.72, 0.66, 0.44, 0.46, 0.86, 0.55, 0.44),
    "E1": (0.65, 0.68, 0.56, 0.11, 0.91, 0.54, 0.59),
    "E2": (0.65, 0.72, 0.56, 0.21, 0.93, 0.60, 0.62),
}
"""The numbers of the paper's Tables 1 and 3 by row, in the order of `ACTIONS`."""


@dataclass(frozen=True)
class Row:
    """A row of the table: the state or action scores of a method."""

    key: str
    method: str
    side: Side

    @property
    def name(self) -> str:
        return f"({self.key}) {METHODS[self.method].title}"

    def paper(self, action: str) -> float:
        """The paper's number; NaN if it has no such row or column."""
        if self.key not in PAPER or action not in ACTIONS:
            return np.nan
        return PAPER[self.key][list(ACTIONS).index(action)]


ROWS: dict[str, Row] = {
    row.key: row
    for row in (
        *(Row(m.state_row, m.name, "states") for m in METHODS.values() if m.state_row),
        Row("i", "chance", "action"),
        Row("middle", "middle", "action"),
        Row("ii", "action_salient", "action"),
        Row("iii", "action_object_cues", "action"),
        Row("iv", "joint", "action"),
        Row("v", "joint_gt_states", "action"),
        Row("E1", "supervised", "action"),
        Row("E2", "supervised_trajectories", "action"),
    )
}
"""All rows by their key in the paper, states first."""

COMPARED = (("f", "c"), ("f", "e"), ("e", "d"), ("iv", "middle"), ("iv", "ii"), ("iv", "iii"))
"""The pairs of rows that are compared clip by clip."""


@dataclass(frozen=True)
class Reproduction:
    """The scores of every action and method.

    scores : by action and method.
    failures : why scores are missing, by action and method; by action and None if its files could
        not be read.
    notes : what was left out of the images.
    """

    actions: tuple[str, ...]
    rows: tuple[Row, ...]
    scores: dict[tuple[str, str], Evaluation] = field(default_factory=dict)
    failures: dict[tuple[str, str | None], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def parts(self, row: Row) -> dict[str, Evaluation]:
        """The scores of a row, by action."""
        found = {action: self.scores.get((action, row.method)) for action in self.actions}
        return {action: scores for action, scores in found.items() if scores is not None}


# --- running ----------------------------------------------------------------------------------


FOLDER = OwnFolder(
    header="reproduce.json",
    names=frozenset(
        {"runs", "corpora", "boxes"}
        | {f"{name}.{kind}" for name in ("table1", "table2", "scores", "differences")
           for kind in ("csv", "md", "html")}
    ),
    earlier="runs",
    error=CorpusError,
)  # fmt: skip


def reproduce(
    data: str | Path,
    *,
    out: str | Path,
    rows: Sequence[str] = (),
    actions: Sequence[str] = (),
    settings: MethodSettings | None = None,
    videos: str | Path | None = None,
    images: ImageSettings | None = None,
    fresh: bool = False,
    progress: Callable[[str, str], None] | None = None,
) -> Reproduction:
    """Run the methods of ``rows`` (default: all) on ``actions`` (default: all that are found).

    data : the folder of the release (``authors_release.py``), or one ``features_<action>.mat``.
    out : folder of the cache; ``fresh`` ignores what it holds.
    videos : folder of the release's images; the corpora are then made from them, by ``images``.
    progress : called with the action and the method before each run.
    """
    settings = settings or MethodSettings()
    wanted = _wanted_rows(rows)
    files = find_release(data, videos)
    FOLDER.open(out)
    names = in_order(actions or files)
    done = Reproduction(tuple(names), wanted)
    from_images = None if videos is None else images or ImageSettings()
    for action in names:
        part = files.get(action)
        if part is None or (videos is None and part.features is None):
            done.failures[action, None] = f"features_{action}.mat is not in {data}"
            continue
        features = _ActionFile(part, Path(out), settings, from_images, fresh, progress)
        for method in dict.fromkeys(row.method for row in wanted):
            if progress is not None:
                progress(action, method)
            try:
                done.scores[action, method] = features.scores(method)
            except _UnreadableError as problem:
                done.failures[action, None] = str(problem)
                break
            except ObjectStatesError as problem:
                done.failures[action, method] = str(problem)
        done.notes.extend(features.notes)
    if not done.scores:
        raise CorpusError(f"nothing could be computed: {next(iter(done.failures.values()))}")
    return done


class _UnreadableError(ObjectStatesError):
    """The files of an action cannot be read, so none of its methods can be run."""


@dataclass(frozen=True)
class _ActionFile:
    """The files of one action, read only if the scores of a method are not cached."""

    files: ReleaseFiles
    out: Path
    settings: MethodSettings
    images: ImageSettings | None
    fresh: bool
    progress: Callable[[str, str], None] | None = None
    notes: list[str] = field(default_factory=list)

    def scores(self, method: str) -> Evaluation:
        key = digest(VERSION, self._digest, method, self.settings.as_dict())
        return cached_scores(
            self.out / "runs" / f"{self.files.action}.{method}.json",
            key,
            lambda: METHODS[method].scores(self._corpus, self.settings),
            fresh=self.fresh,
        )

    @cached_property
    def _digest(self) -> list[str]:
        if self.images is not None:
            _ = self._corpus
            return [content_digest(self.out / "corpora" / self.files.action)]
        paths = [path for path in (self.files.features, self.files.metadata) if path is not None]
        try:
            return [content_digest(path) for path in paths]
        except OSError as problem:
            raise _UnreadableError(f"{problem.filename}: {problem.strerror}") from problem

    @cached_property
    def _corpus(self) -> Corpus:
        try:
            if self.images is None:
                return read_release(self.files)
            corpus, notes = corpus_of_images(
                self.files, self.out, self.images, fresh=self.fresh, progress=self._report
            )
        except (ObjectStatesError, OSError) as problem:
            raise _UnreadableError(str(problem)) from problem
        self.notes.extend(notes)
        return corpus

    def _report(self, done: Progress) -> None:
        if self.progress is not None:
            self.progress(self.files.action, f"reading images, {done.clips_done} of {done.clips}")


def _wanted_rows(keys: Sequence[str]) -> tuple[Row, ...]:
    unknown = [key for key in keys if key not in ROWS]
    if unknown:
        raise SettingError(f"`rows`: there is no {unknown[0]!r}; there are {', '.join(ROWS)}")
    return tuple(row for key, row in ROWS.items() if not keys or key in keys)


# --- tables -----------------------------------------------------------------------------------


def paper_table(done: Reproduction) -> Table:
    """Table 1 in the paper's layout: our precision, and the paper's in brackets."""
    rows: list[tuple[Cell, ...]] = []
    for row in done.rows:
        parts = done.parts(row)
        ours = {action: scores.precision(row.side) for action, scores in parts.items()}
        cells = [_beside(ours.get(a, np.nan), row.paper(a)) for a in done.actions]
        averaged = _averaged(parts)
        average = _beside(
            _mean([ours[a] for a in averaged]), _mean([row.paper(a) for a in averaged])
        )
        rows.append((row.name, row.side, *cells, average, *_certificate(row, parts)))
    columns = ("method", "finds", *(ACTIONS.get(a, a) for a in done.actions), "average")
    columns = (*columns, "gap", "seed spread")
    return Table("State discovery and action localisation", columns, tuple(rows), _notes(done))


def long_table(done: Reproduction) -> Table:
    """One line per row and action, with bounds and all digits."""
    rows: list[tuple[Cell, ...]] = []
    for row in done.rows:
        parts = done.parts(row)
        groups = {action: {action: scores} for action, scores in parts.items()}
        if len(_averaged(parts)) > 1:
            groups["average"] = _averaged(parts)
        for name, group in groups.items():
            clips = sum(len(scores.rows) for scores in group.values())
            paper = _mean([row.paper(action) for action in group])
            numbers = _numbers(row, list(group.values()))
            numbers = (*numbers, *_certificate(row, group))
            rows.append((row.key, row.method, row.side, name, clips, *numbers, paper))
    columns = ("row", "method", "finds", "action", "clips", "precision", "low", "high", "recall",
               "labels_per_clip", "standard_error", "gap", "seed_spread", "paper")  # fmt: skip
    return Table("All scores", columns, tuple(rows), _notes(done))


def compared(done: Reproduction) -> Table:
    """The differences of the `COMPARED` rows clip by clip, over the actions of both."""
    lines = []
    for key, other in COMPARED:
        if ROWS[key] not in done.rows or ROWS[other] not in done.rows:
            continue
        first, second = _averaged(done.parts(ROWS[key])), _averaged(done.parts(ROWS[other]))
        both = [action for action in first if action in second]
        if both:
            found = compare([first[action] for action in both], [second[a] for a in both])
            side = ROWS[key].side
            lines.append((side, ROWS[key].name, ROWS[other].name, found[side]))
    return comparison_table("Differences, clip by clip", lines)


def _certificate(row: Row, parts: dict[str, Evaluation]) -> tuple[float, float]:
    """The largest relative gap, and the mean standard deviation of the precision over seeds."""
    line = method_row(row.method, list(parts.values()))
    return line.gap, line.states_spread if row.side == "states" else line.action_spread


def _averaged(parts: dict[str, Evaluation]) -> dict[str, Evaluation]:
    """The paper's actions, so that our average and the paper's are over the same."""
    return {action: parts[action] for action in parts if action in ACTIONS} or parts


def _numbers(row: Row, parts: Sequence[Evaluation]) -> tuple[float, ...]:
    """Precision with bounds; recall, labels per clip and standard error of states."""
    line = method_row(row.method, parts)
    if row.side == "action":
        return line.action, line.action_low, line.action_high, np.nan, np.nan, 0.0
    error = float(np.sqrt(np.sum([part.state_error**2 for part in parts])) / len(parts))
    bounds = line.states, line.states_low, line.states_high
    return (*bounds, line.states_recall, line.labels_per_clip, error)


def _beside(ours: float, theirs: float) -> str:
    return text(ours) if np.isnan(theirs) else f"{text(ours)} ({text(theirs)})"


def _mean(values: Sequence[float]) -> float:
    return macro_mean([np.array(values)])


def _notes(done: Reproduction) -> tuple[str, ...]:
    """What the numbers are, and what is missing and why; each reason once."""
    notes = [
        "Precision, mean over clips and states; the paper's in brackets. The average is over the "
        "paper's actions for which there is a number. The gap is the largest duality gap over its "
        "objective; the seed spread is the standard deviation of the precision over seeds, if "
        "several were run."
    ]
    reasons: dict[tuple[str | None, str], list[str]] = {}
    for (action, method), reason in done.failures.items():
        reasons.setdefault((method, reason), []).append(action)
    for (method, reason), actions in reasons.items():
        what = "" if method is None else f" {METHODS[method].title}:"
        notes.append(f"Missing ({', '.join(actions)}):{what} {reason}.")
    for action in done.actions:
        skipped = {
            clip.clip: clip.reason
            for row in done.rows
            if (scores := done.scores.get((action, row.method))) is not None
            for clip in scores.skipped
        }
        if skipped:
            named = "; ".join(f"{clip}: {reason}" for clip, reason in skipped.items())
            notes.append(f"{action}: clips that cannot be labelled count as wrong: {named}.")
    notes += done.notes
    missing = [action for action in ACTIONS if action not in done.actions]
    if missing:
        notes.append(f"Not among the files, or not selected: {', '.join(missing)}.")
    return tuple(notes)
