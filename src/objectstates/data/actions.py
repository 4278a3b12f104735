"""Where the actions of each clip are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from objectstates.data.corpus import Array


@dataclass(frozen=True, eq=False)
class Actions:
    """The A actions of N clips with T chunks in all, in order: 1, or more in a chain of changes.

    An action that a clip lacks, or that was not sought, has chunk -1 and times NaN.

    chunk : (N, A) index within the clip.
    time : (N, A) seconds: the moment of the change where it is known, else the chunk's time.
    span : (N, A, 2) start and end in seconds.
    scores : (T, A) of the chunks.
    """

    chunk: Array
    time: Array
    span: Array
    scores: Array

    def __len__(self) -> int:
        """A."""
        return int(self.chunk.shape[1])

    @classmethod
    def single(cls, chunk: Array, time: Array, span: Array, scores: Array) -> Actions:
        """One action per clip, from (N,), (N,), (N, 2) and (T,)."""
        return cls(chunk[:, None], time[:, None], span[:, None], scores[:, None])

    @classmethod
    def none(cls, n_clips: int, n_chunks: int, n_actions: int = 1) -> Actions:
        """Those of clips in which no action was sought."""
        return cls(
            np.full((n_clips, n_actions), -1),
            np.full((n_clips, n_actions), np.nan),
            np.full((n_clips, n_actions, 2), np.nan),
            np.full((n_chunks, n_actions), np.nan),
        )

    def only(self, k: int) -> Actions:
        """Action k alone, counted from 0."""
        one = slice(k, k + 1)
        return Actions(
            self.chunk[:, one], self.time[:, one], self.span[:, one], self.scores[:, one]
        )

    def select(self, clips: Array, chunks: Array) -> Actions:
        """Those of some clips, whose chunks are the rows ``chunks``."""
        return Actions(self.chunk[clips], self.time[clips], self.span[clips], self.scores[chunks])
