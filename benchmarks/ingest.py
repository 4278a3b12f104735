"""How fast videos become a corpus: ``python -m benchmarks.ingest [--before SOURCES]``.

Two cases, of the demo's clips: 320 x 240 at 25 fps with the few-shot detector, and 640 x 480 at
30 fps with ``motion``. For each, milliseconds per frame of every stage in one process, and the
whole with two processes as a multiple of real time and of pure decoding. ``--before`` names the
folder ``src`` of another version, which is measured in turns with this one. Then the peak memory of
the command for ten seconds, a minute and half an hour of video; and one video of half an hour with
several processes against one, in turns (``--minutes`` for another length).
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, Self
from unittest.mock import patch

import av
import numpy as np

import objectstates
from objectstates.ingest.pipeline import IngestSettings, ingest
from objectstates.video.clip_list import ClipSpan, find_clips

RESULTS = Path(__file__).parent / "results"
FPS, SIZE = 25, (320, 240)
SOURCES = Path(objectstates.__file__).parents[1]
DEMO = SOURCES / "objectstates" / "demo" / "drawer"
REPEATS = 3


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


@dataclass(frozen=True)
class Case:
    """Videos of one size and rate, and a detector."""

    name: str
    size: tuple[int, int]
    fps: int
    detector: str


CASES = (
    Case("320 x 240, 25 fps, few-shot", (320, 240), 25, f"fewshot:{DEMO / 'drawer.npz'}"),
    Case("640 x 480, 30 fps, motion", (640, 480), 30, "motion"),
)


def demo_videos(folder: Path, case: Case) -> Path:
    """The demo's clips at the size and the rate of a case; they last as long as before."""
    folder.mkdir()
    for source in sorted(DEMO.glob("*.mp4")):
        with av.open(str(source)) as given, av.open(str(folder / source.name), "w") as made:
            stream = made.add_stream("libx264", rate=case.fps, options={"preset": "veryfast"})
            stream.width, stream.height, stream.pix_fmt = *case.size, "yuv420p"
            frames = list(given.decode(video=0))
            for index in range(len(frames) * case.fps // FPS):
                frame = frames[index * FPS // case.fps]
                resized = frame.reformat(*case.size, "yuv420p", interpolation="BICUBIC")
                resized.pts, resized.time_base = index, Fraction(1, case.fps)
                made.mux(stream.encode(resized))
            made.mux(stream.encode())
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


def stages(clips: list[ClipSpan], settings: IngestSettings, frames: int) -> dict[str, float]:
    """Milliseconds of each stage, in one process, per frame of the videos."""
    from objectstates.detect import fewshot, precomputed_boxes
    from objectstates.features import feature_maps, flow, lite0
    from objectstates.ingest import clip_frames, observe, worker
    from objectstates.track import tracker
    from objectstates.video import video_file

    watch = Stopwatch()
    parts: list[tuple[Any, str, str]] = [
        (video_file.VideoFile, "_pixels", "convert"),
        (worker, "clip_change", "change profile"),
        (clip_frames, "align_frames", "change profile"),
        (clip_frames, "change_of", "change profile"),
        (tracker.Tracker, "update", "track"),
        (tracker.Tracker, "finish", "track"),
        (flow.FlowEstimator, "update", "flow"),
        (lite0.Lite0, "maps", "network"),
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
        ingest(clips, settings)
        total = time.perf_counter() - begin
    rows = {stage: 1e3 * s / frames for stage, s in watch.seconds.items()}
    rows["everything else"] = 1e3 * total / frames - sum(rows.values())
    return {**rows, "total": 1e3 * total / frames}


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
    parser.add_argument("--before", type=Path, help="folder src of another version to compare")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="medians are of so many")
    parser.add_argument("--long", type=float, default=1800, help="seconds of the long video")
    parser.add_argument(
        "--minutes", type=float, default=30, help="length of the video for several processes"
    )
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--one-video", action="store_true", help="measure one long video alone")
    alone.add_argument("--memory", action="store_true", help="measure the peak memory alone")
    alone.add_argument("--speed", action="store_true", help="measure the speed alone")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="objectstates-"))
    try:
        report = measure(options, folder)
    finally:
        shutil.rmtree(folder)
    RESULTS.mkdir(exist_ok=True)
    name = "ingest.json"
    if options.memory or options.one_video:
        name = "ingest_memory.json" if options.memory else "ingest_one_video.json"
    (RESULTS / name).write_text(json.dumps(report, indent=1) + "\n")
    show(report)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All measurements, or the one that was asked for alone."""
    measures: dict[str, Callable[[argparse.Namespace, Path], Any]] = {
        "speed": measure_speed,
        "peak_mb": measure_memory,
        "one_video": measure_one_video,
    }
    chosen = {"speed": options.speed, "peak_mb": options.memory, "one_video": options.one_video}
    names = [name for name in measures if chosen[name]] or list(measures)
    return {name: measures[name](options, folder) for name in names}


def measure_one_video(options: argparse.Namespace, folder: Path) -> dict[str, dict[str, float]]:
    """Wall seconds of one long video, by the number of processes, for each detector."""
    (folder / "one").mkdir()
    video = draw_video(folder / "one" / "video.mp4", 60 * options.minutes, 102)
    clip = ClipSpan("video", video)
    boxes = write_boxes(folder / "one", [clip], {clip.id: round(60 * options.minutes * FPS)})
    rows = {}
    for detector in (f"boxes:{boxes / 'video.csv'}", "motion"):
        seconds: dict[int, list[float]] = {1: [], options.processes: []}
        with ExitStack() as stack:
            running = {
                count: stack.enter_context(_Version(SOURCES, video, detector, count))
                for count in seconds
            }
            for _ in range(options.repeats):
                for count, version in running.items():
                    seconds[count].append(version.ingest())
        one, several = (median(times) for times in seconds.values())
        rows[detector.partition(":")[0]] = {
            "video_seconds": 60 * options.minutes,
            "wall_seconds_1": one,
            f"wall_seconds_{options.processes}": several,
            "ratio": one / several,
        }
    return rows


def measure_memory(options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Megabytes at the peak, by the length of the video."""
    peaks: dict[str, float] = {}
    (folder / "long").mkdir()
    for seconds in (10, 60, options.long):
        name = f"{seconds:g} s"
        clip = ClipSpan(name, draw_video(folder / "long" / f"{seconds:g}.mp4", seconds, 101))
        boxes = write_boxes(folder / "long", [clip], {name: round(seconds * FPS)})
        detector = f"boxes:{boxes / f'{seconds:g}.csv'}"
        words = ("--detector", detector, "--tracklet-seconds", "1")  # whatever the video's length
        if not peaks:
            peak_memory(clip.video, folder / "corpus", *words)  # compile all once
        peaks[name] = peak_memory(clip.video, folder / "corpus", *words)
    return peaks


