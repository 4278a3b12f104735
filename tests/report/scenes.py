"""Small videos of an object that changes its colour, and a result over them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from objectstates import (
    Box,
    ChangeProfile,
    Chunk,
    Clip,
    Corpus,
    JointDiscovery,
    Result,
    Tracklet,
    TrackletLabel,
)
from objectstates.data.actions import Actions
from objectstates.features.change_profile import clip_change, profile_of
from tests.video.videos import write_video

WIDTH, HEIGHT, FPS, SECONDS = 160, 120, 25, 6
BLUE, ORANGE = (40, 90, 220), (240, 150, 20)
ACTION = 3.0  # seconds, after which the thing has another colour
NAMES = (
    "<script>alert(1)</script>.mp4",
    'a "quoted" & odd name',
    "שלום עולם",
    "two\nlines 🧃",
    "clip 10",
    "clip 9",
)
FILES = ("script.mp4", "a b#1?.mp4", "100%.mp4", "ü.mp4", "plain10.mp4", "plain9.mp4")


def thing_at(time: float) -> tuple[int, int, int, int]:
    """Where the thing is: it drifts to the right, slowly, so that its colour changes the most."""
    x = 20 + int(2 * time)
    return x, 40, x + 40, 80


def draw_video(path: Path, codec: str = "libx264") -> Path:
    images = []
    for i in range(SECONDS * FPS):
        image = np.full((HEIGHT, WIDTH, 3), 128, np.uint8)
        x1, y1, x2, y2 = thing_at(i / FPS)
        image[y1:y2, x1:x2] = BLUE if i / FPS <= ACTION else ORANGE
        images.append(image)
    return write_video(path, images, fps=FPS, codec=codec)


def make_clip(name: str, video: str | None, seed: int) -> Clip:
    """Tracklets of the thing, one each second, and of a false positive; chunks of half a second."""
    rng = np.random.default_rng(seed)
    tracklets = []
    for second in range(SECONDS):
        state = 0 if second < ACTION else 1
        look = np.eye(6)[state] + 0.05 * rng.standard_normal(6)
        times = np.arange(second, second + 1, 0.1)
        boxes = tuple(Box(float(t), *map(float, thing_at(t))) for t in times)
        label = TrackletLabel.STATE_2 if state else TrackletLabel.STATE_1
        tracklets.append(
            Tracklet(second, second + 1, look.astype(np.float32), 0.9, boxes, label=label)
        )
    other = (np.eye(6)[2 + seed % 4] + 0.3 * rng.standard_normal(6)).astype(np.float32)
    box = (Box(0.5, 100, 5, 130, 30),)
    false = TrackletLabel.FALSE_POSITIVE
    tracklets.append(Tracklet(0.5, 1.5, other, 0.5, box, allowed=(False, False), label=false))
    chunks = []
    for k in range(2 * SECONDS):
        acting = k * 0.5 <= ACTION < k * 0.5 + 0.5
        look = np.eye(4)[0 if acting else 1] + 0.05 * rng.standard_normal(4)
        chunks.append(Chunk(k / 2, k / 2 + 0.5, look.astype(np.float32), label=acting))
    tracklets.sort(key=lambda tracklet: tracklet.start)
    end = float(SECONDS)
    return Clip(name, tuple(tracklets), tuple(chunks), video, 0.0, end, change_of(video))


def change_of(video: str | None) -> ChangeProfile | None:
    """None for clips without a video, and for the last."""
    if video is None or video.endswith(FILES[-1]):
        return None
    return profile_of(clip_change(video, None, None))


def make_result(folder: Path | None = None, target: str = "joint") -> Result:
    """Six clips, with videos in ``folder`` if there is one. The truth of two is made to disagree.

    Clip 4 is said to act two seconds earlier than found, and what is found of state 2 in clip 5 is
    said to be ambiguous.
    """
    videos: list[str | None] = [None] * len(NAMES)
    if folder is not None:
        videos = [str(draw_video(folder / name)) for name in FILES]
    clips = [make_clip(name, videos[i], i) for i, name in enumerate(NAMES)]
    corpus = Corpus.from_clips(clips, info={"object": "thing"})
    result = JointDiscovery(target=target, nu=0.1, mu=1e-2).fit(corpus).result_  # type: ignore[arg-type]
    chunk_label, label = corpus.chunks.label.copy(), corpus.tracklets.label.copy()
    rows = list(corpus.chunk_rows(4))
    chunk_label[rows] = np.roll(chunk_label[rows], -4)
    rows = list(corpus.tracklet_rows(5))
    label[rows] = np.where(label[rows] == 2, TrackletLabel.AMBIGUOUS, label[rows])
    judged = replace(
        result.corpus,
        chunks=replace(result.corpus.chunks, label=chunk_label),
        tracklets=replace(result.corpus.tracklets, label=label),
    )
    return replace(result, corpus=judged)


def with_states(*tracklets: tuple[float, float, int]) -> Result:
    """A result of one clip whose tracklets have the given start, end and state; scores are 1."""
    start, end, state = (np.array(column) for column in zip(*tracklets, strict=True))
    corpus = Corpus.from_arrays(
        tracklets_per_clip=[len(start)],
        tracklet_start=start,
        tracklet_end=end,
        tracklet_features=np.zeros((len(start), 1)),
        chunks_per_clip=[1],
        chunk_start=[0.0],
        chunk_end=[10.0],
        chunk_features=np.zeros((1, 1)),
    )
    return Result(
        corpus=corpus.without_features(),
        actions=Actions.single(
            np.array([-1]),
            np.full(1, np.nan),
            np.full((1, 2), np.nan),
            np.full(1, np.nan),
        ),
        state=state.astype(np.int8),
        state_scores=np.ones((len(start), 2)),
        classifiers={},
        settings={},
        summary={},
    )
