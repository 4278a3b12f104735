"""Graphs that find a bright rectangle, and say so in each of the layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectstates.base.errors import DetectorError, SettingError
from objectstates.detect import onnx_models
from objectstates.detect.detections import DetectorOptions
from objectstates.detect.onnx_layouts import recognise
from objectstates.detect.onnx_models import Letterbox, OnnxDetector
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, VideoInfo


def onnx_detector(
    path: Path, object_name: str | None = None, class_index: int | None = None, **options: Any
) -> OnnxDetector:
    return OnnxDetector(path, DetectorOptions(object_name, **options), class_index)


RECTANGLE = (24, 10, 80, 50)
NAMES = "{0: 'hand', 1: 'Drawer', 2: 'door'}"

# x1, y1, x2, y2 of what is brighter than the grey of borders, in pixels of the input; (B, 1) each.
FIND = """
    grey = ReduceMean <axes=[1], keepdims=0> (images)
    limit = Constant <value = float {0.7}> ()
    bright = Greater (grey, limit)
    mask = Cast <to=1> (bright)
    columns = ReduceMax <axes=[1], keepdims=0> (mask)
    rows = ReduceMax <axes=[2], keepdims=0> (mask)
    left = ArgMax <axis=1> (columns)
    right = ArgMax <axis=1, select_last_index=1> (columns)
    top = ArgMax <axis=1> (rows)
    bottom = ArgMax <axis=1, select_last_index=1> (rows)
    x1 = Cast <to=1> (left)
    y1 = Cast <to=1> (top)
    x2inner = Cast <to=1> (right)
    y2inner = Cast <to=1> (bottom)
    one = Constant <value = float {1}> ()
    x2 = Add (x2inner, one)
    y2 = Add (y2inner, one)
    corners = Concat <axis=1> (x1, y1, x2, y2)
    zero = Sub (x1, x1)
    axis1 = Constant <value = int64[1] {1}> ()
    axis2 = Constant <value = int64[1] {2}> ()
"""
CENTRES = """
    two = Constant <value = float {2}> ()
    sx = Add (x1, x2)
    sy = Add (y1, y2)
    cx = Div (sx, two)
    cy = Div (sy, two)
    w = Sub (x2, x1)
    h = Sub (y2, y1)
    centres = Concat <axis=1> (cx, cy, w, h)
"""


def graph(
    path: Path,
    body: str,
    outputs: str,
    size: str = "1,3,96,96",
    metadata: dict[str, str] | None = None,
) -> Path:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    finder (float[{size}] images) => ({outputs}) {{ {FIND} {body} }}"""
    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model)
    onnx.helper.set_model_props(model, metadata or {})
    onnx.save(model, path)
    return path


def values(*rows: tuple[float, ...]) -> str:
    """A constant of shape (1, number of rows, their length)."""
    flat = ", ".join(str(x) for row in rows for x in row)
    return f"Constant <value = float[1,{len(rows)},{len(rows[0])}] {{{flat}}}> ()"


def contract(path: Path, *, labels: str | None = "{0, 1}") -> Path:
    """Two answers: the rectangle, and one far away that is not sure enough."""
    far = "Constant <value = float[1,4] {60, 60, 70, 70}> ()"
    body = f"far = {far} \n boxes = Concat <axis=0> (corners, far)"
    body += "\n scores = Constant <value = float[2] {0.75, 0.3}> ()"
    outputs = "float[n,4] boxes, float[n] scores"
    if labels:
        body += f"\n labels = Constant <value = int64[2] {labels}> ()"
        outputs += ", int64[n] labels"
    return graph(path, body, outputs)


