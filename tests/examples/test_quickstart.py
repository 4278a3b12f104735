"""The notebook runs from a clean state, and is stored without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import objectstates

NOTEBOOK = Path(__file__).parents[2] / "examples" / "quickstart.ipynb"


def test_outputs_are_stripped() -> None:
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.filterwarnings("ignore")  # of Jupyter's packages
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ipykernel", "pandas"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    monkeypatch.setenv("PYTHONPATH", str(Path(objectstates.__file__).parents[1]))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    assert (tmp_path / "quickstart" / "report.html").is_file()
    outputs = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "data" in output
    ]
    assert outputs[0].startswith("Result of 3 clips")
    assert "action_time" in outputs[1]
