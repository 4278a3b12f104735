"""Compile the kernels that many tests use: ``python -m tools.compile_kernels``.

Kernels are kept beside their sources. Compiled before the tests start, they are compiled once and
not by every process of the tests. A kernel that is missing here is compiled by the first test that
calls it.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from objectstates import JointDiscovery
from objectstates.data.synthetic import synthetic_corpus
from objectstates.ingest.pipeline import IngestSettings, ingest
from objectstates.video.clip_list import find_clips

DEMO = Path(__file__).parents[1] / "src" / "objectstates" / "demo" / "drawer"


def main() -> None:
    for size in (2, 8):  # out of core, rows of few features are float32
        corpus = synthetic_corpus(
            n_clips=3, tracklets_per_clip=6, chunks_per_clip=6, state_size=size, action_size=size
        )
        with TemporaryDirectory() as folder:
            corpus.save(Path(folder) / "corpus")
            JointDiscovery().fit_folder(Path(folder) / "corpus", scratch=folder, shards=2)
    for target in ("joint", "state", "action"):
        JointDiscovery(target=target).fit(corpus)
    JointDiscovery.paper().fit(corpus)
    clip = min(DEMO.glob("*.mp4"), key=lambda path: path.stat().st_size)
    ingest(find_clips([clip]), IngestSettings(detector=f"fewshot:{DEMO / 'drawer.npz'}"))


if __name__ == "__main__":
    main()
