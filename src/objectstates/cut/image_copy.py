"""Segments of folders of images: folders with copies of the images."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from objectstates.base.storage import replacing
from objectstates.cut.segments import Segment
from objectstates.video.image_folder import ImageFolder


def copy_images(images: ImageFolder, segments: Sequence[tuple[Segment, Path]]) -> None:
    """Write consecutive segments, each atomically; images keep their names."""
    for segment, path in segments:
        with replacing(path) as target:
            target.mkdir()
            for time, name in images.timed(segment.start):
                if segment.start - 1e-9 <= time < segment.end - 1e-9:
                    shutil.copyfile(images.info.path / name, target / os.path.basename(name))
