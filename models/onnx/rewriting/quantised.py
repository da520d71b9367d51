"""Quantised ONNX graphs as the float graphs that they approximate: QDQ, QOperator, dynamic and QONNX.

A stored integer q stands for the number (q - zero point) * scale, and each value of integers becomes a value
of these numbers. QuantizeLinear is then a clip to the numbers that its integers can stand for: onnxruntime
removes a ReLU in front of it, since saturation at a zero point of the least integer is the same. Rounding to
the step is left out: the NPU's 16 bits are finer. Constants are left to folding (constants.py).

Operators: ONNX's QuantizeLinear, DequantizeLinear, QLinearConv, QLinearMatMul, ConvInteger, MatMulInteger and
DynamicQuantizeLinear; onnxruntime's contrib operators of com.microsoft; and QONNX's Quant and BipolarQuant.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...errors import NetworkError
from ..file import FOUR_BITS, Attributes, OnnxFile, label, refuse
from ..metadata import PREFIX, record
from .constants import constant_node

_STANDARD = ("", "ai.onnx")
_QONNX = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")
_MOVES = {
    "Clip",
    "Concat",
    "DepthToSpace",
    "Dropout",
    "Expand",
    "Flatten",
    "Gather",
    "GlobalMaxPool",
    "Identity",
    "MaxPool",
    "Reshape",
    "Resize",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
}  # they return integers of their input, whose scale they keep
_WITHIN = {"AveragePool", "GlobalAveragePool", *_MOVES}  # they give nothing beyond what they read, and zero
_ENDS = {"Softmax", "LogSoftmax", "Sigmoid"}  # the host's
_LINEAR = {
    "Add",
    "BatchNormalization",
    "Div",
    "Mul",
    "QLinearAdd",
    "QLinearMul",
    "Sub",
    "Sum",
}  # folded, if no clip is before
_FEWEST = 255  # numbers of a grid, whose step may be left out: 8 bits, perhaps without the least integer


class Grid(NamedTuple):
    """The numbers that a value's integers stand for: (integer - zero) * scale, for integers of low..high."""

    scale: float
    zero: float
    low: int
    high: int

    @property
    def clip(self) -> tuple[float, float]:
        """The least and the largest number."""
        return (self.low - self.zero) * self.scale, (self.high - self.zero) * self.scale

    @property
    def of_int8(self) -> tuple[float, int] | None:
        """The scale and the zero point of the same numbers in int8; None of other widths."""
        if self.high - self.low not in (254, 255) or self.zero != round(self.zero):
            return None
        return self.scale, round(self.zero) + (-128 if self.low >= 0 else 0)

    @property
    def largest(self) -> float:
        """The largest magnitude of its numbers."""
        return max(-self.clip[0], self.clip[1])


def is_quantised(file: OnnxFile) -> bool:
    """True if a needed node of a file is an operator on integers of a scale."""
    return any(_handler(node) is not None for node in file.order)


def dequantise(file: OnnxFile) -> OnnxFile:
    """Return a quantised file as a float one; its metadata say so, and hold the ranges of its scales.

    Raises ModelFileError for what has no float form.
    """
    return _Dequantiser(file).file()


def _handler(node: onnx.NodeProto) -> _Handler | None:
    if node.domain in _STANDARD:
        return HANDLERS.get(node.op_type)
    family = "qonnx" if node.domain in _QONNX else node.domain
    return HANDLERS.get(f"{family}.{node.op_type}")


