"""Maps that wait for their boxes, in host memory and on a torch device."""

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
from objectstates.features import torch_backbones
from objectstates.features import torch_feature_maps as torch_looks
from objectstates.features.backbones import FeatureMap, Images, Look
from objectstates.features.feature_maps import HostLook
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


def host_look(values: npt.NDArray[np.float32]) -> HostLook:
    return HostLook.of([FeatureMap(values, STRIDE, SIZE)], [STRIDE])


def torch_look(values: npt.NDArray[np.float32], device: str = "cpu") -> torch_looks.TorchLook:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    tensor = torch.tensor(values, dtype=torch.float16, device=device)
    side = torch_looks.Side(torch.device(device))
    return torch_looks.TorchLook(tensor, STRIDE, SIZE, side)


def assert_alike(one: Look, two: Look, boxes: list[npt.NDArray[np.float64]]) -> None:
    np.testing.assert_allclose(one.frames(), two.frames(), atol=TOLERANCE)
    np.testing.assert_array_equal(one.cells(), two.cells())
    for context in (1.0, 1.25):
        described = [look.boxes(boxes, context=context) for look in (one, two)]
        for found, a, b in zip(boxes, *described, strict=True):
            assert len(a) == len(b) == len(found)
            assert a.dtype == b.dtype == np.float32
            np.testing.assert_allclose(a, b, atol=TOLERANCE)


def test_a_look_of_the_host_describes_as_its_maps_do(lite0: Lite0) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (2, *SIZE, 3), np.uint8)
    boxes = random_boxes([3, 0])
    maps = lite0.maps(frames)
    look = lite0.look(list(frames))
    np.testing.assert_array_equal(look.frames(), describe_frames(maps[-1:]))
    described = describe_boxes(maps[1:], boxes)
    for ours, exact in zip(look.boxes(boxes), described, strict=True):
        assert ours.shape == (len(exact), 4 * (112 + 1280))
        np.testing.assert_allclose(ours, exact, atol=1e-4)  # half precision
    np.testing.assert_allclose(look.cells()[1], maps[1].values[1].reshape(-1, 112), rtol=1e-3)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
    st.integers(1, 9),
    st.integers(0, 1000),
)
def test_torch_describes_as_numpy_does(counts: list[int], channels: int, seed: int) -> None:
    values = random_maps(len(counts), channels, seed)
    assert_alike(torch_look(values), host_look(values), random_boxes(counts, seed))


