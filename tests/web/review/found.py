"""A small folder that ``discover`` could have written, with videos."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from objectstates.app.workspace import Workspace
from objectstates.data.clips import ChangeProfile
from objectstates.data.corpus import Corpus
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.estimator import JointDiscovery
from tests.chains import chain_corpus, draw_chain
from tests.web.films import SIZE, write_film

STEP = 100  # milliseconds from frame to frame
NAMES = ("a", "b", "c", "d", "e f", "../g", "<img src=x onerror=alert(1)>", "ü")


def make_corpus(video: Path, n_clips: int = 8) -> Corpus:
    """Synthetic clips of one video, with a box for every tracklet and a change profile."""
    corpus = synthetic_corpus(n_clips=n_clips, tracklets_per_clip=12, chunks_per_clip=30, seed=3)
    table, width, height = corpus.tracklets, *SIZE
    boxes = [
        [[time, 5, 5, width / 2, height / 2] for time in (start, end)]
        for start, end in zip(table.start, table.end, strict=True)
    ]
    curve = (np.abs(np.sin(np.arange(120) / 9)) / 50).astype(np.float32)
    change = ChangeProfile(0.0, 0.1, curve, np.zeros((4, 6), np.uint8))
    names = NAMES[:n_clips] if n_clips <= len(NAMES) else corpus.clip_ids
    return replace(
        corpus,
        clip_ids=tuple(names),
        tracklets=replace(
            table,
            boxes=np.array(boxes, np.float64).reshape(-1, 5),
            box_offsets=np.arange(0, 2 * len(boxes) + 1, 2),
        ),
        videos=(str(video),) * n_clips,
        changes=(change,) * n_clips,
    )


def make_found(folder: Path, n_clips: int = 8) -> Path:
    """The folder FOUND, fitted with a verdict."""
    video = write_film(folder / "film.mp4", "libx264", list(range(0, 12_000, STEP)))
    found = folder / "found"
    workspace = Workspace(found)
    make_corpus(video, n_clips).save(workspace.corpus)
    workspace.fit(JointDiscovery())
    return found


def make_chain(folder: Path, n_clips: int = 6) -> Path:
    """The folder FOUND of clips with two actions each."""
    found = folder / "found"
    workspace = Workspace(found)
    video = draw_chain(folder / "chain.mp4", 3)
    chain_corpus(2, n_clips, video).save(workspace.corpus)
    workspace.fit(JointDiscovery(changes=2, verdict=False))
    return found
