from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.base.errors import SettingError
from objectstates.features import roi_pooling as roi
from objectstates.features.backbones import FeatureMap, at_strides
from objectstates.features.lite0 import Lite0

STRIDE = 16


def random_map(height: int = 9, width: int = 12, channels: int = 5) -> npt.NDArray[np.float32]:
    return np.random.default_rng(3).normal(size=(height, width, channels)).astype(np.float32)


def brute_force(values: Any, box: Any, grid: int, samples: int) -> npt.NDArray[np.float64]:
    """ROI-align with ``samples`` x ``samples`` points per bin, one at a time."""
    height, width, channels = values.shape
    out = np.zeros((grid, grid, channels))
    x1, y1, x2, y2 = box
    for row in range(grid * samples):
        for column in range(grid * samples):
            v = (y1 + (y2 - y1) * (row + 0.5) / (grid * samples)) / STRIDE - 0.5
            u = (x1 + (x2 - x1) * (column + 0.5) / (grid * samples)) / STRIDE - 0.5
            v, u = min(max(v, 0), height - 1), min(max(u, 0), width - 1)
            i, j = min(int(v), height - 2), min(int(u), width - 2)
            a, b = v - i, u - j
            out[row // samples, column // samples] += (1 - a) * (
                (1 - b) * values[i, j] + b * values[i, j + 1]
            ) + a * ((1 - b) * values[i + 1, j] + b * values[i + 1, j + 1])
    return out / samples**2


@pytest.mark.parametrize("grid", [1, 2, 3])
def test_pooling_is_dense_roi_align(grid: int) -> None:
    values = random_map()
    boxes = np.array([[0, 0, 192, 144], [30.5, 41.2, 90, 61], [100, 100, 104, 109], [0, 9, 20, 99]])
    pooled = roi.pool(values, STRIDE, boxes, grid)
    for box, ours in zip(boxes, pooled, strict=True):
        np.testing.assert_allclose(ours, brute_force(values, box, grid, 40), atol=2e-3)


positions = st.floats(0, 100, allow_nan=False)
lengths = st.floats(0.5, 90, allow_nan=False)


@given(positions, positions, lengths, lengths, st.integers(1, 4))
def test_a_constant_map_gives_the_constant(
    x: float, y: float, w: float, h: float, grid: int
) -> None:
    values = np.full((7, 11, 2), 3.5, np.float32)
    pooled = roi.pool(values, STRIDE, np.array([[x, y, x + w, y + h]]), grid)
    np.testing.assert_allclose(pooled, 3.5, rtol=1e-5)


@given(st.floats(8, 80), st.floats(8, 40), st.floats(1, 88), st.floats(1, 64), st.integers(1, 4))
def test_a_linear_map_gives_its_value_at_the_middle_of_the_bins(
    x: float, y: float, w: float, h: float, grid: int
) -> None:
    rows, columns = np.mgrid[:7, :11]
    values = (2 * columns - 3 * rows + 1)[:, :, None].astype(np.float32)
    pooled = roi.pool(values, STRIDE, np.array([[x, y, x + w, y + h]]), grid)[0, :, :, 0]
    middles = (np.arange(grid) + 0.5) / grid
    u, v = (x + w * middles) / STRIDE - 0.5, (y + h * middles) / STRIDE - 0.5
    np.testing.assert_allclose(pooled, 2 * u - 3 * v[:, None] + 1, atol=1e-4)


def test_content_shifted_by_a_stride_has_the_same_feature() -> None:
    values = random_map(12, 16)
    boxes = np.array([[70.0, 60, 120, 100], [48, 48, 99.5, 77]])
    moved = np.roll(values, (2, 1), axis=(0, 1))
    offset = np.array([1, 2, 1, 2]) * STRIDE
    a = roi.describe_boxes([FeatureMap(values[None], STRIDE, (192, 256))], [boxes])[0]
    b = roi.describe_boxes([FeatureMap(moved[None], STRIDE, (192, 256))], [boxes + offset])[0]
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_mirrored_map_gives_mirrored_bins() -> None:
    values = random_map()
    box = np.array([[20.0, 30, 111, 99]])
    mirrored = np.array([[192 - 111.0, 30, 192 - 20, 99]])
    a = roi.pool(values, STRIDE, box)
    b = roi.pool(np.ascontiguousarray(values[:, ::-1]), STRIDE, mirrored)
    np.testing.assert_allclose(a, b[:, :, ::-1], atol=1e-5)


