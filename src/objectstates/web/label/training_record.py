"""What trainings have reached so far, in a JSON file beside the labels."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from objectstates.base.storage import write_atomically

RECALL_POINTS = 200  # kept of the curve


class TrainingRecord:
    """The recalls so far and what the kept detector was trained on, in a JSON file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recalls: list[dict[str, Any]] = []
        self.final: dict[str, Any] | None = None
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            content = json.loads(path.read_text(encoding="utf-8"))
            self.recalls, self.final = list(content["recalls"]), content["final"]

    def add(self, facts: dict[str, Any], *, final: bool) -> None:
        if final:
            self.final = facts
        self.recalls = [*self.recalls, facts][-RECALL_POINTS:]
        write_atomically(
            self.path, json.dumps({"recalls": self.recalls, "final": self.final}, indent=1) + "\n"
        )
