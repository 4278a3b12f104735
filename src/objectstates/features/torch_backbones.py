"""Backbones run by torch, on CPU or GPU: the paper's ResNet-50 and VGG16, and transformers.

Frames are copied to the device as bytes and normalised there. On a GPU the network runs in half
precision, and a batch in parts: while it runs on one part, the host copies the next. `device_maps`
only enqueues this work and returns; its maps stay on the device, where boxes are pooled
(``torch_feature_maps.py``), so neither the copies nor Python limit the throughput. For that the
kernels of a whole run are captured once as a CUDA graph and then replayed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np

from objectstates.base.errors import BackboneError, SettingError
from objectstates.base.torch_utils import (
    cpu_threads,
    is_page_locked,
    loading,
    needs_extra,
    torch_device,
    weights_digest,
)
from objectstates.features.backbones import FeatureMap, FeatureMaps, Frames, Images, check_images
from objectstates.features.feature_maps import HALF_MAX
from objectstates.features.torch_feature_maps import PoolingStream, TorchFeatureMaps

PART = 128  # frames per run; more take memory, which the videos processed at the same time share

COPY_THREADS = 4
"""Threads that copy frames to page-locked memory: one alone copies 20 frames in a millisecond."""

KEPT_BYTES = 1 << 30
"""Of maps kept on the device until their boxes are known; those beyond are kept on the host."""

_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class TorchBackbone:
    """A torch network that gives one map, as a `Backbone`.

    network : the module, in any precision and on any device.
    forward : calls ``network``; from normalised (B, 3, H, W) input to the (B, C, h, w) map. H and W
        are multiples of ``stride``.
    mean, std : of each colour channel, on a scale from 0 to 1.
    """

    def __init__(
        self,
        network: Any,
        forward: Callable[[Any], Any],
        *,
        name: str,
        stride: int,
        channels: int,
        device: str = "cpu",
        threads: int = 1,
        mean: tuple[float, ...] = _IMAGENET_MEAN,
        std: tuple[float, ...] = _IMAGENET_STD,
    ) -> None:
        import torch

        self.name = name
        self.strides = self.appearance_strides = (stride,)
        self.channels = (channels,)
        self._cuda = device.startswith("cuda")
        self._device = torch_device(device)
        self._dtype = torch.float16 if self._cuda else torch.float32
        self.fingerprint = f"{name}-{weights_digest(network)}-{self._dtype}"
        network.eval().to(self._device, self._dtype, memory_format=torch.channels_last)
        self._forward = forward
        self._threads = threads
        self._uploads = _UploadStream(self._device) if self._cuda else None
        self._pooling = PoolingStream(self._device, threads)
        self._kept: WeakSet[TorchFeatureMaps] = WeakSet()
        self._graphs: dict[tuple[int, ...], _CapturedRun | None] = {}
        self._mean = 255 * torch.tensor(mean, device=self._device)
        self._std = 255 * torch.tensor(std, device=self._device)
        self._fill = round(255 * sum(mean) / len(mean))

    def maps(self, images: Images) -> tuple[FeatureMap, ...]:
        import torch

        check_images(images)
        with torch.inference_mode(), cpu_threads(self._threads):
            parts = [
                self._map(self._upload(images[start : start + PART])).float().cpu()
                for start in range(0, len(images), PART)
            ]
        size = (images.shape[1], images.shape[2])
        return (FeatureMap(torch.cat(parts).numpy(), self.strides[0], size),)

    def device_maps(self, frames: Frames) -> FeatureMaps:
        """See `Backbone.device_maps`; on a GPU this returns before the work enqueued is done.

        Frames in one page-locked array (see `page_locked`) are copied to the GPU from there.
        """
        import torch

        check_images(np.asarray(frames[:1]))
        size = (frames[0].shape[0], frames[0].shape[1])
        shape = self._map_shape(len(frames), size)
        values = torch.empty(shape, dtype=torch.float16, device=self._device)
        with torch.inference_mode(), cpu_threads(self._threads):
            for start in range(0, len(frames), PART):
                maps = self._map(self._upload(frames[start : start + PART]))
                values[start : start + PART] = maps.clamp_(-HALF_MAX, HALF_MAX)
        kept_bytes = sum(maps.nbytes for maps in self._kept)
        feature_maps = TorchFeatureMaps(values, self.strides[0], size, self._pooling)
        if kept_bytes + feature_maps.nbytes > KEPT_BYTES:
            return feature_maps.on_host()
        self._kept.add(feature_maps)
        return feature_maps

    def _map_shape(self, count: int, size: tuple[int, int]) -> tuple[int, int, int, int]:
        stride = self.strides[0]
        return count, -(-size[0] // stride), -(-size[1] // stride), self.channels[0]

    def _upload(self, frames: Frames) -> Any:
        """Frames as (B, H, W, 3) bytes on the device."""
        import torch

        if self._uploads is None:
            return torch.from_numpy(np.stack(list(frames)))
        return self._uploads.upload(frames)

    def _map(self, frames: Any) -> Any:
        """(B, H, W, 3) bytes to the (B, h, w, C) map, on the network's device.

        Valid until the next call: a captured run always writes to the same memory.
        """
        shape = tuple(frames.shape)
        if not self._cuda or len(frames) < PART:
            return self._computed(frames)
        if shape not in self._graphs:
            self._graphs.clear()  # they hold memory, and videos come in few sizes
            self._graphs[shape] = _capture(self._computed, frames)
        graph = self._graphs[shape]
        return self._computed(frames) if graph is None else graph.replay(frames)

    def _computed(self, frames: Any) -> Any:
        import torch

        stride, (height, width) = self.strides[0], frames.shape[1:3]
        margin = (0, 0, 0, -width % stride, 0, -height % stride)  # at the right and the bottom
        frames = torch.nn.functional.pad(frames, margin, value=self._fill)
        x = ((frames - self._mean) / self._std).to(self._dtype)
        # Channels last in memory, the fastest layout for convolutions on a GPU.
        return self._forward(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


@dataclass(frozen=True, slots=True)
class _CapturedRun:
    """A CUDA graph that computes ``result`` from the content of ``given``."""

    graph: Any
    given: Any
    result: Any

    def replay(self, values: Any) -> Any:
        self.given.copy_(values)
        self.graph.replay()
        return self.result


def _capture(work: Callable[[Any], Any], example: Any) -> _CapturedRun | None:
    """Capture ``work`` on tensors like ``example``; None if it synchronises with the device."""
    import torch

    given, graph = example.clone(), torch.cuda.CUDAGraph()
    warm_up = torch.cuda.Stream(example.device)
    warm_up.wait_stream(torch.cuda.current_stream(example.device))
    with torch.cuda.stream(warm_up):
        for _ in range(2):  # libraries choose kernels and allocate memory before the capture
            work(given)
    torch.cuda.current_stream(example.device).wait_stream(warm_up)
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            result = work(given)
    except RuntimeError:
        torch.cuda.synchronize(example.device)
        return None
    return _CapturedRun(graph, given, result)


class _UploadStream:
    """CUDA stream for copies of frames that overlap with the network's work.

    Frames pass through two page-locked buffers, used in turn.
    """

    def __init__(self, device: Any) -> None:
        import torch

        self._device = device
        self._up = torch.cuda.Stream(device)
        self._buffers: list[Any] = [None, None]
        self._free = [torch.cuda.Event(), torch.cuda.Event()]
        self._turn = 0
        self._threads = ThreadPoolExecutor(COPY_THREADS)

    def upload(self, frames: Frames) -> Any:
        """Bytes on the device, ready for work that is enqueued next."""
        import torch

        locked = isinstance(frames, np.ndarray) and is_page_locked(frames)
        staged = torch.from_numpy(frames) if locked else self._to_buffer(frames)
        with torch.cuda.stream(self._up):
            on_device = self._to_device(staged)
            copied = self._up.record_event()
        if locked:
            copied.synchronize()  # the copy does not wait for other work
        else:
            self._free[self._turn] = copied
        work = torch.cuda.current_stream(self._device)
        work.wait_stream(self._up)
        on_device.record_stream(work)
        return on_device

    def _to_buffer(self, frames: Frames) -> Any:
        """Copy frames to the next page-locked buffer."""
        import torch

        k = self._turn = 1 - self._turn
        self._free[k].synchronize()  # the upload from it two parts ago is done
        shape = (len(frames), *frames[0].shape)
        size = int(np.prod(shape))
        if self._buffers[k] is None or self._buffers[k].numel() < size:
            self._buffers[k] = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        staged = self._buffers[k][:size].view(shape)
        fill(staged.numpy(), frames, self._threads)
        return staged

    def _to_device(self, staged: Any) -> Any:
        return staged.to(self._device, non_blocking=True)


def fill(out: Images, frames: Frames, threads: ThreadPoolExecutor) -> None:
    """Copy frames of one size into ``out``, (B, H, W, 3), by several threads."""
    count = -(-len(frames) // COPY_THREADS)

    def copy(start: int) -> None:
        np.stack(list(frames[start : start + count]), out=out[start : start + count])

    for _ in threads.map(copy, range(0, len(frames), count)):
        pass  # an error of a thread is raised here


def resnet50(device: str = "cpu", threads: int = 1, *, weights: str = "imagenet") -> TorchBackbone:
    """ResNet-50 as in the paper: its last convolutional map, 2,048 channels at stride 32.

    weights : "imagenet" (downloaded once by torchvision), "random", or a file.
    """
    whole = _torchvision_network("resnet50", weights)
    import torch

    network = torch.nn.Sequential(*list(whole.children())[:-2])  # without pooling and classifier
    return TorchBackbone(
        network, network, name="resnet50", stride=32, channels=2048, device=device, threads=threads
    )


def vgg16(device: str = "cpu", threads: int = 1, *, weights: str = "imagenet") -> TorchBackbone:
    """VGG16's conv5 as in the paper: the map before the last pooling, 512 channels at stride 16.

    weights : as of `resnet50`.
    """
    network = _torchvision_network("vgg16", weights).features[:30]  # up to the ReLU of conv5_3
    return TorchBackbone(
        network, network, name="vgg16", stride=16, channels=512, device=device, threads=threads
    )


def _torchvision_network(name: str, weights: str) -> Any:
    """A network for ImageNet's classes. Random weights are the same in every process."""
    with needs_extra("torch", f"backbone {name}"):
        import torch
        from torchvision import models
    if weights == "random":
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            return models.get_model(name, weights=None)
    if weights == "imagenet":
        with loading(f"backbone {name}", BackboneError):
            try:
                return models.get_model(name, weights="IMAGENET1K_V1")
            except OSError as problem:
                raise OSError(
                    f"{problem}; without a network, give the file of its weights: {name}:FILE"
                ) from problem
    with loading(f"backbone {name}:{weights}", BackboneError):
        network = models.get_model(name, weights=None)
        network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return network


