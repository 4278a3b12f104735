"""What a review keeps on disk: corrections, names, notes, and the history to undo.

``corrections.csv`` has the corrections and can be edited by hand; ``review.json`` the rest. Every
change is on disk when the method that makes it returns. If a process is killed between the two
files, the corrections count, and a history that does not fit them is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from objectstates.base.errors import WorkspaceError
from objectstates.base.storage import write_atomically
from objectstates.data.corrections import (
    Correction,
    corrections_from_json,
    read_corrections,
    write_corrections,
)
from objectstates.data.label_names import LabelNames
from objectstates.web.review.edits import Rows

VERSION = 1
LONGEST_NOTE = 2000  # characters
_STEPS = 500  # that can be undone


@dataclass(frozen=True)
class Step:
    """A change of the rows of one clip."""

    clip: str
    before: Rows
    after: Rows

    def to_json(self) -> dict[str, Any]:
        rows = {"before": self.before, "after": self.after}
        return {"clip": self.clip, **{k: [row.to_json() for row in v] for k, v in rows.items()}}

    @classmethod
    def from_json(cls, values: Any) -> Step:
        return cls(
            str(values["clip"]),
            corrections_from_json(values["before"]),
            corrections_from_json(values["after"]),
        )


@dataclass
class Journal:
    """The files of a review.

    rows : the corrections of each clip that has some.
    undoable, undone : steps, the last ones at the end.
    """

    corrections: Path
    review: Path
    rows: dict[str, Rows]
    names: LabelNames
    notes: dict[str, str] = field(default_factory=dict)
    undoable: list[Step] = field(default_factory=list)
    undone: list[Step] = field(default_factory=list)

    @classmethod
    def open(
        cls, corrections: Path, review: Path, *, rows: Iterable[Correction], names: LabelNames
    ) -> Journal:
        """Read both files; ``rows`` and ``names`` are those of the result, if there are none."""
        if corrections.exists():
            rows = read_corrections(corrections)
        journal = cls(corrections, review, {}, names)
        if review.exists():
            journal._read_review()
        for row in rows:
            plain = replace(_with_number(row, journal.names), line=0, file="")
            journal.rows[row.clip] = (*journal.rows.get(row.clip, ()), plain)
        journal._drop_history_that_does_not_fit()
        return journal

    @property
    def all_rows(self) -> Rows:
        return tuple(row for rows in self.rows.values() for row in rows)

    def of(self, clip: str) -> Rows:
        return self.rows.get(clip, ())

    def change(self, clip: str, after: Rows) -> None:
        """Replace the rows of a clip."""
        step = Step(clip, self.of(clip), after)
        self.undoable = [*self.undoable, step][-_STEPS:]
        self.undone = []
        self._put(clip, after)

    def undo(self) -> Step | None:
        """Undo the last change; None if there is none."""
        if not self.undoable:
            return None
        step = self.undoable.pop()
        self.undone.append(step)
        self._put(step.clip, step.before)
        return step

    def redo(self) -> Step | None:
        """Redo the last change that was undone; None if there is none."""
        if not self.undone:
            return None
        step = self.undone.pop()
        self.undoable.append(step)
        self._put(step.clip, step.after)
        return step

    def forget_steps_of_others(self, clips: Container[str]) -> None:
        """Drop what cannot be undone because its clip is gone."""
        self.undoable = [step for step in self.undoable if step.clip in clips]
        self.undone = [step for step in self.undone if step.clip in clips]

    def rename(self, names: LabelNames) -> None:
        self.names = names
        self._write_review()

    def note(self, clip: str, text: str) -> None:
        """Keep a note about a clip; an empty one is removed."""
        self.notes.pop(clip, None)
        if text.strip():
            self.notes[clip] = text[:LONGEST_NOTE]
        self._write_review()

    def _put(self, clip: str, rows: Rows) -> None:
        self.rows.pop(clip, None)
        if rows:
            self.rows[clip] = rows
        write_corrections(self.corrections, self.all_rows)
        self._write_review()

    def _write_review(self) -> None:
        content = {
            "format_version": VERSION,
            "names": self.names.to_json(),
            "notes": self.notes,
            "undoable": [step.to_json() for step in self.undoable],
            "undone": [step.to_json() for step in self.undone],
        }
        try:
            write_atomically(self.review, json.dumps(content, indent=1) + "\n")
        except OSError as problem:
            raise WorkspaceError(f"cannot write {self.review}: {problem.strerror}") from problem

    def _read_review(self) -> None:
        try:
            content = json.loads(self.review.read_text(encoding="utf-8"))
            if content["format_version"] != VERSION:
                raise ValueError(f"format version {content['format_version']!r}")
            self.names = LabelNames.from_json(content["names"])
            self.notes = {str(clip): str(text) for clip, text in content["notes"].items()}
            self.undoable = [Step.from_json(step) for step in content["undoable"]]
            self.undone = [Step.from_json(step) for step in content["undone"]]
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as problem:
            raise WorkspaceError(
                f"{self.review} cannot be read ({problem}): mend it or move it away; the "
                f"corrections are in {self.corrections.name}"
            ) from problem

    def _drop_history_that_does_not_fit(self) -> None:
        last, next_ = self.undoable[-1:], self.undone[-1:]
        if any(set(self.of(step.clip)) != set(step.after) for step in last) or any(
            set(self.of(step.clip)) != set(step.before) for step in next_
        ):
            self.undoable, self.undone = [], []


def _with_number(row: Correction, names: LabelNames) -> Correction:
    """A state, or an action of a chain, by its number, so that names can change."""
    number = names.state_number(row.value) if row.kind == "state" else None
    if row.kind in ("action", "confirm") and row.value:
        number = names.action_number(row.value)
    return row if number is None else replace(row, value=str(number))
