"""Standard output and error that can be closed, or of an encoding that lacks some characters."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper


def make_streams_usable() -> None:
    r"""Print to nowhere what has no stream, and as ``\xe9`` what the terminal cannot show."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, as `>&-` does
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
