"""Synthetic corpora with ground truth, for the demo, the tests and the benchmarks.

Clips resemble the paper's: about 20 s, the action near the middle, the object in state 1 before it
and in state 2 after it, ambiguous tracklets during it, false positives on one to three other
objects per clip, and a distractor action that most clips have in common. In a chain of changes
there are further states and actions, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from objectstates.base.choices import CHUNK_SECONDS
from objectstates.base.errors import SettingError
from objectstates.data.clips import MAX_STATES, TrackletLabel
from objectstates.data.corpus import Array, Corpus
from objectstates.data.label_names import classes_of

_LATENT_SIZE = 64  # at most; larger features are then no easier than small ones


def synthetic_corpus(
    n_clips: int = 20,
    *,
    tracklets_per_clip: int | Sequence[int] = 30,
    chunks_per_clip: int | Sequence[int] = 50,
    state_size: int = 256,
    action_size: int = 200,
    noise: float = 1.0,
    changes: int = 1,
    pattern: str | None = None,
    optional: int | None = None,
    leave_out: float = 0.0,
    world: int = 0,
    seed: int = 0,
) -> Corpus:
    """A random corpus; corpora of the same ``world`` show the same object and action.

    tracklets_per_clip, chunks_per_clip : one number for all clips, or one for each.
    state_size, action_size : dimension of the features of tracklets and of chunks.
    noise : expected norm of the noise in the latent space; each part of the signal has norm 1.
    changes : how many actions there are, with one state more.
    pattern : which states look alike, such as "ABA"; None for different ones.
    leave_out : share of the clips, chosen at random, that lack the action ``optional`` (counted
        from 1, the last by default) and the state after it.

    >>> chain = synthetic_corpus(n_clips=4, changes=2, leave_out=0.25)
    >>> chain.n_states, [int(clip.chunks[-1].label) for clip in chain]
    (3, [0, 0, 0, 0])
    """
    _check_chain(changes, pattern, optional, leave_out)
    appearances = _World(
        np.random.default_rng((world, 0)), state_size, action_size, changes, pattern
    )
    rng = np.random.default_rng((world, 1, seed))
    n_tracklets = np.broadcast_to(tracklets_per_clip, n_clips)
    n_chunks = np.broadcast_to(chunks_per_clip, n_clips)
    lacking = np.random.default_rng((world, 2, seed)).permutation(n_clips)
    lacking = lacking[: round(leave_out * n_clips)]
    every = tuple(range(1, changes + 1))
    rest = tuple(number for number in every if number != (optional or changes))
    clips = [
        _clip(rng, appearances, rest if n in lacking else every, int(m), int(t), noise)
        for n, (m, t) in enumerate(zip(n_tracklets, n_chunks, strict=True))
    ]
    columns: dict[str, Any] = {
        name: np.concatenate([clip[name] for clip in clips]) for name in clips[0]
    }
    chain = {} if changes == 1 else {"changes": changes, "pattern": pattern}
    return Corpus.from_arrays(
        tracklets_per_clip=n_tracklets,
        chunks_per_clip=n_chunks,
        info={"source": "synthetic", "world": world, "seed": seed, **chain},
        **columns,
    ).for_changes(changes)


def _check_chain(changes: int, pattern: str | None, optional: int | None, leave_out: float) -> None:
    if not 1 <= changes < MAX_STATES:
        raise SettingError(f"`changes` must be from 1 to {MAX_STATES - 1}, not {changes}")
    if pattern is not None and len(pattern) != changes + 1:
        raise SettingError(f"`pattern` must have {changes + 1} letters, not {pattern!r}")
    if optional is not None and not 1 <= optional <= changes:
        raise SettingError(f"`optional` must be an action from 1 to {changes}, not {optional}")
    if not 0 <= leave_out <= (changes > 1):
        raise SettingError("`leave_out` must be from 0 to 1, and 0 for a single change")


@dataclass(frozen=True)
class _Step:
    """An action of a clip: its number from 1, start and end in seconds."""

    number: int
    start: float
    end: float


class _World:
    """Appearances: unit vectors in a latent space, and its linear embedding into features.

    states, actions : (K, latent) and (K - 1, latent); states that look alike have the same row.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        state_size: int,
        action_size: int,
        changes: int,
        pattern: str | None,
    ) -> None:
        self.state_latent = min(state_size, _LATENT_SIZE)
        self.action_latent = min(action_size, _LATENT_SIZE)
        self.object, *first_states, self.other = _directions(rng, 4, self.state_latent)
        first_action, self.distractor = _directions(rng, 2, self.action_latent)
        self.scenes = _directions(rng, 8, self.action_latent)
        self.embed_state = rng.standard_normal((self.state_latent, state_size)) / state_size**0.5
        self.embed_action = (
            rng.standard_normal((self.action_latent, action_size)) / action_size**0.5
        )
        looks = np.stack([*first_states, *_directions(rng, changes - 1, self.state_latent)])
        self.states = looks[classes_of(pattern, changes + 1)]
        self.actions = np.stack([first_action, *_directions(rng, changes - 1, self.action_latent)])


