"""The built-in backbone: EfficientNet-Lite0 with ImageNet weights, run by onnxruntime on the CPU.

The network (Tan & Le, ICML 2019, without squeeze-and-excitation and with ReLU6) was trained in
TensorFlow, whose "same" padding of a strided convolution is one more below and right than above
and left. Frames are padded to whole multiples of the coarsest stride, so the padding, and with it
the position of a cell, is the same for every frame size. The kernels compensate for the asymmetric
padding: a small change of the image changes the features around the *middle* of the cell, so cells
are taken to lie at their nominal positions.
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from typing import ClassVar

import numpy as np

from objectstates.base.cache import cache_folder
from objectstates.base.errors import SettingError
from objectstates.base.onnx_file import FLOAT, UINT8
from objectstates.base.onnx_utils import GraphBuilder, inference_session
from objectstates.base.storage import write_atomically
from objectstates.features import lite0_weights
from objectstates.features.backbones import (
    FeatureMap,
    Frames,
    Images,
    at_strides,
    check_images,
    padded,
)
from objectstates.features.feature_maps import HostFeatureMaps

GRAPH_VERSION = 1  # raise it when the maps computed from the same weights change

FINGERPRINT = f"lite0-{GRAPH_VERSION}-{lite0_weights.SHA256[:16]}"

FINE_STRIDES = (8, 16)  # strides of the maps that the few-shot detector works on

_MEAN, _SCALE = 127, 128
"""Input is (x - 127) / 128, so frames padded with 127 are padded with zeros."""

_BN_EPSILON = 1e-3

_BLOCKS = [
    (stride if repeat == 0 else 1, repeat > 0)
    for repeats, stride in ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
    for repeat in range(repeats)
]
"""Stride, and whether there is a residual connection, of each block."""

_BLOCKS_UP_TO = {8: 5, 16: 11, 32: len(_BLOCKS)}
"""Blocks before the map of a stride; stride 32 is taken after the head."""

_log = logging.getLogger(__name__)


class Lite0:
    """EfficientNet-Lite0 at strides 8, 16 and 32, or at some of them.

    A frame of 320 x 240 takes about 5, 9 or 15 ms on one core, for the coarsest stride 8, 16, 32.
    """

    STRIDES: ClassVar[tuple[int, ...]] = (8, 16, 32)
    CHANNELS: ClassVar[dict[int, int]] = {8: 40, 16: 112, 32: 1280}
    name = "lite0"
    fingerprint = FINGERPRINT

    def __init__(self, strides: tuple[int, ...] = STRIDES, threads: int = 1) -> None:
        if not strides or any(s not in self.STRIDES for s in strides):
            raise SettingError(f"`strides`: backbone lite0 has {self.STRIDES}, not {strides}")
        self.strides = tuple(sorted(set(strides)))
        self._session = inference_session(cached_graph(self.strides), threads)

    @property
    def channels(self) -> tuple[int, ...]:
        return tuple(self.CHANNELS[s] for s in self.strides)

    @property
    def appearance_strides(self) -> tuple[int, ...]:
        """Strides 16 and 32 together separated states better than any one, or all three."""
        return tuple(s for s in self.strides if s > 8) or self.strides

    def maps(self, images: Images) -> tuple[FeatureMap, ...]:
        """Frame by frame: faster than a batch on a CPU, and independent of the other frames.

        Frames are padded for stride 32, whatever the coarsest one: maps of a stride are the same
        whichever others are computed.
        """
        check_images(images)
        names = [_map_name(s) for s in self.strides]
        frames = padded(images, self.STRIDES[-1], _MEAN)
        rows = [self._session.run(names, {"images": frame[None]}) for frame in frames]
        size = (images.shape[1], images.shape[2])
        return tuple(
            FeatureMap(np.concatenate(values), stride, size)
            for values, stride in zip(zip(*rows, strict=True), self.strides, strict=True)
        )

    def device_maps(self, frames: Frames) -> HostFeatureMaps:
        return HostFeatureMaps.of(self.maps(np.stack(list(frames))), self.appearance_strides)

    def device_and_fine_maps(
        self, frames: Frames
    ) -> tuple[HostFeatureMaps, tuple[FeatureMap, ...]]:
        """`device_maps`, and ``Lite0(FINE_STRIDES).maps``, by one run. All strides are needed."""
        maps = self.maps(np.stack(list(frames)))
        return HostFeatureMaps.of(maps, self.appearance_strides), at_strides(maps, FINE_STRIDES)


def _map_name(stride: int) -> str:
    return f"stride{stride}"


def cached_graph(strides: tuple[int, ...]) -> bytes:
    """The ONNX model of `build_graph`, built at the first call on this machine.

    A cached file carries the digest of its content in its name: a damaged one is built anew.
    """
    stem = "-".join(map(str, (FINGERPRINT, *strides)))
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
        _log.warning("lite0 is built in every process: its cache cannot be written: %s", error)
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def build_graph(weights: lite0_weights.Weights, strides: tuple[int, ...]) -> bytes:
    """The network down to the coarsest of ``strides`` as an ONNX model.

    Input: ``images`` (B, H, W, 3) uint8 RGB, H and W multiples of the coarsest stride. Outputs:
    ``stride8`` and so on (B, h, w, C).
    """
    graph = _Graph(weights)
    x = graph.add("Cast", "images", to=FLOAT)
    x = graph.add("Sub", x, graph.constant("mean", np.float32(_MEAN)))
    x = graph.add("Div", x, graph.constant("scale", np.float32(_SCALE)))
    x = graph.add("Transpose", x, perm=[0, 3, 1, 2])
    level8 = graph.level8(x)
    level16 = graph.blocks(level8, 8, 16)
    level32 = graph.convolution(graph.blocks(level16, 16, 32), "_conv_head", "_bn1")
    levels = {_map_name(s): v for s, v in ((8, level8), (16, level16), (32, level32))}
    wanted = [_map_name(s) for s in strides]
    for name in wanted:
        graph.add("Transpose", levels[name], output=name, perm=[0, 2, 3, 1])
    outputs = dict.fromkeys(wanted, (FLOAT, ("B", None, None, None)))
    images = {"images": (UINT8, ("B", "H", "W", 3))}
    return graph.model("efficientnet-lite0", images, outputs)


class _Graph(GraphBuilder):
    """The layers of the network; maps are (B, C, H, W)."""

    def __init__(self, weights: lite0_weights.Weights) -> None:
        super().__init__()
        self.weights = weights
        self.limits = [self.constant(f"limit{v}", np.float32(v)) for v in (0, 6)]

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

    def level8(self, x: str) -> str:
        """The map of stride 8 of normalised images."""
        return self.blocks(self.convolution(x, "_conv_stem", "_bn0", stride=2), 0, 8)

    def blocks(self, x: str, stride: int, to: int) -> str:
        """The blocks between the maps of two strides: expand, filter each channel, project."""
        for block in range(_BLOCKS_UP_TO.get(stride, 0), _BLOCKS_UP_TO[to]):
            prefix, (step, residual) = f"_blocks.{block}.", _BLOCKS[block]
            y = x
            if f"{prefix}_expand_conv.weight" in self.weights:
                y = self.convolution(y, f"{prefix}_expand_conv", f"{prefix}_bn0")
            y = self.convolution(y, f"{prefix}_depthwise_conv", f"{prefix}_bn1", step)
            y = self.convolution(y, f"{prefix}_project_conv", f"{prefix}_bn2", activate=False)
            x = self.add("Add", x, y) if residual else y
        return x
