"""Which manipulations there are to compare methods on, and which of their clips are for what.

A folder of data has one folder per manipulation, each with videos and ``<clip>.json`` beside them;
or videos in folders and one ``annotations.json`` about all of them (`objectstates.data.truth` reads
both). A folder that holds such videos itself is one manipulation.

Clips that ``train.txt`` in a manipulation's folder names train its detector, or else the first
six; the others are judged. By-hand annotations have too few boxes for that, so there nothing is
trained on unless ``train.txt`` says so. ``crops.json`` (``{clip: [first, last]}``, frames counted
from 0, the last left out) tells the part of a clip that is judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from objectstates.base.errors import BenchmarkError, VideoError
from objectstates.data.truth import ClipTruth, read_truth
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import VIDEO_SUFFIXES, probe

TRAIN_CLIPS = 6
"""That many, the first, train the detector where no list says otherwise."""
AVERAGE = "average"
"""What tables call the mean over manipulations; none may be called so."""

Crops = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Manipulation:
    """The clips of one manipulation.

    train : whole videos; ``test`` are what is judged, cropped if so wished.
    truth : of all of them, by the clip's id.
    notes : what was left out, for whoever reads the table.
    """

    name: str
    train: tuple[ClipSpan, ...]
    test: tuple[ClipSpan, ...]
    truth: Mapping[str, ClipTruth]
    notes: tuple[str, ...] = ()

    def known(self, clips: Iterable[ClipSpan]) -> list[tuple[ClipSpan, ClipTruth]]:
        """Clips with what is true of them."""
        return [(clip, self.truth[clip.id]) for clip in clips]


@dataclass(frozen=True, eq=False)
class Place:
    """Where a manipulation lies; nothing is read yet, so that a damaged one spoils no other.

    annotations : the file about several folders, where truth is not beside the videos; ``entry``
        is the folder's name in it.
    """

    name: str
    folder: Path
    annotations: Path | None = None
    entry: str = ""
    crops: Crops = field(default_factory=dict)


def find_manipulations(data: str | Path, *, crops: bool = True) -> list[Place]:
    """The manipulations in a folder, in order of their names; see the module's head."""
    data = Path(data)
    if not data.is_dir():
        raise BenchmarkError(f"{data} is no folder: give the one with a folder per manipulation")
    name = data.resolve().name
    if (data / "annotations.json").is_file():
        annotations = data / "annotations.json"
        folders = sorted({str(PurePosixPath(clip).parent) for clip in read_truth(annotations)})
        spans = _read_crops(data) if crops else {}
        places = [
            Place(name if folder == "." else folder, data / folder, annotations, folder, spans)
            for folder in folders
        ]
    elif _videos(data):
        near = data if (data / "crops.json").exists() else data.resolve().parent
        places = [Place(name, data, crops=_read_crops(near) if crops else {})]
    else:
        spans = _read_crops(data) if crops else {}
        folders = sorted(p.name for p in data.iterdir() if p.is_dir() and p.name[0] != ".")
        places = [Place(folder, data / folder, crops=spans) for folder in folders]
    if not places:
        raise BenchmarkError(
            f"{data} has no manipulations: put the videos of each, with <clip>.json beside "
            "<clip>.mp4, into a folder of its own"
        )
    if any(place.name == AVERAGE for place in places):
        raise BenchmarkError(f"{data}/{AVERAGE} bears the name of the last rows: rename the folder")
    return places


def read_manipulation(place: Place) -> Manipulation:
    """The clips of a manipulation that have videos and truth, divided into train and test."""
    videos = _videos(place.folder)
    if not videos:
        raise BenchmarkError(f"{place.folder} has no videos: put <clip>.mp4 beside <clip>.json")
    truth = _truth_of(place, videos)
    train = _train_clips(place, truth)
    test = sorted(truth.keys() - {*train})
    if not test:
        raise BenchmarkError(
            f"{place.folder}: all {len(truth)} clips are for training, none is left to judge: name "
            "fewer in train.txt"
        )
    lacking = sorted(videos.keys() - truth.keys())
    notes = [f"{place.name}: {clip} is left out, nothing is known of it" for clip in lacking]
    return Manipulation(
        place.name,
        tuple(ClipSpan(clip, videos[clip]) for clip in train),
        tuple(_cropped(ClipSpan(clip, videos[clip]), place.crops) for clip in test),
        truth,
        tuple(notes),
    )


def _videos(folder: Path) -> dict[str, Path]:
    """The videos of a folder by name, not of its folders."""
    try:
        paths = sorted(folder.iterdir())
    except OSError as problem:
        raise BenchmarkError(f"{folder} cannot be read: {problem.strerror}") from problem
    return {
        path.stem: path
        for path in paths
        if path.suffix.lower() in VIDEO_SUFFIXES and path.is_file() and path.name[0] != "."
    }


def _truth_of(place: Place, videos: Mapping[str, Path]) -> dict[str, ClipTruth]:
    """What is true of the videos, by their names."""
    found = read_truth(place.annotations or place.folder)
    prefix = f"{place.entry}/" if place.entry not in ("", ".") else ""
    known = {clip: found[prefix + clip] for clip in videos if prefix + clip in found}
    if not known:
        raise BenchmarkError(
            f"{place.folder}: nothing is known of its {len(videos)} videos: put <clip>.json beside "
            "<clip>.mp4"
        )
    return known


def _train_clips(place: Place, truth: Mapping[str, ClipTruth]) -> list[str]:
    """The clips that ``train.txt`` names, one a line, with or without suffix; or the first."""
    path = place.folder / "train.txt"
    if not path.exists():
        return [] if place.annotations else sorted(truth)[:TRAIN_CLIPS]
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
    """The spans to judge, in frames; none without the file."""
    path = folder / "crops.json"
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        crops = {str(clip): (int(first), int(last)) for clip, (first, last) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as problem:
        raise BenchmarkError(
            f"{path} must be {{clip: [first, last]}} in frames ({problem}): correct it, or pass "
            "--no-crops"
        ) from problem
    for clip, (first, last) in crops.items():
        if not 0 <= first < last:
            raise BenchmarkError(
                f"{path}: the span {first} to {last} of {clip} is empty: correct it, or pass "
                "--no-crops"
            )
    return crops


def _cropped(clip: ClipSpan, crops: Crops) -> ClipSpan:
    """The part that is judged, in seconds of the video."""
    if clip.id not in crops:
        return clip
    try:
        rate = probe(clip.video).fps
    except VideoError:
        return clip  # reading it will tell what is wrong
    first, last = crops[clip.id]
    return ClipSpan(clip.id, clip.video, first / rate, last / rate)
