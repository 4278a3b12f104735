"""How exactly the idle ends of clips are found.

    python -m benchmarks.idle ../shared/data/sim [--clips 2]

Of each manipulation in the folder the first train clips are used. Each is filmed again, with its
first and its last frame held for a while at the ends, as a camera would see a robot that stands
still: with noise, and encoded. Where the held parts end is known to a frame. In between the
simulated arm moves nearly all the time; ``cut_away`` counts seconds of the clip itself that were
dropped, and is not a mistake where the arm pauses at an end.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np

from objectstates.cut.idle import moving_span
from objectstates.evaluation.benchmark.manipulations import find_manipulations, read_manipulation
from objectstates.video.reader import Image, read_frames

HELD = (2.0, 3.0)  # seconds at the start and at the end
NOISES = (0, 3, 6)  # grey levels, uniform within plus and minus this
FPS = 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--clips", type=int, default=2)
    options = parser.parse_args()
    print("| manipulation | noise | kept of the idle ends (s of 5) | cut away (s) |")
    print("|---|---|---|---|")
    for folder in find_manipulations(options.data):
        found = read_manipulation(folder)
        videos = [clip.video for clip in found.train[: options.clips]]
        for noise in NOISES:
            rows = np.array([judged(video, noise) for video in videos])
            kept, lost = rows.mean(axis=0)
            print(f"| {found.name} | {noise} | {kept:.2f} | {lost:.2f} |", flush=True)


def judged(video: Path, noise: int) -> tuple[float, float]:
    """Seconds of the held ends that were kept, and of the clip that were dropped."""
    with read_frames(video) as frames:
        images = [frame.image for frame in frames]
    length = len(images) / FPS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "held.mp4"
        write(path, held(images, noise), images[0].shape[1::-1])
        span = moving_span(path, None, None)
    start, end = span or (0.0, length + sum(HELD))
    start, end = max(start, 0.0), min(end, length + sum(HELD))
    first, last = HELD[0], HELD[0] + length
    return max(first - start, 0) + max(end - last, 0), max(start - first, 0) + max(last - end, 0)


def held(images: list[Image], noise: int) -> Iterator[Image]:
    """The frames, the first and the last of them for longer, with noise."""
    rng = np.random.default_rng(0)
    before, after = (round(seconds * FPS) for seconds in HELD)
    for image in [*[images[0]] * before, *images, *[images[-1]] * after]:
        noisy = image + rng.integers(-noise, noise + 1, image.shape)
        yield np.clip(noisy, 0, 255).astype(np.uint8)


def write(path: Path, images: Iterator[Image], size: tuple[int, ...]) -> None:
    """Encode as phones and robots do; size : width and height."""
    with av.open(str(path), "w") as film:
        stream = film.add_stream("libx264", rate=FPS, options={"crf": "23"})
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        for image in images:
            film.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        film.mux(stream.encode())


if __name__ == "__main__":
    main()
