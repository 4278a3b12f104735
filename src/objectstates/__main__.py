"""``python -m objectstates``."""

from objectstates.cli import main

if __name__ == "__main__":
    main()
