"""Faster R-CNN of one kind of object, trained by the user: the detector ``fasterrcnn:MODEL``.

The network is torchvision's (Ren et al., NeurIPS 2015, with a feature pyramid): ResNet-50, or
MobileNet v3, which a CPU can run. ``rcnn_training.py`` trains it. The paper used Fast R-CNN
(Girshick, ICCV 2015) on geodesic object proposals; here a network proposes the regions, and the
head that scores and refines them is the same.

A model is one file: a header, and the weights as torch saves them. Nothing in it is executed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from objectstates.base.errors import DetectorError, SettingError
from objectstates.base.storage import write_atomically
from objectstates.base.torch_utils import needs_extra
from objectstates.detect.detections import DetectorOptions
from objectstates.detect.torch_models import TorchDetector
from objectstates.video.reader import Image

RcnnBackbone = Literal["resnet50", "mobilenet"]

FORMAT, FORMAT_VERSION = "objectstates-fasterrcnn", 1


class Names(NamedTuple):
    """torchvision's names of a detector, and of the classifier that its backbone is of."""

    detector: str
    classifier: str


BUILDERS: Mapping[str, Names] = {
    "resnet50": Names("fasterrcnn_resnet50_fpn", "resnet50"),
    "mobilenet": Names("fasterrcnn_mobilenet_v3_large_fpn", "mobilenet_v3_large"),
}

OBJECT = 1  # the class of the object; 0 is background
LEAST_SCORE = 0.01  # of a detection: below, it is not even evaluated


@dataclass(frozen=True)
class RcnnModel:
    """A trained network, and what it was trained for.

    side : longer side in pixels to which frames are scaled.
    trained_on : numbers of boxes, images, videos and image files.
    weights_from : what training began with: "random", "coco", "imagenet", or the name of a file.
    """

    object: str
    backbone: RcnnBackbone
    side: int
    trained_on: Mapping[str, int]
    weights_from: str
    network: Any

    def save(self, path: str | Path) -> None:
        """Write one file, whole or not at all."""
        import torch

        path = Path(path)
        weights = {name: value.cpu() for name, value in self.network.state_dict().items()}
        out = io.BytesIO()
        torch.save({"header": json.dumps(self._header(), sort_keys=True), "weights": weights}, out)
        try:
            write_atomically(path, out.getvalue())
        except OSError as problem:
            raise DetectorError(f"cannot write {path}: {problem.strerror}") from problem

    def _header(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "object": self.object,
            "backbone": self.backbone,
            "side": self.side,
            "trained_on": dict(self.trained_on),
            "weights_from": self.weights_from,
        }


class RcnnDetector(TorchDetector):
    """A trained network as a `Detector`."""

    def __init__(self, model: RcnnModel, options: DetectorOptions) -> None:
        self.object, self.threshold = model.object, options.threshold
        self._model, self._options = model, options
        settings = f"fasterrcnn {model.backbone} {model.side}"
        super().__init__(model.network, self._boxes, settings, options)

    def with_threshold(self, threshold: float) -> RcnnDetector:
        """The same detector with another least score."""
        return RcnnDetector(self._model, replace(self._options, threshold=threshold))

    def _boxes(self, images: Sequence[Image]) -> list[tuple[Any, Any]]:
        import torch

        pixels = [
            torch.from_numpy(image).to(self._device).permute(2, 0, 1) / 255 for image in images
        ]
        return [(one["boxes"], one["scores"]) for one in self._model.network(pixels)]


def load_rcnn(path: str, options: DetectorOptions) -> RcnnDetector:
    """The detector ``fasterrcnn:FILE``."""
    return load(path, options)


def load(path: str | Path, options: DetectorOptions | None = None) -> RcnnDetector:
    """Read a detector that was saved."""
    options = options or DetectorOptions()
    return RcnnDetector(read_model(path), options)


def is_detector(path: Path) -> bool:
    """Whether a file is a trained network, of any version; False if torch is missing."""
    try:
        return bool(json.loads(_content(path)["header"])["format"] == FORMAT)
    except (ImportError, OSError, ValueError, KeyError, TypeError, RuntimeError):
        return False


