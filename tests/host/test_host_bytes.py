"""Words of 8 bits (ADR 75) from images to answers: the simulated device, its driver, parts and a server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_worlds import HostWorld, design_of, network, read, right, world
from network_worlds import EXITS, NAMES, PairWorld, any_company
from oip_worlds import NAME, served

from fluidnpu.dse import Design
from fluidnpu.hls import Cause, compile_program
from fluidnpu.hls.program import Stages
from fluidnpu.host import Bundle, Driver, DriverUsageError, NpuError, SimulatedNpu
from fluidnpu.host.fleet.fronts.ensemble import SPARE_BITS, fraction_bits
from fluidnpu.host.fleet.parts import part_of
from fluidnpu.host.fleet.roster import disagreement
from fluidnpu.host.oip.interface import input_of, outputs_of
from fluidnpu.host.serving.stream import serve_requests
from fluidnpu.models import QuantisedNetwork, golden
from fluidnpu.scheduler import Request, make_policy

SIZES: dict[str, Any] = {"word_bits": 8, "t_p": 8, "t_c": 8, "weight_slots": 2}


def of_bytes(seed: int = 3, **options: Any) -> HostWorld:
    return world(seed, **SIZES, **options)


@pytest.mark.parametrize("options", [{}, {"activation": "lut"}], ids=["", "units"])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_drawn_networks_have_the_bits_of_golden(seed: int, options: dict[str, Any]) -> None:
    w = of_bytes(seed, slots=10, **options)
    assert (w.program.bits, w.program.dtype.name) == (8, "int8")
    right(w, 1 + seed % 4, seed)


def test_a_slot_takes_about_half_of_what_words_of_16_bits_take() -> None:
    narrow, wide = (max(place.size for place in one.program.tensors.values()) for one in (of_bytes(), world(3)))
    assert 2 * narrow == wide


def test_requests_leave_where_golden_says() -> None:
    w = of_bytes(exits=3)
    images = w.images(24)
    exits, classes, sureness = golden.early_exit(w.qnet, images)
    requests = [Request(i, 0, 10**15) for i in range(len(images))]
    replies = serve_requests(requests, images, make_policy("fluid"), w.driver).answers
    assert [reply.exit for reply in replies] == exits.tolist()
    assert [reply.prediction for reply in replies] == classes.tolist()
    np.testing.assert_allclose([reply.confidence for reply in replies], sureness, rtol=1e-12)
    assert len(set(exits.tolist())) > 1


def with_zeros(qnet: QuantisedNetwork, seed: int = 7) -> QuantisedNetwork:
    """The same integers with zero points, as files of other tools bring them."""
    rng = np.random.default_rng(seed)
    formats = {name: replace(own, zero=int(rng.integers(-128, 128))) for name, own in qnet.formats.items()}
    layers = tuple(replace(one, halo=formats[one.layer.input].zero) for one in qnet.layers)
    return replace(qnet, layers=layers, formats=formats)


def shifted(w: HostWorld) -> tuple[QuantisedNetwork, Driver]:
    """The network with zero points, and a driver that has them."""
    qnet = with_zeros(w.qnet)
    program = compile_program(qnet, w.design)
    return qnet, Driver(SimulatedNpu(w.design), program, w.design, guarded=True)


def test_zero_points_stand_in_halos_and_are_taken_from_answers() -> None:
    w = of_bytes(5)
    qnet, driver = shifted(w)
    images = w.images(2)
    driver.load()
    for attempt in range(2):
        for slot, image in enumerate(images):
            driver.write_sample(slot, image)
        driver.activate((0, 1))
        for stage, stored in enumerate(golden.run(qnet, images)):
            driver.run_stage(stage)
            np.testing.assert_array_equal(driver.stored_logits((0, 1), stage), stored)
            np.testing.assert_array_equal(driver.logits((0, 1), stage), qnet.logits(stage, stored))
        if not attempt:
            driver.recover()


def test_a_descriptor_of_the_other_width_is_refused() -> None:
    w = of_bytes()
    table = w.driver._buffers[0].array
    skip = -w.driver._buffers[0].physical_address % 64
    other = replace(w.program.descriptors[0], byte_words=0)
    table[skip : skip + 128] = np.frombuffer(other.pack(), np.uint8)
    w.driver.write_sample(0, w.images(1)[0])
    w.driver.activate((0,))
    with pytest.raises(NpuError) as error:
        w.driver.run_stage(0)
    assert error.value.cause is Cause.BAD_DESCRIPTOR


@pytest.mark.parametrize("seed", [7, 8])
def test_networks_with_zeros_run_side_by_side(seed: int) -> None:
    base = [network(one, EXITS, bits=8) for one in (seed, seed + 20)]
    design = Design.joined(
        [replace(design_of(one, **SIZES), network=name) for one, name in zip(base, NAMES, strict=True)]
    )
    qnets = tuple(with_zeros(one, seed + at) for at, one in enumerate(base))
    programs = tuple(compile_program(one, design.part(at)) for at, one in enumerate(qnets))
    npu = SimulatedNpu(design)
    driver = Driver(npu, programs, design, guarded=True)
    driver.load()
    assert any_company(PairWorld(qnets, design, programs, npu, driver), np.random.default_rng(seed)) > 1


@pytest.mark.parametrize("zeros", [False, True])
def test_parts_hand_on_tensors_of_int8(zeros: bool) -> None:
    w = of_bytes(exits=3, loaded=False)
    images = w.images(3)
    qnet = with_zeros(w.qnet) if zeros else w.qnet
    whole = Bundle(design=w.design, program=compile_program(qnet, w.design))
    first, rest = (part_of(whole, Stages(first=a, last=b, exits=(b,))) for a, b in ((0, 0), (1, 2)))
    assert (outputs_of(first.program)[-1].datatype, input_of(rest.program).datatype) == ("INT8", "INT8")
    driver = Driver(SimulatedNpu(first.design), first.program, first.design)
    driver.load()
    for slot, image in enumerate(images):
        driver.write_sample(slot, image)
    driver.activate(range(3))
    driver.run_stage(0)
    onward = driver.onward(range(3))
    assert onward.dtype == np.int8
    driver = Driver(SimulatedNpu(rest.design), rest.program, rest.design)
    driver.load()
    with pytest.raises(DriverUsageError, match="must be int8 as stored, not int16"):
        driver.write_sample(0, onward[0].astype(np.int16))
    for slot, tensor in enumerate(onward):
        driver.write_sample(slot, tensor)
    driver.activate(range(3))
    driver.run_stage(0)
    np.testing.assert_array_equal(driver.stored_logits(range(3), 0), golden.run(qnet, images)[2])


def test_a_server_answers_as_golden(tmp_path: Path) -> None:
    w = of_bytes()
    images = w.images(6)
    with served(tmp_path, w) as s:
        exits, classes = s.golden(images)
        status, facts = s.call("GET", f"/v2/models/{NAME}")
        assert (status, facts["inputs"][0]["datatype"]) == (200, "UINT8")
        status, live = s.call("GET", "/live.json")
        assert (status, live["models"][0]["bits"]) == (200, 8)
        for image, exit, label in zip(images, exits, classes, strict=True):
            status, answer = s.call("POST", f"/v2/models/{NAME}/infer", s.request(image))
            assert status == 200
            found = {one["name"]: one["data"] for one in answer["outputs"]}
            assert (found["exit"], found["label"]) == ([exit], [label])


def test_saturations_are_those_of_int8() -> None:
    w = of_bytes()
    w.driver.write_sample(0, np.full(w.program.input_intake.shape, 127, np.int8))
    w.driver.activate((0,))
    tensors = {w.program.input: np.full((1, *w.program.input_intake.shape), 127, np.int8)}
    w.driver.run_stage(0)
    assert read(w.npu, "SATURATIONS") == sum(golden.run_stage(w.qnet, 0, tensors).values())


def test_bundles_of_both_widths_are_not_one_model_of_a_fleet() -> None:
    narrow, wide = (
        Bundle(design=w.design, program=w.program) for w in (of_bytes(loaded=False), world(3, loaded=False))
    )
    assert disagreement(narrow, wide) == "words of 8 and 16 bits"
    other = world(3, **SIZES | {"t_p": 11, "t_c": 12}, loaded=False)
    assert not disagreement(narrow, Bundle(design=other.design, program=other.program))


@pytest.mark.parametrize(("scale", "bits"), [(2.0**-7, 7), (1.0, 0), (4.0, -2), (0.03, 6 + SPARE_BITS)])
def test_an_ensemble_rounds_only_scales_that_are_no_powers_of_two(scale: float, bits: int) -> None:
    assert fraction_bits(scale) == bits
