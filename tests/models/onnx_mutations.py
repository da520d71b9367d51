"""Damage for ONNX files that bytes flipped at random hardly ever reach: fields set to what no exporter
writes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

EXTREMES = (
    0,
    1,
    -1,
    2,
    3,
    7,
    255,
    1 << 15,
    1 << 16,
    1 << 20,
    1 << 31,
    -(1 << 31),
    (1 << 62),
    -(1 << 63),
    (1 << 63) - 1,
)
OPERATORS = (
    "Conv", "Gemm", "MatMul", "BatchNormalization", "Relu", "Clip", "Add", "Sum", "Mul", "Div", "Sub", "Concat", "MaxPool", "AveragePool",
    "GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "Flatten", "Reshape", "Softmax", "Pad", "Dropout", "Identity", "Squeeze", "Unsqueeze",
    "Constant", "ConstantOfShape", "Expand", "Shape", "Slice", "Gather", "Cast", "Transpose", "Pow", "Where", "Loop", "If", "Tanh", "Resize",
    "ConvTranspose", "DepthToSpace", "SpaceToDepth", "Upsample", "",
    "Split", "Sigmoid", "LogSoftmax", "PRelu", "LeakyRelu", "HardSigmoid", "Neg", "ReduceSum", "ReduceMax", "LRN", "Slice", "Slice", "Gather",
    "Max", "Min", "Tile", "Celu", "Elu", "Gelu", "HardSwish", "Mish", "Selu", "Softplus", "Swish",
)  # fmt: skip
TEXTS = (
    "",
    "x",
    "..",
    "/etc/passwd",
    "../secret.bin",
    "w.bin",
    "\n\x1b[31mred",
    "a" * 5000,
    "-1",
    "[[[[",
    "{}",
    "NaN",
    "1e999",
    "image",
)


class Mutator:
    """Draws damage; the same for the same generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def pick(self, choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def __call__(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """A damaged copy."""
        damaged = onnx.ModelProto()
        damaged.CopyFrom(model)
        for _ in range(self.pick((1, 1, 2, 3, 5))):
            self.pick(DAMAGES)(self, damaged)
        return damaged

    def names(self, model: onnx.ModelProto) -> list[str]:
        graph = model.graph
        found = [name for node in graph.node for name in (*node.input, *node.output)]
        return [*found, *(one.name for one in graph.initializer), *(one.name for one in graph.output), *TEXTS]

    def node(self, model: onnx.ModelProto) -> onnx.NodeProto:
        return self.pick(model.graph.node) if model.graph.node else model.graph.node.add()

    def tensor(self, model: onnx.ModelProto) -> onnx.TensorProto:
        return self.pick(model.graph.initializer) if model.graph.initializer else model.graph.initializer.add()

    def wire(self, model: onnx.ModelProto) -> None:
        """An input or output that goes elsewhere: cycles, missing and doubled names."""
        node = self.node(model)
        side = self.pick((node.input, node.input, node.output))
        if side:
            side[int(self.rng.integers(len(side)))] = self.pick(self.names(model))
        else:
            side.append(self.pick(self.names(model)))

    def arity(self, model: onnx.ModelProto) -> None:
        node = self.node(model)
        side = self.pick((node.input, node.output))
        if side and self.pick((0, 1)):
            del side[-1]
        else:
            side.extend([self.pick(self.names(model))] * self.pick((1, 3, 200)))

    def operator(self, model: onnx.ModelProto) -> None:
        node = self.node(model)
        node.op_type = self.pick(OPERATORS)
        node.domain = self.pick(("", "", "", "ai.onnx", "com.microsoft", "\x00"))

    def attribute(self, model: onnx.ModelProto) -> None:
        node = self.node(model)
        names = ("kernel_shape", "pads", "strides", "dilations", "group", "axis", "axes", "epsilon", "alpha", "value", "perm", "to", "mode",
                 "auto_pad", "ceil_mode", "keepdims", "min", "max", "transA", "value_ints", "start", "end", "split", "starts", "ends",
                 "count_include_pad", "allowzero", "num_outputs", "beta")  # fmt: skip
        have = [one.name for one in node.attribute]
        name = self.pick(have or names)
        for index in reversed([i for i, one in enumerate(node.attribute) if one.name == name]):
            del node.attribute[index]
        count = self.pick((0, 1, 2, 4, 8, 3000))
        values: tuple[Any, ...] = (
            int(self.pick(EXTREMES)), [int(self.pick(EXTREMES)) for _ in range(count)], float(self.pick(("0", "-1", "1e38", "nan", "inf"))),
            self.pick(TEXTS), self.hostile_tensor(),
        )  # fmt: skip
        node.attribute.append(
            helper.make_attribute(name, self.pick(values), attr_type=None) if count else AttributeProto(name=name)
        )

    def hostile_tensor(self) -> onnx.TensorProto:
        dims = [int(self.pick(EXTREMES)) for _ in range(self.pick((0, 1, 2, 4, 9)))]
        raw = bytes(self.pick((0, 3, 4, 64)))
        return TensorProto(name="t", dims=dims, data_type=self.pick(range(20)), raw_data=raw)

    def dims(self, model: onnx.ModelProto) -> None:
        tensor = self.tensor(model)
        if tensor.dims and self.pick((0, 1, 1)):
            tensor.dims[int(self.rng.integers(len(tensor.dims)))] = int(self.pick(EXTREMES))
        else:
            tensor.dims.extend([int(self.pick(EXTREMES))] * self.pick((1, 40)))

    def content(self, model: onnx.ModelProto) -> None:
        tensor = self.tensor(model)
        if self.pick((0, 1)):
            tensor.data_type = int(self.pick(range(-1, 24)))
        else:
            tensor.raw_data = (
                tensor.raw_data[: len(tensor.raw_data) // 2] if self.pick((0, 1)) else b"\xff" * len(tensor.raw_data)
            )

    def external(self, model: onnx.ModelProto) -> None:
        tensor = self.tensor(model)
        tensor.data_location = TensorProto.EXTERNAL
        for key in ("location", "offset", "length"):
            tensor.external_data.add(key=key, value=str(self.pick((*TEXTS, *EXTREMES))))

    def drop(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        what = self.pick((graph.initializer, graph.node, graph.output, graph.input))
        if what:
            del what[int(self.rng.integers(len(what)))]

    def double(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        what = self.pick((graph.initializer, graph.node, graph.output, graph.input))
        if what:
            what.add().CopyFrom(self.pick(what))

    def input_shape(self, model: onnx.ModelProto) -> None:
        if model.graph.input:
            shape = model.graph.input[0].type.tensor_type.shape
            if shape.dim and self.pick((0, 1, 1)):
                self.pick(shape.dim).dim_value = int(self.pick(EXTREMES))
            else:
                shape.dim.add().dim_value = int(self.pick(EXTREMES))

    def metadata(self, model: onnx.ModelProto) -> None:
        key = "fluidnpu." + self.pick(("exits", "calibration", "provenance", "name"))
        value = self.pick(
            (
                *TEXTS,
                '[{"output": "logits0"}]',
                '{"image": -1}',
                '{"image": 1e400}',
                "[" * 100000,
                '[{"output": "logits0", "threshold": 7}]',
            )
        )
        model.metadata_props.add(key=key, value=value)

    def opset(self, model: onnx.ModelProto) -> None:
        del model.opset_import[:]
        for _ in range(self.pick((0, 1, 2))):
            model.opset_import.add(domain=self.pick(("", "ai.onnx", "x")), version=int(self.pick(EXTREMES)))

    def subgraph(self, model: onnx.ModelProto) -> None:
        node = self.node(model)
        inner = onnx.GraphProto(name="inner")
        inner.node.add().CopyFrom(node)
        node.attribute.append(helper.make_attribute("then_branch", inner))


M = Mutator
DAMAGES = (
    M.wire, M.wire, M.arity, M.operator, M.attribute, M.attribute, M.dims, M.content, M.external, M.drop, M.double, M.input_shape, M.metadata,
    M.opset, M.subgraph,
)  # fmt: skip
