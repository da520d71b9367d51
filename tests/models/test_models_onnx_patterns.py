"""Patterns: each row of the table is found in a graph made from it, and named in a refusal."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_sweeps import reference

from fluidnpu.models import Network, read_onnx
from fluidnpu.models.errors import NetworkError
from fluidnpu.models.numeric.float_reference import run_float_outputs
from fluidnpu.models.onnx.file import OnnxFile
from fluidnpu.models.onnx.reading import reader
from fluidnpu.models.onnx.reading.patterns import MOST_UP, SHAPES, Any, Expression, Number, Patterns, Row


class Sketch:
    """Nodes and constants of a graph with the input "image" (1, 4, 8, 8)."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.names = (f"v{n}" for n in itertools.count())

    def constant(self, value: npt.ArrayLike) -> str:
        """Add a constant."""
        name = next(self.names)
        self.constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Add a node; return its output."""
        name = next(self.names)
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind}_{name}", **attributes))
        return name

    def of(self, shape: Expression, x: str, turned: bool) -> str:
        """Add the nodes of a pattern's expression, with sums and products in the other order if `turned`."""
        if isinstance(shape, Any):
            return x
        if isinstance(shape, Number):
            return self.constant(0.7 if shape.value is None else shape.value)
        attributes = {name: value for name, value, _ in shape.attributes}
        operands = [self.of(operand, x, turned) for operand in shape.operands]
        kind = shape.kinds.split("|")[0]
        if kind == "Reshape":
            self.constants.append(numpy_helper.from_array(np.array([1, 2, -1], np.int64), "groups"))
            return self.op(kind, *operands, "groups")
        if turned and kind in ("Add", "Mul"):
            operands.reverse()
        return self.op(kind, *operands, **attributes)

    def saved(self, path: Path, output: str) -> OnnxFile:
        """Write the graph, with an output."""
        weights = self.constant(np.full((4, 4, 3, 3), 0.1))  # a layer behind it, so that the host cannot run it
        last = self.op("Conv", output, weights)
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 4, 8, 8))
        end = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "sketch", [image], [end], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
        return OnnxFile(path)

    def conv(self, x: str, inputs: int, outputs: int) -> str:
        """Add a 1x1 convolution."""
        return self.op("Conv", x, self.constant(np.full((outputs, inputs, 1, 1), 0.1)))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("row", SHAPES, ids=lambda row: row[0])
def test_each_row_is_found_and_lowered_or_named(row: Row, turned: bool, tmp_path: Path) -> None:
    sketch = Sketch()
    last = sketch.of(row.shape, sketch.conv("image", 4, 4), turned)
    file = sketch.saved(tmp_path / "row.onnx", last)
    patterns = Patterns(file)
    pattern = patterns.at[file.producers[last]]
    assert (pattern.name, pattern.gives) == (row.name, last)
    assert pattern.nodes == {index for index, node in enumerate(file.model.graph.node) if node.op_type != "Conv"}
    assert patterns.nodes[file.producers[pattern.reads]].op_type == "Conv"
    if not row.function:
        words = f"is part of a {row.name}, " if len(pattern.nodes) > 1 else "is not supported"
        with pytest.raises(NetworkError, match=f"{words}.*{row.remedy}"):
            read_onnx(file.path)
        return
    network = read_onnx(file.path)
    layer, _ = network.layers  # the table stands behind the layer before it
    assert layer.activation is not None
    assert layer.activation.function == row.function
    agrees(file, network)


