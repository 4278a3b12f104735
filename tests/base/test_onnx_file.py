from contextlib import suppress

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from objectstates.base.onnx_file import FLOAT, INT64, UINT8, Node, external_names, model_file

INTEGERS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text("abcXYZ_.ü", min_size=1, max_size=200)
ATTRIBUTES = st.dictionaries(
    st.from_regex(r"[a-z]{1,8}", fullmatch=True),
    st.one_of(INTEGERS, st.floats(width=32, allow_nan=False), st.lists(INTEGERS, min_size=1)),
    max_size=4,
)
ARRAYS = st.builds(
    lambda kind, shape: np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind),
    st.sampled_from([np.float32, np.int64, np.uint8]),
    st.lists(st.integers(0, 4), max_size=3),
)
SHAPES = st.lists(st.one_of(st.integers(0, 2**31), NAMES, st.none()), max_size=4)


@given(NAMES, ATTRIBUTES, ARRAYS, SHAPES)
def test_the_bytes_are_those_that_onnx_writes(name, attributes, array, shape):
    written = model_file(
        name,
        [Node("Conv", ("x", name), "y", attributes)],
        [(name, array)],
        [("x", UINT8, shape)],
        [("y", FLOAT, shape)],
        operators=17,
        version=8,
    )
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", name], ["y"], **attributes)],
        name,
        [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(array, name)],
    )
    expected = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="objectstates",
    )
    assert written == expected.SerializeToString(deterministic=True)


def test_element_types_are_those_of_onnx():
    assert (FLOAT, UINT8, INT64) == (TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT64)


def stored_in(name: str, elsewhere: bool = True) -> TensorProto:
    tensor = TensorProto(dims=[1], data_type=TensorProto.FLOAT, name=name)
    tensor.external_data.add(key="offset", value="0")
    tensor.external_data.add(key="location", value=name)
    if elsewhere:
        tensor.data_location = TensorProto.EXTERNAL
    return tensor


def test_files_are_found_in_every_part_of_a_model():
    """Weights may be in constants, attributes, inner graphs, functions and training graphs."""
    inner = helper.make_graph([], "inner", [], [], [stored_in("of an inner graph")])
    nodes = [
        helper.make_node("Constant", [], ["a"], value=stored_in("of an attribute")),
        helper.make_node("If", ["a"], ["b"], then_branch=inner, else_branch=inner),
    ]
    graph = helper.make_graph(nodes, "g", [], [], [stored_in("of a constant")])
    graph.sparse_initializer.add(values=stored_in("values"), indices=stored_in("indices"))
    graph.initializer.append(stored_in("nowhere", elsewhere=False))
    model = helper.make_model(graph)
    model.training_info.add().algorithm.CopyFrom(
        helper.make_graph([], "t", [], [], [stored_in("of training")])
    )
    inside = helper.make_node("Constant", [], ["a"], value=stored_in("of a function"))
    model.functions.append(
        helper.make_function("d", "f", [], ["a"], [inside], [helper.make_opsetid("", 17)])
    )
    assert external_names(model.SerializeToString()) == {
        "of a constant", "of an attribute", "of an inner graph", "of a function", "of training",
        "values", "indices",
    }  # fmt: skip


@given(st.binary(max_size=60))
def test_bytes_that_are_no_model_are_refused_or_name_nothing(content):
    with suppress(ValueError):
        assert isinstance(external_names(content), set)
