"""The authors' release as a whole: features, metadata and images of its actions.

Files are found by their names, at most `DEPTH` folders deep::

    features_<action>.mat                        features, see ``authors.py``
    <action>.mat, or with meta in its name       metadata, see ``authors_metadata.py``
    <action>/<action>_0012/000001.jpg            images of clip 12

With metadata a corpus has the clips' names, true intervals and boxes of tracklets, and tells
ambiguous tracklets from false positives. With images it also has the videos: then times are
seconds from the first image of each clip, else they are those of the files. Distances in time are
the same in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.errors import CorpusError
from objectstates.data.clips import TrackletLabel
from objectstates.data.corpus import UNKNOWN, Array, Corpus
from objectstates.data.corpus_tables import offsets_of
from objectstates.data.formats.authors import read_authors
from objectstates.data.formats.authors_metadata import Metadata, read_metadata

DEPTH = 3
ACTIONS = {
    "put_wheel": "wheel",
    "withdraw_wheel": "wheel",
    "place_plant": "flower pot",
    "open_oyster": "oyster",
    "pour_coffee": "coffee cup",
    "open_fridge": "fridge",
    "close_fridge": "fridge",
}
"""The object of each action, in the order of the columns of the paper's Table 1."""

_META = re.compile(r"^meta_?(?:data)?_|_meta_?(?:data)?$")
_CLIP = re.compile(r".+_\d+")
_SAME_TIME = 0.02  # seconds, half a frame; times of both files may be rounded


@dataclass(frozen=True)
class ReleaseFiles:
    """Where the parts of one action are; None for what is not there.

    images : the folder that holds one folder of images per clip.
    """

    action: str
    features: Path | None = None
    metadata: Path | None = None
    images: Path | None = None


def find_release(data: str | Path, images: str | Path | None = None) -> dict[str, ReleaseFiles]:
    """The actions of a release, in the order of the paper's columns.

    data : a folder, or one ``features_<action>.mat``; then metadata and images are looked for
        beside it and one folder above.
    images : where the images are, unless in ``data`` too.
    """
    data = Path(data)
    if not data.exists():
        raise CorpusError(f"{data} does not exist")
    if images is not None and not Path(images).is_dir():
        raise CorpusError(f"`videos`: {images} is not a folder: check the path")
    if data.is_dir():
        files, folders = _listed({data: DEPTH})
        features = _features(files)
    else:
        features = {action_of(data): data}
        own = data.resolve().parent
        above = {} if own.parent == Path(own.anchor) else {own.parent: 1}
        files, folders = _listed({own: 2, **above})
    if images is not None:
        folders = _listed({Path(images): DEPTH})[1]
    metadata = _metadata(files, features)
    found = {
        action: ReleaseFiles(
            action, features.get(action), metadata.get(action), _images(action, folders)
        )
        for action in in_order([*features, *metadata])
    }
    if not found:
        raise CorpusError(f"{data} has no features_<action>.mat: is the release unpacked there?")
    return found


def action_of(features: Path) -> str:
    """The action of a file of features, by its name."""
    return features.stem.removeprefix("features_")


def in_order(actions: Iterable[str]) -> list[str]:
    """The paper's actions in its order, then all others."""
    known, names = list(ACTIONS), list(dict.fromkeys(actions))
    return sorted(names, key=lambda name: known.index(name) if name in known else len(known))


def read_release(files: ReleaseFiles | str | Path) -> Corpus:
    """The features of an action with all that metadata and images add.

    files : of the action; or the path of its features, beside which the others are looked for.
    """
    if not isinstance(files, ReleaseFiles):
        files = next(iter(find_release(files).values()))
    if files.features is None:
        raise CorpusError(f"features_{files.action}.mat is missing")
    corpus = read_authors(files.features)
    if files.metadata is None:
        return corpus
    metadata = read_metadata(files.metadata)
    try:
        return with_metadata(corpus, metadata, clip_images(metadata, files.images), files.action)
    except CorpusError as problem:
        raise CorpusError(f"{files.features} and {files.metadata}: {problem}") from None


