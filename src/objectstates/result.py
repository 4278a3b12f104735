"""What a discovery found, in memory and on disk.

A result is a folder::

    result.json         format version, settings, versions, objective, certificate, skipped clips
    clips.parquet       clip, action_chunk (index within the clip), action_time (s), action_score
    tracklets.parquet   clip, tracklet (index within the clip), start, end, state, score_1, score_2
    classifiers.npz     the learned classifiers, absent sides left out; no pickle

Clips that were left out have no rows; ``result.json`` names them and says why.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.errors import ResultError
from objectstates.storage import Artefact

ARTEFACT = Artefact(
    header="result.json",
    version=1,
    files=frozenset({"clips.parquet", "tracklets.parquet", "classifiers.npz"}),
    error=ResultError,
)
_STATES = {"state": 2, "action": 1}  # columns of each classifier

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SkippedClip:
    """A clip that was left out, and why."""

    clip: str
    reason: str


@dataclass(frozen=True, eq=False)
class Classifier:
    """Linear scores X W + b of one side. ``n_rows`` is how many rows it was learned on."""

    weights: Array  # (d, K)
    bias: Array  # (K,)
    n_rows: int

    def scores(self, features: Array) -> Array:
        """(M, K) scores of features (M, d), in float64."""
        scores = np.empty((len(features), len(self.bias)))
        for first in range(0, len(features), 1024):  # widened in pieces, to need little memory
            rows = slice(first, first + 1024)
            scores[rows] = features[rows].astype(np.float64) @ self.weights + self.bias
        return scores


@dataclass(frozen=True, eq=False)
class Result:
    """Per clip the action's time, per tracklet its state, and how they came about.

    Columns have one entry per clip that took part (N) and one per tracklet of those clips (M).
    ``action_chunk`` is -1 and ``action_time`` NaN where only states were sought.
    """

    clips: tuple[str, ...]
    action_chunk: Array
    action_time: Array
    action_score: Array
    tracklet_clip: Array  # (M,) index into ``clips``
    tracklet_index: Array  # (M,) index within the clip, in corpus order
    tracklet_start: Array
    tracklet_end: Array
    state: Array  # (M,) 0, 1 or 2
    state_scores: Array  # (M, 2)
    classifiers: dict[str, Classifier]  # "state", "action"
    settings: dict[str, Any]
    summary: dict[str, Any]
    skipped: tuple[SkippedClip, ...] = field(default=())

    def save(self, path: str | Path) -> None:
        """Write the result as a folder; an earlier result there is replaced as a whole."""
        with ARTEFACT.writing(path) as folder:
            header = {
                "settings": self.settings,
                **self.summary,
                "skipped": [{"clip": s.clip, "reason": s.reason} for s in self.skipped],
            }
            ARTEFACT.write_header(folder, header)
            pq.write_table(self._clip_table(), folder / "clips.parquet")
            pq.write_table(self._tracklet_table(), folder / "tracklets.parquet")
            arrays = {
                f"{side}_{name}": value
                for side, classifier in self.classifiers.items()
                for name, value in vars(classifier).items()
            }
            np.savez(folder / "classifiers.npz", **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a result folder."""
        folder = Path(path)
        header = ARTEFACT.read_header(folder)
        try:
            clips = pq.read_table(folder / "clips.parquet")
            tracklets = pq.read_table(folder / "tracklets.parquet")
            classifiers = _read_classifiers(folder / "classifiers.npz")
            return cls._from_tables(header, clips, tracklets, classifiers)
        except (
            OSError, EOFError, KeyError, ValueError, TypeError, AttributeError,
            NotImplementedError, zipfile.BadZipFile, pa.ArrowException,
        ) as problem:  # fmt: skip
            raise ResultError(f"{folder} is not a whole result ({problem}): fit again") from problem

    @classmethod
    def _from_tables(
        cls,
        header: dict[str, Any],
        clips: pa.Table,
        tracklets: pa.Table,
        classifiers: dict[str, Classifier],
    ) -> Result:
        ids = clips["clip"].to_pylist()
        position = {clip: n for n, clip in enumerate(ids)}
        header.pop("format_version")
        return cls(
            clips=tuple(ids),
            action_chunk=_column(clips, "action_chunk", -1).astype(np.int64),
            action_time=_column(clips, "action_time", np.nan),
            action_score=_column(clips, "action_score", np.nan),
            tracklet_clip=np.array([position[c] for c in tracklets["clip"].to_pylist()], np.int64),
            tracklet_index=_column(tracklets, "tracklet", -1).astype(np.int64),
            tracklet_start=_column(tracklets, "start", np.nan),
            tracklet_end=_column(tracklets, "end", np.nan),
            state=_column(tracklets, "state", 0).astype(np.int8),
            state_scores=np.stack(
                [_column(tracklets, name, np.nan) for name in ("score_1", "score_2")], axis=1
            ),
            classifiers=classifiers,
            settings=header.pop("settings"),
            skipped=tuple(SkippedClip(**s) for s in header.pop("skipped")),
            summary=header,
        )

    def _clip_table(self) -> pa.Table:
        none = self.action_chunk < 0
        return pa.table(
            {
                "clip": pa.array(self.clips, pa.string()),
                "action_chunk": pa.array(self.action_chunk, pa.int32(), mask=none),
                "action_time": pa.array(self.action_time, pa.float64(), mask=none),
                "action_score": pa.array(self.action_score, pa.float64(), mask=none),
            }
        )

    def _tracklet_table(self) -> pa.Table:
        names = [self.clips[n] for n in self.tracklet_clip]
        none = np.isnan(self.state_scores)
        return pa.table(
            {
                "clip": pa.array(names, pa.string()),
                "tracklet": pa.array(self.tracklet_index, pa.int32()),
                "start": pa.array(self.tracklet_start, pa.float64()),
                "end": pa.array(self.tracklet_end, pa.float64()),
                "state": pa.array(self.state, pa.int8()),
                "score_1": pa.array(self.state_scores[:, 0], pa.float64(), mask=none[:, 0]),
                "score_2": pa.array(self.state_scores[:, 1], pa.float64(), mask=none[:, 1]),
            }
        )


def _column(table: pa.Table, name: str, missing: float) -> Array:
    return np.asarray(table[name].cast(pa.float64()).fill_null(missing).to_numpy(), np.float64)


def _read_classifiers(path: Path) -> dict[str, Classifier]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        classifiers = {
            side: Classifier(
                arrays[f"{side}_weights"], arrays[f"{side}_bias"], int(arrays[f"{side}_n_rows"])
            )
            for side in ("action", "state")
            if f"{side}_weights" in arrays
        }
    for side, classifier in classifiers.items():
        weights, bias, n_states = classifier.weights, classifier.bias, _STATES[side]
        shaped = weights.ndim == 2 and weights.shape[1] == n_states and bias.shape == (n_states,)
        if not shaped or not (np.isfinite(weights).all() and np.isfinite(bias).all()):
            raise ValueError(f"the {side} classifier is damaged")
    return classifiers
