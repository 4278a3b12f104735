"""Sentences that tell an action from others: the language data that a classifier learns from.

For each action about 12 sentences that name it, and 50 of other steps. Ours are in ``language/``:
one file of positive sentences an action, and pools of negative ones by topic. Your own come from
files with one sentence a line, or from a folder of how-to articles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import NarrationError
from objectstates.narration.subtitles import decode
from objectstates.narration.transcript import tokens

_LANGUAGE = resources.files("objectstates.narration") / "language"
_COMMENT = "#"
_LIST_MARK = re.compile(r"^(?:[-*+\u2022]|\d{1,3}[.)])\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+")


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences that name an action, and sentences that do not."""

    positive: tuple[str, ...]
    negative: tuple[str, ...]

    def __post_init__(self) -> None:
        for kind, texts in (("positive", self.positive), ("negative", self.negative)):
            if not any(tokens(text) for text in texts):
                raise NarrationError(f"there are no {kind} sentences: give at least one")

    @classmethod
    def of(cls, texts: Sequence[str], labels: npt.NDArray[np.bool_]) -> Sentences:
        """The opposite of ``texts`` and ``labels``."""
        rows = list(zip(texts, labels.tolist(), strict=True))
        return cls(tuple(t for t, yes in rows if yes), tuple(t for t, yes in rows if not yes))

    @property
    def texts(self) -> list[str]:
        return [*self.positive, *self.negative]

    @property
    def labels(self) -> npt.NDArray[np.bool_]:
        """(n,) True for the positive ones, in the order of ``texts``."""
        return np.arange(len(self.texts)) < len(self.positive)


@dataclass(frozen=True, slots=True)
class Action:
    """An action that we have sentences for.

    phrase : the action in a few words, for a search by meaning.
    sentences : about 12 positive and 50 to 90 negative.
    """

    name: str
    phrase: str
    sentences: Sentences


def action_names() -> list[str]:
    """The actions that `load_action` knows."""
    return list(_register())


def load_action(name: str) -> Action:
    """Our sentences for an action; underscores are hyphens.

    The negative ones are other steps of the same kind of video, small talk, and the positive ones
    of the actions that are most like it: closing a drawer is said in nearly the words of opening.

    >>> load_action("open_fridge").phrase
    'open the refrigerator'
    """
    register = _register()
    key = name.replace("_", "-")
    if key not in register:
        raise NarrationError(
            f"there are no sentences for the action {name!r}: choose one of "
            f"{', '.join(register)}, or give your own with --positive and --negative"
        )
    entry = register[key]
    others = [
        text
        for source in entry["negative"]
        for text in _packaged("actions" if source in register else "pools", source)
    ]
    sentences = Sentences(tuple(_packaged("actions", key)), tuple(dict.fromkeys(others)))
    return Action(key, entry["phrase"], sentences)


def _register() -> dict[str, Any]:
    text = _LANGUAGE.joinpath("actions.json").read_text(encoding="utf-8")
    register: dict[str, Any] = json.loads(text)
    return register


def _packaged(kind: str, name: str) -> list[str]:
    return _lines(_LANGUAGE.joinpath(kind, f"{name}.txt").read_text(encoding="utf-8"))


def read_sentences(path: str | Path) -> list[str]:
    """Sentences of a file, one a line; or of a folder of articles, such as wikiHow's as text.

    Articles (``.txt``, ``.md``, anywhere in the folder) are cut at full stops; marks of lists and
    headings are dropped, and so are lines that begin with #.
    """
    place = Path(path)
    try:
        if place.is_dir():
            files = sorted(p for p in place.rglob("*") if p.suffix.lower() in (".md", ".txt"))
            texts = [_LIST_MARK.sub("", line) for p in files for line in _lines(_text(p))]
            found = [part for text in texts for part in _SENTENCE_END.split(text)]
        else:
            found = _lines(_text(place))
    except OSError as problem:
        raise NarrationError(f"{place}: {problem.strerror or problem}") from problem
    found = [sentence.strip() for sentence in found if tokens(sentence)]
    if not found:
        raise NarrationError(f"{place}: no sentences in it; write one a line")
    return found


def _text(path: Path) -> str:
    return decode(path.read_bytes())


def _lines(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(_COMMENT)]
