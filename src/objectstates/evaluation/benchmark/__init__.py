"""The paper's comparison end to end: from videos with truth to a table.

Per manipulation a detector is trained on a few clips, the test clips are ingested with it, and
every method is evaluated on that corpus. Failures are reported and do not stop the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from objectstates.base.errors import (
    BenchmarkError,
    MemoryLackError,
    ObjectStatesError,
    StorageError,
)
from objectstates.base.targets import OwnFolder
from objectstates.evaluation import Evaluation
from objectstates.evaluation.benchmark.manipulations import (
    Manipulation,
    ManipulationFolder,
    around_actions,
    find_manipulations,
    read_manipulation,
)
from objectstates.evaluation.benchmark.stages import (
    BenchmarkSettings,
    DetectorRow,
    Progress,
    Stages,
    select_methods,
)

TABLES = (
    *("table.csv", "clips.csv", "differences.csv", "detectors.csv", "table.md", "table.html"),
)
"""The files of tables (``tables.py``)."""

__all__ = ["Benchmark", "BenchmarkSettings", "DetectorRow", "run_benchmark"]


FOLDER = OwnFolder(
    header="benchmark.json",
    names=frozenset({"detectors", "corpora", "runs", *TABLES}),
    earlier="runs",
    error=BenchmarkError,
)


@dataclass(frozen=True)
class Benchmark:
    """The scores of every manipulation and method.

    scores : by manipulation and method; ``detectors`` by manipulation.
    failures : why scores are missing, by manipulation and method; None stands for all methods.
    notes : what was left out of the data.
    """

    manipulations: tuple[str, ...]
    methods: tuple[str, ...]
    scores: dict[tuple[str, str], Evaluation] = field(default_factory=dict)
    detectors: dict[str, DetectorRow] = field(default_factory=dict)
    failures: dict[tuple[str, str | None], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def parts(self, *methods: str) -> dict[str, tuple[Evaluation, ...]]:
        """The scores of methods, by manipulation, where all of them have scores."""
        found = {
            name: tuple(self.scores[name, m] for m in methods if (name, m) in self.scores)
            for name in self.manipulations
        }
        return {name: scores for name, scores in found.items() if len(scores) == len(methods)}


def run_benchmark(
    data: str | Path,
    out: str | Path,
    settings: BenchmarkSettings | None = None,
    *,
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    crops: bool = True,
    around: float | None = None,
    progress: Progress | None = None,
) -> Benchmark:
    """Compare methods on the manipulations in ``data``; ``out`` holds cached stages.

    tasks, methods : names of manipulations and methods; all unless given.
    crops : whether to use the spans of ``crops.json``, if it exists.
    around : seconds before and after the action that test clips have; None for all of them.
    progress : called with the manipulation, the stage and how far it is.
    """
    settings = settings or BenchmarkSettings()
    wanted = select_methods(methods)
    FOLDER.open(out)
    folders = _select_folders(find_manipulations(data, crops=crops), tasks, data)
    done = Benchmark(tuple(folder.name for folder in folders), wanted)
    for folder in folders:
        try:
            manipulation = read_manipulation(folder, trains=not settings.detector)
            _check_single(manipulation)
            if around is not None:
                manipulation = around_actions(manipulation, around)
            stages = Stages(manipulation, Path(out), settings, progress or (lambda *_: None))
            done.detectors[folder.name] = stages.detector_row()
        except (StorageError, MemoryLackError):  # of this machine, and not of the manipulation
            raise
        except ObjectStatesError as problem:
            done.failures[folder.name, None] = str(problem)
            continue
        done.notes.extend(stages.notes)
        for method in wanted:
            try:
                done.scores[folder.name, method] = stages.scores(method)
            except ObjectStatesError as problem:
                done.failures[folder.name, method] = str(problem)
    if not done.scores:
        reasons = dict.fromkeys(f"{name}: {why}" for (name, _), why in done.failures.items())
        raise BenchmarkError(f"nothing could be computed; {'; '.join(reasons)}")
    return done


def _check_single(manipulation: Manipulation) -> None:
    """The methods of the paper's tables find one action."""
    for clip, truth in manipulation.truth.items():
        if len(truth.actions) > 1:
            raise BenchmarkError(
                f"{clip} has a chain of {len(truth.actions)} actions, and this benchmark compares "
                "methods for a single one: use `python -m benchmarks.chains`"
            )


def _select_folders(
    folders: Sequence[ManipulationFolder], tasks: Sequence[str], data: str | Path
) -> list[ManipulationFolder]:
    names = [folder.name for folder in folders]
    unknown = [task for task in tasks if task not in names]
    if unknown:
        raise BenchmarkError(f"`tasks`: {data} has no {unknown[0]!r}; there are {', '.join(names)}")
    return [folder for folder in folders if not tasks or folder.name in tasks]
