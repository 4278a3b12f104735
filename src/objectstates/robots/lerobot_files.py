"""The files of a LeRobot dataset: path templates as they are in practice, and its metadata.

The formats are v2.0 and v2.1 (a video and a Parquet file per episode, JSON Lines about them) and
v3.0 (many episodes per file, Parquet tables about them). Everything is read with pyarrow.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.base.errors import DatasetError

INFO = Path("meta", "info.json")
EPISODES = Path("meta", "episodes")  # of v3.0: a folder of Parquet files
PREFIX = "observation.images."  # of most cameras' keys
MOST = 2**53  # of numbers of episodes, files and frames
# Fields of templates: a name and a width, and nothing else of what str.format would do. A file may
# come from anyone, and attributes or a width of many digits have no place in a path.
_FIELD = re.compile(r"\{(?P<name>\w+)(?::(?P<form>\d{0,2}[ds]?))?\}", re.ASCII)
_SAME_FOLDER = {"videos": "video", "video": "videos"}  # templates and folders disagree in practice


def is_dataset(path: str | Path) -> bool:
    """Whether a folder is a LeRobot dataset: it has ``meta/info.json``."""
    return (Path(path) / INFO).is_file()


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise DatasetError(f"{path} cannot be read ({problem}): copy the dataset again") from None


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file; empty lines are skipped."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as problem:
        raise DatasetError(f"{path} cannot be read ({problem}): copy the dataset again") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError) as problem:
            raise DatasetError(f"{path}, line {number}: {problem}: correct this line") from None
        if isinstance(row, dict):
            rows.append(row)
    return rows


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    """One Parquet file; never a folder of them, whose schemas may differ."""
    try:
        with pq.ParquetFile(path) as file:
            table = file.read(columns)
        table.validate(full=True)  # text that is not UTF-8, and offsets beyond the data
    except (OSError, LookupError, ValueError, NotImplementedError, pa.ArrowException) as problem:
        raise DatasetError(f"{path} cannot be read ({problem}): copy the dataset again") from None
    if len(set(table.column_names)) < len(table.column_names):
        raise DatasetError(f"{path} has two columns of one name: copy the dataset again")
    for name in columns or ():
        if name not in table.column_names:
            raise DatasetError(f"{path} has no column {name}: copy the dataset again")
    return table


def whole_number(place: Path, name: str, value: Any) -> int:
    """A number of episodes, files or frames as an int; anything else names the file."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = -1
    if not 0 <= number < MOST:
        raise DatasetError(
            f"{place}: {name} is {str(value)[:40]!r}, not a whole number: copy the dataset again"
        )
    return number


@dataclass(frozen=True)
class FileTemplates:
    """Where ``info.json`` says that the files of episodes are.

    data, video : templates with any of episode_chunk, chunk_index, file_index, episode_index and
        video_key.
    chunk_size : episodes per folder in v2.
    """

    root: Path
    data: str
    video: str
    chunk_size: int

    def data_path(self, **numbers: int) -> Path:
        return self.root / self._filled(self.data, "data_path", numbers)

    def video_path(self, camera: str, **numbers: int) -> Path:
        """The video file: as the template says, or where it is instead; else the former.

        Real datasets have a folder ``video`` for ``videos``, and folders of cameras without the
        prefix of their keys.
        """
        short = camera.removeprefix(PREFIX)
        named = [
            self._video(key, numbers) for key in dict.fromkeys((camera, short, PREFIX + short))
        ]
        for path in named:
            for candidate in (path, _renamed(path)):
                if os.path.exists(self.root / candidate):  # False for a name that is too long
                    return self.root / candidate
        return self.root / named[0]

    def _video(self, camera: str, numbers: dict[str, int]) -> Path:
        return self._filled(self.video, "video_path", {**numbers, "video_key": camera})

    def _filled(self, template: str, name: str, values: dict[str, Any]) -> Path:
        episode = int(values.get("episode_index", 0))
        chunk = int(values.get("chunk_index", episode // self.chunk_size))
        known = {"chunk_index": chunk, "episode_chunk": chunk, "file_index": episode, **values}
        try:
            if set(_FIELD.sub("", template)) & set("{}"):
                raise ValueError("a field is a name and a width, such as {episode_index:06d}")
            text = _FIELD.sub(lambda f: format(known[f["name"]], f["form"] or ""), template)
        except (KeyError, ValueError) as problem:
            raise DatasetError(
                f"{self.root / INFO}: {name} {template[:200]!r} has an unknown field ({problem}); "
                f"known are {', '.join(sorted(known))}"
            ) from None
        filled = Path(text)
        if filled.is_absolute() or ".." in filled.parts or not filled.parts:
            raise DatasetError(f"{self.root / INFO}: {name} {template[:200]!r} leaves the dataset")
        if not text.isprintable():
            raise DatasetError(f"{self.root / INFO}: {name} {template[:200]!r} is no path of files")
        return filled


def _renamed(path: Path) -> Path:
    first = path.parts[0]
    return Path(_SAME_FOLDER.get(first, first), *path.parts[1:])


def episode_tables(root: Path) -> Iterator[tuple[Path, pa.Table]]:
    """The tables of ``meta/episodes`` of a v3.0 dataset with their paths, without statistics."""
    paths = sorted((root / EPISODES).rglob("*.parquet"))
    if not paths:
        raise DatasetError(f"{root / EPISODES} has no Parquet file: copy the dataset again")
    for path in paths:
        table = read_parquet(path)
        yield path, table.select([n for n in table.column_names if not n.startswith("stats/")])


def task_names(root: Path, version: int) -> dict[int, str]:
    """The tasks by number; empty if the file is missing, since episodes name theirs too."""
    lines, table = root / "meta" / "tasks.jsonl", root / "meta" / "tasks.parquet"
    if version < 3 and lines.exists():
        rows = read_json_lines(lines)
        return {
            whole_number(lines, "task_index", row["task_index"]): str(row.get("task"))
            for row in rows
            if "task_index" in row
        }
    if version >= 3 and table.exists():
        found = read_parquet(table)
        names = [n for n in found.column_names if n != "task_index"]  # the index of a data frame
        if names and "task_index" in found.column_names:
            pairs = zip(found["task_index"].to_pylist(), found[names[0]].to_pylist(), strict=True)
            return {whole_number(table, "task_index", n): str(name) for n, name in pairs}
    return {}


def major_version(root: Path, text: Any) -> int:
    """2 or 3, from the version in ``info.json``; other versions are an error."""
    match = re.fullmatch(r"v?(\d{1,4})\.(\d+)(\.\d+)?", str(text))
    if match is None or int(match[1]) not in (2, 3):
        raise DatasetError(
            f"{root / INFO}: the dataset has version {text!r}, but v2.0, v2.1 and v3.0 can be "
            "read: convert it with the scripts of the lerobot package"
        )
    return int(match[1])
