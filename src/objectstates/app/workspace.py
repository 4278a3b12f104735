"""The folder of one discovery, which runs in stages that are not repeated needlessly::

    corpus/         the corpus that ingest wrote
    result/         the result of the fit
    report.html     the report about the result
    discover.json   fingerprints of the result that the report describes, and of the report
    corrections.csv a person's corrections of some clips, if any (docs/corrections.md)
    review.json     names of states and action, notes and the history of corrections
    exports/        the result in other formats, a folder each

A stage is up to date if its artefact is complete and carries the fingerprint of all its inputs.
Ingest has a cache per clip. So an interrupted run continues when the same call is repeated.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from objectstates.base.cache import content_digest, digest
from objectstates.base.errors import ResultError, WorkspaceError
from objectstates.base.storage import (
    clear_leftovers,
    leftover_of,
    scratch_folder,
    write_atomically,
)
from objectstates.data.corpus import Corpus
from objectstates.data.corrections import Correction, read_corrections
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.discovery.corrections import with_confirmed_times
from objectstates.discovery.estimator import JointDiscovery
from objectstates.discovery.in_memory import check_memory_for
from objectstates.discovery.solver_runs import FitProgress
from objectstates.report.page import write_report

VERSION = 1
STATE = "discover.json"
CORRECTIONS, REVIEW, EXPORTS = "corrections.csv", "review.json", "exports"
NAMES = frozenset({"corpus", "result", "report.html", STATE, CORRECTIONS, REVIEW, EXPORTS})
_BY_EDITORS = re.compile(rf".*{re.escape(CORRECTIONS)}.*|\.DS_Store")
"""Locks and copies that programs keep beside a file that is being edited."""


class Workspace:
    """The folder of one discovery; created, or checked to hold nothing else, before any work."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.corpus, self.result = self.folder / "corpus", self.folder / "result"
        self.report, self._state = self.folder / "report.html", self.folder / STATE
        self.corrections, self.review = self.folder / CORRECTIONS, self.folder / REVIEW
        self.exports = self.folder / EXPORTS
        try:
            self._open()
        except OSError as problem:
            raise WorkspaceError(f"cannot write {folder}: {problem.strerror}") from problem

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        entries = {path.name: path for path in self.folder.iterdir()}
        leftovers = {name for name in entries if leftover_of(name) in NAMES}
        beside = {name for name in entries if _BY_EDITORS.fullmatch(name)}
        foreign = sorted(set(entries) - NAMES - leftovers - beside)
        if foreign or (set(entries) - leftovers and STATE not in entries):
            raise WorkspaceError(
                f"{self.folder} exists and holds something else"
                f"{f' ({foreign[0]})' if foreign else ''}: move it away or choose another folder"
            )
        for name in NAMES:
            clear_leftovers(self.folder / name)
        if STATE not in entries:
            self._write_state({})

    def corrections_to_use(self, given: str | Path | None) -> tuple[Correction, ...]:
        """The rows of the file that is ``given``, else of the folder's own, if it has one.

        Rows in the folder were made in review. Another file with other rows is refused, so that
        none are dropped silently.
        """
        own = read_corrections(self.corrections) if self.corrections.exists() else None
        if given is None:
            return own or ()
        rows = read_corrections(given)
        if own is not None and set(rows) != set(own):
            raise WorkspaceError(
                f"{self.corrections} holds other corrections than {given}: leave `corrections` out "
                "to use them, or move them away"
            )
        return rows

    def names_to_use(self, given: LabelNames) -> LabelNames:
        """The names that are ``given``, if any; else those that were chosen in review."""
        usual, reviewed = LabelNames.usual(len(given.actions)), self.reviewed_names()
        alike = reviewed is not None and len(reviewed.actions) == len(given.actions)
        return reviewed if given == usual and alike else given  # type: ignore[return-value]

    def reviewed_names(self) -> LabelNames | None:
        """The names of states and action that were chosen in review, if any."""
        try:
            return LabelNames.from_json(json.loads(self.review.read_text("utf-8"))["names"])
        except (OSError, ValueError, KeyError, TypeError):  # none, or damaged
            return None

    def fit(
        self,
        model: JointDiscovery,
        *,
        shards: int | None = None,
        scratch: Path | None = None,
        processes: int = 1,
        ray_address: str | None = None,
        configuration: Mapping[str, Any] | None = None,
        callback: Callable[[FitProgress], bool | None] | None = None,
        corrections: Sequence[Correction] = (),
        names: LabelNames | None = None,
    ) -> tuple[Result, bool]:
        """The result of the fit, and whether it was up to date.

        shards : fit out of core, in this number of shards (``JointDiscovery.fit_folder``).
        corrections : a ``confirm`` without times refers to the result that is there.
        """
        try:
            existing = Result.load(self.result) if self.result.exists() else None
        except ResultError:  # damaged, or of another version: fit again
            existing = None
        rows = with_confirmed_times(corrections, existing)
        auto = model.changes == "auto"  # how many names there are is known after the fit
        names = None if auto else names or LabelNames.usual(int(model.changes))
        given: dict[str, Any] = {"corrections": rows, "names": names}
        settings = model.get_params() | ({} if shards is None else {"shards": shards})
        if rows:
            lines = [{**row.to_json(), "line": 0} for row in rows]
            settings |= {"corrections": lines, "names": names and names.to_json()}
        fingerprint = digest("fit", _code_digest(), content_digest(self.corpus), settings)
        if existing is not None and existing.summary.get("fingerprint") == fingerprint:
            if names and existing.names != names:  # labels do not depend on what they are called
                existing = replace(existing, names=names)
                existing.save(self.result)
            return existing, True
        if shards is None:
            check_memory_for(self.corpus)
            model.fit(Corpus.load(self.corpus), callback=callback, **given)
        else:
            with scratch_folder(self.folder, self.result.name) as own:
                model.fit_folder(
                    self.corpus,
                    callback,
                    shards=shards,
                    scratch=scratch or own,
                    processes=processes,
                    ray_address=ray_address,
                    **given,
                )
        found = model.result_
        facts = {"fingerprint": fingerprint, "configuration": dict(configuration or {})}
        result = replace(found, summary={**found.summary, **facts})
        result.save(self.result)
        return result, False

    def write_report(
        self,
        result: Result,
        *,
        processes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> bool:
        """Write the report about the result; returns whether it was up to date."""
        files = sorted(path for path in self.result.rglob("*") if path.is_file())
        source = digest("report", _code_digest(), [content_digest(path) for path in files])
        if self._report_is_of(source):
            return True
        write_report(result, self.report, processes=processes, progress=progress)
        self._write_state({"report_of": source, "report": content_digest(self.report)})
        return False

    def _report_is_of(self, source: str) -> bool:
        """Whether the report describes this result and is unchanged since it was written."""
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
            return bool(
                state["report_of"] == source and state["report"] == content_digest(self.report)
            )
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _write_state(self, facts: dict[str, str]) -> None:
        text = json.dumps({"format_version": VERSION, **facts}, indent=1)
        write_atomically(self._state, text + "\n")


def _code_digest() -> str:
    """A fingerprint of this package: another version repeats all stages."""
    root = Path(__file__).parents[1]
    files = sorted(
        Path(folder) / name
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith((".py", ".html", ".css", ".js", ".j2"))
    )
    return digest([[str(path.relative_to(root)), content_digest(path)] for path in files])