def hub_model(model: str, device: str = "cpu", threads: int = 1) -> TorchBackbone:
    """Vision transformer by its name on the hub, or from its folder; its patches are the cells."""
    with needs_extra("hf", f"backbone hf:{model}"):
        import torch
        import transformers
    with loading(f"backbone hf:{model}", BackboneError):
        network = transformers.AutoModel.from_pretrained(model, dtype=torch.float32).eval()
        processor = transformers.AutoImageProcessor.from_pretrained(model)
    patch: Any = getattr(network.config, "patch_size", None)
    channels: Any = getattr(network.config, "hidden_size", None)
    parameters = inspect.signature(network.forward).parameters
    options = {k: True for k in ("interpolate_pos_encoding",) if k in parameters}

    def forward(x: Any) -> Any:
        """The tokens of the patches come last, row by row, after class and register tokens."""
        rows, columns = x.shape[2] // patch, x.shape[3] // patch
        tokens = network(x, **options).last_hidden_state[:, -rows * columns :]
        return tokens.reshape(len(x), rows, columns, channels).permute(0, 3, 1, 2)

    try:
        with torch.inference_mode():
            forward(torch.zeros(1, 3, 2 * patch, 3 * patch))
    except (TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise SettingError(
            f"hf:{model} gives no map of patches for frames of any size: choose "
            f"a plain vision transformer, such as facebook/dinov2-small ({error})"
        ) from error
    return TorchBackbone(
        network,
        forward,
        name=f"hf:{model}",
        stride=patch,
        channels=channels,
        device=device,
        threads=threads,
        mean=tuple(processor.image_mean),
        std=tuple(processor.image_std),
    )
