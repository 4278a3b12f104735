"""ONNX graphs built from weights, and their sessions in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto, ValueInfoProto

Shape = Sequence[int | str | None]


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
    return onnxruntime.InferenceSession(model, options, providers=[provider])


def external_files(path: Path) -> list[Path]:
    """The files, other than ``path``, that hold tensors of the model, sorted; none for most models.

    They may have any name, and belong to any part of the graph, so all parts are searched.
    """
    import onnx

    found, parts = set[str](), [onnx.load(path, load_external_data=False)]
    while parts:
        part = parts.pop()
        if isinstance(part, onnx.TensorProto):
            if part.data_location == onnx.TensorProto.EXTERNAL:
                found |= {entry.value for entry in part.external_data if entry.key == "location"}
            continue
        for field, value in part.ListFields():
            if field.message_type is not None:
                parts += value if isinstance(value, Sequence) else [value]
    return [path.parent / name for name in sorted(found)]


class GraphBuilder:
    """Collects the nodes and constants of a graph; every node has one output."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}

    def constant(self, name: str, value: npt.ArrayLike) -> str:
        """Add a constant unless one of this name is there."""
        from onnx import numpy_helper

        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node; return the name of its output, by default operator and node number."""
        from onnx import helper

        output = output or f"{operator}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def model(
        self,
        name: str,
        inputs: Mapping[str, tuple[int, Shape]],
        outputs: Mapping[str, tuple[int, Shape]],
    ) -> bytes:
        """The checked model, of the nodes and constants that the outputs depend on.

        inputs, outputs : element type (`onnx.TensorProto`) and shape by name.
        """
        import onnx
        from onnx import helper

        nodes = self._ancestors(outputs)
        used = {value for node in nodes for value in node.input}
        constants = [tensor for key, tensor in self.constants.items() if key in used]
        model = helper.make_model(
            helper.make_graph(nodes, name, _infos(inputs), _infos(outputs), constants),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
            producer_name="objectstates",
        )
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))

    def _ancestors(self, outputs: Mapping[str, Any]) -> list[NodeProto]:
        """Nodes that some output depends on, in order."""
        needed, kept = set(outputs), []
        for node in reversed(self.nodes):
            if node.output[0] in needed:
                needed.update(node.input)
                kept.append(node)
        return kept[::-1]


def _infos(values: Mapping[str, tuple[int, Shape]]) -> list[ValueInfoProto]:
    from onnx import helper

    return [helper.make_tensor_value_info(name, *kind) for name, kind in values.items()]
