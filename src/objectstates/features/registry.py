"""Backbones by name.

``lite0`` needs nothing but the core dependencies. The others need an extra: ``resnet50`` and
``vgg16``, the paper's, and ``hf:MODEL``, any vision transformer of the Hugging Face hub.
``resnet50:FILE`` and ``vgg16:FILE`` take weights from a file of torchvision's names, for machines
without a network; ``resnet50:random`` and ``vgg16:random`` have random ones, for tests.
"""

from __future__ import annotations

from collections.abc import Sequence

from objectstates.base.errors import SettingError
from objectstates.base.torch_utils import needs_extra
from objectstates.features.backbones import Backbone

NAMES = "lite0, resnet50, vgg16 or hf:MODEL"
_TORCHVISION = ("resnet50", "vgg16")


def load_backbone(
    spec: str = "lite0",
    device: str = "cpu",
    *,
    strides: Sequence[int] | None = None,
    threads: int = 1,
) -> Backbone:
    """Load the backbone that ``spec`` names.

    spec : ``lite0``; ``resnet50`` or ``vgg16``, also with a colon and a file of weights or
        ``random``; or ``hf:MODEL`` with a model's name on the hub or its folder.
    device : where torch backbones run: ``cpu``, ``cuda``, ``cuda:1``. ``lite0`` runs on the CPU.
    strides : the maps to compute, by default all; only ``lite0`` has a choice.
    threads : on the CPU; one, because videos are processed one per core.
    """
    kind, name = _parsed(spec)
    if kind == "lite0":
        from objectstates.features.lite0 import Lite0

        if device != "cpu":
            raise SettingError(f"`device`: lite0 runs on cpu, not on {device!r}")
        return Lite0(tuple(strides) if strides is not None else Lite0.STRIDES, threads)
    from objectstates.features import torch_backbones

    if kind == "hf":
        backbone: Backbone = torch_backbones.hub_model(name, device, threads)
    else:
        backbone = getattr(torch_backbones, kind)(device, threads, weights=name or "imagenet")
    if strides is not None and tuple(strides) != backbone.strides:
        raise SettingError(f"`strides`: {spec} has {backbone.strides}, not {tuple(strides)}")
    return backbone


def check_backbone(spec: str) -> None:
    """Raise unless ``spec`` names a backbone whose extra is installed; nothing is loaded."""
    kind, _ = _parsed(spec)
    if kind in _TORCHVISION:
        with needs_extra("torch", f"backbone {spec}"):
            import torchvision  # noqa: F401
    elif kind == "hf":
        with needs_extra("hf", f"backbone {spec}"):
            import transformers  # noqa: F401


def backbone_device(spec: str, device: str) -> str:
    """Where a backbone runs if torch models run on ``device``."""
    return "cpu" if spec == "lite0" else device


def _parsed(spec: str) -> tuple[str, str]:
    """The kind, and what follows the colon."""
    kind, colon, name = spec.partition(":")
    named = {"lite0": False, "hf": True}  # whether there must be a name
    if (kind in named and named[kind] == bool(name) == bool(colon)) or (
        kind in _TORCHVISION and bool(colon) == bool(name)
    ):
        return kind, name
    raise SettingError(f"no backbone {spec!r}: choose {NAMES}")