# --- features and metadata as one corpus --------------------------------------------------------


@dataclass(frozen=True)
class ClipImages:
    """The folder of a clip's images, and the number of the first."""

    folder: Path
    first: int


def clip_images(metadata: Metadata, folder: Path | None) -> dict[str, ClipImages]:
    """The images of the clips that have any, by name of the clip."""
    found = {}
    for clip in metadata.clips:
        place = None if folder is None else folder / clip
        if place is not None and place.is_dir():
            numbers = [int(image.stem) for image in place.glob("*.jpg") if image.stem.isdecimal()]
            if numbers:
                found[clip] = ClipImages(place, min(numbers))
    return found


def with_metadata(
    corpus: Corpus,
    metadata: Metadata,
    images: Mapping[str, ClipImages] | None = None,
    action: str = "",
) -> Corpus:
    """The corpus of features with the names, intervals, boxes and labels of the metadata.

    Where the true intervals of a clip have not the order of ``ptrs_tracks``, those that realise it
    stay, because it is the constraint of the authors' problem; ``info["intervals_rebuilt"]`` names
    such clips.
    """
    images = images or {}
    _check_same(corpus, metadata)
    firsts = [images[clip].first if clip in images else 0 for clip in metadata.clips]
    shift = np.array(firsts) / metadata.rates  # seconds
    tracklets, chunks = corpus.tracklets, corpus.chunks
    owner, chunk_owner = (
        np.repeat(np.arange(len(corpus)), np.diff(table.offsets)) for table in (tracklets, chunks)
    )
    start, end = _intervals(metadata.tracklet_frames, metadata.rates[owner])
    rebuilt = []
    for n, clip in enumerate(metadata.clips):
        rows = list(corpus.tracklet_rows(n))
        given = tracklets.start[rows], tracklets.end[rows]
        if not _same_order(given, (start[rows], end[rows])):
            start[rows], end[rows] = given
            rebuilt.append(clip)
    chunk_start, chunk_end = _intervals(metadata.chunk_frames, metadata.rates[chunk_owner])
    info = {
        **corpus.info,
        "metadata": metadata.path.name,
        **({"object": ACTIONS[action]} if action in ACTIONS else {}),
        **({"intervals_rebuilt": rebuilt} if rebuilt else {}),
        "image_fps": dict(zip(metadata.clips, metadata.rates.tolist(), strict=True)),
    }
    return replace(
        corpus,
        clip_ids=metadata.clips,
        videos=tuple(str(images[c].folder) if c in images else None for c in metadata.clips),
        info=info,
        tracklets=replace(
            tracklets,
            start=start - shift[owner],
            end=end - shift[owner],
            time=tracklets.time - shift[owner],
            label=_labels(tracklets.label, metadata.tracklet_label),
            **_boxes(metadata, owner, shift),
        ),
        chunks=replace(
            chunks,
            start=np.minimum(chunk_start, chunks.time) - shift[chunk_owner],
            end=np.maximum(chunk_end, chunks.time) - shift[chunk_owner],
            time=chunks.time - shift[chunk_owner],
            label=metadata.chunk_label,
        ),
    )


def _check_same(corpus: Corpus, metadata: Metadata) -> None:
    """Raise unless both are about the same clips, tracklets and chunks."""
    for name, offsets, time, table in (
        ("tracklets", metadata.tracklet_offsets, metadata.tracklet_time, corpus.tracklets),
        ("chunks", metadata.chunk_offsets, metadata.chunk_time, corpus.chunks),
    ):
        if not np.array_equal(offsets, table.offsets):
            raise CorpusError(
                f"the metadata has {len(offsets) - 1} clips with {offsets[-1]} {name}, the "
                f"features have {len(corpus)} with {table.offsets[-1]}, or others per clip: give "
                "those of the same action"
            )
        apart = np.abs(time - table.time)
        if len(apart) and apart.max() > _SAME_TIME:
            raise CorpusError(
                f"the times of {name} differ by up to {apart.max():.2f} s between metadata and "
                "features: give those of the same action"
            )


