"""Every operator of the host tail gives what onnxruntime gives, over its attributes, types and opsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import helper

from fluidnpu.models.tail.graph import OPERATORS, TailNode, evaluate
from fluidnpu.models.tail.sampling import COORDINATES, ROUNDINGS

Array = npt.NDArray[Any]
DEFAULT, MANY = 3, 60  # cases of an operator


@dataclass
class Case:
    """Inputs (None: left out) and attributes of one call."""

    inputs: Sequence[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 17
    outputs: int = 1


class Draw:
    """Random shapes, numbers and choices of one case."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def size(self, low: int = 1, high: int = 5) -> int:
        return int(self.rng.integers(low, high + 1))

    def case(self, *choices: Case) -> Case:
        return choices[int(self.rng.integers(len(choices)))]

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def shape(self, low: int = 1, high: int = 4) -> tuple[int, ...]:
        return tuple(self.size() for _ in range(self.size(low, high)))

    def floats(self, *shape: int, scale: float = 2.0) -> Array:
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def coarse(self, *shape: int) -> Array:
        """Numbers of which many are equal."""
        return self.rng.integers(-3, 4, shape).astype(np.float32)

    def whole(self, low: int, high: int, *shape: int) -> Array:
        return self.rng.integers(low, high, shape).astype(np.int64)

    def two(self, kind: str = "f") -> tuple[Array, Array]:
        """Two arrays that are broadcast."""
        shape = self.shape()
        other = tuple(self.pick(1, size) for size in shape)[self.size(0, len(shape) - 1) :]
        arrays = [self.coarse(*one) if kind == "f" else self.whole(-4, 5, *one) for one in (shape, other)]
        return (arrays[0], arrays[1]) if self.pick(True, False) else (arrays[1], arrays[0])

    def axis(self, rank: int) -> int:
        return self.size(-rank, rank - 1)


def like(x: Array, dtype: str) -> Array:
    return x.astype(dtype)


def unary(positive: bool = False, opset: int = 17) -> Callable[[Draw], Case]:
    def make(draw: Draw) -> Case:
        x = draw.floats(*draw.shape(), scale=4)
        return Case([np.abs(x) + np.float32(0.1) if positive else x], opset=opset)

    return make


def binary(draw: Draw) -> Case:
    a, b = draw.two(draw.pick("f", "i"))
    return Case([a, b])


def division(draw: Draw) -> Case:
    a, b = draw.two(draw.pick("f", "i"))
    return Case([a, np.where(b == 0, 3, b).astype(b.dtype)])


def modulo(draw: Draw) -> Case:
    if draw.pick(True, False):
        a, b = draw.two("i")
        return Case([a, np.where(b == 0, 3, b)], {"fmod": draw.pick(0, 1)})
    a, b = draw.two()
    return Case([a, np.where(b == 0, 3, b).astype(np.float32)], {"fmod": 1})


def truths(draw: Draw) -> Case:
    a, b = draw.two("i")
    return Case([a > 0, b > 0])


def many(draw: Draw) -> Case:
    a, b = draw.two()
    return Case([a, b, a * 2][: draw.size(1, 3)])


def powers(draw: Draw) -> Case:
    a, b = draw.two(draw.pick("f", "i"))
    return Case([np.abs(a) + a.dtype.type(1), np.abs(b) if a.dtype.kind == "i" else b])


def clip(draw: Draw) -> Case:
    x = draw.floats(*draw.shape())
    if draw.pick(True, False):
        return Case([x], {"min": -0.5, "max": 1.5}, opset=9)
    low, high = np.float32(-0.5), np.float32(1.5)
    return Case([x, draw.pick(np.array(low), None), draw.pick(np.array(high), None)])


def casts(draw: Draw) -> Case:
    source = draw.pick("float32", "int64", "bool", "int32", "uint8")
    x = np.abs(draw.floats(*draw.shape(), scale=20)).astype(source)
    return Case([x], {"to": draw.pick(1, 6, 7, 9, 11, 2)})


def softmax(draw: Draw) -> Case:
    shape = draw.shape()
    opset = draw.pick(9, 11, 12, 13, 17)
    low = 0 if opset < 11 else -len(shape)
    attributes = {} if draw.pick(True, False) and len(shape) > 1 else {"axis": draw.size(low, len(shape) - 1)}
    return Case([draw.floats(*shape, scale=5)], attributes, opset)


