"""Tiny networks of the real classes with random weights, saved as the hub's are."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_lowercase
from typing import Any

LABELS = {0: "hand", 1: "drawer", 2: "door"}


def save_owl(folder: Path) -> Path:
    import transformers

    layers = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    tokens = _clip_tokenizer(folder)
    config = transformers.Owlv2Config(
        text_config={**layers, "vocab_size": tokens, "max_position_embeddings": 16},
        vision_config={**layers, "image_size": 64, "patch_size": 16},
        projection_dim=16,
    )
    _save(transformers.Owlv2ForObjectDetection(config), folder)
    return _processor(folder, "Owlv2", size={"height": 64, "width": 64})


def save_grounding_dino(folder: Path) -> Path:
    import transformers

    tokens = _bert_tokenizer(folder)
    backbone = transformers.SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 1, 1],
        window_size=4,
        out_features=["stage2", "stage3", "stage4"],
    )
    text = transformers.BertConfig(
        vocab_size=tokens,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
    )
    config = transformers.GroundingDinoConfig(
        backbone_config=backbone,
        text_config=text,
        d_model=32,
        encoder_layers=1,
        encoder_ffn_dim=16,
        encoder_attention_heads=2,
        decoder_layers=2,
        decoder_ffn_dim=16,
        decoder_attention_heads=2,
        num_queries=20,
        max_text_len=64,
    )
    _save(transformers.GroundingDinoForObjectDetection(config), folder)
    return _processor(folder, "GroundingDino", size={"shortest_edge": 64, "longest_edge": 96})


def save_yolos(folder: Path) -> Path:
    import transformers

    config = transformers.YolosConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=[64, 96],
        patch_size=16,
        num_detection_tokens=20,
        id2label=LABELS,
        label2id={name: i for i, name in LABELS.items()},
    )
    _save(transformers.YolosForObjectDetection(config), folder, seed=3)  # finds drawers and doors
    return _processor(folder, "Yolos", size={"shortest_edge": 64, "longest_edge": 96})


def _save(network: Any, folder: Path, seed: int = 0) -> None:
    """Random weights are shy: make every box somewhere else, and scores spread."""
    import torch

    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weights in network.named_parameters():
            if weights.ndim > 1:
                torch.nn.init.normal_(weights, std=0.5)
            elif name.endswith("bias"):
                torch.nn.init.normal_(weights, std=0.3)
    network.save_pretrained(folder)


def _processor(folder: Path, kind: str, **more: Any) -> Path:
    names = {"image_processor_type": f"{kind}ImageProcessor"}
    if kind != "Yolos":
        names["processor_class"] = f"{kind}Processor"
    _write(folder / "preprocessor_config.json", names | more)
    return folder


def _clip_tokenizer(folder: Path) -> int:
    """Letters are the words."""
    pieces = [*ascii_lowercase, *(f"{c}</w>" for c in ascii_lowercase)]
    tokens = [*pieces, "<|startoftext|>", "<|endoftext|>"]
    _write(folder / "vocab.json", {token: i for i, token in enumerate(tokens)})
    (folder / "merges.txt").write_text("#version: 0.2\n")
    _write(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "CLIPTokenizer", "model_max_length": 16, "pad_token": "<|endoftext|>"},
    )
    return len(tokens)


def _bert_tokenizer(folder: Path) -> int:
    pieces = [*ascii_lowercase, *(f"##{c}" for c in ascii_lowercase)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", *pieces]
    (folder / "vocab.txt").write_text("\n".join(tokens))
    _write(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "BertTokenizer", "model_max_length": 64, "do_lower_case": True},
    )
    return len(tokens)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content))