def _labels(of_features: Array, of_metadata: Array) -> Array:
    """The labels of the metadata, which must agree with the features' where these are states."""
    states = np.where(of_metadata == TrackletLabel.AMBIGUOUS, 0, of_metadata)
    wrong = (of_features != UNKNOWN) & (of_features != states)
    if wrong.any():
        raise CorpusError(
            f"state_GT and Y_GT disagree about {wrong.sum()} of {len(wrong)} tracklets: give the "
            "metadata of the same action"
        )
    return of_metadata


def _intervals(frames: tuple[Array, ...], rates: Array) -> tuple[Array, Array]:
    """Half-open intervals of frames, in seconds; a frame lasts until the next."""
    first = np.array([numbers[0] for numbers in frames], np.float64)
    last = np.array([numbers[-1] for numbers in frames], np.float64)
    return first / rates, (last + 1) / rates


def _same_order(given: tuple[Array, Array], true: tuple[Array, Array]) -> bool:
    """Whether the same pairs of intervals overlap, and rows stay sorted by start."""
    before, now = (end[:, None] <= start[None] + 1e-9 for start, end in (given, true))
    return bool(np.array_equal(before, now) and (np.diff(true[0]) >= 0).all())


def _boxes(metadata: Metadata, owner: Array, shift: Array) -> dict[str, Any]:
    """The columns of boxes: ``time, x1, y1, x2, y2``."""
    parts = [np.empty((0, 5))]
    pairs = zip(metadata.tracklet_frames, metadata.boxes, strict=True)
    for n, (frames, boxes) in zip(owner, pairs, strict=True):
        time = frames / metadata.rates[n] - shift[n]
        parts.append(np.column_stack([time, boxes]))
    counts = [len(boxes) for boxes in metadata.boxes]
    return {"boxes": np.concatenate(parts), "box_offsets": offsets_of(counts)}


# --- files --------------------------------------------------------------------------------------


def _listed(roots: Mapping[Path, int]) -> tuple[list[Path], list[Path]]:
    """The ``.mat`` files and the folders below each root, to the depth that is given for it.

    Folders of images are not opened.
    """
    files: list[Path] = []
    folders: list[Path] = []
    for root, depth in roots.items():
        for path in _walk(root, depth):
            (folders if path.is_dir() else files).append(path)
    return files, folders


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    yield folder
    try:
        entries = sorted(path for path in folder.iterdir() if path.name[0] != ".")
    except OSError:
        return  # not ours to read
    for path in entries:
        if path.suffix.lower() == ".mat":
            yield path
        elif depth and path.is_dir() and not _CLIP.fullmatch(path.name):
            yield from _walk(path, depth - 1)


def _features(files: Iterable[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in files:
        action = action_of(path)
        if not path.stem.startswith("features_"):
            continue
        if action in found:
            raise CorpusError(
                f"both {found[action]} and {path} are about {action}: give the folder of one"
            )
        found[action] = path
    return found


def _metadata(files: Iterable[Path], features: Mapping[str, Path]) -> dict[str, Path]:
    """Files named after a known action, or with meta in their names."""
    found: dict[str, Path] = {}
    for path in files:
        action = _META.sub("", path.stem)
        known = action != path.stem or action in features or action in ACTIONS
        if known and not path.stem.startswith("features_"):
            found.setdefault(action, path)
    return found


def _images(action: str, folders: Iterable[Path]) -> Path | None:
    """The folder that holds the clips of an action."""
    for folder in folders:
        for place in (folder / action, folder):
            if place.is_dir() and next(place.glob(f"{action}_[0-9]*"), None) is not None:
                return place
    return None
