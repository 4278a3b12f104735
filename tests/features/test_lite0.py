from __future__ import annotations

import io
import logging
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

from objectstates.base.cache import cache_folder
from objectstates.base.errors import BackboneError, SettingError
from objectstates.features import lite0_weights
from objectstates.features.backbones import Images
from objectstates.features.lite0 import FINE_STRIDES, Lite0, cached_graph

CLASSES = {  # ImageNet's, any of which is right
    "coffee": {967},  # espresso
    "camera": {872},  # tripod
    "chelsea": {281, 282, 285},  # tabby, tiger cat, Egyptian cat
    "rocket": {657, 744},  # missile, projectile
}


def noise(*shape: int) -> Images:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def logits(lite0: Lite0, images: Images) -> npt.NDArray[np.float32]:
    """(B, 1000) scores of the ImageNet classes: the network's own classifier on its last map."""
    weights = lite0_weights.read_weights()
    pooled = lite0.maps(images)[-1].values.mean(axis=(1, 2))
    return np.asarray(pooled @ weights["_fc.weight"].T + weights["_fc.bias"], np.float32)


@pytest.mark.parametrize("name", CLASSES)
def test_photographs_are_recognised(lite0: Lite0, photos: dict[str, Images], name: str) -> None:
    assert int(logits(lite0, photos[name])[0].argmax()) in CLASSES[name]


def test_coffee_is_espresso_beyond_doubt(lite0: Lite0, photos: dict[str, Images]) -> None:
    scores = logits(lite0, photos["coffee"])[0]
    assert np.exp(scores[967]) / np.exp(scores).sum() > 0.9