def _clip(
    rng: np.random.Generator,
    world: _World,
    numbers: tuple[int, ...],
    n_tracklets: int,
    n_chunks: int,
    noise: float,
) -> dict[str, Array]:
    """One clip with the actions of these numbers."""
    length = n_chunks * CHUNK_SECONDS
    steps = _steps(rng, numbers, length)
    return {
        **_chunks(rng, world, n_chunks, steps, noise),
        **_tracklets(rng, world, n_tracklets, length, steps, noise),
    }


def _steps(rng: np.random.Generator, numbers: tuple[int, ...], length: float) -> list[_Step]:
    """Actions of 2 to 5 s, each near the middle of its share of the rest of the clip."""
    durations = [min(rng.uniform(2, 5), 0.4 * length / len(numbers)) for _ in numbers]
    rest, steps, done = length - sum(durations), [], 0.0
    for k, (number, duration) in enumerate(zip(numbers, durations, strict=True)):
        begin = done + (k + rng.uniform(0.25, 0.75)) * rest / len(numbers)
        steps.append(_Step(number, begin, begin + duration))
        done += duration
    return steps


def _chunks(
    rng: np.random.Generator, world: _World, n: int, steps: list[_Step], noise: float
) -> dict[str, Array]:
    start = np.arange(n) * CHUNK_SECONDS
    middle = start + CHUNK_SECONDS / 2
    label = np.zeros(n, np.int8)
    for step in steps:
        shown = (middle >= step.start) & (middle < step.end)
        if not shown.any():
            shown[np.argmin(np.abs(middle - np.mean((step.start, step.end))))] = True
        label[shown] = step.number
    begin = rng.uniform(0, max(middle[-1] - 3, 0.1))
    distracted = (middle >= begin) & (middle < begin + 3) & (rng.random() < 0.9)
    scene = world.scenes[np.repeat(rng.integers(8, size=n // 5 + 1), 5)[:n]]
    latent = 0.8 * _directions(rng, 1, world.action_latent) + 0.5 * scene
    for step in steps:
        look = world.actions[step.number - 1]
        latent = latent + rng.uniform(0.8, 1.2) * np.outer(label == step.number, look)
    latent = latent + rng.uniform(0.8, 1.2) * np.outer(distracted, world.distractor)
    return {
        "chunk_start": start,
        "chunk_end": start + CHUNK_SECONDS,
        "chunk_label": label,
        "chunk_features": _observe(rng, latent, world.embed_action, noise),
    }


def _tracklets(
    rng: np.random.Generator,
    world: _World,
    n: int,
    length: float,
    steps: list[_Step],
    noise: float,
) -> dict[str, Array]:
    numbers = [1, *(step.number + 1 for step in steps)]  # of the states that the clip has
    n_true, n_ambiguous = max(len(numbers), round(0.35 * n)), round(0.25 * n)
    in_state = _times_of_states(rng, steps, length, n_true)
    counts = [len(part) for part in np.array_split(np.arange(n_ambiguous), len(steps))]
    moving = [
        rng.uniform(step.start, step.end, count) for step, count in zip(steps, counts, strict=True)
    ]
    wrong = rng.uniform(0.5, length - 0.5, n - n_true - n_ambiguous)
    middle = np.concatenate([*in_state, *moving, wrong])
    sizes = [*map(len, in_state), *counts, len(wrong)]
    label = np.repeat(
        [*numbers, *[TrackletLabel.AMBIGUOUS] * len(steps), TrackletLabel.FALSE_POSITIVE], sizes
    )
    blend = rng.uniform(0.2, 0.8, n)[:, None]
    of_label, before, after = (
        np.repeat(column, sizes)
        for column in (
            [*numbers, *[0] * len(steps), 0],
            [*numbers, *numbers[:-1], numbers[0]],
            [*numbers, *numbers[1:], numbers[-1]],
        )
    )
    states = blend * world.states[before - 1] + (1 - blend) * world.states[after - 1]
    states[of_label > 0] = world.states[of_label[of_label > 0] - 1]
    instance = world.object + 0.8 * _directions(rng, 1, world.state_latent)
    others = _directions(rng, int(rng.integers(1, 4)), world.state_latent)
    other = 0.6 * world.object + 0.7 * world.other + others[rng.integers(len(others), size=n)]
    false: Array = np.equal(label, TrackletLabel.FALSE_POSITIVE)[:, None]
    latent = np.where(false, other + 0.25 * states, instance + states)
    half = rng.uniform(0.36, 0.56, n)
    score = np.clip(rng.normal(np.where(false[:, 0], 0.6, 0.75), 0.15), 0.4, 1.0)
    order = np.argsort(middle - half, kind="stable")
    columns: dict[str, Array] = {
        "tracklet_start": middle - half,
        "tracklet_end": middle + half,
        "tracklet_score": score,
        "tracklet_label": label.astype(np.int8),
        "tracklet_features": _observe(rng, latent, world.embed_state, noise),
    }
    return {name: column[order] for name, column in columns.items()}


def _times_of_states(
    rng: np.random.Generator, steps: list[_Step], length: float, n: int
) -> list[Array]:
    """The middles of n tracklets, those of each state between the actions around it."""
    starts, ends = [0.0, *(s.end for s in steps)], [*(s.start for s in steps), length]
    seconds = [end - start for start, end in zip(starts, ends, strict=True)]
    counts: list[int] = []
    for k in range(len(steps)):
        left, to_come = n - sum(counts), len(steps) - k
        drawn = rng.binomial(left, seconds[k] / sum(seconds[k:]))
        counts.append(int(np.clip(drawn, 1, left - to_come)))
    counts.append(n - sum(counts))
    times = [
        _spread(rng, count, start + 0.5, max(end - 0.5, start + 0.6))
        for start, end, count in zip(starts[:-1], ends[:-1], counts[:-1], strict=True)
    ]
    last = _spread(rng, counts[-1], min(starts[-1] + 0.5, length - 0.6), length - 0.5)
    return [*times, last]


def _spread(rng: np.random.Generator, n: int, first: float, last: float) -> Array:
    """n random times, one in each of n equal parts of an interval."""
    return first + (last - first) * (np.arange(n) + rng.random(n)) / n


def _directions(rng: np.random.Generator, n: int, size: int) -> Array:
    return _unit(rng.standard_normal((n, size)))


def _observe(rng: np.random.Generator, latent: Array, embed: Array, noise: float) -> Array:
    """(n, size) unit features: latent vectors embedded, with noise before and after."""
    n, (latent_size, size) = len(latent), embed.shape
    seen = (latent + noise * rng.standard_normal(latent.shape) / latent_size**0.5) @ embed
    return _unit(seen + 0.2 * rng.standard_normal((n, size)) / size**0.5).astype(np.float32)


def _unit(vectors: Array) -> Array:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
