from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from objectstates.base.errors import BackboneError, MissingExtraError, SettingError
from objectstates.features import torch_backbones
from objectstates.features.backbones import Backbone, Images, padded
from objectstates.features.registry import check_backbone, load_backbone
from objectstates.features.torch_backbones import resnet50, vgg16


def noise(*shape: int) -> Images:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.usefixtures("graph_cache")
def test_lite0_is_the_default() -> None:
    backbone = load_backbone()
    assert backbone.name == "lite0"
    assert backbone.strides == (8, 16, 32)
    assert backbone.channels == (40, 112, 1280)
    assert set(backbone.appearance_strides) <= set(backbone.strides)
    assert load_backbone("lite0", strides=[8]).fingerprint == backbone.fingerprint


@pytest.mark.parametrize("spec", ["", "vgg", "hf:", "hf", "resnet18", "vgg16:", "lite0:x"])
def test_an_unknown_spec_names_the_choices(spec: str) -> None:
    with pytest.raises(SettingError, match="choose lite0, resnet50, vgg16 or hf:MODEL"):
        load_backbone(spec)


def test_lite0_says_that_it_has_no_gpu() -> None:
    with pytest.raises(SettingError, match="`device`"):
        load_backbone("lite0", "cuda")


@pytest.mark.parametrize(
    ("spec", "module", "extra"),
    [("resnet50", "torchvision", "torch"), ("hf:facebook/dinov2-small", "transformers", "hf")],
)
def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, spec: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'objectstates\[{extra}\]'"):
        load_backbone(spec)


def test_the_default_never_imports_torch(graph_cache: Path) -> None:
    code = (
        "import sys; from objectstates.features import registry, roi_pooling, torch_backbones;"
        "registry.load_backbone(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_padding_leaves_the_frame_in_its_corner() -> None:
    images = noise(2, 5, 8, 3)
    out = padded(images, 4, 127)
    assert out.shape == (2, 8, 8, 3)
    np.testing.assert_array_equal(out[:, :5], images)
    assert (out[:, 5:] == 127).all()


# Torch backbones, with tiny or random networks of the real classes.


@pytest.fixture(scope="module")
def dinov2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    transformers = pytest.importorskip("transformers", reason="not installed (extra: hf)")
    folder = tmp_path_factory.mktemp("dinov2")
    torch.manual_seed(0)
    transformers.Dinov2Model(
        transformers.Dinov2Config(
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            mlp_ratio=2,
            patch_size=14,
            image_size=56,
        )
    ).save_pretrained(folder)
    processor = {
        "image_processor_type": "BitImageProcessor",
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.2, 0.25, 0.3],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


@pytest.fixture(scope="module")
def hub(dinov2: Path) -> Backbone:
    return load_backbone(f"hf:{dinov2}")


def test_hub_model_gives_its_patches_as_a_map(dinov2: Path, hub: Backbone) -> None:
    import torch
    import transformers

    images = noise(2, 42, 70, 3)
    (ours,) = hub.maps(images)
    assert (ours.stride, ours.values.shape, ours.size) == (14, (2, 3, 5, 24), (42, 70))
    model = transformers.AutoModel.from_pretrained(dinov2)
    x = (images / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.25, 0.3]
    with torch.inference_mode():
        tokens = model(torch.tensor(x.transpose(0, 3, 1, 2), dtype=torch.float32))[0]
    expected = tokens[:, 1:].reshape(2, 3, 5, 24).numpy()
    np.testing.assert_allclose(ours.values, expected, atol=1e-4)


def test_hub_model_takes_any_size_and_number_of_frames(
    hub: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = noise(5, 30, 41, 3)
    (whole,) = hub.maps(images)
    assert whole.values.shape == (5, 3, 3, 24)
    monkeypatch.setattr(torch_backbones, "PART", 2)
    np.testing.assert_allclose(hub.maps(images)[0].values, whole.values, atol=1e-5)


def test_a_changed_model_has_another_fingerprint(dinov2: Path, hub: Backbone) -> None:
    import transformers

    assert load_backbone(f"hf:{dinov2}").fingerprint == hub.fingerprint
    changed = transformers.AutoModel.from_pretrained(dinov2)
    changed.layernorm.bias.data += 1
    folder = dinov2.with_name("changed")
    changed.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_bytes(
        (dinov2 / "preprocessor_config.json").read_bytes()
    )
    other = load_backbone(f"hf:{folder}").fingerprint
    assert other.rsplit("-", 2)[1:] != hub.fingerprint.rsplit("-", 2)[1:]


def test_a_model_that_is_not_there_is_named(dinov2: Path) -> None:
    missing = dinov2.with_name("missing")
    with pytest.raises(BackboneError, match=f"hf:{missing} cannot be loaded"):
        load_backbone(f"hf:{missing}")


def test_a_model_without_patches_is_refused(tmp_path: Path, dinov2: Path) -> None:
    import transformers

    transformers.ResNetModel(
        transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1])
    ).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_bytes(
        (dinov2 / "preprocessor_config.json").read_bytes()
    )
    with pytest.raises(SettingError, match="no map of patches"):
        load_backbone(f"hf:{tmp_path}")


