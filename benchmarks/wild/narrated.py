"""Simulated narrations of long videos: a timeline of actions, utterances, and a transcript.

A `Timeline` lists the actions of a video with their times; `simulate_speech` gives utterances
along it: other steps, small talk, remarks that name the object without the action, and mentions up
to some seconds before or after an action. `simulate_recognition` turns them into a transcript with
recognition errors. Everything is determined by a seed; ``footage.py`` makes videos along the same
timelines.
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
    """The actions in a video of ``duration`` seconds, in order."""

    scene: str
    events: tuple[Event, ...]
    duration: float


@dataclass(frozen=True, slots=True, order=True)
class Utterance:
    """A sentence with its times in seconds; ``action`` is the one that it refers to, if any."""

    start: float
    end: float
    text: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class SpeechStyle:
    """Probabilities of the simulated speech.

    announced : that an action is named before or during it; of the others, a fraction
        ``named_after`` is named afterwards and the rest not at all.
    lag : seconds between mention and action, at most.
    mentioned : that the object of an action is mentioned elsewhere in the video.
    promised : that an action of the scene is promised at the start, whether it occurs or not.
    hesitations, dropped, misheard : per word.
    """

    announced: float = 0.85
    named_after: float = 0.6
    lag: float = 6.0
    mentioned: float = 0.6
    promised: float = 0.05
    hesitations: float = 0.06
    dropped: float = 0.03
    misheard: float = 0.06
    words_per_second: tuple[float, float] = (2.0, 3.2)


@dataclass(frozen=True, slots=True)
class NarratedVideo:
    """A simulated video: actions, utterances, and their transcript."""

    timeline: Timeline
    utterances: tuple[Utterance, ...]
    narration: Narration


def make_video(
    name: str,
    scene: str,
    seed: int,
    actions: Sequence[str] | None = None,
    style: SpeechStyle | None = None,
) -> NarratedVideo:
    """Simulate a video of a scene; ``actions`` in this order, or random ones."""
    style = style or SpeechStyle()
    rng = np.random.default_rng([seed, *scene.encode()])
    timeline = make_timeline(scene, rng, actions)
    utterances = simulate_speech(timeline, rng, style)
    return NarratedVideo(
        timeline, tuple(utterances), simulate_recognition(name, utterances, rng, style)
    )


def make_timeline(
    scene: str,
    rng: Rng,
    actions: Sequence[str] | None = None,
    *,
    action_seconds: tuple[float, float] = (3.0, 9.0),
    idle_seconds: tuple[float, float] = (15.0, 60.0),
) -> Timeline:
    """Actions of a scene, with idle intervals before, between and after them."""
    if actions is None:
        known = SCENES[scene][0]
        kept = [action for action in known if rng.random() < 0.7]  # not every video shows all
        actions = kept if len(known) <= 2 else [str(a) for a in rng.permutation(kept)]
    time, events = float(rng.uniform(*idle_seconds)), []
    for action in actions:
        end = time + float(rng.uniform(*action_seconds))
        events.append(Event(action, time, end))
        time = end + float(rng.uniform(*idle_seconds))
    return Timeline(scene, tuple(events), time + 60.0)


def simulate_speech(
    timeline: Timeline, rng: Rng, style: SpeechStyle | None = None
) -> list[Utterance]:
    """Utterances along a timeline, in order and without overlap."""
    style = style or SpeechStyle()
    planned: list[tuple[float, str, str]] = []
    for event in timeline.events:
        speech = ACTIONS[event.action]
        if rng.random() < style.announced:
            when = event.start - rng.uniform(0, style.lag)
            planned.append((when, expand(_choose(speech.announced, rng), rng), event.action))
        elif rng.random() < style.named_after:
            when = event.end + rng.uniform(0, style.lag)
            planned.append((when, expand(_choose(speech.afterwards, rng), rng), event.action))
    for action in SCENES[timeline.scene][0]:
        if rng.random() < style.mentioned:
            when = rng.uniform(0, timeline.duration)
            planned.append((when, expand(_choose(ACTIONS[action].mentioned, rng), rng), ""))
        if rng.random() < style.promised:
            text = _choose(PROMISES, rng).replace("{summary}", SUMMARIES[action])
            planned.append((rng.uniform(0, 15), expand(text, rng), ""))
    time = float(rng.uniform(0, 3))
    while time < timeline.duration:  # other steps, small talk, silence
        steps = SCENES[timeline.scene][1] if rng.random() < 0.6 else CHATTER
        planned.append((time, expand(_choose(steps, rng), rng), ""))
        time += float(rng.uniform(3, 14))
    return _without_overlap(planned, timeline, rng, style)


def _without_overlap(
    planned: list[tuple[float, str, str]], timeline: Timeline, rng: Rng, style: SpeechStyle
) -> list[Utterance]:
    """Give each utterance its times; drop those that overlap an earlier one of ``planned``, in
    which mentions of actions come first.
    """
    pace = float(rng.uniform(*style.words_per_second))
    said: list[Utterance] = []
    for time, text, action in planned:
        start = max(0.0, time)
        end = start + len(split_words(text)) / pace
        if all(end <= other.start or start >= other.end for other in said):
            said.append(Utterance(start, end, text, action))
    return sorted(cue for cue in said if cue.start < timeline.duration)


def simulate_recognition(
    name: str, utterances: Sequence[Utterance], rng: Rng, style: SpeechStyle | None = None
) -> Narration:
    """A transcript as by speech recognition: no punctuation, and some errors."""
    style = style or SpeechStyle()
    rows = []
    for cue in utterances:
        words: list[str] = []
        for word in split_words(cue.text):
            if rng.random() < style.hesitations:
                words += _choose(HESITATIONS, rng).split()
            if rng.random() < style.dropped:
                continue
            mistakes = MISHEARD.get(word, ())
            wrong = bool(mistakes) and rng.random() < style.misheard
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
