"""Feature maps kept in host memory and on a torch device."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.base.errors import MissingExtraError, SettingError
from objectstates.base.torch_utils import is_page_locked, page_locked
from objectstates.features import torch_backbones, torch_feature_maps
from objectstates.features.backbones import FeatureMap, FeatureMaps, Images
from objectstates.features.feature_maps import HostFeatureMaps
from objectstates.features.lite0 import Lite0
from objectstates.features.roi_pooling import bin_weights, describe_boxes, describe_frames
from objectstates.features.torch_backbones import TorchBackbone, resnet50

SIZE, STRIDE = (140, 190), 16
TOLERANCE = 1e-6
"""Of numbers in vectors of length 1."""


def random_maps(count: int = 5, channels: int = 6, seed: int = 0) -> npt.NDArray[np.float32]:
    """(count, 9, 12, channels), such as float16 can hold exactly.

    None is negative, as after a rectifier: where many cells cancel out, single precision has not
    the digits to be compared.
    """
    shape = (count, -(-SIZE[0] // STRIDE), -(-SIZE[1] // STRIDE), channels)
    values = np.abs(np.random.default_rng(seed).normal(size=shape))
    return values.astype(np.float16).astype(np.float32)


def random_boxes(counts: list[int], seed: int = 1) -> list[npt.NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    corners = [rng.uniform(0, 100, (count, 2)) for count in counts]
    return [np.hstack([c, c + rng.uniform(1, 120, c.shape)]) for c in corners]


def host_maps(values: npt.NDArray[np.float32]) -> HostFeatureMaps:
    return HostFeatureMaps.of([FeatureMap(values, STRIDE, SIZE)], [STRIDE])


def torch_maps(
    values: npt.NDArray[np.float32], device: str = "cpu"
) -> torch_feature_maps.TorchFeatureMaps:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    tensor = torch.tensor(values, dtype=torch.float16, device=device)
    side = torch_feature_maps.PoolingStream(torch.device(device))
    return torch_feature_maps.TorchFeatureMaps(tensor, STRIDE, SIZE, side)


def assert_alike(one: FeatureMaps, two: FeatureMaps, boxes: list[npt.NDArray[np.float64]]) -> None:
    np.testing.assert_allclose(one.describe_frames(), two.describe_frames(), atol=TOLERANCE)
    np.testing.assert_array_equal(one.cells(), two.cells())
    for context in (1.0, 1.25):
        described = [maps.describe_boxes(boxes, context=context) for maps in (one, two)]
        for found, a, b in zip(boxes, *described, strict=True):
            assert len(a) == len(b) == len(found)
            assert a.dtype == b.dtype == np.float32
            np.testing.assert_allclose(a, b, atol=TOLERANCE)


def test_host_maps_describe_as_full_precision_does(lite0: Lite0) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (2, *SIZE, 3), np.uint8)
    boxes = random_boxes([3, 0])
    maps = lite0.maps(frames)
    found_maps = lite0.device_maps(list(frames))
    np.testing.assert_array_equal(found_maps.describe_frames(), describe_frames(maps[-1:]))
    described = describe_boxes(maps[1:], boxes)
    for ours, exact in zip(found_maps.describe_boxes(boxes), described, strict=True):
        assert ours.shape == (len(exact), 4 * (112 + 1280))
        np.testing.assert_allclose(ours, exact, atol=1e-4)  # half precision
    np.testing.assert_allclose(found_maps.cells()[1], maps[1].values[1].reshape(-1, 112), rtol=1e-3)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
    st.integers(1, 9),
    st.integers(0, 1000),
)
def test_torch_describes_as_numpy_does(counts: list[int], channels: int, seed: int) -> None:
    values = random_maps(len(counts), channels, seed)
    assert_alike(torch_maps(values), host_maps(values), random_boxes(counts, seed))


@pytest.mark.parametrize("grid", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_torch_weighs_cells_as_numpy_does(grid: int, count: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    rng = np.random.default_rng(grid)
    start = np.concatenate([rng.uniform(-0.5, count - 0.6, 500), [-0.5, 0, count - 1]])
    end = np.concatenate([start[:-3] + rng.uniform(0.01, 5, 500), [count - 0.5, 1, count - 0.5]])
    ours = torch_feature_maps._bin_weights(
        torch.from_numpy(start), torch.from_numpy(end), count, grid
    )
    expected = bin_weights(start, end, count, grid)
    np.testing.assert_allclose(ours.numpy(), expected, rtol=0, atol=1e-7)


def test_maps_in_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    values = random_maps(7)
    boxes = random_boxes([0, 2, 0, 0, 3, 1, 0])
    monkeypatch.setattr(torch_feature_maps, "BLOCK_BYTES", 2 * 4 * 9 * 12 * (6 + 4 * 3))
    assert_alike(torch_maps(values), host_maps(values), boxes)


def test_an_empty_map_has_no_direction() -> None:
    found_maps = torch_maps(np.zeros_like(random_maps(2)))
    assert (found_maps.describe_boxes(random_boxes([1, 2]))[1] == 0).all()


def test_a_box_outside_the_frame_is_refused_alike() -> None:
    values = random_maps(1)
    for found_maps in (host_maps(values), torch_maps(values)):
        with pytest.raises(SettingError, match="covers nothing"):
            found_maps.describe_boxes([np.array([[500.0, 10, 600, 90]])])


def test_maps_can_move_to_the_host() -> None:
    values = random_maps(3)
    found_maps = torch_maps(values)
    assert found_maps.nbytes == 2 * values.size
    assert_alike(found_maps.on_host(), found_maps, random_boxes([2, 0, 1]))


def test_maps_do_not_leave_a_gpu_to_be_described() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    if not torch.cuda.is_available():
        pytest.skip("this machine has no GPU")
    values = random_maps(40, 64)
    boxes = random_boxes([i % 4 for i in range(40)])
    assert_alike(torch_maps(values, "cuda"), host_maps(values), boxes)


def test_pooling_does_not_wait_for_later_maps() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    if not torch.cuda.is_available():
        pytest.skip("this machine has no GPU")
    side = torch_feature_maps.PoolingStream(torch.device("cuda"))
    maps = torch.tensor(random_maps(2), dtype=torch.float16, device="cuda")
    boxes = random_boxes([2, 1])
    for _ in range(2):  # kernels are loaded and memory is taken by the first, which waits
        early = torch_feature_maps.TorchFeatureMaps(maps, STRIDE, SIZE, side)
        torch.cuda._sleep(int(2e9))  # a network that takes a second
        late = torch_feature_maps.TorchFeatureMaps(maps, STRIDE, SIZE, side)
        early.describe_boxes(boxes)
        early.describe_frames()
        waited = late._ready.query()
        torch.cuda.synchronize()
    assert not waited


# --- maps of torch backbones ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def convolution() -> TorchBackbone:
    """The smallest network that has a map."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    torch.manual_seed(0)
    network = torch.nn.Conv2d(3, 8, 16, 16)
    return TorchBackbone(network, network, name="tiny", stride=16, channels=8)