def resizes(draw: Draw) -> Case:
    shape = (draw.size(1, 2), draw.size(1, 3), draw.size(1, 6), draw.size(1, 6))
    x, mode = draw.floats(*shape), draw.pick("nearest", "linear")
    ends = [draw.size(1, 12) for _ in shape[2:]]
    if draw.pick(True, False):
        scales = np.array([1, 1, *draw.pick((2.0, 3.0), (0.5, 1.5), (1.0, 4.0))], np.float32)
        return Case([x, scales], {"mode": mode}, opset=10)
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": draw.pick(*COORDINATES)}
    if mode == "nearest":
        attributes["nearest_mode"] = draw.pick(*ROUNDINGS)
    if draw.pick(True, False):
        return Case([x, None, None, np.array([*shape[:2], *ends], np.int64)], attributes, opset=draw.pick(13, 19))
    scales = np.array([1, 1, *draw.pick((2.0, 2.0), (3.0, 1.0), (0.5, 2.0), (1.5, 4.0))], np.float32)
    return Case([x, None, scales], attributes, opset=19)


def where(draw: Draw) -> Case:
    a, b = draw.two()
    return Case([np.broadcast_to(a > b, np.broadcast_shapes(a.shape, b.shape)).copy(), a, b])


def sloped(draw: Draw) -> Case:
    return Case([draw.floats(*draw.shape())], {"alpha": draw.pick(0.3, 1.7)} if draw.pick(True, False) else {})


def prelu(draw: Draw) -> Case:
    shape = (2, draw.size(), draw.size(), draw.size())
    return Case([draw.floats(*shape), draw.floats(*draw.pick((shape[1], 1, 1), (1,), shape))])


def gelu(draw: Draw) -> Case:
    return Case([draw.floats(*draw.shape())], {"approximate": draw.pick("none", "tanh")}, opset=20)


def reshape(draw: Draw) -> Case:
    shape = (draw.size(), draw.size(), draw.size())
    target = draw.pick([0, -1], [-1], [0, 0, -1], [1, -1, shape[2]], [shape[0] * shape[1], shape[2]])
    return Case([draw.floats(*shape), np.array(target, np.int64)])


def flatten(draw: Draw) -> Case:
    shape = draw.shape()
    return Case([draw.floats(*shape)], {"axis": draw.size(-len(shape), len(shape))})


def squeeze(draw: Draw) -> Case:
    x, axes = draw.floats(1, 3, 1, 2), draw.pick([0], [2], [0, 2], [-2], None)
    if axes is None:
        return Case([x])
    return draw.case(Case([x, np.array(axes)]), Case([x], {"axes": axes}, opset=11))


def unsqueeze(draw: Draw) -> Case:
    x, axes = draw.floats(3, 2), draw.pick([0], [1, 3], [-1], [2, 0])
    return draw.case(Case([x, np.array(axes)]), Case([x], {"axes": axes}, opset=11))


def transpose(draw: Draw) -> Case:
    shape = draw.shape(2)
    order = [int(one) for one in draw.rng.permutation(len(shape))]
    return Case([draw.floats(*shape)], {"perm": order} if draw.pick(True, False) else {})


def concat(draw: Draw) -> Case:
    shape = list(draw.shape())
    axis = draw.axis(len(shape))
    parts: list[Array | None] = []
    for _ in range(draw.size(1, 3)):
        shape[axis] = draw.size(0, 3)
        parts.append(draw.floats(*shape))
    return Case(parts, {"axis": axis})


def split(draw: Draw) -> Case:
    x, axis = draw.floats(2, 6, 3), draw.pick(1, -2)
    return draw.case(
        Case([x, np.array([1, 3, 2])], {"axis": axis}, outputs=3),
        Case([x], {"axis": axis}, outputs=3),
        Case([x], {"axis": axis, "split": [2, 4]}, opset=11, outputs=2),
        Case([draw.floats(2, 5, 3)], {"axis": axis, "num_outputs": 3}, opset=18, outputs=3),
    )


def sliced(draw: Draw) -> Case:
    shape = tuple(draw.size(1, 6) for _ in range(3))
    count = draw.size(1, 3)
    axes = [int(one) for one in draw.rng.permutation(3)[:count]]
    starts, ends = ([draw.pick(-100, -3, -1, 0, 1, 2, 100) for _ in range(count)] for _ in range(2))
    if draw.pick(True, False):
        return Case([draw.floats(*shape)], {"starts": starts, "ends": ends, "axes": axes}, opset=9)
    steps = [draw.pick(1, 2, -1, -2) for _ in range(count)]
    return Case([draw.floats(*shape), *(np.array(one) for one in (starts, ends, axes, steps))])


def gather(draw: Draw) -> Case:
    shape = draw.shape()
    axis = draw.axis(len(shape))
    return Case(
        [draw.floats(*shape), draw.whole(-shape[axis], shape[axis], *draw.pick((), (3,), (2, 2)))], {"axis": axis}
    )


