"""Retrieve clips in which an action is mentioned (section 5.3 and appendix A of the paper).

A scorer scores every window of ten words. A video's best window gives a clip, and the clips with
the highest scores are kept. People usually speak before they act, so a clip extends from 5 s before
to 15 s after the mention.
"""

from __future__ import annotations

import csv
import heapq
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt

from objectstates.base.csv_cells import escaped
from objectstates.base.errors import NarrationError, SettingError
from objectstates.base.file_names import printable_name
from objectstates.base.storage import write_atomically
from objectstates.narration.subtitles import NarrationReader
from objectstates.narration.transcript import Narration
from objectstates.narration.windows import Scorer, Windows
from objectstates.parallel.pool import run_all
from objectstates.parallel.tasks import Tick

Mask = npt.NDArray[np.bool_]

_FILES_PER_TASK = 64  # amortises the overhead of a task; its results are small


@dataclass(frozen=True, slots=True, eq=False)
class Retrieved:
    """A retrieved clip.

    start, end : seconds of the video.
    time : seconds; when the action is mentioned.
    first, last : the best window, ``narration.words[first:last]``.
    """

    narration: Narration = field(repr=False)
    start: float
    end: float
    score: float
    time: float
    first: int
    last: int

    @property
    def said(self) -> str:
        return " ".join(self.narration.words[self.first : self.last])


