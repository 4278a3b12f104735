"""The language model as an ONNX graph, against the same network written out in NumPy."""

import json
import math

import numpy as np
import pytest

from objectstates.base.errors import MissingExtraError, NarrationError, SettingError
from objectstates.narration.embeddings import EmbeddingSvm, PhraseMatcher
from objectstates.narration.retrieval import retrieve
from objectstates.narration.sentence_encoder import SentenceEncoder, build_graph
from objectstates.narration.sentences import Sentences, load_action
from objectstates.narration.text_classifier import cross_validate
from objectstates.narration.transcript import Narration

HIDDEN, HEADS, LAYERS, INNER = 16, 4, 2, 24
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "open", "the", "door", "close", "wheel", "put", "on"]
CONFIG = {
    "model_type": "bert",
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "max_position_embeddings": 32,
}


def random_weights(seed=0):
    rng = np.random.default_rng(seed)
    shapes = {
        "embeddings.word_embeddings.weight": (len(WORDS), HIDDEN),
        "embeddings.position_embeddings.weight": (32, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
        "embeddings.LayerNorm.weight": (HIDDEN,),
        "embeddings.LayerNorm.bias": (HIDDEN,),
    }
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        dense = {
            "attention.self.query": (HIDDEN, HIDDEN),
            "attention.self.key": (HIDDEN, HIDDEN),
            "attention.self.value": (HIDDEN, HIDDEN),
            "attention.output.dense": (HIDDEN, HIDDEN),
            "intermediate.dense": (INNER, HIDDEN),
            "output.dense": (HIDDEN, INNER),
        }
        for name, shape in dense.items():
            shapes[f"{prefix}{name}.weight"] = shape
            shapes[f"{prefix}{name}.bias"] = shape[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{prefix}{name}.weight"] = shapes[f"{prefix}{name}.bias"] = (HIDDEN,)
    return {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}


def by_hand(weights, ids):
    """One sentence without padding, one head after the other."""
    w = {name: value.astype(float) for name, value in weights.items()}

    def norm(x, name):
        centred = x - x.mean(1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-12)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def dense(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        p = f"encoder.layer.{layer}."
        q, k, v = (dense(x, f"{p}attention.self.{n}") for n in ("query", "key", "value"))
        heads = []
        for h in range(HEADS):
            part = slice(h * HIDDEN // HEADS, (h + 1) * HIDDEN // HEADS)
            scores = np.exp(q[:, part] @ k[:, part].T / math.sqrt(HIDDEN / HEADS))
            heads.append(scores / scores.sum(1, keepdims=True) @ v[:, part])
        attended = dense(np.concatenate(heads, 1), f"{p}attention.output.dense")
        x = norm(x + attended, f"{p}attention.output.LayerNorm")
        inner = dense(x, f"{p}intermediate.dense")
        inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        x = norm(x + dense(inner, f"{p}output.dense"), f"{p}output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


@pytest.fixture
def model(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    weights = random_weights()
    safetensors.save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path, weights


def test_the_graph_is_the_network_whatever_the_padding(model):
    folder, weights = model
    texts = [
        "open the door",
        "wheel",
        "close the door",
        "put the wheel on the door",
        "open the door",
    ]
    vectors = SentenceEncoder(folder).encode(texts)
    for text, vector in zip(texts, vectors, strict=True):
        ids = [2, *(WORDS.index(word) for word in text.split()), 3]
        np.testing.assert_allclose(vector, by_hand(weights, ids), atol=2e-6)
    assert SentenceEncoder(folder).encode([]).shape == (0, HIDDEN)


def test_long_texts_are_cut_at_what_the_model_knows(model):
    vectors = SentenceEncoder(model[0]).encode(["open " * 500])
    assert np.isfinite(vectors).all()


def test_models_that_are_not_one_are_named(model, tmp_path):
    folder, weights = model
    with pytest.raises(NarrationError, match=r"config\.json"):
        SentenceEncoder(tmp_path / "nothing")
    (folder / "config.json").write_text(json.dumps({**CONFIG, "model_type": "gpt2"}))
    with pytest.raises(NarrationError, match="gpt2"):
        SentenceEncoder(folder)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "model.safetensors").write_bytes(b"noise")
    with pytest.raises(NarrationError, match="cannot be loaded"):
        SentenceEncoder(folder)
    with pytest.raises(ValueError, match="relu"):
        build_graph(weights, {**CONFIG, "hidden_act": "relu"})


class Letters:
    """A stand-in with known vectors: counts of letters."""

    def encode(self, texts):
        rows = np.array(
            [[text.count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for text in texts], "f4"
        )
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def spoken(text):
    words = text.split()
    starts = 0.5 * np.arange(len(words))
    return Narration("v", words, np.stack([starts, starts + 0.5], 1))


def test_a_phrase_is_found_where_it_is_said():
    text = (
        "one two three four five six seven eight nine ten zebra zigzag pizza puzzle " + "go on " * 9
    )
    matcher = PhraseMatcher(Letters(), "Pizza, zigzag!", window=4, stride=2)
    (clip,) = retrieve([spoken(text)], matcher)
    assert {"zigzag", "pizza"} <= {*clip.said.split()}
    with pytest.raises(SettingError, match="no words"):
        PhraseMatcher(Letters(), "...")
    with pytest.raises(SettingError, match="stride"):
        PhraseMatcher(Letters(), "pizza", stride=11)


def test_sentences_are_learned_from_their_vectors():
    sentences = Sentences(
        ("zap the zoo", "zigzag zone", "fuzzy pizza"),
        ("open the box", "put it on", "see you later"),
    )
    svm = EmbeddingSvm(Letters())
    judged = cross_validate(svm, sentences)
    assert judged.folds == 3
    assert judged.average_precision > 0.9
    assert svm.decide(["zzz", "toe"])[0] > svm.decide(["zzz", "toe"])[1]


def test_the_real_model_knows_what_words_mean():
    try:
        encoder = SentenceEncoder()
    except MissingExtraError as problem:
        pytest.skip(str(problem))
    phrase, same, other = encoder.encode(
        ["remove the tire", "take the wheel off the car", "pour some coffee in the cup"]
    )
    assert phrase @ same > phrase @ other + 0.3
    action = load_action("close-fridge")
    assert cross_validate(EmbeddingSvm(encoder), action.sentences).average_precision > 0.9
