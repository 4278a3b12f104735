"""Advice about the clips of a result: what in them makes a discovery hard, and what to do about it.

All of it is computed from the `Result` alone, so that terminal, report and ``inspect`` agree. It
does not say whether the discovery succeeded; that is the verdict (``discovery/verdict.py``). There
is at most one piece of advice of each kind, and none about a good corpus with a trained detector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from objectstates.data.corpus import Array, Corpus
from objectstates.data.corrections import LEAVES_OUT
from objectstates.data.result import Result

FEW_CLIPS = 10  # fewer often have something else in common, too; the paper has 27 or more
SHORT_SECONDS = 5.0  # of a clip: shorter ones hold an action of 2 s, and less than 2 s either side
MARGIN = 1.0  # seconds before and after the action: about a tracklet, the least a state needs
LONG_RATIO = 5.0  # times the median length: such a clip shows more than the manipulation
LONG_SECONDS = 180.0  # of a clip; above it, what is sought is a small part of what is shown
LARGE_GAP = 0.05  # of the objective: further from the optimum, labels still change between passes
MOST = 0.5  # of the clip: an action of this length leaves little of the states
MANY = 0.25  # of the clips: fewer are outvoted by the others
MISSED = 0.1  # of the clips: the detector often misses the object in the others, too


@dataclass(frozen=True)
class Advice:
    """One piece of advice.

    name : of its kind. ``text`` : what is the case, in one sentence, with counts.
    remedy : what to do about it, in one sentence; parameters are in backquotes.
    topic : the section of docs/failures.md on this, as an anchor.
    clips : ids of the clips concerned; empty if it is about all of them.
    """

    name: str
    text: str
    remedy: str
    topic: str
    clips: tuple[str, ...] = ()


def warnings_about(result: Result) -> tuple[Advice, ...]:
    """Advice about the clips and the fit of a result, at most one of each kind."""
    return tuple(advice for check in _CHECKS if (advice := check(result)) is not None)


def _few_clips(result: Result) -> Advice | None:
    n = len(result.clips)
    if result.summary.get("kind") == "predict" or n >= FEW_CLIPS:
        return None
    return Advice(
        "few_clips",
        f"{_clips(n)} {'is' if n == 1 else 'are'} few: what fewer than {FEW_CLIPS} have in common "
        "may be something else than the manipulation.",
        "Add clips of the same manipulation; a dozen or more are needed.",
        "few-clips",
    )


def _short_clips(result: Result) -> Advice | None:
    concerned = _lengths(result.corpus) < SHORT_SECONDS
    if not _many(concerned):
        return None
    return Advice(
        "short_clips",
        f"{_of(concerned)} are shorter than {SHORT_SECONDS:g} s, which leaves little to see of the "
        "object before and after the action.",
        "Cut clips with a few seconds before and after the action.",
        "short-clips",
        _ids(result, concerned),
    )


def _action_at_the_end(result: Result) -> Advice | None:
    extents, spans = _extents(result.corpus), result.actions.span  # of any action of a chain
    early = spans[..., 0] < extents[:, :1] + MARGIN
    near = (early | (spans[..., 1] > extents[:, 1:] - MARGIN)).any(axis=1)
    concerned = near & (_lengths(result.corpus) >= SHORT_SECONDS)  # there is advice on others
    if not _many(concerned):
        return None
    return Advice(
        "action_at_the_end",
        f"In {_of(concerned)} the action found begins less than {MARGIN:g} s after the clip's "
        "start or ends less than that before its end.",
        "Cut these clips more widely, if their videos show more; both states must be visible.",
        "action-at-the-end",
        _ids(result, concerned),
    )


def _long_clips(result: Result) -> Advice | None:
    lengths = _lengths(result.corpus)
    bound = min(LONG_RATIO * float(np.median(lengths)), LONG_SECONDS)
    concerned = lengths > bound
    if not concerned.any():
        return None
    verb = "is" if concerned.sum() == 1 else "are"
    return Advice(
        "long_clips",
        f"{_of(concerned)} {verb} longer than {bound:.0f} s (the median is "
        f"{np.median(lengths):.0f} s): a long clip shows much beside the manipulation.",
        "Cut the part that shows it, by start and end in a list of clips (`clips`).",
        "long-clips",
        _ids(result, concerned),
    )


def _no_detections(result: Result) -> Advice | None:
    empty = np.diff(result.corpus.tracklets.offsets) == 0
    excluded = {row.clip for row in result.corrections if row.kind in LEAVES_OUT}
    skipped = (clip.clip for clip in result.skipped if clip.clip not in excluded)
    missed = (*skipped, *_ids(result, empty))
    total = len(result.clips) + len({clip.clip for clip in result.skipped} - excluded)
    if len(missed) < MISSED * total or not missed:
        return None
    return Advice(
        "no_detections",
        f"{len(missed)} of {total} clips {'has' if len(missed) == 1 else 'have'} too few "
        "detections of the object for all states.",
        "Lower the `threshold`, or label frames of these clips and train the detector again.",
        "no-detections",
        missed,
    )


def _not_converged(result: Result) -> Advice | None:
    gap, objective = (result.summary.get(key) for key in ("duality_gap", "relaxed_objective"))
    if result.summary.get("converged", True) or not isinstance(gap, int | float):
        return None
    if not isinstance(objective, int | float) or not 0 < objective < gap / LARGE_GAP:
        return None
    return Advice(
        "not_converged",
        f"The duality gap is {gap / objective:.0%} of the objective: the solver has not converged.",
        "Allow more passes (`max_passes`).",
        "not-converged",
    )


def _long_action(result: Result) -> Advice | None:
    longest = (result.actions.span[..., 1] - result.actions.span[..., 0]).T
    concerned = np.any(longest > MOST * _lengths(result.corpus), axis=0)
    if not _many(concerned):
        return None
    return Advice(
        "long_action",
        f"In {_of(concerned)} the action found covers more than half of the clip.",
        "Look at the change curves of these clips: something else may change all the time.",
        "long-action",
        _ids(result, concerned),
    )


def _motion_boxes(result: Result) -> Advice | None:
    facts = result.corpus.info.get("ingest")
    by_motion = isinstance(facts, dict) and facts.get("detector") == "motion"
    if not by_motion or not result.state.any():
        return None
    return Advice(
        "motion_boxes",
        "All boxes are of the `motion` detector, which finds what changes and does not know the "
        "object.",
        "A detector trained on a few dozen labelled frames (objectstates detector train) shows the "
        "whole object, before and after.",
        "wrong-object",
    )


def _ends_beyond_video(result: Result) -> Advice | None:
    listed = result.corpus.info.get("ends_beyond_video")
    named = set(map(str, listed)) if isinstance(listed, list) else set()
    concerned = np.array([clip in named for clip in result.clips], bool)
    if not concerned.any():
        return None
    verb = "ends" if concerned.sum() == 1 else "end"
    return Advice(
        "ends_beyond_video",
        f"{_of(concerned)} {verb} after the end of the video by the list of clips; they were read "
        "up to there.",
        "Correct these lines of the list: its times are seconds from the start of the video.",
        "clip-list",
        _ids(result, concerned),
    )


_CHECKS: tuple[Callable[[Result], Advice | None], ...] = (
    _few_clips,
    _short_clips,
    _action_at_the_end,
    _long_clips,
    _ends_beyond_video,
    _no_detections,
    _long_action,
    _motion_boxes,
    _not_converged,
)


def _extents(corpus: Corpus) -> Array:
    """(N, 2) start and end of the clips: the spans read, or those of the chunks."""
    first, last = corpus.chunks.offsets[:-1], corpus.chunks.offsets[1:] - 1
    of_chunks = np.stack([corpus.chunks.start[first], corpus.chunks.end[last]], axis=1)
    known = zip(corpus.spans, of_chunks.tolist(), strict=True)
    return np.array([span or chunks for span, chunks in known], np.float64).reshape(-1, 2)


def _lengths(corpus: Corpus) -> Array:
    """(N,) seconds of the clips."""
    return np.asarray(np.diff(_extents(corpus), axis=1)[:, 0])


def _many(concerned: Array) -> bool:
    return bool(concerned.any()) and float(concerned.mean()) >= MANY


def _of(concerned: Array) -> str:
    return f"{int(concerned.sum())} of {_clips(len(concerned))}"


def _clips(n: int) -> str:
    return f"{n} clip{'' if n == 1 else 's'}"


def _ids(result: Result, concerned: Iterable[bool]) -> tuple[str, ...]:
    return tuple(clip for clip, mine in zip(result.clips, concerned, strict=True) if mine)
