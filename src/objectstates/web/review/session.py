"""The review of one discovery: its answers, the corrections, and the answers that follow from them.

Without HTTP: ``routes.py`` is a thin layer over it. All methods may be called from any thread.
Every change is on disk before its method returns (``journal.py``), and the refit then follows in
the background (``refitting.py``) and is announced by the event ``review.answers``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any, Literal

import numpy as np

from objectstates.app.workspace import Workspace
from objectstates.base.errors import CorrectionError, ResultError, WorkspaceError
from objectstates.base.file_names import existing_path
from objectstates.data.corpus import Array, Corpus
from objectstates.data.corrections import by_clip, rows_of
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.discovery.ask_next import (
    chances_to_ask_by,
    facility_location,
    similarities,
)
from objectstates.discovery.corrections import with_confirmed_times
from objectstates.discovery.refit import Refitter
from objectstates.export.registry import FORMATS
from objectstates.report.clip_view import ClipView, image_fps, object_name
from objectstates.report.verdict_text import section, side_texts
from objectstates.web.events import EventStream
from objectstates.web.review import edits
from objectstates.web.review.answers import (
    Chances,
    answers_of,
    chances_of,
    changed,
    confidence,
    left_out,
)
from objectstates.web.review.clip_data import (
    bare_result,
    clip_json,
    frame_times,
    snapped,
    video_size,
)
from objectstates.web.review.finish import Finisher
from objectstates.web.review.journal import LONGEST_NOTE, Journal
from objectstates.web.review.refitting import BackgroundRefits, Phase, Request

_NEXT = 20  # clips that are proposed: a correction changes the order


class ReviewSession:
    """A review of the folder ``found``, which ``discover`` wrote.

    events : where changes are announced.
    videos : folder in which to look for videos that are not at their recorded paths.
    """

    def __init__(
        self,
        found: str | Path,
        *,
        events: EventStream | None = None,
        videos: str | Path | None = None,
    ) -> None:
        check_found(Path(found))
        self.workspace = Workspace(found)
        self.events = events or EventStream()
        self._videos = None if videos is None else Path(videos)
        self._lock = threading.RLock()
        self._result = Result.load(self.workspace.result)
        if self._result.summary.get("kind") != "fit":
            raise ResultError(f"{self.workspace.result} holds predictions: review what fit found")
        self._corpus = Corpus.load(self.workspace.corpus)
        self._numbers = {clip: n for n, clip in enumerate(self._corpus.clip_ids)}
        self._bare = bare_result(self._corpus, self._result)
        self._similarity = similarities(self._corpus)
        self._has_video = {clip for clip in self._numbers if self._video_problem(clip) == ""}
        self._journal = self._opened_journal()
        self._answers = self._found = self._before = answers_of(self._result)
        self._chances = chances_of(self._result) or {}
        self._verdict = self._result.verdict
        self._phase: Phase | Literal["failed"] = "refitting"
        self._problem = ""
        self._request = self._version = 0
        self._views: dict[str, ClipView] = {}
        self._show(self._result)
        self._refitter = Refitter(self._corpus, self._result.settings)
        self._refits = BackgroundRefits(self._refitter, self._reached, self._failed)
        self.finisher = Finisher(self.workspace, self._refitter.model, self.events, self._finished)
        self._refit()

    def close(self) -> None:
        """End the threads; what runs is given up, and nothing is lost."""
        self._refits.close()
        self.finisher.close()

    def wait(self, seconds: float = 60.0) -> bool:
        """Wait until the answers and the verdict follow from all corrections; whether they do."""
        return self._refits.wait(seconds)

    # --- what is shown --------------------------------------------------------------------------

    def image_fps(self, video: Path) -> float:
        """Frame rate of a folder of images."""
        return image_fps(self._bare, video)

    def state(self) -> dict[str, Any]:
        """All of the page but the details of a clip."""
        with self._lock:
            journal = self._journal
            now = changed(self._answers, self._before)
            since = changed(self._answers, self._found)
            return {
                "folder": self.workspace.folder.name or str(self.workspace.folder),
                "object": object_name(self._bare),
                "names": dict(journal.names.labels),
                "phase": self._phase,
                "version": self._version,
                "problem": self._problem,
                "verdict": self._verdict_json(),
                "clips": [self._row(clip, clip in now, clip in since) for clip in self._numbers],
                "next": self._next(),
                "undo": journal.undoable[-1].clip if journal.undoable else None,
                "redo": journal.undone[-1].clip if journal.undone else None,
                "corrections": len(self._rows),
                "saved": set(self._result.corrections) == set(self._rows)
                and self._result.names == journal.names,
                "formats": self._formats(),
                "finish": self.finisher.state(),
            }

    def clip(self, clip: str) -> dict[str, Any]:
        """The details of one clip."""
        self._check_clip(clip)
        with self._lock:
            view, rows = self._views.get(clip) or self._bare_view(clip), self._journal.of(clip)
            row = self._row(
                clip,
                self._answers[clip].differs(self._before[clip]),
                self._answers[clip].differs(self._found[clip]),
            )
            note = self._journal.notes.get(clip, "")
        video = self.video_of(clip)
        size = None if video is None else video_size(video, self.image_fps(video))
        problem = "" if size else self._video_problem(clip) or "The video cannot be read."
        facts = {"note": note, "size": size, "video_problem": problem}
        return {**row, **clip_json(view, rows), **facts}

    def frames(self, clip: str) -> list[float]:
        """The times of the clip's frames, in seconds; none if its video cannot be read."""
        self._check_clip(clip)
        return list(self._frames(clip))

    def video_of(self, clip: str) -> Path | None:
        """The video of a clip; None for other names, and if there is none."""
        number = self._numbers.get(clip)
        video = None if number is None else self._corpus.videos[number]
        if not video:
            return None
        recorded = existing_path(video)
        if self._videos is not None and not recorded.exists():
            recorded = existing_path(self._videos / PurePath(video).name)
        return recorded.resolve()

    def _video_problem(self, clip: str) -> str:
        """Why the video of a clip cannot be shown; empty if it probably can."""
        video = self.video_of(clip)
        if video is None:
            return "This clip names no video."
        if not video.exists():
            return f"{video} does not exist. Name its folder when you start the review."
        return "" if video.is_dir() or video.stat().st_size else f"{video} is empty."

    # --- what a person tells --------------------------------------------------------------------

    @property
    def labels(self) -> tuple[str, ...]:
        """What can be named: state_1, action, state_2 and so on."""
        return tuple(self._journal.names.labels)

    @property
    def states(self) -> tuple[str, ...]:
        """The numbers of the states, as corrections have them."""
        return tuple(str(k + 1) for k in range(self._bare.n_states))

    def set_action(self, clip: str, start: float, end: float, action: int = 1) -> None:
        """The action happens from start to end, seconds; both become times of frames.

        action : its number in a chain of changes.
        """
        if not 1 <= action <= self._bare.n_actions:
            raise CorrectionError(f"there is no action {action}: there are {self._bare.n_actions}")
        start, end = self._snapped(clip, start, end)
        value = self._number(action)
        self._edit(clip, lambda rows: edits.with_action(rows, clip, start, end, value))

    def _number(self, action: int) -> str:
        """Of an action in corrections; empty where there is one."""
        return str(action) if self._bare.n_actions > 1 else ""

    def confirm(self, clip: str) -> None:
        """The actions are as found; or, if that was said before, no longer."""
        self._check_clip(clip)
        if any(row.kind == "confirm" for row in self._journal.of(clip)):
            self._edit(clip, lambda rows: tuple(row for row in rows if row.kind != "confirm"))
            return
        actions = enumerate(self._answers[clip].actions, start=1)
        spans = {
            self._number(k): self._confirmed_span(clip, action)
            for k, action in actions
            if action is not None
        }
        if not spans:
            raise CorrectionError("there is no action to confirm in this clip")
        self._edit(clip, lambda rows: edits.with_confirmation(rows, clip, spans))

    def _confirmed_span(self, clip: str, action: tuple[float, float]) -> tuple[float, float]:
        """Start and end of an action as a correction has them, in seconds."""
        start, end = action
        if end - start < 0.04:  # a moment: what is confirmed must have a length
            start, end = self._around(clip, (start + end) / 2)
        return max(math.floor(1000 * start) / 1000, 0.0), math.ceil(1000 * end) / 1000

    def leave_out(self, clip: str, kind: Literal["exclude", "no_change"]) -> None:
        """Leave the clip out for this reason, or take it in again."""
        self._edit(clip, lambda rows: edits.with_toggled(rows, clip, kind))

    def set_tracklet(self, clip: str, index: int, value: str) -> None:
        """What the tracklet with this index shows."""
        self._check_clip(clip)
        view = self._bare_view(clip)
        if not 0 <= index < len(view.tracklets):
            raise CorrectionError(f"the clip has no tracklet {index}: it has {len(view.tracklets)}")
        tracklet = view.tracklets[index]
        interval = max(tracklet.start, 0.0), tracklet.end
        self._edit(clip, lambda rows: edits.with_tracklet(rows, clip, index, interval, value))

    def set_state(self, clip: str, start: float, end: float, state: str) -> None:
        """The object is in this state from start to end, seconds."""
        start, end = self._snapped(clip, start, end)
        self._edit(clip, lambda rows: edits.with_state(rows, clip, start, end, state))

    def clear(self, clip: str) -> None:
        """Remove all corrections of a clip."""
        self._edit(clip, lambda _: ())

    def undo(self) -> str | None:
        """Undo the last change; returns its clip."""
        with self._lock:
            step = self._journal.undo()
            return None if step is None else self._corrected(step.clip)

    def redo(self) -> str | None:
        """Redo the last change that was undone; returns its clip."""
        with self._lock:
            step = self._journal.redo()
            return None if step is None else self._corrected(step.clip)

    def rename(self, names: LabelNames) -> None:
        """What to call the states and the action."""
        with self._lock:
            self._journal.rename(names)
        self.events.publish("review.changed", {"clip": None})

    def note(self, clip: str, text: str) -> None:
        """A note about a clip, for people; it changes no label."""
        self._check_clip(clip)
        if len(text) > LONGEST_NOTE:
            raise CorrectionError(f"a note has at most {LONGEST_NOTE} characters, not {len(text)}")
        with self._lock:
            self._journal.note(clip, text)
        self.events.publish("review.changed", {"clip": clip})

    def finish(self, formats: tuple[str, ...]) -> None:
        """Write the corrected result, the report and the exports, in the background."""
        with self._lock:
            rows, names = self._rows, self._journal.names
            self.finisher.start(rows, names, formats, pause=self._refits.pause)

    # --- inside ---------------------------------------------------------------------------------

    def _opened_journal(self) -> Journal:
        place, result = self.workspace, self._result
        journal = Journal.open(
            place.corrections, place.review, rows=result.corrections, names=result.names
        )
        rows = rows_of(journal.all_rows, self._numbers)
        timed = by_clip(with_confirmed_times(rows, result))
        journal.rows |= {clip: tuple(rows) for clip, rows in timed.items()}
        journal.forget_steps_of_others(self._numbers)
        return journal

    @property
    def _rows(self) -> edits.Rows:
        """The corrections that count; those of clips that are gone stay in the file."""
        return rows_of(self._journal.all_rows, self._numbers)

    def _edit(self, clip: str, change: Callable[[edits.Rows], edits.Rows]) -> None:
        self._check_clip(clip)
        with self._lock:
            rows = change(self._journal.of(clip))
            others = tuple(row for row in self._rows if row.clip != clip)
            self._refitter.check((*others, *rows), self._journal.names)
            self._journal.change(clip, rows)
            self._corrected(clip)

    def _corrected(self, clip: str) -> str:
        self._before = self._answers
        self._refit()
        self.events.publish("review.changed", {"clip": clip})
        return clip

    def _refit(self) -> None:
        self._phase = "refitting"
        self._request = self._refits.want(self._rows, self._journal.names)

    def _reached(self, phase: Phase, request: Request, result: Result | None) -> None:
        """Called by the thread that fits."""
        with self._lock:
            if request.number < self._request:
                return
            self._phase, self._problem = phase, ""
            if result is not None:
                self._version = request.number
                self._show(result)
                if phase == "judged":
                    self._chances = chances_of(result) or {}
                    self._verdict = result.verdict
            count = len(changed(self._answers, self._before))
        self.events.publish("review.answers", {"phase": phase, "changed": count})

    def _failed(self, request: Request, problem: str) -> None:
        with self._lock:
            if request.number < self._request:
                return
            self._phase, self._problem = "failed", problem
        self.events.publish("review.answers", {"phase": "failed", "changed": 0})

    def _finished(self, result: Result) -> None:
        """The corrected result is on disk: from now on it is what was found."""
        with self._lock:
            self._result = result
            self._show(result)
            self._found = self._before = self._answers
            self._chances = chances_of(result) or self._chances
            self._verdict = result.verdict or self._verdict
        self.events.publish("review.answers", {"phase": self._phase, "changed": 0})

    def _show(self, result: Result) -> None:
        self._answers = answers_of(result)
        for clip in self._numbers:  # those that failed to be ingested anew
            self._answers.setdefault(clip, left_out(result, "it takes no part in the result"))
        self._views = {clip: ClipView(result, n, 0.0) for n, clip in enumerate(result.clips)}

    def _row(self, clip: str, now: bool, since: bool) -> dict[str, Any]:
        rows, chances = self._journal.of(clip), self._chances.get(clip)
        if chances is not None:
            chances = self._with_certain(chances, rows)
        known = None if chances is None else confidence(chances)
        return {
            "id": clip,
            "answer": self._answers[clip].to_json(),
            "confidence": None if known is None else round(known, 4),
            "kinds": sorted({row.kind for row in rows}),
            "changed_now": now,
            "changed": since,
            "before": self._before[clip].to_json() if now and clip in self._before else None,
            "found": self._found[clip].to_json() if since and clip in self._found else None,
            "noted": clip in self._journal.notes,
            "has_video": clip in self._has_video,
        }

    def _with_certain(self, chances: Chances, rows: edits.Rows) -> Chances:
        """The chances with 1 for the actions that a person has corrected."""
        certain = [
            any(edits.is_of_action(row, self._number(k + 1)) for row in rows)
            for k in range(self._bare.n_actions)
        ]
        given = (1.0 if known else chance for known, chance in zip(certain, chances, strict=False))
        return (*given, *chances[len(certain) :])

    def _least_chances(self, clips: Sequence[str]) -> Array:
        """(n, 1 + K) per clip the least chance of its actions, and those of its states."""
        n_actions, width = self._bare.n_actions, self._bare.n_actions + self._bare.n_states
        rows = [self._chances.get(clip, (0.0,) * width) for clip in clips]
        chances = np.array(rows, np.float64).reshape(-1, width)
        least = np.fmin.reduce(chances[:, :n_actions], axis=1)
        return np.column_stack([least, chances[:, n_actions:]])

    def _next(self) -> list[str]:
        """The clips to look at next, as ``discovery.ask_next`` orders them."""
        clips = [clip for clip in self._numbers if not self._answers[clip].left_out]
        if self._chances:
            left = [clip for clip in clips if clip not in self._journal.rows]
            asked = chances_to_ask_by(self._least_chances(left))
            return [left[n] for n in np.argsort(asked, kind="stable")[:_NEXT]]
        rows = np.array([self._numbers[clip] for clip in clips], np.int64)
        done = np.flatnonzero([clip in self._journal.rows for clip in clips])
        similarity = self._similarity[np.ix_(rows, rows)]
        return [clips[n] for n in facility_location(similarity, done, most=_NEXT)]

    def _verdict_json(self) -> dict[str, Any] | None:
        if self._verdict is None:
            return None
        return {
            "sides": [vars(side) for side in side_texts(self._verdict)],
            "why": self._verdict.why,
            "remedy": self._verdict.remedy,
            "see": section(self._verdict.topic),
        }

    def _formats(self) -> list[dict[str, Any]]:
        named, boxes = any(self._corpus.videos), len(self._corpus.tracklets.boxes) > 0
        robot = any(self._corpus.episodes)
        return [
            {"name": name, "possible": named >= kind.needs_names and boxes >= kind.needs_boxes}
            for name, kind in FORMATS.items()
            if robot or not kind.into_dataset
        ]

    def _bare_view(self, clip: str) -> ClipView:
        return ClipView(self._bare, self._numbers[clip], 0.0)

    def _frames(self, clip: str) -> tuple[float, ...]:
        video = self.video_of(clip)
        if video is None:
            return ()
        start, end = self._bare_view(clip).extent
        return frame_times(video, start, end, self.image_fps(video))

    def _snapped(self, clip: str, start: float, end: float) -> tuple[float, float]:
        self._check_clip(clip)
        first, last = self._bare_view(clip).extent
        frames = self._frames(clip)
        edges = (*frames, last) if frames else ()
        start, end = (snapped(min(max(time, first, 0.0), last), edges) for time in (start, end))
        if not start < end:
            raise CorrectionError("it must last for at least one frame")
        return start, end

    def _around(self, clip: str, time: float) -> tuple[float, float]:
        """Start and end of the chunk at a time."""
        chunks = self._corpus.chunks
        rows = list(self._corpus.chunk_rows(self._numbers[clip]))
        nearest = rows[int(np.abs(chunks.time[rows] - time).argmin())]
        return float(chunks.start[nearest]), float(chunks.end[nearest])

    def _check_clip(self, clip: str) -> None:
        if clip not in self._numbers:
            raise CorrectionError("there is no such clip in this review")


def check_found(found: Path) -> None:
    """Raise unless the folder can be reviewed."""
    for name in ("corpus", "result"):
        if not (found / name).is_dir():
            raise WorkspaceError(f"{found} has no {name}/: give the folder that `discover` wrote")
