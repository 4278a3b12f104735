"""A result over the episodes of a small LeRobot dataset, made without discovery."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from objectstates import Clip, Result
from objectstates.data.label_names import LabelNames
from objectstates.robots.dataset_clips import find_dataset_clips
from tests.export.conftest import clip, make_result

NAMES = LabelNames.of("off,on", "press the switch")
ACTION = (0.8, 1.2)  # seconds of the episode, in all episodes: the third chunk


def result_of(root: Path, episodes: str | None = None) -> Result:
    """Every episode acts from 0.8 to 1.2 s."""
    clips: list[Clip] = []
    for span in find_dataset_clips([root], camera="front", episodes=episodes):
        assert span.episode is not None
        made = clip(span.id, str(span.video), span.episode.span.start)
        clips.append(replace(made, episode=span.episode.span))
    result = make_result(clips)
    info = {**result.corpus.info, "dataset": {"path": str(root)}}
    return replace(result, names=NAMES, corpus=replace(result.corpus, info=info))
