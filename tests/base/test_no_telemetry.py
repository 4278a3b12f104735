import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os
import numpy as np
from onnx import TensorProto
from objectstates.base.onnx_utils import GraphBuilder, inference_session

graph, kind = GraphBuilder(), (TensorProto.FLOAT, [1])
graph.add("Relu", "x", output="y")
session = inference_session(graph.model("m", {"x": kind}, {"y": kind}))
assert session.run(None, {"x": np.array([-1.0], np.float32)})[0] == 0
opened = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
print(sum("socket:" in each for each in opened))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_onnxruntime_writes_and_sends_nothing(tmp_path):
    """It used to write a device id and a database of events into the user's cache."""
    folders = {name: str(tmp_path) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
    kept = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**kept, **folders, "PYTHONPATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "0\n", "sockets are open"
    assert list(tmp_path.rglob("*")) == []


def test_a_users_own_setting_is_kept():
    script = "import os, objectstates; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    for given in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": path, "ORT_DISABLE_TELEMETRY": given},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.strip() == given