def yolo8(path: Path, size: str = "1,3,96,96", *, masks: bool = False, names: str = "") -> Path:
    """Three anchors on the rectangle, one beside it, and idle ones; three classes."""
    idle = (0,) * 8
    shift = values((0, 0.5, 0, 30, *idle), (0, 0.5, 0, 0, *idle), (0,) * 12, (0,) * 12)
    constant = values(
        (0.1, 0.2, 0.1, 0.1, *idle), (0.6, 0.5, 0.8, 0.45, *idle), (0.5, 0.1, 0.1, 0.9, *idle)
    )
    body = f"""{CENTRES}
    column = Unsqueeze (centres, axis2)
    shift = {shift}
    boxes = Add (column, shift)
    zeros = Unsqueeze (zero, axis2)
    constant = {constant}
    scores = Add (constant, zeros)
    more = {values((9,) * 12, (9,) * 12)}
    masks = Add (more, zeros)
    output0 = Concat <axis=1> ({"boxes, scores, masks" if masks else "boxes, scores"})"""
    outputs = "float[b,c,n] output0"
    if masks:
        body += "\n protos = Constant <value = float[1,1,2,2] {0,0,0,0}> ()"
        outputs += ", float[1,1,2,2] protos"
    return graph(path, body, outputs, size, {"names": names} if names else None)


def yolo5(path: Path, names: str = "", anchors: int = 12) -> Path:
    """Channels last, with objectness; the last anchor is sure of a class and not of an object."""
    scores = [(0.5, 0.1, 0.9, 0.2), *[(0.0, 0.0, 0.0, 0.0)] * (anchors - 2), (0.1, 1.0, 1.0, 1.0)]
    body = f"""{CENTRES}
    row = Unsqueeze (centres, axis1)
    shift = {values(*[(0.0, 0.0, 0.0, 0.0)] * anchors)}
    boxes = Add (row, shift)
    scores = {values(*scores)}
    output = Concat <axis=2> (boxes, scores)"""
    return graph(path, body, "float[1,n,8] output", metadata={"names": names} if names else None)


def end_to_end(path: Path) -> Path:
    rest = [(0.8, 1.0), *[(0.0, 0.0)] * 8, (0.7, 0.0)]
    body = f"""
    row = Unsqueeze (corners, axis1)
    shift = {values(*[(0, 0, 0, 0)] * 10)}
    boxes = Add (row, shift)
    rest = {values(*rest)}
    output0 = Concat <axis=2> (boxes, rest)"""
    return graph(path, body, "float[1,n,6] output0")


def ssd(path: Path) -> Path:
    """As TensorFlow has it: y before x, parts of the size; what follows the number is rubbish."""
    body = f"""
    side = Constant <value = float {{96}}> ()
    turned = Concat <axis=1> (y1, x1, y2, x2)
    parts = Div (turned, side)
    row = Unsqueeze (parts, axis1)
    shift = {values((0, 0, 0, 0), (0.1, 0.1, 0.1, 0.1), (0.2, 0.2, 0.2, 0.2))}
    detection_boxes = Add (row, shift)
    detection_scores = Constant <value = float[1,3] {{0.8, 0.6, 0.99}}> ()
    detection_classes = Constant <value = float[1,3] {{1, 2, 1}}> ()
    num_detections = Constant <value = float[1] {{2}}> ()"""
    outputs = "float[1,n,4] detection_boxes, float[1,n] detection_classes, "
    return graph(path, body, outputs + "float[1,n] detection_scores, float[1] num_detections")


def detr(path: Path, names: str = "") -> Path:
    """Odds of hand, drawer, door and (if there are three names) nothing: 1 to 9 to 1 to 1."""
    nine, one = np.log(9.0), 0.0
    body = f"""{CENTRES}
    side = Constant <value = float {{96}}> ()
    parts = Div (centres, side)
    row = Unsqueeze (parts, axis1)
    shift = {values((0, 0, 0, 0), (0, 0, 0, 0))}
    pred_boxes = Add (row, shift)
    logits = {values((one, nine, one, one), (one, one, one, nine))}"""
    outputs = "float[1,n,4] logits, float[1,n,4] pred_boxes"
    return graph(path, body, outputs, metadata={"names": names} if names else None)


