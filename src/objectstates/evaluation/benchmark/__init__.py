"""The paper's comparison from end to end: from videos whose truth is known to a table.

Per manipulation a detector is learned from a few train clips, the test clips become a corpus, and
every method is judged on it by the truth. What fails is named, and the others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from objectstates.base.errors import BenchmarkError, ObjectStatesError
from objectstates.evaluation import Evaluation
from objectstates.evaluation.benchmark.manipulations import (
    Place,
    find_manipulations,
    read_manipulation,
)
from objectstates.evaluation.benchmark.stages import (
    BenchmarkSettings,
    DetectorRow,
    Stages,
    Watch,
    wanted_methods,
)

__all__ = ["Benchmark", "BenchmarkSettings", "DetectorRow", "run_benchmark"]


@dataclass(frozen=True)
class Benchmark:
    """What became of every manipulation and method.

    scores : by manipulation and method; ``detectors`` by manipulation.
    failures : why one is missing, by manipulation and method, or None for all of its methods.
    notes : what was left out of the data.
    """

    manipulations: tuple[str, ...]
    methods: tuple[str, ...]
    scores: dict[tuple[str, str], Evaluation] = field(default_factory=dict)
    detectors: dict[str, DetectorRow] = field(default_factory=dict)
    failures: dict[tuple[str, str | None], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def parts(self, *methods: str) -> dict[str, tuple[Evaluation, ...]]:
        """The scores of methods, by the manipulations of which all of them have some."""
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
    watch: Watch | None = None,
) -> Benchmark:
    """Compare methods on the manipulations in ``data``; ``out`` is where stages are kept.

    tasks, methods : those wanted, by name; all unless given.
    crops : use the spans of ``crops.json``, where there is one.
    watch : told the manipulation, what is done with it, and how far that is.
    """
    settings = settings or BenchmarkSettings()
    wanted = wanted_methods(methods)
    places = _wanted_places(find_manipulations(data, crops=crops), tasks, data)
    done = Benchmark(tuple(place.name for place in places), wanted)
    for place in places:
        try:
            stages = Stages(
                read_manipulation(place), Path(out), settings, watch or (lambda *_: None)
            )
            done.detectors[place.name] = stages.detector_row()
        except ObjectStatesError as problem:
            done.failures[place.name, None] = str(problem)
            continue
        done.notes.extend(stages.notes)
        for method in wanted:
            try:
                done.scores[place.name, method] = stages.scores(method)
            except ObjectStatesError as problem:
                done.failures[place.name, method] = str(problem)
    if not done.scores:
        reasons = dict.fromkeys(f"{name}: {why}" for (name, _), why in done.failures.items())
        raise BenchmarkError(f"nothing could be computed; {'; '.join(reasons)}")
    return done


def _wanted_places(places: Sequence[Place], tasks: Sequence[str], data: str | Path) -> list[Place]:
    names = [place.name for place in places]
    unknown = [task for task in tasks if task not in names]
    if unknown:
        raise BenchmarkError(f"{data} has no {unknown[0]!r}; there are {', '.join(names)}")
    return [place for place in places if not tasks or place.name in tasks]
