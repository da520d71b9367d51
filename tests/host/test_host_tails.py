"""Networks that the host ends, served: the user's outputs over REST and gRPC, and of a fleet."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tritonclient.grpc as triton_grpc
from fleet_worlds import NAME as FLEET_NAME
from fleet_worlds import fleet, fleet_file
from host_worlds import HostWorld, Images, design_of, pixels
from oip_worlds import NAME, bundle_of, served
from tail_graphs import GRAPHS

import fluidnpu
from fluidnpu.hls import Program, ProgramError, compile_program
from fluidnpu.hls.program import program as programs
from fluidnpu.host import Bundle, Driver, HostError, SimulatedNpu, serve_requests, tail_outputs
from fluidnpu.host.errors import DriverUsageError, ProtocolError
from fluidnpu.host.serving.model import Model
from fluidnpu.host.serving.tails import check_joinable, tail_engine
from fluidnpu.models import golden, quantise, read_onnx
from fluidnpu.models.tail import Tail
from fluidnpu.models.tail.graph import TailOutput
from fluidnpu.scheduler import Request, make_policy

Array = npt.NDArray[Any]
DATATYPES = {"float32": "FP32", "int64": "INT64"}


def world_of(name: str, folder: Path, threshold: float | None = None) -> HostWorld:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(GRAPHS[name]().SerializeToString())
    network = read_onnx(path, threshold)
    shape = network.tensors[network.input]
    qnet = quantise(network, np.random.default_rng(0).integers(0, 256, (8, *shape)).astype(np.uint8))
    design = design_of(qnet)
    program = compile_program(qnet, design)
    npu = SimulatedNpu(design)
    return HostWorld(qnet, design, program, npu, Driver(npu, program, design))


def tail_of(w: HostWorld) -> Tail:
    assert w.program.tail is not None
    return w.program.tail


def expected(w: HostWorld, images: Images) -> list[dict[str, Array]]:
    """What the tail makes of the golden model's outputs."""
    stored = golden.run_outputs(w.qnet, images)
    return tail_of(w).each({name: w.qnet.output(name, values) for name, values in stored.items()})


