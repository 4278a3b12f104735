"""Results on films of the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import av
import numpy as np

from objectstates import Corpus, Result
from objectstates.data.actions import Actions


def result_on(
    films: Sequence[tuple[str, Path, float, tuple[float, float]]],
    spans: Sequence[tuple[float, float] | None] | None = None,
    info: Mapping[str, object] | None = None,
) -> Result:
    """A result on clips ``(name, video, seconds, action)``."""
    counts, starts, ends = [], [], []
    for k, (_, _, seconds, _) in enumerate(films):
        span = spans[k] if spans else None
        edges = np.linspace(*(span or (0.0, seconds)), 11)
        counts.append(10)
        starts += edges[:-1].tolist()
        ends += edges[1:].tolist()
    corpus = Corpus.from_arrays(
        clip_ids=[name for name, *_ in films],
        videos=[str(video) for _, video, *_ in films],
        tracklets_per_clip=[0] * len(films),
        tracklet_start=[],
        tracklet_end=[],
        tracklet_features=np.empty((0, 1)),
        chunks_per_clip=counts,
        chunk_start=starts,
        chunk_end=ends,
        chunk_features=np.zeros((len(starts), 1)),
        info=dict(info or {}),
    )
    if spans:
        object.__setattr__(corpus, "spans", tuple(spans))
    action = np.array([action for *_, action in films], float).reshape(-1, 2)
    return Result(
        corpus=corpus.without_features(),
        actions=Actions.single(
            np.full(len(films), 5),
            action.mean(axis=1),
            action,
            np.zeros(len(starts)),
        ),
        state=np.zeros(0, np.int8),
        state_scores=np.zeros((0, 2)),
        classifiers={},
        settings={},
        summary={},
    )


def stored_frames(path: Path) -> list[np.ndarray]:
    """What a decoder yields, all planes in a row without conversion of pixels, by PyAV alone."""
    with av.open(str(path)) as container:
        return [_pixels(frame) for frame in container.decode(video=0)]


def luma(path: Path) -> list[np.ndarray]:
    """The first plane of every frame."""
    with av.open(str(path)) as container:
        return [_plane(frame.planes[0], 1) for frame in container.decode(video=0)]


def _pixels(frame: av.VideoFrame) -> np.ndarray:
    sizes = {"yuv420p10le": 2, "bgr0": 4}
    planes = [_plane(plane, sizes.get(frame.format.name, 1)) for plane in frame.planes]
    return np.concatenate([plane.ravel() for plane in planes])


def _plane(plane: av.video.plane.VideoPlane, size: int) -> np.ndarray:
    rows: np.ndarray = np.frombuffer(memoryview(plane), np.uint8).reshape(
        plane.height, plane.line_size
    )
    return rows[:, : size * plane.width]


def sound_of(path: Path) -> np.ndarray:
    """All samples of the sound, decoded by PyAV alone."""
    with av.open(str(path)) as container:
        parts = [frame.to_ndarray() for frame in container.decode(audio=0)]
    return np.concatenate(parts, axis=1) if parts else np.zeros((1, 0))


def audio_packets(path: Path) -> list[bytes]:
    """The compressed sound, packet by packet."""
    with av.open(str(path)) as container:
        return [bytes(packet) for packet in container.demux(audio=0) if packet.size]
