"""Two small videos in which the object is a blue rectangle, and a result over three clips."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from objectstates import Box, Chunk, Clip, Corpus, Result, Tracklet, TrackletLabel
from objectstates.data.actions import Actions
from objectstates.data.label_names import LabelNames
from tests.chains import chain_result, draw_chain
from tests.video.videos import gray, write_video

WIDTH, HEIGHT, FPS, COUNT = 96, 64, 25, 100
NAMES = ('a/one & "only"', "../<b>-->\nescape", "=cmd|'/c calc'!A1")
STATES = (1, 1, 0, 2)


def box_at(time: float) -> Box:
    """Where the object is: it moves by four pixels a second, on whole pixels in every frame."""
    x = float(8 + 4 * int(time))
    return Box(time, x, 16.0, x + 32.0, 40.0)


def images():
    """Brightness tells the frame, up to 50 of them; the object is blue."""
    for i, image in enumerate(gray(COUNT, WIDTH, HEIGHT)):
        box = box_at(i / FPS)
        image[int(box.y1) : int(box.y2), int(box.x1) : int(box.x2)] = (0, 0, 250)
        yield image


def clip(name: str, video: str | None, start: float) -> Clip:
    """Two seconds: tracklets of 12 frames with a box each, chunks of 0.4 s."""
    tracklets = []
    for k, _ in enumerate(STATES):
        first = round(start * FPS) + 12 * k
        tracklets.append(
            Tracklet(
                start=first / FPS,
                end=(first + 12) / FPS,
                feature=np.zeros(1, np.float32),
                score=0.75,
                boxes=tuple(box_at(i / FPS) for i in range(first, first + 12)),
                label=TrackletLabel.STATE_1 if k == 0 else None,
            )
        )
    chunks = [
        Chunk(start + 0.4 * i, start + 0.4 * (i + 1), np.zeros(1, np.float32)) for i in range(5)
    ]
    return Clip(name, tuple(tracklets), tuple(chunks), video, start, start + 2)


def make_result(clips: list[Clip], object_name: object = "cup <big> & co") -> Result:
    n = len(clips)
    corpus = Corpus.from_clips(clips, info={"object": object_name})
    scores = np.tile([[0.9, 0.1], [0.8, 0.2], [0.3, 0.3], [-0.1, 0.7]], (n, 1))
    return Result(
        corpus=corpus.without_features(),
        actions=Actions.single(
            np.full(n, 2),
            corpus.chunks.time[2::5],
            np.stack([corpus.chunks.start[2::5], corpus.chunks.end[2::5]], axis=1),
            np.tile([0.0, 0.1, 0.6, 0.2, 0.0], n),
        ),
        state=np.tile(np.array(STATES, np.int8), n),
        state_scores=scores,
        classifiers={},
        settings={},
        summary={},
    )


@pytest.fixture(scope="session")
def videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    for name in ("a.mp4", "b.mp4"):
        write_video(folder / name, list(images()), fps=FPS, options={"crf": "1"})
    return folder


@pytest.fixture
def result(videos):
    a, b = str(videos / "a.mp4"), str(videos / "b.mp4")
    return make_result([clip(NAMES[0], a, 0.0), clip(NAMES[1], a, 2.0), clip(NAMES[2], b, 1.0)])


@pytest.fixture
def with_a_lost_video(result):
    """The same result, but the video of the last clip is gone."""
    lost = (*result.corpus.videos[:2], "/nowhere/lost.mp4")
    return replace(result, corpus=replace(result.corpus, videos=lost))


@pytest.fixture
def without_states(result):
    """As when only actions were sought."""
    nothing = np.full_like(result.state_scores, np.nan)
    return replace(result, state=np.zeros_like(result.state), state_scores=nothing)


@pytest.fixture
def without_actions(result):
    """As when only states were sought."""
    return replace(
        result,
        actions=Actions.single(
            np.full_like(result.action_chunk, -1),
            np.full_like(result.action_time, np.nan),
            np.full_like(result.action_span, np.nan),
            np.full_like(result.action_scores, np.nan),
        ),
    )


@pytest.fixture(scope="session")
def chain_video(tmp_path_factory):
    return draw_chain(tmp_path_factory.mktemp("chain") / "chain.mp4", 3)


@pytest.fixture
def chain(chain_video):
    """Three clips of two actions; the last one lacks the second, and with it state 3."""
    names = LabelNames.of("closed,open,closed", "opening,closing")
    return chain_result(2, 3, chain_video, names)
