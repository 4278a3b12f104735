"""The corpora that are judged: those of ``footage.py``, and others made of them.

- ``small``: eight clips; ``two``: two clips.
- ``shuffled``: the rows of every clip keep their times, but their content is permuted.
- ``half idle``: every second clip is replaced by its part before the action.
- ``half other``: every second clip is replaced by one of another manipulation.
- ``half reversed``: every second clip runs backwards, as closing among opening.
- ``unrelated``: a few clips of each of several manipulations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from benchmarks.trust.footage import WAYS, Footage, Source
from objectstates.data.clips import ChangeProfile, Chunk, Clip, Tracklet, TrackletLabel
from objectstates.data.corpus import Corpus

CHOSEN_ON = (
    "button-press", "coffee-pull", "door-close", "drawer-open", "handle-press", "lever-pull",
    "plate-slide", "pour", "put_marker_in_cup",
)  # fmt: skip
"""The manipulations that the verdict's constants were chosen on; all others are reported."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A corpus with labels from the truth.

    kind : how it was made. hopeless : nothing can be right in it, by construction.
    """

    name: str
    kind: str
    corpus: Corpus
    chosen_on: bool

    @property
    def hopeless(self) -> bool:
        return self.kind.split(" ")[0] in HOPELESS


HOPELESS = frozenset({"idle", "idle-motion", "cut", "static", "shuffled", "unrelated", "two"})
FEWEST_MIXED = 4  # manipulations that are called unrelated


def judged_corpora(sources: Sequence[Source], footage: Footage) -> Iterator[Judged]:
    """All corpora, those of a manipulation one after another."""
    for chosen_on in (True, False):
        group = [s for s in sources if (s.name in CHOSEN_ON) == chosen_on]
        filmed = {
            (source.name, way): corpus
            for source in group
            for way in WAYS
            if (corpus := footage.corpus(source, way)) is not None
        }
        for source in group:
            of_source = {
                way: corpus for (name, way), corpus in filmed.items() if name == source.name
            }
            for kind, corpus in (*of_source.items(), *_variants(of_source)):
                yield Judged(source.name, kind, corpus, chosen_on)
            for way in ("given", "motion"):
                others = [c for (name, w), c in filmed.items() if w == way and name != source.name]
                mixed = half_other(of_source[way], others)
                yield Judged(source.name, f"half other, {way}", mixed, chosen_on)
        for way in ("fewshot", "given", "motion"):
            corpora = [corpus for (_, w), corpus in filmed.items() if w == way]
            if len(corpora) < FEWEST_MIXED:
                continue
            for each, seed in ((3, 0), (5, 1)):
                mixed = unrelated(corpora, each, seed)
                yield Judged("several", f"unrelated {way} {each}", mixed, chosen_on)


def _variants(filmed: dict[str, Corpus]) -> Iterator[tuple[str, Corpus]]:
    best = filmed.get("fewshot", filmed["given"])
    yield "small", best.select(np.arange(min(8, len(best))))
    yield "small motion", filmed["motion"].select(np.arange(min(8, len(filmed["motion"]))))
    yield "two", best.select(np.array([0, 1]))
    yield "half reversed", half_reversed(filmed["given"])
    for way in ("fewshot", "given", "motion"):
        if way in filmed:
            yield f"shuffled {way}", shuffled(filmed[way])
    if "idle" in filmed:
        yield "half idle", half_idle(filmed["given"], filmed["idle"])


# --- corpora made of others -----------------------------------------------------------------------


def shuffled(corpus: Corpus, seed: int = 0) -> Corpus:
    """Permute the features of each clip's tracklets and of its chunks, and its change curve."""
    rng = np.random.default_rng(seed)
    tracklets, chunks = corpus.tracklets.features.copy(), corpus.chunks.features.copy()
    changes = list(corpus.changes)
    for n in range(len(corpus)):
        for features, rows in (
            (tracklets, corpus.tracklet_rows(n)),
            (chunks, corpus.chunk_rows(n)),
        ):
            features[list(rows)] = features[rng.permutation(np.arange(rows.start, rows.stop))]
        if (profile := changes[n]) is not None:
            n_bins = len(profile.curve)
            parts = np.array_split(np.arange(n_bins), max(1, len(corpus.chunk_rows(n)) // 2))
            bins = np.concatenate([parts[k] for k in rng.permutation(len(parts))])
            motion = None if profile.motion is None else profile.motion[bins]
            changes[n] = replace(profile, curve=profile.curve[bins], local=None, motion=motion)
    permuted = corpus.with_features(tracklets=tracklets, chunks=chunks)
    return replace(permuted, changes=tuple(changes))


def half_idle(corpus: Corpus, idle: Corpus) -> Corpus:
    """Every second clip is replaced by its idle part, where there is one."""
    parts = {clip.id.partition("+")[0]: _wrong(clip, clip.id) for clip in idle}
    clips = [parts.get(clip.id, clip) if n % 2 else clip for n, clip in enumerate(corpus)]
    return _of(clips, corpus)


def half_other(corpus: Corpus, others: Sequence[Corpus]) -> Corpus:
    """Every second clip is replaced by one of the other manipulations in turn."""
    strangers = [list(other) for other in others]
    clips = list(corpus)
    for n in range(1, len(clips), 2):
        other = strangers[n // 2 % len(strangers)]
        clips[n] = _wrong(other[n % len(other)], f"other {n}")
    return _of(clips, corpus)


def unrelated(corpora: Sequence[Corpus], each: int, seed: int) -> Corpus:
    """Some clips of each corpus."""
    rng = np.random.default_rng(seed)
    clips = []
    for k, corpus in enumerate(corpora):
        chosen = np.sort(rng.permutation(len(corpus))[:each])
        clips += [_wrong(corpus[int(n)], f"{k}/{corpus.clip_ids[n]}") for n in chosen]
    return _of(clips, corpora[0])


def half_reversed(corpus: Corpus) -> Corpus:
    """Every second clip runs backwards and shows the opposite manipulation."""
    clips = [
        _wrong(_reversed(clip), f"{clip.id}+reversed") if n % 2 else clip
        for n, clip in enumerate(corpus)
    ]
    return _of(clips, corpus)


Row = TypeVar("Row", Tracklet, Chunk)


def _reversed(clip: Clip) -> Clip:
    total = clip.chunks[0].start + clip.chunks[-1].end

    def mirrored(row: Row) -> Row:
        time = None if row.time is None else total - row.time
        return replace(row, start=total - row.end, end=total - row.start, time=time)

    change = clip.change and _reversed_change(clip.change, total)
    return replace(
        clip,
        tracklets=tuple(sorted(map(mirrored, clip.tracklets), key=lambda row: row.start)),
        chunks=tuple(sorted(map(mirrored, clip.chunks), key=lambda row: row.start)),
        change=change,
    )


def _reversed_change(change: ChangeProfile, total: float) -> ChangeProfile:
    return replace(
        change,
        start=total - change.start - change.step * len(change.curve),
        curve=change.curve[::-1].copy(),
        local=None,
        motion=None if change.motion is None else change.motion[::-1].copy(),
    )


def _of(clips: Sequence[Clip], like: Corpus) -> Corpus:
    return Corpus.from_clips(clips, like.info)


def _wrong(clip: Clip, name: str) -> Clip:
    """The clip as one that does not show the manipulation: nothing found in it is right."""
    return replace(
        clip,
        id=name,
        tracklets=tuple(replace(row, label=TrackletLabel.FALSE_POSITIVE) for row in clip.tracklets),
        chunks=tuple(replace(row, label=False) for row in clip.chunks),
    )
