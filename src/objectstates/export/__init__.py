"""Results in the formats of other tools: `export`, and one file per family of formats."""

from __future__ import annotations

from objectstates.export.registry import FORMATS, Exported, export

__all__ = ["FORMATS", "Exported", "export"]
