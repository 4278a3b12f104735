"""Size and speed of the report: ``python -m benchmarks.report [--clips 500]``.

For a small and a large result: seconds to write the page (wall, and of all processors), its
megabytes and what they consist of, and in Debian's chromium the milliseconds to the first paint,
until the page is loaded, to sort all rows, and per frame while scrolling through the page by 400
pixels a frame. The small page is the floor: the cost of the machine and the browser. Videos are
those that ship with the package; the last row has drawn videos of random texture, the worst case.
Then the formats of pictures are compared (`report_pictures`).
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import av
import numpy as np

import objectstates
from benchmarks.browser import REMEDY, address, browser, has_browser
from benchmarks.ingest import FPS, RESULTS, SIZE, draw_video
from benchmarks.report_pictures import compare_formats
from objectstates import Corpus, JointDiscovery, Result, write_report
from objectstates.data.clips import ChangeProfile
from objectstates.data.synthetic import synthetic_corpus

N_VIDEOS = 20  # clips use them in turn
CLIP_SECONDS = 20.0

SCROLL = """
const done = arguments[0], gaps = [];
document.documentElement.style.scrollBehavior = "auto";
let last = performance.now();
const step = () => {
  const now = performance.now();
  gaps.push(now - last);
  last = now;
  scrollBy(0, 400);
  const rest = document.documentElement.scrollHeight - innerHeight - scrollY;
  if (rest > 1) requestAnimationFrame(step);
  else done(gaps.sort((a, b) => a - b)[Math.floor(gaps.length / 2)]);
};
requestAnimationFrame(step);
"""


def with_videos(corpus: Corpus, videos: list[Path], seed: int = 0) -> Corpus:
    """Synthetic clips with videos and, for every tracklet, a drifting box at 25 frames a second."""
    rng = np.random.default_rng(seed)
    boxes = []
    for start, end in zip(corpus.tracklets.start, corpus.tracklets.end, strict=True):
        times = np.arange(start, end, 0.04)
        x, y = rng.uniform(0, SIZE[0] - 90), rng.uniform(0, SIZE[1] - 70)
        drift = np.cumsum(rng.normal(0, 0.5, (len(times), 2)), axis=0)
        corner = np.array([x, y]) + drift
        boxes.append(np.column_stack([times, corner, corner + np.array([80, 60])]))
    offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in boxes])])
    names = tuple(str(videos[n % len(videos)]) for n in range(len(corpus)))
    tracklets = replace(corpus.tracklets, boxes=np.concatenate(boxes), box_offsets=offsets)
    return replace(corpus, tracklets=tracklets, videos=names)


def with_changes(corpus: Corpus, seed: int = 0) -> Corpus:
    """The corpus with a change profile per clip: one peak, and a round place that changes."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:30, :40]
    changes = []
    for _ in range(len(corpus)):
        peak, (x, y) = rng.uniform(6, 14), rng.uniform((8, 8), (32, 22))
        curve = np.exp(-(((np.arange(500) * 0.04 - peak) / 0.7) ** 2)) * 1e-3
        where = 255 * np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 18)
        changes.append(ChangeProfile(0.0, 0.04, curve.astype(np.float32), where.astype(np.uint8)))
    return replace(corpus, changes=tuple(changes))


def join_videos(path: Path, sources: Sequence[Path], seconds: float = CLIP_SECONDS) -> Path:
    """The videos one after the other, repeated until there are enough frames, as one file."""
    wanted = round(seconds * FPS)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(
            "libx264", rate=FPS, options={"crf": "16", "preset": "veryfast"}
        )
        stream.pix_fmt = "yuv420p"
        for source in cycle(sources):
            with av.open(str(source)) as film:
                for frame in islice(film.decode(video=0), wanted):
                    if wanted == round(seconds * FPS):  # the first one
                        stream.width, stream.height = frame.width, frame.height
                    image = frame.to_ndarray(format="rgb24")
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(image)))
                    wanted -= 1
            if wanted <= 0:
                break
        container.mux(stream.encode())
    return path


