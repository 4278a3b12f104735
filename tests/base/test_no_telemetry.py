import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])

SOCKETS = """
import os
tables = [open(f"/proc/self/net/{kind}").read() for kind in ("tcp", "tcp6", "udp", "udp6")]
opened = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
inodes = [each.partition("socket:[")[2].rstrip("]") for each in opened if "socket:" in each]
print(sum(f" {inode} " in table for inode in inodes for table in tables), asked)
"""
"""Counts the sockets of the internet, and prints what was looked up or connected to."""

WATCH = """
import sys
asked = []
watched = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
sys.addaudithook(lambda event, details: asked.append(details) if event in watched else None)
"""

ONNX = """
import numpy as np
from objectstates.base.onnx_file import FLOAT
from objectstates.base.onnx_utils import GraphBuilder, inference_session

graph, kind = GraphBuilder(), (FLOAT, [1])
graph.add("Relu", "x", output="y")
session = inference_session(graph.model("m", {"x": kind}, {"y": kind}))
assert session.run(None, {"x": np.array([-1.0], np.float32)})[0] == 0
"""

OTHERS = """
import objectstates
from importlib import import_module
from importlib.util import find_spec

core = "av cv2 jinja2 numba pyarrow.parquet pysubs2 rich sklearn.svm starlette.applications uvicorn"
extras = "label_studio_sdk moonshine_voice pandas rerun safetensors tokenizers transformers"
for name in (core + " " + extras).split():
    if find_spec(name.partition(".")[0]):
        import_module(name)
if find_spec("huggingface_hub"):
    from huggingface_hub import constants
    assert constants.HF_HUB_DISABLE_TELEMETRY
if find_spec("rerun"):
    import rerun
    recording = rerun.RecordingStream("x")
    recording.save(sys.argv[1])
    recording.log("point", rerun.Points2D([[1, 2]]))
    recording.flush()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("use", [ONNX, OTHERS], ids=["onnxruntime", "others"])
def test_a_library_writes_and_sends_nothing(tmp_path, use):
    """onnxruntime used to write a device id and a database of events into the user's cache."""
    home, out = tmp_path / "home", tmp_path / "out.rrd"
    home.mkdir()
    names = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
    switches = ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "RAY_USAGE_STATS_ENABLED")
    kept = {k: v for k, v in os.environ.items() if k not in switches}
    done = subprocess.run(
        [sys.executable, "-c", WATCH + use + SOCKETS, str(out)],
        env={**kept, **dict.fromkeys(names, str(home)), "PYTHONPATH": PATH},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "0 []", "sockets are open"
    assert list(home.rglob("*")) == []


def test_a_users_own_setting_is_kept():
    script = "import os, objectstates; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    for given in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": PATH, "ORT_DISABLE_TELEMETRY": given},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.strip() == given
