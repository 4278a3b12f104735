"""Search the narrations in files, in one process or in many, on one machine or on a cluster.

Files are searched some at a time; each part's best clips come back without their words, so that
what is held stays small however many files there are, and the few that were found are read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from objectstates.base.errors import NarrationError
from objectstates.narration.retrieval import Ranking, Retrieved, Search
from objectstates.narration.subtitles import Reader
from objectstates.narration.transcript import Narration
from objectstates.parallel.pool import run_all
from objectstates.parallel.tasks import Outcome, Tick

FILES_AT_A_TIME = 64


@dataclass(frozen=True, eq=False)
class _Part:
    """What is in some of the files: the clips of each video, and what could not be read."""

    videos: list[tuple[Path, list[Retrieved]]]
    problems: list[str]


def search_files(
    files: Sequence[Path],
    search: Search,
    *,
    videos: Path | None = None,
    processes: int = 1,
    ray_address: str | None = None,
) -> tuple[list[Retrieved], list[str]]:
    """The best clips, as `retrieve` finds them, and what was left out and why.

    videos : folder to look for the videos in that are not beside their narrations.
    ray_address : of a Ray cluster to run on; all its machines must see the files.
    """
    outcomes = run_all(
        partial(_Searcher, search, videos),
        [files[i : i + FILES_AT_A_TIME] for i in range(0, len(files), FILES_AT_A_TIME)],
        processes=processes,
        ray_address=ray_address,
    )
    ranking, problems, place = Ranking(search.top), list[str](), dict[Narration, Path]()
    for outcome in outcomes:
        part = _value(outcome)
        problems += part.problems
        for path, found in part.videos:
            ranking.add(found)
            place[found[0].narration] = path
    clips, reader = ranking.clips(), Reader(videos)
    read: dict[Path, Narration] = {}
    for clip in clips:
        path = place[clip.narration]
        if path not in read:
            read[path] = reader.read(path)
    whole = [replace(clip, narration=read[place[clip.narration]]) for clip in clips]
    return whole, problems


def _value(outcome: Outcome[_Part]) -> _Part:
    if outcome.value is None:
        raise NarrationError(f"narrations could not be searched: {outcome.failure}")
    return outcome.value


class _Searcher:
    """One process's search."""

    def __init__(self, search: Search, videos: Path | None) -> None:
        self._search, self._reader = search, Reader(videos)

    def __call__(self, files: Sequence[Path], tick: Tick) -> _Part:
        ranking, problems, place = Ranking(self._search.top), list[str](), dict[Narration, Path]()
        for path in files:
            try:
                narration = self._reader.read(path)
            except NarrationError as problem:
                problems.append(str(problem))
                continue
            found = self._search.best(narration)
            light = replace(narration, words=(), times=np.empty((0, 2)))
            ranking.add([replace(clip, narration=light) for clip in found])
            place[light] = path
            tick(1)
        kept = [(place[found[0].narration], found) for found in ranking.videos()]
        return _Part(kept, problems)