def test_maps_have_the_promised_shape_at_any_size(lite0: Lite0) -> None:
    for height, width in ((240, 320), (179, 33), (8, 8), (1, 70)):
        maps = lite0.maps(noise(2, height, width, 3))
        assert tuple(m.stride for m in maps) == lite0.strides
        for m, channels in zip(maps, lite0.channels, strict=True):
            rows, columns = (-(-n // 32) * 32 // m.stride for n in (height, width))
            assert m.values.shape == (2, rows, columns, channels)
            assert m.values.dtype == np.float32
            assert m.size == (height, width)
            assert np.isfinite(m.values).all()


def test_a_frame_never_depends_on_its_batch(lite0: Lite0) -> None:
    images = noise(3, 64, 96, 3)
    together = lite0.maps(images)
    for i in range(3):
        alone = lite0.maps(images[i : i + 1])
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_array_equal(a.values[i], b.values[0])


def test_threads_and_fewer_strides_give_the_same_maps(lite0: Lite0) -> None:
    images = noise(1, 128, 96, 3)
    all_maps = {m.stride: m.values for m in lite0.maps(images)}
    for backbone in (Lite0(threads=2), Lite0((8,)), Lite0((16, 32))):
        for m in backbone.maps(images):
            np.testing.assert_allclose(m.values, all_maps[m.stride], atol=1e-4)


@pytest.mark.parametrize(
    "size", [(240, 320), (250, 180), (256, 320), (240, 432), (180, 256), (40, 48), (8, 8), (1, 70)]
)
def test_fine_maps_of_a_shared_run_equal_those_of_a_run_of_their_own(
    lite0: Lite0, size: tuple[int, int]
) -> None:
    """Also where frames are padded, which is to multiples of 32 whatever the strides."""
    images = noise(2, *size, 3)
    maps, fine = lite0.device_and_fine_maps(images)
    for ours, expected in zip(fine, Lite0(FINE_STRIDES).maps(images), strict=True):
        assert (ours.stride, ours.size) == (expected.stride, expected.size)
        np.testing.assert_allclose(ours.values, expected.values, rtol=1e-5, atol=1e-5)
    alone = lite0.device_maps(images)
    np.testing.assert_allclose(maps.describe_frames(), alone.describe_frames(), atol=1e-6)
    np.testing.assert_allclose(maps.cells(), alone.cells(), rtol=1e-3, atol=1e-5)


def test_a_shift_by_a_stride_moves_the_map_by_a_cell(lite0: Lite0) -> None:
    scene = noise(1, 416, 448, 3)
    maps, moved = (lite0.maps(scene[:, :, x : x + 416]) for x in (0, 32))
    for m, n, margin in zip(maps[:2], moved[:2], (96, 176), strict=True):
        edge, step = margin // m.stride, 32 // m.stride
        inner = m.values[:, edge:-edge, edge + step : -edge]
        np.testing.assert_allclose(inner, n.values[:, edge:-edge, edge : -edge - step], atol=2e-4)


def test_a_change_shows_in_the_cells_where_it_is(lite0: Lite0, photos: dict[str, Images]) -> None:
    """Cells lie where they nominally do, in spite of the lopsided padding."""
    image = np.pad(photos["coffee"], ((0, 0), (48, 48), (48, 48), (0, 0)), mode="reflect")
    before = lite0.maps(image)[0]
    centres = []
    for x, y in ((104, 104), (120, 152), (151, 131), (181, 180), (200, 120)):
        changed = image.copy()
        changed[:, y : y + 16, x : x + 16] = 255 - changed[:, y : y + 16, x : x + 16]
        energy = np.square(lite0.maps(changed)[0].values - before.values)[0].sum(axis=2)
        rows, columns = ((np.arange(n) + 0.5) * before.stride for n in energy.shape)
        seen = energy.sum(axis=0) @ columns, energy.sum(axis=1) @ rows
        centres.append(np.array(seen) / energy.sum() - (x + 8, y + 8))
    assert np.abs(np.median(centres, axis=0)).max() < 2  # pixels


@pytest.mark.parametrize(
    "images",
    [noise(1, 32, 32, 4), noise(32, 32, 3), np.zeros((1, 32, 32, 3)), noise(1, 0, 32, 3)],
    ids=["four channels", "no batch", "floats", "no pixels"],
)
def test_what_is_not_a_batch_of_frames_is_refused(lite0: Lite0, images: Any) -> None:
    with pytest.raises(SettingError, match="uint8 RGB"):
        lite0.maps(images)


def test_unknown_strides_are_refused() -> None:
    with pytest.raises(SettingError, match="strides"):
        Lite0((4,))


# The cache.


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OBJECTSTATES_CACHE", str(tmp_path / "made" / "on demand"))
    return tmp_path / "made" / "on demand"


def test_the_graph_is_built_once(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = cached_graph((8,))
    assert [p.read_bytes() for p in own_cache.iterdir()] == [built]
    monkeypatch.setattr(lite0_weights, "read_weights", lambda: pytest.fail("built again"))
    assert cached_graph((8,)) == built


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_graph_is_built_anew(own_cache: Path, damage: str) -> None:
    built = cached_graph((8,))
    (path,) = own_cache.iterdir()
    broken = bytearray(built[: len(built) // 2] if damage == "truncated" else built)
    if damage == "flipped":
        broken[len(broken) // 2] ^= 1
    path.write_bytes(b"" if damage == "empty" else broken)
    assert cached_graph((8,)) == built
    assert [p.read_bytes() for p in own_cache.iterdir()] == [built]


def test_without_a_writable_cache_it_still_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("OBJECTSTATES_CACHE", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        assert Lite0((8,)).maps(noise(1, 32, 32, 3))[0].values.shape == (1, 4, 4, 40)
    assert "cache" in caplog.text


def test_a_failed_write_leaves_nothing_behind(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full_disk)
    cached_graph((8,))
    assert list(own_cache.iterdir()) == []


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OBJECTSTATES_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert cache_folder() == Path("/a")
    monkeypatch.delenv("OBJECTSTATES_CACHE")
    assert cache_folder() == Path("/b/objectstates")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/c")
    assert cache_folder() == Path("/c/.cache/objectstates")


def test_the_graph_itself_takes_batches() -> None:
    session = onnxruntime.InferenceSession(cached_graph((8,)), providers=["CPUExecutionProvider"])
    (maps,) = session.run(["stride8"], {"images": noise(3, 40, 72, 3)})
    assert maps.shape == (3, 5, 9, 40)


# The weights.


def test_other_weights_are_refused_before_they_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        lite0_weights, "RestrictedUnpickler", lambda _: pytest.fail("opened a pickle")
    )
    with pytest.raises(BackboneError, match="SHA-256"):
        lite0_weights.read_weights(b"other")


class Harmful:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_pickle_cannot_run_code(tmp_path: Path) -> None:
    content = pickle.dumps(Harmful(tmp_path / "made"))
    with pytest.raises(BackboneError, match="refused"):
        lite0_weights.RestrictedUnpickler(io.BytesIO(content)).load()
    assert not (tmp_path / "made").exists()


def test_weights_are_those_that_torch_reads() -> None:
    torch = pytest.importorskip("torch", reason="compares with torch, which is not installed")
    from importlib import resources

    path = resources.files(lite0_weights.PACKAGE).joinpath(lite0_weights.FILE)
    theirs = torch.load(str(path), weights_only=True)
    ours = lite0_weights.read_weights()
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name].numpy())


class Reference:
    """The network written plainly in torch: TensorFlow's padding, batch normalisation unfolded."""

    REPEATS, STRIDES, EPSILON = (1, 2, 2, 3, 3, 4, 1), (1, 2, 2, 2, 1, 2, 1), 1e-3

    def __init__(self, torch: Any) -> None:
        self.torch, self.functional = torch, torch.nn.functional
        weights = lite0_weights.read_weights()
        self.weights = {k: torch.from_numpy(v.copy()) for k, v in weights.items()}

    def __call__(self, images: Images) -> dict[str, npt.NDArray[np.float32]]:
        torch, outputs = self.torch, {}
        x = (torch.from_numpy(images).permute(0, 3, 1, 2).float() - 127) / 128
        x = self.layer(x, "_conv_stem", "_bn0", 2).clip(0, 6)
        block = 0
        for repeats, stride in zip(self.REPEATS, self.STRIDES, strict=True):
            for repeat in range(repeats):
                x = self.block(x, f"_blocks.{block}", stride if repeat == 0 else 1, repeat > 0)
                outputs[f"block{block}"] = x
                block += 1
        x = self.layer(x, "_conv_head", "_bn1").clip(0, 6)
        pooled = x.mean(dim=(2, 3))
        logits = pooled @ self.weights["_fc.weight"].T + self.weights["_fc.bias"]
        maps = {8: outputs["block4"], 16: outputs["block10"], 32: x}
        result = {f"stride{k}": v.permute(0, 2, 3, 1) for k, v in maps.items()}
        return {k: v.numpy() for k, v in {**result, "logits": logits}.items()}

    def block(self, x: Any, name: str, stride: int, residual: bool) -> Any:
        y = x
        if f"{name}._expand_conv.weight" in self.weights:
            y = self.layer(y, f"{name}._expand_conv", f"{name}._bn0").clip(0, 6)
        y = self.layer(y, f"{name}._depthwise_conv", f"{name}._bn1", stride).clip(0, 6)
        y = self.layer(y, f"{name}._project_conv", f"{name}._bn2")
        return x + y if residual else y

    def layer(self, x: Any, name: str, norm: str, stride: int = 1) -> Any:
        kernel = self.weights[f"{name}.weight"]
        padding = []
        for size, width in ((x.shape[3], kernel.shape[3]), (x.shape[2], kernel.shape[2])):
            total = max((-(-size // stride) - 1) * stride + width - size, 0)
            padding += [total // 2, total - total // 2]
        x = self.functional.pad(x, padding)
        groups = x.shape[1] // kernel.shape[1]
        x = self.functional.conv2d(x, kernel, stride=stride, groups=groups)
        keys = ("running_mean", "running_var", "weight", "bias")
        return self.functional.batch_norm(
            x, *(self.weights[f"{norm}.{k}"] for k in keys), eps=self.EPSILON
        )


def test_outputs_are_those_of_the_reference_network(
    lite0: Lite0, photos: dict[str, Images]
) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch, which is not installed")
    reference = Reference(torch)
    for images in (*photos.values(), noise(1, 96, 320, 3)):
        expected = reference(images)
        ours = {f"stride{m.stride}": m.values for m in lite0.maps(images)}
        ours["logits"] = logits(lite0, images)
        for name, value in expected.items():
            np.testing.assert_allclose(ours[name], value, atol=1e-3, err_msg=name)
