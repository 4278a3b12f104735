"""The decoders of the GPU benchmark deliver every frame."""

from importlib.resources import files
from pathlib import Path

from benchmarks.gpu import Decoders
from objectstates.video.reader import read_frames


def test_every_decoded_frame_arrives_once():
    videos = sorted(Path(str(files("objectstates") / "demo" / "drawer")).glob("*.mp4"))[:3]
    expected = sorted(
        frame.image.tobytes() for video in videos for frame in read_frames(video, max_side=320)
    )
    with Decoders(videos, 2, "cpu", batch=16) as batches:
        found = sorted(image.tobytes() for batch in batches for image in batch)
    assert found == expected
