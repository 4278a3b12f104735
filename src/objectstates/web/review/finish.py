"""The end of a review: the corrected result, its report and exports, written in the background.

The result is that of ``discover`` with the same corrections and names, verdict included, so that
repeating the command finds everything up to date.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from objectstates.app.workspace import Workspace
from objectstates.base.errors import ObjectStatesError, SettingError
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.discovery.estimator import JointDiscovery
from objectstates.export.registry import FORMATS, export
from objectstates.web.events import EventStream
from objectstates.web.review.edits import Rows


class Finisher:
    """Writes results, one at a time.

    finished : called with the result when it is on disk.
    """

    def __init__(
        self,
        workspace: Workspace,
        model: JointDiscovery,
        events: EventStream,
        finished: Callable[[Result], None],
    ) -> None:
        self._workspace, self._model = workspace, model
        self._events, self._call = events, finished
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._state: dict[str, Any] = {"running": False, "stage": "", "written": [], "problem": ""}

    def running(self) -> bool:
        """Whether files are being written."""
        with self._lock:
            return bool(self._state["running"])

    def state(self) -> dict[str, Any]:
        """Whether it runs, its stage, what was written, and what went wrong."""
        with self._lock:
            return dict(self._state)

    def start(
        self,
        rows: Rows,
        names: LabelNames,
        formats: tuple[str, ...],
        *,
        pause: Callable[[bool], None],
    ) -> None:
        """Begin to write; ``pause`` stops the refits meanwhile."""
        for name in formats:
            if name not in FORMATS:
                raise SettingError(f"there is no format {name[:40]!r}: {', '.join(FORMATS)}")
        with self._lock:
            if self._state["running"]:
                raise SettingError("the result is being written already")
            self._state = {"running": True, "stage": "fit", "written": [], "problem": ""}
        pause(True)
        self._thread = threading.Thread(
            target=self._run, args=(rows, names, formats, pause), name="finish", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join(60)  # files are written under temporary names: it may be killed

    def _run(
        self, rows: Rows, names: LabelNames, formats: tuple[str, ...], pause: Callable[[bool], None]
    ) -> None:
        problems = ["the result could not be written; the server's terminal shows why"]
        try:
            problems = self._write(rows, names, formats)
        except (ObjectStatesError, OSError) as problem:
            problems = [str(problem)]
        finally:
            pause(False)
            self._publish(running=False, stage="", problem="; ".join(problems))

    def _write(self, rows: Rows, names: LabelNames, formats: tuple[str, ...]) -> list[str]:
        place = self._workspace
        self._publish(stage="fit")
        earlier = Result.load(place.result).summary.get("configuration")
        unfitted = JointDiscovery(**self._model.get_params())
        result, _ = place.fit(unfitted, corrections=rows, names=names, configuration=earlier)
        self._call(result)
        self._wrote(place.result)
        self._publish(stage="report")
        place.write_report(result)
        self._wrote(place.report)
        problems: list[str] = []
        for name in formats:
            self._publish(stage=name)
            try:
                done = export(result, name, place.exports / name)
            except ObjectStatesError as problem:  # one that cannot be written stops no other
                problems.append(str(problem))
                continue
            problems += done.problems
            self._wrote(place.exports / name)
        return problems

    def _wrote(self, path: Path) -> None:
        with self._lock:
            self._state["written"] = [*self._state["written"], str(path)]

    def _publish(self, **facts: Any) -> None:
        with self._lock:
            self._state |= facts
            state = dict(self._state)
        self._events.publish("review.finish", state)
