"""Bags of words of all channels of dense trajectories, for the supervised row E (2) of the paper.

The clips' videos are read anew. Every channel has a codebook of its own, and a chunk one bag per
channel, over the same window as the paper's chunk features. Descriptors stay on disk, in files that
are removed at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.errors import CorpusError
from objectstates.base.storage import scratch_folder
from objectstates.data.corpus import Array, Corpus
from objectstates.features.chunks import WINDOW_SECONDS, chunk_windows
from objectstates.features.codebook import (
    DescriptorSample,
    learn_codebook,
    merge_samples,
    sample_descriptors,
)
from objectstates.features.flow import FlowEstimator
from objectstates.features.trajectory_channels import CHANNELS, ChannelRows, TrajectoryChannels
from objectstates.track.klt import is_cut
from objectstates.video.reader import read_frames

WORDS = 1000  # of each channel; the paper does not give their number
FPS = 25.0  # at which trajectories of 15 frames last 0.6 s
MAX_SIDE = 320  # pixels
SCRATCH = "objectstates-trajectories"  # name of folders in the system's temporary one


def trajectory_bags(corpus: Corpus, *, seed: int = 0) -> Array:
    """(T, 5 x `WORDS` at most) the bags of every chunk of the corpus, channels side by side."""
    missing = [
        clip for clip, video in zip(corpus.clip_ids, corpus.videos, strict=True) if not video
    ]
    if missing:
        raise CorpusError(
            f"dense trajectories need the clips' videos: {len(missing)} of {len(corpus)} have none"
        )
    with scratch_folder(Path(gettempdir()), SCRATCH) as folder:
        files = [folder / f"{n}.npz" for n in range(len(corpus))]
        for n, path in enumerate(files):
            _write(path, list(_trajectories(corpus, n)))
        return np.concatenate(
            [_channel_bags(corpus, files, channel, seed) for channel in CHANNELS], axis=1
        )


def _trajectories(corpus: Corpus, n: int) -> Iterator[ChannelRows]:
    """The trajectories of a clip, step by step."""
    video, span = corpus.videos[n] or "", corpus.spans[n] or (None, None)
    flow, channels = FlowEstimator(max_side=MAX_SIDE), TrajectoryChannels()
    before: npt.NDArray[np.uint8] | None = None
    rate = corpus.image_fps(video)
    with read_frames(video, *span, fps=FPS, max_side=MAX_SIDE, image_fps=rate) as frames:
        for frame in frames:
            gray = np.asarray(cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY), np.uint8)
            if before is not None and is_cut(before, gray):
                flow.reset()
            step = flow.update(frame.time, gray)
            if step is not None and before is not None:
                yield channels.update(step, before)
            before = gray


def _write(path: Path, rows: list[ChannelRows]) -> None:
    found = [row for row in rows if len(row)]
    times = np.repeat([row.time for row in found], [len(row) for row in found])
    arrays: dict[str, Any] = {
        name: np.concatenate(
            [np.empty((0, size), np.float16), *(row.channels[name] for row in found)]
        ).astype(np.float16)
        for name, size in CHANNELS.items()
    }
    np.savez(path, time=times.astype(np.float64), **arrays)


def _channel_bags(corpus: Corpus, files: list[Path], channel: str, seed: int) -> Array:
    size = CHANNELS[channel]
    sample = DescriptorSample(np.empty(0, np.uint64), np.empty((0, size), np.float32))
    for clip, path in zip(corpus.clip_ids, files, strict=True):
        piece = sample_descriptors(clip, _read(path, channel), seed=seed)
        sample = merge_samples([sample, piece])
    codebook = learn_codebook(sample, WORDS, seed=seed)
    bags = []
    for n, path in enumerate(files):
        rows, times = list(corpus.chunk_rows(n)), _read(path, "time", np.float64)
        spans = np.stack([corpus.chunks.start[rows], corpus.chunks.end[rows]], axis=1)
        order = np.argsort(times, kind="stable")
        words = codebook.words(_read(path, channel)[order])
        windows = chunk_windows(times[order], spans, window=WINDOW_SECONDS)
        bags.append(np.stack([codebook.histogram(words[a:b]) for a, b in windows]))
    return np.concatenate(bags)


def _read(path: Path, name: str, dtype: type = np.float32) -> Array:
    with np.load(path) as file:
        return np.asarray(file[name], dtype)
