"""Detectors that torch runs: ``torchvision:NAME``, and ``hf:MODEL`` of the Hugging Face hub.

``hf:MODEL`` is a model that finds what a text names (OWLv2, OWL-ViT, Grounding DINO), with
the object's name for a text; or one of fixed classes (DETR and its kin), of which one must have
that name. Models that go by text are less sure of themselves than others: a threshold of 0.1 to
0.3 is usual for them.

On a GPU networks run in half precision where that is safe, and in batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from objectstates.base.errors import DetectorError, SettingError
from objectstates.base.torch_utils import (
    cpu_threads,
    loading,
    needs_extra,
    torch_device,
    weights_digest,
)
from objectstates.detect.detections import Detections
from objectstates.detect.nms import best_detections
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, Image, VideoInfo

VERSION = 1
"""Raise it when the same network and frames may give other boxes: it is part of fingerprints."""

BATCH = {"cpu": 1, "cuda": 8}
"""Frames per pass; on a CPU more are no faster."""

Find = Callable[[Sequence[Image]], list[tuple[Any, Any]]]
"""Gives for each image the tensors of boxes (n, 4), in its pixels, and of scores (n,)."""


class TorchDetector:
    """A torch network behind the protocol of detectors.

    find : runs ``network``, which is brought to the device before it is called.
    settings : whatever else changes what is found.
    """

    def __init__(
        self,
        network: Any,
        find: Find,
        *,
        settings: str,
        threshold: float,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        self._device = torch_device(device)
        self._find = find
        self._threshold = threshold
        self._threads = threads
        key = repr((VERSION, weights_digest(network), settings, threshold, self._device.type))
        self.fingerprint = f"torch-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        network.eval().to(self._device)

    def for_clip(self, clip: ClipSpan, video: VideoInfo) -> Self:
        return self

    def detect(self, frames: Sequence[Frame]) -> list[Detections]:
        import torch

        cuda = self._device.type == "cuda"
        size = BATCH["cuda" if cuda else "cpu"]
        half = torch.autocast(self._device.type, torch.float16, enabled=cuda)
        images = [frame.image for frame in frames]
        found: list[tuple[Any, Any]] = []
        with torch.inference_mode(), half, cpu_threads(self._threads):
            for begin in range(0, len(images), size):
                found += self._find(images[begin : begin + size])
        return [
            best_detections(
                boxes.float().cpu().numpy(),
                scores.float().cpu().numpy(),
                image.shape[:2],
                threshold=self._threshold,
            )
            for image, (boxes, scores) in zip(images, found, strict=True)
        ]


def torchvision_detector(
    name: str,
    object_name: str | None = None,
    *,
    threshold: float = 0.4,
    device: str = "cpu",
    threads: int = 1,
    pretrained: bool = True,
) -> TorchDetector:
    """Detection model of torchvision, with its own weights for the classes of COCO."""
    with needs_extra("torch", f"detector torchvision:{name}"):
        import torch
        from torchvision import models
    known = models.list_models(module=models.detection)
    if name not in known:
        raise SettingError(f"torchvision has no detector {name!r}; choose {', '.join(known)}")
    weights = models.get_model_weights(name).DEFAULT
    names = dict(enumerate(weights.meta["categories"]))
    wanted = _label(f"torchvision:{name}", names, object_name)
    torch_device(device)  # before anything is downloaded for it
    with loading(f"detector torchvision:{name}", DetectorError):
        network = models.get_model(
            name, weights=weights if pretrained else None, weights_backbone=None
        )

    def find(images: Sequence[Image]) -> list[tuple[Any, Any]]:
        pixels = [torch.from_numpy(image).to(device).permute(2, 0, 1) / 255 for image in images]
        return _of_label(network(pixels), wanted)

    return TorchDetector(
        network,
        find,
        settings=f"torchvision:{name} {wanted}",
        threshold=threshold,
        device=device,
        threads=threads,
    )


def hub_detector(
    model: str,
    object_name: str | None = None,
    *,
    threshold: float = 0.4,
    device: str = "cpu",
    threads: int = 1,
) -> TorchDetector:
    """Detector by its name on the hub, or from its folder; the text or label is ``object_name``."""
    with needs_extra("hf", f"detector hf:{model}"):
        import PIL.Image  # noqa: F401
        import torch  # noqa: F401
        import transformers
    torch_device(device)
    with loading(f"detector hf:{model}", DetectorError):
        config = type(transformers.AutoConfig.from_pretrained(model))
    if config in transformers.MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING:
        build = _by_text
    elif config in transformers.MODEL_FOR_OBJECT_DETECTION_MAPPING:
        build = _by_label
    else:
        raise SettingError(
            f"hf:{model} is no detector but a {config.__name__.removesuffix('Config')}; choose "
            "one, such as google/owlv2-base-patch16-ensemble or IDEA-Research/grounding-dino-tiny"
        )
    network, find, settings = build(model, object_name, threshold, device)
    return TorchDetector(
        network,
        find,
        settings=f"{settings} {transformers.__version__}",
        threshold=threshold,
        device=device,
        threads=threads,
    )


def _by_text(
    model: str, object_name: str | None, threshold: float, device: str
) -> tuple[Any, Find, str]:
    import transformers

    if not object_name:
        raise SettingError(f"hf:{model} finds what it is told to: name it by --object")
    with loading(f"detector hf:{model}", DetectorError):
        kind = transformers.AutoModelForZeroShotObjectDetection
        network = kind.from_pretrained(model)
        processor = transformers.AutoProcessor.from_pretrained(model)
    # OWL's texts were of this form when it was trained; the others were given bare names.
    owl = network.config.model_type.startswith("owl")
    prompt = f"a photo of a {object_name}" if owl else object_name.replace(".", " ")

    def find(images: Sequence[Image]) -> list[tuple[Any, Any]]:
        texts = [[prompt]] * len(images)
        inputs = processor(
            images=_pictures(images), text=texts, return_tensors="pt", truncation=True
        ).to(device)
        found = processor.post_process_grounded_object_detection(
            network(**inputs),
            threshold=threshold,
            target_sizes=[image.shape[:2] for image in images],
            text_labels=texts,
        )
        return [(one["boxes"], one["scores"]) for one in found]

    return network, find, prompt


def _by_label(
    model: str, object_name: str | None, threshold: float, device: str
) -> tuple[Any, Find, str]:
    import transformers

    with loading(f"detector hf:{model}", DetectorError):
        network = transformers.AutoModelForObjectDetection.from_pretrained(model)
        processor = transformers.AutoImageProcessor.from_pretrained(model)
    wanted = _label(f"hf:{model}", network.config.id2label, object_name)

    def find(images: Sequence[Image]) -> list[tuple[Any, Any]]:
        inputs = processor(images=_pictures(images), return_tensors="pt").to(device)
        sizes = [image.shape[:2] for image in images]
        found = processor.post_process_object_detection(
            network(**inputs), threshold=threshold, target_sizes=sizes
        )
        return _of_label(found, wanted)

    return network, find, str(wanted)


def _pictures(images: Sequence[Image]) -> list[Any]:
    """Frames as pictures, whose axes need no guessing."""
    import PIL.Image

    return [PIL.Image.fromarray(image) for image in images]


def _of_label(found: Sequence[Mapping[str, Any]], wanted: int | None) -> list[tuple[Any, Any]]:
    pairs = []
    for one in found:
        chosen = slice(None) if wanted is None else one["labels"] == wanted
        pairs.append((one["boxes"][chosen], one["scores"][chosen]))
    return pairs


def _label(model: str, names: Mapping[int, str], object_name: str | None) -> int | None:
    """Index of the class of a name; None, for any, where no name is given."""
    if object_name is None:
        return None
    for index, name in names.items():
        if name.casefold() == object_name.casefold():
            return int(index)
    real = sorted({name for name in names.values() if name not in ("N/A", "__background__")})
    raise SettingError(f"{model} knows no {object_name!r}; --object may be {', '.join(real)}")
