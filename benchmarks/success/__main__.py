"""Whether failed episodes are recognised, and how good the progress is.

    python -m benchmarks.success FOLDER ... --out success [--droid FOLDER --annotations FILE]

FOLDER has a folder per manipulation, as of ``benchmarks.simulated``; its test clips are used. Their
episodes, and the same made to fail (``footage.py``), are mixed (``mixing.py``) and fitted with
default settings. *Not reached* is compared with what was made to fail. Progress is compared with
the simulator's, of clips that succeed; a step at the middle of the clip is given beside it.

The manipulations of ``CHOSEN_ON`` served to choose constants; all others are only reported.
``table.md`` has the tables, ``clips.json`` a row per clip and corpus. ``--estimate`` prints weights
for ``discovery/progress.py``, and what each manipulation gets from those of the others.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.success.footage import Footage
from benchmarks.success.judging import Row, estimate, judged, table
from benchmarks.success.mixing import mixed_corpora
from benchmarks.trust.footage import Source, droid_sources, simulated_sources

CHOSEN_ON = (
    "button-press", "door-close", "handle-press", "lever-pull", "plate-slide", "put_marker_in_cup",
)  # fmt: skip


def all_sources(
    folders: Sequence[Path], droid: Path | None, annotations: Path | None
) -> Iterator[Source]:
    for folder in folders:
        yield from simulated_sources(folder)
    if droid is not None:
        yield from droid_sources(droid, annotations or droid / "annotations.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--droid", type=Path)
    parser.add_argument("--annotations", type=Path)
    parser.add_argument("--only", nargs="*", help="manipulations to use; all unless given")
    parser.add_argument("--kinds", nargs="*", default=["cut"], help="cut, aborted")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--estimate", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    footage = Footage(options.out, options.processes, options.cache)
    rows: list[Row] = []
    for source in all_sources(options.folders, options.droid, options.annotations):
        if options.only and source.name not in options.only:
            continue
        episodes = footage.episodes(source, options.kinds)
        for mixed in mixed_corpora(episodes, dict(source.truth)):
            rows += judged(mixed, source)
            print(f"{mixed.name}, {mixed.kind} {mixed.fold}: judged", flush=True)
    chosen = [row for row in rows if row.manipulation in CHOSEN_ON]
    reported = [row for row in rows if row.manipulation not in CHOSEN_ON]
    text = f"**chosen on**\n\n{table(chosen)}\n\n**reported**\n\n{table(reported)}\n"
    if options.estimate:
        text += f"\n{estimate(chosen)}\n"
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "table.md").write_text(text)
    (options.out / "clips.json").write_text(json.dumps([asdict(row) for row in rows]) + "\n")


if __name__ == "__main__":
    main()
