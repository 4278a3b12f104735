"""Whether failed episodes are recognised, and how good the progress is.

    python -m benchmarks.success FOLDER ... --out success [--data ../shared/data]

FOLDER has a folder per manipulation, as of ``benchmarks.simulated``; its test clips are used.
``--data`` adds the clips of a data folder: simulated ones that detectors are trained on
(``train/<manipulation>``) and test clips, real ones of many rooms (``droid``; the times of
put_marker_in_cup and pour are in ``benchmarks/trust``) and of one place (``real``).

Episodes, and the same made to fail (``footage.py``), are mixed (``mixing.py``) and fitted with
default settings. *Not reached* is compared with what was made to fail. Progress is compared with
the simulator's, of clips that succeed; a step at the middle of the clip is given beside it.

The manipulations of ``CHOSEN_ON`` and train clips served to choose constants; all others are only
reported. ``table.md`` has the tables, ``clips.json`` a row per clip and corpus. ``--estimate``
prints weights for ``discovery/progress.py``, and what each manipulation gets from those of the
others; those in use are of ``--kinds cut aborted``.
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
from benchmarks.trust.footage import Source, simulated_sources
from benchmarks.trust.footage import all_sources as sources_of
from objectstates.evaluation.benchmark.manipulations import (
    TRAIN_CLIPS,
    find_manipulations,
    read_manipulation,
)

REAL = ("put_marker_in_cup",)
CHOSEN_ON = ("button-press", "door-close", "handle-press", "lever-pull", "plate-slide", *REAL)
TRAIN = "train/"  # before the names of manipulations of train clips


def all_sources(folders: Sequence[Path], data: Path | None) -> Iterator[Source]:
    for folder in folders:
        yield from simulated_sources(folder)
    if data is not None:
        yield from train_sources(data / "sim")
        yield from sources_of(data)


def train_sources(folder: Path) -> Iterator[Source]:
    """The clips that detectors are trained on, cropped as test clips are."""
    for where in find_manipulations(folder):
        found = read_manipulation(where, trains=False)
        yield Source(f"{TRAIN}{found.name}", found.test[:TRAIN_CLIPS], found.truth)


def chosen_on(row: Row) -> bool:
    return row.manipulation in CHOSEN_ON or row.manipulation.startswith(TRAIN)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--data", type=Path)
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
    for source in all_sources(options.folders, options.data):
        if options.only and source.name not in options.only:
            continue
        episodes = footage.episodes(source, options.kinds)
        for mixed in mixed_corpora(episodes, dict(source.truth)):
            rows += judged(mixed, source)
            print(f"{mixed.name}, {mixed.kind} {mixed.fold}: judged", flush=True)
    chosen = [row for row in rows if chosen_on(row)]
    reported = [row for row in rows if not chosen_on(row)]
    text = f"**chosen on**\n\n{table(chosen)}\n\n**reported**\n\n{table(reported)}\n"
    if options.estimate:
        text += f"\n{estimate(chosen, REAL)}\n"
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "table.md").write_text(text)
    (options.out / "clips.json").write_text(json.dumps([asdict(row) for row in rows]) + "\n")


if __name__ == "__main__":
    main()