def gather_elements(draw: Draw) -> Case:
    shape = draw.shape()
    axis = draw.axis(len(shape))
    inner = [draw.size(1, size) for size in shape]
    return Case([draw.floats(*shape), draw.whole(-shape[axis], shape[axis], *inner)], {"axis": axis})


def gather_nd(draw: Draw) -> Case:
    x, batches, depth = draw.floats(2, 3, 4, 2), draw.size(0, 1), draw.size(1, 2)
    lead = (2,) if batches else ()
    places = np.stack([draw.whole(-2, 2, *lead, 5) for _ in range(depth)], -1)
    return Case([x, places], {"batch_dims": batches})


def scatter_nd(draw: Draw) -> Case:
    places = np.array([[0, 2], [1, 0], [-1, 1]])
    return Case([draw.floats(3, 4, 2), places, draw.floats(3, 2)], {"reduction": draw.pick("none", "add")})


def scatter_elements(draw: Draw) -> Case:
    axis = draw.pick(0, 1, -1)
    places = np.stack([draw.rng.permutation(3) for _ in range(3)]).astype(np.int64)
    return Case([draw.floats(3, 3), places if axis else places.T.copy(), draw.floats(3, 3)], {"axis": axis})


def expand(draw: Draw) -> Case:
    return Case([draw.floats(3, 1), np.array(draw.pick([2, 1, 4], [3, 5], [1, 1], [3, 1]))])


def tile(draw: Draw) -> Case:
    return Case([draw.floats(2, 3), draw.whole(1, 4, 2)])


def pad(draw: Draw) -> Case:
    x, mode = draw.floats(3, 4, 5), draw.pick("constant", "reflect", "edge")
    pads = [int(one) for one in draw.rng.integers(0 if mode != "constant" else -1, 3, 6)]
    if draw.pick(True, False):
        return Case([x], {"pads": pads, "mode": mode}, opset=9)
    inputs: list[Array | None] = [x, np.array(pads)]
    return Case([*inputs, np.array(1.5, np.float32)] if mode == "constant" else inputs, {"mode": mode}, opset=13)


def one_hot(draw: Draw) -> Case:
    values = draw.pick(np.array([0, 1], np.float32), np.array([-2, 5]))
    return Case([draw.whole(-4, 4, *draw.shape(1, 3)), np.array(4), values], {"axis": draw.pick(-1, 0, 1)})


def number_range(draw: Draw) -> Case:
    kind = draw.pick(np.int64, np.float32)
    return Case([np.array(one, kind) for one in draw.pick((0, 7, 2), (5, -3, -3), (3, 3, 1), (4, 1, 1))])


def filled(draw: Draw) -> Case:
    value = draw.pick(np.array([2.5], np.float32), np.array([3]), None)
    attributes = {} if value is None else {"value": value}
    return Case([draw.whole(0, 4, 3)], attributes)


def shapes(draw: Draw) -> Case:
    return Case([draw.floats(2, 3, 4)], draw.pick({}, {"start": 1}, {"start": -2, "end": -1}, {"end": 2}))


def triangle(draw: Draw) -> Case:
    return Case([draw.floats(2, 4, 3), np.array(draw.size(-2, 2))], {"upper": draw.pick(0, 1)})


def depth(draw: Draw) -> Case:
    return Case([draw.floats(2, 8, 3, 2)], {"blocksize": 2, "mode": draw.pick("DCR", "CRD")})


def blocks(draw: Draw) -> Case:
    return Case([draw.floats(2, 3, 4, 6)], {"blocksize": 2})


def reduction(since: int) -> Callable[[Draw], Case]:
    def make(draw: Draw) -> Case:
        x = np.abs(draw.floats(2, 3, 4)) + np.float32(0.2)
        axes, keep = draw.pick(None, [1], [0, -1], [2]), {"keepdims": draw.pick(0, 1)}
        if axes is None:
            return Case([x], {**keep, "noop_with_empty_axes": draw.pick(0, 1)}, opset=18)
        if draw.pick(True, False):
            return Case([x], {**keep, "axes": axes}, opset=since - 1)
        return Case([x, np.array(axes)], keep, opset=18)

    return make


def place(draw: Draw) -> Case:
    facts = {"axis": draw.pick(0, 1, -1), "keepdims": draw.pick(0, 1), "select_last_index": draw.pick(0, 1)}
    return Case([draw.coarse(4, 5, 6)], facts)