@pytest.mark.parametrize("name", GRAPHS)
def test_a_user_gets_outputs_of_his_own_over_rest_and_grpc(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world_of(name, tmp_path)
    images = pixels(w.qnet, 3, seed=4)
    single, tail = expected(w, images), tail_of(w)
    right, threads, run = tail.joined(single), set(), Tail.run

    def watched(self: Tail, *inputs: Any) -> Any:
        threads.add(threading.current_thread().name.rpartition("_")[0])
        return run(self, *inputs)

    monkeypatch.setattr(Tail, "run", watched)
    with served(tmp_path, w) as world:
        assert threads == {"asyncio"}, "a load warms it up on the thread that loads, not on the event loop's"
        threads.clear()
        _, metadata = world.call("GET", f"/v2/models/{NAME}")
        told = {one["name"]: (one["datatype"], one["shape"]) for one in metadata["outputs"]}
        for one in tail.outputs:
            assert told[one.name] == (DATATYPES[one.dtype], [-1, *one.shape[1:]])
            assert (f"{one.name}.rows" in told) == (not one.batched)
        hidden = set(tail.inputs) - {one.name for one in tail.outputs}
        assert hidden.isdisjoint(told)
        for image, wanted in zip(images, single, strict=True):
            status, body = world.call("POST", f"/v2/models/{NAME}/infer", world.request(image))
            assert status == 200
            found = {one["name"]: one for one in body["outputs"]}
            assert set(found) == set(told)
            for key, values in wanted.items():
                assert found[key]["shape"] == list(values.shape)
                np.testing.assert_allclose(np.reshape(found[key]["data"], values.shape), values, rtol=1e-6)
        with fluidnpu.connect(world.url, NAME) as npu:
            answer = npu.infer(images)
            for key, values in right.items():
                np.testing.assert_array_equal(answer.outputs[key], values)
            assert answer.parameters["tail_us"] >= 0
            told_us = npu.statistics()["inference_stats"]["compute_output"]["ns"] // 1000
            assert told_us >= answer.parameters["tail_us"]
        asked = world.request(images[0], outputs=[{"name": "exit"}])
        assert "tail_us" not in world.call("POST", f"/v2/models/{NAME}/infer", asked)[1]["parameters"]
        stub = triton_grpc.InferenceServerClient(world.grpc_place)
        tensor = triton_grpc.InferInput(world.input, list(images.shape), "UINT8")
        tensor.set_data_from_numpy(images)
        batch = stub.infer(NAME, [tensor], outputs=[triton_grpc.InferRequestedOutput(key) for key in right])
        for key, values in right.items():
            np.testing.assert_array_equal(batch.as_numpy(key), values)
        stub.close()
    assert threads == {"npu-tail"}, "a tail keeps neither the NPU's thread nor the event loop"


def test_who_leaves_early_has_no_outputs_of_the_end(tmp_path: Path) -> None:
    w = world_of("best", tmp_path, threshold=0.0)
    images = pixels(w.qnet, 2)
    with served(tmp_path, w) as world, fluidnpu.connect(world.url, NAME) as npu:
        answer = npu.infer(images)
        assert answer.outputs["exit"].tolist() == [0, 0]
        share, label = tail_of(w).outputs
        assert np.isnan(answer.outputs[share.name]).all()
        assert (answer.outputs[label.name] == -1).all()


def test_bundles_carry_the_tail(tmp_path: Path) -> None:
    w = world_of("suppressed", tmp_path)
    Bundle(design=w.design, program=w.program).write(tmp_path / "bundle")
    program = Bundle.read(tmp_path / "bundle").program
    assert program == w.program
    assert program.tail is not None
    for name, array in tail_of(w).constants.items():
        np.testing.assert_array_equal(array, program.tail.constants[name])
    manifest = tmp_path / "bundle" / "program.json"
    raw = json.loads(manifest.read_text())
    assert raw["schema"] == 4
    raw["tail"]["nodes"][0][0] = "Exec"
    del raw["digest"]
    manifest.write_text(json.dumps({**raw, "digest": programs._digest(raw)}))  # so that the tail itself is looked at
    with pytest.raises(
        ProgramError, match=r"program.json: a node of a tail must be one of its \d+ operators, not 'Exec'"
    ):
        Program.load(tmp_path / "bundle")
    with pytest.raises(ProgramError, match="must read outputs of it"):
        replace(w.program, outputs=())


def test_python_has_the_users_outputs_of_replies(tmp_path: Path) -> None:
    w = world_of("suppressed", tmp_path)
    w.driver.load()
    images = pixels(w.qnet, 2)
    run = serve_requests([Request(i, i, 10**12) for i in range(2)], images, make_policy("serial"), w.driver)
    found = tail_outputs(w.program, run.answers)
    for key, values in tail_of(w).joined(expected(w, images)).items():
        np.testing.assert_array_equal(found[key], values)
    assert tail_outputs(replace(w.program, tail=None), run.answers) == {}
    broken = replace(
        tail_of(w),
        nodes=(replace(tail_of(w).nodes[0], operator="Concat", attributes={"axis": 9}), *tail_of(w).nodes[1:]),
    )
    with pytest.raises(HostError, match=r"the host's part of 'tailed' must run on what the NPU gives: 'Concat'"):
        tail_outputs(replace(w.program, tail=broken), run.answers)


def test_shapes_of_their_own_want_requests_of_their_own(tmp_path: Path) -> None:
    w = world_of("suppressed", tmp_path)
    check_joinable(w.program, 5)
    ragged = replace(tail_of(w), outputs=(TailOutput(tail_of(w).outputs[0].name, "float32", (1, -1)),))
    program = replace(w.program, tail=ragged)
    check_joinable(program, 1)
    with pytest.raises(
        ProtocolError, match=r"must hold one sample, since output '.*' has another shape for each, not 2"
    ):
        check_joinable(program, 2)


@pytest.mark.parametrize("name", ["peaks", "text", "best", "old"])
def test_onnxruntime_runs_tails_where_the_environment_asks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world_of(name, tmp_path, threshold=0.0)
    images = pixels(w.qnet, 2)
    single = expected(w, images)
    monkeypatch.setenv("FLUIDNPU_TAIL", "onnxruntime")
    engine = tail_engine(w.program)
    assert engine is not None
    stored = golden.run_outputs(w.qnet, images)
    real = {key: w.qnet.output(key, values) for key, values in stored.items()}
    for row, wanted in enumerate(single):
        found = engine({key: values[row : row + 1] for key, values in real.items()}, None)
        assert list(found) == list(wanted)
        for key, values in wanted.items():
            assert (found[key].dtype, found[key].shape) == (values.dtype, values.shape)
            np.testing.assert_allclose(found[key], values, rtol=1e-4, atol=1e-5)
    assert engine({}, None) == {}  # of a sample that left early
    odd = replace(tail_of(w), opset=64)  # which the interpreter takes, and onnxruntime has not
    with pytest.raises(DriverUsageError, match="onnxruntime must take the tail, and it refuses it"):
        tail_engine(replace(w.program, tail=odd))
    monkeypatch.setenv("FLUIDNPU_TAIL", "torch")
    with pytest.raises(DriverUsageError, match="FLUIDNPU_TAIL must be numpy or onnxruntime, not 'torch'"):
        tail_engine(w.program)
    monkeypatch.delenv("FLUIDNPU_TAIL")
    assert tail_engine(replace(w.program, tail=None)) is None


@pytest.mark.long
@pytest.mark.parametrize("name", ["suppressed", "segmented"])
def test_boards_of_a_fleet_run_the_tails_of_their_answers(name: str, tmp_path: Path) -> None:
    w = world_of(name, tmp_path)
    images = pixels(w.qnet, 12)
    tail = tail_of(w)
    right = tail.joined(expected(w, images))
    devices = '[[devices]]\ntype = "board"\ncount = 2\n'
    with fleet(fleet_file(tmp_path, devices, w)) as (server, _), fluidnpu.connect(server.url(), FLEET_NAME) as npu:
        told = {one["name"]: one["shape"] for one in npu.metadata()["outputs"]}
        for one in tail.outputs:
            assert told[one.name] == [-1, *one.shape[1:]]
        answer = npu.infer(images)
        for key, values in right.items():
            np.testing.assert_array_equal(answer.outputs[key], values)


def test_a_request_that_waits_for_another_version_is_ended_by_its_tail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world_of("peaks", tmp_path / "file")
    image = pixels(w.qnet, 1, seed=4)
    network = read_onnx(tmp_path / "file" / "model.onnx")
    qnet = quantise(network, np.zeros((8, *network.tensors[network.input]), np.uint8))  # of other scales
    later = HostWorld(qnet, w.design, compile_program(qnet, w.design), w.npu, w.driver)
    assert [one.scale for one in later.program.outputs] != [one.scale for one in w.program.outputs]
    submit = Model.submit

    def after_a_load(self: Model, *sample: Any) -> Any:
        if self.loads == 1:
            bundle_of(later, tmp_path / NAME)
            self.load()
        return submit(self, *sample)

    monkeypatch.setattr(Model, "submit", after_a_load)
    with served(tmp_path, w) as world, fluidnpu.connect(world.url, NAME) as npu:
        answer = npu.infer(image)
    for key, values in tail_of(later).joined(expected(later, image)).items():
        np.testing.assert_array_equal(answer.outputs[key], values)
