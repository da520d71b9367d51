"""Outputs that are no exits: bit for bit from the golden model through program and device to the reply."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rtl_worlds import BASE_SEED, ROUGH, network, rtl_world

from fluidnpu.dse import BatchPlan
from fluidnpu.dse.design import Stack
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import Program, ProgramError, compile_program
from fluidnpu.host import Bundle, Driver, Reply, SimulatedNpu, serve_requests
from fluidnpu.host.oip.inference import join_outputs
from fluidnpu.models import QuantisedNetwork, golden, quantise
from fluidnpu.models.zoo.patchwork import random_patchwork
from fluidnpu.scheduler import make_policy, poisson

FITTING = [
    seed for seed in range(60) if len(random_patchwork(seed, exits=seed % 3).layers) <= len(network(BASE_SEED).layers)
]


def patchwork(seed: int) -> QuantisedNetwork:
    return quantise(random_patchwork(seed, exits=seed % 3))


def pixels(qnet: QuantisedNetwork, count: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    shape = qnet.network.tensors[qnet.network.input]
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def loaded(qnet: QuantisedNetwork) -> Driver:
    design = design_for(qnet.network.workload)
    driver = Driver(SimulatedNpu(design), compile_program(qnet, design), design)
    driver.load()
    return driver


def check_all_stages(driver: Driver, qnet: QuantisedNetwork, images: npt.NDArray[np.uint8]) -> None:
    """Run stage by stage; logits and outputs equal golden's as stored, and outputs in real values, too."""
    slots = range(len(images))
    logits, outputs = golden.run(qnet, images), golden.run_outputs(qnet, images)
    for slot, image in enumerate(images):
        driver.write_sample(slot, image)
    driver.activate(slots)
    for stage in range(len(qnet.exits)):
        driver.run_stage(stage)
        np.testing.assert_array_equal(driver.stored_logits(slots, stage), logits[stage])
        stored, real = driver.stored_outputs(slots, stage), driver.outputs(slots, stage)
        due = {one.name for one in qnet.network.outputs if one.stage <= stage}
        assert set(stored) == set(real) == due
        for name in due:
            np.testing.assert_array_equal(stored[name], outputs[name])
            np.testing.assert_array_equal(real[name], qnet.output(name, outputs[name]))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_the_simulated_device_gives_out_what_golden_does(seed: int) -> None:
    qnet = patchwork(seed)
    check_all_stages(loaded(qnet), qnet, pixels(qnet, 3, seed))


