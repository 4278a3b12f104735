"""Feature extraction on a GPU: ``python -m benchmarks.gpu [--devices cuda cpu] [--videos FOLDER]``.

Frames of 320 x 240 per second, for the paper's ResNet-50 and for DINOv2-small with random weights
(as fast as trained ones), and their ratio to the rate of the network alone, of

- the network alone, on frames in device memory;
- whole maps copied to host memory;
- ten boxes per frame described, as in an ingest, from frames in host memory to vectors there;
- the same from video files, which other processes decode meanwhile.

Each is repeated; the median and the slowest are shown. Then the stages one at a time, synchronised:
the time and the share of each, by CUDA events on the device and by the clock on the host. The CPU
is measured for comparison.
"""

# ruff: noqa: SLF001 -- stages are timed by wrapping private functions

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np

from objectstates.base.torch_utils import cpu_threads, page_locked
from objectstates.features import torch_backbones, torch_feature_maps
from objectstates.features.backbones import FeatureMaps, Frames, Image
from objectstates.features.torch_backbones import TorchBackbone, resnet50
from objectstates.video.clip_list import find_clips
from objectstates.video.reader import read_frames

RESULTS = Path(__file__).parent / "results"
SIZE = (240, 320)
BATCH = torch_backbones.PART
BOXES = 10  # per frame
AHEAD = 2  # batches that are queued
SLOTS = 2  # batches that a process decodes ahead
REPEATS = 5
Make = Callable[..., TorchBackbone]


# --- networks -------------------------------------------------------------------------------------


def random_resnet50(device: str, threads: int = 1) -> TorchBackbone:
    import torch

    torch.manual_seed(0)
    return resnet50(device, threads, weights="random")


def dinov2_small(device: str, threads: int = 1) -> TorchBackbone:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.Dinov2Config(hidden_size=384, num_attention_heads=6, patch_size=14)
    network = transformers.AutoModel.from_config(config).eval()

    def forward(x: Any) -> Any:
        rows, columns = x.shape[2] // 14, x.shape[3] // 14
        tokens = network(x).last_hidden_state[:, -rows * columns :]
        return tokens.reshape(len(x), rows, columns, 384).permute(0, 3, 1, 2)

    return TorchBackbone(
        network, forward, name="dinov2-small", stride=14, channels=384, device=device,
        threads=threads,
    )  # fmt: skip


# --- from frames to vectors -----------------------------------------------------------------------


