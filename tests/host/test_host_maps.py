"""Exits that answer with maps, served: keypoints and label maps as golden has them, over REST and gRPC,
too.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from host_worlds import HostWorld, design_of, pixels
from oip_worlds import NAME, bundle_of, served
from tritonclient import grpc as triton_grpc

from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program, csim_network
from fluidnpu.host import Bundle, Driver, DriverUsageError, SimulatedNpu, serve_requests
from fluidnpu.host.devices.rtl import rtl_device
from fluidnpu.host.fleet.reference import Reference
from fluidnpu.host.oip.interface import outputs_of
from fluidnpu.host.serving import ModelOptions
from fluidnpu.host.serving.model import Model
from fluidnpu.models import golden, quantise
from fluidnpu.models.graph import MapCheck, MapTask, Output, keypoints, label_map
from fluidnpu.models.zoo.hourglass import random_hourglass
from fluidnpu.rtl_tb import DramModel
from fluidnpu.scheduler import Action, Answer, Outcome, Request, Run, View, make_policy, poisson
from fluidnpu.scheduler.tuning import AdaptationPlan, Goal

TASKS = list(MapTask)
SEED = 5


def world_of(task: MapTask, *, loaded: bool = True) -> HostWorld:
    qnet = quantise(random_hourglass(SEED, task))
    design = design_of(qnet)
    program = compile_program(qnet, design)
    npu = SimulatedNpu(design)
    driver = Driver(npu, program, design)
    if loaded:
        driver.load()
    return HostWorld(qnet, design, program, npu, driver)


def expected(w: HostWorld, images: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], list[Any]]:
    """Exit, confidence, and keypoints or label map of each image, offline in the golden model."""
    check = w.qnet.network.check
    assert isinstance(check, MapCheck)
    exits, _, sure = golden.early_exit(w.qnet, images)
    stored = golden.run(w.qnet, images)
    answers = []
    for row, exit in enumerate(exits):
        values = w.qnet.logits(int(exit), stored[exit][row : row + 1])
        answers.append((keypoints if check.task is MapTask.LANDMARKS else label_map)(values, check)[0])
    return exits, sure, answers


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("policy", ["greedy", "serial"])
def test_a_stream_gets_the_answers_of_the_golden_model(task: MapTask, policy: str) -> None:
    w = world_of(task)
    images = w.images(24)
    requests = poisson(2_000_000.0, len(images), slo_ns=10**9, rng=np.random.default_rng(2))
    run = serve_requests(requests, images, make_policy(policy), w.driver)
    exits, sure, answers = expected(w, images)
    assert len(set(exits.tolist())) > 1
    for reply, exit, confidence, answer in zip(run.answers, exits, sure, answers, strict=True):
        assert (reply.prediction, reply.exit, reply.confidence) == (-1, exit, confidence)
        given: dict[MapTask, Any] = {MapTask.LANDMARKS: reply.keypoints, MapTask.SEGMENTATION: reply.label_map}
        np.testing.assert_array_equal(given.pop(task), answer)
        assert list(given.values()) == [None]
    assert w.driver.measure_exit_rates(list(images)) == tuple(float(np.mean(exits == one)) for one in range(3))


class _AtOnce:
    """Runs one stage, then answers whoever stays."""

    name = "at once"

    def reset(self) -> None:
        pass

    def decide(self, view: View) -> Action:
        if view.waiting[1]:
            return Answer((view.waiting[1][0],), "enough")
        return Run(0, (view.waiting[0][0],))


def test_an_anytime_answer_brings_the_map_of_the_exit_passed() -> None:
    w = world_of(MapTask.LANDMARKS)
    images = w.images(8)
    run = serve_requests([Request(i, i, 10**12) for i in range(8)], images, _AtOnce(), w.driver)
    check = w.qnet.network.check
    assert isinstance(check, MapCheck)
    wanted = keypoints(w.qnet.logits(0, golden.run(w.qnet, images)[0]), check)
    assert {reply.outcome for reply in run.answers} == {Outcome.EXIT, Outcome.ANYTIME}
    for reply, points in zip(run.answers, wanted, strict=True):
        assert (reply.exit, reply.prediction) == (0, -1)
        assert reply.keypoints is not None
        np.testing.assert_array_equal(reply.keypoints, points)


@pytest.mark.parametrize("task", TASKS)
def test_rest_and_grpc_give_maps_by_outputs_of_their_own(task: MapTask, tmp_path: Path) -> None:
    w = world_of(task, loaded=False)
    images = w.images(4, seed=3)
    exits, sure, answers = expected(w, images)
    name, kind = ("keypoints", "FP32") if task is MapTask.LANDMARKS else ("label_map", "UINT8")
    with served(tmp_path, w) as world:
        _, metadata = world.call("GET", f"/v2/models/{NAME}")
        known = {one["name"]: one for one in metadata["outputs"]}
        assert set(known) == {"label", "confidence", "exit", "logits", name}
        assert known[name] == {"name": name, "datatype": kind, "shape": [-1, *answers[0].shape]}
        assert known["logits"]["shape"] == [-1, 12 * 8 * 3]
        for image, exit, confidence, answer in zip(images, exits, sure, answers, strict=True):
            status, body = world.call("POST", f"/v2/models/{NAME}/infer", world.request(image))
            assert status == 200
            found = {one["name"]: one for one in body["outputs"]}
            assert (found["label"]["data"], found["exit"]["data"]) == ([-1], [exit])
            assert np.float32(found["confidence"]["data"][0]) == np.float32(confidence)
            rest = np.array(found[name]["data"], answer.dtype).reshape(found[name]["shape"])
            np.testing.assert_array_equal(rest[0], answer)
        stub = triton_grpc.InferenceServerClient(world.grpc_place)
        tensor = triton_grpc.InferInput(world.input, list(images.shape), "UINT8")
        tensor.set_data_from_numpy(images)
        asked = [triton_grpc.InferRequestedOutput(one) for one in (name, "exit")]
        batch = stub.infer(NAME, [tensor], outputs=asked)
        np.testing.assert_array_equal(batch.as_numpy("exit"), exits)
        np.testing.assert_array_equal(batch.as_numpy(name), np.stack(answers))
        stub.close()


@pytest.mark.parametrize("task", TASKS)
def test_a_fleet_judges_boards_that_answer_with_maps(task: MapTask) -> None:
    w = world_of(task)
    images = w.images(3)
    run = serve_requests([Request(i, i, 10**12) for i in range(3)], images, make_policy("serial"), w.driver)
    outputs = {
        "exit": np.array([reply.exit for reply in run.answers]),
        "label": np.array([reply.prediction for reply in run.answers]),
        "logits": np.array([reply.logits for reply in run.answers], np.float32),
    }
    reference = Reference(Bundle(design=w.design, program=w.program))
    assert reference.objection(images, outputs) == ""
    assert (
        reference.objection(images, outputs | {"label": np.array([-1, 0, -1])}) == "label 0 is not that of its logits"
    )
    wrong = outputs["logits"].copy()
    wrong[2, 5] += 1
    assert "1 of 288 logits" in reference.objection(images, outputs | {"logits": wrong})


def test_exits_with_maps_are_changed_by_hand_and_do_not_adapt(tmp_path: Path) -> None:
    w = world_of(MapTask.SEGMENTATION, loaded=False)
    folder, names = bundle_of(w, tmp_path / NAME), tuple(exit.name for exit in w.program.exits[:-1])
    model = Model(NAME, folder, ModelOptions())
    model.load()
    try:
        model.change_exits({names[0]: None}, "by hand")
        assert [row["active"] for row in model.exits()["exits"]] == [False, *[True] * (len(names) - 1)]
    finally:
        model.close()
    sure, classes = np.ones((20, len(names) + 1)), np.zeros((20, len(names) + 1), np.int64)
    plan = AdaptationPlan(
        names=names, goal=Goal(), chain=(), confidence=sure, classes=classes, truths=classes[:, 0],
        reference=np.ones(20, bool),
    )  # fmt: skip
    with pytest.raises(DriverUsageError, match=r"exits that adapt name classes, and those of .* give maps"):
        Model(NAME, folder, ModelOptions(adapt=plan)).load()


def test_outputs_of_the_same_name_give_way() -> None:
    """A network may have an output `keypoints` of its own beside exits of maps; both can be asked for."""
    network = random_hourglass(SEED, MapTask.LANDMARKS)
    shape = network.tensors["r1b2_b_out"]
    own = Output(
        name="keypoints",
        tensor="r1b2_b_out",
        shape=(shape[2], *shape[:2]),
        axes="chw",
        split=(shape[2],),
    )
    qnet = quantise(replace(network, outputs=(own,)))
    names = [one.name for one in outputs_of(compile_program(qnet, design_of(qnet)))]
    assert names == ["label", "confidence", "exit", "logits", "keypoints", "output.keypoints"]


@pytest.mark.long
@pytest.mark.parametrize("task", TASKS)
def test_maps_of_exits_are_the_same_in_c_and_rtl(task: MapTask) -> None:
    """Every stored value of every exit's maps: golden model, generated C++ and RTL behind a slow memory."""
    qnet = quantise(random_hourglass(SEED, task, exits=1))
    design = design_for(qnet.network.workload, t_r=24, split=True, b_max=2)
    images = pixels(qnet, 2)
    report = csim_network(qnet, design, images, [1, 2])
    assert report.ok, report.summary()
    rough = DramModel(
        latency_cycles=37, write_latency_cycles=23, link_words=5.3, total_words=7.1, links=(0, 1, 0),
        refresh_interval_cycles=900, refresh_cycles=60, outstanding=3,
    )  # fmt: skip
    driver = Driver(rtl_device(design, rough), compile_program(qnet, design), design, patience=50_000)
    driver.load()
    for slot, image in enumerate(images):
        driver.write_sample(slot, image)
    driver.activate(range(2))
    for stage, stored in enumerate(golden.run(qnet, images)):
        driver.run_stage(stage)
        np.testing.assert_array_equal(driver.stored_logits(range(2), stage), stored)


def test_replies_of_classifiers_have_no_maps() -> None:
    from host_worlds import world

    w = world(3)
    run = serve_requests([Request(0, 0, 10**12)], w.images(1), make_policy("serial"), w.driver)
    (reply,) = run.answers
    assert reply.keypoints is None
    assert reply.label_map is None