@settings(max_examples=30)
@given(st.lists(st.tuples(positions, positions, lengths, lengths), max_size=6))
def test_a_box_never_depends_on_the_boxes_beside_it(
    corners: list[tuple[float, float, float, float]],
) -> None:
    boxes = np.array([(x, y, x + w, y + h) for x, y, w, h in corners]).reshape(-1, 4)
    values = random_map()
    together = roi.pool(values, STRIDE, boxes)
    assert together.shape == (len(boxes), 2, 2, 5)
    for i in range(len(boxes)):
        np.testing.assert_allclose(
            together[i], roi.pool(values, STRIDE, boxes[i : i + 1])[0], atol=1e-5
        )


def test_many_boxes_are_pooled_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = random_map()
    corner = np.random.default_rng(1).uniform(0, 90, (50, 2))
    boxes = np.hstack([corner, corner + 30])
    whole = roi.pool(values, STRIDE, boxes)
    monkeypatch.setattr(roi, "_BLOCK_BYTES", 3 * 4 * 2 * 12 * 5)
    np.testing.assert_allclose(roi.pool(values, STRIDE, boxes), whole, atol=1e-6)


def test_enlarging_keeps_the_centre_and_stays_in_the_frame() -> None:
    boxes = np.array([[40.0, 50, 60, 90], [0, 0, 10, 10]])
    out = roi.enlarge_and_clip(boxes, 1.5, (100, 120))
    np.testing.assert_allclose(out, [[35.0, 40.0, 65.0, 100.0], [0.0, 0.0, 12.5, 12.5]])


@pytest.mark.parametrize(
    "box", [[130, 10, 150, 20], [10, 10, 10, 20], [20, 20, 10, 30], [np.nan, 0, 5, 5]]
)
def test_a_box_of_nothing_is_named(box: list[float]) -> None:
    with pytest.raises(SettingError, match="covers nothing of a frame of 120 x 100"):
        roi.enlarge_and_clip(np.array([[1.0, 1, 9, 9], box]), 1.2, (100, 120))


def test_each_map_weighs_the_same_however_loud_it_is() -> None:
    maps = [
        FeatureMap(random_map()[None], 16, (144, 192)),
        FeatureMap(1000 * random_map(5, 6, 7)[None], 32, (144, 192)),
    ]
    (feature,) = roi.describe_boxes(maps, [np.array([[20.0, 20, 90, 80]])])[0]
    assert feature.shape == (4 * (5 + 7),)
    np.testing.assert_allclose(np.linalg.norm(feature), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(feature[:20]), np.sqrt(0.5), rtol=1e-5)


def test_a_frame_is_the_mean_of_its_cells() -> None:
    values = random_map(8, 8)
    frames = roi.describe_frames([FeatureMap(np.stack([values, -values]), 16, (128, 128))])
    mean = values.mean(axis=(0, 1))
    np.testing.assert_allclose(frames[0], mean / np.linalg.norm(mean), atol=1e-5)
    np.testing.assert_allclose(frames[1], -frames[0], atol=1e-6)


def test_padding_is_no_part_of_a_frame() -> None:
    values = np.ones((8, 10, 3), np.float32)
    values[:, :, 1] = 2
    values[7:] = 1e6  # centred on row 240, the first below the frame
    frame = roi.describe_frames([FeatureMap(values[None], 32, (208, 320))])[0]
    np.testing.assert_allclose(frame, np.array([1, 2, 1]) / np.sqrt(6), atol=1e-5)


def test_an_average_of_equal_frames_is_that_frame() -> None:
    feature = roi.unit(random_map().reshape(-1))
    np.testing.assert_allclose(roi.average([feature, feature, feature]), feature, atol=1e-7)
    with pytest.raises(SettingError, match="at least one frame"):
        roi.average([])


def test_the_same_thing_elsewhere_in_the_picture_looks_alike(lite0: Lite0, photos: Any) -> None:
    """A user's invariance: place and surroundings matter less than what the thing is."""
    rng = np.random.default_rng(0)
    things = {k: photos[k][0, 56:152, 56:152] for k in ("coffee", "chelsea", "rocket")}
    features, kinds = [], []
    for kind, thing in things.items():
        for x, y in ((32, 64), (139, 90), (200, 33)):
            scene = rng.normal(110, 8, (240, 320, 3)).clip(0, 255).astype(np.uint8)
            scene[y : y + 96, x : x + 96] = thing
            maps = at_strides(lite0.maps(scene[None]), lite0.appearance_strides)
            box = np.array([[x, y, x + 96, y + 96]], float)
            features.append(roi.describe_boxes(maps, [box])[0][0])
            kinds.append(kind)
    likeness = np.array(features) @ np.array(features).T
    same = np.equal.outer(kinds, kinds) & ~np.eye(len(kinds), dtype=bool)
    other = ~np.equal.outer(kinds, kinds)
    assert likeness[same].min() > likeness[other].max() + 0.05
