"""Lock file for CI: the versions of this environment, and the hash of each file that pip takes.

``python -m tools.lock`` writes ``.ci/requirements.lock`` for this Python and platform, of the core
dependencies and those of the extra ``dev``, in the versions that are installed here.
``python -m tools.lock --fits`` ends with 0 if the lock is for this Python and platform. ``.ci/run``
installs it with ``pip install --require-hashes``.

A package that another one needs with an extra, as ``coverage[toml]``, has the extra in its line:
without it pip takes the newest version for the extra, and refuses it for want of a hash.

The file names no index and no address: pip takes the packages from where it is configured to, and
refuses any whose content is another.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / ".ci" / "requirements.lock"
MARK = "# for: "


def environment() -> str:
    """What the files of a lock depend on."""
    version = ".".join(map(str, sys.version_info[:2]))
    return f"{platform.python_implementation()} {version}, {sysconfig.get_platform()}"


def fits(lock: Path = LOCK) -> bool:
    """Whether the lock is for this Python and platform."""
    try:
        lines = lock.read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return f"{MARK}{environment()}" in lines


def locked(report: Mapping[str, Any], own: str = "objectstates") -> list[str]:
    """A line per package of pip's report; the package itself is left out."""
    lines, extras = [], wanted_extras(report)
    for item in report["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        if name == own:
            continue
        hashes = item["download_info"].get("archive_info", {}).get("hashes", {})
        if "sha256" not in hashes:
            raise SystemExit(f"pip gives no hash of {name} {version}: it is no archive")
        of = f"[{','.join(sorted(some))}]" if (some := extras.get(canonical(name))) else ""
        lines.append(f"{name.lower()}{of}=={version} --hash=sha256:{hashes['sha256']}")
    return sorted(lines)


def canonical(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted_extras(report: Mapping[str, Any]) -> dict[str, set[str]]:
    """The extras with which packages of pip's report need one another, by canonical name."""
    from packaging.requirements import Requirement  # `--fits` runs where nothing is installed

    needs: dict[str, list[Requirement]] = {}
    found: dict[str, set[str]] = {}
    for item in report["install"]:
        key = canonical(item["metadata"]["name"])
        needs[key] = [Requirement(text) for text in item["metadata"].get("requires_dist", ())]
        if extras := item.get("requested_extras"):
            found[key] = set(extras)
    while True:
        known = sum(map(len, found.values()))
        for key, requirements in needs.items():
            environments = [{"extra": extra} for extra in ("", *found.get(key, ()))]
            for of in requirements:
                target = canonical(of.name)
                applies = not of.marker or any(map(of.marker.evaluate, environments))
                if of.extras and target in needs and applies:
                    found.setdefault(target, set()).update(of.extras)
        if sum(map(len, found.values())) == known:  # else an extra may need other extras
            return found


def resolve(constraints: Iterable[str], target: str = ".[dev]") -> dict[str, Any]:
    """What pip would install into an empty environment, as its report."""
    with tempfile.TemporaryDirectory() as folder:
        given, report = Path(folder) / "constraints.txt", Path(folder) / "report.json"
        given.write_text("\n".join(constraints), encoding="utf-8")
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "--dry-run", "--ignore-installed", "--only-binary", ":all:", "--constraint", given,
             "--report", report, target],
            cwd=ROOT, check=True,
        )  # fmt: skip
        return dict(json.loads(report.read_text(encoding="utf-8")))


def installed() -> list[str]:
    """``name==version`` of what is installed here."""
    found = {d.metadata["Name"]: d.version for d in distributions()}
    return [f"{n}=={v}" for n, v in sorted(found.items()) if n.lower() != "objectstates"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", action="store_true", help="only say whether the lock is for here")
    if parser.parse_args().fits:
        return 0 if fits() else 1
    lines = locked(resolve(installed()))
    head = ["# Written by python -m tools.lock.", f"{MARK}{environment()}"]
    LOCK.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
    print(f"{LOCK.relative_to(ROOT)}: {len(lines)} packages for {environment()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
