"""Results of chains of changes, made without discovery."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from objectstates import Box, Chunk, Clip, Corpus, Result, Tracklet, TrackletLabel
from objectstates.data.actions import Actions
from objectstates.data.label_names import LabelNames
from tests.video.videos import write_video

Floats = npt.NDArray[np.float32]
WIDTH, HEIGHT, FPS = 160, 120, 25
STEP = 2.0  # seconds of each state, the action at its end included
ACTING = 0.4  # seconds: a chunk
COLOURS = (
    *((40, 90, 220), (240, 150, 20), (120, 30, 210), (110, 90, 50)),
    *((30, 30, 150), (90, 10, 90), (180, 80, 220), (20, 80, 80)),
)


def action_span(number: int) -> tuple[float, float]:
    """When an action, counted from 1, happens in each clip that has it, in seconds."""
    return round(STEP * number - ACTING, 3), round(STEP * number, 3)


def thing_at(time: float) -> tuple[float, float, float, float]:
    x = 10.0 + 4 * int(time)
    return x, 40.0, x + 40, 80.0


def draw_chain(path: Path, n_states: int) -> Path:
    """A thing that has another colour after each action."""
    images = []
    for i in range(round(STEP * n_states * FPS)):
        image = np.full((HEIGHT, WIDTH, 3), 128, np.uint8)
        x1, y1, x2, y2 = map(int, thing_at(i / FPS))
        image[y1:y2, x1:x2] = COLOURS[min(int(i / FPS / STEP), n_states - 1)]
        images.append(image)
    return write_video(path, images, fps=FPS)


def chain_clip(name: str, video: str | None, n_states: int, seed: int = 0) -> Clip:
    """A tracklet per state, up to the action, and one without; chunks of 0.4 s.

    Tracklets of a state, and chunks of an action, have features that are nearly the same.
    """
    rng = np.random.default_rng(seed)

    def look(kind: int) -> Floats:
        noise = 0.05 * rng.standard_normal(n_states + 1)
        return np.asarray(np.eye(n_states + 1)[kind] + noise, np.float32)

    tracklets = [
        Tracklet(
            STEP * k,
            action_span(k + 1)[0],
            look(k + 1),
            0.75,
            tuple(Box(t, *thing_at(t)) for t in (STEP * k + np.arange(4) * ACTING).tolist()),
            allowed=(True,) * n_states,
            label=TrackletLabel(k + 1),
        )
        for k in range(n_states)
    ]
    none = (False,) * n_states
    false = TrackletLabel.FALSE_POSITIVE
    box = (Box(0.4, 100, 5, 130, 30),)
    tracklets.insert(1, Tracklet(0.2, 1.2, look(0), 0.5, box, allowed=none, label=false))
    chunks = []
    for i in range(round(STEP * n_states / ACTING)):
        start = round(ACTING * i, 3)
        acts = next((k for k in range(1, n_states) if action_span(k)[0] == start), 0)
        end, allowed = round(start + ACTING, 3), (True,) * (n_states - 1)
        chunks.append(Chunk(start, end, look(acts), allowed=allowed, label=acts))
    ordered = sorted(tracklets, key=lambda t: t.start)
    return Clip(name, tuple(ordered), tuple(chunks), video, 0.0, STEP * n_states)


def chain_corpus(n_actions: int = 2, n_clips: int = 3, video: Path | None = None) -> Corpus:
    path = None if video is None else str(video)
    clips = [chain_clip(f"clip {n}", path, n_actions + 1, n) for n in range(n_clips)]
    return Corpus.from_clips(clips, info={"object": "thing"})


def chain_result(
    n_actions: int = 2,
    n_clips: int = 3,
    video: Path | None = None,
    names: LabelNames | None = None,
) -> Result:
    """Every clip has all actions where they truly are, but the last one lacks action 2.

    It then lacks state 3, too. ``video``, if there is one, is that of all clips.
    """
    n_states = n_actions + 1
    corpus = chain_corpus(n_actions, n_clips, video)
    spans = np.array([action_span(k) for k in range(1, n_states)])
    rows = corpus.chunks.label[list(corpus.chunk_rows(0))]
    chunk = np.array([int(np.flatnonzero(rows == k)[0]) for k in range(1, n_states)])
    actions = Actions(
        np.tile(chunk, (n_clips, 1)),
        np.tile(spans.mean(axis=1), (n_clips, 1)),
        np.tile(spans, (n_clips, 1, 1)),
        np.stack([np.where(corpus.chunks.label == k, 0.8, 0.1) for k in range(1, n_states)], 1),
    )
    state = np.maximum(corpus.tracklets.label, 0).astype(np.int8)
    actions.chunk[-1, 1], actions.time[-1, 1], actions.span[-1, 1] = -1, np.nan, np.nan
    of_last = np.zeros(len(state), bool)
    of_last[list(corpus.tracklet_rows(n_clips - 1))] = True
    state[of_last & (state == 3)] = 0
    scores = 0.9 * (corpus.tracklets.label[:, None] == np.arange(1, n_states + 1))
    return Result(
        corpus=corpus.without_features(),
        actions=actions,
        state=state,
        state_scores=scores,
        classifiers={},
        settings={},
        summary={},
        confidences=np.tile(np.linspace(0.6, 0.9, n_actions + n_states), (n_clips, 1)),
        names=names or LabelNames.usual(n_actions),
    )


def unjudged(result: Result) -> Result:
    """The same without truth."""
    chunks, tracklets = result.corpus.chunks, result.corpus.tracklets
    corpus = replace(
        result.corpus,
        chunks=replace(chunks, label=np.full_like(chunks.label, -1)),
        tracklets=replace(tracklets, label=np.full_like(tracklets.label, -1)),
    )
    return replace(result, corpus=corpus)
