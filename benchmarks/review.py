"""How long answers take after a correction in review: ``python -m benchmarks.review``.

For 50 and 500 synthetic clips and for the clips of the demo, in milliseconds:

* ``first``: until the first answer is ready to be sent, the refit and the state of the page;
* ``exact``: until the answer of a whole fit is;
* ``on screen``: until the page shows the first answer, in Debian's chromium, if it is installed;
* ``fit``: a whole fit without verdict that shares nothing, and its ratio to ``first``.

Each is the median over corrections of different clips. ``agree`` is the share of clips whose action
in the first answer is within half a second of that in the exact one. The table is printed, and
written with all times as JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from statistics import median
from typing import Any

from starlette.routing import Mount

from benchmarks.browser import browser, has_browser
from objectstates import Corpus, JointDiscovery
from objectstates.app.discover import discover
from objectstates.app.workspace import Workspace
from objectstates.data.synthetic import synthetic_corpus
from objectstates.web.events import EventStream
from objectstates.web.review.routes import review_routes
from objectstates.web.review.session import ReviewSession
from objectstates.web.server import LocalServer, create_app, new_token

RESULTS = Path(__file__).parent / "results"
SHOWN = """
const [clip, start, end, done] = arguments;
const version = document.body.dataset.version, begun = performance.now();
const wait = () => document.body.dataset.version === version
  ? requestAnimationFrame(wait) : done(performance.now() - begun);
fetch("api/action", {method: "POST", headers: {"Content-Type": "application/json"},
  body: JSON.stringify({clip, start, end})});
requestAnimationFrame(wait);
"""


class Watched(EventStream):
    """Events that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()
        self._changed = threading.Condition()

    def publish(self, kind: str, data: Mapping[str, Any]) -> None:
        super().publish(kind, data)
        with self._changed:
            self._seen.add(str(data.get("phase")))
            self._changed.notify_all()

    def forget(self) -> None:
        with self._changed:
            self._seen = set()

    def wait_for(self, *phases: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._seen & set(phases), 600), phases


def synthetic(folder: Path, n_clips: int) -> Path:
    workspace = Workspace(folder)
    synthetic_corpus(n_clips=n_clips, noise=1.6).save(workspace.corpus)
    workspace.fit(JointDiscovery())
    return folder


def demo(folder: Path) -> Path:
    with as_file(files("objectstates") / "demo" / "drawer") as clips:
        detector = f"fewshot:{clips / 'drawer.npz'}"
        discover(sorted(clips.glob("*.mp4")), object="drawer", detector=detector, out=folder)
    return folder


def corrections(found: Path, repeats: int) -> list[tuple[str, float, float]]:
    """A second of clips that are spread over the corpus, after a third of the clip."""
    corpus = Corpus.load(found / "corpus", features=False)
    rows = []
    for n in range(0, len(corpus), max(len(corpus) // repeats, 1)):
        chunks = corpus.chunk_rows(n)
        start = float(corpus.chunks.start[chunks[len(chunks) // 3]])
        rows.append((corpus.clip_ids[n], start, start + 1.0))
    return rows[:repeats]


def actions(session: ReviewSession) -> dict[str, float]:
    rows = session.state()["clips"]
    return {row["id"]: row["answer"]["time"] for row in rows if row["answer"]["time"] is not None}


def measure_session(found: Path, rows: list[tuple[str, float, float]]) -> dict[str, Any]:
    """Milliseconds to the first and the exact answer of each correction."""
    events = Watched()
    session = ReviewSession(found, events=events)
    times: dict[str, list[float]] = {"first": [], "exact": [], "agree": []}
    try:
        events.wait_for("exact")
        for clip, start, end in rows:
            events.forget()
            begun = time.perf_counter()
            session.set_action(clip, start, end)
            events.wait_for("preliminary", "exact")
            session.state(), session.clip(clip)
            times["first"].append(1000 * (time.perf_counter() - begun))
            first = actions(session)
            events.wait_for("exact")
            times["exact"].append(1000 * (time.perf_counter() - begun))
            exact = actions(session)
            same = [abs(first[clip] - exact[clip]) <= 0.5 for clip in exact if clip in first]
            times["agree"].append(sum(same) / max(len(same), 1))
    finally:
        session.close()
    return times


def measure_browser(found: Path, rows: list[tuple[str, float, float]]) -> list[float]:
    """Milliseconds until the page shows the first answer of each correction."""
    events, token = Watched(), new_token()
    session = ReviewSession(found, events=events)
    app = create_app([Mount("/review", routes=review_routes(session))], token=token, events=events)
    server = LocalServer(app)
    thread = threading.Thread(target=server.serve_until_stopped)
    thread.start()
    times = []
    try:
        events.wait_for("exact")
        with browser(1280, 800) as driver:
            driver.set_script_timeout(120)
            driver.get(server.url("/review/", token))
            time.sleep(3)
            for clip, start, end in rows:
                events.forget()
                times.append(float(driver.execute_async_script(SHOWN, clip, start + 0.5, end)))
                events.wait_for("exact")
                time.sleep(0.5)
    finally:
        server.stop()
        thread.join()
        session.close()
    return times


def measure_fit(found: Path, repeats: int) -> list[float]:
    corpus, times = Corpus.load(found / "corpus"), []
    for _ in range(repeats):
        begun = time.perf_counter()
        JointDiscovery(verdict=False).fit(corpus)
        times.append(1000 * (time.perf_counter() - begun))
    return times


def measure(found: Path, repeats: int) -> dict[str, Any]:
    rows = corrections(found, repeats)
    times = {**measure_session(found, rows), "fit": measure_fit(found, min(repeats, 3))}
    if has_browser():
        times["on screen"] = measure_browser(found, rows)
    table = {name: round(median(values), 3) for name, values in times.items()}
    clips = len(Corpus.load(found / "corpus", features=False))
    return {"clips": clips, **table, "ratio": round(table["fit"] / table["first"], 2), "all": times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, nargs="*", default=[50, 500])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--no-demo", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "review.json")
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for n in arguments.clips:
            found[f"{n} synthetic"] = measure(
                synthetic(Path(folder) / str(n), n), arguments.repeats
            )
        if not arguments.no_demo:
            found["demo"] = measure(demo(Path(folder) / "demo"), arguments.repeats)
    columns = ("first", "on screen", "exact", "fit", "ratio", "agree")
    print(f"| corpus | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name, row in found.items():
        cells = (f"{row[column]:.4g}" if column in row else "-" for column in columns)
        print(f"| {name} | {' | '.join(cells)} |")
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
