"""How much of the object's true boxes the tracklets of a corpus cover."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from objectstates.base.geometry import MATCH_IOU, paired_iou
from objectstates.data.corpus import Corpus
from objectstates.data.truth import ClipTruth


def tracklet_coverage(corpus: Corpus, truth: Mapping[str, ClipTruth]) -> float | None:
    """Fraction of the true boxes within the clips that a tracklet's box overlaps.

    A tracklet is compared by its box that is nearest in time. None without true boxes.
    """
    hits: list[np.ndarray] = []
    for n, clip in enumerate(corpus.clip_ids):
        start, end = corpus.spans[n] or (-np.inf, np.inf)
        known = truth[clip]
        inside = (known.times >= start) & (known.times < end) & np.isfinite(known.boxes).all(axis=1)
        times, boxes = known.times[inside], known.boxes[inside]
        hit = np.zeros(len(times), bool)
        table = corpus.tracklets
        for i in corpus.tracklet_rows(n):
            own = table.boxes[table.box_offsets[i] : table.box_offsets[i + 1]]
            during = np.flatnonzero((times >= table.start[i]) & (times < table.end[i]))
            if len(own) and len(during):
                nearest = np.abs(times[during, None] - own[None, :, 0]).argmin(axis=1)
                overlaps = paired_iou(own[nearest, 1:], boxes[during])
                hit[during] |= overlaps >= MATCH_IOU
        hits.append(hit)
    together = np.concatenate(hits)
    return float(together.mean()) if len(together) else None
