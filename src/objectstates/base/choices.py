"""Values that settings allow, without imports, so that the command line starts fast."""

from __future__ import annotations

from typing import Any, Literal

Solver = Literal["block", "full"]
ConstraintName = Literal["at_least_one", "exactly_one"]
Target = Literal["joint", "state", "action"]
Labelling = Literal["held_out", "paper"]
SideName = Literal["action", "state"]
Reject = Literal["none", "auto"]
TimeUnit = Literal["clip", "second"]
Engine = Literal["local", "processes", "ray"]
OnInfeasible = Literal["skip", "raise"]
ChunkKind = Literal["dense", "paper"]
TextMethod = Literal["tfidf", "embeddings"]

PAPER: dict[str, Any] = {
    "nu": 1.0,
    "mu": 1e-4,
    "lam": 1e-2,
    "time_unit": "second",
    "labelling": "paper",
    "reject": "none",
    "reduce": None,
}
"""The paper's settings of the fit. Those of its table's rows are not among them: ``target``,
``constraint`` and ``detection_weight``."""

DETECTION_THRESHOLD = 0.4
"""Least score of a detection. Low, as in the paper: what is missed is lost to all later stages,
what is wrong is outvoted."""

BOX_CONTEXT = 1.25
"""Factor on the sides of a box before its appearance or motion is described: the surroundings help
to separate states; more of them would include too much of the arm that reaches."""

CHUNK_SECONDS = 0.4
"""Length of a chunk, the paper's 10 frames at 25 per second, for clips of about 15 s."""

TRACKLET_SECONDS = 1.0
"""Approximate length of a tracklet, the paper's; ``ingest/time_scale.py`` has those of others."""

PAPER_FULL: dict[str, Any] = {"tol": 1e-12, "max_passes": 630}
"""The steps of the paper's own solver, for ``solver="full"``: 30 on f and g alone, then 600, as in
the authors' code (the paper gives no number). ``tol`` is so small that none is left out."""

PAPER_INGEST: dict[str, Any] = {
    "appearance": "resnet50",
    "chunks": "paper",
    "conv_words": "vgg16",
    "threshold": DETECTION_THRESHOLD,
    "change_columns": False,
    "tracklet_seconds": TRACKLET_SECONDS,
    "chunk_seconds": CHUNK_SECONDS,
}
"""The paper's settings of ingest."""


def paper_fit(solver: str) -> dict[str, Any]:
    """The paper's settings of the fit by this solver."""
    return {**PAPER, **(PAPER_FULL if solver == "full" else {})}
