"""Detectors by name: what ``--detector SPEC`` may be."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from objectstates.base.errors import SettingError
from objectstates.detect.detections import Detector
from objectstates.video.clip_list import ClipSpan

SPECS = {
    "boxes:FILE": "boxes that you have: COCO JSON, MOT CSV, CVAT video XML, or a folder of them",
    "fewshot:MODEL": "trained by `objectstates detector train`",
    "onnx:FILE": "an ONNX model; onnx:FILE#3 for its class 3",
    "torchvision:NAME": "a model of torchvision, such as fasterrcnn_resnet50_fpn_v2",
    "hf:MODEL": "a model of the Hugging Face hub, such as google/owlv2-base-patch16-ensemble",
    "motion": "what is moved, of whatever kind; needs nothing, and finds less",
}


def load_detector(
    spec: str,
    *,
    object_name: str | None = None,
    device: str = "cpu",
    threshold: float = 0.4,
    threads: int = 1,
    clips: Iterable[ClipSpan] = (),
) -> Detector:
    """Load the detector that ``spec`` names, one of `SPECS`.

    object_name : what to look for, for detectors that know more than one kind of thing.
    device : where networks run: ``cpu`` or ``cuda``.
    threshold : the least score of a detection. Low, as in the paper: later stages choose.
    threads : on the CPU; one, because videos are processed one per core.
    clips : what is going to be looked at; boxes that are of none of it are refused at once.
    """
    if not 0 <= threshold <= 1:
        raise SettingError(f"threshold={threshold} must be from 0 to 1")
    kind, _, name = spec.partition(":")
    match kind, bool(name):
        case "boxes", True:
            from objectstates.detect.file_boxes import BoxesDetector

            boxes = BoxesDetector(name, object_name, threshold=threshold)
            boxes.check(clips)
            return boxes
        case "fewshot", True:
            from objectstates.detect import fewshot

            return fewshot.load(name, threshold)
        case "onnx", True:
            from objectstates.detect.onnx_models import OnnxDetector

            path, index = _model_and_class(name)
            return OnnxDetector(
                path,
                object_name,
                class_index=index,
                threshold=threshold,
                device=device,
                threads=threads,
            )
        case "torchvision", True:
            from objectstates.detect.torch_models import torchvision_detector

            return torchvision_detector(
                name, object_name, threshold=threshold, device=device, threads=threads
            )
        case "hf", True:
            from objectstates.detect.torch_models import hub_detector

            return hub_detector(
                name, object_name, threshold=threshold, device=device, threads=threads
            )
        case "motion", False:
            from objectstates.detect.change_detector import MotionDetector

            return MotionDetector()
    listed = "\n".join(f"  {known}: {what}" for known, what in SPECS.items())
    raise SettingError(f"no detector {spec!r}; choose\n{listed}")


def _model_and_class(name: str) -> tuple[Path, int | None]:
    """Split ``FILE#3``; a file that is so called goes first."""
    path, mark, index = name.rpartition("#")
    if mark and index.isascii() and index.isdigit() and not Path(name).exists():
        return Path(path), int(index)
    return Path(name), None
