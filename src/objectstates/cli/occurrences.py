"""The command that finds what was learned in long videos."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from objectstates.base.errors import ResultError
from objectstates.cli.inspect import read_corpus
from objectstates.cli.options import AsJson, ResultFolder, ResultOut, Source, flag
from objectstates.cli.output import cell, make_table, number, print_table, show

if TYPE_CHECKING:
    from objectstates.data.result import Result

MINIMUM = 0.55  # of discovery/occurrences.py, which is slow to import


def occurrences(
    result: ResultFolder,
    source: Source,
    out: ResultOut,
    minimum: Annotated[
        float, flag("Least score of an occurrence: 1 is like the clips of the fit, 0 unlike them.")
    ] = MINIMUM,
    json: AsJson = False,
) -> None:
    """Find what a fit learned in long videos, where it happens several times, once or never."""
    from objectstates.data.result import ARTEFACT
    from objectstates.discovery.estimator import JointDiscovery
    from objectstates.discovery.occurrences import NoOccurrenceError

    if ARTEFACT.check_target(out) == result.resolve():
        raise ResultError(f"{out} is the model itself: choose another folder for the occurrences")
    model = JointDiscovery.load(result)
    corpus = read_corpus(source)
    try:
        found = model.occurrences(corpus, minimum=minimum)
    except NoOccurrenceError as none:  # an answer, but no result: that needs a clip
        show({"videos": len(corpus), "occurrences": [], "why": str(none)}, json)
        return
    found.save(out)
    rows = _rows(found)
    skipped = {clip.clip: clip.reason for clip in found.skipped}
    facts = {"minimum": minimum, "skipped": skipped, "written_to": str(out)}
    if json:
        show({"videos": len(corpus), **facts, "occurrences": rows}, json)
        return
    table = make_table("occurrence", "from", "to", "actions at", "score", "confidence")
    for row in rows:
        times = ", ".join(f"{time:.1f}" for time in row["action_times"])
        ends = f"{row['start']:.1f}", f"{row['end']:.1f} s"
        table.add_row(
            cell(row["clip"]), *ends, times, number(row["score"]), number(row["confidence"])
        )
    print_table(table)
    facts["skipped"] = [f"{video} {reason}" for video, reason in skipped.items()]
    show({"videos": len(corpus), "occurrences": len(rows), **facts}, json)


def _rows(found: Result) -> list[dict[str, Any]]:
    """One row per occurrence; times are seconds of the video."""
    scores = found.summary["occurrence_scores"]
    rows = []
    for n, clip in enumerate(found.clips):
        span = found.corpus.spans[n] or (float("nan"), float("nan"))
        rows.append(
            {
                "clip": clip,
                "video": found.corpus.videos[n],
                "start": span[0],
                "end": span[1],
                "action_times": [float(time) for time in found.actions.time[n]],
                "score": scores[clip],
                "confidence": float(found.confidence[n]),
            }
        )
    return rows
