"""Synthetic corpora with ground truth, for the demo, the tests and the benchmarks.

Clips resemble the paper's: about 20 s, the action near the middle, the object in state 1 before it
and in state 2 after it, ambiguous tracklets during it, false positives on one to three other
objects per clip, and a distractor action that most clips have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from objectstates.data.clips import TrackletLabel
from objectstates.data.corpus import Array, Corpus

_CHUNK_SECONDS = 0.4  # ten frames at 25 fps, as in the paper
_LATENT_SIZE = 64  # at most; larger features are then no easier than small ones


def synthetic_corpus(
    n_clips: int = 20,
    *,
    tracklets_per_clip: int | Sequence[int] = 30,
    chunks_per_clip: int | Sequence[int] = 50,
    state_size: int = 256,
    action_size: int = 200,
    noise: float = 1.0,
    world: int = 0,
    seed: int = 0,
) -> Corpus:
    """A random corpus; corpora of the same ``world`` show the same object and action.

    tracklets_per_clip, chunks_per_clip : one number for all clips, or one for each.
    state_size, action_size : dimension of the features of tracklets and of chunks.
    noise : expected norm of the noise in the latent space; each part of the signal has norm 1.
    """
    appearances = _World(np.random.default_rng((world, 0)), state_size, action_size)
    rng = np.random.default_rng((world, 1, seed))
    n_tracklets = np.broadcast_to(tracklets_per_clip, n_clips)
    n_chunks = np.broadcast_to(chunks_per_clip, n_clips)
    clips = [
        _clip(rng, appearances, int(m), int(t), noise)
        for m, t in zip(n_tracklets, n_chunks, strict=True)
    ]
    columns: dict[str, Any] = {
        name: np.concatenate([clip[name] for clip in clips]) for name in clips[0]
    }
    return Corpus.from_arrays(
        tracklets_per_clip=n_tracklets,
        chunks_per_clip=n_chunks,
        info={"source": "synthetic", "world": world, "seed": seed},
        **columns,
    )


class _World:
    """Appearances: unit vectors in a latent space, and its linear embedding into features."""

    def __init__(self, rng: np.random.Generator, state_size: int, action_size: int) -> None:
        self.state_latent = min(state_size, _LATENT_SIZE)
        self.action_latent = min(action_size, _LATENT_SIZE)
        self.object, self.state_1, self.state_2, self.other = _directions(rng, 4, self.state_latent)
        self.action, self.distractor = _directions(rng, 2, self.action_latent)
        self.scenes = _directions(rng, 8, self.action_latent)
        self.embed_state = rng.standard_normal((self.state_latent, state_size)) / state_size**0.5
        self.embed_action = (
            rng.standard_normal((self.action_latent, action_size)) / action_size**0.5
        )


def _clip(
    rng: np.random.Generator, world: _World, n_tracklets: int, n_chunks: int, noise: float
) -> dict[str, Array]:
    length = n_chunks * _CHUNK_SECONDS
    duration = min(rng.uniform(2, 5), 0.4 * length)
    begin = rng.uniform(0.25, 0.75) * (length - duration)
    action = (begin, begin + duration)
    return {
        **_chunks(rng, world, n_chunks, action, noise),
        **_tracklets(rng, world, n_tracklets, length, action, noise),
    }


def _chunks(
    rng: np.random.Generator, world: _World, n: int, action: tuple[float, float], noise: float
) -> dict[str, Array]:
    start = np.arange(n) * _CHUNK_SECONDS
    middle = start + _CHUNK_SECONDS / 2
    label = (middle >= action[0]) & (middle < action[1])
    if not label.any():
        label[np.argmin(np.abs(middle - np.mean(action)))] = True
    begin = rng.uniform(0, max(middle[-1] - 3, 0.1))
    distracted = (middle >= begin) & (middle < begin + 3) & (rng.random() < 0.9)
    scene = world.scenes[np.repeat(rng.integers(8, size=n // 5 + 1), 5)[:n]]
    latent = 0.8 * _directions(rng, 1, world.action_latent) + 0.5 * scene
    latent = latent + rng.uniform(0.8, 1.2) * np.outer(label, world.action)
    latent = latent + rng.uniform(0.8, 1.2) * np.outer(distracted, world.distractor)
    return {
        "chunk_start": start,
        "chunk_end": start + _CHUNK_SECONDS,
        "chunk_label": label.astype(np.int8),
        "chunk_features": _observe(rng, latent, world.embed_action, noise),
    }


def _tracklets(
    rng: np.random.Generator,
    world: _World,
    n: int,
    length: float,
    action: tuple[float, float],
    noise: float,
) -> dict[str, Array]:
    n_true, n_ambiguous = max(2, round(0.35 * n)), round(0.25 * n)
    n_before = int(np.clip(rng.binomial(n_true, action[0] / (length - action[1] + action[0])), 1,
                           n_true - 1))  # fmt: skip
    before = _spread(rng, n_before, 0.5, max(action[0] - 0.5, 0.6))
    after = _spread(rng, n_true - n_before, min(action[1] + 0.5, length - 0.6), length - 0.5)
    ambiguous = rng.uniform(*action, n_ambiguous)
    wrong = rng.uniform(0.5, length - 0.5, n - n_true - n_ambiguous)
    middle = np.concatenate([before, after, ambiguous, wrong])
    label = np.repeat(
        [TrackletLabel.STATE_1, TrackletLabel.STATE_2, TrackletLabel.AMBIGUOUS,
         TrackletLabel.FALSE_POSITIVE],
        [len(before), len(after), len(ambiguous), len(wrong)],
    )  # fmt: skip
    blend = rng.uniform(0.2, 0.8, n)[:, None]
    states = blend * world.state_1 + (1 - blend) * world.state_2
    states[label == TrackletLabel.STATE_1] = world.state_1
    states[label == TrackletLabel.STATE_2] = world.state_2
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