def agrees(file: OnnxFile, network: Network) -> None:
    """Hold the float run of a network to onnxruntime, where that knows the operators."""
    images = np.random.default_rng(3).normal(0, 4, (2, 8, 8, 4)).astype(np.float32)
    wanted = reference(file.model, images.transpose(0, 3, 1, 2))
    if wanted is not None:
        (answer,) = run_float_outputs(network, images).values()
        np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_what_is_read_beside_a_pattern_keeps_its_nodes_apart(tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.conv("image", 4, 4)
    gate = sketch.op("Sigmoid", x)
    file = sketch.saved(tmp_path / "open.onnx", sketch.op("Add", sketch.op("Mul", x, gate), gate))
    network = read_onnx(file.path)
    uses = [None if layer.activation is None else str(layer.activation.use) for layer in network.layers]
    assert uses == [None, "table", "product", None, None]
    agrees(file, network)


@pytest.mark.parametrize("bounds", [(0.0, 5.0), (-1.0, 6.0), (0.0, None)])
def test_a_clip_to_other_bounds_is_no_hard_swish(bounds: tuple[float, float | None], tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.conv("image", 4, 4)
    limits = ["" if bound is None else sketch.constant(bound) for bound in bounds]
    clipped = sketch.op("Clip", sketch.op("Add", x, sketch.constant(3.0)), *limits)
    file = sketch.saved(tmp_path / "clip.onnx", sketch.op("Mul", x, sketch.op("Div", clipped, sketch.constant(6.0))))
    network = read_onnx(file.path)
    assert not any(layer.activation and layer.activation.function for layer in network.layers)
    agrees(file, network)


def test_the_slope_of_a_sigmoid_is_the_function_s(tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.conv("image", 4, 4)
    inner = sketch.op("Mul", x, sketch.constant(1.702))
    file = sketch.saved(tmp_path / "quick.onnx", sketch.op("Mul", x, sketch.op("Sigmoid", inner)))
    network = read_onnx(file.path)
    assert network.layers[0].activation is not None
    assert network.layers[0].activation.parameters == pytest.approx((1.702,))
    agrees(file, network)


def gated(sketch: Sketch, kind: str) -> str:
    x = sketch.conv("image", 4, 4)
    if kind == "squeeze-and-excitation gate":
        factor = sketch.op("HardSigmoid", sketch.conv(sketch.op("GlobalAveragePool", x), 4, 4))
    elif kind == "spatial gate":
        axes = sketch.op("Constant", value=numpy_helper.from_array(np.array([1], np.int64)))
        factor = sketch.op("Sigmoid", sketch.conv(sketch.op("ReduceMean", x, axes), 1, 1))
    else:
        factor = sketch.conv(x, 4, 4)
    return sketch.op("Mul", x, factor)


@pytest.mark.parametrize("kind", ["squeeze-and-excitation gate", "spatial gate", "product of maps"])
def test_products_of_maps_are_told_apart_and_taken(kind: str, tmp_path: Path) -> None:
    sketch = Sketch()
    last = gated(sketch, kind)
    file = sketch.saved(tmp_path / "gate.onnx", last)
    assert Patterns(file).at[file.producers[last]].name == kind
    network = read_onnx(file.path)
    (product,) = (layer for layer in network.layers if layer.multiplies)
    assert product.residual_step == ((0, 0) if kind == "squeeze-and-excitation gate" else (1, 1))
    assert product.residual_spread == (kind == "spatial gate")
    agrees(file, network)


def test_a_layer_norm_in_parts_is_one_pattern(tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.conv("image", 4, 4)
    centred = sketch.op("Sub", x, sketch.op("ReduceMean", x))
    spread = sketch.op("ReduceMean", sketch.op("Pow", centred, sketch.constant(2.0)))
    last = sketch.op("Div", centred, sketch.op("Sqrt", sketch.op("Add", spread, sketch.constant(1e-6))))
    file = sketch.saved(tmp_path / "norm.onnx", last)
    pattern = Patterns(file).at[file.producers[centred]]
    assert (pattern.name, pattern.reads, pattern.gives, len(pattern.nodes)) == ("LayerNorm", x, last, 7)
    with pytest.raises(NetworkError, match="LayerNorm, a pattern of 7 nodes; train with batch normalisation"):
        read_onnx(file.path)


def test_attention_is_found_from_its_two_products(tmp_path: Path) -> None:
    sketch = Sketch()
    q, k, v = (sketch.conv("image", 4, 4) for _ in range(3))
    scores = sketch.op("Softmax", sketch.op("Mul", sketch.op("MatMul", q, k), sketch.constant(0.5)))
    last = sketch.op("MatMul", scores, v)
    file = sketch.saved(tmp_path / "attention.onnx", last)
    pattern = Patterns(file).at[file.producers[last]]
    assert pattern.name == "attention"
    assert {file.model.graph.node[index].op_type for index in pattern.nodes} == {"MatMul", "Softmax", "Mul"}


def test_numbers_of_another_value_are_another_graph(tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.conv("image", 4, 4)
    near = sketch.op("Clip", sketch.op("Add", x, sketch.constant(2.0)), sketch.constant(0), sketch.constant(6))
    last = sketch.op("Div", sketch.op("Mul", x, near), sketch.constant(6.0))
    file = sketch.saved(tmp_path / "other.onnx", last)
    assert {pattern.name for pattern in Patterns(file).at.values()} == {"product of maps"}


def test_patterns_are_looked_for_once_a_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = Sketch()
    x = sketch.conv("image", 4, 4)
    last = sketch.op("Sum", *(sketch.op("Sin", x) for _ in range(20)))
    file = sketch.saved(tmp_path / "many.onnx", last)
    file.model.graph.node.pop()  # the layer behind it, so that the host may run all of them
    file.model.graph.output[0].name = last
    onnx.save(file.model, file.path)
    looked: list[OnnxFile] = []

    def patterns_of(file: OnnxFile) -> Patterns:
        looked.append(file)
        return Patterns(file)

    monkeypatch.setattr(reader, "Patterns", patterns_of)
    network = read_onnx(file.path)
    assert network.tail is not None
    assert len(looked) == 2 < len(network.tail.nodes)  # of the whole graph, and of what is before the tail


def test_long_chains_are_no_part_of_a_pattern(tmp_path: Path) -> None:
    sketch = Sketch()
    x = scores = sketch.conv("image", 4, 4)
    number = sketch.constant(6.0)
    for _ in range(2000):
        scores = sketch.op("Add", scores, sketch.constant(1.0))
        number = sketch.op("Identity", number)
    last = sketch.op("MatMul", sketch.op("Softmax", scores), x)
    gate = sketch.op(
        "Mul", x, sketch.op("Clip", sketch.op("Add", x, sketch.constant(3.0)), sketch.constant(0.0), number)
    )
    end = sketch.op("Add", last, sketch.op("Div", gate, number))
    patterns = Patterns(sketch.saved(tmp_path / "long.onnx", end))
    assert {one.name: len(one.nodes) for one in patterns.at.values()} == {"attention": MOST_UP, "HardSwish": 4}
