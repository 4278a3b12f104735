"""Synthetic pictures: one textured thing on backgrounds that differ, among other things."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from objectstates.video.reader import Image
from tests.conftest import SHARED

SIZE = (160, 120)


def background(rng: np.random.Generator, size: tuple[int, int] = SIZE) -> Image:
    """Smooth colours with some noise, and two plain shapes that are not the thing."""
    width, height = size
    coarse = rng.integers(40, 200, (4, 5, 3)).astype(np.uint8)
    smooth = cv2.resize(coarse, size, interpolation=cv2.INTER_CUBIC).astype(np.float32)
    smooth += rng.normal(0, 6, smooth.shape)
    image = np.clip(smooth, 0, 255).astype(np.uint8)
    for _ in range(2):
        x, y = rng.integers(0, width - 30), rng.integers(0, height - 30)
        colour = rng.integers(0, 255, 3).tolist()
        cv2.rectangle(image, (int(x), int(y)), (int(x) + 28, int(y) + 22), colour, -1)
    return image


def thing(width: int, height: int) -> Image:
    """A board with a ring and stripes, in bright colours."""
    board = np.zeros((60, 80, 3), np.uint8)
    board[:] = (230, 190, 40)
    board[:, ::8] = (60, 30, 120)
    cv2.circle(board, (40, 30), 22, (200, 30, 30), -1)
    cv2.circle(board, (40, 30), 10, (240, 240, 240), -1)
    cv2.rectangle(board, (0, 0), (79, 59), (20, 20, 20), 4)
    return cv2.resize(board, (width, height), interpolation=cv2.INTER_AREA).astype(np.uint8)


def picture(rng: np.random.Generator) -> tuple[Image, list[int]]:
    """A picture with the thing somewhere in it, and its box ``x, y, width, height``."""
    image = background(rng)
    width = int(rng.integers(40, 64))
    height = int(width * rng.uniform(0.68, 0.82))
    x = int(rng.integers(0, SIZE[0] - width))
    y = int(rng.integers(0, SIZE[1] - height))
    image[y : y + height, x : x + width] = thing(width, height)
    return image, [x, y, width, height]


def write_png(path: Path, image: Image) -> None:
    cv2.imwrite(str(path), cv2.cvtColor(image, cv2.COLOR_RGB2BGR))


def labelled_folder(folder: Path, count: int, seed: int) -> Path:
    """Pictures and their labels; returns the label file."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    images, annotations = [], []
    for k in range(count):
        image, box = picture(rng)
        write_png(folder / f"{k}.png", image)
        images.append({"id": k, "file_name": f"{k}.png", "width": SIZE[0], "height": SIZE[1]})
        annotations.append({"id": k, "image_id": k, "category_id": 3, "bbox": box})
    content = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": 3, "name": "board"}],
    }
    path = folder / "labels.json"
    path.write_text(json.dumps(content))
    return path


def simulated(task: str) -> Path:
    folder = SHARED / "data" / "sim" / task
    if not folder.is_dir():
        pytest.skip(f"needs the simulated clips in {folder}")
    return folder
