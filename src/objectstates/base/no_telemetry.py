"""Nothing leaves the user's machine: usage statistics of the libraries we use are off.

onnxruntime (from 1.31) writes a device id and a file of usage events and sends them to its maker;
Ray and the Hugging Face libraries count their uses. All of them read these variables when they are
loaded, so the package sets them first thing, in every process. A user's own setting is kept.
"""

from __future__ import annotations

import os

SWITCHES = {
    "ORT_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def switch_off() -> None:
    """Set the variables that are not set."""
    for name, value in SWITCHES.items():
        os.environ.setdefault(name, value)
