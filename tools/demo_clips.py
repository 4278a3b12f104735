"""Make the data of ``objectstates demo``: short clips, their truth, and a detector.

    python -m tools.demo_clips ../shared/data/sim

The clips are the test clips of one simulated manipulation, shortened to about eight seconds. So
that the middle of a clip is no good guess of its action, each clip keeps little on one side of the
action and more on the other: the short side is that of ``crops.json`` beside the clips, the other
has a random length. The detector is trained on frames of the train clips, none of which is shipped.
"""

from __future__ import annotations

import argparse
import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from benchmarks.detector import TRAIN_CLIPS, all_clips, known
from objectstates.detect.fewshot_training import train
from objectstates.detect.from_truth import train_labels
from objectstates.video.reader import Image, read_frames

TASK, OBJECT = "drawer-open", "drawer"
FURTHER = 3.4, 5.0
"""Seconds kept on the longer side of the action, from and to."""
QUALITY = "25"
OUT = Path(__file__).parents[1] / "src" / "objectstates" / "demo" / "drawer"


def crop(name: str, truth: dict[str, Any], given: tuple[int, int]) -> tuple[int, int]:
    """The frames ``[first, last)`` to keep of a clip, within its one-sided crop ``given``."""
    first, last = given
    begun, ended = truth["action_frames"]
    further = round(random.Random(name).uniform(*FURTHER) * truth["fps"])
    if first > 0:  # the short side is before the action
        return first, min(last, ended + further)
    return max(first, begun - further), last


def cut_truth(truth: dict[str, Any], first: int, last: int) -> dict[str, Any]:
    """The truth of frames ``[first, last)``, with times from frame ``first``."""
    fps = truth["fps"]
    begun, ended = truth["action_frames"]
    return {
        "fps": fps,
        "n_frames": last - first,
        "action_interval_s": [(begun - first) / fps, (ended - first) / fps],
        "states": truth["states"],
        "object": {"box": truth["object"]["box"][first:last]},
    }


def encode(images: list[Image], fps: int, path: Path) -> None:
    """Write small H.264; one thread, so that the same frames give the same bytes."""
    with av.open(str(path), "w") as container:
        options = {"crf": QUALITY, "preset": "veryslow", "threads": "1"}
        stream = container.add_stream("libx264", rate=Fraction(fps), options=options)
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for image in images:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())


def make_clip(folder: Path, number: int, crops: dict[str, list[int]], out: Path) -> None:
    name = f"{TASK}_{number:03d}"
    truth = json.loads((folder / f"{name}.json").read_text())
    first, last = crop(name, truth, (crops[name][0], crops[name][1]))
    with read_frames(folder / f"{name}.mp4") as reading:
        images = [frame.image for frame in reading]
    short = f"{OBJECT}_{number:02d}"
    encode(images[first:last], truth["fps"], out / f"{short}.mp4")
    text = json.dumps(cut_truth(truth, first, last), separators=(",", ":"))
    (out / f"{short}.json").write_text(text + "\n")


def make_detector(folder: Path, out: Path) -> None:
    train(train_labels(known(folder, TRAIN_CLIPS), OBJECT)).save(out / f"{OBJECT}.npz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the simulated clips, one folder per task")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only-detector", action="store_true", help="leave the clips as they are")
    arguments = parser.parse_args()
    folder, out = arguments.folder / TASK, arguments.out
    crops = json.loads((arguments.folder / "crops.json").read_text())
    out.mkdir(parents=True, exist_ok=True)
    for number in all_clips(folder):
        if number not in TRAIN_CLIPS and not arguments.only_detector:
            make_clip(folder, number, crops, out)
    make_detector(folder, out)
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"{len(list(out.glob('*.mp4')))} clips and a detector in {out}, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
