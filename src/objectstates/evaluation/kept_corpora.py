"""Corpora that an experiment keeps in its output folder, so that a later run need not make them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from objectstates.base.cache import content_digest
from objectstates.base.errors import CorpusError
from objectstates.data.corpus import Corpus
from objectstates.data.corpus_io import ARTEFACT
from objectstates.evaluation.score_files import read_keyed, write_keyed

Made = tuple[Corpus, list[str]]
"""A corpus, and what was left out of it."""


def kept_corpus(path: Path, key: str, make: Callable[[], Made], *, fresh: bool = False) -> Made:
    """The corpus in the folder ``path`` if it was made with ``key``, else a new one.

    key : a digest of everything that it depends on; kept in ``<path>.json``.
    fresh : make it anew in any case.
    """
    key_file = path.with_name(f"{path.name}.json")
    cached = None if fresh else read_keyed(key_file, key)
    if cached is not None and path.is_dir() and cached.get("content") == content_digest(path):
        try:
            return Corpus.load(path), [str(note) for note in cached.get("notes", [])]
        except CorpusError:
            pass  # damaged: make it again
    ARTEFACT.check_target(path)
    corpus, notes = make()
    corpus.save(path)
    write_keyed(key_file, key, {"content": content_digest(path), "notes": notes})
    return corpus, notes
