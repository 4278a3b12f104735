"""Feature maps that stay on the torch device: ``roi_pooling.py``, written for torch.

Pooling boxes on the GPU avoids copying the maps to the host. The features equal those of numpy to
1e-6: cell weights are computed in double precision, products in single precision, on both sides.

On a GPU pooling runs in a CUDA stream of its own, concurrently with the network on the frames that
follow. The stream is FIFO, so work is enqueued on demand only: pooling enqueued early would wait
for its maps, and block the pooling of maps that are ready.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.choices import BOX_CONTEXT
from objectstates.base.torch_utils import cpu_threads
from objectstates.features.backbones import FeatureMap
from objectstates.features.feature_maps import HostFeatureMaps
from objectstates.features.roi_pooling import GRID, Boxes, Features, enlarge_and_clip

BLOCK_BYTES = 256 << 20  # of maps and weights in single precision that are pooled at a time


class TorchFeatureMaps:
    """`FeatureMaps` in the memory of a torch device.

    values : (B, h, w, C) float16 tensor, written by work enqueued in the current stream.
    size : height and width of the frames in pixels.
    stream : in which boxes are pooled and results copied to the host.
    """

    def __init__(
        self, values: Any, stride: int, size: tuple[int, int], stream: PoolingStream
    ) -> None:
        self._values, self._stride, self._size, self._stream = values, stride, size, stream
        self._ready = stream.record(values)
        self._frames: Features | None = None

    @property
    def nbytes(self) -> int:
        return int(self._values.nbytes)

    def describe_frames(self) -> Features:
        if self._frames is None:
            height, width = self._size
            whole = [np.array([[0.0, 0.0, width, height]])] * len(self._values)
            self._frames = self._pooled(whole, context=1.0, grid=1)
        return self._frames

    def cells(self) -> npt.NDArray[np.float16]:
        values = self._stream.fetch(self._ready, lambda: self._values.flatten(1, 2))
        return np.asarray(values, np.float16)

    def describe_boxes(
        self, boxes: Sequence[Boxes], *, context: float = BOX_CONTEXT
    ) -> list[Features]:
        rows = self._pooled(boxes, context=context, grid=GRID)
        return np.split(rows, np.cumsum([len(found) for found in boxes])[:-1])

    def on_host(self) -> HostFeatureMaps:
        """A copy in host memory."""
        values = self._stream.fetch(self._ready, lambda: self._values)
        level = FeatureMap(values, self._stride, self._size)
        return HostFeatureMaps((level,), self.describe_frames())

    def _pooled(self, boxes: Sequence[Boxes], *, context: float, grid: int) -> Features:
        rows = self._stream.fetch(
            self._ready,
            lambda: describe(
                self._values, self._stride, self._size, boxes, context=context, grid=grid
            ),
        )
        return np.asarray(rows, np.float32)


def describe(
    values: Any,
    stride: int,
    size: tuple[int, int],
    boxes: Sequence[Boxes],
    *,
    context: float = BOX_CONTEXT,
    grid: int = GRID,
) -> Any:
    """`roi_pooling.describe_boxes` for one map: (N, grid² C) float32 tensor of all frames in turn.

    values : (B, h, w, C) tensor of any precision.
    boxes : for each frame its (n, 4) boxes; n may be 0.
    """
    import torch

    _, height, width, channels = values.shape
    most = max(map(len, boxes), default=0)
    cell_bytes = 4 * height * width * (channels + max(1, most) * grid**2)
    block = max(1, BLOCK_BYTES // cell_bytes)
    # Nothing is computed for frames before the first and after the last with boxes.
    filled = [index for index, found in enumerate(boxes) if len(found)] or [0]
    parts = [values.new_empty((0, grid**2 * channels), dtype=torch.float32)]
    for start in range(filled[0], filled[-1] + 1, block):
        some = slice(start, min(start + block, filled[-1] + 1))
        if any(map(len, boxes[some])):
            padded, valid = _padded_boxes(boxes[some], stride, size, context)
            parts.append(_pooled(values[some], padded, valid, grid))
    return torch.cat(parts)


def _padded_boxes(
    boxes: Sequence[Boxes], stride: int, size: tuple[int, int], context: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Boxes in units of cells, with cell c centred at c, padded to n per frame: (B, n, 4).

    n is the largest number of boxes of a frame, so that one batched product serves all frames.
    Also the indices of the boxes that are no padding among all B n.
    """
    counts = np.array([len(found) for found in boxes])
    valid = np.arange(counts.max()) < counts[:, None]
    found = np.concatenate([found for found in boxes if len(found)])
    padded = np.broadcast_to([0.0, 0.0, 1.0, 1.0], (*valid.shape, 4)).copy()
    padded[valid] = enlarge_and_clip(found, context, size) / stride - 0.5
    return padded, np.flatnonzero(valid)


