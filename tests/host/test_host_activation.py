"""The simulated NPU with an activation unit equals the golden model, and refuses what its unit cannot do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hls_cases import LANES, R_BATCHING, ROW_LANES, SMALL, SPLIT, UNITS, WIDE, design_of, network_of, random_units
from host_worlds import pixels, read
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import Design
from fluidnpu.hls import Cause, Program, compile_program
from fluidnpu.hls.formats import NO_WEIGHTS
from fluidnpu.hls.program import pieces_at
from fluidnpu.host import Driver, NpuError, SimulatedNpu
from fluidnpu.models import QuantisedNetwork, golden

UNIT = {**SMALL, "activation": "dsp"}
PLANS = {"r": R_BATCHING, "wide": WIDE, "split": SPLIT, "rows": ROW_LANES, "lanes": LANES}


def driver_of(program: Program, design: Design) -> Driver:
    driver = Driver(SimulatedNpu(design), program, design, slots=9)
    driver.load()
    return driver


def right(qnet: QuantisedNetwork, driver: Driver, batch: int) -> None:
    """Run a batch in slots that are not neighbours, and hold its logits and saturations to golden."""
    images = pixels(qnet, batch, seed=batch)
    slots = sorted(np.random.default_rng(batch).permutation(9)[:batch].tolist())
    for slot, image in zip(slots, images, strict=True):
        driver.write_sample(slot, image)
    driver.activate(slots)
    driver.run_stage(0)
    expected, saturated = golden.run_counting(qnet, images)
    np.testing.assert_array_equal(driver.stored_logits(slots, 0), expected[0])
    assert read(driver.device, "SATURATIONS") == sum(saturated.values())


@pytest.mark.parametrize("plan", PLANS)
def test_every_use_at_every_batch_size_is_golden(plan: str) -> None:
    qnet = network_of(np.random.default_rng(4), (7, 6, 3), UNITS)
    design = design_of(qnet, PLANS[plan], split=plan == "split", **UNIT)
    driver = driver_of(compile_program(qnet, design), design)
    for batch in range(1, design.b_max + 1):
        right(qnet, driver, batch)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from(sorted(PLANS)), st.integers(1, 8))
def test_random_networks_with_units_are_golden(seed: int, plan: str, batch: int) -> None:
    rng = np.random.default_rng(seed)
    qnet = network_of(rng, (int(rng.integers(3, 7)), int(rng.integers(3, 7)), 3), random_units(rng, 5))
    design = design_of(qnet, PLANS[plan], split=plan == "split", **UNIT)
    right(qnet, driver_of(compile_program(qnet, design), design), batch)


def test_a_piece_that_changes_in_memory_is_seen() -> None:
    """Layers are kept decoded until a byte that they came from is another."""
    qnet = network_of(np.random.default_rng(4), (7, 6, 3), UNITS[:1])
    design = design_of(qnet, **UNIT)
    program = compile_program(qnet, design)
    driver = driver_of(program, design)
    right(qnet, driver, 2)
    (layer,), unit = program.descriptors, qnet.layers[0].unit
    assert unit is not None
    at = program.weights_offset + pieces_at(layer, design.mode(0, 2), design)
    other = unit.pieces.copy()
    other[:, 0] //= 2
    image = bytearray(program.image())
    image[at : at + other.nbytes] = other.tobytes()
    driver.device.memory.view(program_address(driver), len(image))[:] = np.frombuffer(image, np.uint8)
    changed = replace(qnet.layers[0], unit=replace(unit, pieces=other))
    right(replace(qnet, layers=(changed,)), driver, 2)


def program_address(driver: Driver) -> int:
    return read(driver.device, "PROGRAM_LO") | read(driver.device, "PROGRAM_HI") << 32


@pytest.mark.parametrize(
    ("layer", "change"),
    [
        (0, {"weights": (4, 4, 4, 4)}),
        (7, {"weights": (NO_WEIGHTS,) * 4}),
        (7, {"weights": (NO_WEIGHTS, NO_WEIGHTS, NO_WEIGHTS, 32)}),
        (3, {"pieces": 8}),
        (3, {"pieces": 2000}),
    ],
    ids=["weights off a boundary", "no pieces", "pieces off a boundary", "too few pieces", "more than a lane holds"],
)
def test_pieces_that_no_unit_takes_are_refused(layer: int, change: dict[str, Any]) -> None:
    qnet = network_of(np.random.default_rng(4), (7, 6, 3), UNITS)
    design = design_of(qnet, **UNIT)
    whole = compile_program(qnet, design)
    descriptors = list(whole.descriptors)
    descriptors[layer] = replace(descriptors[layer], **change)
    refused(replace(whole, descriptors=tuple(descriptors)), design, layer)


def test_an_npu_without_a_unit_refuses_what_needs_one() -> None:
    qnet = network_of(np.random.default_rng(4), (7, 6, 3), UNITS)
    design = design_of(qnet, **UNIT)
    plain = design_of(qnet, **SMALL)
    program = replace(compile_program(qnet, design), design_digest=plain.digest)
    refused(program, plain, 0)
    summed = replace(program.descriptors[2], activation=0, activation_window=0, pieces=0)
    assert summed.residual_spread
    refused(replace(program, descriptors=(summed, *program.descriptors[1:])), plain, 0)


def refused(program: Program, design: Design, layer: int) -> None:
    driver = driver_of(program, design)
    driver.activate([0])
    with pytest.raises(NpuError) as error:
        driver.run_stage(0)
    assert (error.value.cause, error.value.layer_index) == (Cause.BAD_DESCRIPTOR, layer)
