"""The memory of an ingest is flat: what comes out of a video never lies in it as a whole."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.ingest import peak_memory
from objectstates.data.corpus_io import ARTEFACT
from tests.video.videos import write_video

FPS = 5


def trembling(folder: Path, seconds: int) -> Path:
    """A textured thing that trembles, and boxes of twelve of its parts: much of few frames."""
    rng = np.random.default_rng(0)
    picture = np.kron(rng.integers(0, 255, (32, 42, 3)), np.ones((4, 4, 1))).astype(np.uint8)
    places = rng.integers(0, 4, (seconds * FPS, 2))
    images = [picture[y : y + 120, x : x + 160] for x, y in places]
    video = write_video(folder / f"{seconds}.mp4", images, fps=FPS)
    parts = [(x, y) for x in (4, 44, 84, 124) for y in (4, 44, 84)]
    rows = [f"{i},1,{x},{y},32,32,0.9" for i in range(1, len(images) + 1) for x, y in parts]
    video.with_suffix(".csv").write_text("\n".join(rows) + "\n")
    return video


def feature_bytes(corpus: Path) -> int:
    header = ARTEFACT.read_header(corpus)
    return sum(4 * t["rows"] * t["feature_size"] for t in (header["tracklets"], header["chunks"]))


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_peak_memory_does_not_grow_with_what_comes_out(tmp_path):
    """Twelve seconds are more than tracks reach back; from there on the memory stays as it is."""
    peaks, sizes = [], []
    for seconds in (12, 72):
        video, out = trembling(tmp_path, seconds), tmp_path / f"corpus{seconds}"
        detector = f"boxes:{video.with_suffix('.csv')}"
        options = ["--detector", detector, "--tracklet-seconds", "0.2"]
        peaks.append(peak_memory(video, out, *options))
        sizes.append(feature_bytes(out) / 2**20)
    grown = sizes[1] - sizes[0]
    assert grown > 60, "too few features to tell"
    assert peaks[1] - peaks[0] < 0.3 * grown
