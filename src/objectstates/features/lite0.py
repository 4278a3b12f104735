"""The built-in backbone: EfficientNet-Lite0 with ImageNet weights, run by onnxruntime on the CPU.

The network (Tan & Le, ICML 2019, without squeeze-and-excitation and with ReLU6) was trained in
TensorFlow, whose "same" padding of a strided convolution is one more below and right than above
and left. Frames are extended to whole multiples of the coarsest stride, so the padding, and with
it the place a cell looks at, is the same for every size of frame. Kernels have learned to make up
for the lopsided padding: a small change of the image moves the features around the *middle* of the
cell, so cells are taken to lie where they nominally do.
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import onnxruntime

from objectstates.base.cache import cache_folder
from objectstates.base.errors import SettingError
from objectstates.base.storage import write_atomically
from objectstates.features import lite0_weights
from objectstates.features.backbones import FeatureMap, Frames, Images, check_images, padded
from objectstates.features.feature_maps import HostLook

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

GRAPH_VERSION = 1
"""Raise it when the graph built from the same weights changes."""

_MEAN, _SCALE = 127, 128
"""Input is (x - 127) / 128, so frames extended by 127 are extended by zeros."""

_BN_EPSILON = 1e-3

_STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
"""Number of blocks, and stride of the first, of each stage."""

_LEVEL_AFTER_BLOCK = {4: 8, 10: 16}
"""The last block at a stride; stride 32 is taken after the head."""

_log = logging.getLogger(__name__)


class Lite0:
    """EfficientNet-Lite0 at strides 8, 16 and 32, or at some of them.

    A frame of 320 x 240 takes about 5, 9 or 15 ms on one core, for the coarsest stride 8, 16, 32.
    """

    STRIDES: ClassVar[tuple[int, ...]] = (8, 16, 32)
    CHANNELS: ClassVar[dict[int, int]] = {8: 40, 16: 112, 32: 1280}

    def __init__(self, strides: tuple[int, ...] = STRIDES, threads: int = 1) -> None:
        if not strides or any(s not in self.STRIDES for s in strides):
            raise SettingError(f"backbone lite0 has strides {self.STRIDES}, not {strides}")
        self.strides = tuple(sorted(set(strides)))
        self._session = _session(cached_graph(self.strides), threads)

    @property
    def name(self) -> str:
        return "lite0"

    @property
    def fingerprint(self) -> str:
        return f"lite0-{GRAPH_VERSION}-{lite0_weights.SHA256[:16]}"

    @property
    def channels(self) -> tuple[int, ...]:
        return tuple(self.CHANNELS[s] for s in self.strides)

    @property
    def appearance_strides(self) -> tuple[int, ...]:
        """Strides 16 and 32 together told states apart better than any one, or all three."""
        return tuple(s for s in self.strides if s > 8) or self.strides

    def maps(self, images: Images) -> tuple[FeatureMap, ...]:
        names = [_map_name(s) for s in self.strides]
        size = (images.shape[1], images.shape[2])
        return tuple(
            FeatureMap(values, stride, size)
            for values, stride in zip(self._run(names, images), self.strides, strict=True)
        )

    def look(self, frames: Frames) -> HostLook:
        return HostLook.of(self.maps(np.stack(list(frames))), self.appearance_strides)

    def pooled(self, images: Images) -> npt.NDArray[np.float32]:
        """(B, 1280) mean over the cells of stride 32: what the classifier sees."""
        return self._run(["pooled"], images)[0]

    def logits(self, images: Images) -> npt.NDArray[np.float32]:
        """(B, 1000) scores of the ImageNet classes; it was made for 224 x 224 pixels."""
        return self._run(["logits"], images)[0]

    def _run(self, names: list[str], images: Images) -> list[npt.NDArray[np.float32]]:
        """Frame by frame: faster than a batch on a CPU, and a frame's numbers never depend on the
        frames beside it.
        """
        check_images(images)
        frames = padded(images, self.strides[-1], _MEAN)
        rows = [self._session.run(names, {"images": frame[None]}) for frame in frames]
        return [np.concatenate(column) for column in zip(*rows, strict=True)]


def _session(graph: bytes, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads that spin while they wait double the time of a pass when other processes are busy.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _map_name(stride: int) -> str:
    return f"stride{stride}"


def cached_graph(strides: tuple[int, ...]) -> bytes:
    """Return the ONNX model that gives ``strides``, built at the first call on this machine.

    A cached file carries the digest of its content in its name: a damaged one is built anew.
    """
    stem = "-".join(map(str, ("lite0", GRAPH_VERSION, lite0_weights.SHA256[:16], *strides)))
    folder = cache_folder()
    for path in sorted(folder.glob(f"{stem}.*.onnx")):
        with suppress(OSError):
            content = path.read_bytes()
            if path.suffixes[0] == f".{_digest(content)}":
                return content
    content = build_graph(lite0_weights.read_weights(), strides)
    try:
        write_atomically(folder / f"{stem}.{_digest(content)}.onnx", content)
    except OSError as error:
        _log.warning("lite0 is built anew each time, for its cache cannot be written: %s", error)
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def build_graph(weights: lite0_weights.Weights, strides: tuple[int, ...]) -> bytes:
    """Write the network down to the coarsest of ``strides`` as an ONNX model.

    Input: ``images`` (B, H, W, 3) uint8 RGB, H and W multiples of the coarsest stride. Outputs:
    ``stride8`` and so on (B, h, w, C); with stride 32 also ``pooled`` (B, 1280) and ``logits``.
    """
    import onnx
    from onnx import TensorProto, helper

    graph = _Graph(weights)
    x = graph.add("Cast", "images", to=TensorProto.FLOAT)
    x = graph.add("Sub", x, graph.constant("mean", np.float32(_MEAN)))
    x = graph.add("Div", x, graph.constant("scale", np.float32(_SCALE)))
    x = graph.add("Transpose", x, perm=[0, 3, 1, 2])
    x = graph.convolution(x, "_conv_stem", "_bn0", stride=2)
    levels: dict[int, str] = {}
    block = 0
    for repeats, first_stride in _STAGES:
        for repeat in range(repeats):
            x = graph.block(x, f"_blocks.{block}.", first_stride if repeat == 0 else 1, repeat > 0)
            if block in _LEVEL_AFTER_BLOCK:
                levels[_LEVEL_AFTER_BLOCK[block]] = x
            block += 1
    x = graph.convolution(x, "_conv_head", "_bn1")
    levels[32] = x

    outputs = [
        helper.make_tensor_value_info(_map_name(s), TensorProto.FLOAT, ["B", None, None, None])
        for s in strides
    ]
    for s in strides:
        graph.add("Transpose", levels[s], output=_map_name(s), perm=[0, 2, 3, 1])
    if 32 in strides:
        x = graph.add("GlobalAveragePool", x)
        x = graph.add("Flatten", x, output="pooled")
        classifier = [graph.constant(f"_fc.{k}", weights[f"_fc.{k}"]) for k in ("weight", "bias")]
        graph.add("Gemm", x, *classifier, output="logits", transB=1)
        for name, length in (("pooled", 1280), ("logits", 1000)):
            outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", length]))

    nodes = graph.ancestors([output.name for output in outputs])
    used = {name for node in nodes for name in node.input}
    images = helper.make_tensor_value_info("images", TensorProto.UINT8, ["B", "H", "W", 3])
    constants = [tensor for name, tensor in graph.constants.items() if name in used]
    model = helper.make_model(
        helper.make_graph(nodes, "efficientnet-lite0", [images], outputs, constants),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="objectstates",
    )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


class _Graph:
    """Collects nodes and constants; every node has one output, named after its weights or count."""

    def __init__(self, weights: lite0_weights.Weights) -> None:
        self.weights = weights
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        self.limits = [self.constant(f"limit{v}", np.float32(v)) for v in (0, 6)]

    def constant(self, name: str, value: npt.ArrayLike) -> str:
        from onnx import numpy_helper

        self.constants[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        output = output or f"{operator}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def convolution(
        self, x: str, name: str, norm: str, stride: int = 1, activate: bool = True
    ) -> str:
        """Convolution with its batch normalisation folded in, and ReLU6."""
        kernel = self.weights[f"{name}.weight"].astype(np.float64)
        gain, bias, mean, variance = (
            self.weights[f"{norm}.{k}"].astype(np.float64)
            for k in ("weight", "bias", "running_mean", "running_var")
        )
        gain /= np.sqrt(variance + _BN_EPSILON)
        width = kernel.shape[2]
        before = (width - stride) // 2
        after = width - stride - before
        x = self.add(
            "Conv",
            x,
            self.constant(f"{name}.weight", np.float32(kernel * gain[:, None, None, None])),
            self.constant(f"{name}.bias", np.float32(bias - mean * gain)),
            kernel_shape=[width, width],
            strides=[stride, stride],
            pads=[before, before, after, after],
            group=kernel.shape[0] if name.endswith("_depthwise_conv") else 1,
        )
        return self.add("Clip", x, *self.limits) if activate else x

    def block(self, x: str, prefix: str, stride: int, residual: bool) -> str:
        """Mobile inverted bottleneck: expand, filter each channel, project."""
        y = x
        if f"{prefix}_expand_conv.weight" in self.weights:
            y = self.convolution(y, f"{prefix}_expand_conv", f"{prefix}_bn0")
        y = self.convolution(y, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride)
        y = self.convolution(y, f"{prefix}_project_conv", f"{prefix}_bn2", activate=False)
        return self.add("Add", x, y) if residual else y

    def ancestors(self, outputs: list[str]) -> list[NodeProto]:
        """Nodes that some output depends on, in order."""
        needed, kept = set(outputs), []
        for node in reversed(self.nodes):
            if node.output[0] in needed:
                needed.update(node.input)
                kept.append(node)
        return kept[::-1]
