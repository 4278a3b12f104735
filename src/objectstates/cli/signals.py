"""Signals that end a command: SIGTERM and SIGHUP end it as Ctrl-C does.

Temporary files are removed and worker processes ended; the exit code names the signal, as shells
expect it.
"""

from __future__ import annotations

import signal
from types import FrameType

_SIGNALS = [
    number
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if (number := getattr(signal, name, None)) is not None
]
_received: list[int] = []


def end_cleanly() -> None:
    """Have the signals raise KeyboardInterrupt, but for those that the caller ignores."""
    _received.clear()
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)


def _interrupt(number: int, _: FrameType | None) -> None:
    _received.append(number)
    raise KeyboardInterrupt


def end_at_once() -> None:
    """Give the signals their usual effect: there is nothing left to clean up."""
    for number in _SIGNALS:
        if signal.getsignal(number) == _interrupt:
            signal.signal(number, signal.SIG_DFL)


def exit_code() -> int:
    """The exit code of a command that was interrupted."""
    return 128 + (_received[0] if _received else signal.SIGINT)
