"""The tables of a result on disk: columns to Parquet and back (format: see ``result.py``)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from objectstates.base.npz_file import read_npz
from objectstates.data.actions import Actions
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result_columns import Classifier, ResultColumns, action_labels


def clip_table(result: ResultColumns) -> pa.Table:
    """A row per clip."""
    names = confidence_columns(result.n_actions)
    chances = (
        {} if result.confidences is None else dict(zip(names, result.confidences.T, strict=True))
    )
    if result.reached_chance is not None:
        chances["reached_chance"] = result.reached_chance
    columns = {name: _nullable(column) for name, column in chances.items()}
    if result.reached_chance is not None:
        columns["reached"] = pa.array([text or None for text in result.reached], pa.string())
    return pa.table(
        {
            "clip": pa.array(result.clips, pa.string()),
            **({} if result.n_actions > 1 else _action_columns(result)),
            "confidence": pa.array(result.confidence, pa.float64()),
            **columns,
            **_episode_columns(result),
        }
    )


def _action_columns(result: ResultColumns) -> dict[str, pa.Array]:
    """Of the only action."""
    return {
        "action_chunk": pa.array(result.action_chunk, pa.int32(), mask=result.action_chunk < 0),
        "action_time": _nullable(result.action_time),
        "action_start": _nullable(result.action_span[:, 0]),
        "action_end": _nullable(result.action_span[:, 1]),
        "action_score": _nullable(result.action_score),
    }


def action_table(result: ResultColumns) -> pa.Table:
    """A row per action that a clip has."""
    actions, scores = result.actions, result.scores_at_actions()
    clip, number = np.nonzero(actions.chunk >= 0)
    chances = (
        np.full(scores.shape, np.nan)
        if result.confidences is None
        else result.confidences[:, : result.n_actions]
    )
    return pa.table(
        {
            "clip": pa.array([result.clips[n] for n in clip], pa.string()),
            "action": pa.array(number + 1, pa.int8()),
            "chunk": pa.array(actions.chunk[clip, number], pa.int32()),
            "time": _nullable(actions.time[clip, number]),
            "start": _nullable(actions.span[clip, number, 0]),
            "end": _nullable(actions.span[clip, number, 1]),
            "score": _nullable(scores[clip, number]),
            "confidence": _nullable(chances[clip, number]),
        }
    )


def _episode_columns(result: ResultColumns) -> dict[str, pa.Array]:
    """Numbers of episodes and times in seconds of the episode; none if no clip shows one."""
    episodes, starts = result.corpus.episodes, result.episode_starts
    if not any(episodes):
        return {}
    columns = {
        "episode": pa.array([e and e.index for e in episodes], pa.int64()),
        "episode_start": _nullable(starts),
    }
    if result.n_actions > 1:
        return columns
    return columns | {
        "action_time_in_episode": _nullable(result.action_time - starts),
        "action_start_in_episode": _nullable(result.action_span[:, 0] - starts),
        "action_end_in_episode": _nullable(result.action_span[:, 1] - starts),
    }


def tracklet_table(result: ResultColumns) -> pa.Table:
    """A row per tracklet."""
    table = result.corpus.tracklets
    return pa.table(
        {
            "clip": pa.array([result.clips[n] for n in result.tracklet_clip], pa.string()),
            "tracklet": pa.array(result.tracklet_index, pa.int32()),
            "start": pa.array(table.start, pa.float64()),
            "end": pa.array(table.end, pa.float64()),
            "state": pa.array(result.state, pa.int8()),
            **{
                f"score_{k + 1}": _nullable(column)
                for k, column in enumerate(result.state_scores.T)
            },
        }
    )


def chunk_table(result: ResultColumns) -> pa.Table:
    """A row per chunk."""
    table = result.corpus.chunks
    owner = np.repeat(np.arange(len(result.clips)), np.diff(table.offsets))
    index = np.arange(len(owner)) - table.offsets[owner]
    progress = {} if result.progress is None else {"progress": _nullable(result.progress)}
    acting = (index[:, None] == result.actions.chunk[owner]).any(axis=1)
    names = _score_names(result.n_actions)
    return pa.table(
        {
            "clip": pa.array([result.clips[n] for n in owner], pa.string()),
            "chunk": pa.array(index, pa.int32()),
            "start": pa.array(table.start, pa.float64()),
            "end": pa.array(table.end, pa.float64()),
            "action": pa.array(acting),
            **{
                name: _nullable(column)
                for name, column in zip(names, result.actions.scores.T, strict=True)
            },
            **progress,
        }
    )


# --- reading -------------------------------------------------------------------------------------


def actions_of_clips(clips: pa.Table, chunks: pa.Table) -> Actions:
    """The actions in tables of format version 2."""
    span = [column(clips, name, np.nan) for name in ("action_start", "action_end")]
    return Actions.single(
        column(clips, "action_chunk", -1).astype(np.int64),
        column(clips, "action_time", np.nan),
        np.stack(span, axis=1),
        column(chunks, "score", np.nan),
    )


def read_actions(table: pa.Table, corpus: Corpus, chunks: pa.Table) -> Actions:
    """The actions of the clips of ``corpus``, from their table and the scores in that of chunks."""
    n_actions = corpus.n_states - 1
    scores = [column(chunks, name, np.nan) for name in _score_names(n_actions)]
    actions = Actions.none(len(corpus), len(corpus.chunks.start), n_actions)
    number = {clip: n for n, clip in enumerate(corpus.clip_ids)}
    rows = np.array([number[clip] for clip in table["clip"].to_pylist()], np.int64)
    columns = table["action"].to_numpy().astype(np.int64) - 1
    if len(columns) and not (0 <= columns.min() <= columns.max() < n_actions):
        raise ValueError(f"actions.parquet: an action is not one of 1 to {n_actions}")
    actions.chunk[rows, columns] = table["chunk"].to_numpy()
    actions.time[rows, columns] = column(table, "time", np.nan)
    for side, name in enumerate(("start", "end")):
        actions.span[rows, columns, side] = column(table, name, np.nan)
    return replace(actions, scores=np.stack(scores, axis=1))


def read_confidences(clips: pa.Table, n_actions: int) -> Array | None:
    """(N, 2 K - 1), or None where the table has none."""
    names = confidence_columns(n_actions)
    if not set(names) <= set(clips.column_names):
        return None
    return np.stack([column(clips, name, np.nan) for name in names], axis=1)


def read_classifiers(path: Path) -> dict[str, Classifier]:
    """From a file of arrays, without pickle."""
    arrays = read_npz(path)
    return {
        side: Classifier(
            arrays[f"{side}_weights"],
            arrays[f"{side}_bias"],
            int(arrays[f"{side}_n_rows"]),
            arrays.get(f"{side}_scale", np.ones(len(arrays[f"{side}_bias"]))),
        )
        for side in ("action", "state")
        if f"{side}_weights" in arrays
    }


def check_rows(result: ResultColumns, n_clips: int) -> None:
    """Raise if the tables, that of clips with ``n_clips`` rows, do not match the corpus."""
    offsets = result.corpus.chunks.offsets
    sizes = {
        "clips": (n_clips, len(result.corpus)),
        "tracklets": (len(result.state), len(result.corpus.tracklets.start)),
        "chunks": (len(result.actions.scores), len(result.corpus.chunks.start)),
    }
    for name, (found, expected) in sizes.items():
        if found != expected:
            raise ValueError(f"{name}.parquet has {found} rows, its corpus {expected}")
    chunk = result.actions.chunk
    if (chunk >= np.diff(offsets)[:, None]).any() or (chunk < -1).any():
        raise ValueError("an action lies outside its clip")
    if result.n_states != result.corpus.n_states:
        raise ValueError(
            f"{result.n_states} states, but its corpus is for {result.corpus.n_states}"
        )
    if not np.isin(result.state, range(result.n_states + 1)).all():
        raise ValueError(f"a state is not one of 0 to {result.n_states}")
    _check_classifiers(result)


def _check_classifiers(result: ResultColumns) -> None:
    n_columns = {"action": result.n_actions, "state": result.n_states}
    for side, classifier in result.classifiers.items():
        weights, bias, expected = classifier.weights, classifier.bias, n_columns[side]
        parts = weights, bias, classifier.scale
        shaped = weights.ndim == 2 and weights.shape[1] == expected
        shaped &= bias.shape == classifier.scale.shape == (expected,)
        if not shaped or not all(np.isfinite(part).all() for part in parts):
            raise ValueError(f"the {side} classifier is damaged")


def column(table: pa.Table, name: str, missing: float) -> Array:
    """A column in float64, ``missing`` where it is null."""
    return np.asarray(table[name].cast(pa.float64()).fill_null(missing).to_numpy(), np.float64)


def optional_column(table: pa.Table, name: str) -> Array | None:
    """A column that earlier versions do not have."""
    return column(table, name, np.nan) if name in table.column_names else None


def _nullable(values: Array) -> pa.Array:
    """A column with null in place of NaN."""
    return pa.array(values, pa.float64(), mask=np.isnan(values))


def confidence_columns(n_actions: int) -> tuple[str, ...]:
    """Of ``clips.parquet``: those of the actions, then of the states."""
    states = (f"state_{k + 1}" for k in range(n_actions + 1))
    return tuple(f"{label}_confidence" for label in (*action_labels(n_actions), *states))


def _score_names(n_actions: int) -> tuple[str, ...]:
    """Of the columns of ``chunks.parquet`` with the scores of the actions."""
    return ("score",) if n_actions == 1 else tuple(f"score_{k + 1}" for k in range(n_actions))
