"""Detectors by name: the values of ``detector``.

To add one, write ``detect/<name>.py`` with a function ``(name, options) -> Detector`` and add a
line to `DETECTORS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from objectstates.base.errors import SettingError
from objectstates.detect.detections import Detector, DetectorOptions


class _Entry(NamedTuple):
    """loader : module of this folder, and function, imported when needed.

    name : what follows the colon; empty where there is none.
    """

    loader: str
    name: str
    help: str


DETECTORS = {
    "boxes": _Entry(
        "file_boxes:load_boxes",
        "FILE",
        "boxes that you have: COCO JSON, MOT CSV, CVAT video XML, or a folder of them",
    ),
    "fewshot": _Entry("fewshot:load_fewshot", "MODEL", "trained by `objectstates detector train`"),
    "onnx": _Entry("onnx_models:load_onnx", "FILE", "an ONNX model; onnx:FILE#3 for its class 3"),
    "torchvision": _Entry(
        "torch_models:torchvision_detector",
        "NAME",
        "a model of torchvision, such as fasterrcnn_resnet50_fpn_v2",
    ),
    "hf": _Entry(
        "torch_models:hub_detector",
        "MODEL",
        "a model of the Hugging Face hub, such as google/owlv2-base-patch16-ensemble",
    ),
    "motion": _Entry(
        "change_detector:load_motion",
        "",
        "what is moved, of whatever kind; needs nothing, and finds less",
    ),
}


def load_detector(spec: str, options: DetectorOptions | None = None) -> Detector:
    """Load the detector that ``spec``, KIND or KIND:NAME, names."""
    options = options or DetectorOptions()
    if not 0 <= options.threshold <= 1:
        raise SettingError(f"`threshold` must be from 0 to 1, not {options.threshold}")
    kind, _, name = spec.partition(":")
    entry = DETECTORS.get(kind)
    if entry is None or bool(name) != bool(entry.name):
        listed = "\n".join(
            f"  {known}{':' if e.name else ''}{e.name}: {e.help}" for known, e in DETECTORS.items()
        )
        raise SettingError(f"no detector {spec!r}; choose\n{listed}")
    module, function = entry.loader.split(":")
    detector: Detector = getattr(import_module(f"objectstates.detect.{module}"), function)(
        name, options
    )
    return detector
