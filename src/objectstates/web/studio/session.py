"""What the studio's page can do, without HTTP: choices, videos, discovery, exports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from objectstates.app.inspection import describe_verdict
from objectstates.app.workspace import Workspace
from objectstates.base.errors import (
    CorrectionError,
    ObjectStatesError,
    ResultError,
    VideoError,
    WorkspaceError,
)
from objectstates.base.storage import remove
from objectstates.data.corrections import read_corrections, rows_of
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.discovery.corrections import with_confirmed_times
from objectstates.export import export
from objectstates.export.registry import FORMATS
from objectstates.report.headline import headline
from objectstates.report.verdict_text import side_texts
from objectstates.video.clip_list import ClipSpan
from objectstates.web.events import EventStream
from objectstates.web.folder_lock import FolderLock
from objectstates.web.studio.discovery import Discovery, DiscoveryProgress
from objectstates.web.studio.project import Choices, Job, JobState, Project
from objectstates.web.studio.shelf import Shelf

FEWEST_CLIPS = 2
"""Of a discovery; the verdict says that more are needed."""


OFFERED = tuple(name for name, kind in FORMATS.items() if not kind.into_dataset)
"""The formats of the last step; videos of a project are not those of a robot dataset."""


class StudioSession:
    """One project that is open in a server; all methods may be called from any thread.

    settings : arguments of `objectstates.discover` beside those that the page sets.

    discoveries : how many have ended, so that pages about the result know when to read it again.
    finishing : whether a review is writing the result, which a discovery would write too.
    """

    def __init__(
        self, project: Project, events: EventStream, settings: Mapping[str, Any] | None = None
    ) -> None:
        self.project, self.events = project, events
        self._settings = dict(settings or {})
        self._lock = threading.RLock()
        self._shelf = Shelf(self._changed)
        self._discovery = Discovery(project.log, self._progressed, self._ended)
        self._clips: dict[str, ClipSpan] = {}
        self._loaded: tuple[Any, Result] | None = None
        self.discoveries = 0
        self.finishing: Callable[[], bool] = lambda: False
        self._exporting = threading.Lock()
        self._closed = False
        self._found_lock, self._holds_found = ExitStack(), False
        project.recover()

    # --- what the page shows ----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that the page shows."""
        clips, gone = self._read_clips()
        with self._lock:
            choices, job = self.project.choices, self.project.choices.job
            reviewed = self._reviewed_names()
            detector = self.project.detector
            result = None if self._discovery.running else self._result()
            return {
                "project": str(self.project.folder),
                "choices": {name: getattr(choices, name) for name in _CHOICES} | (reviewed or {}),
                "named_in_review": reviewed is not None,
                "folders": list(choices.folders),
                "gone": gone,
                "videos": self._shelf.describe(clips, self.project.videos),
                "drawn": self.project.labelled_frames(clips),
                "detector": detector is not None,
                "detector_file": str(detector or ""),
                "job": {"state": job.state, "error": job.error},
                "progress": asdict(self._discovery.progress) if self._discovery.running else None,
                "problems": list(self._discovery.progress.problems),
                "found": None if result is None else self._describe(result),
                "outdated": result is not None and job.inputs != self.project.inputs(clips),
                "exports": self._exports(),
            }

    def video(self, clip: str) -> Path | None:
        """The video of one of the project's clips."""
        span = self._clips.get(clip)
        if span is None:
            span = next((each for each in self.clips() if each.id == clip), None)
        return None if span is None else span.video

    def clips(self) -> list[ClipSpan]:
        """The project's clips."""
        return self._read_clips()[0]

    def _read_clips(self) -> tuple[list[ClipSpan], list[str]]:
        """The clips, and folders that are gone. Not under the lock: a large folder takes long."""
        clips, gone = self.project.clips()
        self._clips = {span.id: span for span in clips}
        return clips, gone

    def _result(self) -> Result | None:
        """The result; read again only when it has been replaced."""
        folder = self.project.found / "result"
        try:
            facts = folder.stat()
            key = facts.st_ino, facts.st_mtime_ns
            if self._loaded is None or self._loaded[0] != key:
                self._loaded = key, Result.load(folder)
            return self._loaded[1]
        except (ResultError, OSError):
            return None

    def _describe(self, result: Result) -> dict[str, Any]:
        verdict = result.verdict
        return {
            "headline": headline(result),
            "clips": len(result.clips),
            "left_out": [f"{clip.clip}: {clip.reason}" for clip in result.skipped],
            "sides": [] if verdict is None else [asdict(side) for side in side_texts(verdict)],
            "why": "" if verdict is None else verdict.why,
            "remedy": "" if verdict is None else verdict.remedy,
            "advice": describe_verdict(result)["advice"],
            "corrected": len({row.clip for row in result.corrections}),
            "unwritten": self._unwritten(result),
            "report": (self.project.found / "report.html").is_file(),
            "folder": str(self.project.found),
        }

    def _unwritten(self, result: Result) -> bool:
        """Whether corrections were made in review that the result does not follow yet."""
        place = self.project.found / "corrections.csv"
        try:
            rows = read_corrections(place) if place.is_file() else ()
        except CorrectionError:
            return True  # edited by hand, and wrong: the review says where
        taking_part = [*result.clips, *(clip.clip for clip in result.skipped)]
        rows = rows_of(rows, taking_part)
        try:
            return set(with_confirmed_times(rows, result)) != set(result.corrections)
        except CorrectionError:  # there is no action to confirm
            return True

    def _reviewed_names(self) -> dict[str, str] | None:
        """The names that were chosen in review, which then hold; those not chosen are empty."""
        if not (self.project.found / "review.json").is_file():
            return None
        try:
            names = Workspace(self.project.found).reviewed_names()
        except WorkspaceError:  # something else is in the folder: a discovery will say so
            return None
        if names is None:
            return None
        usual = LabelNames().to_json()
        return {k: "" if name == usual[k] else name for k, name in names.to_json().items()}

    def _exports(self) -> list[dict[str, Any]]:
        return [
            {
                "format": name,
                "folder": str(folder) if (folder / "export.json").is_file() else "",
            }
            for name in OFFERED
            for folder in [self.project.found / "exports" / name]
        ]

    # --- what the page does -----------------------------------------------------------------------

    def choose(self, values: Mapping[str, Any]) -> None:
        """Set names and choices: object, state_1, action, state_2, boxes."""
        unknown = sorted(set(values) - set(_CHOICES))
        if unknown or not all(isinstance(value, str) for value in values.values()):
            raise WorkspaceError(f"the page may set {', '.join(_CHOICES)}, each as text")
        with self._lock:
            self.project.change({name: str(value).strip() for name, value in values.items()})
        self._changed()

    def add_folder(self, path: str) -> int:
        """Use the videos of a folder; returns how many clips it has."""
        folder, count = self.project.inspect_folder(path)  # takes long if it is large
        with self._lock:
            self.project.use_folder(folder)
        self._changed()
        return count

    def remove_folder(self, path: str) -> None:
        with self._lock:
            self.project.remove_folder(path)
        self._changed()

    def added(self) -> None:
        """Tell the pages that a video was received."""
        self._changed()

    def remove_video(self, clip: str) -> None:
        """Delete a video that was dropped on the page; those of other folders are never touched."""
        with self._lock:
            self._idle()
            video = self.video(clip)
            if video is None or video.parent != self.project.videos:
                raise VideoError(f"{clip} is not among the videos that were added to this page")
            remove(video)
        self._changed()

    def discover(self) -> None:
        """Start the discovery with the present choices; it continues from what is there."""
        clips = self.clips()
        with self._lock:
            self._idle()
            if self.finishing():
                raise WorkspaceError("the corrected result is being written: wait a moment")
            choices, detector = self.project.choices, self.project.detector
            if len(clips) < FEWEST_CLIPS:
                raise VideoError(
                    "add at least two videos of the same manipulation; a dozen is good"
                )
            if choices.boxes == "labels" and detector is None:
                raise WorkspaceError(
                    "there is no detector yet: draw boxes and train one, or choose to go without"
                )
            by_labels = choices.boxes == "labels"
            named = Choices() if self._reviewed_names() else choices
            names = named.names()
            task = {
                **self._settings,
                "videos": [str(span.video) for span in clips],
                "out": str(self.project.found),
                "object": choices.object or None,
                "detector": f"fewshot:{detector}" if by_labels else "motion",
                "states": [names.state_1, names.state_2],
                "action": names.action,
            }
            self.hold_found()
            job = Job("running", self.project.inputs(clips))
            self._discovery.start(task)
            self.project.change({"job": job})  # its end waits for the lock
        self._changed()

    def cancel(self) -> None:
        """End a running discovery; what it has read so far is in the cache."""
        self._discovery.cancel()

    def export(self, format: str) -> dict[str, Any]:
        """Write the result in a format, or in all that can be written with ``all``."""
        if format not in OFFERED and format != "all":
            raise WorkspaceError(f"{format} is not known: choose from {', '.join(OFFERED)}")
        result = self._result()
        if result is None:
            raise WorkspaceError("there is no result to export yet: discover first")
        files, problems = 0, []
        with self._exporting:
            for name in OFFERED if format == "all" else [format]:
                try:
                    done = export(result, name, self.project.found / "exports" / name)
                except ObjectStatesError as problem:
                    if format != "all":
                        raise
                    problems.append(f"{name}: {problem}")
                    continue
                files += len(done.files)
                problems += [f"{name}: {problem}" for problem in done.problems]
        self._changed()
        return {"files": files, "problems": problems}

    def close(self) -> None:
        """End threads and processes; a discovery goes on when it is started again."""
        self._closed = True
        self._shelf.close()
        self._discovery.cancel()
        self._found_lock.close()

    def hold_found(self) -> None:
        """Keep other servers away from the result, as long as this one runs."""
        with self._lock:
            if not self._holds_found:
                self.project.found.mkdir(exist_ok=True)
                self._found_lock.enter_context(FolderLock(self.project.found))
                self._holds_found = True

    def labelable(self) -> Hashable | None:
        """What labels depend on, the object and the clips; None if they are not known yet."""
        name = self.project.choices.object
        clips = tuple((span.id, str(span.video)) for span in self.clips())
        return (name, clips) if name and clips else None

    def reviewable(self) -> int | None:
        """The number of the discovery whose result can be reviewed now; None if there is none."""
        with self._lock:
            running = self._discovery.running or self.project.choices.job.state == "running"
            return None if running or self._result() is None else self.discoveries

    def _idle(self) -> None:
        if self._discovery.running:
            raise WorkspaceError("a discovery is running: wait for it, or cancel it")

    # --- what threads report ----------------------------------------------------------------------

    def _changed(self) -> None:
        self._clips = {}
        self.events.publish("studio.changed", {})

    def _progressed(self, progress: DiscoveryProgress) -> None:
        self.events.publish("studio.progress", asdict(progress))

    def _ended(self, state: JobState, error: str) -> None:
        with self._lock:
            if self._closed and state == "cancelled":
                state = "interrupted"
            self.discoveries += 1
            job = self.project.choices.job
            self.project.change({"job": Job(state, job.inputs, error)})
        self._changed()


_CHOICES = ("object", "state_1", "action", "state_2", "boxes")