def noise(count: int) -> Images:
    return np.random.default_rng(0).integers(0, 255, (count, *SIZE, 3), np.uint8)


def assert_fits_maps(found_maps: FeatureMaps, maps: Any) -> None:
    """To a millionth of what numpy makes of the same maps in half precision."""
    (level,) = maps
    halves = level.values.astype(np.float16).astype(np.float32)
    expected = HostFeatureMaps.of([replace(level, values=halves)], [level.stride])
    assert_alike(found_maps, expected, random_boxes([2] * len(maps[0].values)))


def test_device_maps_equal_host_maps(
    convolution: TorchBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = noise(5)
    maps = convolution.maps(frames)
    monkeypatch.setattr(torch_backbones, "PART", 2)
    assert_fits_maps(convolution.device_maps(list(frames)), maps)


def test_frames_in_one_array_are_seen_as_those_apart(convolution: TorchBackbone) -> None:
    frames = noise(3)
    assert_alike(
        convolution.device_maps(frames),
        convolution.device_maps(list(frames)),
        random_boxes([1, 2, 0]),
    )


def test_page_locked_frames_may_be_overwritten() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    if not torch.cuda.is_available():
        pytest.skip("no GPU is here")
    network = torch.nn.Conv2d(3, 8, 16, 16)
    backbone = TorchBackbone(network, network, name="tiny", stride=16, channels=8, device="cuda")
    frames = noise(torch_backbones.PART + 3)
    expected = backbone.device_maps(list(frames)).cells()
    shared = frames.copy()
    with page_locked(shared):
        assert is_page_locked(shared)
        torch.cuda._sleep(int(4e8))  # there is work before
        found_maps = backbone.device_maps(shared)
        shared[:] = 0
        np.testing.assert_array_equal(found_maps.cells(), expected)
    assert not is_page_locked(shared)


@pytest.mark.parametrize("waits", [False, True])
def test_a_captured_run_computes_what_the_network_does(waits: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    if not torch.cuda.is_available():
        pytest.skip("no GPU is here")
    network = torch.nn.Conv2d(3, 8, 16, 16)

    def forward(x: Any) -> Any:
        return network(x) + (float(x[0, 0, 0, 0].item()) if waits else 0.0)

    backbone = TorchBackbone(
        network, forward, name="captured", stride=16, channels=8, device="cuda"
    )
    frames = [noise(torch_backbones.PART) for _ in range(3)]
    several = [backbone.device_maps(list(some)) for some in frames]
    assert [found is None for found in backbone._graphs.values()] == [waits]
    for some, found_maps in zip(frames, several, strict=True):
        few = backbone.device_maps(list(some[:5]))  # never captured
        np.testing.assert_allclose(
            found_maps.cells()[:5].astype(float), few.cells().astype(float), atol=2e-3
        )


def test_numbers_beyond_half_precision_stay_finite() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    network = torch.nn.Conv2d(3, 4, 16, 16)
    network.weight.data *= 1e7
    loud = TorchBackbone(network, network, name="loud", stride=16, channels=4)
    found_maps = loud.device_maps(list(noise(1)))
    assert np.abs(found_maps.cells()).max() == np.finfo(np.float16).max
    assert np.isfinite(found_maps.describe_boxes(random_boxes([2]))[0]).all()


def test_maps_beyond_the_bound_wait_on_the_host(
    convolution: TorchBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = list(noise(2))
    size = 2 * 2 * 9 * 12 * 8
    monkeypatch.setattr(torch_backbones, "KEPT_BYTES", 2 * size)
    several = [convolution.device_maps(frames) for _ in range(3)]
    kinds = [type(found_maps) for found_maps in several]
    assert kinds == [
        torch_feature_maps.TorchFeatureMaps,
        torch_feature_maps.TorchFeatureMaps,
        HostFeatureMaps,
    ]
    assert_alike(several[2], several[0], random_boxes([1, 3]))
    del several
    assert type(convolution.device_maps(frames)) is torch_feature_maps.TorchFeatureMaps, (
        "room again"
    )


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_threads_fill_a_buffer_in_order(count: int) -> None:
    frames = list(noise(count))
    out = np.zeros((count, *SIZE, 3), np.uint8)
    with ThreadPoolExecutor(torch_backbones.COPY_THREADS) as threads:
        torch_backbones.fill(out, frames, threads)
        np.testing.assert_array_equal(out, frames)
        with pytest.raises(ValueError, match="shape"):
            torch_backbones.fill(out, [*frames[1:], frames[0][1:]], threads)


def test_frames_of_several_sizes_are_refused(convolution: TorchBackbone) -> None:
    with pytest.raises(ValueError, match="same shape"):
        convolution.device_maps([np.zeros((32, 32, 3), np.uint8), np.zeros((32, 48, 3), np.uint8)])
    with pytest.raises(SettingError, match="uint8 RGB"):
        convolution.device_maps([np.zeros((32, 32), np.uint8)])


def test_resnet50_gives_the_papers_map() -> None:
    try:
        backbone = resnet50(weights="random")
    except MissingExtraError as error:
        pytest.skip(str(error))
    frames = noise(2)
    assert_fits_maps(backbone.device_maps(list(frames)), backbone.maps(frames))