def shipped_videos(folder: Path, n_videos: int = N_VIDEOS) -> list[Path]:
    """Videos of 20 s made of the package's own: a simulated and a real robot, in turn."""
    demo = Path(objectstates.__file__).parent / "demo"
    kinds = [sorted((demo / kind).rglob("*.mp4")) for kind in ("drawer", "robot")]
    return [
        join_videos(folder / f"shipped{i}.mp4", kinds[i % 2][i // 2 % 8 :]) for i in range(n_videos)
    ]


def drawn_videos(folder: Path, n_videos: int = N_VIDEOS) -> list[Path]:
    """Videos of random texture, the worst case for the size of pictures."""
    return [draw_video(folder / f"drawn{i}.mp4", CLIP_SECONDS, i) for i in range(n_videos)]


def make_result(n_clips: int, videos: list[Path], seed: int = 0) -> Result:
    """A result on clips of 20 s whose videos can be played."""
    corpus = with_changes(with_videos(synthetic_corpus(n_clips=n_clips, seed=seed), videos))
    return JointDiscovery(max_passes=60, seed=seed).fit(corpus).result_


def time_page(page: Path) -> dict[str, float]:
    """Milliseconds, medians of three loads."""
    loads = []
    for _ in range(3):
        with browser() as driver:
            driver.get(address(page))
            paint = driver.execute_script(
                "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
            )
            loaded = driver.execute_script(
                "return performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
            )
            sorting = driver.execute_script(
                "const begin = performance.now(); const sort = document.getElementById('sort');"
                "sort.value = 'name'; sort.dispatchEvent(new Event('input', {bubbles: true}));"
                "document.body.getBoundingClientRect(); return performance.now() - begin"
            )
            driver.set_script_timeout(120)
            frame = driver.execute_async_script(SCROLL)
            loads.append((paint, loaded, sorting, frame))
    names = ("first_paint_ms", "loaded_ms", "sort_ms", "scroll_frame_ms")
    return {name: median(load[k] for load in loads) for k, name in enumerate(names)}


def measure(n_clips: int, videos: list[Path], page: Path) -> dict[str, Any]:
    result = make_result(n_clips, videos)
    begin, cpu = time.perf_counter(), _cpu_seconds()
    write_report(result, page)
    seconds = {"write_s": time.perf_counter() - begin, "write_cpu_s": _cpu_seconds() - cpu}
    row = {"clips": n_clips, "videos": videos[0].stem.rstrip("0123456789"), **seconds}
    return {**row, **parts(page), **(time_page(page) if has_browser() else {})}


def parts(page: Path) -> dict[str, float]:
    """Megabytes of the page, and of them its frames, other pictures and numbers, in base64."""
    text = page.read_text(encoding="utf-8")
    found = {
        "frames_mb": re.findall(r'id="frames-\d+">([^<]*)<', text),
        "pictures_mb": re.findall(r'src="(data:image[^"]*)"', text),
        "numbers_mb": re.findall(r'id="data">([^<]*)<', text),
    }
    sizes = {name: sum(map(len, pieces)) / 1e6 for name, pieces in found.items()}
    return {"megabytes": page.stat().st_size / 1e6, **sizes}


def _cpu_seconds() -> float:
    """Of this process and of those that ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(row.ru_utime + row.ru_stime for row in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=500)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="objectstates-"))
    try:
        shipped, drawn = shipped_videos(folder), drawn_videos(folder)
        plans = ((5, shipped[:5]), (options.clips, shipped), (options.clips, drawn))
        rows = [measure(n, videos, folder / "report.html") for n, videos in plans]
        formats = compare_formats(shipped)
    finally:
        shutil.rmtree(folder)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "report.json").write_text(json.dumps([rows, formats], indent=1) + "\n")
    show(rows)
    show(formats)
    if not has_browser():
        print(REMEDY)


def show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*(name.replace("_", " ") for name in rows[-1]))
    for row in rows:
        cells = (x if isinstance(x, str) else f"{x:.4g}" for x in row.values())
        table.add_row(*cells)
    Console().print(table)


if __name__ == "__main__":
    main()
