"""Metadata and errors of videos, whether files or folders of images."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from objectstates.base.errors import VideoError

Image = npt.NDArray[np.uint8]  # (H, W, 3) RGB
Gray = npt.NDArray[np.uint8]  # (H, W)

VIDEO_SUFFIXES = (
    *(".3gp", ".avi", ".flv", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4"),
    *(".mpeg", ".mpg", ".mts", ".ogv", ".ts", ".vob", ".webm", ".wmv"),
)
IMAGE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """Metadata of a video.

    width, height : pixels of the upright image at full size.
    duration : seconds, as declared in the file; a damaged file may end earlier.
    fps : nominal frames per second; the mean of a variable rate.
    rotation : degrees clockwise from the stored to the upright image.
    """

    path: Path
    width: int
    height: int
    duration: float
    fps: float
    rotation: int = 0


LONGEST_GAP, SPARSEST = 3600.0, 10.0
"""Seconds: the frames of a video may be this far apart in all, and on average besides.

Chunks cover all of a video's time, so a few frames with times far apart would fill any memory.
"""


def check_gaps(path: Path, first: float, time: float, index: int) -> None:
    """Raise if the frame of this index, counted from the one at ``first``, comes too late."""
    if time - first > LONGEST_GAP + SPARSEST * index:
        raise VideoError(
            f"{path}: frame {index} comes {time - first:.6g} s after the first: frames are farther "
            f"apart than {SPARSEST:g} s on average; write the video again with right times"
        )


_REASONS = (
    (FileNotFoundError, "this does not exist; check the path"),
    (PermissionError, "permission denied; make it readable for you"),
    (
        av.error.InvalidDataError,
        "this is not a video, or its index is missing, as when a file was cut short; copy or "
        "download it again, and see whether it plays elsewhere",
    ),
)


@contextmanager
def as_video_error(path: Path) -> Iterator[None]:
    """Convert errors of the system and the decoder to `VideoError`, with a remedy."""
    try:
        yield
    except (av.FFmpegError, OSError) as error:
        other = f"reading failed ({error.strerror or error}); see whether it plays elsewhere"
        reason = next((text for kind, text in _REASONS if isinstance(error, kind)), other)
        raise VideoError(f"{path}: {reason}") from error