def random_boxes(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    corners = rng.uniform(0, 140, (count, BOXES, 2))
    return list(np.concatenate([corners, corners + rng.uniform(40, 90, corners.shape)], axis=2))


def described(backbone: TorchBackbone, batches: Iterable[Frames]) -> Iterator[int]:
    """Describe boxes and frames of each batch; yields how many frames.

    Some batches are always queued ahead: the device works on them while the host takes what the
    one before gave, and waits for the next.
    """
    boxes = random_boxes(BATCH)
    queued = deque[tuple[FeatureMaps, int]]()
    for batch in batches:
        queued.append((backbone.device_maps(batch), len(batch)))
        if len(queued) > AHEAD:
            maps, count = queued.popleft()
            yield taken(maps, boxes[:count])
    for maps, count in queued:
        yield taken(maps, boxes[:count])


def taken(maps: FeatureMaps, boxes: list[np.ndarray]) -> int:
    vectors, whole = maps.describe_boxes(boxes), maps.describe_frames()
    assert np.isfinite(vectors[-1]).all()
    return len(whole)


class Decoders:
    """Processes that decode videos into shared memory, a batch of frames at a time.

    Processes rather than threads: Python enqueues the network's kernels, and decoding threads would
    hold its lock. An idle process takes the next video. Each has its own memory, mapped once and
    page-locked for a GPU, which copies frames from where they were decoded to. On entry all
    processes are started and wait for the first iteration.
    """

    def __init__(self, videos: list[Path], processes: int, device: str, batch: int = BATCH) -> None:
        context = multiprocessing.get_context("spawn")
        self._device, self._shape = device, (SLOTS, batch, *SIZE, 3)
        size = int(np.prod(self._shape))
        self._memory = [SharedMemory(create=True, size=size) for _ in range(processes)]
        self._free = [context.Queue() for _ in range(processes)]  # slots of each
        self._full, self._todo = context.Queue(), context.Queue()
        for video in [*videos, *[None] * processes]:
            self._todo.put(video)
        self._start = context.Barrier(processes + 1)
        common = self._shape, self._todo, self._full, self._start
        self._processes = [
            context.Process(target=_decode, args=(i, memory.name, free, *common), daemon=True)
            for i, (memory, free) in enumerate(zip(self._memory, self._free, strict=True))
        ]
        self._stack = ExitStack()

    def __enter__(self) -> Decoders:
        for process in self._processes:
            process.start()
        for memory, free in zip(self._memory, self._free, strict=True):
            self._stack.callback(memory.unlink)
            self._stack.callback(memory.close)
            if self._device.startswith("cuda"):
                array = np.ndarray(self._shape, np.uint8, memory.buf)
                self._stack.enter_context(page_locked(array))
            for slot in range(SLOTS):
                free.put(slot)
        self._start.wait(timeout=60)  # one that cannot start is not waited for
        return self

    def __iter__(self) -> Iterator[Frames]:
        batch = self._shape[1]
        ends: list[Image] = []
        for _ in self._processes:
            for process, slot, count in iter(self._full.get, None):
                frames = np.ndarray(self._shape, np.uint8, self._memory[process].buf)[slot, :count]
                if count == batch:
                    yield frames
                    self._free[process].put(slot)  # the frames are on the device, see `device_maps`
                else:
                    ends.extend(frames)
        for start in range(0, len(ends), batch):
            yield ends[start : start + batch]

    def __exit__(self, error: object, *_: object) -> None:
        for process in self._processes:
            if error is not None:
                process.terminate()  # or it waits for a free slot
            process.join()
        self._stack.close()


def _decode(
    me: int, memory: str, free: Any, shape: tuple[int, ...], todo: Any, full: Any, start: Any
) -> None:
    shared = SharedMemory(memory)
    slots = np.ndarray(shape, np.uint8, shared.buf)
    start.wait()
    frames = chain.from_iterable(map(_images, iter(todo.get, None)))
    count = shape[1]
    while count == shape[1]:
        slot, count = free.get(), 0
        for count, image in enumerate(islice(frames, shape[1]), start=1):
            slots[slot, count - 1] = image
        full.put((me, slot, count))
    full.put(None)
    del slots
    shared.close()


def _images(video: Path) -> Iterator[Image]:
    with read_frames(video) as frames:
        for frame in frames:
            yield frame.image


# --- timing ---------------------------------------------------------------------------------------


def rates(work: Callable[[], object], frames: int, seconds: float = 0.5) -> list[float]:
    """Frames per second, several times for about ``seconds``."""
    work()
    begun = time.perf_counter()
    work()
    rounds = max(1, round(seconds / max(time.perf_counter() - begun, 1e-6)))
    found = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        for _ in range(rounds):
            work()
        found.append(rounds * frames / (time.perf_counter() - begun))
    return found


def synchronise(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize()


class Stages:
    """Adds up the time of stages: by CUDA events in the stream they are queued in, or the clock."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._clock: dict[str, float] = defaultdict(float)
        self._events: dict[str, list[tuple[Any, Any]]] = defaultdict(list)

    def on_host(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            result = function(*args, **options)
            self._clock[stage] += time.perf_counter() - begun
            return result

        return timed

    def on_device(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if not self._device.startswith("cuda"):
            return self.on_host(stage, function)
        import torch

        def timed(*args: Any, **options: Any) -> Any:
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            result = function(*args, **options)
            last.record()
            self._events[stage].append((first, last))
            return result

        return timed

    def seconds(self) -> dict[str, float]:
        synchronise(self._device)
        on_device = {
            stage: sum(first.elapsed_time(last) for first, last in events) / 1e3
            for stage, events in self._events.items()
        }
        return {**self._clock, **on_device}


@contextmanager
def staged(backbone: TorchBackbone, device: str) -> Iterator[Stages]:
    """The stages of a backbone's `device_maps`, timed."""
    stages = Stages(device)
    parts = [(backbone, "_map", "forward"), (torch_feature_maps, "_pooled", "pooling")]
    if backbone._uploads is not None:
        parts += [(backbone._uploads, "_to_device", "copy to device")]
        parts += [(torch_feature_maps, "_to_host", "back")]
    with ExitStack() as stack:
        for owner, name, stage in parts:
            timed = stages.on_device(stage, getattr(owner, name))
            stack.enter_context(patch.object(owner, name, timed))
        timed = stages.on_host("boxes", torch_feature_maps._padded_boxes)
        stack.enter_context(patch.object(torch_feature_maps, "_padded_boxes", timed))
        if backbone._uploads is not None:
            timed = stages.on_host("staging", backbone._uploads._to_buffer)
            stack.enter_context(patch.object(backbone._uploads, "_to_buffer", timed))
        yield stages


# --- measurements ---------------------------------------------------------------------------------


def network_alone(backbone: TorchBackbone, device: str, part: int) -> list[float]:
    """Frames per second of the network on bytes that lie on the device."""
    import torch

    frames = torch.randint(0, 255, (part, *SIZE, 3), dtype=torch.uint8, device=device)
    passes = 8 if device.startswith("cuda") else 1

    def work() -> None:
        with torch.inference_mode(), cpu_threads(backbone._threads):
            for _ in range(passes):
                backbone._map(frames)
        synchronise(device)

    return rates(work, passes * part)


def one_after_another(
    backbone: TorchBackbone, device: str, video: Path, batches: list[Frames]
) -> dict[str, float]:
    """Microseconds per frame of each stage while no other runs; decoding on one core."""
    frames = sum(map(len, batches))
    begun = time.perf_counter()
    decoded = sum(1 for _ in _images(video))
    decoding = (time.perf_counter() - begun) / decoded
    with staged(backbone, device) as stages:
        for batch in batches:
            maps = backbone.device_maps(batch)
            synchronise(device)
            taken(maps, random_boxes(len(batch)))
            synchronise(device)
        spent = stages.seconds()
    return {"decode": 1e6 * decoding, **{stage: 1e6 * s / frames for stage, s in spent.items()}}


def queueing(backbone: TorchBackbone, device: str, batch: Frames, repeats: int) -> dict[str, float]:
    """Milliseconds for which the host is busy with a batch, and in which the device does it."""
    host, whole = [], []
    for _ in range(repeats):
        synchronise(device)
        begun = time.perf_counter()
        maps = backbone.device_maps(batch)
        host.append(time.perf_counter() - begun)
        maps.describe_frames()
        synchronise(device)
        whole.append(time.perf_counter() - begun)
    return {"queued_ms": 1e3 * median(host), "done_ms": 1e3 * median(whole)}


def frames_in(videos: list[Path]) -> int:
    return sum(1 for video in videos for _ in _images(video))


def from_files(backbone: TorchBackbone, videos: list[Path], processes: int, device: str) -> float:
    """Frames per second, from the moment when the processes that decode are ready."""
    with Decoders(videos, processes, device) as batches:
        begun = time.perf_counter()
        count = sum(described(backbone, batches))
        return count / (time.perf_counter() - begun)


def decoding(videos: list[Path], processes: int, device: str) -> float:
    """The same without a network."""
    with Decoders(videos, processes, device) as batches:
        begun = time.perf_counter()
        count = sum(map(len, batches))
        return count / (time.perf_counter() - begun)


def measure(make: Make, device: str, videos: list[Path], processes: int) -> dict[str, Any]:
    """videos : for a GPU many thousand frames, or the start weighs."""
    cuda = device.startswith("cuda")
    backbone = make(device, 1 if cuda else len(os.sched_getaffinity(0)))
    rng = np.random.default_rng(0)
    sizes, rounds = ([BATCH] * 8, 4) if cuda else ([8], 1)
    batches: list[Frames] = [
        list(rng.integers(0, 255, (size, *SIZE, 3), np.uint8)) for size in sizes
    ]
    count = sum(sizes)
    files = backbone, videos, processes, device
    whole = np.concatenate([np.stack(list(batch)) for batch in batches])
    row: dict[str, Any] = {
        "backbone": backbone.name,
        "device": device,
        "network_alone": network_alone(backbone, device, sizes[0]),
        "maps": rates(lambda: backbone.maps(whole), count),
        "boxes": rates(lambda: sum(described(backbone, rounds * batches)), rounds * count),
        "from_files": [from_files(*files) for _ in range(REPEATS if cuda else 1)],
        "processes": processes,
        "decoding": decoding(videos, processes, device),
        "us_per_frame": one_after_another(backbone, device, videos[0], batches),
        **queueing(backbone, device, batches[0], 20 if cuda else 3),
    }
    return row


def show(rows: list[dict[str, Any]]) -> None:
    def line(name: str, cells: Iterable[str]) -> None:
        print(f"{name:34}", *(f"{cell:>20}" for cell in cells))

    line("", (f"{row['backbone']}, {row['device']}" for row in rows))
    names = {
        "network_alone": "network alone, frames/s",
        "maps": "maps in host memory",
        "boxes": f"{BOXES} boxes per frame described",
        "from_files": "the same from video files",
    }
    for key, name in names.items():
        line(name, (_rate(row, key, median) for row in rows))
        line("  slowest", (_rate(row, key, min) for row in rows))
    line("decoding alone, processes", (f"{r['decoding']:,.0f} in {r['processes']}" for r in rows))
    line("host busy with a batch, ms", (f"{row['queued_ms']:.2f}" for row in rows))
    line("  of, until it is done", (f"{row['done_ms']:.2f}" for row in rows))
    print("one stage after another, microseconds per frame (share)")
    for stage in ("decode", "staging", "copy to device", "forward", "boxes", "pooling", "back"):
        line(f"  {stage}", (_share(row["us_per_frame"], stage) for row in rows))


def _rate(row: dict[str, Any], key: str, of: Callable[[list[float]], float]) -> str:
    """With the share of what the network alone does."""
    return f"{of(row[key]):,.1f} ({of(row[key]) / median(row['network_alone']):4.0%})"


def _share(times: dict[str, float], stage: str) -> str:
    if stage not in times:
        return "-"
    return f"{times[stage]:,.1f} ({times[stage] / sum(times.values()):4.1%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", nargs="+", default=["cuda", "cpu"])
    parser.add_argument("--videos", type=Path, help="a folder of 320 x 240 videos")
    parser.add_argument("--frames", type=int, default=24_000, help="decoded on the way, at least")
    parser.add_argument("--processes", type=int, help="that decode; two fewer than cores")
    parser.add_argument("--networks", nargs="*", default=["resnet50", "dinov2-small"])
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu.json")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    processes = arguments.processes or max(1, cores - 2)
    makes = {"resnet50": random_resnet50, "dinov2-small": dinov2_small}
    folder = Path(tempfile.mkdtemp(prefix="objectstates-"))
    rows = []
    try:
        if arguments.videos is None:
            from benchmarks.ingest import draw_video

            for i in range(8):
                draw_video(folder / f"clip{i}.mp4", 15, i)
        videos = [clip.video for clip in find_clips([arguments.videos or folder])]
        many = videos * -(-arguments.frames // frames_in(videos))
        for name in arguments.networks:
            for device in arguments.devices:
                some = (videos[:1], 1) if device == "cpu" else (many, processes)
                rows.append(measure(makes[name], device, *some))
                keep(rows, arguments.out)
                show(rows)
    finally:
        shutil.rmtree(folder)


def keep(rows: list[dict[str, Any]], path: Path) -> None:
    import torch

    facts = {
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "cores": len(os.sched_getaffinity(0)),
        "torch": torch.__version__,
        "rows": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
