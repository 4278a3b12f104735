"""Find, without labels, when a manipulation happens in videos and what the object looks like before
and after it.

>>> from objectstates import JointDiscovery
>>> from objectstates.synthetic import synthetic_corpus
>>> result = JointDiscovery().fit(synthetic_corpus(n_clips=8)).result_
>>> result.action_time.shape, sorted(set(result.state.tolist()))
((8,), [0, 1, 2])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from objectstates.clips import Box, Chunk, Clip, Tracklet, TrackletLabel
    from objectstates.corpus import Corpus
    from objectstates.discovery import JointDiscovery
    from objectstates.errors import ObjectStatesError
    from objectstates.evaluation import evaluate
    from objectstates.interop.authors import read_authors
    from objectstates.result import Result
    from objectstates.truth import label_corpus, read_truth

__version__ = "0.1.0"

# Imported on first use, so that `import objectstates` and the command line start at once.
_HOMES = {
    "Box": "clips",
    "Chunk": "clips",
    "Clip": "clips",
    "Tracklet": "clips",
    "TrackletLabel": "clips",
    "Corpus": "corpus",
    "JointDiscovery": "discovery",
    "ObjectStatesError": "errors",
    "Result": "result",
    "evaluate": "evaluation",
    "label_corpus": "truth",
    "read_authors": "interop.authors",
    "read_truth": "truth",
}

__all__ = [
    "Box",
    "Chunk",
    "Clip",
    "Corpus",
    "JointDiscovery",
    "ObjectStatesError",
    "Result",
    "Tracklet",
    "TrackletLabel",
    "evaluate",
    "label_corpus",
    "read_authors",
    "read_truth",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'objectstates' has no attribute {name!r}")
    return getattr(import_module(f"objectstates.{_HOMES[name]}"), name)
