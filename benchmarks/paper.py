"""``--paper`` from end to end, with random weights where none can be downloaded.

    python -m benchmarks.paper [VIDEOS] [--clips 8] [--device cuda] [--weights random]

Ingests clips of the demo (or of the folder VIDEOS) with the paper's features, checks that they are
8,192 and 3,000 numbers wide, and fits them by both solvers. Times are of the stages; relaxed
objective, duality gap and the objective of the labels tell the solvers apart. With random weights
labels mean nothing.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.needs import CORE, TORCH, require

RESULTS = Path(__file__).parent / "results"
WIDTHS = {"tracklets": 8192, "chunks": 3000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("videos", type=Path, nargs="?")
    parser.add_argument("--clips", type=int, default=8)
    parser.add_argument("--device", default=None, help="cuda if there is a GPU, else cpu")
    parser.add_argument("--weights", default="random", help="random or imagenet")
    parser.add_argument("--detector", default=None, help="the demo's few-shot detector, or motion")
    parser.add_argument("--processes", type=int, default=None)
    arguments = parser.parse_args()
    require(*CORE, *TORCH)
    import torch

    from objectstates.ingest.pipeline import IngestSettings, ingest_to
    from objectstates.parallel.pool import default_processes
    from objectstates.video.clip_list import find_clips

    device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    demo = _demo()
    clips = find_clips([arguments.videos or demo])[: arguments.clips]
    suffix = "" if arguments.weights == "imagenet" else f":{arguments.weights}"
    by_default = "motion" if arguments.videos else f"fewshot:{demo / 'drawer.npz'}"
    settings = IngestSettings.paper(
        detector=arguments.detector or by_default,
        appearance=f"resnet50{suffix}",
        conv_words=f"vgg16{suffix}",
        device=device,
    )
    report: dict[str, Any] = {"device": device, "clips": len(clips)}
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        path = Path(folder) / "corpus"
        processes = arguments.processes or default_processes()
        _, told = ingest_to(path, clips, settings, processes=processes, strict=True)
        seconds = time.perf_counter() - begun
        report["ingest"] = {"seconds": seconds, "frames": told.frames, "processes": processes}
        print(f"ingest: {told.frames} frames of {len(clips)} clips in {seconds:.1f} s", flush=True)
        report |= fits(path)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "paper.json").write_text(json.dumps(report, indent=1) + "\n")
    wrong = {name: width for name, width in report["widths"].items() if width != WIDTHS[name]}
    if wrong:
        raise SystemExit(f"not the paper's widths: {wrong}, instead of {WIDTHS}")
    print("the features are as wide as the paper's")


def fits(path: Path) -> dict[str, Any]:
    """The widths of the features, and the fits of both solvers."""
    from objectstates import Corpus, JointDiscovery

    corpus = Corpus.load(path)
    widths = {
        "tracklets": corpus.tracklets.features.shape[1],
        "chunks": corpus.chunks.features.shape[1],
    }
    rows = {"tracklets": len(corpus.tracklets.start), "chunks": len(corpus.chunks.start)}
    print(f"rows {rows}, widths {widths}", flush=True)
    found: dict[str, Any] = {"rows": rows, "widths": widths, "fits": {}}
    for solver in ("block", "full"):
        begun = time.perf_counter()
        model = JointDiscovery.paper(solver=solver, verdict=False).fit(corpus)
        fit = {
            "seconds": time.perf_counter() - begun,
            "passes": model.n_iter_,
            "relaxed": model.relaxed_objective_,
            "gap": model.gap_,
            "rounded": model.objective_,
        }
        found["fits"][solver] = fit
        print(f"{solver}: " + ", ".join(f"{k} {v:.4g}" for k, v in fit.items()), flush=True)
    return found


def _demo() -> Path:
    from importlib.resources import files

    return Path(str(files("objectstates"))) / "demo" / "drawer"


if __name__ == "__main__":
    main()