def measure_speed(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return {case.name: measure_case(case, options, folder / str(case.fps)) for case in CASES}


def measure_case(case: Case, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    clips = find_clips([demo_videos(folder, case)])
    frames = sum(decode(clip.video) for clip in clips)
    versions = {"now": SOURCES}
    if options.before:
        versions["before"] = options.before.resolve()
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(_Version(sources, folder, case.detector, options.processes))
            for name, sources in versions.items()
        }
        decoding, seconds = [], {name: list[float]() for name in versions}
        for _ in range(options.repeats):
            begin = time.perf_counter()
            for clip in clips:
                decode(clip.video)
            decoding.append(time.perf_counter() - begin)
            for name, version in running.items():
                seconds[name].append(version.ingest())
        peaks = {name: version.peak_mb() for name, version in running.items()}
    rows = {
        name: {
            "wall_seconds": median(times),
            "times_real_time": frames / case.fps / median(times),
            "to_pure_decoding": median(times) / median(decoding),
            "peak_mb_per_process": peaks[name],
        }
        for name, times in seconds.items()
    }
    return {
        "video_seconds": frames / case.fps,
        "processes": options.processes,
        "ms_per_frame": stages(clips, IngestSettings(detector=case.detector), frames),
        **rows,
    }


class _Version:
    """A process that ingests with the sources of one version, when told to."""

    def __init__(self, sources: Path, videos: Path, detector: str, processes: int) -> None:
        settings = (str(videos), detector, str(processes))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _INGEST, *settings],
            env={**os.environ, "PYTHONPATH": str(sources)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ask("")  # loaded and compiled

    def _ask(self, word: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if word:
            print(word, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def ingest(self) -> float:
        """Seconds that one ingest takes."""
        return self._ask("ingest")

    def peak_mb(self) -> float:
        """Megabytes at the peak of the largest worker process of one more ingest."""
        return self._ask("peak")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


_INGEST = """
import sys, threading, time
from dataclasses import replace
from pathlib import Path
from objectstates.ingest.pipeline import IngestSettings, ingest
from objectstates.video.clip_list import find_clips

def peaks(process):
    # kB of the processes below one, at the peak so far of each
    for child in (process / "task" / process.name / "children").read_text().split():
        child = Path("/proc", child)
        lines = (child / "status").read_text().splitlines()
        yield from (int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
        yield from peaks(child)

def largest_peak(ended):
    largest = 0
    while not ended.wait(0.05):
        try:
            largest = max(largest, *peaks(Path("/proc/self").resolve()), 0)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended meanwhile
    print(largest / 1024, flush=True)

if __name__ == "__main__":
    videos, detector, processes = sys.argv[1:]
    clips, settings = find_clips([videos]), IngestSettings(detector=detector)
    ingest([replace(clip, end=5.0) for clip in clips[:2]], settings, processes=int(processes))
    print(0.0, flush=True)
    for line in sys.stdin:
        if line.strip() == "peak":
            ended = threading.Event()
            watch = threading.Thread(target=largest_peak, args=[ended])
            watch.start()
            ingest(clips, settings, processes=int(processes))
            ended.set()
            watch.join()
            continue
        begin = time.perf_counter()
        ingest(clips, settings, processes=int(processes))
        print(time.perf_counter() - begin, flush=True)
"""


def show(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for case, rows in report.get("speed", {}).items():
        table = Table("stage, one process", "ms/frame", title=case)
        for stage, ms in rows["ms_per_frame"].items():
            table.add_row(stage, f"{ms:.2f}")
        console.print(table)
        heads = ("x real time", "x pure decoding", "MB per process")
        table = Table(f"{rows['processes']} processes", *heads, title=case)
        for name in ("before", "now"):
            if row := rows.get(name):
                values = (row["times_real_time"], row["to_pure_decoding"])
                peak = f"{row['peak_mb_per_process']:.0f}"
                table.add_row(name, *(f"{value:.1f}" for value in values), peak)
        console.print(table)
    if peaks := report.get("peak_mb"):
        table = Table("video", "peak memory, one process", "to that of 60 s")
        for length, peak in peaks.items():
            table.add_row(length, f"{peak:.0f} MB", f"{peak / peaks['60 s']:.3f}")
        console.print(table)
    if videos := report.get("one_video"):
        table = Table("one video", "detector", "seconds by processes", "times as fast")
        for detector, row in videos.items():
            walls = [f"{key[13:]}: {s:.0f}" for key, s in row.items() if key.startswith("wall")]
            length = f"{row['video_seconds'] / 60:g} min"
            table.add_row(length, detector, ", ".join(walls), f"{row['ratio']:.2f}")
        console.print(table)


if __name__ == "__main__":
    main()
