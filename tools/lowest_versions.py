"""Print the lowest declared version of each core dependency, as constraints for pip.

python -m tools.lowest_versions > lowest.txt && pip install -c lowest.txt .
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?\s*(>=|==)\s*([\w.]+)(?:\s*,.*)?")


def lowest(requirements: list[str]) -> list[str]:
    """``name==version`` of each requirement ``name>=version`` or ``name==version``."""
    found = []
    for requirement in requirements:
        match = REQUIREMENT.fullmatch(requirement)
        if match is None:
            raise ValueError(f"{requirement!r} in {PYPROJECT.name} states no lowest version")
        found.append(f"{match[1]}=={match[3]}")
    return found


def main() -> None:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    print("\n".join(lowest(project["dependencies"])))


if __name__ == "__main__":
    main()
