"""Videos of a robot dataset cut into segments: a file per segment, with its frames alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from objectstates.base.errors import VideoError
from objectstates.cut.encode import Coding, coding_of, encode, psnr
from objectstates.cut.segments import Segment
from objectstates.data.corpus import Array
from objectstates.robots.lerobot_dataset import VideoSpan
from objectstates.video.frames_at import nearest_index
from objectstates.video.video_file import VideoFile

KEY_FRAMES = "2"  # a key frame every two frames, as LeRobot has them: training reads single frames


def cut_camera(
    span: VideoSpan,
    times: Array,
    segments: Sequence[Segment],
    paths: Sequence[Path],
    crf: int | None,
) -> list[float | None]:
    """Write the ``segments`` of an episode; return their PSNR in dB, None of exact ones.

    times : (n,) of the rows of the episode, in seconds of it. Each must have a frame of its own.
    Files are MP4, since paths in a dataset are fixed: pixel formats and sizes that H.264 does not
    have are converted, and sound is left out.
    """
    with closing(VideoFile(span.path, 0)) as video:
        bounds = _frame_bounds(video, span, times)
    cuts = [
        replace(segment, start=bounds[segment.first], end=bounds[segment.last])
        for segment in segments
    ]
    targets = list(zip(cuts, paths, strict=True))
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    with closing(VideoFile(span.path, 0)) as video:  # read once more, from its beginning
        coding = _in_mp4(coding_of(video, None, crf), crf)
        encode(video, None, coding, targets)
    exact = crf is None and not coding.converted
    return [None if exact else psnr(span.path, *target) for target in targets]


def _in_mp4(coding: Coding, crf: int | None) -> Coding:
    options = {**coding.options, "g": KEY_FRAMES}
    if coding.suffix == ".mp4":
        return replace(coding, options=options)
    rate = {"qp": "0"} if crf is None else {"crf": str(crf)}
    options = {"preset": "veryfast", **rate, "g": KEY_FRAMES}
    return Coding("libx264", options, "yuv444p", ".mp4", converted=True)


def _frame_bounds(video: VideoFile, span: VideoSpan, times: Array) -> list[float]:
    """(n + 1) when the frame of each row is shown, in seconds of the video, and when the last ends.

    Times in datasets are rounded, so the nearest frame is taken.
    """
    wanted = (span.start or 0.0) + times
    step = float(np.median(np.diff(wanted))) if len(wanted) > 1 else 1 / video.info.fps
    shown = []
    for time, _ in video.timed(max(float(wanted[0]) - step, 0.0)):
        shown.append(time)
        if time > wanted[-1] + step:
            break
    if not shown:
        raise VideoError(f"{span.path}: no frame in the span of the episode")
    seen = np.array(shown)
    nearest = np.array([nearest_index(seen, time) for time in wanted.tolist()])
    missing = np.abs(seen[nearest] - wanted) > step / 2
    missing[1:] |= np.diff(nearest) <= 0
    if missing.any():
        row = int(missing.argmax())
        raise VideoError(
            f"{span.path}: no frame for row {row} of the episode, at {wanted[row]:.3f} s"
        )
    last = int(nearest[-1])
    end = seen[last + 1] if last + 1 < len(seen) else seen[last] + step
    return [*seen[nearest].tolist(), float(end)]
