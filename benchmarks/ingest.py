"""How fast videos become a corpus: ``python -m benchmarks.ingest [--videos FOLDER]``.

On 320 x 240 at 25 fps: milliseconds per frame of each stage on one core, the whole with two
processes as a multiple of real time and of pure decoding, and the peak memory of the command for
ten seconds, a minute and half an hour of video. Without videos of your own, some are drawn.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import av
import numpy as np

from objectstates.ingest.pipeline import IngestSettings, ingest
from objectstates.video.clip_list import ClipSpan, find_clips

RESULTS = Path(__file__).parent / "results"
FPS, SIZE = 25, (320, 240)


# --- videos ---------------------------------------------------------------------------------------


def draw_video(path: Path, seconds: float, seed: int) -> Path:
    """Textured things that drift over a textured table under a slightly shaking camera."""
    import cv2

    rng = np.random.default_rng(seed)
    rough = rng.integers(0, 255, (SIZE[1] // 4 + 8, SIZE[0] // 4 + 8, 3), np.uint8)
    table = cv2.resize(rough, (SIZE[0] + 32, SIZE[1] + 32), interpolation=cv2.INTER_CUBIC)
    things = [rng.integers(0, 255, (60, 80, 3), np.uint8) for _ in range(3)]
    things = [cv2.blur(thing, (5, 5)) for thing in things]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        for i in range(round(seconds * FPS)):
            dx, dy = (8 + 6 * np.sin([i / 40, i / 55])).astype(int)
            image = np.array(table[dy : dy + SIZE[1], dx : dx + SIZE[0]], np.uint8)
            for k, thing in enumerate(things):
                x = int(120 + 100 * np.sin(i / (60 + 20 * k) + k))
                y = 20 + 60 * k
                image[y : y + 60, x : x + 80] = thing
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image)))
        container.mux(stream.encode())
    return path


def write_boxes(folder: Path, clips: list[ClipSpan], frames: dict[str, int]) -> Path:
    """Boxes for a detector that costs nothing: a quarter of the frame, everywhere."""
    for clip in clips:
        rows = [f"{i + 1},1,100,70,100,80,0.9" for i in range(0, frames[clip.id], 5)]
        (folder / f"{clip.video.stem}.csv").write_text("\n".join(rows) + "\n")
    return folder


def decode(path: Path) -> int:
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(video=0))


# --- measurements ---------------------------------------------------------------------------------


class Stopwatch:
    """Adds up the time spent in functions, by stage; inner stages are not counted twice."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner = [0.0]

    def wrap(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            begin = time.perf_counter()
            self._inner.append(0.0)
            try:
                return function(*args, **options)
            finally:
                spent = time.perf_counter() - begin
                self.seconds[stage] += spent - self._inner.pop()
                self._inner[-1] += spent

        return timed


def stages(clips: list[ClipSpan], settings: IngestSettings) -> dict[str, float]:
    """Milliseconds per frame of each stage, in one process."""
    from objectstates.detect import fewshot, precomputed_boxes
    from objectstates.features import feature_maps, flow, lite0
    from objectstates.ingest import observe
    from objectstates.track import tracker
    from objectstates.video import reader

    watch = Stopwatch()
    parts: list[tuple[Any, str, str]] = [
        (reader.Reading, "__next__", "decode"),
        (tracker.Tracker, "update", "track"),
        (tracker.Tracker, "finish", "track"),
        (flow.FlowEstimator, "update", "flow"),
        (lite0.Lite0, "_run", "network"),
        (precomputed_boxes.ClipBoxes, "detect", "detect"),
        (fewshot.FewShotDetector, "detect", "detect"),
        (fewshot.FewShotDetector, "detect_with_maps", "detect"),
        (feature_maps.HostFeatureMaps, "describe_boxes", "appearance of boxes"),
        (feature_maps, "describe_frames", "appearance of frames"),
        (observe, "motion_field", "object motion"),
        (observe, "object_motion", "object motion"),
    ]
    with ExitStack() as stack:
        for owner, name, stage in parts:
            wrapped = watch.wrap(stage, getattr(owner, name))
            stack.enter_context(patch.object(owner, name, wrapped))
        begin = time.perf_counter()
        _, report = ingest(clips, settings)
        total = time.perf_counter() - begin
    rows = {stage: 1e3 * s / report.frames for stage, s in watch.seconds.items()}
    rows["everything else"] = 1e3 * total / report.frames - sum(rows.values())
    return {**rows, "total": 1e3 * total / report.frames}


def peak_memory(video: Path, out: Path, *options: str) -> float:
    """Megabytes at the peak of ``objectstates ingest`` of a video to ``out``, in one process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="objectstates-") as cache:
        words = ["ingest", str(video), "--out", str(out), "--cache", cache, "--processes", "1"]
        words += options
        process = context.Process(target=_measure_memory, args=(words, theirs))
        process.start()
        theirs.close()
        peak = ours.recv()
        process.join()
    return float(peak)


def _measure_memory(words: list[str], pipe: Connection) -> None:
    """Run a command here, and send the most memory that was ever resident."""
    from objectstates import cli

    sys.argv = ["objectstates", *words]
    try:
        with redirect_stdout(io.StringIO()):
            cli.main()
    except SystemExit as end:
        if end.code:
            raise
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM"))
    pipe.send(int(peak.split()[1]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--videos", type=Path, help="a folder of 320 x 240 videos")
    parser.add_argument("--detector", help="instead of boxes that cost nothing")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--long", type=float, default=1800, help="seconds of the long video")
    parser.add_argument("--memory", action="store_true", help="measure the peak memory alone")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="objectstates-"))
    try:
        report = {} if options.memory else measure_speed(options, folder)
        report["peak_mb"] = measure_memory(options, folder)
    finally:
        shutil.rmtree(folder)
    RESULTS.mkdir(exist_ok=True)
    name = "ingest_memory.json" if options.memory else "ingest.json"
    (RESULTS / name).write_text(json.dumps(report, indent=1) + "\n")
    show(report)


def measure_memory(options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Megabytes at the peak, by the length of the video."""
    peaks: dict[str, float] = {}
    (folder / "long").mkdir()
    for seconds in (10, 60, options.long):
        name = f"{seconds:g} s"
        clip = ClipSpan(name, draw_video(folder / "long" / f"{seconds:g}.mp4", seconds, 101))
        boxes = write_boxes(folder / "long", [clip], {name: round(seconds * FPS)})
        detector = options.detector or f"boxes:{boxes / f'{seconds:g}.csv'}"
        words = ("--detector", detector, "--tracklet-seconds", "1")  # whatever the video's length
        if not peaks:
            peak_memory(clip.video, folder / "corpus", *words)  # compile all once
        peaks[name] = peak_memory(clip.video, folder / "corpus", *words)
    return peaks


def measure_speed(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    if options.videos is None:
        for i in range(6):
            draw_video(folder / f"clip{i}.mp4", 15, i)
    clips = find_clips([options.videos or folder])
    frames = {clip.id: decode(clip.video) for clip in clips}
    (folder / "boxes").mkdir()
    boxes = write_boxes(folder / "boxes", clips, frames)
    settings = IngestSettings(detector=options.detector or f"boxes:{boxes}")
    ingest(clips[:1], settings)  # compile and load everything once
    decoding, whole = [], []
    total = sum(frames[clip.id] for clip in clips)
    for _ in range(3):
        begin = time.perf_counter()
        for clip in clips:
            decode(clip.video)
        decoding.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        ingest(clips, settings, processes=options.processes)
        whole.append(time.perf_counter() - begin)
    seconds = total / FPS
    return {
        "detector": settings.detector.split(":")[0],
        "ms_per_frame": stages(clips, settings),
        "video_seconds": seconds,
        "processes": options.processes,
        "wall_seconds": median(whole),
        "times_real_time": seconds / median(whole),
        "to_pure_decoding": median(whole) / median(decoding),
    }


def show(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if "ms_per_frame" in report:
        table = Table("stage, one process", "ms/frame")
        for stage, ms in report["ms_per_frame"].items():
            table.add_row(stage, f"{ms:.2f}")
        console.print(table)
        console.print(
            f"{report['video_seconds']:.0f} s of video in {report['wall_seconds']:.1f} s with "
            f"{report['processes']} processes: {report['times_real_time']:.1f} x real time, "
            f"{report['to_pure_decoding']:.0f} x pure decoding"
        )
    table = Table("video", "peak memory, one process", "to that of 60 s")
    for length, peak in report["peak_mb"].items():
        table.add_row(length, f"{peak:.0f} MB", f"{peak / report['peak_mb']['60 s']:.3f}")
    console.print(table)


if __name__ == "__main__":
    main()
