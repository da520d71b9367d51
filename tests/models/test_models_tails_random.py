"""Drawn graphs behind a network: wherever they are cut, host and NPU together give what onnxruntime gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto
from tail_graphs import TailGraph

from fluidnpu.models import read_onnx
from fluidnpu.models.numeric.float_reference import run_float_outputs
from fluidnpu.models.onnx import onnx_bytes

UNARY = ("Sigmoid", "Tanh", "Exp", "Relu", "Abs", "Neg", "HardSigmoid", "Softplus", "LeakyRelu", "Identity")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")


class Drawn:
    """A graph of drawn operators on values whose shapes are known."""

    def __init__(self, seed: int) -> None:
        self.g = TailGraph((3, 8, 8), seed)
        self.rng = self.g.rng
        trunk = self.g.conv("image", 6, 3)
        self.values: list[tuple[str, tuple[int, ...]]] = [
            (self.g.conv(trunk, 4, 6, 1, relu=False), (1, 4, 8, 8)),
            (self.g.conv(trunk, 2, 6, 3, stride=2), (1, 2, 4, 4)),
        ]

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def step(self) -> None:
        name, shape = self.values[int(self.rng.integers(len(self.values)))]
        kind = self.pick(
            "unary", "binary", "scale", "reshape", "transpose", "reduce", "slice", "softmax", "top", "join"
        )
        made, sizes = getattr(self, f"_{kind}")(name, shape)
        self.values.append((made, sizes))

    def _unary(self, name: str, shape: tuple[int, ...]) -> Any:
        return self.g.op(self.pick(*UNARY), name), shape

    def _binary(self, name: str, shape: tuple[int, ...]) -> Any:
        like = [other for other, sizes in self.values if sizes == shape]
        return self.g.op(self.pick(*BINARY), name, self.pick(*like)), shape

    def _scale(self, name: str, shape: tuple[int, ...]) -> Any:
        number = self.g.const(self.rng.standard_normal(self.pick((), (1,), shape[-1:])), np.float32)
        return self.g.op(self.pick("Mul", "Add", "Sub"), name, number), shape

    def _reshape(self, name: str, shape: tuple[int, ...]) -> Any:
        whole = int(np.prod(shape))
        target = self.pick((1, whole), (1, shape[1], whole // shape[1]), (1, whole // shape[-1], shape[-1]))
        return self.g.reshape(name, *target), target

    def _transpose(self, name: str, shape: tuple[int, ...]) -> Any:
        order = [0, *(1 + int(one) for one in self.rng.permutation(len(shape) - 1))]
        return self.g.op("Transpose", name, perm=order), tuple(shape[axis] for axis in order)

    def _reduce(self, name: str, shape: tuple[int, ...]) -> Any:
        axis = self.pick(*range(1, len(shape)))
        made = self.g.op(self.pick("ReduceMax", "ReduceMean", "ReduceMin"), name, axes=[axis], keepdims=1)
        return made, (*shape[:axis], 1, *shape[axis + 1 :])

    def _slice(self, name: str, shape: tuple[int, ...]) -> Any:
        axis = self.pick(*range(1, len(shape)))
        start = int(self.rng.integers(0, max(1, shape[axis] // 2)))
        facts = (self.g.const([one]) for one in (start, shape[axis], axis))
        return self.g.op("Slice", name, *facts), (*shape[:axis], shape[axis] - start, *shape[axis + 1 :])

    def _softmax(self, name: str, shape: tuple[int, ...]) -> Any:
        return self.g.op("Softmax", name, axis=self.pick(*range(1, len(shape)))), shape

    def _top(self, name: str, shape: tuple[int, ...]) -> Any:
        k = int(self.rng.integers(1, shape[-1] + 1))
        made, _ = self.g.op("TopK", name, self.g.const([k]), outputs=2)
        return made, (*shape[:-1], k)

    def _join(self, name: str, shape: tuple[int, ...]) -> Any:
        return self.g.op("Concat", name, name, axis=1), (shape[0], 2 * shape[1], *shape[2:])

    def model(self) -> onnx.ModelProto:
        read = {name for node in self.g.nodes for name in node.input}
        ends = [(name, TensorProto.FLOAT, list(shape)) for name, shape in self.values if name not in read]
        return self.g.model(*ends[:4])


def run(path: Path, image: Any) -> dict[str, Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(str(path), options)
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, {"image": image}), strict=True))


def check(seed: int, path: Path) -> bool:
    """Compare one drawn graph; False where the NPU alone takes it."""
    drawn = Drawn(seed)
    for _ in range(int(drawn.rng.integers(3, 12))):
        drawn.step()
    path.write_bytes(drawn.model().SerializeToString())
    network = read_onnx(path, exits=())
    if network.tail is None:
        return False
    image = np.random.default_rng(seed).integers(0, 256, (1, 8, 8, 3)).astype(np.uint8)
    right = run(path, (image / np.float32(255)).transpose(0, 3, 1, 2).astype(np.float32))
    (mine,) = network.tail.each(run_float_outputs(network, image))
    assert set(mine) == set(right), seed
    path.write_bytes(onnx_bytes(network))
    again = read_onnx(path)
    written = run(path, (image / np.float32(255)).transpose(0, 3, 1, 2).astype(np.float32))
    for name, values in right.items():
        for found in (mine[name], written[name]):
            assert found.shape == values.shape, (seed, name)
            np.testing.assert_allclose(found, values, rtol=2e-3, atol=2e-4, err_msg=f"seed {seed}, {name}")
    assert again.tail is not None
    return True


def test_drawn_tails(tmp_path: Path) -> None:
    assert sum(check(seed, tmp_path / "model.onnx") for seed in range(30)) > 10, "else they are no test of tails"


@pytest.mark.long
def test_many_drawn_tails(tmp_path: Path) -> None:
    assert sum(check(seed, tmp_path / "model.onnx") for seed in range(1000, 2500)) > 500