class _Dequantiser:
    """The float graph in the making: nodes, constants, and what each name of the old graph is now."""

    def __init__(self, source: OnnxFile) -> None:
        self.source = source
        self.nodes: list[onnx.NodeProto] = []
        self.kinds: dict[str, str] = {}  # the operator that writes a name of the float graph
        self.bounds: dict[str, tuple[float, float]] = {}  # of its numbers, where they are known
        self.constants: dict[str, TensorProto] = {}
        self.names: dict[str, str] = {}  # of the float graph for a name of the old one, where it is another
        self.grids: dict[str, Grid] = {}  # by name of the old graph
        self.ranges: dict[str, float] = {}
        self.scaled: dict[str, Grid] = {}  # by name of the float graph
        self.left_out = 0  # saturations that a sum reads, each a layer for what calibration has not seen
        self.readers: dict[str, list[onnx.NodeProto]] = {}
        self.producers = {output: node for node in source.order for output in node.output}
        for node in source.order:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        self.outputs = {value.name for value in source.model.graph.output}
        self.images = {value.name for value in source.model.graph.input} - set(source.protos)
        self.taken = {*source.producers, *source.protos, *self.images}
        self.computed = self._computed()

    def _computed(self) -> set[str]:
        """Names that depend on the input."""
        names = set(self.images)
        for node in self.source.order:
            if not names.isdisjoint(node.input) and node.op_type != "Shape":
                names.update(filter(None, node.output))
        return names

    def file(self) -> OnnxFile:
        """Walk the graph and return the float file."""
        count = 0
        for node in self.source.order:
            try:
                count += self.visit(node)
            except NetworkError:
                raise
            except (ValueError, IndexError, TypeError, KeyError, OverflowError) as error:
                raise refuse(node, f"must be well formed, and reading it failed with: {str(error)[:120]}") from error
        for name in sorted(self.outputs & set(self.grids)):
            raise refuse(self.producers[name], f"returns '{name}' as integers: end the graph with a DequantizeLinear")
        model = onnx.ModelProto()
        model.CopyFrom(self.source.model)
        graph = model.graph
        for field in (graph.node, graph.value_info):
            del field[:]
        needed = {name for node in self.nodes for name in node.input} | self.outputs
        kept = [tensor for tensor in graph.initializer if tensor.name in needed]
        del graph.initializer[:]
        graph.initializer.extend([*kept, *(tensor for name, tensor in self.constants.items() if name in needed)])
        graph.node.extend(self.nodes)
        if count:
            open_ends = f"; operands of sums that are not saturated: {self.left_out}" if self.left_out else ""
            record(model, "quantised", f"{count} nodes on integers, read as float{open_ends}", self.ranges)
            grids = {name: grid.of_int8 for name, grid in self.scaled.items() if grid.of_int8 is not None}
            model.metadata_props.append(onnx.StringStringEntryProto(key=PREFIX + "grids", value=json.dumps(grids)))
        return OnnxFile(self.source.path, model)

    def visit(self, node: onnx.NodeProto) -> bool:
        """Add what a node is in the float graph; True for an activation's operator on integers."""
        handler = _handler(node)
        reads = [name for name in node.input if name in self.computed]
        if handler is not None and (reads or handler in (_quant, _bipolar)):
            handler(self, node)
            return bool(reads)
        if any(name in self.grids for name in reads):
            self.move(node)
            return False
        made = self.keep(node)
        if handler is not None:  # between constants
            made.domain = ""
            proto = self.source.protos.get(node.input[2]) if len(node.input) > 2 else None
            if proto is not None and proto.data_type in FOUR_BITS and node.op_type == "QuantizeLinear":
                made.attribute.append(helper.make_attribute("output_dtype", proto.data_type))
        return False

    # -- what handlers read ----------------------------------------------------------------------------------

    def constant(self, node: onnx.NodeProto, index: int) -> npt.NDArray[Any] | None:
        """Return the constant at an input, of an initialiser or a Constant node, or None where it is left
        out.
        """
        if index >= len(node.input) or not node.input[index]:
            return None
        name = node.input[index]
        producer = self.producers.get(name)
        while producer is not None and producer.op_type == "Identity" and producer.input:
            name = producer.input[0]
            producer = self.producers.get(name)
        if name in self.source.protos:
            return self.source.constant(name)
        if producer is None or producer.op_type != "Constant":
            raise refuse(node, f"must have a constant at input {index}, and '{node.input[index]}' is computed")
        return constant_node(producer)

    def array(self, node: onnx.NodeProto, index: int) -> npt.NDArray[Any]:
        """Return the constant at an input that must be there."""
        array = self.constant(node, index)
        if array is None:
            raise refuse(node, f"must have an input {index}, and it is left out")
        return array

    def weights(self, node: onnx.NodeProto, index: int, scale: Any, zero: Any, axis: int) -> npt.NDArray[np.float32]:
        """Return the numbers of constant integers, of one scale or one for each position of an axis."""
        array = self.array(node, index).astype(np.float64)
        real = (array - _along(zero, array, axis)) * _along(scale, array, axis)
        return np.asarray(real, np.float32)

    def grid(self, node: onnx.NodeProto, scale: int, zero: int | None = None, default: Any = np.uint8) -> Grid:
        """Return the grid that two inputs of a node say: a scale, and a zero point or that of `default`."""
        scales = self.array(node, scale)
        zeros = self.constant(node, scale + 1 if zero is None else zero)
        zeros = np.zeros(1, default) if zeros is None else zeros
        if scales.size != 1 or zeros.size != 1:
            raise refuse(node, "must have one scale for an activation, and it has one for each channel")
        if not scales.reshape(-1)[0] > 0:
            raise refuse(node, f"must have a scale above 0, not {scales.reshape(-1)[0]:g}")
        name = node.input[scale + 1 if zero is None else zero] if scale + 1 < len(node.input) else ""
        low, high = self._bounds(node, name, zeros)
        return Grid(float(scales.reshape(-1)[0]), float(zeros.reshape(-1)[0]), low, high)

    def _bounds(self, node: onnx.NodeProto, name: str, zeros: npt.NDArray[Any]) -> tuple[int, int]:
        proto = self.source.protos.get(name)
        if proto is not None and proto.data_type in FOUR_BITS:
            return FOUR_BITS[proto.data_type]
        if zeros.dtype.kind not in "iu":
            raise refuse(node, f"must have a zero point of integers, not of {zeros.dtype}")
        return int(np.iinfo(zeros.dtype).min), int(np.iinfo(zeros.dtype).max)

    def named(self, name: str) -> str:
        """Return what a name of the old graph is called now."""
        return self.names.get(name, name)

    def real(self, node: onnx.NodeProto, index: int, grid: Grid) -> str:
        """Return the name of the numbers that an input of integers stands for on the grid a node says."""
        name = node.input[index]
        if name not in self.computed:
            return self.put(self.weights(node, index, grid.scale, grid.zero, 0), f"{name}_float")
        kept = self.grids.get(name)
        if kept is None:  # integers as the user gives them
            image = self.add("Cast", [self.named(name)], f"{name}_float", to=TensorProto.FLOAT)
            return self.affine(image, name, grid.scale, -grid.zero * grid.scale)
        if (kept.scale, kept.zero) == (grid.scale, grid.zero):
            return self.named(name)
        factor = grid.scale / kept.scale
        return self.affine(self.named(name), name, factor, (kept.zero - grid.zero) * grid.scale)

    # -- what handlers write ---------------------------------------------------------------------------------

    def free(self, name: str) -> str:
        """Return a name that nothing has."""
        count, made = 1, name
        while made in self.taken:
            count += 1
            made = f"{name}_{count}"
        self.taken.add(made)
        return made

    def put(self, array: Any, name: str) -> str:
        """Add a constant and return its name."""
        made = self.free(name)
        self.constants[made] = numpy_helper.from_array(np.asarray(array, np.float32), made)
        return made

    def add(self, operator: str, inputs: list[str], output: str, label: str = "", **attributes: Any) -> str:
        """Add a node whose output has a name of this graph alone, and return that name."""
        made = self.free(output)
        self.append(helper.make_node(operator, inputs, [made], name=label or made, **attributes))
        return made

    def append(self, node: onnx.NodeProto) -> None:
        """Add a node to the float graph."""
        self.nodes.append(node)
        self.kinds.update(dict.fromkeys(node.output, node.op_type))
        reads = node.input if node.op_type == "Concat" else node.input[:1]
        if node.op_type in _WITHIN and all(name in self.bounds for name in reads):
            ends = [(0.0, 0.0), *(self.bounds[name] for name in reads)]
            self.bounds.update(dict.fromkeys(node.output, (min(end[0] for end in ends), max(end[1] for end in ends))))

    def affine(self, source: str, name: str, factor: float, shift: float) -> str:
        """Add value * factor + shift."""
        made = self.add("Mul", [source, self.put(factor, f"{name}_scale")], f"{name}_scaled")
        return self.add("Add", [made, self.put(shift, f"{name}_shift")], f"{name}_shifted") if shift else made

    def keep(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Keep a node, with its inputs as they are called now."""
        made = onnx.NodeProto()
        made.CopyFrom(node)
        made.input[:] = [self.named(name) for name in node.input]
        self.append(made)
        return made

    def move(self, node: onnx.NodeProto) -> None:
        """Keep a node that returns integers of its input, as numbers."""
        grids = {self.grids.get(name) for name in node.input if name in self.computed}
        grid = grids.pop() if len(grids) == 1 else None
        pads = node.op_type == "Pad"
        if grid is None or node.domain not in _STANDARD or not (pads or node.op_type in _MOVES):
            raise refuse(node, f"reads the integers '{node.input[0]}', which only operators on integers can")
        if node.op_type == "Clip":
            self.narrow(node, grid)
            return
        border = self.constant(node, 2) if pads else None
        if pads and grid.zero != (0 if border is None else float(border.reshape(()))):
            raise refuse(node, f"must pad integers with their zero point, {grid.zero:g}, which stands for zero")
        made = self.keep(node)
        if len(made.input) > 2 and pads:
            made.input[2] = ""
        for output in filter(None, node.output):
            self.grids[output] = self.scaled[output] = grid
            self.ranges[output] = grid.largest

    def narrow(self, node: onnx.NodeProto, grid: Grid) -> None:
        """Read a Clip of integers, as exporters write widths that no type has."""
        bounds = [self.constant(node, index) for index in (1, 2)]
        low, high = (
            int(bound.reshape(())) if bound is not None else end for bound, end in zip(bounds, grid[2:], strict=True)
        )
        self.quantise(
            node, self.named(node.input[0]), Grid(grid.scale, grid.zero, max(low, grid.low), min(high, grid.high))
        )

    def quantise(self, node: onnx.NodeProto, source: str, grid: Grid) -> None:
        """Let the output of a node be the numbers `source`, saturated as its integers are."""
        output = node.output[0]
        if grid.high - grid.low + 1 < _FEWEST:
            raise refuse(node, f"must give activations of at least {_FEWEST} steps, whose rounding may be left out")
        self.grids[output] = self.scaled[output] = grid
        low, high = grid.clip
        self.ranges[output] = grid.largest
        if not self._saturates(source, output, grid):
            self.ranges[source] = max(grid.largest, self.ranges.get(source, 0.0))
            self.scaled.setdefault(source, grid)
            self.names[output] = source
            return
        bounds = [self.put(bound, f"{output}_{end}") for bound, end in ((low, "least"), (high, "most"))]
        self.append(helper.make_node("Clip", [source, *bounds], [output], name=label(node)))
        self.bounds[output] = grid.clip

    def _saturates(self, source: str, output: str, grid: Grid) -> bool:
        """False where a clip would change nothing, or for a layer more what calibration has not seen."""
        if source in self.images or self.kinds.get(source) in _ENDS:
            return False
        if source in self.bounds:  # it is saturated already: more of that is a ReLU, or of what no calibration saw
            (least, most), (low, high), step = grid.clip, self.bounds[source], grid.scale
            return (low + step < least and least >= 0) or (high - step > most and most <= 0)
        readers = list(self.readers.get(output, ()))
        ends = [
            end
            for node in readers
            for end in (self.readers.get(node.output[0], []) if node.op_type == "DequantizeLinear" else [node])
        ]
        left_out = bool(ends) and all(end.op_type in _LINEAR for end in ends) and grid.clip[0] < 0 < grid.clip[1]
        self.left_out += left_out
        return not left_out

    def float_result(self, node: onnx.NodeProto, operator: str, inputs: list[str], **attributes: Any) -> None:
        """Add a node that writes the output of an old one."""
        made = helper.make_node(operator, inputs, [node.output[0]], name=label(node), **attributes)
        self.append(made)


def _along(values: Any, array: npt.NDArray[Any], axis: int) -> Any:
    """Return a scale or zero point so that it broadcasts along an axis."""
    values = np.asarray(values, np.float64)
    if values.size == 1:
        return values.reshape(())
    shape = [1] * array.ndim
    shape[axis] = values.size
    return values.reshape(shape)


# -- operators -------------------------------------------------------------------------------------------

_Handler = Callable[[_Dequantiser, onnx.NodeProto], None]


def _attributes(node: onnx.NodeProto, *without: str) -> dict[str, Any]:
    return {
        attribute.name: helper.get_attribute_value(attribute)
        for attribute in node.attribute
        if attribute.name not in without
    }


def _quantize(to: _Dequantiser, node: onnx.NodeProto) -> None:
    grid = to.grid(node, 1)
    given = Attributes(node).integer("output_dtype", 0)
    if len(node.input) < 3 and given:
        if given in FOUR_BITS:
            low, high = FOUR_BITS[given]
        else:
            info = np.iinfo(helper.tensor_dtype_to_np_dtype(given))
            low, high = int(info.min), int(info.max)
        grid = Grid(grid.scale, 0.0, low, high)
    to.quantise(node, to.named(node.input[0]), grid)


def _dequantize(to: _Dequantiser, node: onnx.NodeProto) -> None:
    source = to.real(node, 0, to.grid(node, 1))
    if node.output[0] in to.outputs:
        to.float_result(node, "Identity", [source])
    else:
        to.names[node.output[0]] = source


def _dynamic(to: _Dequantiser, node: onnx.NodeProto) -> None:
    """Its integers are the numbers themselves, on a grid of step one: what scales them back is one, too."""
    to.names[node.output[0]] = to.named(node.input[0])
    for output, value in zip(node.output[1:], (1, 0), strict=False):
        to.names[output] = to.put(value, output)


def _integer_product(to: _Dequantiser, node: onnx.NodeProto) -> None:
    """ConvInteger and MatMulInteger behind a DynamicQuantizeLinear."""
    source = to.producers.get(node.input[0])
    if source is None or source.op_type != "DynamicQuantizeLinear":
        raise refuse(node, "must read what a DynamicQuantizeLinear gives")
    zero = to.constant(node, 3)
    conv = node.op_type == "ConvInteger"
    weights = to.weights(node, 1, 1.0, 0.0 if zero is None else zero, 0 if conv else -1)
    to.float_result(
        node,
        "Conv" if conv else "MatMul",
        [to.named(node.input[0]), to.put(weights, node.input[1])],
        **_attributes(node),
    )


def _dynamic_matmul(to: _Dequantiser, node: onnx.NodeProto) -> None:
    """Read DynamicQuantizeMatMul and MatMulIntegerToFloat of onnxruntime."""
    at = {"DynamicQuantizeMatMul": (2, 3, 4), "MatMulIntegerToFloat": (3, 5, 6)}[node.op_type]
    if node.op_type == "MatMulIntegerToFloat":
        source = to.producers.get(node.input[0])
        dynamic = source is not None and source.op_type == "DynamicQuantizeLinear"
        left = to.named(node.input[0]) if dynamic else to.real(node, 0, to.grid(node, 2, 4))
    else:
        left = to.named(node.input[0])
    zero = to.constant(node, at[1])
    weights = to.weights(node, 1, to.array(node, at[0]), 0.0 if zero is None else zero, -1)
    product = [left, to.put(weights, node.input[1])]
    bias = to.constant(node, at[2])
    if bias is None:
        to.float_result(node, "MatMul", product)
    else:
        to.float_result(node, "Add", [to.add("MatMul", product, node.output[0] + "_product"), to.put(bias, "bias")])


def _dynamic_lstm(to: _Dequantiser, node: onnx.NodeProto) -> None:
    """Read DynamicQuantizeLSTM of onnxruntime as ONNX's LSTM, whose matrices are transposed."""
    inputs = [to.named(name) for name in [*node.input, *[""] * (8 - len(node.input))][:8]]
    for index, scale in ((1, 8), (2, 10)):
        scales, zeros = to.array(node, scale), to.array(node, scale + 1)
        array = to.array(node, index).astype(np.float64)
        ends = [
            ends_.reshape((array.shape[0], 1, -1)) if ends_.size > 1 else ends_.reshape(()) for ends_ in (scales, zeros)
        ]
        inputs[index] = to.put(((array - ends[1]) * ends[0]).transpose(0, 2, 1), node.input[index])
    made = helper.make_node("LSTM", inputs, list(node.output), name=label(node), **_attributes(node))
    to.append(made)


def _qlinear_conv(to: _Dequantiser, node: onnx.NodeProto) -> None:
    scale, zero = to.array(node, 4), to.constant(node, 5)
    source = to.grid(node, 1)
    inputs = [to.real(node, 0, source)]
    inputs.append(to.put(to.weights(node, 3, scale, 0.0 if zero is None else zero, 0), node.input[3]))
    bias = to.constant(node, 8)
    if bias is not None:
        inputs.append(
            to.put(bias.astype(np.float64) * source.scale * scale.astype(np.float64).reshape(-1), node.input[8])
        )
    product = to.add("Conv", inputs, node.output[0] + "_sum", label(node), **_attributes(node))
    to.quantise(node, product, to.grid(node, 6))


def _qlinear_matmul(to: _Dequantiser, node: onnx.NodeProto) -> None:
    zero = to.constant(node, 5)
    left = to.real(node, 0, to.grid(node, 1))
    if node.input[3] in to.computed:
        right = to.real(node, 3, to.grid(node, 4))
    else:
        weights = to.weights(node, 3, to.array(node, 4), 0.0 if zero is None else zero, -1)
        right = to.put(weights, node.input[3])
    to.quantise(node, to.add("MatMul", [left, right], node.output[0] + "_sum", label(node)), to.grid(node, 6))


def _qgemm(to: _Dequantiser, node: onnx.NodeProto) -> None:
    scale, zero = to.array(node, 4), to.constant(node, 5)
    source, alpha = to.grid(node, 1), Attributes(node).number("alpha", 1.0)
    axis = 0 if Attributes(node).integer("transB", 0) else -1
    inputs = [to.real(node, 0, source)]
    inputs.append(to.put(to.weights(node, 3, scale, 0.0 if zero is None else zero, axis), node.input[3]))
    bias = to.constant(node, 6)
    if bias is not None:
        inputs.append(to.put(bias * (alpha * source.scale) * scale.astype(np.float64).reshape(-1), node.input[6]))
    if len(node.input) < 8 or not node.input[7]:
        to.float_result(node, "Gemm", inputs, **_attributes(node))
        return
    product = to.add("Gemm", inputs, node.output[0] + "_sum", label(node), **_attributes(node))
    to.quantise(node, product, to.grid(node, 7))


def _qlinear_two(to: _Dequantiser, node: onnx.NodeProto) -> None:
    """QLinearAdd and QLinearMul."""
    inputs = [to.real(node, index, to.grid(node, index + 1)) for index in (0, 3)]
    made = to.add(node.op_type.removeprefix("QLinear"), inputs, node.output[0] + "_sum", label(node))
    to.quantise(node, made, to.grid(node, 6))


def _qlinear_one(to: _Dequantiser, node: onnx.NodeProto) -> None:
    """Operators of one activation: pools, activations and the reductions of them."""
    if Attributes(node).integer("channels_last", 0):
        raise refuse(node, "must have its channels first")
    inputs = [to.real(node, 0, to.grid(node, 1)), *(to.named(name) for name in node.input[5:])]
    operator = node.op_type.removeprefix("QLinear")
    without = ("channels_last", *(("opset",) if operator == "Softmax" else ()))
    made = to.add(operator, inputs, node.output[0] + "_float", label(node), **_attributes(node, *without))
    to.quantise(node, made, to.grid(node, 3))


def _qlinear_concat(to: _Dequantiser, node: onnx.NodeProto) -> None:
    inputs = [to.real(node, index, to.grid(node, index + 1)) for index in range(2, len(node.input), 3)]
    made = to.add("Concat", inputs, node.output[0] + "_joined", label(node), **_attributes(node))
    to.quantise(node, made, to.grid(node, 0))


def _quant(to: _Dequantiser, node: onnx.NodeProto) -> None:
    """QONNX's Quant: rounded and saturated, and a float again. A constant is left to folding."""
    attributes = Attributes(node)
    signed, narrow = attributes.integer("signed", 1), attributes.integer("narrow", 0)
    scale, zero, width = (to.array(node, index) for index in (1, 2, 3))
    if width.size != 1 or not 1 <= float(width.reshape(-1)[0]) <= 32:
        raise refuse(node, "must have one width of 1..32 bits")
    bits = 2.0 ** (float(width.reshape(-1)[0]) - signed)
    low, high = (-bits + narrow if signed else 0.0), bits - 1 - (narrow if not signed else 0)
    source = node.input[0]
    if source in to.computed:
        if scale.size != 1 or zero.size != 1:
            raise refuse(node, "must have one scale for an activation, and it has one for each channel")
        to.quantise(
            node, to.named(source), Grid(float(scale.reshape(())), float(zero.reshape(())), int(low), int(high))
        )
        to.grids.pop(node.output[0])
        return
    mode = attributes.text("rounding_mode", "ROUND").upper()
    rounding = {"ROUND": "Round", "HALF_EVEN": "Round", "CEIL": "Ceil", "FLOOR": "Floor"}.get(mode)
    if rounding is None:
        raise refuse(node, f"must round with ROUND, CEIL or FLOOR, not {mode[:40]}")
    name = node.output[0]
    scales, zeros = to.put(scale, f"{name}_scale"), to.put(zero, f"{name}_zero")
    made = to.add("Add", [to.add("Div", [to.named(source), scales], f"{name}_units"), zeros], f"{name}_placed")
    made = to.add(rounding, [made], f"{name}_whole")
    made = to.add("Clip", [made, to.put(low, f"{name}_least"), to.put(high, f"{name}_most")], f"{name}_kept")
    to.float_result(node, "Mul", [to.add("Sub", [made, zeros], f"{name}_moved"), scales])


def _bipolar(to: _Dequantiser, node: onnx.NodeProto) -> None:
    """QONNX's BipolarQuant of a constant: its scale, with the sign of the value."""
    if node.input[0] in to.computed:
        raise refuse(node, "gives an activation of one bit, and the NPU's have 16: train with a Quant of 8 bits")
    name = node.output[0]
    positive = to.add("GreaterOrEqual", [to.named(node.input[0]), to.put(0.0, f"{name}_zero")], f"{name}_positive")
    scale = to.array(node, 1)
    to.float_result(node, "Where", [positive, to.put(scale, f"{name}_scale"), to.put(-scale, f"{name}_minus")])


HANDLERS: dict[str, _Handler] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic,
    "ConvInteger": _integer_product,
    "MatMulInteger": _integer_product,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "com.microsoft.QuantizeLinear": _quantize,
    "com.microsoft.DequantizeLinear": _dequantize,
    "com.microsoft.DynamicQuantizeMatMul": _dynamic_matmul,
    "com.microsoft.MatMulIntegerToFloat": _dynamic_matmul,
    "com.microsoft.DynamicQuantizeLSTM": _dynamic_lstm,
    "com.microsoft.QGemm": _qgemm,
    "com.microsoft.QLinearAdd": _qlinear_two,
    "com.microsoft.QLinearMul": _qlinear_two,
    "com.microsoft.QLinearConcat": _qlinear_concat,
    "com.microsoft.QLinearAveragePool": _qlinear_one,
    "com.microsoft.QLinearGlobalAveragePool": _qlinear_one,
    "com.microsoft.QLinearLeakyRelu": _qlinear_one,
    "com.microsoft.QLinearSigmoid": _qlinear_one,
    "com.microsoft.QLinearSoftmax": _qlinear_one,
    "qonnx.Quant": _quant,
    "qonnx.BipolarQuant": _bipolar,
}
