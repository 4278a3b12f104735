"""The result of a discovery, in memory and on disk.

A result is a folder::

    result.json         format version, settings, versions, objective, certificate, skipped clips
    actions.parquet     clip, action (1, 2, ...), chunk (index within the clip), time, start, end
                        (s), score, confidence: a row per action that a clip has
    clips.parquet       clip, action_chunk (index within the clip), action_time, action_start,
                        action_end (s), action_score, confidence; action_confidence,
                        state_1_confidence, state_2_confidence: the chance that each is right;
                        reached_chance, reached: whether the clip ends in state 2;
                        of robot datasets also episode, episode_start (s of the video), and
                        action_time_in_episode, action_start_in_episode, action_end_in_episode (s)
    tracklets.parquet   clip, tracklet (index within the clip), start, end, state, score_1, score_2
    chunks.parquet      clip, chunk (index within the clip), start, end, action, score, progress
    classifiers.npz     the learned classifiers, absent sides left out; no pickle
    progress.npz        the learned model of progress, if there is one; no pickle
    corpus/             the clips that took part, without features: videos, boxes, annotations

In a chain of changes the columns of ``clips.parquet`` that begin with ``action`` are those of
``actions.parquet`` alone, but for the confidences (``action_1_confidence``, ...); tracklets have
``score_3`` and so on, and chunks ``score_1``, ``score_2`` and so on, one per action.
A report or an export needs nothing else. Clips that were left out have no rows; ``result.json``
names them with the reason, and also the outlier clips, which have rows but were not learned from.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.base.checksums import check_file, checked_header, file_checksum, with_checksums
from objectstates.base.errors import (
    CorpusError,
    CorrectionError,
    MissingExtraError,
    ResultError,
    SettingError,
)
from objectstates.base.storage import Artefact
from objectstates.data.corpus import Corpus
from objectstates.data.corrections import corrections_from_json
from objectstates.data.label_names import LabelNames
from objectstates.data.progress import ProgressModel
from objectstates.data.result_columns import (
    Classifier,
    ResultColumns,
    SkippedClip,
    action_labels,
)
from objectstates.data.result_summary import check_summary
from objectstates.data.result_tables import (
    action_table,
    actions_of_clips,
    check_rows,
    chunk_table,
    clip_table,
    column,
    confidence_columns,
    optional_column,
    read_actions,
    read_classifiers,
    read_confidences,
    tracklet_table,
)
from objectstates.data.verdict import Verdict

if TYPE_CHECKING:
    import pandas

__all__ = [
    "ARTEFACT",
    "Classifier",
    "Result",
    "SkippedClip",
    "action_labels",
    "confidence_columns",
]

ARTEFACT = Artefact(
    header="result.json",
    version=3,
    oldest=2,  # which has no actions.parquet
    files=frozenset(
        {
            *("clips.parquet", "actions.parquet", "tracklets.parquet", "chunks.parquet"),
            *("classifiers.npz", "progress.npz", "corpus"),
        }
    ),
    error=ResultError,
)


@dataclass(frozen=True, eq=False, repr=False)
class Result(ResultColumns):
    """The action time of each clip, the state of each tracklet, scores and classifiers.

    >>> from objectstates import JointDiscovery
    >>> from objectstates.data.synthetic import synthetic_corpus
    >>> result = JointDiscovery().fit(synthetic_corpus(n_clips=8)).result_
    >>> result  # doctest: +ELLIPSIS
    Result of 8 clips, ... tracklets, ... chunks
      state 1: ... tracklets, state 2: ... tracklets, action in 8 clips
      ...
    """

    def to_frame(self) -> pandas.DataFrame:
        """One row per clip: action time, start and end in seconds, score, confidence.

        Needs the extra ``pandas``; the columns are those of ``clips.parquet``.
        """
        return _frame(clip_table(self))

    def tracklets_frame(self) -> pandas.DataFrame:
        """One row per tracklet: clip, index within it, start and end in seconds, state, scores.

        Needs the extra ``pandas``; the columns are those of ``tracklets.parquet``.
        """
        return _frame(tracklet_table(self))

    def actions_frame(self) -> pandas.DataFrame:
        """One row per action that a clip has: its number, time, start and end in seconds, score.

        Needs the extra ``pandas``; the columns are those of ``actions.parquet``.
        """
        return _frame(action_table(self))

    def save(self, path: str | Path) -> None:
        """Write the result as a folder; replace an earlier result there."""
        with ARTEFACT.writing(path) as folder:
            header = {
                "settings": self.settings,
                **self.summary,
                "skipped": [asdict(clip) for clip in self.skipped],
                "set_aside": [asdict(clip) for clip in self.set_aside],
            }
            if self.corrections:
                header["corrections"] = [row.to_json() for row in self.corrections]
            if self.names != LabelNames():
                header["names"] = self.names.to_json()
            if self.verdict is not None:
                header["verdict"] = self.verdict.to_json()
            pq.write_table(clip_table(self), folder / "clips.parquet")
            pq.write_table(action_table(self), folder / "actions.parquet")
            pq.write_table(tracklet_table(self), folder / "tracklets.parquet")
            pq.write_table(chunk_table(self), folder / "chunks.parquet")
            arrays = {
                f"{side}_{name}": value
                for side, classifier in self.classifiers.items()
                for name, value in vars(classifier).items()
            }
            np.savez(folder / "classifiers.npz", **arrays)
            if self.progress_model is not None:
                self.progress_model.save(folder / "progress.npz")
            checksums = {path.name: file_checksum(path) for path in sorted(folder.iterdir())}
            facts = with_checksums(ARTEFACT.version, header, checksums, ResultError)
            ARTEFACT.write_header(folder, facts)
            self.corpus.save(folder / "corpus")

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a result folder."""
        folder = Path(path)
        stored = ARTEFACT.read_header(folder)
        header, checksums = checked_header(folder / ARTEFACT.header, stored, ResultError)
        for name in ARTEFACT.files - {"corpus"}:
            check_file(folder / name, checksums.get(name), ResultError)
        version = header.pop("format_version")
        try:
            clips = pq.read_table(folder / "clips.parquet")
            tracklets = pq.read_table(folder / "tracklets.parquet")
            chunks = pq.read_table(folder / "chunks.parquet")
            corpus = Corpus.load(folder / "corpus")
            if version == 2:
                actions = actions_of_clips(clips, chunks)
            else:
                actions = read_actions(pq.read_table(folder / "actions.parquet"), corpus, chunks)
            scores = [column(tracklets, f"score_{k + 1}", np.nan) for k in range(len(actions) + 1)]
            result = cls(
                corpus=corpus,
                actions=actions,
                state=column(tracklets, "state", 0).astype(np.int8),
                state_scores=np.stack(scores, axis=1),
                classifiers=read_classifiers(folder / "classifiers.npz"),
                settings=header.pop("settings"),
                skipped=_read_skipped(header.pop("skipped")),
                set_aside=_read_skipped(header.pop("set_aside", [])),
                verdict=_read_verdict(header.pop("verdict", None)),
                confidences=read_confidences(clips, len(actions)),
                corrections=corrections_from_json(header.pop("corrections", [])),
                names=LabelNames.from_json(header.pop("names", {})),
                progress=optional_column(chunks, "progress"),
                reached_chance=optional_column(clips, "reached_chance"),
                progress_model=_read_progress(folder / "progress.npz"),
                summary=header,
            )
            check_rows(result, len(clips))
            check_summary(result.summary, result.settings, len(result.clips))
        except (
            OSError, EOFError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError,
            NotImplementedError, RecursionError, MemoryError, pa.ArrowException,
            CorpusError, CorrectionError, SettingError,
        ) as problem:  # fmt: skip
            raise ResultError(f"{folder} is not a whole result ({problem}): fit again") from problem
        return result


def _frame(table: pa.Table) -> pandas.DataFrame:
    if find_spec("pandas") is None:
        raise MissingExtraError("data frames need an extra: pip install 'objectstates[pandas]'")
    return table.to_pandas()


def _read_skipped(rows: Any) -> tuple[SkippedClip, ...]:
    found = tuple(SkippedClip(**row) for row in rows)
    if not all(isinstance(text, str) for clip in found for text in (clip.clip, clip.reason)):
        raise TypeError("a clip that was left out has no name or no reason")
    return found


def _read_progress(path: Path) -> ProgressModel | None:
    return ProgressModel.load(path) if path.exists() else None


def _read_verdict(values: Any) -> Verdict | None:
    return None if values is None else Verdict.from_json(values)
