"""Names of files that are not UTF-8, as text that can be shown, written and found again.

Python holds the bytes of such a name that are no UTF-8 as lone surrogates, which neither Parquet,
JSON nor a terminal takes. As text they are written like in addresses of the web, `%E9`.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

_ESCAPED = re.compile("[\udc80-\udcff]")
_BYTE = re.compile("%([89A-F][0-9A-F])")


def printable_name(name: str | Path) -> str:
    r"""The name with the bytes that are no UTF-8 as `%E9`.

    >>> printable_name("caf\udce9.mp4"), printable_name("café 100%.mp4")
    ('caf%E9.mp4', 'café 100%.mp4')
    """
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]) - 0xDC00:02X}", str(name))


def printable_json(value: Any) -> str:
    r"""JSON on one line, of a value whose strings may hold such names: it can be encoded.

    >>> printable_json({"clip": "caf\udce9"})
    '{"clip":"caf%E9"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return printable_name(text).encode(errors="replace").decode()


def existing_path(path: str | Path) -> Path:
    """The path itself, or the file that has this printable name if there is no such path."""
    place = Path(path)
    if "%" not in str(place) or os.path.lexists(place):
        return place
    original = Path(_BYTE.sub(lambda found: chr(0xDC00 + int(found[1], 16)), str(place)))
    return original if os.path.lexists(original) else place