def top(draw: Draw) -> Case:
    axis, largest = draw.pick(0, 1, -1), draw.pick(0, 1)
    if draw.pick(True, False):
        return Case([draw.coarse(5, 6)], {"axis": draw.pick(0, 1), "k": 3}, opset=9, outputs=2)
    x = draw.coarse(5, 6) if draw.pick(True, False) else draw.whole(-3, 4, 5, 6)
    return Case([x, np.array([draw.size(1, 5)])], {"axis": axis, "largest": largest}, outputs=2)


def running(draw: Draw) -> Case:
    facts = {"exclusive": draw.pick(0, 1), "reverse": draw.pick(0, 1)}
    return Case([draw.floats(3, 5), np.array(draw.pick(0, 1, -1))], facts)


def matrices(draw: Draw) -> Case:
    return draw.case(
        Case([draw.floats(3, 4), draw.floats(4, 5)]),
        Case([draw.floats(2, 1, 3, 4), draw.floats(6, 4, 5)]),
        Case([draw.floats(4), draw.floats(2, 4, 5)]),
    )


def gemm(draw: Draw) -> Case:
    a, b = draw.pick(0, 1), draw.pick(0, 1)
    facts = {"transA": a, "transB": b, "alpha": draw.pick(1.0, 0.5), "beta": draw.pick(1.0, 2.0)}
    bias = draw.pick(None, draw.floats(5), draw.floats(3, 1))
    return Case([draw.floats(*((4, 3) if a else (3, 4))), draw.floats(*((5, 4) if b else (4, 5))), bias], facts)


def weighted(draw: Draw) -> Case:
    rank = draw.size(1, 2)
    space, ones = [draw.size() for _ in range(rank)], [1] * rank
    bias = draw.pick(None, draw.floats(4))
    return Case([draw.floats(2, 3, *space), draw.floats(4, 3, *ones), bias], draw.pick({}, {"kernel_shape": ones}))


def max_pool(draw: Draw) -> Case:
    rank = draw.size(1, 2)
    kernel = [draw.size(1, 4) for _ in range(rank)]
    facts: dict[str, Any] = {"kernel_shape": kernel, "strides": [draw.size(1, 3) for _ in range(rank)]}
    x = draw.floats(1, 2, *(draw.size(6, 9) for _ in range(rank)))
    if draw.pick(True, False):
        facts["strides"] = [min(pair) for pair in zip(kernel, facts["strides"], strict=True)]
        return Case([x], {**facts, "auto_pad": draw.pick("SAME_UPPER", "SAME_LOWER", "VALID")})
    facts["pads"] = [draw.size(0, min(1, size - 1)) for size in kernel * 2]
    return Case([x], {**facts, "dilations": [draw.size(1, 2)] * rank, "ceil_mode": draw.pick(0, 1)})


def recurrent(gates: int, kind: str) -> Callable[[Draw], Case]:
    def make(draw: Draw) -> Case:
        steps, batch, inputs, hidden = draw.size(2, 5), draw.size(1, 3), draw.size(), draw.size()
        direction = draw.pick("forward", "reverse", "bidirectional")
        ways = 2 if direction == "bidirectional" else 1
        weights = [draw.floats(ways, gates * hidden, size, scale=0.7) for size in (inputs, hidden)]
        bias = draw.pick(None, draw.floats(ways, 2 * gates * hidden, scale=0.5))
        lengths = draw.pick(None, draw.rng.integers(1, steps + 1, batch).astype(np.int32))
        state = draw.pick(None, draw.floats(ways, batch, hidden))
        given = [draw.floats(steps, batch, inputs), *weights, bias, lengths, state]
        facts: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
        if kind == "LSTM":
            given += [draw.pick(None, draw.floats(ways, batch, hidden)), draw.pick(None, draw.floats(ways, 3 * hidden))]
        if kind == "GRU":
            facts["linear_before_reset"] = draw.pick(0, 1)
        if draw.pick(True, False):
            facts["clip"] = 0.8
        return Case(given, facts, outputs=3 if kind == "LSTM" else 2)

    return make


def suppression(draw: Draw) -> Case:
    boxes = draw.rng.uniform(0, 1, (2, 12, 4)).astype(np.float32)
    if not (centred := draw.pick(0, 1)):
        boxes[..., 2:] = boxes[..., :2] + draw.pick(1, -1) * boxes[..., 2:] * np.float32(0.7)
    scores = (draw.rng.integers(0, 8, (2, 3, 12)) / 8).astype(np.float32)
    most = np.array(draw.pick(0, 2, 50))
    limits = [np.array(draw.pick(0.0, 0.3, 0.6), np.float32), draw.pick(None, np.array(0.5, np.float32))]
    return Case([boxes, scores, most, *limits], {"center_point_box": centred})


