"""Results, and folders of results and corpora, that tests change."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from objectstates.data.corpus import Array
from objectstates.data.result import Result


def with_action(result: Result, **columns: Array) -> Result:
    """The result of one change with another ``chunk`` (N,), ``time`` (N,) or ``span`` (N, 2)."""
    changed = {name: column[:, None] for name, column in columns.items()}
    return replace(result, actions=replace(result.actions, **changed))


def remove_checksums(folder: Path) -> Path:
    """Make a saved corpus or result one without checksums, as other programs write them."""
    for name in ("corpus.json", "result.json"):
        if (path := folder / name).exists():
            header = json.loads(path.read_text())
            header.pop("checksums", None)
            path.write_text(json.dumps(header))
    return folder
