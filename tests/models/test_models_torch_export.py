"""What PyTorch's own exporter writes for blocks in the wild: inverted residuals, dense blocks, early exits
with Dropout.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from fluidnpu.models import golden, quantise, read_onnx
from fluidnpu.models.numeric import run_float

torch = pytest.importorskip("torch")
nn = torch.nn


def inverted(inside: int, outside: int, stride: int) -> Any:
    """MobileNet-V2's block without its shortcut: expand, depthwise, project."""
    wide = 4 * inside
    return nn.Sequential(
        nn.Conv2d(inside, wide, 1, bias=False),
        nn.BatchNorm2d(wide),
        nn.ReLU6(),
        nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
        nn.BatchNorm2d(wide),
        nn.ReLU6(),
        nn.Conv2d(wide, outside, 1, bias=False),
        nn.BatchNorm2d(outside),
    )


class TwoExits(nn.Module):  # type: ignore[misc, name-defined]
    """A stem, an inverted residual and a downsampling one; an exit; two dense layers and a classifier over
    the flattened map.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6())
        self.same, self.down = inverted(8, 8, 1), inverted(8, 12, 2)
        self.early = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(12, 10))
        self.dense = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(n), nn.ReLU(), nn.Conv2d(n, 6, 3, 1, 1, bias=False)) for n in (12, 18)
        )
        self.pool = nn.AvgPool2d(2)
        self.late = nn.Sequential(nn.Linear(24 * 16, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: Any) -> tuple[Any, Any]:
        x = self.stem(x)
        x = self.down(x + self.same(x))
        early = self.early(x)
        for layer in self.dense:
            x = torch.cat([x, layer(x)], 1)
        x = self.pool(x)
        return early, self.late(x.view(x.size(0), -1))


def test_an_exported_network_computes_the_same(tmp_path: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = TwoExits().eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.3, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    images = torch.rand(4, 3, 32, 32)
    path = str(tmp_path / "net.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(
                net, (images,), path, dynamo=False, input_names=["image"], dynamic_axes={"image": {0: "N"}}
            )
        except (ImportError, TypeError) as error:
            pytest.skip(f"this PyTorch has no TorchScript exporter: {error}")
    network = read_onnx(path)
    assert len(network.exits) == 2
    nhwc = np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy())
    qnet = quantise(network, nhwc)
    with torch.no_grad():
        wanted = [one.numpy() for one in net(images)]
    for index, (real, stored) in enumerate(zip(run_float(network, nhwc), golden.run(qnet, nhwc), strict=True)):
        np.testing.assert_allclose(real, wanted[index], atol=1e-5)
        np.testing.assert_allclose(qnet.logits(index, stored), wanted[index], atol=1e-3)


@pytest.mark.parametrize("order", ["kept", "turned"])
def test_a_strided_view_of_a_pooled_map_is_read(tmp_path: Path, order: str) -> None:
    """PyTorch's newer exporter writes it where the example image lies channels last in memory, as one does
    that was permuted from NHWC: Reshape to one line, Gather, Reshape.
    """
    rng = np.random.default_rng(0)
    picked = np.arange(6)[:: 1 if order == "kept" else -1].reshape(1, 6, 1, 1)
    constants = {
        "w": rng.normal(0, 0.5, (6, 1, 3, 3)).astype(np.float32),
        "fc": rng.normal(0, 0.5, (4, 6)).astype(np.float32),
        "axes": np.array([-1, -2]),
        "line": np.array([-1]),
        "picked": picked,
        "flat": np.array([1, 6]),
    }
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["conv"]),
        helper.make_node("ReduceMean", ["conv", "axes"], ["mean"]),
        helper.make_node("Reshape", ["mean", "line"], ["joined"]),
        helper.make_node("Gather", ["joined", "picked"], ["strided"]),
        helper.make_node("Reshape", ["strided", "flat"], ["view"], allowzero=1),
        helper.make_node("Gemm", ["view", "fc"], ["logits"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "main_graph",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    network = read_onnx(tmp_path / "net.onnx")
    assert network.name == "net"
    image = rng.random((1, 8, 8, 1), np.float32)
    pooled = run_float(network, image)[0]
    session = pytest.importorskip("onnxruntime").InferenceSession(
        str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"]
    )
    np.testing.assert_allclose(pooled, session.run(None, {"image": image.transpose(0, 3, 1, 2)})[0], atol=1e-5)
