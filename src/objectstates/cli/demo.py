"""The demo: discover in clips that are shipped with the package, with annotations."""

from __future__ import annotations

import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any

from objectstates.cli.discover import Terminal, discover, run
from objectstates.cli.options import flag
from objectstates.cli.output import show_page
from objectstates.cli.settings_file import options_of

DATA = "demo"  # a folder of this package: drawer/ and robot/, made by tools/demo_*.py


def demo(
    out: Annotated[Path, flag("Folder for the corpus, the result and the report.")] = Path(
        "objectstates-demo"
    ),
    robot: Annotated[
        bool,
        flag("Eight episodes of a real robot instead, read as a LeRobot dataset.", "--robot"),
    ] = False,
    no_open: Annotated[bool, flag("Do not open the report in a browser.", "--no-open")] = False,
) -> None:
    """Find when a simulated robot opens a drawer in the shipped clips; compare with baselines."""
    begun = time.perf_counter()
    with as_file(files("objectstates") / DATA) as data:
        defaults = {name: option.default for name, option in options_of(discover).items()}
        found = (_robot if robot else _drawer)(out, data, defaults)
    found.show(json=False)
    print(f"total time: {time.perf_counter() - begun:.0f} s")
    if not no_open:
        show_page(found.page)


def _robot(out: Path, data: Path, defaults: dict[str, Any]) -> Terminal:
    """Episodes of YifanTian07/G1-policy-train (MIT), without a detector and without labels."""
    print("8 episodes of a humanoid that carries a bottle, by a camera that sways with its head.")
    print("From YifanTian07/G1-policy-train, (c) 2026 Yifan Tian, MIT license. About two minutes.")
    names = {"states": "bottle here,bottle there", "action": "carry the bottle"}
    return run(out, [data / "robot"], {**defaults, **names, "object_name": "bottle"})


def _drawer(out: Path, data: Path, defaults: dict[str, Any]) -> Terminal:
    """Simulated clips, with a detector that was trained on others."""
    folder = data / "drawer"
    detector = {"detector": f"fewshot:{folder / 'drawer.npz'}", "object_name": "drawer"}
    videos = sorted(folder.glob("*.mp4"))
    print(f"{len(videos)} clips of a robot that opens a drawer; about a minute the first time.")
    print("Annotations are used for evaluation only; the detector was trained on other clips.")
    return run(out, videos, {**defaults, **detector, "truth": folder})
