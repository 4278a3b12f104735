"""Find the clips to read: video files, folders of them, and CSV lists of spans."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path

from objectstates.base.csv_cells import restored
from objectstates.base.errors import VideoError
from objectstates.base.file_names import existing_path, printable_name
from objectstates.data.clips import EpisodeSpan
from objectstates.video.image_folder import image_series
from objectstates.video.source import IMAGE_SUFFIXES, VIDEO_SUFFIXES, as_video_error

COLUMNS = ("video", "start", "end", "id")
IGNORED_COLUMNS = ("score",)
"""Columns that `narration.retrieval.write_clips` adds."""


@dataclass(frozen=True, slots=True)
class ClipSpan:
    """A clip to read: ``[start, end)`` of a video in seconds; None is the video's own bound.

    episode : the recorded episode that it shows, if it is of a robot dataset.
    image_fps : frame rate of a folder of images, if it has one of its own.
    """

    id: str
    video: Path
    start: float | None = None
    end: float | None = None
    episode: RecordedEpisode | None = None
    image_fps: float | None = None

    @property
    def origin(self) -> float | None:
        """Seconds of the video at which an episode starts; None for other clips.

        From there frames are sampled, so that they do not depend on the file that it is in.
        """
        return None if self.episode is None else self.episode.span.start


@dataclass(frozen=True, slots=True)
class RecordedEpisode:
    """An episode of a robot dataset, as one camera shows it (``robots/lerobot_dataset.py``).

    dataset : its folder. ``camera`` : the key of the video.
    span : its number, and where it starts in the video.
    length : number of frames, as the dataset says; 0 if it does not.
    record : the Parquet file with a row per frame, also of other episodes.
    views : the same episode by further cameras.
    """

    dataset: Path
    camera: str
    span: EpisodeSpan
    length: int
    record: Path
    views: tuple[ClipSpan, ...] = ()


def find_clips(paths: Iterable[str | Path] = (), csv: str | Path | None = None) -> list[ClipSpan]:
    """List the clips in files, folders and CSV lists; the same input gives the same clips.

    paths : video files; folders, searched recursively in order of name; or CSV lists. A folder of
        numbered images without videos is one video. Hidden names and links to folders are ignored.
    csv : a CSV file with a header and the columns video, start, end, id, all but the first
        optional; videos are relative to the list, times in seconds.

    Unreadable files are listed too, and so is all that a list names: the error is raised when the
    clip is read, so one bad video does not stop the others. An id is the video's name; with its
    folder's name in front if two videos share it, and a number for further clips of a video.
    """
    spans: list[ClipSpan] = []
    seen = set()
    for path in map(Path, paths):
        if path.suffix.lower() == ".csv":
            spans += _listed_clips(path)
            continue
        for video in _find_videos(path):
            place = os.path.abspath(video)
            if place not in seen:
                seen.add(place)
                spans.append(ClipSpan("", video))
    if csv is not None:
        spans += _listed_clips(Path(csv))
    return _with_unique_ids(spans)


def _find_videos(path: Path) -> list[Path]:
    with as_video_error(path):
        path.stat()
    if not os.path.isdir(path):
        return [path]
    found = list(_walk(path))
    if not found:
        raise VideoError(
            f"{path}: there are no videos and no numbered images in this folder; "
            f"known suffixes are {' '.join(VIDEO_SUFFIXES + IMAGE_SUFFIXES)}"
        )
    return found


def _walk(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        yield folder  # the error is raised when it is read
        return
    files = [name for name in names if not os.path.isdir(folder / name)]
    videos = {name for name in files if name.lower().endswith(VIDEO_SUFFIXES)}
    if not videos and len(image_series(files)) > 1:
        yield folder
    for name in names:
        path = folder / name
        if name in videos:
            yield path
        elif os.path.isdir(path) and not os.path.islink(path):
            yield from _walk(path)


def _listed_clips(path: Path) -> list[ClipSpan]:
    """Read a CSV list; clips without an id get the empty string."""
    (line, header), *rows = _rows(path) or [(1, [])]
    header = [name.lower() for name in header]
    known = {*header} <= {*COLUMNS, *IGNORED_COLUMNS}
    if "video" not in header or len(set(header)) < len(header) or not known:
        raise VideoError(
            f"{path}, line {line}: the header must be {','.join(COLUMNS)}, of which all but video "
            f"may be left out, not {','.join(header)!r}"
        )
    if not rows:
        raise VideoError(f"{path}: this lists no clips; add a line for each below the header")
    spans = []
    lines: dict[str, int] = {}
    for line, cells in rows:
        try:
            span = _listed_clip(path.parent, header, cells)
            if span.id and lines.setdefault(span.id, line) != line:
                raise ValueError(f"the id {span.id!r} is already used in line {lines[span.id]}")
        except ValueError as error:
            raise VideoError(f"{path}, line {line}: {error}; correct this line") from error
        spans.append(span)
    return spans


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """Line number and cells of every row that is not empty."""
    with as_video_error(path):
        data = path.read_bytes()
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        rows = [(reader.line_num, [restored(cell.strip()) for cell in row]) for row in reader]
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise VideoError(f"{path}, line {line}: not in UTF-8; save the list as UTF-8") from error
    except csv.Error as error:
        raise VideoError(f"{path}, line {reader.line_num}: {error}; correct this line") from error
    return [row for row in rows if any(row[1])]


def _listed_clip(folder: Path, header: list[str], cells: list[str]) -> ClipSpan:
    if len(cells) > len(header):
        raise ValueError(
            f"{len(cells)} cells under {len(header)} columns (a comma in a name needs quotes)"
        )
    row = dict.fromkeys(COLUMNS, "") | dict(zip(header, cells, strict=False))
    if not row["video"]:
        raise ValueError("the video is missing")
    start, end = _time(row, "start"), _time(row, "end")
    if end is not None and (start or 0.0) >= end:
        raise ValueError(f"the span from {start or 0:g} to {end:g} s is empty")
    return ClipSpan(row["id"], existing_path(folder / row["video"]), start, end)


def _time(row: dict[str, str], column: str) -> float | None:
    if not row[column]:
        return None
    try:
        time = float(row[column])
    except ValueError:
        time = math.nan
    if not 0 <= time < math.inf:
        raise ValueError(f"{column} is {row[column]!r}, not a number of seconds")
    return time


def _with_unique_ids(spans: list[ClipSpan]) -> list[ClipSpan]:
    given = [span.id for span in spans if span.id]
    taken = set(given)
    if len(taken) < len(given):
        duplicate = next(id for id in given if given.count(id) > 1)
        raise VideoError(f"the id {duplicate!r} is given to two clips; give each an id of its own")
    videos: dict[str, set[Path]] = {}
    for span in spans:
        videos.setdefault(_name(span.video), set()).add(span.video)
    ids = []
    for span in spans:
        name = span.id or _name(span.video)
        if not span.id:
            if len(videos[name]) > 1:
                folder = Path(os.path.abspath(span.video)).parent.name
                name = f"{printable_name(folder)}_{name}"
            candidates = chain([name], (f"{name}-{n}" for n in count(2)))
            name = next(id for id in candidates if id not in taken)
            taken.add(name)
        ids.append(name)
    return [replace(span, id=id) for span, id in zip(spans, ids, strict=True)]


def _name(video: Path) -> str:
    path = Path(os.path.abspath(video))
    return printable_name(path.name if os.path.isdir(path) else path.stem)