def frame(height: int = 90, width: int = 160, rectangle: tuple[int, ...] = RECTANGLE) -> Frame:
    image = np.zeros((height, width, 3), np.uint8)
    x1, y1, x2, y2 = rectangle
    image[y1:y2, x1:x2] = 255
    return Frame(0.0, image)


def scores(detector: OnnxDetector, within: float = 1.7) -> list[float]:
    """Scores of what is found; the best must be where the rectangle is, to a pixel of the input."""
    (found,) = detector.detect([frame()])
    if len(found):
        np.testing.assert_allclose(found.boxes[0], RECTANGLE, atol=within)
    return [round(float(s), 3) for s in found.scores]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


# Layouts


def test_the_contract(path: Path) -> None:
    assert scores(onnx_detector(contract(path), threshold=0.2)) == [0.75, 0.3]
    assert scores(onnx_detector(path)) == [0.75]
    assert scores(onnx_detector(path, class_index=0)) == [0.75]
    assert scores(onnx_detector(path, class_index=1)) == []
    assert scores(onnx_detector(contract(path, labels=None), "drawer")) == [0.75]


def test_yolo_with_channels_first(path: Path) -> None:
    # Classes apart: of drawer the rectangle is found once; any class finds the box beside it too.
    named = onnx_detector(yolo8(path, names=NAMES), "drawer")
    assert scores(named) == [0.8, 0.45]
    assert scores(onnx_detector(yolo8(path), class_index=1)) == [0.8, 0.45]
    assert scores(onnx_detector(path, class_index=0)) == []
    (found,) = onnx_detector(path).detect([frame()])
    np.testing.assert_allclose(found.scores, [0.9, 0.8])
    np.testing.assert_allclose(found.boxes[0] - found.boxes[1], [50, 0, 50, 0], atol=1e-3)


def test_masks_of_yolo_are_passed_over(path: Path) -> None:
    assert scores(onnx_detector(yolo8(path, masks=True, names=NAMES), "drawer")) == [0.8, 0.45]


def test_yolo_with_objectness(path: Path) -> None:
    assert scores(onnx_detector(yolo5(path, NAMES), "drawer")) == [0.45]
    assert scores(onnx_detector(yolo5(path), class_index=1)) == [0.45]
    assert scores(onnx_detector(path, class_index=2)) == []


def test_yolo_that_suppresses_by_itself(path: Path) -> None:
    assert scores(onnx_detector(end_to_end(path), class_index=1)) == [0.8]
    assert scores(onnx_detector(path, class_index=0)) == [0.7]


def test_ssd(path: Path) -> None:
    assert scores(onnx_detector(ssd(path), class_index=1)) == [0.8]
    (found,) = onnx_detector(path, class_index=2).detect([frame()])
    expected = np.array(RECTANGLE) + 0.1 * 160
    np.testing.assert_allclose(found.boxes, [[*expected[:3], expected[3]]], atol=1.7)


def test_detr_with_and_without_a_class_for_nothing(path: Path) -> None:
    assert scores(onnx_detector(detr(path, NAMES), "drawer")) == [0.75]  # 9 / (9 + 1 + 1 + 1)
    four = "['hand', 'drawer', 'door', 'lid']"
    assert scores(onnx_detector(detr(path, four), "drawer")) == [0.9]  # 9 / (9 + 1)
    assert scores(onnx_detector(path, "lid")) == [0.9]


@pytest.mark.parametrize(
    ("shape", "classes", "expected"),
    [
        ((1, 84, 8400), None, 80),
        ((1, 84, 8400), 80, 80),
        ((1, 116, 8400), 80, 80),
        ((1, 25200, 85), None, 80),
        ((1, 25200, 85), 80, 80),
        ((1, 8400, 84), 80, 80),
        ((1, 25200, 6), 1, 1),
        ((1, 300, 6), None, None),
        ((1, 300, 6), 80, None),
        ((1, 5, 8400), None, 1),
    ],
)
def test_shapes_of_known_models(
    shape: tuple[int, ...], classes: int | None, expected: int | None
) -> None:
    assert recognise(["output0"], [np.zeros(shape, np.float32)], classes).classes == expected