@dataclass(frozen=True, eq=False)
class Search:
    """Settings of a retrieval.

    top : number of clips. ``per_video`` : clips of one video, at most, which do not overlap; the
        paper's is one. Of several narrations of a video, the one with the best window counts.
    before, after : seconds of a clip before and after the mention.
    """

    scorer: Scorer
    top: int = 20
    per_video: int = 1
    before: float = 5.0
    after: float = 15.0

    def __post_init__(self) -> None:
        if self.top < 1 or self.per_video < 1:
            raise SettingError(
                f"`top`={self.top} and `per_video`={self.per_video} must be at least 1"
            )
        before, after = self.before, self.after
        if not (before >= 0 and after >= 0 and before + after > 0):
            raise SettingError(f"`before`={before} and `after`={after} must be seconds, not both 0")

    def best(self, narration: Narration) -> list[Retrieved]:
        """The best non-overlapping clips of one narration, by score.

        A window may span a long silence, so the mention is one of its words: that with the highest
        mean score of the windows around it; of several, the middle one.
        """
        windows, before, after = self.scorer.score(narration), self.before, self.after
        middles, heat = narration.times.mean(1), windows.word_means(len(narration))
        scores = windows.scores.copy()
        found: list[Retrieved] = []
        while len(found) < self.per_video and scores.size:
            best = int(np.argmax(scores))
            if scores[best] == -np.inf:
                break
            first = int(windows.starts[best])
            last = first + windows.length
            hottest = np.flatnonzero(heat[first:last] >= heat[first:last].max() - 1e-12)
            time = float(middles[first + hottest[len(hottest) // 2]])
            start, end = max(0.0, time - before), time + after
            found.append(Retrieved(narration, start, end, float(scores[best]), time, first, last))
            near = (middles > time - before - after) & (middles < time + before + after)
            near[first:last] = True
            scores[_containing(windows, near)] = -np.inf
        return found


def _containing(windows: Windows, words: Mask) -> Mask:
    """(k,) the windows that contain any of the words that a mask (n,) marks."""
    before = np.concatenate([[0], words.cumsum()])
    return np.asarray(before[windows.starts + windows.length] > before[windows.starts])


class Ranking:
    """The best ``top`` videos so far, each with its clips.

    Merging the rankings of parts, in order, gives the ranking of the whole.
    """

    def __init__(self, top: int) -> None:
        self._top, self._order = top, count()
        self._heap: list[tuple[float, int, list[Retrieved]]] = []
        self._kept: dict[str, float] = {}

    def add(self, found: list[Retrieved]) -> None:
        """Add the clips of one narration, sorted by score."""
        if not found:
            return
        identity, score = found[0].narration.identity, found[0].score
        if score <= self._kept.get(identity, -np.inf):
            return
        if identity in self._kept:
            others = [item for item in self._heap if item[2][0].narration.identity != identity]
            self._heap = others
            heapq.heapify(self._heap)
        self._kept[identity] = score
        heapq.heappush(self._heap, (score, -next(self._order), found))
        if len(self._heap) > self._top:
            heapq.heappop(self._heap)

    def videos(self) -> list[list[Retrieved]]:
        """The clips of each video, in the order in which they were added."""
        return [found for _, _, found in sorted(self._heap, key=lambda item: -item[1])]

    def clips(self) -> list[Retrieved]:
        """The best clips by score; on ties, those of the better video, then of the earlier."""
        ranked = sorted(self._heap, key=lambda item: (-item[0], -item[1]))
        clips = [clip for _, _, found in ranked for clip in found]
        return sorted(clips, key=lambda clip: -clip.score)[: self._top]


def retrieve(
    narrations: Iterable[Narration],
    scorer: Scorer,
    *,
    top: int = 20,
    per_video: int = 1,
    before: float = 5.0,
    after: float = 15.0,
) -> list[Retrieved]:
    """The best clips of all narrations, by score; the settings are those of `Search`."""
    search = Search(scorer, top, per_video, before, after)
    ranking = Ranking(top)
    for narration in narrations:
        ranking.add(search.best(narration))
    return ranking.clips()


def retrieve_from_files(
    files: Sequence[Path],
    search: Search,
    *,
    videos: Path | None = None,
    processes: int = 1,
    ray_address: str | None = None,
) -> tuple[list[Retrieved], list[str]]:
    """The same from subtitle files, in parallel; also messages about files that were left out.

    Workers return clips without words, so memory does not grow with the number of files; the few
    files of the best clips are then read again.

    videos : folder of the videos that are not beside their subtitles.
    ray_address : of a Ray cluster to run on, whose machines can all read the files.
    """
    outcomes = run_all(
        partial(_FileSearch, search, videos),
        [files[i : i + _FILES_PER_TASK] for i in range(0, len(files), _FILES_PER_TASK)],
        processes=processes,
        ray_address=ray_address,
    )
    ranking, problems, paths = Ranking(search.top), list[str](), dict[Narration, Path]()
    for outcome in outcomes:
        if outcome.value is None:
            raise NarrationError(f"narrations could not be searched: {outcome.failure}")
        videos_of_task, problems_of_task = outcome.value
        problems += problems_of_task
        for path, found in videos_of_task:
            ranking.add(found)
            paths[found[0].narration] = path
    clips, reader = ranking.clips(), NarrationReader(videos)
    needed = dict.fromkeys(paths[clip.narration] for clip in clips)
    narrations = {path: reader.read(path) for path in needed}
    return [replace(clip, narration=narrations[paths[clip.narration]]) for clip in clips], problems


class _FileSearch:
    """Worker of `retrieve_from_files`: files with their clips, and messages about the others."""

    def __init__(self, search: Search, videos: Path | None) -> None:
        self._search, self._reader = search, NarrationReader(videos)

    def __call__(
        self, files: Sequence[Path], tick: Tick
    ) -> tuple[list[tuple[Path, list[Retrieved]]], list[str]]:
        ranking, problems, paths = Ranking(self._search.top), list[str](), dict[Narration, Path]()
        for path in files:
            try:
                narration = self._reader.read(path)
            except NarrationError as problem:
                problems.append(str(problem))
                continue
            found = self._search.best(narration)
            without_words = replace(narration, words=(), times=np.empty((0, 2)))
            ranking.add([replace(clip, narration=without_words) for clip in found])
            paths[without_words] = path
            tick(1)
        return [(paths[found[0].narration], found) for found in ranking.videos()], problems


LIST_HEADER = b"video,start,end,id,score\n"


def write_clips(path: Path, clips: Sequence[Retrieved]) -> None:
    """Write a CSV list as `clip_list.find_clips` reads it; videos are relative to the list."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    buffer.write(LIST_HEADER.decode())
    taken: set[str] = set()
    folder = os.path.abspath(path.parent)
    for clip in clips:
        video, name = clip.narration.video, clip.narration.name
        place = printable_name(os.path.relpath(os.path.abspath(video), folder)) if video else name
        ids = (name if n == 1 else f"{name}-{n}" for n in count(1))
        unique = next(candidate for candidate in ids if candidate not in taken)
        taken.add(unique)
        times = f"{clip.start:.3f}", f"{clip.end:.3f}"
        row = (escaped(place), *times, escaped(unique), f"{clip.score:.6g}")
        writer.writerow(row)
    write_atomically(path, buffer.getvalue())
