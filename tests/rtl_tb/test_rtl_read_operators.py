"""Operators that the reader makes of what the NPU has: one small network on onnxruntime, C and RTL."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import numpy_helper, parser

from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program, csim_network
from fluidnpu.host import Driver
from fluidnpu.host.devices.rtl import rtl_device
from fluidnpu.models import Kind, QuantisedNetwork, golden, quantise, read_onnx
from fluidnpu.rtl_tb import DramModel

GRAPH = """
<ir_version: 8, opset_import: ["": 17]>
operators (float[N, 3, 6, 7] image) => (float[N, 6, 12, 14] large, float[N, 6] vector)
<int64[4] wide = {1, 4, 6, 7}, int64[4] double = {1, 6, 12, 14}, int64[4] twice = {1, 2, 1, 1}, float bound = {0.4},
 int64 last = {-1}, float[3, 1, 1] slopes = {0.1, -0.2, 0.3}>
{
  signed = Conv <pads = [1, 1, 1, 1]> (image, w0)
  slanted = PRelu (signed, slopes)
  pyramid = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (slanted)
  strided = MaxPool <kernel_shape = [3, 2], pads = [1, 0, 1, 1], strides = [1, 1]> (pyramid)
  noise = Sub (image, strided)
  tiled = Tile (noise, twice)
  half = Conv (image, w1)
  most = Max (tiled, half)
  least = Min (most, bound)
  mean = GlobalAveragePool (least)
  squeezed = Conv (mean, w2)
  repeated = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (squeezed, , , wide)
  both = Concat <axis = 1> (least, repeated)
  mixed = Conv (both, w3)
  large = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (mixed, , , double)
  row = Gather <axis = 2> (mixed, last)
  vector = ReduceMean <axes = [2], keepdims = 0> (row)
}
"""
WEIGHTS = {"w0": (3, 3, 3, 3), "w1": (6, 3, 1, 1), "w2": (4, 6, 1, 1), "w3": (6, 10, 1, 1)}
DRAM = DramModel(latency_cycles=9, write_latency_cycles=5, outstanding=3)


def model() -> onnx.ModelProto:
    rng = np.random.default_rng(2)
    made = parser.parse_model(GRAPH)
    for name, shape in WEIGHTS.items():
        made.graph.initializer.append(numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name))
    return made


def images() -> npt.NDArray[np.float32]:
    return np.random.default_rng(3).random((2, 6, 7, 3), np.float32)


@pytest.fixture(scope="module")
def qnet(tmp_path_factory: pytest.TempPathFactory) -> QuantisedNetwork:
    path = tmp_path_factory.mktemp("operators") / "operators.onnx"
    onnx.save(model(), path)
    return quantise(read_onnx(path, exits=[]), images())


def test_it_is_made_of_what_the_npu_has(qnet: QuantisedNetwork) -> None:
    layers = qnet.network.layers
    assert qnet.network.tail is None
    assert any(layer.kind is Kind.MAX_POOL and layer.output_at != (0, 0) for layer in layers)  # a border of its own
    assert any(layer.padding[0] > 0 and layer.in_shape[0] == 1 for layer in layers)  # one pixel, repeated
    assert {layer.output_step for layer in layers} >= {(11, 1), (1, 13)}  # aligned corners, one axis at a time
    assert any(layer.residual for layer in layers)


def test_golden_equals_onnxruntime(qnet: QuantisedNetwork) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(model().SerializeToString(), providers=["CPUExecutionProvider"])
    for name, stored in golden.run_outputs(qnet, images()).items():
        feeds = (image.transpose(2, 0, 1)[None] for image in images())
        wanted = np.concatenate([session.run([name], {"image": feed})[0] for feed in feeds])
        np.testing.assert_allclose(qnet.output(name, stored), wanted, atol=2e-3)


def test_golden_equals_the_c_simulation(qnet: QuantisedNetwork) -> None:
    report = csim_network(qnet, design_for(qnet.network.workload, t_r=24, b_max=2, activation="lut"), images(), [1, 2])
    assert report.ok, report.summary()


@pytest.mark.long
def test_golden_equals_the_rtl(qnet: QuantisedNetwork) -> None:
    design = design_for(qnet.network.workload, t_r=24, split=True, b_max=2, activation="lut")
    driver = Driver(rtl_device(design, DRAM), compile_program(qnet, design), design, patience=50_000)
    driver.load()
    for slot, image in enumerate(images()):
        driver.write_sample(slot, image)
    driver.activate(range(2))
    driver.run_stage(0)
    for name, stored in golden.run_outputs(qnet, images()).items():
        np.testing.assert_array_equal(driver.stored_outputs(range(2), 0)[name], stored)
