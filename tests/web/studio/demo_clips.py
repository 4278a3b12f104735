"""Some of the demo's clips, and settings with which they are discovered in seconds."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

DEMO = Path(str(files("objectstates"))) / "demo" / "drawer"
VIDEOS = sorted(DEMO.glob("*.mp4"))[:3]
QUICK: dict[str, Any] = {
    "object": "drawer",
    "detector": f"fewshot:{DEMO / 'drawer.npz'}",
    "max_side": 160,
    "processes": 1,
    "verdict": False,
}
