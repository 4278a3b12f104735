from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

from objectstates.base.errors import DetectorError, MissingExtraError, SettingError
from objectstates.detect.detections import DetectorOptions
from objectstates.detect.registry import DETECTORS, load_detector
from objectstates.video.clip_list import ClipSpan


@pytest.mark.parametrize(
    "spec", ["", "yolo", "boxes", "boxes:", "onnx:", "hf:", "motion:3", "Motion", "torchvision"]
)
def test_an_unknown_spec_lists_the_specs(spec: str) -> None:
    with pytest.raises(SettingError) as caught:
        load_detector(spec)
    assert all(known in str(caught.value) for known in DETECTORS)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_thresholds_are_checked(threshold: float) -> None:
    with pytest.raises(SettingError, match="from 0 to 1"):
        load_detector("motion", DetectorOptions(threshold=threshold))


def test_boxes_of_other_videos_are_refused_before_any_is_read(tmp_path: Path) -> None:
    data = {
        "images": [{"id": 1, "file_name": "lid_01.jpg"}],
        "annotations": [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9]}],
        "categories": [{"id": 1, "name": "lid"}],
    }
    file = tmp_path / "a.json"
    file.write_text(json.dumps(data))
    assert load_detector(f"boxes:{file}").fingerprint.startswith("boxes-")
    load_detector(f"boxes:{file}", DetectorOptions("lid", clips=[ClipSpan("1", Path("lid.mp4"))]))
    with pytest.raises(DetectorError, match="of no video given"):
        load_detector(f"boxes:{file}", DetectorOptions(clips=[ClipSpan("1", Path("drawer.mp4"))]))
    with pytest.raises(SettingError, match="`object` may be lid"):
        load_detector(f"boxes:{file}", DetectorOptions("drawer"))


def test_an_onnx_class_is_chosen_by_its_index(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        two (float[1,3,32,32] images) => (float[n,4] boxes, float[n] scores, int64[n] labels) {
            boxes = Constant <value = float[1,4] {0, 0, 9, 9}> ()
            scores = Constant <value = float[1] {0.9}> ()
            labels = Constant <value = int64[1] {3}> ()
        }"""
    )
    for name in ("model.onnx", "model#3"):
        onnx.save(model, tmp_path / name)
    prints = [
        load_detector(f"onnx:{tmp_path}/{name}").fingerprint
        for name in ("model.onnx", "model.onnx#3", "model.onnx#4", "model#3")
    ]
    assert len(set(prints)) == 3
    assert prints[0] == prints[3]  # the same graph, all classes: here # is part of the name


@pytest.mark.parametrize(
    ("spec", "module", "extra"),
    [("torchvision:ssd300_vgg16", "torchvision", "torch"), ("hf:a/b", "transformers", "hf")],
)
def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, spec: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'objectstates\[{extra}\]'"):
        load_detector(spec, DetectorOptions("cup"))


def test_our_own_detectors_are_found(tmp_path):
    assert load_detector("motion").fingerprint.startswith("motion")
    with pytest.raises(DetectorError, match=r"my model\.npz does not exist"):
        load_detector(f"fewshot:{tmp_path / 'my model.npz'}")


def test_the_light_detectors_never_import_torch(tmp_path: Path) -> None:
    (tmp_path / "clip.txt").write_text("1,1,0,0,9,9\n")
    code = (
        "import sys; from objectstates.detect import registry, torch_models;"
        f"registry.load_detector('boxes:{tmp_path}/clip.txt'); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
