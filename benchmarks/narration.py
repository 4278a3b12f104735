"""Speed of retrieval by narration: ``python -m benchmarks.narration [--hours 1000]``.

Scores every window of ten words of a thousand hours of random speech (9,000 words per hour) and
keeps the best twenty clips; on a part of it, compares with plain scikit-learn in the same run (time
and largest difference) and reads subtitle files. Also the peak memory of each.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.cli.output import make_table, print_table
from objectstates.narration.retrieval import retrieve
from objectstates.narration.sentences import load_action
from objectstates.narration.subtitles import read_narration, write_webvtt
from objectstates.narration.text_classifier import TfidfSvm
from objectstates.narration.transcript import Cue, Narration, tokens

RESULTS = Path(__file__).parent / "results"
WORDS_PER_HOUR, WORDS_PER_VIDEO = 9_000, 3_000
ACTION = "put-wheel"


def vocabulary(size: int = 20_000) -> tuple[list[str], npt.NDArray[np.float64]]:
    """The words of the training sentences and artificial ones, with Zipf frequencies."""
    known = list(dict.fromkeys(tokens(" ".join(load_action(ACTION).sentences.texts))))
    words = known + [f"w{i}" for i in range(size - len(known))]
    frequencies = 1 / np.arange(1, size + 1)
    return words, frequencies / frequencies.sum()


def narrations(hours: float, seed: int = 0) -> Iterator[Narration]:
    """Narrations of twenty minutes each, generated one at a time."""
    rng = np.random.default_rng(seed)
    words, frequencies = vocabulary()
    array = np.array(words, object)
    starts = np.arange(WORDS_PER_VIDEO) * (3600 / WORDS_PER_HOUR)
    times = np.stack([starts, starts + 0.4], 1)
    for i in range(round(hours * WORDS_PER_HOUR / WORDS_PER_VIDEO)):
        chosen = array[rng.choice(len(words), WORDS_PER_VIDEO, p=frequencies)]
        yield Narration(f"video{i}", chosen.tolist(), times)


def search(hours: float) -> dict[str, float]:
    """Seconds to score all windows and keep the best clips, without generating the words."""
    svm = TfidfSvm().fit(load_action(ACTION).sentences)
    svm.score(next(narrations(1)))  # compile
    waiting = 0.0

    def source() -> Iterator[Narration]:
        nonlocal waiting
        stream = narrations(hours)
        while True:
            begin = time.perf_counter()
            narration = next(stream, None)
            waiting += time.perf_counter() - begin
            if narration is None:
                return
            yield narration

    begin = time.perf_counter()
    found = retrieve(source(), svm)
    seconds = time.perf_counter() - begin - waiting
    return {"hours": hours, "clips": len(found), "seconds": seconds}


def compare(hours: float) -> dict[str, float]:
    """The same windows by scikit-learn: texts, sparse matrix, decision function."""
    svm = TfidfSvm().fit(load_action(ACTION).sentences)
    part = list(narrations(hours))
    svm.score(part[0])  # compile
    begin = time.perf_counter()
    ours = np.concatenate([svm.score(narration).scores for narration in part])
    middle = time.perf_counter()
    theirs = []
    for narration in part:
        words = narration.words
        texts = [" ".join(words[i : i + 10]) for i in range(len(words) - 9)]
        theirs.append(svm.decide(texts))
    end = time.perf_counter()
    return {
        "hours": hours,
        "ours, seconds": middle - begin,
        "scikit-learn, seconds": end - middle,
        "ratio": (end - middle) / (middle - begin),
        "largest difference": float(np.abs(ours - np.concatenate(theirs)).max()),
    }


def reading(hours: float) -> dict[str, float]:
    """Seconds to read WebVTT files of ``hours`` of speech."""
    with tempfile.TemporaryDirectory(prefix="objectstates-") as folder:
        paths = []
        for narration in narrations(hours):
            path = Path(folder) / f"{narration.name}.vtt"
            write_webvtt(
                path,
                [
                    Cue(
                        float(narration.times[i, 0]),
                        float(narration.times[i + 9, 1]),
                        " ".join(narration.words[i : i + 10]),
                    )
                    for i in range(0, len(narration), 10)
                ],
            )
            paths.append(path)
        begin = time.perf_counter()
        words = sum(len(read_narration(path)) for path in paths)
        seconds = time.perf_counter() - begin
    return {"hours": hours, "words": words, "seconds": seconds}


def in_a_process(function: Any, *args: Any) -> dict[str, float]:
    """Run a function in a process of its own; add the peak memory to its result."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_send, args=(theirs, function, args))
    process.start()
    result: dict[str, float] = ours.recv()
    process.join()
    return result


def _send(pipe: Any, function: Any, args: tuple[Any, ...]) -> None:
    result = function(*args)
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM"))
    pipe.send({**result, "peak memory, MB": int(peak.split()[1]) / 1024})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1000)
    parser.add_argument("--part", type=float, default=10, help="hours for scikit-learn and reading")
    options = parser.parse_args()
    report = {
        "search": in_a_process(search, options.hours),
        "beside scikit-learn": in_a_process(compare, options.part),
        "reading subtitles": in_a_process(reading, options.part),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "narration.json").write_text(json.dumps(report, indent=1) + "\n")
    table = make_table("measurement", "", "")
    for name, facts in report.items():
        for fact, value in facts.items():
            table.add_row(name, fact, f"{value:.4g}")
    print_table(table)


if __name__ == "__main__":
    main()
