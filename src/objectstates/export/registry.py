"""The export formats, what each needs, and `export`, which writes them all.

To add a format, write one file in this folder with ``write_FORMAT(source, folder, **options)`` and
add one line to `FORMATS`; the command ``export`` then offers it.

Every export is a folder, written under a temporary name and renamed. Its ``export.json`` lists the
files and has the verdict on the result; a folder that holds anything else is never replaced.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from objectstates.base.errors import ExportError, SettingError
from objectstates.base.storage import Artefact
from objectstates.base.targets import check_no_input

if TYPE_CHECKING:
    from objectstates.data.result import Result
    from objectstates.export.videos import ExportSource


@dataclass(frozen=True)
class Format:
    """One format.

    module : its file in this folder; ``write_FORMAT`` in it takes an `ExportSource`, the folder
        and the options, and returns what had to be left out and why.
    needs_names : whether clips must name their videos.
    needs_videos : whether videos are read; such formats take the option ``videos``.
    needs_boxes : whether tracklets must have boxes.
    options : names of the options.
    into_dataset : how the files belong to a LeRobot dataset: "beside" it, or "within" a copy.
        These formats can be written in place.
    """

    module: str
    needs_names: bool = False
    needs_videos: bool = False
    needs_boxes: bool = False
    options: tuple[str, ...] = ()
    into_dataset: Literal["", "beside", "within"] = ""


FORMATS = {
    "csv": Format("csv_jsonl"),
    "jsonl": Format("csv_jsonl"),
    "webvtt": Format("captions", needs_names=True),
    "coco": Format("coco", True, True, True, ("fps", "images", "all_tracklets", "videos")),
    "cvat": Format("cvat", True, True, True, ("all_tracklets", "videos")),
    "labelstudio": Format("labelstudio", True, True, True, ("url", "all_tracklets", "videos")),
    "rerun": Format("rerun", True, True, True, ("fps", "all_tracklets", "videos")),
    "crops": Format("crops", True, True, True, ("fps", "context", "videos")),
    "lerobot": Format("lerobot", options=("dataset",), into_dataset="within"),
    "lerobot-sidecar": Format("lerobot", options=("dataset",), into_dataset="beside"),
    "lerobot-subtask-index": Format("lerobot", options=("dataset",), into_dataset="within"),
    "sarm": Format("lerobot", options=("dataset",), into_dataset="within"),
}


@dataclass(frozen=True)
class Exported:
    """What was written.

    files : paths within the folder.
    problems : what was left out and why; empty if the export is complete.
    """

    files: tuple[str, ...]
    problems: tuple[str, ...]


class ListedFolder(Artefact):
    """An artefact whose header lists its files, because their names depend on the clips."""

    def is_ours(self, place: Path) -> bool:
        if not place.is_dir():
            return False
        present = _files(place)
        if not present:
            return not any(place.iterdir())
        try:
            header = json.loads((place / self.header).read_text(encoding="utf-8"))
            return header["format_version"] is not None and present <= {
                self.header,
                *header["files"],
            }
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return False


ARTEFACT = ListedFolder(header="export.json", version=1, files=frozenset(), error=ExportError)


def export(
    result: Result, format: str, out: str | Path | None, *, in_place: bool = False, **options: Any
) -> Exported:
    """Write a result in one of `FORMATS` as the folder ``out``; an earlier export is replaced.

    A video that cannot be read is left out and named in ``problems``; if none can be read, nothing
    is written.

    in_place : of formats for LeRobot datasets: change the dataset itself; ``out`` must be None. An
        interrupted call leaves it as it was.

    options :
        videos : folder in which to look for videos that are not at their recorded paths.
        fps : coco: images per second of video, 5. crops: crops per second; one per tracklet unless
            given. rerun: frames per second of videos that cannot be embedded as they are, 10.
        images : coco: whether to write the images too; True.
        context : crops: factor by which boxes are enlarged; `BOX_CONTEXT`.
        url : labelstudio: where the videos are served; default: Label Studio's local files.
        all_tracklets : also write tracklets without a state, as state 0.
        dataset : LeRobot formats: the folder of the dataset, if it was moved.
    """
    if format not in FORMATS:
        raise SettingError(f"`format` {format!r} is not known: choose from {', '.join(FORMATS)}")
    kind = FORMATS[format]
    for name in options:
        if name not in kind.options:
            known = ", ".join(f"`{option}`" for option in kind.options) or "none"
            raise SettingError(f"{format} has no option `{name}`; its options: {known}")
    _check_needs(result, format, kind)
    _check_target(format, kind, out, in_place)
    if out is not None:
        check_no_input(out, {*result.corpus.videos, options.get("dataset")}, ExportError)
    from objectstates.export.videos import ExportSource

    writer = f"write_{format.replace('-', '_')}"
    write = getattr(import_module(f"objectstates.export.{kind.module}"), writer)
    source = ExportSource.of(result, options.pop("videos", None))
    if out is None:
        return _export_in_place(source, partial(write, source, **options), options)
    with ARTEFACT.writing(out) as folder:
        problems = (*source.replaced, *dict.fromkeys(write(source, folder, **options)))
        if kind.into_dataset == "within":
            _complete(source, options, folder, Path(out))
        files = tuple(sorted(_files(folder)))
        if not files:
            raise ExportError(f"nothing to write as {format}: {'; '.join(problems)}")
        verdict = {} if result.verdict is None else {"verdict": result.verdict.to_json()}
        ARTEFACT.write_header(
            folder, {"format": format, **verdict, "files": files, "problems": problems}
        )
    return Exported(files, problems)


def _check_target(format: str, kind: Format, out: str | Path | None, in_place: bool) -> None:
    if in_place and not kind.into_dataset:
        raise SettingError(f"`in_place` is for LeRobot datasets, not for {format}")
    if in_place == (out is not None):
        raise SettingError("give a folder to write as `out`, or `in_place`, and not both")


def _export_in_place(
    source: ExportSource, write: Callable[[Path], list[str]], options: dict[str, Any]
) -> Exported:
    from objectstates.export.dataset_folders import rewrite_in_place
    from objectstates.export.subtasks import dataset_of_export

    root = dataset_of_export(source, options.get("dataset")).root
    files, problems = rewrite_in_place(root, write)
    return Exported(tuple(files), (*source.replaced, *dict.fromkeys(problems)))


def _complete(source: ExportSource, options: dict[str, Any], folder: Path, out: Path) -> None:
    """Copy the rest of the dataset beside the files that were written."""
    from objectstates.export.dataset_folders import complete_copy
    from objectstates.export.subtasks import dataset_of_export

    root = dataset_of_export(source, options.get("dataset")).root.resolve()
    if out.resolve().is_relative_to(root):
        raise ExportError(f"{out} lies within the dataset: choose another folder, or `in_place`")
    complete_copy(root, folder)


def _check_needs(result: Result, format: str, kind: Format) -> None:
    if kind.needs_names and not any(result.corpus.videos):
        raise ExportError(
            f"{format} needs videos, but the clips of this result name none: "
            "choose csv or jsonl, or ingest videos and fit them"
        )
    if kind.needs_boxes and not len(result.corpus.tracklets.boxes):
        raise ExportError(
            f"{format} needs boxes, but the tracklets of this result have none: "
            "choose csv, jsonl or webvtt, or ingest videos and fit them"
        )


def _files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
