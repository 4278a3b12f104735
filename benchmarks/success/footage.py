"""Episodes that reach state 2, and the same episodes made to fail.

A *source* is the clips of one manipulation with their true actions (``benchmarks.trust.footage``).
Each of its clips is ingested whole, and again as a failed episode:

- ``cut``: the clip ends `MARGIN` before the action begins;
- ``aborted``: the same film, then its last `BACK` seconds backwards: the hand reaches for the
  object and withdraws. Simulated clips only: there nothing else moves.

Failed episodes are ingested with the lengths of tracklets and chunks of the whole ones, as they
would be among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import av

from benchmarks.trust.footage import Source
from objectstates.data.corpus import Corpus
from objectstates.ingest.pipeline import IngestSettings, ingest_to
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Image, read_frames

MARGIN = 0.1  # seconds before the action
SHORTEST = 1.2  # seconds of a failed episode
BACK = 2.5  # seconds that are played backwards
KINDS = ("cut", "aborted")


@dataclass(frozen=True, eq=False)
class Episodes:
    """A manipulation: its clips, and failed episodes by kind; their ids are ``<clip>+<kind>``."""

    name: str
    whole: Corpus
    failed: dict[str, Corpus]


class Footage:
    """Ingests sources into ``out``, each corpus once.

    cache : of ingest; by default within ``out``.
    """

    def __init__(self, out: Path, processes: int, cache: Path | None = None) -> None:
        self._out, self._processes, self._cache = out, processes, cache or out / "cache"

    def episodes(self, source: Source, kinds: Sequence[str] = KINDS) -> Episodes:
        """The clips, and failed ones of the kinds that the source allows."""
        whole = self._corpus(f"{source.name}/whole", source.clips, None)
        assert whole is not None
        failed = {
            kind: corpus
            for kind in kinds
            if (kind == "cut" or source.gripper is not None)
            and (corpus := self._failed(source, kind, whole)) is not None
        }
        return Episodes(source.name, whole, failed)

    def _failed(self, source: Source, kind: str, like: Corpus) -> Corpus | None:
        clips = list(without_action(source, kind))
        if kind == "aborted":
            clips = [self._turned_back(clip) for clip in clips]
        return self._corpus(f"{source.name}/{kind}", clips, like)

    def _corpus(self, name: str, clips: Sequence[ClipSpan], like: Corpus | None) -> Corpus | None:
        path = self._out / "corpora" / name
        if not path.exists():
            if not clips:
                return None
            ingest_to(
                path,
                clips,
                IngestSettings() if like is None else like_settings(like),
                cache=self._cache,
                processes=self._processes,
            )
        return Corpus.load(path)

    def _turned_back(self, clip: ClipSpan) -> ClipSpan:
        path = self._out / "films" / f"{clip.id.replace('/', '_')}.mp4"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with read_frames(clip.video, clip.start, clip.end) as reading:
                rate, images = round(reading.info.fps), [frame.image for frame in reading]
            back = images[-1 : -round(BACK * rate) - 1 : -1]
            _write_film(path, [*images, *back], rate)
        return ClipSpan(clip.id, path)


def without_action(source: Source, kind: str) -> Iterator[ClipSpan]:
    """The clips up to the action, those that are long enough."""
    for clip in source.clips:
        start, end = clip.start or 0.0, source.truth[clip.id].action[0] - MARGIN
        if end - start >= SHORTEST:
            yield ClipSpan(f"{clip.id}+{kind}", clip.video, start, end)


def like_settings(corpus: Corpus) -> IngestSettings:
    """Settings for clips that are to be among those of the corpus."""
    made = corpus.info["ingest"]
    return IngestSettings(
        tracklet_seconds=made["tracklet_seconds"], chunk_seconds=made["chunk_seconds"]
    )


def _write_film(path: Path, images: Sequence[Image], rate: int) -> None:
    temporary = path.with_suffix(".part.mp4")
    with av.open(str(temporary), "w") as film:
        stream = film.add_stream("libx264", rate=rate, options={"crf": "18"})
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for image in images:
            film.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        film.mux(stream.encode())
    temporary.replace(path)
