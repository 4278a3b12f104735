"""What a chain of changes takes from the change profiles of its clips.

In a chain a state may come back, so nothing need change for good. Discovery of a chain uses the
local curve of each profile (``features/change_profile.py``) where a single change uses the curve:
for the action's moment, for the evidence, and for the change columns of the chunks. These columns
show all changes of the chain at the same height.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from objectstates.data.clips import ChangeProfile
from objectstates.data.corpus import Array, Corpus
from objectstates.features.change_columns import WIDTHS, chunk_columns
from objectstates.solver.scale.moments import FeatureRows


def for_chain(corpus: Corpus) -> Corpus:
    """The corpus with local changes in place of lasting ones; itself if it is for one change."""
    if corpus.n_states <= 2:
        return corpus
    corpus = replace(corpus, changes=tuple(map(_local, corpus.changes)))
    features = corpus.chunks.features
    if not has_change_columns(corpus, features.shape[1]):
        return corpus
    kept = features[:, : -len(WIDTHS)]
    return corpus.with_features(chunks=np.hstack([kept, _change_columns(corpus)]))


def chunk_rows_for_chain(corpus: Corpus, rows: FeatureRows) -> FeatureRows:
    """The chunk features on disk of a corpus that `for_chain` returned, with its change columns."""
    if corpus.n_states <= 2 or not has_change_columns(corpus, rows.shape[1]):
        return rows
    return LastColumnsReplaced(rows, _change_columns(corpus))


@dataclass(frozen=True, eq=False)
class LastColumnsReplaced:
    """Features (T, d) whose last w columns are ``columns`` (T, w)."""

    rows: FeatureRows
    columns: npt.NDArray[np.float32]

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape

    def read(self, lo: int, hi: int) -> npt.NDArray[np.float32]:
        kept = self.rows.read(lo, hi)[:, : -self.columns.shape[1]]
        return np.hstack([kept, self.columns[lo:hi]])


def _local(profile: ChangeProfile | None) -> ChangeProfile | None:
    """The profile with its local curve, if that is known, as its curve, and without a motion.

    Between two changes a thing may be carried: that is fast, and no change.
    """
    if profile is None or (profile.local is None and profile.motion is None):
        return profile
    curve = profile.curve if profile.local is None else profile.local
    return replace(profile, curve=curve, motion=None)


def has_change_columns(corpus: Corpus, size: int) -> bool:
    """Whether the last of ``size`` chunk features are those of the change profile."""
    made = corpus.info.get("ingest")
    return isinstance(made, dict) and bool(made.get("change_columns")) and size > len(WIDTHS)


def _change_columns(corpus: Corpus) -> Array:
    """(T, w) of all chunks."""
    spans = np.stack([corpus.chunks.start, corpus.chunks.end], axis=1)
    pieces = np.split(spans, corpus.chunks.offsets[1:-1])
    changes = corpus.n_states - 1
    return np.concatenate(
        [
            chunk_columns(profile, chunks, changes=changes)
            for profile, chunks in zip(corpus.changes, pieces, strict=True)
        ]
    )
