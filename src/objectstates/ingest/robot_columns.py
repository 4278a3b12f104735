"""Further columns of chunks of robot datasets: other cameras, and the robot's own signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import DatasetError, SettingError
from objectstates.features.signal_columns import SignalScale, learn_scale
from objectstates.ingest.stored_observation import StoredObservation
from objectstates.robots.lerobot_dataset import LeRobotDataset, read_dataset
from objectstates.robots.signals import (
    EpisodeSignals,
    chosen_signals,
    gripper_components,
    read_signals,
)
from objectstates.video.clip_list import ClipSpan, RecordedEpisode

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

LEARNED_FROM = 200  # episodes at most, evenly spaced: enough for percentiles


def dataset_of(clips: Sequence[ClipSpan]) -> LeRobotDataset | None:
    """The dataset that all clips are episodes of; None if they are not."""
    roots = {None if clip.episode is None else clip.episode.dataset for clip in clips}
    root = roots.pop() if len(roots) == 1 else None
    return None if root is None else read_dataset(root)


def dataset_facts(clips: Sequence[ClipSpan], dataset: LeRobotDataset) -> dict[str, Any]:
    """What a corpus says about the dataset it was made from."""
    recorded = _recorded(clips[0])
    cameras = [recorded.camera, *(_recorded(view).camera for view in recorded.views)]
    return {
        "path": str(dataset.root.resolve()),
        "version": dataset.version,
        "fps": dataset.fps,
        "cameras": cameras,
    }


def view_rows(part: StoredObservation, view: StoredObservation) -> npt.NDArray[np.int64]:
    """(T,) which chunk of a view belongs to each chunk of the clip's first camera.

    Chunks are matched by time in the episode. Both begin with the episode, so they are the same,
    unless a video ends early.
    """
    chunks, others = (
        observed.chunk_span - _recorded(observed.clip).span.start for observed in (part, view)
    )
    nearest = np.searchsorted(others[:, 1], chunks.mean(axis=1), side="right")
    return np.asarray(np.minimum(nearest, len(others) - 1))


class SignalColumns:
    """The columns of the robot's signals for the chunks of a corpus.

    setting : "auto", "none" or keys of features, see `chosen_signals`.
    window : seconds over which signals are averaged for a chunk.
    like : the scale of another corpus; None to learn one.
    problems : episodes without signals; their columns are 0, which is the mean.
    """

    def __init__(
        self,
        stored: Sequence[StoredObservation],
        dataset: LeRobotDataset | None,
        setting: str,
        *,
        window: float,
        like: SignalScale | None = None,
    ) -> None:
        self.problems: list[str] = []
        self.scale: SignalScale | None = None
        self._window = window
        if dataset is None:
            if setting not in ("auto", "none"):
                raise SettingError(f"`signals`: only LeRobot datasets have {setting}")
            return
        self.keys = chosen_signals(dataset, setting)
        if not self.keys:
            return
        self.scale = like or self._learn(stored, gripper_components(dataset, self.keys))
        sizes = [sum(dataset.signals[key] for key in self.keys), *map(len, self._levels())]
        if len(set(sizes)) > 1:
            raise SettingError(
                f"`like`: the corpus was made with {sizes[1]} components of signals, but "
                f"{dataset.root} has {sizes[0]}"
            )

    @property
    def size(self) -> int:
        return 0 if self.scale is None else self.scale.size

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {} if self.scale is None else self.scale.arrays()

    def of(self, part: StoredObservation) -> Floats32:
        """(T, size) of a clip."""
        chunks = _chunks(part)
        signals = None if self.scale is None else self._read(part)
        if self.scale is None or signals is None:
            return np.zeros((len(chunks), self.size), np.float32)
        return self.scale.columns(signals, chunks, window=self._window)

    def _levels(self) -> list[Floats]:
        return [] if self.scale is None else [self.scale.low]

    def _learn(
        self, stored: Sequence[StoredObservation], gripper: npt.NDArray[np.bool_]
    ) -> SignalScale | None:
        some = stored[:: -(-len(stored) // LEARNED_FROM)]
        read = [(self._read(part), _chunks(part)) for part in some]
        self.problems.clear()  # `of` reports them again, and those of all episodes
        known = [(signals, chunks) for signals, chunks in read if signals is not None]
        if not known:
            self.problems.append(f"no signals: none of {len(some)} episodes has {self.keys}")
            return None
        signals, chunks = zip(*known, strict=True)
        return learn_scale(signals, chunks, gripper, window=self._window)

    def _read(self, part: StoredObservation) -> EpisodeSignals | None:
        try:
            return read_signals(_recorded(part.clip), self.keys)
        except DatasetError as problem:
            self.problems.append(f"{part.clip.id}: no signals: {problem}")
            return None


def _chunks(part: StoredObservation) -> Floats:
    """(T, 2) in seconds of the episode."""
    start = 0.0 if part.clip.origin is None else part.clip.origin
    return np.asarray(part.chunk_span - start)


def _recorded(clip: ClipSpan) -> RecordedEpisode:
    assert clip.episode is not None
    return clip.episode
