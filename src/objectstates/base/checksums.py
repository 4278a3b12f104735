"""Checksums of artefact folders: of each file, and of the JSON header that lists them.

CRC-32 detects damage by disks, copies and transfers, at 1 GB/s; it does not protect from forgery.
Artefacts without checksums, such as those of earlier versions or made by other programs, are read
without this check.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from objectstates.base.errors import ObjectStatesError

KEY, OF_HEADER = "checksums", "header"
_AT_ONCE = 1 << 20  # bytes read at a time


def file_checksum(path: Path, spans: Iterable[tuple[int, int]] | None = None) -> str:
    """CRC-32 of a file as 8 hexadecimal digits; of some spans of bytes only, if given."""
    value = 0
    with path.open("rb") as file:
        for first, last in [(0, path.stat().st_size)] if spans is None else spans:
            file.seek(first)
            left = last - first
            while left > 0 and (block := file.read(min(left, _AT_ONCE))):
                value = zlib.crc32(block, value)
                left -= len(block)
    return f"{value:08x}"


def with_checksums(
    version: int, facts: Mapping[str, Any], files: Mapping[str, Any], error: type[ObjectStatesError]
) -> dict[str, Any]:
    """The facts of a header with the checksums of ``files`` and its own.

    version : of the format, which is part of the header.
    """
    header = {**facts, KEY: dict(files)}
    try:
        own = _header_checksum({"format_version": version, **header})
    except (TypeError, ValueError, RecursionError) as problem:
        raise error(f"the header can hold plain JSON only: {problem}") from problem
    return {**header, KEY: {**files, OF_HEADER: own}}


def checked_header(
    path: Path, header: Mapping[str, Any], error: type[ObjectStatesError]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A header without checksums, and those of the files; none if it has none.

    Raise if the header's own checksum is wrong.
    """
    if KEY not in header:
        return dict(header), {}
    files = header[KEY]
    own = files.get(OF_HEADER) if isinstance(files, dict) else None
    rest = {name: value for name, value in files.items() if name != OF_HEADER} if own else {}
    if own is None or own != _header_checksum({**header, KEY: rest}):
        raise damaged(path, error)
    return {name: value for name, value in header.items() if name != KEY}, rest


def check_file(path: Path, expected: Any, error: type[ObjectStatesError]) -> None:
    """Raise unless the file has this checksum; None: it is not known."""
    if expected is None:
        return
    try:
        if file_checksum(path) == expected:
            return
    except FileNotFoundError:
        raise error(f"{path} is missing: make it again, or copy it again") from None
    except OSError as problem:
        raise error(f"{path} cannot be read: {problem.strerror}") from problem
    raise damaged(path, error)


def damaged(path: Path, error: type[ObjectStatesError]) -> ObjectStatesError:
    """The error of a file that does not have its checksum."""
    return error(
        f"{path} is damaged (its checksum is wrong): make it again, or copy it again; if it was "
        f"changed on purpose, remove {KEY!r} from the JSON file of its folder"
    )


def _header_checksum(header: Mapping[str, Any]) -> str:
    text = json.dumps(json.loads(json.dumps(header)), sort_keys=True)
    return f"{zlib.crc32(text.encode()):08x}"