# Frames in, boxes out


@given(*[st.integers(1, 2000)] * 2, *[st.integers(32, 700)] * 2)
def test_the_letterbox_is_undone_exactly(height: int, width: int, tall: int, wide: int) -> None:
    box = Letterbox.fit((height, width), (tall, wide))
    assert 0 <= box.top <= box.top + box.inner[0] <= tall
    assert 0 <= box.left <= box.left + box.inner[1] <= wide
    assert box.inner[0] == tall or box.inner[1] == wide
    whole = [box.left, box.top, box.left + box.inner[1], box.top + box.inner[0]]
    back = box.undo(np.array([whole], np.float32))
    np.testing.assert_allclose(back, [[0, 0, width, height]], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("size", "height", "width"),
    [
        ("1,3,96,96", 90, 160),
        ("1,3,96,96", 160, 90),
        ("1,3,320,320", 90, 160),
        ("1,3,64,256", 9, 90),
    ],
)
def test_boxes_are_right_in_frames_of_any_shape(
    path: Path, size: str, height: int, width: int
) -> None:
    detector = onnx_detector(yolo8(path, size, names=NAMES), "drawer")
    truth = (width // 4, height // 3, width // 2, height - 2)
    (found,) = detector.detect([frame(height, width, truth)])
    tall, wide = map(int, size.split(",")[2:])
    pixel = max(1.0, height / tall, width / wide)
    np.testing.assert_allclose(found.boxes[0], truth, atol=pixel)


def test_graphs_of_open_size_get_large_frames(path: Path) -> None:
    """At 640 pixels a frame of 160 is seen four times as large, so to a quarter of a pixel."""
    detector = onnx_detector(yolo8(path, "b,3,h,w", names=NAMES), "drawer")
    assert scores(detector, within=0.26)[0] == 0.8


def test_the_size_in_the_metadata_is_heeded(path: Path) -> None:
    model = onnx.load(yolo8(path, "b,3,h,w"))
    onnx.helper.set_model_props(model, {"names": NAMES, "imgsz": "[32, 32]"})
    onnx.save(model, path)
    (found,) = onnx_detector(path, "drawer").detect([frame()])
    assert np.abs(found.boxes[0] - RECTANGLE).max() < 5.1
    assert np.abs(found.boxes[0] - RECTANGLE).max() > 0.3  # a pixel is now five


def test_normalisation_in_the_metadata_is_heeded(path: Path) -> None:
    model = onnx.load(contract(path, labels=None))
    dark = {"mean": "[0.5, 0.5, 0.5]", "std": "[1, 1, 1]"}  # white is 0.5: too dark to be found
    onnx.helper.set_model_props(model, dark)
    onnx.save(model, path)
    (found,) = onnx_detector(path).detect([frame()])
    assert np.abs(found.boxes[0] - RECTANGLE).max() > 10


@pytest.mark.parametrize("size", ["b,3,96,96", "4,3,96,96", "1,3,96,96"])
def test_batches_change_nothing(path: Path, size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [frame(rectangle=(x, 10, x + 56, 50)) for x in range(0, 100, 10)]
    monkeypatch.setitem(onnx_models.BATCH, "cpu", 3)
    found = onnx_detector(yolo8(path, size, names=NAMES), "drawer").detect(frames)
    lone = onnx_detector(yolo8(path.with_name("one.onnx"), names=NAMES), "drawer")
    assert len(found) == 10
    for batched, image in zip(found, frames, strict=True):
        (single,) = lone.detect([image])
        np.testing.assert_array_equal(batched.boxes, single.boxes)
        np.testing.assert_array_equal(batched.scores, single.scores)
    assert lone.detect([]) == []


def test_one_detector_serves_all_clips(path: Path) -> None:
    detector = onnx_detector(contract(path))
    video = VideoInfo(Path("a.mp4"), 160, 90, 1.0, 25.0)
    assert detector.for_clip(ClipSpan("a", video.path), video) is detector


def test_the_fingerprint_follows_model_class_and_threshold(path: Path) -> None:
    yolo8(path, names=NAMES)
    prints = {
        onnx_detector(path, "drawer").fingerprint,
        onnx_detector(path, "hand").fingerprint,
        onnx_detector(path, "hand", threshold=0.5).fingerprint,
    }
    assert onnx_detector(path, "Drawer").fingerprint in prints
    prints.add(onnx_detector(contract(path), class_index=0).fingerprint)
    assert len(prints) == 4


def test_the_fingerprint_follows_weights_in_another_file(path: Path) -> None:
    """Such a file can have any name; only the graph tells."""
    model = onnx.load(yolo8(path))
    (limit,) = (node for node in model.graph.node if node.output[0] == "limit")
    values = np.array([0.7], np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(values, "limit"))
    model.graph.node.remove(limit)
    onnx.save(model, path, save_as_external_data=True, location="any.bin", size_threshold=0)
    weights = path.with_name("any.bin")
    before = onnx_detector(path, class_index=0).fingerprint
    content = bytearray(weights.read_bytes())
    content[content.index(np.float32(0.7).tobytes()) + 3] ^= 0x80  # the brightness is now -0.7
    weights.write_bytes(content)
    assert onnx_detector(path, class_index=0).fingerprint != before


# What is wrong is said


def test_a_name_that_the_model_does_not_know(path: Path) -> None:
    with pytest.raises(SettingError, match=r"no class 'lid'; `object` may be Drawer, door, hand"):
        onnx_detector(yolo8(path, names=NAMES), "lid")
    with pytest.raises(SettingError, match=r"has no class names.*#0"):
        onnx_detector(yolo8(path), "drawer")
    with pytest.raises(SettingError, match="no class 3, only 3, counted from 0"):
        onnx_detector(path, class_index=3)
    with pytest.raises(SettingError, match="no class 9"):
        onnx_detector(yolo8(path, names="{0: 'a', 1: 'b', 9: 'drawer'}"), "drawer")


@pytest.mark.parametrize("names", ["{0: 'a'", "__import__('os')", "{'a': 'b'}", "7"])
def test_metadata_is_data(path: Path, names: str) -> None:
    with pytest.raises(DetectorError, match=r"model\.onnx: its metadata cannot be read"):
        onnx_detector(yolo8(path, names=names))


def test_outputs_of_no_known_layout(path: Path) -> None:
    graph(path, "rubbish = Identity (corners)", "float[1,4] rubbish")
    with pytest.raises(DetectorError, match=r"model\.onnx: the outputs rubbish \(1, 4\) have no"):
        onnx_detector(path)


def test_files_that_are_not_models(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DetectorError, match="does not exist"):
        onnx_detector(path)
    path.write_bytes(b"PK\x03\x04 not a graph")
    with pytest.raises(DetectorError, match="cannot be loaded as an ONNX model"):
        onnx_detector(path)
    assert capfd.readouterr() == ("", "")  # onnxruntime is silent
    text = """<ir_version: 8, opset_import: ["" : 17]>
    words (int64[1,7] tokens) => (int64[1,7] boxes) { boxes = Identity (tokens) }"""
    onnx.save(onnx.parser.parse_model(text), path)
    with pytest.raises(DetectorError, match="no input is a batch of images"):
        onnx_detector(path)


def test_a_missing_gpu_is_reported(path: Path) -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime runs on GPUs")
    with pytest.raises(SettingError, match=r"`device`.*choose cpu"):
        onnx_detector(contract(path), device="cuda")