@pytest.mark.parametrize("grid", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_torch_weighs_cells_as_numpy_does(grid: int, count: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    rng = np.random.default_rng(grid)
    start = np.concatenate([rng.uniform(-0.5, count - 0.6, 500), [-0.5, 0, count - 1]])
    end = np.concatenate([start[:-3] + rng.uniform(0.01, 5, 500), [count - 0.5, 1, count - 0.5]])
    ours = torch_looks._bin_weights(*map(torch.from_numpy, (start, end)), count, grid)
    expected = bin_weights(start, end, count, grid)
    np.testing.assert_allclose(ours.numpy(), expected, rtol=0, atol=1e-7)


def test_maps_in_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    values = random_maps(7)
    boxes = random_boxes([0, 2, 0, 0, 3, 1, 0])
    monkeypatch.setattr(torch_looks, "BLOCK_BYTES", 2 * 4 * 9 * 12 * (6 + 4 * 3))
    assert_alike(torch_look(values), host_look(values), boxes)


def test_an_empty_map_has_no_direction() -> None:
    look = torch_look(np.zeros_like(random_maps(2)))
    assert (look.boxes(random_boxes([1, 2]))[1] == 0).all()


def test_a_box_outside_the_frame_is_refused_alike() -> None:
    values = random_maps(1)
    for look in (host_look(values), torch_look(values)):
        with pytest.raises(SettingError, match="covers nothing"):
            look.boxes([np.array([[500.0, 10, 600, 90]])])


def test_a_look_can_move_to_the_host() -> None:
    values = random_maps(3)
    look = torch_look(values)
    assert look.nbytes == 2 * values.size
    assert_alike(look.on_host(), look, random_boxes([2, 0, 1]))


def test_maps_do_not_leave_a_gpu_to_be_described() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    if not torch.cuda.is_available():
        pytest.skip("this machine has no GPU")
    values = random_maps(40, 64)
    boxes = random_boxes([i % 4 for i in range(40)])
    assert_alike(torch_look(values, "cuda"), host_look(values), boxes)


def test_what_is_asked_of_a_look_does_not_wait_for_later_ones() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    if not torch.cuda.is_available():
        pytest.skip("this machine has no GPU")
    side = torch_looks.Side(torch.device("cuda"))
    maps = torch.tensor(random_maps(2), dtype=torch.float16, device="cuda")
    boxes = random_boxes([2, 1])
    for _ in range(2):  # kernels are loaded and memory is taken by the first, which waits
        early = torch_looks.TorchLook(maps, STRIDE, SIZE, side)
        torch.cuda._sleep(int(2e9))  # a network that takes a second
        late = torch_looks.TorchLook(maps, STRIDE, SIZE, side)
        early.boxes(boxes)
        early.frames()
        waited = late._ready.query()
        torch.cuda.synchronize()
    assert not waited


# --- looks of torch backbones ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def convolution() -> TorchBackbone:
    """The smallest network that has a map."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    torch.manual_seed(0)
    network = torch.nn.Conv2d(3, 8, 16, 16)
    return TorchBackbone(network, network, name="tiny", stride=16, channels=8)


def noise(count: int) -> Images:
    return np.random.default_rng(0).integers(0, 255, (count, *SIZE, 3), np.uint8)


def assert_look_fits_maps(look: Look, maps: Any) -> None:
    """To a millionth of what numpy makes of the same maps in half precision."""
    (level,) = maps
    halves = level.values.astype(np.float16).astype(np.float32)
    expected = HostLook.of([replace(level, values=halves)], [level.stride])
    assert_alike(look, expected, random_boxes([2] * len(maps[0].values)))


def test_a_look_is_of_the_maps(convolution: TorchBackbone, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = noise(5)
    maps = convolution.maps(frames)
    monkeypatch.setattr(torch_backbones, "PART", 2)
    assert_look_fits_maps(convolution.look(list(frames)), maps)


def test_frames_in_one_array_are_seen_as_those_apart(convolution: TorchBackbone) -> None:
    frames = noise(3)
    assert_alike(convolution.look(frames), convolution.look(list(frames)), random_boxes([1, 2, 0]))


def test_page_locked_frames_are_their_owners_again_after_a_look() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    if not torch.cuda.is_available():
        pytest.skip("no GPU is here")
    network = torch.nn.Conv2d(3, 8, 16, 16)
    backbone = TorchBackbone(network, network, name="tiny", stride=16, channels=8, device="cuda")
    frames = noise(torch_backbones.PART + 3)
    expected = backbone.look(list(frames)).cells()
    shared = frames.copy()
    with page_locked(shared):
        assert is_page_locked(shared)
        torch.cuda._sleep(int(4e8))  # there is work before
        look = backbone.look(shared)
        shared[:] = 0
        np.testing.assert_array_equal(look.cells(), expected)
    assert not is_page_locked(shared)


@pytest.mark.parametrize("waits", [False, True])
def test_a_recorded_pass_computes_what_the_network_does(waits: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    if not torch.cuda.is_available():
        pytest.skip("no GPU is here")
    network = torch.nn.Conv2d(3, 8, 16, 16)

    def forward(x: Any) -> Any:
        return network(x) + (float(x[0, 0, 0, 0].item()) if waits else 0.0)

    backbone = TorchBackbone(
        network, forward, name="recorded", stride=16, channels=8, device="cuda"
    )
    frames = [noise(torch_backbones.PART) for _ in range(3)]
    looks = [backbone.look(list(some)) for some in frames]
    assert [found is None for found in backbone._recordings.values()] == [waits]
    for some, look in zip(frames, looks, strict=True):
        few = backbone.look(list(some[:5]))  # never recorded
        np.testing.assert_allclose(
            look.cells()[:5].astype(float), few.cells().astype(float), atol=2e-3
        )


def test_numbers_beyond_half_precision_stay_finite() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    network = torch.nn.Conv2d(3, 4, 16, 16)
    network.weight.data *= 1e7
    loud = TorchBackbone(network, network, name="loud", stride=16, channels=4)
    look = loud.look(list(noise(1)))
    assert np.abs(look.cells()).max() == np.finfo(np.float16).max
    assert np.isfinite(look.boxes(random_boxes([2]))[0]).all()


def test_maps_beyond_the_bound_wait_on_the_host(
    convolution: TorchBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = list(noise(2))
    size = 2 * 2 * 9 * 12 * 8
    monkeypatch.setattr(torch_backbones, "KEPT_BYTES", 2 * size)
    looks = [convolution.look(frames) for _ in range(3)]
    kinds = [type(look) for look in looks]
    assert kinds == [torch_looks.TorchLook, torch_looks.TorchLook, HostLook]
    assert_alike(looks[2], looks[0], random_boxes([1, 3]))
    del looks
    assert type(convolution.look(frames)) is torch_looks.TorchLook, "room again"


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_threads_fill_a_buffer_in_order(count: int) -> None:
    frames = list(noise(count))
    out = np.zeros((count, *SIZE, 3), np.uint8)
    with ThreadPoolExecutor(torch_backbones.FILLERS) as threads:
        torch_backbones.fill(out, frames, threads)
        np.testing.assert_array_equal(out, frames)
        with pytest.raises(ValueError, match="shape"):
            torch_backbones.fill(out, [*frames[1:], frames[0][1:]], threads)


def test_frames_of_several_sizes_are_refused(convolution: TorchBackbone) -> None:
    with pytest.raises(ValueError, match="same shape"):
        convolution.look([np.zeros((32, 32, 3), np.uint8), np.zeros((32, 48, 3), np.uint8)])
    with pytest.raises(SettingError, match="uint8 RGB"):
        convolution.look([np.zeros((32, 32), np.uint8)])


def test_resnet50_looks_at_the_papers_map() -> None:
    try:
        backbone = resnet50(pretrained=False)
    except MissingExtraError as error:
        pytest.skip(str(error))
    frames = noise(2)
    assert_look_fits_maps(backbone.look(list(frames)), backbone.maps(frames))
