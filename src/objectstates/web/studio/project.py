"""The folder of a project, with all that its page shows::

videos/        videos that were dropped on the page
labels/        boxes that were drawn, and the detector trained on them
found/         the folder of ``discover``: corpus, result, report
exports/       one folder per format
studio.json    names, choices, and folders of videos elsewhere on this machine
discover.log   messages of the last discovery
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from objectstates.base.cache import digest
from objectstates.base.errors import SettingError, VideoError, WorkspaceError
from objectstates.base.file_names import existing_path, printable_name
from objectstates.base.storage import remove, write_atomically
from objectstates.data.label_names import LONGEST, LabelNames
from objectstates.export.names import safe_name
from objectstates.video.clip_list import ClipSpan, find_clips

VERSION = 1
PARTIAL = ".part"
"""Suffix of a video that is being received."""

Boxes = Literal["labels", "motion"]
"""Where boxes are from: a detector trained on labels, or what moves."""

JobState = Literal["none", "running", "done", "failed", "cancelled", "interrupted"]
"""Of the last discovery; "interrupted" if the server ended meanwhile."""


@dataclass(frozen=True)
class Job:
    """The last discovery.

    inputs : digest of what it was started with; other inputs make its result out of date.
    error : why it failed, in one sentence.
    """

    state: JobState = "none"
    inputs: str = ""
    error: str = ""

    def __post_init__(self) -> None:
        if self.state not in get_args(JobState):
            raise ValueError(f"a discovery that is {self.state!r}")


@dataclass(frozen=True)
class Choices:
    """What the user chose.

    state_1, action, state_2 : their names; empty for the usual ones.
    folders : folders of videos elsewhere on this machine.
    """

    object: str = ""
    state_1: str = ""
    action: str = ""
    state_2: str = ""
    boxes: Boxes = "labels"
    folders: tuple[str, ...] = ()
    job: Job = Job()

    def __post_init__(self) -> None:
        for name in ("object", "state_1", "action", "state_2"):
            _check_name(name, getattr(self, name))
        if self.boxes not in get_args(Boxes):
            raise SettingError(f"boxes must be one of {', '.join(get_args(Boxes))}")
        self.names()

    def names(self) -> LabelNames:
        given = {"state_1": self.state_1, "action": self.action, "state_2": self.state_2}
        return LabelNames.of_change(**{label: name for label, name in given.items() if name})


def _check_name(kind: str, value: object) -> None:
    if not isinstance(value, str) or value != value.strip() or (value and not value.isprintable()):
        raise SettingError(f"the name of the {kind.replace('_', ' ')} must be text on one line")
    if len(value) > LONGEST:
        raise SettingError(f"the name {value[:20]!r}... is longer than {LONGEST} characters")
    if "," in value:
        raise SettingError(f"the name {value!r} has a comma: leave it out")


class Project:
    """The folder on disk. Every change is written before the method returns."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        self.videos = self.folder / "videos"
        self.found, self.log = self.folder / "found", self.folder / "discover.log"
        self._file = self.folder / "studio.json"
        try:
            self._open()
        except OSError as problem:
            raise WorkspaceError(
                f"cannot use {folder}: {problem.strerror or problem}; choose another folder"
            ) from problem

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._file.exists():
            if any(not path.name.startswith(".") for path in self.folder.iterdir()):
                raise WorkspaceError(
                    f"{self.folder} exists and is no project of studio: choose another folder, and "
                    "name this one on the page if it has your videos"
                )
            self.choices = Choices()
            self.save(self.choices)
        self.choices = self._read()
        self.videos.mkdir(exist_ok=True)

    @property
    def labels(self) -> Path:
        """The folder of the labels of the object, by its name."""
        return self.folder / "labels" / safe_name(self.choices.object)

    @property
    def detector(self) -> Path | None:
        """The detector trained on the labels, once there is one."""
        place = self.labels / f"{self.labels.name}.npz"
        return place if place.is_file() else None

    def labelled_frames(self, clips: Sequence[ClipSpan]) -> int:
        """How many frames of the clips have labels of the object."""
        known = {span.id for span in clips}
        try:
            labels = json.loads((self.labels / "labels.json").read_text(encoding="utf-8"))
            return sum(image["clip"] in known for image in labels["images"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return 0

    def recover(self) -> None:
        """Put in order what a server left that was killed; only for the one that has the lock.

        A discovery died with its server. What had been received of a video is removed.
        """
        job = self.choices.job
        if job.state == "running":
            self.change({"job": replace(job, state="interrupted")})
        for path in self.videos.glob(f".*{PARTIAL}"):
            remove(path)

    def _read(self) -> Choices:
        try:
            facts = json.loads(self._file.read_text(encoding="utf-8"))
            if facts.pop("format_version") != VERSION:
                raise ValueError("its format version is not known")
            facts["folders"] = tuple(str(folder) for folder in facts["folders"])
            facts["job"] = Job(**facts["job"])
            return Choices(**facts)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise WorkspaceError(
                f"{self._file} cannot be read ({problem}): move it away and start again; "
                "videos, labels and results stay"
            ) from problem

    def save(self, choices: Choices) -> None:
        text = json.dumps({"format_version": VERSION, **asdict(choices)}, indent=1)
        write_atomically(self._file, text + "\n")
        self.choices = choices

    def change(self, values: Mapping[str, Any]) -> None:
        """Replace some choices."""
        self.save(replace(self.choices, **values))

    def add_folder(self, text: str) -> int:
        """Use the videos of another folder; returns how many clips it has."""
        folder, count = self.inspect_folder(text)
        self.use_folder(folder)
        return count

    def inspect_folder(self, text: str) -> tuple[Path, int]:
        """The folder that a user named, and how many clips it has; searches it, changes nothing."""
        folder = existing_path(os.path.expanduser(text.strip().strip("'\"")))
        if not text.strip() or not folder.is_absolute():
            raise VideoError("give the whole path of the folder, such as /home/me/videos")
        if not os.path.isdir(folder):  # False also for what can be no path
            raise VideoError(
                f"{text.strip()[:200]!r} is not a folder of this machine; check the path"
            )
        if self.folder == folder.resolve() or self.folder in folder.resolve().parents:
            raise VideoError(f"{folder} is in the project itself; choose another folder")
        return folder, len(self._videos_of(folder))

    def use_folder(self, folder: Path) -> None:
        """Add a folder that was inspected."""
        if str(folder) not in self.choices.folders:
            self.change({"folders": (*self.choices.folders, str(folder))})

    def remove_folder(self, text: str) -> None:
        """Stop using the videos of another folder; the folder itself is not touched."""
        folders = self.choices.folders
        self.change({"folders": tuple(n for n in folders if text not in (n, printable_name(n)))})

    def clips(self) -> tuple[list[ClipSpan], list[str]]:
        """All clips, in the order in which they are discovered, and folders that are gone."""
        paths: list[Path] = []
        gone = []
        for folder in (self.videos, *map(Path, self.choices.folders)):
            try:
                paths += self._videos_of(folder)
            except VideoError as problem:
                if folder != self.videos or not _is_empty(folder):
                    gone.append(str(problem))
        return find_clips(paths), gone

    def _videos_of(self, folder: Path) -> list[Path]:
        """Of the project's own videos, or of another folder without what the project itself has."""
        found = [span.video for span in find_clips([folder])]
        if folder == self.videos:
            return found
        return [video for video in found if self.folder not in video.resolve().parents]

    def inputs(self, clips: Sequence[ClipSpan]) -> str:
        """A digest of what a discovery of the clips depends on."""
        choices, detector = self.choices, self.detector
        return digest(
            [[str(span.video), *_stamp(span.video)] for span in clips],
            [choices.object, choices.boxes],
            None if detector is None or choices.boxes == "motion" else _stamp(detector),
        )


def _is_empty(folder: Path) -> bool:
    """Whether there is no file, apart from those that are being received."""
    return all(path.name.startswith(".") for path in folder.iterdir())


def _stamp(path: Path) -> list[int]:
    try:
        facts = path.stat()
    except OSError:
        return []
    return [facts.st_size, facts.st_mtime_ns]
