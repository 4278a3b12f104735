"""The manipulations of a data folder, and their train and test clips.

A data folder has one folder per manipulation, each with videos and ``<clip>.json`` beside them; or
folders of videos and one ``annotations.json`` about all of them; ``data/formats/truth_files.py``
reads both. A folder that holds such videos itself is one manipulation.

The detector is trained on the clips that ``train.txt`` in a manipulation's folder names, by default
the first six; the others are test clips. With a detector that is given, all are test clips unless
``train.txt`` names some. Annotations by hand have too few boxes to train on, so
with them there are no train clips by default. ``crops.json`` (``{clip: [first, last]}``, frames
counted from 0, half-open) restricts test clips to a part of their video.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from objectstates.base.errors import BenchmarkError, VideoError
from objectstates.data.formats.truth_files import read_truth
from objectstates.data.truth import ClipTruth
from objectstates.video.clip_list import ClipSpan
from objectstates.video.clips_around import clips_around
from objectstates.video.reader import VIDEO_SUFFIXES, probe

TRAIN_CLIPS = 6
"""Number of train clips without ``train.txt``; at 8 frames each they give 48 labelled frames."""
AVERAGE = "average"
"""Name of the mean over manipulations in tables; no manipulation may have it."""

Crops = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Manipulation:
    """The clips of one manipulation.

    train : whole videos. ``test``: the clips to evaluate, cropped if there are crops.
    truth : of all of them, by clip id.
    notes : what was left out.
    """

    name: str
    train: tuple[ClipSpan, ...]
    test: tuple[ClipSpan, ...]
    truth: Mapping[str, ClipTruth]
    notes: tuple[str, ...] = ()

    def with_truth(self, clips: Iterable[ClipSpan]) -> list[tuple[ClipSpan, ClipTruth]]:
        """Clips with their truth."""
        return [(clip, self.truth[clip.id]) for clip in clips]


@dataclass(frozen=True, eq=False)
class ManipulationFolder:
    """The folder of a manipulation, not read yet, so that errors in it affect no other.

    annotations : the file about several folders, if truth is not beside the videos; ``entry`` is
        the folder's name in it.
    """

    name: str
    folder: Path
    annotations: Path | None = None
    entry: str = ""
    crops: Crops = field(default_factory=dict)


def around_actions(manipulation: Manipulation, seconds: float) -> Manipulation:
    """The same manipulation with test clips of ``seconds`` before and after their actions.

    As in section 5.2 of the paper. A clip stays within the span that it has already; a clip with a
    chain of actions is cut around all of them.
    """
    whole = {
        clip: ((known[0][0], known[-1][1]),)
        for clip, truth in manipulation.truth.items()
        if (known := [action for action in truth.actions if action is not None])
    }
    return replace(manipulation, test=tuple(clips_around(manipulation.test, whole, seconds)))


def find_manipulations(data: str | Path, *, crops: bool = True) -> list[ManipulationFolder]:
    """The manipulations in a data folder, sorted by name."""
    data = Path(data)
    if not data.is_dir():
        raise BenchmarkError(f"{data} is no folder: give the one with a folder per manipulation")
    name = data.resolve().name
    spans = _read_crops(data) if crops else {}
    if (data / "annotations.json").is_file():
        annotations = data / "annotations.json"
        folders = sorted({str(PurePosixPath(clip).parent) for clip in read_truth(annotations)})
        found = [
            ManipulationFolder(
                name if folder == "." else folder, data / folder, annotations, folder, spans
            )
            for folder in folders
        ]
    elif _videos(data):
        if crops and not (data / "crops.json").exists():
            spans = _read_crops(data.resolve().parent)
        found = [ManipulationFolder(name, data, crops=spans)]
    else:
        folders = sorted(p.name for p in data.iterdir() if p.is_dir() and p.name[0] != ".")
        found = [ManipulationFolder(folder, data / folder, crops=spans) for folder in folders]
    if not found:
        raise BenchmarkError(
            f"{data} has no manipulations: put the videos of each, with <clip>.json beside "
            "<clip>.mp4, into a folder of its own"
        )
    if any(folder.name == AVERAGE for folder in found):
        raise BenchmarkError(f"{data}/{AVERAGE} has the name of the tables' last rows: rename it")
    return found


def read_manipulation(
    where: ManipulationFolder,
    train_on: ManipulationFolder | None = None,
    *,
    trains: bool = True,
) -> Manipulation:
    """The clips of a manipulation that have videos and truth, divided into train and test.

    trains : whether a detector is trained; if not, there are no train clips but those that
        ``train.txt`` names, on which the given detector may have been trained.
    train_on : a folder whose clips are all for training, named ``train/<clip>``; then all of
        ``where`` are test clips.
    """
    videos = _videos(where.folder)
    if not videos:
        raise BenchmarkError(f"{where.folder} has no videos: put <clip>.mp4 beside <clip>.json")
    truth = _truth_of(where, videos)
    train = _train_clips(where, truth, trains) if train_on is None else []
    test = sorted(truth.keys() - {*train})
    if not test:
        raise BenchmarkError(
            f"{where.folder}: all {len(truth)} clips are for training, none is left to test: name "
            "fewer in train.txt"
        )
    lacking = sorted(videos.keys() - truth.keys())
    notes = [f"{where.name}: {clip} is left out: it has no truth" for clip in lacking]
    spans = tuple(ClipSpan(clip, videos[clip]) for clip in train)
    if train_on is not None:
        others = _videos(train_on.folder)
        known = _truth_of(train_on, others)
        spans = tuple(ClipSpan(f"train/{clip}", others[clip]) for clip in sorted(known))
        truth |= {f"train/{clip}": of_clip for clip, of_clip in known.items()}
    return Manipulation(
        where.name,
        spans,
        tuple(_cropped(ClipSpan(clip, videos[clip]), where.crops) for clip in test),
        truth,
        tuple(notes),
    )


def _videos(folder: Path) -> dict[str, Path]:
    """The videos of a folder by name, without those of its subfolders."""
    try:
        paths = sorted(folder.iterdir())
    except OSError as problem:
        raise BenchmarkError(f"{folder} cannot be read: {problem.strerror}") from problem
    return {
        path.stem: path
        for path in paths
        if path.suffix.lower() in VIDEO_SUFFIXES and path.is_file() and path.name[0] != "."
    }


def _truth_of(where: ManipulationFolder, videos: Mapping[str, Path]) -> dict[str, ClipTruth]:
    """The truth of the videos, by their names."""
    found = read_truth(where.annotations or where.folder)
    prefix = f"{where.entry}/" if where.entry not in ("", ".") else ""
    known = {clip: found[prefix + clip] for clip in videos if prefix + clip in found}
    if not known:
        raise BenchmarkError(
            f"{where.folder}: none of its {len(videos)} videos has truth: put <clip>.json beside "
            "<clip>.mp4"
        )
    return known


def _train_clips(
    where: ManipulationFolder, truth: Mapping[str, ClipTruth], trains: bool
) -> list[str]:
    """The clips in ``train.txt``, one per line, with or without suffix; by default the first."""
    path = where.folder / "train.txt"
    if not path.exists():
        return [] if where.annotations or not trains else sorted(truth)[:TRAIN_CLIPS]
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise BenchmarkError(f"{path} cannot be read: {problem}") from problem
    names = []
    for number, line in enumerate(lines, start=1):
        name = line.strip()
        if not name or name.startswith("#"):
            continue
        if name not in truth:
            name = name.removesuffix(PurePosixPath(name).suffix)
        if name not in truth:
            raise BenchmarkError(
                f"{path}, line {number}: {line.strip()!r} has no video with truth in this folder: "
                "correct the name"
            )
        names.append(name)
    return list(dict.fromkeys(names))


def _read_crops(folder: Path) -> Crops:
    """The spans of test clips in frames; empty without the file."""
    path = folder / "crops.json"
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        crops = {str(clip): (int(first), int(last)) for clip, (first, last) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as problem:
        raise BenchmarkError(
            f"{path} must be {{clip: [first, last]}} in frames ({problem}): correct it, or disable "
            "`crops`"
        ) from problem
    for clip, (first, last) in crops.items():
        if not 0 <= first < last:
            raise BenchmarkError(
                f"{path}: the span {first} to {last} of {clip} is empty: correct it, or disable "
                "`crops`"
            )
    return crops


def _cropped(clip: ClipSpan, crops: Crops) -> ClipSpan:
    """The clip restricted to its span in ``crops.json``, in seconds of the video."""
    if clip.id not in crops:
        return clip
    try:
        rate = probe(clip.video).fps
    except VideoError:
        return clip  # ingest will report the error
    first, last = crops[clip.id]
    return ClipSpan(clip.id, clip.video, first / rate, last / rate)
