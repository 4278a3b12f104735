"""Detectors by name: the values of ``detector``.

To add one, write ``detect/<name>.py`` with a function ``(name, options) -> Detector``, and add a
line to `DETECTORS`.
"""

from __future__ import annotations

from importlib import import_module

from objectstates.base.errors import SettingError
from objectstates.detect.detections import Detector, DetectorOptions

DETECTORS = {  # KIND or KIND:NAME: module of this folder and function, imported when used; help
    "boxes:FILE": (
        "precomputed_boxes:load_boxes",
        "existing boxes: COCO JSON, MOT CSV, CVAT video XML, or a folder of them",
    ),
    "fewshot:MODEL": ("fewshot:load_fewshot", "trained by `objectstates detector train`"),
    "fasterrcnn:MODEL": (
        "rcnn:load_rcnn",
        "an R-CNN, trained by `objectstates detector train` with that model",
    ),
    "onnx:FILE": ("onnx_models:load_onnx", "an ONNX model; onnx:FILE#3 for its class 3"),
    "torchvision:NAME": (
        "torch_models:torchvision_detector",
        "a model of torchvision, such as fasterrcnn_resnet50_fpn_v2",
    ),
    "hf:MODEL": (
        "torch_models:hub_detector",
        "a model of the Hugging Face hub, such as google/owlv2-base-patch16-ensemble",
    ),
    "motion": (
        "change_detector:load_motion",
        "boxes around what the manipulation moves; needs only the videos, weaker than all others",
    ),
}


def load_detector(spec: str, options: DetectorOptions | None = None) -> Detector:
    """Load the detector that ``spec``, KIND or KIND:NAME, names."""
    options = options or DetectorOptions()
    if not 0 <= options.threshold <= 1:
        raise SettingError(f"`threshold` must be from 0 to 1, not {options.threshold}")
    kind, _, name = spec.partition(":")
    for known, (loader, _) in DETECTORS.items():
        known_kind, _, known_name = known.partition(":")
        if (kind, bool(name)) == (known_kind, bool(known_name)):
            module, function = loader.split(":")
            load = getattr(import_module(f"objectstates.detect.{module}"), function)
            detector: Detector = load(name, options)
            return detector
    listed = "\n".join(f"  {known}: {text}" for known, (_, text) in DETECTORS.items())
    raise SettingError(f"no detector {spec!r}; choose\n{listed}")
