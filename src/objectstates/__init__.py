"""Find, without labels, when a manipulation happens in videos and what the object looks like before
and after it.

>>> from objectstates import JointDiscovery
>>> from objectstates.data.synthetic import synthetic_corpus
>>> result = JointDiscovery().fit(synthetic_corpus(n_clips=8)).result_
>>> result.action_time.shape, sorted(set(result.state.tolist()))
((8,), [0, 1, 2])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from objectstates.base.no_telemetry import switch_off

if TYPE_CHECKING:
    from objectstates.app.discover import discover
    from objectstates.base.errors import ObjectStatesError
    from objectstates.data.clips import Box, ChangeProfile, Chunk, Clip, Tracklet, TrackletLabel
    from objectstates.data.corpus import Corpus
    from objectstates.data.formats.authors import read_authors
    from objectstates.data.formats.truth_files import read_truth
    from objectstates.data.result import Result
    from objectstates.data.truth_labels import label_corpus
    from objectstates.discovery.estimator import JointDiscovery
    from objectstates.evaluation import evaluate
    from objectstates.report.page import write_report

__version__ = "0.1.0"

switch_off()  # before any library is loaded that would send usage statistics

# Imported on first use, so that `import objectstates` and the command line start fast.
_NAMES = {
    "app.discover": "discover",
    "base.errors": "ObjectStatesError",
    "data.clips": "Box ChangeProfile Chunk Clip Tracklet TrackletLabel",
    "data.corpus": "Corpus",
    "data.formats.authors": "read_authors",
    "data.formats.truth_files": "read_truth",
    "data.result": "Result",
    "data.truth_labels": "label_corpus",
    "discovery.estimator": "JointDiscovery",
    "evaluation": "evaluate",
    "report.page": "write_report",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Box", "ChangeProfile", "Chunk", "Clip", "Corpus", "JointDiscovery", "ObjectStatesError",
    "Result", "Tracklet", "TrackletLabel", "discover", "evaluate", "label_corpus", "read_authors",
    "read_truth", "write_report",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'objectstates' has no attribute {name!r}")
    return getattr(import_module(f"objectstates.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
