"""The folder of segments: what is in it, and whether it may be written.

``cut.json`` names every clip with the digest of all that its segments depend on. A clip whose
digest is the same and whose files are there is not cut again, so an interrupted run continues when
the same call is repeated. Files are written under temporary names and renamed: one that is there is
complete. A folder with files that are not ours is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from objectstates.base.errors import CutError
from objectstates.base.storage import clear_leftovers, leftover_of, remove, write_atomically
from objectstates.cut.segments import Segment, is_part

HEADER, VERSION = "cut.json", 1
LISTS = ("clips.csv", "spans.csv", "segments.csv", "dropped.csv")


@dataclass(frozen=True)
class Written:
    """One segment that was written.

    file : name in the folder; "" if only lists were wanted.
    psnr : dB; None if the frames are exact.
    """

    segment: Segment
    file: str
    psnr: float | None = None


@dataclass(frozen=True)
class CutClip:
    """A clip, its segments and what was left out of it.

    source : the video. stem : the beginning of the names of its files.
    dropped : spans in seconds in which nothing moves.
    """

    clip: str
    source: str
    stem: str
    digest: str
    written: tuple[Written, ...] = ()
    dropped: tuple[tuple[float, float], ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, values: Any) -> CutClip:
        written = tuple(
            Written(Segment(**row["segment"]), row["file"], row["psnr"])
            for row in values["written"]
        )
        dropped = tuple((float(a), float(b)) for a, b in values["dropped"])
        return cls(
            **{
                **values,
                "written": written,
                "dropped": dropped,
                "problems": tuple(values["problems"]),
            }
        )


@dataclass
class Manifest:
    """What is in the folder; clips by the beginning of the names of their files."""

    folder: Path
    clips: dict[str, CutClip] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, path: str | Path) -> Manifest:
        """The manifest of a folder that is new, empty or ours; raise if it is not."""
        folder = Path(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            names = {entry.name for entry in folder.iterdir()}
            leftovers = {name: of for name in names if (of := leftover_of(name))}
            names -= set(leftovers)
            found = cls(folder, _read(folder / HEADER) if HEADER in names else {})
            foreign = sorted(name for name in names - {HEADER, *LISTS} if not found._is_ours(name))
            if foreign or (names and HEADER not in names):
                raise CutError(
                    f"{path} exists and holds something else"
                    f"{f' ({foreign[0]})' if foreign else ''}: choose another folder"
                )
            for name in set(leftovers.values()):  # of a run that was killed
                clear_leftovers(folder / name)
        except OSError as problem:
            raise CutError(f"cannot write {path}: {problem.strerror}") from problem
        return found

    def _is_ours(self, name: str) -> bool:
        """Whether a file is a segment of one of the clips, complete or not."""
        stem, _, rest = name.rpartition("_")
        return stem in self.clips and is_part(rest.partition(".")[0])

    def plan(self, clips: Iterable[CutClip]) -> None:
        """Keep what is up to date, delete the files of other clips, and note those to come."""
        planned = {clip.stem: clip for clip in clips}
        for stem, earlier in list(self.clips.items()):
            if stem not in planned or planned[stem].digest != earlier.digest:
                self._delete(stem)
            elif self.is_done(stem):
                planned[stem] = earlier
        self.clips = planned
        self.save()

    def is_done(self, stem: str) -> bool:
        """Whether all segments of a clip are there."""
        written = self.clips[stem].written
        files = [row.file for row in written if row.file]
        return bool(written) and all((self.folder / file).exists() for file in files)

    def _delete(self, stem: str) -> None:
        for entry in self.folder.iterdir():
            if entry.name.rpartition("_")[0] == stem and self._is_ours(entry.name):
                remove(entry)

    def save(self) -> None:
        """Write ``cut.json``."""
        content = {
            "format_version": VERSION,
            "settings": self.settings,
            "clips": [asdict(clip) for clip in self.clips.values()],
        }
        write_atomically(self.folder / HEADER, json.dumps(content, indent=1) + "\n")


def _read(path: Path) -> dict[str, CutClip]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format_version"] != VERSION:
            raise ValueError(f"format version {content['format_version']!r}")
        rows = [CutClip.from_json(row) for row in content["clips"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        raise CutError(
            f"{path} cannot be read ({problem}): move the folder away, or choose another"
        ) from problem
    return {row.stem: row for row in rows}