def test_threads_are_given_back(hub: Backbone) -> None:
    import torch

    before = torch.get_num_threads()
    hub.maps(noise(1, 28, 28, 3))
    assert torch.get_num_threads() == before


def test_a_missing_gpu_is_reported(dinov2: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(SettingError, match="'cuda' is not available"):
        load_backbone(f"hf:{dinov2}", "cuda")


def test_half_precision_on_a_gpu_agrees_with_the_cpu(dinov2: Path, hub: Backbone) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("this machine has no GPU")
    images = noise(70, 56, 84, 3)
    gpu = load_backbone(f"hf:{dinov2}", "cuda")
    np.testing.assert_allclose(gpu.maps(images)[0].values, hub.maps(images)[0].values, atol=2e-2)


def test_resnet50_gives_the_papers_map() -> None:
    try:
        backbone = resnet50(weights="random")
    except MissingExtraError as error:
        pytest.skip(str(error))
    (features,) = backbone.maps(noise(1, 70, 96, 3))
    assert features.values.shape == (1, 3, 3, 2048)
    assert (features.stride, backbone.channels) == (32, (2048,))
    assert (features.values >= 0).all()
    assert features.values.std() > 0


def test_vgg16_gives_the_papers_map() -> None:
    try:
        backbone = vgg16(weights="random")
    except MissingExtraError as error:
        pytest.skip(str(error))
    (features,) = backbone.maps(noise(1, 70, 96, 3))
    assert features.values.shape == (1, 5, 6, 512)
    assert (features.stride, backbone.channels) == (16, (512,))
    assert (features.values >= 0).all()
    assert features.values.std() > 0
    assert vgg16(weights="random").fingerprint == backbone.fingerprint


def test_weights_come_from_a_file(tmp_path: Path) -> None:
    try:
        import torch
        from torchvision import models
    except (ImportError, RuntimeError, OSError) as error:
        pytest.skip(f"torchvision does not import here: {error}")
    torch.manual_seed(3)
    torch.save(models.resnet50().state_dict(), tmp_path / "r.pth")
    given = load_backbone(f"resnet50:{tmp_path / 'r.pth'}")
    assert given.fingerprint != load_backbone("resnet50:random").fingerprint
    with pytest.raises(BackboneError, match=r"resnet50:.*no\.pth"):
        load_backbone(f"resnet50:{tmp_path / 'no.pth'}")


@pytest.mark.parametrize("spec", ["resnet50", "vgg16:random"])
def test_what_cannot_run_is_told_before_it_is_loaded(
    spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_backbone("lite0")
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(MissingExtraError, match=r"objectstates\[torch\]"):
        check_backbone(spec)
