"""Drawn networks that onnxruntime has quantised: golden's words on the device at 8 bits, and its answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hls_cases import BYTES, design_of
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from test_hls_bytes import run_on_device

from fluidnpu.models import golden, quantise, read_onnx

MOST_STEPS = 6.01  # of the logits: a layer may be a step off on a tie, and operands of sums are not rounded
SIZE = (1, 3, 8, 8)


class Drawn:
    """A float network in the making: each step appends nodes behind `value`, of `channels` and `side`."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Any] = {}
        self.value, self.channels, self.side = "x", SIZE[1], SIZE[2]

    def add(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"{name}_node", **attributes))
        return name

    def conv(self, source: str, channels: int, kernel: int, *, groups: int = 1, reads: int | None = None) -> str:
        inner = (self.channels if reads is None else reads) // groups
        name = f"c{len(self.nodes)}"
        weights = self.rng.normal(0, 1 / np.sqrt(inner * kernel**2), (channels, inner, kernel, kernel))
        self.constants |= {f"{name}_w": weights, f"{name}_b": self.rng.normal(0, 0.3, channels)}
        sides = [kernel // 2] * 4
        return self.add("Conv", [source, f"{name}_w", f"{name}_b"], pads=sides, group=groups)

    def relu(self, source: str) -> str:
        return self.add("Relu", [source]) if self.rng.random() < 0.7 else source

    def step(self) -> None:
        odd = int(self.rng.integers(3, 12))
        kind = self.rng.choice(["conv", "depthwise", "sum", "parts", "max", "average"])
        if kind == "conv":
            self.value, self.channels = self.relu(self.conv(self.value, odd, int(self.rng.choice([1, 3])))), odd
        elif kind == "depthwise":
            deep = self.relu(self.conv(self.value, self.channels, 3, groups=self.channels))
            self.value, self.channels = self.conv(deep, odd, 1), odd
        elif kind == "sum":
            self.value = self.relu(self.add("Add", [self.conv(self.value, self.channels, 3), self.value]))
        elif kind == "parts":
            parts = [self.relu(self.conv(self.value, odd, 1)), self.conv(self.value, 5, 3), self.value]
            self.value, self.channels = self.add("Concat", parts, axis=1), odd + 5 + self.channels
        elif self.side >= 4:
            of = {"max": "MaxPool", "average": "AveragePool"}[kind]
            self.value = self.add(of, [self.value], kernel_shape=[2, 2], strides=[2, 2])
            self.side //= 2

    def model(self) -> onnx.ModelProto:
        self.value, self.channels = self.relu(self.conv(self.value, 7, 3)), 7
        for _ in range(int(self.rng.integers(2, 6))):
            self.step()
        flat = self.add("Flatten", [self.add("GlobalAveragePool", [self.value])])
        self.constants |= {"f_w": self.rng.normal(0, 0.5, (5, self.channels)), "f_b": self.rng.normal(0, 0.3, 5)}
        self.nodes.append(helper.make_node("Gemm", [flat, "f_w", "f_b"], ["y"], name="f", transB=1))
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, SIZE)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 5))],
            [numpy_helper.from_array(np.asarray(one, np.float32), name) for name, one in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class Noise(CalibrationDataReader):  # type: ignore[misc]
    """Eight images of noise."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self._images = iter([{"x": rng.random(SIZE).astype(np.float32)} for _ in range(8)])

    def get_next(self) -> Any:
        return next(self._images, None)


def same_on_the_device_and_near_onnxruntime(seed: int, folder: Path) -> None:
    rng = np.random.default_rng(seed)
    unsigned, symmetric = bool(rng.integers(2)), bool(rng.integers(2))
    onnx.save(Drawn(seed).model(), folder / "float.onnx")
    quantize_static(
        folder / "float.onnx",
        folder / "file.onnx",
        Noise(),
        quant_format=QuantFormat.QDQ if rng.integers(2) else QuantFormat.QOperator,
        per_channel=bool(rng.integers(2)),
        activation_type=QuantType.QUInt8 if unsigned else QuantType.QInt8,
        weight_type=QuantType.QInt8,
        extra_options={"ActivationSymmetric": symmetric and not unsigned},
    )
    images = rng.random((16, *SIZE[2:], SIZE[1])).astype(np.float32)  # ranges of what the file leaves in float
    qnet, images = quantise(read_onnx(folder / "file.onnx"), images, bits=8), images[:3]
    run_on_device(qnet, design_of(qnet, **BYTES), qnet.quantise_input(images))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "file.onnx", options)
    theirs = np.concatenate([session.run(None, {"x": image.transpose(2, 0, 1)[None]})[0] for image in images])
    mine = qnet.logits(0, golden.run(qnet, images)[0])
    assert np.abs(mine - theirs).max() <= MOST_STEPS * qnet.formats[qnet.network.exits[0].classes].gain


@pytest.mark.parametrize("seed", range(6))
def test_drawn_files_have_goldens_words(seed: int, tmp_path: Path) -> None:
    same_on_the_device_and_near_onnxruntime(seed, tmp_path)


@pytest.mark.long
def test_a_hundred_drawn_files_have_goldens_words(tmp_path: Path) -> None:
    for seed in range(100, 200):
        same_on_the_device_and_near_onnxruntime(seed, tmp_path)