CASES: dict[str, Callable[[Draw], Case]] = {
    **dict.fromkeys(("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "HardSwish", "Identity", "Neg", "Relu"), unary()),
    **dict.fromkeys(("Round", "Sigmoid", "Sign", "Sin", "Softplus", "Tanh", "Size", "Dropout"), unary()),
    **dict.fromkeys(("Log", "Sqrt", "Reciprocal"), unary(positive=True)),
    **dict.fromkeys(("Add", "Sub", "Mul", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), binary),
    **dict.fromkeys(("And", "Or", "Xor"), truths),
    **dict.fromkeys(("Max", "Min", "Mean", "Sum"), many),
    **dict.fromkeys(("Elu", "LeakyRelu", "HardSigmoid"), sloped),
    **dict.fromkeys(("Softmax", "LogSoftmax"), softmax),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"), reduction(18)),
    **dict.fromkeys(("ReduceProd", "ReduceSumSquare"), reduction(18)),
    **dict.fromkeys(("ArgMax", "ArgMin"), place),
    "Cast": casts,
    "Clip": clip,
    "Concat": concat,
    "ConstantOfShape": filled,
    "Conv": weighted,
    "CumSum": running,
    "DepthToSpace": depth,
    "Div": division,
    "Expand": expand,
    "Flatten": flatten,
    "GRU": recurrent(3, "GRU"),
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Gelu": gelu,
    "Gemm": gemm,
    "LSTM": recurrent(4, "LSTM"),
    "MatMul": matrices,
    "MaxPool": max_pool,
    "Mish": unary(opset=18),
    "Mod": modulo,
    "NonMaxSuppression": suppression,
    "NonZero": lambda draw: Case([draw.coarse(*draw.shape())]),
    "Not": lambda draw: Case([draw.coarse(*draw.shape()) > 0]),
    "OneHot": one_hot,
    "PRelu": prelu,
    "Pad": pad,
    "Pow": powers,
    "RNN": recurrent(1, "RNN"),
    "Range": number_range,
    "ReduceSum": reduction(13),
    "Resize": resizes,
    "Reshape": reshape,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Shape": shapes,
    "Slice": sliced,
    "SpaceToDepth": blocks,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "TopK": top,
    "Transpose": transpose,
    "Trilu": triangle,
    "Unsqueeze": unsqueeze,
    "Where": where,
}


def by_onnxruntime(operator: str, case: Case) -> list[Array]:
    names = ["" if one is None else f"x{index}" for index, one in enumerate(case.inputs)]
    while names and not names[-1]:
        names.pop()
    given = {name: array for name, array in zip(names, case.inputs, strict=False) if name and array is not None}
    outputs = [f"y{index}" for index in range(case.outputs)]
    facts = {
        key: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for key, value in case.attributes.items()
    }
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    ends = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([helper.make_node(operator, names, outputs, **facts)], "case", infos, ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return [np.asarray(one) for one in session.run(None, given)]


def by_the_tail(operator: str, case: Case) -> list[Array]:
    names = ["" if one is None else f"x{index}" for index, one in enumerate(case.inputs)]
    given = {name: array for name, array in zip(names, case.inputs, strict=True) if array is not None}
    node = TailNode(operator, tuple(names), tuple(f"y{index}" for index in range(case.outputs)), case.attributes)
    before = {name: array.copy() for name, array in given.items()}
    with np.errstate(all="ignore"):
        made = evaluate(node, given, case.opset)
    for name, array in before.items():
        assert np.array_equal(array, given[name], equal_nan=array.dtype.kind == "f"), "an operator wrote into its input"
    return list(made[: case.outputs])


def agree(operator: str, seeds: Iterator[int]) -> None:
    for seed in seeds:
        case = CASES[operator](Draw(seed))
        wanted, made = by_onnxruntime(operator, case), by_the_tail(operator, case)
        what = f"{operator}, seed {seed}, opset {case.opset}, {case.attributes}"
        assert [(one.shape, one.dtype) for one in made] == [(one.shape, one.dtype) for one in wanted], what
        for mine, theirs in zip(made, wanted, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6, err_msg=what)


def test_every_operator_has_cases() -> None:
    assert sorted(CASES) == sorted(OPERATORS)


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_operators_agree_with_onnxruntime(operator: str) -> None:
    agree(operator, iter(range(DEFAULT)))


@pytest.mark.long
@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_operators_agree_with_onnxruntime_over_many_cases(operator: str) -> None:
    agree(operator, iter(range(1000, 1000 + MANY)))
