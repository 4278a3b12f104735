"""Boxes described where the network ran: the numpy of `roi`, written for torch.

Pooling boxes on the GPU spares the copy of the maps to the host, and the host's work on them. The
numbers are those of `roi` to a millionth: weights of cells are computed in double precision, and
products in single precision, on both sides.

On a GPU all this runs in a stream of its own, beside the network's work on the frames that follow.
It does in turn what is asked of looks. So nothing is put there before it is asked for: it would
wait for its maps, and what is asked of maps that are there would wait behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.torch_utils import cpu_threads
from objectstates.features.backbones import FeatureMap
from objectstates.features.feature_maps import HostLook
from objectstates.features.roi_pooling import CONTEXT, GRID, Boxes, Features, enlarge

BLOCK_BYTES = 256 << 20
"""Of maps and weights in single precision, at a time."""


class TorchLook:
    """Maps in the memory of a torch device.

    values : (B, h, w, C) float16 tensor, queued to be filled by the current stream.
    size : height and width of the frames in pixels.
    side : where pooling runs and copies to the host are made.
    """

    def __init__(self, values: Any, stride: int, size: tuple[int, int], side: Side) -> None:
        self._values, self._stride, self._size, self._side = values, stride, size, side
        self._ready = side.mark(values)
        self._whole: Features | None = None

    @property
    def nbytes(self) -> int:
        return int(self._values.nbytes)

    def frames(self) -> Features:
        if self._whole is None:
            height, width = self._size
            whole = [np.array([[0.0, 0.0, width, height]])] * len(self._values)
            self._whole = self._described(whole, context=1.0, grid=1)
        return self._whole

    def cells(self) -> npt.NDArray[np.float16]:
        values = self._side.fetch(self._ready, lambda: self._values.flatten(1, 2)).wait()
        return np.asarray(values, np.float16)

    def boxes(self, boxes: Sequence[Boxes], *, context: float = CONTEXT) -> list[Features]:
        rows = self._described(boxes, context=context, grid=GRID)
        return np.split(rows, np.cumsum([len(found) for found in boxes])[:-1])

    def on_host(self) -> HostLook:
        """The same with its maps in host memory."""
        values = self._side.fetch(self._ready, lambda: self._values).wait()
        return HostLook((FeatureMap(values, self._stride, self._size),), self.frames())

    def _described(self, boxes: Sequence[Boxes], *, context: float, grid: int) -> Features:
        rows = self._side.fetch(
            self._ready,
            lambda: describe(
                self._values, self._stride, self._size, boxes, context=context, grid=grid
            ),
        )
        return np.asarray(rows.wait(), np.float32)


def describe(
    values: Any,
    stride: int,
    size: tuple[int, int],
    boxes: Sequence[Boxes],
    *,
    context: float = CONTEXT,
    grid: int = GRID,
) -> Any:
    """`roi.describe_boxes` for one map: (N, grid² C) float32 tensor, of all frames in turn.

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
            placed, there = _placed(boxes[some], stride, size, context)
            parts.append(_pooled(values[some], placed, there, grid))
    return torch.cat(parts)


def _placed(
    boxes: Sequence[Boxes], stride: int, size: tuple[int, int], context: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Boxes in units of cells, with cell c centred at c, and which of them there are.

    As if each of B frames had n boxes, as many as the one with most of them: (B, n, 4), and the
    indices of the true ones among all B n. (Products of one size for all frames are what a GPU is
    good at.)
    """
    counts = np.array([len(found) for found in boxes])
    there = np.arange(counts.max()) < counts[:, None]
    found = enlarge(np.concatenate([found for found in boxes if len(found)]), context, size)
    placed = np.broadcast_to([0.0, 0.0, 1.0, 1.0], (*there.shape, 4)).copy()
    placed[there] = found / stride - 0.5
    return placed, np.flatnonzero(there)


def _pooled(
    values: Any, placed: npt.NDArray[np.float64], there: npt.NDArray[np.int64], grid: int
) -> Any:
    """Mean over each bin of the boxes, (N, grid² C), all bins of a box together of length 1."""
    import torch

    count, height, width, channels = values.shape
    x1, y1, x2, y2 = _sent(placed, values.device).unbind(-1)
    down, across = _bin_weights(y1, y2, height, grid), _bin_weights(x1, x2, width, grid)
    weights = down[:, :, :, None, :, None] * across[:, :, None, :, None, :]
    weights = weights.reshape(count, -1, height * width)
    pooled = torch.bmm(weights, values.reshape(count, height * width, channels).float())
    pooled = pooled.reshape(-1, grid**2 * channels)[_sent(there, values.device)]
    length = torch.linalg.vector_norm(pooled, dim=1, keepdim=True)
    return pooled / torch.where(length > 0, length, 1.0)


def _bin_weights(start: Any, end: Any, count: int, grid: int) -> Any:
    """`roi.bin_weights` of (B, n) starts and ends, in single precision: (B, n, grid, count).

    Computed where they are needed. Boxes reach the device at once beside a running pass of the
    network; weights, ten times as large, were seen to wait until it ended.
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


def _sent(array: npt.NDArray[Any], device: Any) -> Any:
    """A small array on the device, without waiting for what is queued there."""
    import torch

    tensor = torch.from_numpy(array)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True, slots=True)
class Coming:
    """A tensor in host memory that is there once ``arrived``, a CUDA event; None: it is there."""

    values: Any
    arrived: Any = None

    def wait(self) -> npt.NDArray[Any]:
        if self.arrived is not None:
            self.arrived.synchronize()
        return np.asarray(self.values.numpy())


class Side:
    """Work beside the network's, whose results go to the host.

    On a GPU a stream, which goes before the network's where both have work to do: what it does is
    little, and the host waits for it. On the CPU nothing runs beside anything.
    """

    def __init__(self, device: Any, threads: int = 1) -> None:
        import torch

        self._device, self._threads = device, threads
        self._stream = torch.cuda.Stream(device, priority=-1) if device.type == "cuda" else None

    def mark(self, values: Any) -> Any:
        """The moment when what was queued so far, which fills ``values``, is done."""
        import torch

        if self._stream is None:
            return None
        values.record_stream(self._stream)
        return torch.cuda.current_stream(self._device).record_event()

    def fetch(self, after: Any, work: Callable[[], Any]) -> Coming:
        """Do some work after a moment that was marked, and bring its tensor to the host."""
        import torch

        if self._stream is None:
            with torch.inference_mode(), cpu_threads(self._threads):
                return Coming(work())
        with torch.inference_mode(), torch.cuda.stream(self._stream):
            self._stream.wait_event(after)
            return Coming(_to_host(work()), self._stream.record_event())


def _to_host(values: Any) -> Any:
    """Queue the copy to page-locked memory."""
    import torch

    out = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    return out.copy_(values, non_blocking=True)