@pytest.mark.parametrize("core", ["rtl", pytest.param("hls", marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", [*FITTING[:3], *(pytest.param(s, marks=pytest.mark.matrix) for s in FITTING[3:])])
def test_the_rtl_gives_out_what_golden_does(seed: int, core: str) -> None:
    qnet = patchwork(seed)
    plan = [None, BatchPlan(b_r=2), BatchPlan(k=Stack.TWO, b_r=4), BatchPlan(b_r=4, row_lanes=True)][seed % 4]
    world = rtl_world(plan=plan, dram=ROUGH, core=core, qnet=qnet)
    check_all_stages(world.driver, qnet, pixels(qnet, 1 + seed % 4, seed))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_no_tensor_lies_where_another_does(seed: int) -> None:
    """So what is given out after one stage still stands there after the last."""
    qnet = patchwork(seed)
    program = compile_program(qnet, design_for(qnet.network.workload))
    places = sorted(program.tensors.values(), key=lambda place: place.offset)
    for before, after in pairwise(places):
        assert before.offset + before.size <= after.offset
    assert places[-1].offset + places[-1].size <= program.slot_bytes


def test_replies_bring_the_outputs_of_the_stages_that_ran() -> None:
    qnet = patchwork(1)
    driver = loaded(qnet)
    images = pixels(qnet, 12)
    requests = poisson(2_000.0, len(images), slo_ns=10**9, rng=np.random.default_rng(2))
    served = serve_requests(requests, images, make_policy("greedy"), driver)
    expected = golden.run_outputs(qnet, images)
    for index, reply in enumerate(served.replies):
        assert isinstance(reply, Reply)
        due = {one.name for one in qnet.network.outputs if one.stage <= reply.exit}
        assert set(reply.outputs) == due
        for name in due:
            np.testing.assert_array_equal(reply.outputs[name], qnet.output(name, expected[name][index : index + 1])[0])


def test_a_network_without_classes_is_served() -> None:
    qnet = quantise(random_patchwork(3, exits=0))
    assert [exit.logits for exit in qnet.exits] == [None]
    driver = loaded(qnet)
    images = pixels(qnet, 4)
    requests = poisson(2_000.0, len(images), slo_ns=10**9, rng=np.random.default_rng(2))
    served = serve_requests(requests, images, make_policy("serial"), driver)
    stored = golden.run_outputs(qnet, images)["map0"]
    for index, reply in enumerate(served.replies):
        assert isinstance(reply, Reply)
        assert (reply.prediction, reply.confidence, reply.exit) == (-1, 1.0, 0)
        np.testing.assert_array_equal(reply.outputs["map0"], qnet.output("map0", stored[index : index + 1])[0])


def test_the_protocol_gives_out_maps_and_nan_where_a_sample_left_before() -> None:
    qnet = patchwork(2)
    images = pixels(qnet, 2)
    outputs = qnet.network.outputs
    assert [one.stage for one in outputs] == [0, 1]
    real = {one.name: qnet.output(one.name, golden.run_outputs(qnet, images)[one.name]) for one in outputs}
    times: dict[str, Any] = {"request_id": 0, "arrival_ns": 0, "start_ns": 0, "end_ns": 1, "deadline_ns": 1}
    early, late = (
        Reply(
            prediction=1, exit=exit, confidence=0.5, logits=np.zeros(5), **times,
            outputs={one.name: real[one.name][index] for one in outputs if one.stage <= exit},
        )
        for index, exit in enumerate((0, 1))
    )  # fmt: skip
    answer = join_outputs([early, late], ["label", "map0", "map1"], outputs)
    np.testing.assert_array_equal(answer["map0"], real["map0"])
    assert np.isnan(answer["map1"][0]).all()
    np.testing.assert_array_equal(answer["map1"][1], real["map1"][1])


def test_bundles_carry_outputs_and_old_ones_are_still_read(tmp_path: Path) -> None:
    for seed, schema in ((1, 2), (4, 2)):
        qnet = patchwork(seed)
        design = design_for(qnet.network.workload)
        Bundle(design=design, program=compile_program(qnet, design)).write(tmp_path)
        assert json.loads((tmp_path / "program.json").read_text())["schema"] == schema
        assert Bundle.read(tmp_path).program == compile_program(qnet, design)
    plain = network(BASE_SEED)  # what earlier versions wrote: no outputs, and not a byte of them in the file
    program = compile_program(plain, design_for(plain.network.workload))
    program.save(tmp_path)
    text = (tmp_path / "program.json").read_text()
    assert json.loads(text)["schema"] == 1
    assert "outputs" not in text
    assert Program.load(tmp_path) == program


def test_a_program_refuses_outputs_of_no_stage_and_of_no_tensor() -> None:
    qnet = patchwork(1)
    program = compile_program(qnet, design_for(qnet.network.workload))
    late = tuple(replace(one, output=replace(one.output, stage=9)) for one in program.outputs)
    with pytest.raises(ProgramError, match="must come from one of 1 stages, and 'map0' does not"):
        replace(program, outputs=late)
    gone = tuple(replace(one, output=replace(one.output, tensor="gone")) for one in program.outputs)
    with pytest.raises(ProgramError, match="every output and the input need a place in the slot; missing: gone"):
        replace(program, outputs=gone)
