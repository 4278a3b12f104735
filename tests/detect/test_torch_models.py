"""Detectors on torch, as tiny networks of the real classes with random weights.

What they find is nonsense, but it must be the same nonsense as that of the reference: the model
and its processor called by hand, frame by frame.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from objectstates.base.errors import DetectorError, MissingExtraError, SettingError
from objectstates.detect import torch_models
from objectstates.detect.detections import Detections, DetectorOptions
from objectstates.detect.nms import best_detections
from objectstates.detect.torch_models import TorchDetector, hub_detector, torchvision_detector
from objectstates.video.reader import Frame
from tests.detect import tiny_models

THRESHOLD = 0.3


def hub(model: str, object_name: str | None = None, **options: Any) -> TorchDetector:
    return hub_detector(model, DetectorOptions(object_name, **options))


def frames(count: int = 2, height: int = 48, width: int = 90) -> list[Frame]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    return [Frame(i / 25, image) for i, image in enumerate(images)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    transformers = pytest.importorskip("transformers", reason="not installed (extra: hf)")
    transformers.utils.logging.disable_progress_bar()
    folder = tmp_path_factory.mktemp("models")

    def saved(name: str) -> Path:
        if not (folder / name).is_dir():
            (folder / name).mkdir()
            getattr(tiny_models, f"save_{name}")(folder / name)
        return folder / name

    return saved


def by_hand(folder: Path, frame: Frame, text: str | None) -> list[dict[str, Any]]:
    """What the model and its processor say of one frame, as their documentation has it."""
    import torch
    import transformers

    size = [frame.image.shape[:2]]
    with torch.inference_mode():
        if text is None:
            network = transformers.AutoModelForObjectDetection.from_pretrained(folder)
            processor = transformers.AutoImageProcessor.from_pretrained(folder)
            output = network(**processor(images=frame.image, return_tensors="pt"))
            found = processor.post_process_object_detection(
                output, threshold=THRESHOLD, target_sizes=size
            )
        else:
            kind = transformers.AutoModelForZeroShotObjectDetection
            network, processor = (
                c.from_pretrained(folder) for c in (kind, transformers.AutoProcessor)
            )
            inputs = processor(images=frame.image, text=text, return_tensors="pt", truncation=True)
            found = processor.post_process_grounded_object_detection(
                network(**inputs), threshold=THRESHOLD, target_sizes=size
            )
    return [
        {name: one[name].numpy() for name in ("boxes", "scores")} | {"all": one} for one in found
    ]


def assert_same(ours: Detections, boxes: Any, scores: Any, frame: Frame) -> None:
    expected = best_detections(boxes, scores, frame.image.shape[:2], threshold=THRESHOLD)
    np.testing.assert_allclose(ours.boxes, expected.boxes, atol=0.02)  # pixels
    np.testing.assert_allclose(ours.scores, expected.scores, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "text"), [("owl", "a photo of a drawer"), ("grounding_dino", "drawer.")]
)
def test_models_that_go_by_text_are_told_the_object(
    models: Callable[[str], Path], name: str, text: str
) -> None:
    detector = hub(str(models(name)), "drawer", threshold=THRESHOLD)
    seen = frames()
    found = detector.detect(seen)
    for frame, ours in zip(seen, found, strict=True):
        (expected,) = by_hand(models(name), frame, text)
        assert len(ours) > 2
        assert_same(ours, expected["boxes"], expected["scores"], frame)
    other = hub(str(models(name)), "bicycle", threshold=THRESHOLD)
    assert other.fingerprint != detector.fingerprint
    assert other.detect(seen[:1])[0].scores.tolist() != found[0].scores.tolist()


@pytest.mark.parametrize("name", ["owl", "grounding_dino"])
def test_long_names_are_no_error(models: Callable[[str], Path], name: str) -> None:
    detector = hub(str(models(name)), "the left one of the two drawers. " * 9)
    assert len(detector.detect(frames(1))) == 1


def test_models_of_fixed_classes_are_filtered_by_label(models: Callable[[str], Path]) -> None:
    folder = models("yolos")
    found = {
        name: hub(str(folder), name, threshold=THRESHOLD).detect(frames())
        for name in (None, "Drawer", "door", "hand")
    }
    for i, frame in enumerate(frames()):
        (expected,) = by_hand(folder, frame, None)
        boxes, scores = expected["boxes"], expected["scores"]
        labels = expected["all"]["labels"].numpy()
        assert_same(found[None][i], boxes, scores, frame)
        for label, name in enumerate(("hand", "Drawer", "door")):
            assert_same(found[name][i], boxes[labels == label], scores[labels == label], frame)
    assert all(len(one) for one in found["Drawer"])
    assert not any(len(one) for one in found["hand"])
    with pytest.raises(
        SettingError, match=r"has no class 'lid'; `object` may be door, drawer, hand"
    ):
        hub(str(folder), "lid")


@pytest.mark.parametrize("name", ["owl", "grounding_dino", "yolos"])
def test_batches_change_nothing(
    models: Callable[[str], Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = hub(str(models(name)), "drawer", threshold=THRESHOLD)
    single = detector.detect(frames(5))
    monkeypatch.setitem(torch_models.BATCH, "cpu", 2)
    for one, other in zip(detector.detect(frames(5)), single, strict=True):
        np.testing.assert_allclose(one.boxes, other.boxes, atol=1e-2)
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-4)
    assert detector.detect([]) == []


def test_threads_are_given_back(models: Callable[[str], Path]) -> None:
    import torch

    before = torch.get_num_threads()
    hub(str(models("owl")), "drawer").detect(frames(1))
    assert torch.get_num_threads() == before


def test_the_fingerprint_follows_weights_and_threshold(
    models: Callable[[str], Path], tmp_path: Path
) -> None:
    import transformers

    folder = models("yolos")
    first = hub(str(folder), "drawer")
    assert hub(str(folder), "drawer").fingerprint == first.fingerprint
    assert hub(str(folder), "door").fingerprint != first.fingerprint
    assert hub(str(folder), "drawer", threshold=0.3).fingerprint != first.fingerprint
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    changed = transformers.AutoModelForObjectDetection.from_pretrained(folder)
    next(changed.parameters()).data[0] += 1
    changed.save_pretrained(tmp_path)
    assert hub(str(tmp_path), "drawer").fingerprint != first.fingerprint


def test_what_cannot_be_used_is_said(models: Callable[[str], Path], tmp_path: Path) -> None:
    import transformers

    with pytest.raises(SettingError, match="give `object`"):
        hub(str(models("owl")))
    with pytest.raises(DetectorError, match=f"hf:{tmp_path}/none cannot be loaded"):
        hub(f"{tmp_path}/none", "drawer")
    transformers.ViTConfig().save_pretrained(tmp_path)
    with pytest.raises(SettingError, match="is no detector but a ViT"):
        hub(str(tmp_path), "drawer")


def test_weights_that_would_run_code_are_refused(
    models: Callable[[str], Path], tmp_path: Path
) -> None:
    """A pickle that would create a file when loaded."""
    import os

    import torch

    class Harm:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "harm"),)

    folder = tmp_path / "model"
    shutil.copytree(models("yolos"), folder)
    (folder / "model.safetensors").unlink()
    torch.save({"weights": Harm()}, folder / "pytorch_model.bin")
    with pytest.raises(DetectorError, match="cannot be loaded"):
        hub(str(folder), "drawer")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("build", [hub_detector, torchvision_detector])
def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, build: Callable[..., TorchDetector]
) -> None:
    extra = "hf" if build is hub_detector else "torch"
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'objectstates\[{extra}\]'"):
        build("fasterrcnn_resnet50_fpn", DetectorOptions("cup"))


def test_a_missing_gpu_is_reported(models: Callable[[str], Path]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(SettingError, match="'cuda' is not available"):
        hub(str(models("owl")), "drawer", device="cuda")


@pytest.mark.parametrize("name", ["owl", "grounding_dino", "yolos"])
def test_half_precision_on_a_gpu_agrees_with_the_cpu(
    models: Callable[[str], Path], name: str
) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("this machine has no GPU")
    cpu, gpu = (
        hub(str(models(name)), "drawer", threshold=THRESHOLD, device=device)
        for device in ("cpu", "cuda")
    )
    for one, other in zip(cpu.detect(frames(20)), gpu.detect(frames(20)), strict=True):
        assert abs(len(one) - len(other)) <= 2
        assert abs(one.scores.max() - other.scores.max()) < 0.05


# Torchvision


@pytest.fixture
def ssdlite(monkeypatch: pytest.MonkeyPatch) -> Callable[..., TorchDetector]:
    """The smallest of its detectors, without trained weights."""
    try:
        torchvision_detector("ssdlite320_mobilenet_v3_large", DetectorOptions(), pretrained=False)
    except MissingExtraError as error:
        pytest.skip(str(error))

    def load(object_name: str | None, **more: Any) -> TorchDetector:
        import torch

        torch.manual_seed(0)
        return torchvision_detector(
            "ssdlite320_mobilenet_v3_large", DetectorOptions(object_name, **more), pretrained=False
        )

    return load


def test_torchvision_finds_by_the_names_of_coco(ssdlite: Callable[..., TorchDetector]) -> None:
    anything = ssdlite(None, threshold=0.001).detect(frames(2, 240, 320))
    for found, frame in zip(anything, frames(2, 240, 320), strict=True):
        assert len(found)
        height, width = frame.image.shape[:2]
        assert (found.boxes >= 0).all()
        assert (found.boxes <= [width, height, width, height]).all()
    assert ssdlite("Cup").fingerprint != ssdlite("bowl").fingerprint
    with pytest.raises(
        SettingError, match="has no class 'drawer'; `object` may be airplane, apple"
    ):
        ssdlite("drawer")


@pytest.mark.usefixtures("ssdlite")
def test_torchvision_lists_its_detectors() -> None:
    with pytest.raises(SettingError, match="no detector 'resnet50'; choose fasterrcnn"):
        torchvision_detector("resnet50", DetectorOptions())


def test_labels_of_torchvision_are_told_apart() -> None:
    """With a network in its manner, as torchvision is not everywhere."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    boxes = torch.tensor([[0.0, 0, 9, 9], [20, 0, 29, 9], [0, 20, 9, 29]])
    one = {
        "boxes": boxes,
        "scores": torch.tensor([0.5, 0.9, 0.7]),
        "labels": torch.tensor([1, 2, 1]),
    }

    def detector(wanted: int | None) -> TorchDetector:
        def find(images: Any) -> list[tuple[Any, Any]]:
            return torch_models._of_label([one] * len(images), wanted)

        return TorchDetector(torch.nn.Linear(1, 1), find, "", DetectorOptions())

    assert [d.scores.round(1).tolist() for d in detector(1).detect(frames(2))] == [
        pytest.approx([0.7, 0.5])
    ] * 2
    assert len(detector(None).detect(frames(1))[0]) == 3
