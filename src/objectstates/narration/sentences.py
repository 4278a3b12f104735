"""Training data of text classifiers: sentences that name an action, and others.

The package has about 12 positive and 50 to 90 negative sentences per action in ``language/``: one
file of positive sentences per action, and pools of negative ones by topic. Users' own come from
files with one sentence per line, or from a folder of how-to articles.
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
                raise NarrationError(f"there are no `{kind}` sentences: give at least one")

    @classmethod
    def of(cls, texts: Sequence[str], labels: npt.NDArray[np.bool_]) -> Sentences:
        """From texts and their labels: the inverse of `texts` and `labels`."""
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
    """An action with sentences in the package.

    phrase : the action in a few words, for `embeddings.PhraseMatcher`.
    """

    name: str
    phrase: str
    sentences: Sentences


def action_names() -> list[str]:
    """The actions that `load_action` accepts."""
    return list(_catalogue())


def load_action(name: str) -> Action:
    """The package's sentences for an action; underscores are hyphens.

    Negative sentences are other steps of the same kind of video, small talk, and the positive
    sentences of similar actions: closing a drawer shares most words with opening one.

    >>> load_action("open_fridge").phrase
    'open the refrigerator'
    """
    catalogue = _catalogue()
    key = name.replace("_", "-")
    if key not in catalogue:
        raise NarrationError(
            f"`action` {name!r} has no sentences: choose one of "
            f"{', '.join(catalogue)}, or give your own as `positive` and `negative`"
        )
    entry = catalogue[key]
    others = [
        text
        for source in entry["negative"]
        for text in _packaged("actions" if source in catalogue else "pools", source)
    ]
    sentences = Sentences(tuple(_packaged("actions", key)), tuple(dict.fromkeys(others)))
    return Action(key, entry["phrase"], sentences)


def _catalogue() -> dict[str, Any]:
    text = _LANGUAGE.joinpath("actions.json").read_text(encoding="utf-8")
    catalogue: dict[str, Any] = json.loads(text)
    return catalogue


def _packaged(kind: str, name: str) -> list[str]:
    return _lines(_LANGUAGE.joinpath(kind, f"{name}.txt").read_text(encoding="utf-8"))


def read_sentences(path: str | Path) -> list[str]:
    """Sentences of a file, one per line, or of a folder of articles, such as wikiHow's as text.

    Articles (``.txt``, ``.md``, searched recursively) are split at full stops; list marks, headings
    and lines that begin with # are dropped.
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
        raise NarrationError(f"{place}: no sentences in it; write one per line")
    return found


def _text(path: Path) -> str:
    return decode(path.read_bytes())


def _lines(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(_COMMENT)]
