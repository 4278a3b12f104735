"""Labels of a corpus by the ground truth of its clips.

``info["truth"]`` of the labelled corpus tells how many clips have ground truth, and how many of
them with boxes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath

import numpy as np

from objectstates.base.errors import TruthError
from objectstates.base.geometry import MATCH_IOU, paired_iou
from objectstates.data.clips import TrackletLabel
from objectstates.data.corpus import UNKNOWN, Array, Corpus
from objectstates.data.truth import TOLERANCE, ClipTruth


class UnknownClipWarning(UserWarning):
    """Some clips of a corpus have no ground truth; they stay unlabelled."""


def label_corpus(corpus: Corpus, truth: Mapping[str, ClipTruth]) -> Corpus:
    """The same corpus, labelled by ``truth``.

    A tracklet is a false positive unless the mean IoU of its boxes with the object's reaches
    `MATCH_IOU` (the paper's annotators judged whole tracklets; the mean tolerates short drift).
    Otherwise it is state 1 if it ends before the action, state 2 if it starts after it, and
    ambiguous if it overlaps it; in a chain, the state is that between two actions. Without boxes,
    false positives are not identified: tracklets are labelled by time alone, so precision is an
    upper bound. Chunks are labelled by their time, with the number of the action. To
    distinguish a step of a chain that was left out from a short one, an action between the times
    of two chunks labels the one nearest to its middle.

    Ground truth is looked up by clip id, then by the longest matching end of the video's path.
    Clips without any stay unlabelled, with a warning; it is an error if none has any.

    Examples
    --------
    >>> from objectstates.data.synthetic import synthetic_corpus
    >>> corpus = synthetic_corpus(n_clips=2)
    >>> no_boxes = np.empty(0), np.empty((0, 4))
    >>> truth = {clip: ClipTruth(clip, ((6.0, 9.0),), *no_boxes) for clip in corpus.clip_ids}
    >>> labels = label_corpus(corpus, truth).tracklets.label
    >>> set(labels[corpus.tracklets.end <= 6.0].tolist())
    {1}
    """
    found = [truth_of(corpus, n, truth) for n in range(len(corpus))]
    if len({len(known.actions) for known in found if known is not None}) > 1:
        raise TruthError("the clips have different numbers of actions: all need the same chain")
    lacking = [corpus.clip_ids[n] for n, known in enumerate(found) if known is None]
    if lacking:
        what = f"no ground truth for {len(lacking)} of {len(corpus)} clips: {_some(lacking)}"
        if len(lacking) == len(corpus):
            raise TruthError(f"{what}; there is some for {_some(list(truth))}")
        warnings.warn(f"{what}; they stay unlabelled", UnknownClipWarning, stacklevel=2)
    state = np.full(len(corpus.tracklets.start), UNKNOWN, np.int8)
    action = np.full(len(corpus.chunks.start), UNKNOWN, np.int8)
    for n, known in enumerate(found):
        if known is not None:
            state[list(corpus.tracklet_rows(n))] = _tracklet_labels(corpus, n, known)
            action[list(corpus.chunk_rows(n))] = _chunk_labels(corpus, n, known)
    return replace(
        corpus,
        tracklets=replace(corpus.tracklets, label=state),
        chunks=replace(corpus.chunks, label=action),
        info={**corpus.info, "truth": asdict(count_truth(found))},
    )


@dataclass(frozen=True)
class TruthCount:
    """How many clips have ground truth, and how many of them have boxes of the object."""

    clips: int
    with_boxes: int

    @property
    def by_time(self) -> bool:
        """Whether tracklets of some clips are judged by time alone."""
        return self.with_boxes < self.clips

    @property
    def note(self) -> str:
        """What this means for the precision of states; empty if all clips have boxes."""
        if not self.by_time:
            return ""
        lacking = self.clips - self.with_boxes
        whose = f"{lacking} of {self.clips} annotated clips" if self.with_boxes else "the clips"
        return (
            f"the annotations of {whose} have no boxes, so states are judged by time alone, an "
            "upper bound of their precision"
        )


def count_truth(found: Iterable[ClipTruth | None]) -> TruthCount:
    """Count the ground truth of clips; None for clips without any."""
    known = [truth for truth in found if truth is not None]
    return TruthCount(len(known), sum(len(truth.times) > 0 for truth in known))


def truth_count(corpus: Corpus) -> TruthCount:
    """What `label_corpus` recorded; nothing is missing in a corpus that was labelled otherwise."""
    facts = corpus.info.get("truth")
    try:
        return TruthCount(int(facts["clips"]), int(facts["with_boxes"]))  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return TruthCount(0, 0)


def truth_of(corpus: Corpus, n: int, truth: Mapping[str, ClipTruth]) -> ClipTruth | None:
    """That of clip n, by its id or else by its video; None if there is none."""
    if corpus.clip_ids[n] in truth:
        return truth[corpus.clip_ids[n]]
    video = corpus.videos[n]
    if video is None:
        return None
    parts = PurePath(os.path.abspath(video)).with_suffix("").parts
    tails = ("/".join(parts[-length:]) for length in range(len(parts), 0, -1))
    return next((truth[tail] for tail in tails if tail in truth), None)


def _tracklet_labels(corpus: Corpus, n: int, truth: ClipTruth) -> Array:
    """(M_n,) labels of a clip's tracklets."""
    table, rows = corpus.tracklets, corpus.tracklet_rows(n)
    start, end = table.start[rows.start : rows.stop], table.end[rows.start : rows.stop]
    first, last = truth.phase(start), truth.phase(np.maximum(start, end - 2 * TOLERANCE))
    in_a_state = (first == last) & (first % 2 == 0)
    label = np.where(in_a_state, first // 2 + 1, TrackletLabel.AMBIGUOUS).astype(np.int8)
    if not len(truth.times) or not len(rows):
        return label
    edges = table.box_offsets[rows.start : rows.stop + 1]
    if (np.diff(edges) == 0).any():
        raise TruthError(
            f"clip {corpus.clip_ids[n]!r} has tracklets without boxes, which cannot be compared "
            "with the object's: make the corpus with ingest, or give ground truth without boxes"
        )
    boxes = table.boxes[edges[0] : edges[-1]]
    overlap = paired_iou(boxes[:, 1:], truth.boxes_at(boxes[:, 0]))
    means = np.array([part.mean() for part in np.split(overlap, edges[1:-1] - edges[0])])
    label[means < MATCH_IOU] = TrackletLabel.FALSE_POSITIVE
    return label


def _chunk_labels(corpus: Corpus, n: int, truth: ClipTruth) -> Array:
    """(T_n,) number of the action that each chunk of a clip shows, 0 for none."""
    table, rows = corpus.chunks, list(corpus.chunk_rows(n))
    times, phase = table.time[rows], truth.phase(table.time[rows])
    label = np.where(phase % 2 == 1, (phase + 1) // 2, 0)
    if len(truth.actions) == 1 or not rows:
        return label
    for k, action in enumerate(truth.actions, start=1):
        if action is not None and not (label == k).any():
            nearest = int(np.abs(times - np.mean(action)).argmin())
            row = rows[nearest]
            if label[nearest] == 0 and table.start[row] < action[1] and table.end[row] > action[0]:
                label[nearest] = k
    return label


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
