"""Values that settings allow, without imports, so that the command line starts fast."""

from __future__ import annotations

from typing import Literal

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

PAPER = {"nu": 1.0, "time_unit": "second", "labelling": "paper"}
"""The paper's settings of the fit that differ from the defaults."""

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

PAPER_INGEST = {
    "chunks": "paper",
    "change_columns": False,
    "tracklet_seconds": TRACKLET_SECONDS,
    "chunk_seconds": CHUNK_SECONDS,
}
"""The paper's settings of ingest that differ from the defaults."""
