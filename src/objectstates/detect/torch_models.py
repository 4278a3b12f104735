"""Detectors run by torch: ``torchvision:NAME``, and ``hf:MODEL`` of the Hugging Face hub.

``hf:MODEL`` is an open-vocabulary detector (OWLv2, OWL-ViT, Grounding DINO), prompted with the
object's name; or one of fixed classes (DETR and others), of which one must have that name. Scores
of open-vocabulary models are low: a threshold of 0.1 to 0.3 is usual for them.

On a GPU networks run in batches, with automatic mixed precision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from objectstates.base.errors import DetectorError, SettingError
from objectstates.base.torch_utils import (
    cpu_threads,
    loading,
    needs_extra,
    torch_device,
    weights_digest,
)
from objectstates.detect.detections import Detections, DetectorOptions, FrameDetector, class_index
from objectstates.detect.nms import best_detections
from objectstates.video.reader import Frame, Image

VERSION = 1  # part of fingerprints: raise it when the same network and frames may give other boxes
BATCH = {"cpu": 1, "cuda": 8}  # frames per run; on a CPU more are no faster

Find = Callable[[Sequence[Image]], list[tuple[Any, Any]]]
"""From images to the boxes (n, 4), in pixels, and the scores (n,) of each, as tensors."""


class TorchDetector(FrameDetector):
    """A torch network as a `Detector`.

    find : calls ``network``, which is moved to the device before.
    settings : all else that the detections depend on, for the fingerprint.
    """

    def __init__(self, network: Any, find: Find, settings: str, options: DetectorOptions) -> None:
        self._device = torch_device(options.device)
        self._find = find
        self._threshold, self._threads = options.threshold, options.threads
        digest = weights_digest(network)
        key = repr((VERSION, digest, settings, options.threshold, self._device.type))
        self.fingerprint = f"torch-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        network.eval().to(self._device)

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
    name: str, options: DetectorOptions, *, pretrained: bool = True
) -> TorchDetector:
    """Detection model of torchvision, with its weights for the classes of COCO."""
    with needs_extra("torch", f"detector torchvision:{name}"):
        import torch
        from torchvision import models
    known = models.list_models(module=models.detection)
    if name not in known:
        raise SettingError(f"torchvision has no detector {name!r}; choose {', '.join(known)}")
    weights = models.get_model_weights(name).DEFAULT
    names = dict(enumerate(weights.meta["categories"]))
    wanted = class_index(f"torchvision:{name}", names, options.object_name)
    torch_device(options.device)  # raises before anything is downloaded
    with loading(f"detector torchvision:{name}", DetectorError):
        network = models.get_model(
            name, weights=weights if pretrained else None, weights_backbone=None
        )

    def find(images: Sequence[Image]) -> list[tuple[Any, Any]]:
        pixels = [
            torch.from_numpy(image).to(options.device).permute(2, 0, 1) / 255 for image in images
        ]
        return _of_label(network(pixels), wanted)

    return TorchDetector(network, find, f"torchvision:{name} {wanted}", options)


def hub_detector(model: str, options: DetectorOptions) -> TorchDetector:
    """Detector by its name on the hub, or from its folder."""
    with needs_extra("hf", f"detector hf:{model}"):
        import PIL.Image  # noqa: F401
        import torch  # noqa: F401
        import transformers
    torch_device(options.device)
    with loading(f"detector hf:{model}", DetectorError):
        config = type(transformers.AutoConfig.from_pretrained(model))
    if config in transformers.MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING:
        build = _open_vocabulary
    elif config in transformers.MODEL_FOR_OBJECT_DETECTION_MAPPING:
        build = _fixed_classes
    else:
        raise SettingError(
            f"hf:{model} is no detector but a {config.__name__.removesuffix('Config')}; choose "
            "one, such as google/owlv2-base-patch16-ensemble or IDEA-Research/grounding-dino-tiny"
        )
    network, find, settings = build(model, options)
    return TorchDetector(network, find, f"{settings} {transformers.__version__}", options)


def _open_vocabulary(model: str, options: DetectorOptions) -> tuple[Any, Find, str]:
    import transformers

    name = options.object_name
    if not name:
        raise SettingError(f"hf:{model} is prompted with the object's name: give `object`")
    with loading(f"detector hf:{model}", DetectorError):
        kind = transformers.AutoModelForZeroShotObjectDetection
        network = kind.from_pretrained(model)
        processor = transformers.AutoProcessor.from_pretrained(model)
    # The prompts that OWL was trained with; the others were trained with names only.
    owl = network.config.model_type.startswith("owl")
    prompt = f"a photo of a {name}" if owl else name.replace(".", " ")

    def find(images: Sequence[Image]) -> list[tuple[Any, Any]]:
        texts = [[prompt]] * len(images)
        inputs = processor(
            images=_pictures(images), text=texts, return_tensors="pt", truncation=True
        ).to(options.device)
        found = processor.post_process_grounded_object_detection(
            network(**inputs),
            threshold=options.threshold,
            target_sizes=[image.shape[:2] for image in images],
            text_labels=texts,
        )
        return [(one["boxes"], one["scores"]) for one in found]

    return network, find, prompt


def _fixed_classes(model: str, options: DetectorOptions) -> tuple[Any, Find, str]:
    import transformers

    with loading(f"detector hf:{model}", DetectorError):
        network = transformers.AutoModelForObjectDetection.from_pretrained(model)
        processor = transformers.AutoImageProcessor.from_pretrained(model)
    wanted = class_index(f"hf:{model}", network.config.id2label, options.object_name)

    def find(images: Sequence[Image]) -> list[tuple[Any, Any]]:
        inputs = processor(images=_pictures(images), return_tensors="pt").to(options.device)
        sizes = [image.shape[:2] for image in images]
        found = processor.post_process_object_detection(
            network(**inputs), threshold=options.threshold, target_sizes=sizes
        )
        return _of_label(found, wanted)

    return network, find, str(wanted)


def _pictures(images: Sequence[Image]) -> list[Any]:
    """Frames as PIL images, whose axes are unambiguous."""
    import PIL.Image

    return [PIL.Image.fromarray(image) for image in images]


def _of_label(found: Sequence[Mapping[str, Any]], wanted: int | None) -> list[tuple[Any, Any]]:
    pairs = []
    for one in found:
        chosen = slice(None) if wanted is None else one["labels"] == wanted
        pairs.append((one["boxes"][chosen], one["scores"][chosen]))
    return pairs
