"""What a GPU gives: ``python -m benchmarks.gpu [--device cuda]``.

Maps of 320 x 240 frames per second, for the paper's ResNet-50 and for DINOv2-small with random
weights (their speed is that of the real ones): the network alone on frames that lie on the device,
and the whole way of a batch, from frames in host memory to maps in host memory, with and without
the pooling of boxes. The ratio says how much of the GPU's rate is left. The CPU stands beside it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from objectstates.features.backbones import at_strides
from objectstates.features.roi import describe_boxes
from objectstates.features.torch_backbones import PART, TorchBackbone, resnet50

RESULTS = Path(__file__).parent / "results"
SIZE = (240, 320)
BATCHES = (1, 64, 128, 512)
BOXES = 5  # per frame


def dinov2_small(device: str, threads: int = 1) -> TorchBackbone:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.Dinov2Config(hidden_size=384, num_attention_heads=6, patch_size=14)
    network = transformers.AutoModel.from_config(config).eval()

    def forward(x: Any) -> Any:
        rows, columns = x.shape[2] // 14, x.shape[3] // 14
        tokens = network(x).last_hidden_state[:, -rows * columns :]
        return tokens.reshape(len(x), rows, columns, 384).permute(0, 3, 1, 2)

    return TorchBackbone(
        network, forward, name="dinov2-small", stride=14, channels=384, device=device,
        threads=threads,
    )  # fmt: skip


def rate(work: Callable[[], object], frames: int, seconds: float = 1.0, repeats: int = 5) -> float:
    """Median frames per second, each time for about ``seconds``."""
    work()
    begun = time.perf_counter()
    work()
    rounds = max(1, round(seconds / max(time.perf_counter() - begun, 1e-6)))
    rates = []
    for _ in range(repeats):
        begun = time.perf_counter()
        for _ in range(rounds):
            work()
        rates.append(rounds * frames / (time.perf_counter() - begun))
    return median(rates)


def network_alone(backbone: TorchBackbone, device: str) -> float:
    """Frames per second of the network on bytes that lie on the device."""
    import torch

    frames = torch.zeros((PART, *SIZE, 3), dtype=torch.uint8, device=device)

    def work() -> None:
        with torch.inference_mode():
            for _ in range(8):
                backbone._map(frames)
        torch.cuda.synchronize()

    return rate(work, 8 * PART)


def measure(name: str, make: Callable[..., TorchBackbone], device: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    backbone = make(device)
    row: dict[str, Any] = {"backbone": name, "network_alone": network_alone(backbone, device)}
    for batch in BATCHES:
        frames = rng.integers(0, 255, (batch, *SIZE, 3), np.uint8)
        row[f"maps_{batch}"] = rate(lambda frames=frames: backbone.maps(frames), batch)
    corner = rng.uniform(0, 100, (BOXES, 2))
    boxes = [np.hstack([corner, corner + 80])] * len(frames)

    def described() -> None:
        maps = at_strides(backbone.maps(frames), backbone.appearance_strides)
        describe_boxes(maps, boxes)

    row["boxes_described"] = rate(described, len(frames))
    row["share_of_network_alone"] = row[f"maps_{BATCHES[-1]}"] / row["network_alone"]
    on_cpu = make("cpu", threads=1)
    row["cpu_one_core"] = rate(lambda: on_cpu.maps(frames[:2]), 2, repeats=3)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu.json")
    arguments = parser.parse_args()
    import torch

    torch.manual_seed(0)
    rows = [
        measure("resnet50", lambda *a, **k: resnet50(*a, **k, pretrained=False), arguments.device),
        measure("dinov2-small", dinov2_small, arguments.device),
    ]
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(
            f"{name:24}", *(f"{v:>14,.2f}" if isinstance(v, float) else f"{v:>14}" for v in values)
        )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    facts = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
    arguments.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
