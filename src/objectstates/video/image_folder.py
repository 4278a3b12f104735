"""Folders of numbered images, read as videos."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path

import cv2
import numpy as np

from objectstates.base.errors import VideoError
from objectstates.base.file_names import existing_path, printable_name
from objectstates.video.source import (
    IMAGE_SUFFIXES,
    Gray,
    Image,
    VideoInfo,
    as_video_error,
    check_gaps,
)


class ImageFolder:
    """A folder of images; the time of an image is its number divided by the rate."""

    def __init__(self, folder: Path, fps: float) -> None:
        with as_video_error(folder):
            series = image_series(os.listdir(existing_path(folder)))
        if not series:
            raise VideoError(
                f"{folder}: this folder is not one video; it must contain one series of images "
                "numbered like 000001.jpg, each number once"
            )
        self._folder = existing_path(folder)
        self._images = [((number - series[0][0]) / fps, name) for number, name in series]
        for index, (time, name) in enumerate(self._images):
            check_gaps(folder / name, 0.0, time, index)
        self._unreadable: list[str] = []
        self._resized: list[str] = []
        first = self._load(series[0][1])
        if first is None:
            raise VideoError(f"{folder / series[0][1]}: this image cannot be read; remove it")
        height, width = first.shape[:2]
        self.info = VideoInfo(folder, width, height, self._images[-1][0] + 1 / fps, fps)

    def timed(self, start: float) -> Iterator[tuple[float, str]]:
        """Names in order of time, from at least one before ``start`` on."""
        begin = bisect_left(self._images, start, key=lambda image: image[0])
        yield from self._images[max(0, begin - 1) :]

    def image(self, content: str, size: tuple[int, int]) -> Image | None:
        """The RGB image at the given width and height; None, and a problem, if unreadable."""
        rgb = self._load(content)
        if rgb is None:
            self._unreadable.append(content)
            return None
        if rgb.shape[1::-1] != (self.info.width, self.info.height):
            self._resized.append(content)
        if rgb.shape[1::-1] == size:
            return rgb
        return cv2.resize(rgb, size, interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)

    def gray_and_image(
        self, content: str, gray_size: tuple[int, int], size: tuple[int, int] | None
    ) -> tuple[Gray, Image | None] | None:
        """As in `VideoFile`; None, and a problem, if unreadable."""
        rgb = self.image(content, size or gray_size)
        if rgb is None:
            return None
        gray = np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.uint8)
        if gray.shape[::-1] != gray_size:
            gray = np.asarray(cv2.resize(gray, gray_size, interpolation=cv2.INTER_AREA), np.uint8)
        return gray, rgb if size else None

    def _load(self, name: str) -> Image | None:
        try:
            data = np.fromfile(self._folder / name, np.uint8)
        except OSError:
            return None
        bgr = cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
        if bgr is None:
            return None
        return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)

    def problems(self) -> list[str]:
        found = []
        for what, names in (
            ("images cannot be read", self._unreadable),
            ("images resized to the size of the first", self._resized),
        ):
            each = list(dict.fromkeys(names))  # one may have been read at two sizes
            if each:
                found.append(f"{len(each)} {what}, beginning with {printable_name(each[0])}")
        return found

    def close(self) -> None:
        pass


def image_series(names: Iterable[str]) -> list[tuple[int, str]]:
    """Numbers and names of images in order; empty unless they are one series."""
    images: list[tuple[int, str]] = []
    kinds = set()
    for name in names:
        stem, suffix = os.path.splitext(name)
        match = re.fullmatch(r"(.*?)([0-9]+)", stem)
        if match and suffix.lower() in IMAGE_SUFFIXES and not name.startswith("."):
            images.append((int(match[2]), name))
            kinds.add((match[1], suffix))
    one_series = len(kinds) == 1 and len({number for number, _ in images}) == len(images)
    return sorted(images) if one_series else []
