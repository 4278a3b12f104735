"""``python -m objectstates``, and the command ``objectstates``."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line, in a process of its own."""
    try:
        from objectstates.cli import main as run
        from objectstates.cli import signals
    except KeyboardInterrupt:  # Ctrl-C in the first instant
        sys.exit(130)
    signals.end_cleanly()
    try:
        run()
    finally:
        signals.end_at_once()


if __name__ == "__main__":
    main()
