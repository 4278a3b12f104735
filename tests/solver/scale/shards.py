"""A corpus in shards, wherever its rows are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from objectstates import Corpus
from objectstates.discovery.constraints import (
    action_constraints,
    no_action,
    no_states,
    state_constraints,
)
from objectstates.parallel.actors import LocalActors
from objectstates.solver.oracle import Floats
from objectstates.solver.scale.moments import ArrayRows, shift_of
from objectstates.solver.scale.sharded import divide, part_of


def make_actors(
    corpus: Corpus,
    n_shards: int,
    shard: Callable[..., Any],
    *,
    target: str = "joint",
    exactly_one: bool = False,
) -> tuple[LocalActors, tuple[Floats, Floats]]:
    """The shards, and what is subtracted from the features of both sides.

    shard : makes one of the parts of both sides and its number.
    """
    action = action_constraints(corpus)
    state = state_constraints(corpus, exactly_one=exactly_one)
    chunks, tracklets = corpus.chunks.features, corpus.tracklets.features
    if target == "state":
        action, chunks = no_action(len(corpus)), chunks[:0]
    if target == "action":
        state, tracklets = no_states(len(corpus)), tracklets[:0]
    of_chunks, of_tracklets = ArrayRows(chunks), ArrayRows(tracklets)
    shards = [
        shard(part_of(action, of_chunks, *clips), part_of(state, of_tracklets, *clips), number)
        for number, clips in enumerate(divide(action, state, n_shards))
    ]
    return LocalActors(shards), (shift_of(of_chunks), shift_of(of_tracklets))
