"""A folder in which a discovery is done stage by stage, so that no finished stage is done twice::

    corpus/         what was seen in the videos
    result/         what was found in the corpus
    report.html     the page about it
    discover.json   which result the page is about

A stage is finished once its artefact stands there, whole, with the fingerprint of all that it was
made from; if any of that changes, it is done again. The clips of a corpus are kept one by one in
the cache of ``ingest``. So whoever is interrupted, anywhere, repeats the command.
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
from objectstates.base.storage import remove, write_atomically
from objectstates.data.corpus import Corpus
from objectstates.data.result import Result
from objectstates.data.truth import ClipTruth
from objectstates.discovery.estimator import JointDiscovery
from objectstates.discovery.solver_runs import FitProgress
from objectstates.ingest.pipeline import IngestSettings, Progress, Report, ingest_to
from objectstates.report.page import write_report
from objectstates.video.clip_list import ClipSpan

VERSION = 1
STATE = "discover.json"
NAMES = frozenset({"corpus", "result", "report.html", STATE})
_LEFTOVER = re.compile(r"\.(?:corpus|result|report\.html|discover\.json)\.(\d+)-\w+\.(?:tmp|old)")


class Workspace:
    """The folder of one discovery. It is made, and checked to be ours, before any work."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.corpus, self.result = self.folder / "corpus", self.folder / "result"
        self.report, self._state = self.folder / "report.html", self.folder / STATE
        try:
            self._occupy()
        except OSError as problem:
            raise WorkspaceError(f"cannot write {folder}: {problem.strerror}") from problem

    def _occupy(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        entries = {path.name: path for path in self.folder.iterdir()}
        leftovers = {name for name in entries if _LEFTOVER.fullmatch(name)}
        strange = sorted(set(entries) - NAMES - leftovers)
        if strange or (set(entries) - leftovers and STATE not in entries):
            raise WorkspaceError(
                f"{self.folder} exists and holds something else"
                f"{f' ({strange[0]})' if strange else ''}: move it away or choose another folder"
            )
        for name in leftovers:  # of a run that was killed while it wrote
            _remove_unless_in_use(entries[name])
        if STATE not in entries:
            self._write_state({})

    def ingest(
        self,
        clips: Sequence[ClipSpan],
        settings: IngestSettings,
        *,
        truth: Mapping[str, ClipTruth] | None = None,
        cache: Path | None = None,
        processes: int = 1,
        ray_address: str | None = None,
        strict: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> tuple[Corpus, Report]:
        """The corpus of the clips, labelled where the truth is known; ``cache`` is what resumes.

        It is returned without features, which lie in the folder.
        """
        return ingest_to(
            self.corpus,
            clips,
            settings,
            truth=truth,
            cache=cache,
            processes=processes,
            ray_address=ray_address,
            strict=strict,
            progress=progress,
        )

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
    ) -> tuple[Result, bool]:
        """What is found in the corpus, and whether it had been found before.

        shards : fit out of core, in so many shards (``JointDiscovery.fit_folder``).
        """
        how = model.get_params() | ({} if shards is None else {"shards": shards})
        fingerprint = digest("fit", _code(), content_digest(self.corpus), how)
        try:
            kept = Result.load(self.result) if self.result.exists() else None
        except ResultError:  # damaged, or of another version: to be made again
            kept = None
        if kept is not None and kept.summary.get("fingerprint") == fingerprint:
            return kept, True
        if shards is None:
            model.fit(Corpus.load(self.corpus), callback=callback)
        else:
            place = scratch or self.corpus.parent
            model.fit_folder(
                self.corpus,
                callback,
                shards=shards,
                scratch=place,
                processes=processes,
                ray_address=ray_address,
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
        """Write the page about the result; says whether it stood there before."""
        files = sorted(path for path in self.result.rglob("*") if path.is_file())
        source = digest("report", _code(), [content_digest(path) for path in files])
        if self._is_about(source):
            return True
        write_report(result, self.report, processes=processes, progress=progress)
        self._write_state({"report_of": source, "report": content_digest(self.report)})
        return False

    def _is_about(self, source: str) -> bool:
        """Whether the page stands there as it was written, about this result."""
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


def _remove_unless_in_use(leftover: Path) -> None:
    """Remove what a process that is no more left behind; elsewhere than on POSIX it is no harm."""
    found = _LEFTOVER.fullmatch(leftover.name)
    assert found is not None
    if os.name != "posix":
        return
    try:
        os.kill(int(found[1]), 0)  # signal 0 only asks whether the process is there
    except (ProcessLookupError, OverflowError):
        remove(leftover)
    except PermissionError:
        pass  # it lives, and is somebody else's


def _code() -> str:
    """A fingerprint of this package: what another version made is made again."""
    root = Path(__file__).parents[1]
    files = sorted(
        Path(folder) / name
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith((".py", ".html", ".css", ".js", ".j2"))
    )
    return digest([[str(path.relative_to(root)), content_digest(path)] for path in files])
