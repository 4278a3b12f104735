"""Long narrated videos that were never filmed: what happens when, and what is said meanwhile.

A `Timeline` says which manipulations happen when; `talk` gives utterances along it, with idle
stretches, small talk, remarks that name the object without the deed, and words said up to some
seconds before or after the deed; `hear` turns utterances into the words that a recogniser would
write, mistakes included. All of it comes from a seed. Whoever makes videos along the same timeline
can show the deeds as frames and speak the utterances aloud.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.wild.phrases import (
    ACTIONS,
    CHATTER,
    HESITATIONS,
    MISHEARD,
    PROMISES,
    SCENES,
    SUMMARIES,
)
from objectstates.narration.transcript import Narration, in_order, split_words, spread

Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class Event:
    """A manipulation from ``start`` to ``end``, in seconds."""

    action: str
    start: float
    end: float

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happens in a video of ``duration`` seconds, in order."""

    scene: str
    events: tuple[Event, ...]
    duration: float


@dataclass(frozen=True, slots=True, order=True)
class Utterance:
    """What is said at once, in seconds; ``deed`` is the action that it goes with, if any."""

    start: float
    end: float
    text: str
    deed: str = ""


@dataclass(frozen=True, slots=True)
class Manner:
    """How people speak.

    announced : share of the deeds that are named before or while they are done; of the others,
        ``told_after`` are named afterwards and the rest not at all.
    lag : seconds at most between the words and the deed.
    mentioned : chance that the object of an action is talked about elsewhere in the video.
    promised : chance that an action of the scene is promised at the beginning, whether it comes
        or not.
    hesitations, dropped, misheard : shares of the words.
    """

    announced: float = 0.85
    told_after: float = 0.6
    lag: float = 6.0
    mentioned: float = 0.6
    promised: float = 0.05
    hesitations: float = 0.06
    dropped: float = 0.03
    misheard: float = 0.06
    words_per_second: tuple[float, float] = (2.0, 3.2)


@dataclass(frozen=True, slots=True)
class WildVideo:
    """A made-up video: what happens, what is said, and what was understood of it."""

    timeline: Timeline
    utterances: tuple[Utterance, ...]
    narration: Narration


def make_video(
    name: str,
    scene: str,
    seed: int,
    actions: Sequence[str] | None = None,
    manner: Manner | None = None,
) -> WildVideo:
    """A video of a scene; ``actions`` are done in this order, or chosen from the seed."""
    manner = manner or Manner()
    rng = np.random.default_rng([seed, *scene.encode()])
    timeline = make_timeline(scene, rng, actions)
    utterances = talk(timeline, rng, manner)
    return WildVideo(timeline, tuple(utterances), hear(name, utterances, rng, manner))


def make_timeline(
    scene: str,
    rng: Rng,
    actions: Sequence[str] | None = None,
    *,
    deed: tuple[float, float] = (3.0, 9.0),
    idle: tuple[float, float] = (15.0, 60.0),
) -> Timeline:
    """Manipulations of a scene with idle stretches before, between and after them."""
    if actions is None:
        known = SCENES[scene][0]
        kept = [action for action in known if rng.random() < 0.7]  # not every video shows all
        actions = kept if len(known) <= 2 else [str(a) for a in rng.permutation(kept)]
    time, events = float(rng.uniform(*idle)), []
    for action in actions:
        end = time + float(rng.uniform(*deed))
        events.append(Event(action, time, end))
        time = end + float(rng.uniform(*idle))
    return Timeline(scene, tuple(events), time + 60.0)


def talk(timeline: Timeline, rng: Rng, manner: Manner | None = None) -> list[Utterance]:
    """What is said along a timeline, in order and never two things at once."""
    manner = manner or Manner()
    planned: list[tuple[float, str, str]] = []
    for event in timeline.events:
        speech = ACTIONS[event.action]
        if rng.random() < manner.announced:
            when = event.start - rng.uniform(0, manner.lag)
            planned.append((when, expand(_choose(speech.announced, rng), rng), event.action))
        elif rng.random() < manner.told_after:
            when = event.end + rng.uniform(0, manner.lag)
            planned.append((when, expand(_choose(speech.afterwards, rng), rng), event.action))
    for action in SCENES[timeline.scene][0]:
        if rng.random() < manner.mentioned:
            when = rng.uniform(0, timeline.duration)
            planned.append((when, expand(_choose(ACTIONS[action].mentioned, rng), rng), ""))
        if rng.random() < manner.promised:
            text = _choose(PROMISES, rng).replace("{summary}", SUMMARIES[action])
            planned.append((rng.uniform(0, 15), expand(text, rng), ""))
    time = float(rng.uniform(0, 3))
    while time < timeline.duration:  # the rest of the time: other steps, small talk, silence
        steps = SCENES[timeline.scene][1] if rng.random() < 0.6 else CHATTER
        planned.append((time, expand(_choose(steps, rng), rng), ""))
        time += float(rng.uniform(3, 14))
    return _one_by_one(planned, timeline, rng, manner)


def _one_by_one(
    planned: list[tuple[float, str, str]], timeline: Timeline, rng: Rng, manner: Manner
) -> list[Utterance]:
    """Give each utterance its time. What would run into another's words is not said at all, unless
    it is about a deed: those were planned first.
    """
    pace = float(rng.uniform(*manner.words_per_second))
    said: list[Utterance] = []
    for start, text, deed in planned:
        start = max(0.0, start)
        end = start + len(split_words(text)) / pace
        if all(end <= other.start or start >= other.end for other in said):
            said.append(Utterance(start, end, text, deed))
    return sorted(cue for cue in said if cue.start < timeline.duration)


def hear(
    name: str, utterances: Sequence[Utterance], rng: Rng, manner: Manner | None = None
) -> Narration:
    """The words as a recogniser of speech would write them: no punctuation, and some mistakes."""
    manner = manner or Manner()
    rows = []
    for cue in utterances:
        words: list[str] = []
        for word in split_words(cue.text):
            if rng.random() < manner.hesitations:
                words += _choose(HESITATIONS, rng).split()
            if rng.random() < manner.dropped:
                continue
            mistakes = MISHEARD.get(word, ())
            wrong = bool(mistakes) and rng.random() < manner.misheard
            words += _choose(mistakes, rng).split() if wrong else [word]
        if words:
            times = spread(cue.start, cue.end, words)
            rows += [(a, b, word) for (a, b), word in zip(times, words, strict=True)]
    return Narration(name, *in_order(rows))


_CHOICE = re.compile(r"\{([^{}]*)\}")


def expand(template: str, rng: Rng) -> str:
    """Choose among the alternatives of a template."""
    text = _CHOICE.sub(lambda found: _choose(found[1].split("|"), rng), template)
    return " ".join(text.split())


def _choose(options: Sequence[str], rng: Rng) -> str:
    return options[int(rng.integers(len(options)))]
