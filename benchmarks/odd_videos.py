"""What this package and other tools do with odd videos.

    python -m benchmarks.odd_videos [--ffmpeg FFMPEG] [--scenedetect SCENEDETECT] [--keep FOLDER]

Makes about twenty odd videos, runs ``objectstates ingest`` on each, and prints a table. With
``--ffmpeg`` and ``--scenedetect`` (the programs, of an environment of their own) these tools decode
the same files. None of them is a dependency of this package. Every run is a process of its own with
`SECONDS` of time and `MEMORY` bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt

SECONDS = 120  # until a run counts as hanging
MEMORY = 8 << 30  # bytes of address space
FPS, COUNT, WIDTH, HEIGHT = 25, 50, 160, 120

Image = npt.NDArray[np.uint8]


def images(count: int = COUNT, width: int = WIDTH, height: int = HEIGHT) -> Iterator[Image]:
    """A bright square that moves over a textured ground."""
    ground = np.random.default_rng(0).integers(60, 110, (height, width, 3), np.uint8)
    side = max(min(width, height) // 4, 1)
    for i in range(count):
        image = ground.copy()
        x = (width - side) * i // max(count - 1, 1)
        image[height // 3 : height // 3 + side, x : x + side] = 230
        yield image


@contextmanager
def usual_priority() -> Iterator[None]:
    """Encode within: SVT-AV1 gives root's threads the highest real-time priority, ours too."""
    try:
        yield
    finally:
        if hasattr(os, "sched_setscheduler"):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def write(
    path: Path,
    *,
    codec: str = "libx264",
    pixels: str = "yuv420p",
    format: str | None = None,
    times: Callable[[int], float] = lambda i: i / FPS,
    count: int = COUNT,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    muxer: dict[str, str] | None = None,
) -> Path:
    """Encode the moving square; ``times`` gives the seconds of each frame."""
    opened = av.open(f"file:{path}", "w", format=format, options=muxer or {})
    with usual_priority(), opened as container:
        silent = {"x265-params": "log-level=none"} if codec == "libx265" else {}
        stream = cast(av.VideoStream, container.add_stream(codec, rate=FPS, options=silent))
        stream.width, stream.height = size
        stream.pix_fmt = pixels
        stream.codec_context.time_base = Fraction(1, 12_800)
        if not count:
            container.start_encoding()  # writes the headers alone
        for i, image in enumerate(images(count, *size)):
            frame = av.VideoFrame.from_ndarray(image)
            frame.pts, frame.time_base = round(times(i) * 12_800), Fraction(1, 12_800)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def write_sound(path: Path) -> None:
    """Two seconds of silence and no picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16_000), np.float32), "fltp", "mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())


def cut_to(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def damage(path: Path) -> None:
    """Random bytes in the middle, after the headers."""
    content = bytearray(path.read_bytes())
    first, last = len(content) * 2 // 5, len(content) * 3 // 5
    content[first:last] = np.random.default_rng(1).bytes(last - first)
    path.write_bytes(content)


def rotate(path: Path) -> None:
    """Set the display matrix of an MP4 file to a quarter turn."""
    content = bytearray(path.read_bytes())
    place = content.index(b"tkhd") + 4 + 40  # version 0: the matrix follows 40 bytes
    turn = (0, 1 << 16, 0, -(1 << 16) & 0xFFFFFFFF, 0, 0, 0, 0, 1 << 30)
    content[place : place + 36] = b"".join(value.to_bytes(4, "big") for value in turn)
    path.write_bytes(content)


def two_sizes(path: Path) -> None:
    """A transport stream whose frames change their size in the middle."""
    parts = []
    for number, size in enumerate(((WIDTH, HEIGHT), (2 * WIDTH, 2 * HEIGHT))):
        begun = number * COUNT / FPS
        piece = write(
            path.with_name(f"part{number}.ts"),
            format="mpegts",
            size=size,
            times=lambda i, begun=begun: begun + i / FPS,  # type: ignore[misc]
        )
        parts.append(piece.read_bytes())
        piece.unlink()
    path.write_bytes(b"".join(parts))


def gap_of(seconds: float) -> Callable[[int], float]:
    """Times of frames with a gap in the middle."""
    return lambda i: i / FPS + (seconds if i >= COUNT // 2 else 0.0)


def make_all(folder: Path) -> dict[str, Path]:  # long: a line or two per video
    """The videos, by what is odd about them."""
    made: dict[str, Path] = {}
    os.environ["SVT_LOG"] = "1"  # errors only

    def new(what: str, name: str) -> Path:
        made[what] = folder / name
        return made[what]

    write(new("nothing odd, to compare", "plain.mp4"))
    new("empty file", "empty.mp4").write_bytes(b"")
    new("text with the name of a video", "text.mp4").write_text("This is no video.\n" * 500)
    new("random bytes", "random.mkv").write_bytes(np.random.default_rng(0).bytes(20_000))
    cut_to(write(new("MP4 cut in half, its index lost", "half.mp4")), 0.5)
    cut_to(write(new("Matroska cut in half", "half.mkv")), 0.5)
    damage(write(new("damaged in the middle", "damaged.mp4")))
    write(new("no frames", "none.mkv"), count=0)
    write(new("one frame", "one.mp4"), count=1)
    write_sound(new("sound only", "sound.mp4"))
    write(new("Matroska named .mp4", "renamed.mp4"), format="matroska")
    write(new("gap of 60 s", "gap.mp4"), times=gap_of(60))
    write(new("gap of 100,000 s", "longgap.mkv"), times=gap_of(1e5))
    write(new("negative times", "negative.ts"), times=lambda i: i / FPS - 1,
          muxer={"avoid_negative_ts": "disabled"})  # fmt: skip
    write(new("all frames at one time", "still.mkv"), times=lambda i: i / 12_800)
    write(new("1,000 frames a second", "fast.mp4"), times=lambda i: i / 1000, count=500)
    two_sizes(new("size changes in the middle", "sizes.ts"))
    rotate(write(new("turned by 90 degrees", "turned.mp4")))
    write(new("AV1", "av1.mp4"), codec="libsvtav1")
    write(new("VP9 with transparency", "alpha.webm"), codec="libvpx-vp9", pixels="yuva420p")
    write(new("10 bits, 4:4:4", "deep.mkv"), codec="libx265", pixels="yuv444p10le")
    write(new("GIF", "anim.gif"), codec="gif", pixels="rgb8")
    write(new("33 x 17 pixels", "small.mkv"), codec="ffv1", pixels="yuv444p", size=(33, 17))
    write(new("12,000 x 9,000 pixels", "huge.mkv"), codec="mjpeg", pixels="yuvj420p", count=2,
          size=(12_000, 9_000))  # fmt: skip
    os.mkfifo(new("a pipe that nobody writes", "pipe.mp4"))
    return made


def limit() -> None:
    """Of a child process: no more memory than `MEMORY`, no core files."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def outcome(command: list[str], frames: Callable[[str], str], cwd: Path | None = None) -> str:
    """What a tool did: how many frames it read, its message, a traceback, a signal or a hang."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS,
            stdin=subprocess.DEVNULL, preexec_fn=limit, check=False, cwd=cwd,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"**hangs** (over {SECONDS} s)"
    if done.returncode < 0:
        return f"**dies of signal {-done.returncode}**"
    if "Traceback (most recent call last)" in done.stderr:
        return f"**traceback**: {done.stderr.strip().splitlines()[-1][:90]}"
    said = [line for line in done.stderr.splitlines() if line.strip() and "Progress:" not in line]
    if done.returncode:
        return f"refused in {_count(len(said), 'line')}"
    read = frames(done.stdout + done.stderr)
    return _count(read, "frame") + (f", {_count(len(said), 'line')} of warnings" if said else "")


def _count(number: int | str, thing: str) -> str:
    return f"{number} {thing}{'' if str(number) == '1' else 's'}"


def by_us(path: Path, folder: Path) -> str:
    out = folder / "corpus"
    words = ["-m", "objectstates", "ingest", str(path), "--out", str(out), "--no-cache", "--json",
             "--quiet"]  # fmt: skip

    def frames(text: str) -> str:
        return str(json.loads(text[text.index("{") : text.rindex("}") + 1])["frames"])

    return outcome([sys.executable, *words, "--processes", "1"], frames)


def by_ffmpeg(program: str, path: Path) -> str:
    words = ["-hide_banner", "-v", "error", "-nostdin", "-progress", "pipe:1", "-i", str(path)]
    return outcome(
        [program, *words, "-f", "null", "-"],
        lambda text: (re.findall(r"^frame=\s*(\d+)", text, re.M) or ["0"])[-1],
    )


def by_scenedetect(program: str, path: Path) -> str:
    return outcome(
        [program, "-i", str(path), "detect-content"],
        lambda text: (re.findall(r"Processed (\d+) frames", text) or ["0"])[-1],
        cwd=path.parent,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ffmpeg", help="the program ffmpeg")
    parser.add_argument("--scenedetect", help="the program scenedetect")
    parser.add_argument("--keep", type=Path, help="keep the videos in this folder")
    options = parser.parse_args()
    tools: dict[str, Callable[[Path, Path], Any]] = {"objectstates": by_us}
    if options.ffmpeg:
        tools["ffmpeg"] = lambda path, _: by_ffmpeg(options.ffmpeg, path)
    if options.scenedetect:
        tools["PySceneDetect"] = lambda path, _: by_scenedetect(options.scenedetect, path)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch) / "videos"
        folder.mkdir(parents=True, exist_ok=True)
        print("|", " | ".join(["video", *tools]), "|")
        print("|---" * (len(tools) + 1) + "|")
        for what, path in make_all(folder).items():
            cells = [tool(path, Path(scratch)) for tool in tools.values()]
            print("|", " | ".join([what, *cells]), "|", flush=True)


if __name__ == "__main__":
    main()