def _pooled(
    values: Any, boxes: npt.NDArray[np.float64], valid: npt.NDArray[np.int64], grid: int
) -> Any:
    """Means over the bins of the valid boxes, (N, grid² C), scaled to length 1."""
    import torch

    count, height, width, channels = values.shape
    x1, y1, x2, y2 = _to_device(boxes, values.device).unbind(-1)
    down, across = _bin_weights(y1, y2, height, grid), _bin_weights(x1, x2, width, grid)
    weights = down[:, :, :, None, :, None] * across[:, :, None, :, None, :]
    weights = weights.reshape(count, -1, height * width)
    pooled = torch.bmm(weights, values.reshape(count, height * width, channels).float())
    pooled = pooled.reshape(-1, grid**2 * channels)[_to_device(valid, values.device)]
    length = torch.linalg.vector_norm(pooled, dim=1, keepdim=True)
    return pooled / torch.where(length > 0, length, 1.0)


def _bin_weights(start: Any, end: Any, count: int, grid: int) -> Any:
    """`roi_pooling.bin_weights` of (B, n) starts and ends: (B, n, grid, count) float32.

    Computed on the device: copies of the boxes overlap with a run of the network, but those of the
    weights, ten times as large, were seen to wait until it ended.
    """
    import torch

    steps = torch.linspace(0, 1, grid + 1, dtype=start.dtype, device=start.device)
    edges = start[..., None] + (end - start)[..., None] * steps
    cells = torch.arange(count, device=start.device)
    t = (edges.clip(0, count - 1)[..., None] - cells).clip_(-1, 1)
    weights = (t - t * t.abs() / 2).diff(dim=-2)
    weights[..., 0] += edges.clip(max=0).diff()
    weights[..., -1] += edges.clip(min=count - 1).diff()
    return (weights / edges.diff()[..., None]).float()


def _to_device(array: npt.NDArray[Any], device: Any) -> Any:
    """A small array on the device, without waiting for what is enqueued there."""
    import torch

    tensor = torch.from_numpy(array)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


class PoolingStream:
    """The CUDA stream in which boxes are pooled and results copied to the host.

    It has priority over the network's: its work is short, and the host waits for it. On the CPU
    work is done at once.
    """

    def __init__(self, device: Any, threads: int = 1) -> None:
        import torch

        self._device, self._threads = device, threads
        self._stream = torch.cuda.Stream(device, priority=-1) if device.type == "cuda" else None

    def record(self, values: Any) -> Any:
        """Event after the work enqueued so far, which writes ``values``; None on the CPU."""
        import torch

        if self._stream is None:
            return None
        values.record_stream(self._stream)
        return torch.cuda.current_stream(self._device).record_event()

    def fetch(self, after: Any, work: Callable[[], Any]) -> npt.NDArray[Any]:
        """Run ``work`` after an event that was recorded; return its tensor in host memory."""
        import torch

        if self._stream is None:
            with torch.inference_mode(), cpu_threads(self._threads):
                return np.asarray(work().numpy())
        with torch.inference_mode(), torch.cuda.stream(self._stream):
            self._stream.wait_event(after)
            values = _to_host(work())
            copied = self._stream.record_event()
        copied.synchronize()
        return np.asarray(values.numpy())


def _to_host(values: Any) -> Any:
    """Enqueue the copy to page-locked memory."""
    import torch

    out = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    return out.copy_(values, non_blocking=True)
