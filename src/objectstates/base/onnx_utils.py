"""ONNX graphs built from weights, and their sessions in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.onnx_file import Node, Shape, external_names, model_file

OPERATORS, FILE_VERSION = 17, 8  # of our graphs; onnxruntime knows them from version 1.12 on


def inference_session(
    model: bytes | str, threads: int = 1, provider: str = "CPUExecutionProvider"
) -> Any:
    """Session of a model given as its content or its path.

    threads : on the CPU; 0 is one for each core.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Threads that spin while they wait double the time of a pass when other processes are busy.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Without a second try on the CPU, which prints lines of its own about a damaged model.
    return onnxruntime.InferenceSession(model, options, providers=[provider], enable_fallback=0)


def external_files(path: Path) -> list[Path]:
    """The files, other than ``path``, that hold tensors of the model, sorted; none for most models.

    Raises ValueError if the model cannot be read.
    """
    return [path.parent / name for name in sorted(external_names(path.read_bytes()))]


class GraphBuilder:
    """Collects the nodes and constants of a graph; every node has one output."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, npt.NDArray[Any]] = {}

    def constant(self, name: str, value: npt.ArrayLike) -> str:
        """Add a constant (float32, int64 or uint8) unless one of this name is there."""
        if name not in self.constants:
            self.constants[name] = np.array(value, order="C")
        return name

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node; return the name of its output, by default operator and node number.

        attributes : integers, floats or lists of integers.
        """
        output = output or f"{operator}{len(self.nodes)}"
        self.nodes.append(Node(operator, inputs, output, attributes))
        return output

    def model(
        self,
        name: str,
        inputs: Mapping[str, tuple[int, Shape]],
        outputs: Mapping[str, tuple[int, Shape]],
    ) -> bytes:
        """The model, of the nodes and constants that the outputs depend on.

        inputs, outputs : element type (of `onnx_file`) and shape by name.
        """
        nodes = self._ancestors(outputs)
        used = {value for node in nodes for value in node.inputs}
        return model_file(
            name,
            nodes,
            [(key, value) for key, value in self.constants.items() if key in used],
            [(key, *kind) for key, kind in inputs.items()],
            [(key, *kind) for key, kind in outputs.items()],
            operators=OPERATORS,
            version=FILE_VERSION,
        )

    def _ancestors(self, outputs: Mapping[str, Any]) -> list[Node]:
        """Nodes that some output depends on, in order."""
        needed, kept = set(outputs), []
        for node in reversed(self.nodes):
            if node.output in needed:
                needed.update(node.inputs)
                kept.append(node)
        return kept[::-1]