def read_model(path: str | Path) -> RcnnModel:
    """Read the file of a trained network."""
    path = Path(path)
    with needs_extra("torch", f"detector fasterrcnn:{path}"):
        import torch  # noqa: F401
    try:
        content = _content(path)
        header = json.loads(content["header"])
        if header.get("format") != FORMAT:
            raise ValueError("another kind of file")
        if header.get("format_version") != FORMAT_VERSION:
            raise DetectorError(
                f"{path} has format version {header.get('format_version')!r}, but this version of "
                f"objectstates reads {FORMAT_VERSION}: train it again"
            )
        network = build(header["backbone"], int(header["side"]))
        network.load_state_dict(content["weights"])
        return RcnnModel(
            object=str(header["object"]),
            backbone=header["backbone"],
            side=int(header["side"]),
            trained_on={str(k): int(v) for k, v in header["trained_on"].items()},
            weights_from=str(header["weights_from"]),
            network=network,
        )
    except FileNotFoundError:
        raise DetectorError(f"{path} does not exist: train a detector, or check the path") from None
    except OSError as problem:
        raise DetectorError(f"{path} cannot be read: {problem.strerror or problem}") from problem
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise DetectorError(
            f"{path} is not a detector of `fasterrcnn`, or is damaged ({error}): train it again"
        ) from error


def _content(path: Path) -> dict[str, Any]:
    """What torch saved as a dict of tensors and text; nothing in it is executed."""
    import torch

    data = io.BytesIO(path.read_bytes())
    try:
        content = torch.load(data, map_location="cpu", weights_only=True)
    except Exception as error:  # of a foreign file, errors of any type
        raise ValueError(str(error).splitlines()[0] if str(error) else type(error)) from error
    if not isinstance(content, dict):
        raise ValueError("there are no names in it")
    return content


def build(backbone: str, side: int) -> Any:
    """A network of two classes, background and the object, with random weights."""
    if backbone not in BUILDERS:
        raise SettingError(f"`backbone` must be {' or '.join(BUILDERS)}, not {backbone!r}")
    with needs_extra("torch", "a Faster R-CNN"):
        from torchvision.models import detection
    make = getattr(detection, BUILDERS[backbone].detector)
    return make(
        weights=None,
        weights_backbone=None,
        num_classes=2,
        min_size=side,
        max_size=side,
        box_score_thresh=LEAST_SCORE,
    )


def load_weights(network: Any, backbone: str, weights: str) -> None:
    """Begin with given weights: all those that fit, by name and shape.

    weights : "coco", torchvision's of the same network; "imagenet", of the backbone alone; or a
        file: of such a network, of its backbone, or one that `RcnnModel.save` wrote. "coco" and
        "imagenet" are downloaded once.
    """
    if weights in ("coco", "imagenet"):
        given = _downloaded(backbone, weights)
    else:
        given = _read_weights(Path(weights))
    wanted = network.state_dict()
    # A file of the backbone alone has its names without the prefix.
    named = {f"backbone.body.{name}": value for name, value in given.items()} | dict(given)
    fits = {
        name: value
        for name, value in named.items()
        if name in wanted and getattr(value, "shape", None) == wanted[name].shape
    }
    body = {
        name
        for name in wanted
        if name.startswith("backbone.body.") and not name.endswith("num_batches_tracked")
    }
    if len(body & set(fits)) < 0.9 * len(body):
        raise DetectorError(
            f"`weights`: {weights} has {len(body & set(fits))} of the {len(body)} weights of the "
            f"backbone {backbone}: is it of another one?"
        )
    network.load_state_dict(fits, strict=False)


def _downloaded(backbone: str, weights: str) -> Mapping[str, Any]:
    from torchvision import models

    names = BUILDERS[backbone]
    name = names.detector if weights == "coco" else names.classifier
    try:
        found = models.get_model_weights(name).DEFAULT.get_state_dict(progress=False)
    except OSError as problem:
        raise DetectorError(
            f"`weights` {weights} cannot be downloaded ({problem}): give a file, or random"
        ) from problem
    if weights == "imagenet":  # a detector's backbone lacks the part that names the classifier's
        found = {name.removeprefix("features."): value for name, value in found.items()}
    return dict(found)


def _read_weights(path: Path) -> Mapping[str, Any]:
    try:
        content = _content(path)
    except OSError as problem:
        raise DetectorError(f"`weights`: {path} cannot be read: {problem.strerror}") from problem
    except ValueError as problem:
        raise DetectorError(f"`weights`: {path} is no file of weights ({problem})") from problem
    return dict(content.get("weights", content))
