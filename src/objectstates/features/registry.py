"""Backbones by name.

``lite0`` needs nothing but the core dependencies; ``resnet50`` (the paper's) and ``hf:MODEL`` (any
vision transformer of the Hugging Face hub) need an extra.
"""

from __future__ import annotations

from collections.abc import Sequence

from objectstates.base.errors import SettingError
from objectstates.features.backbones import Backbone


def load_backbone(
    spec: str = "lite0",
    device: str = "cpu",
    *,
    strides: Sequence[int] | None = None,
    threads: int = 1,
) -> Backbone:
    """Load the backbone that ``spec`` names.

    spec : ``lite0``, ``resnet50``, or ``hf:MODEL`` with a model's name on the hub or its folder.
    device : where torch backbones run: ``cpu``, ``cuda``, ``cuda:1``. ``lite0`` runs on the CPU.
    strides : the maps to compute, by default all; only ``lite0`` has a choice.
    threads : on the CPU; one, because videos are processed one per core.
    """
    if spec == "lite0":
        from objectstates.features.lite0 import Lite0

        if device != "cpu":
            raise SettingError(f"`device`: lite0 runs on cpu, not on {device!r}")
        return Lite0(tuple(strides) if strides is not None else Lite0.STRIDES, threads)
    if spec == "resnet50":
        from objectstates.features.torch_backbones import resnet50

        backbone: Backbone = resnet50(device, threads)
    elif spec.startswith("hf:") and len(spec) > 3:
        from objectstates.features.torch_backbones import hub_model

        backbone = hub_model(spec.removeprefix("hf:"), device, threads)
    else:
        raise SettingError(f"no backbone {spec!r}: choose lite0, resnet50 or hf:MODEL")
    if strides is not None and tuple(strides) != backbone.strides:
        raise SettingError(f"`strides`: {spec} has {backbone.strides}, not {tuple(strides)}")
    return backbone
