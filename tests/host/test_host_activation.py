"""The simulated NPU with an activation unit equals the golden model, and refuses what its unit cannot do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from host_worlds import HostWorld, read, right, world
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import BatchPlan
from fluidnpu.dse.design import Stack
from fluidnpu.hls import Cause
from fluidnpu.hls.formats import NO_WEIGHTS, ActivationCode
from fluidnpu.hls.program import Descriptor, pieces_at
from fluidnpu.host import Driver, NpuError, SimulatedNpu

PLANS = {
    "rows": None,
    "wide": BatchPlan(k=Stack.TWO),
    "split": BatchPlan(k=Stack.HALF),
    "row lanes": BatchPlan(row_lanes=True),
}
SEEDS = (18, 26, 0)  # of networks that use the unit in every way between them


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_batch_size_is_golden(seed: int, plan: str) -> None:
    w = world(seed, activation="dsp", plan=PLANS[plan], split=plan == "split", slots=9)
    for batch in range(1, w.design.b_max + 1):
        right(w, batch)


def test_these_networks_use_the_unit_in_every_way() -> None:
    layers = [layer for seed in SEEDS for layer in world(seed, activation="dsp").program.descriptors]
    assert {(layer.activation, min(1, layer.kind)) for layer in layers} == {
        (ActivationCode.NONE, 0), (ActivationCode.NONE, 1), (ActivationCode.TABLE, 0), (ActivationCode.TABLE, 1),
        (ActivationCode.PRODUCT, 0), (ActivationCode.PRODUCT, 1), (ActivationCode.SLOPE, 0), (ActivationCode.SLOPE, 1),
        (ActivationCode.AFFINE, 1),
    }  # fmt: skip
    assert any(layer.residual_spread for layer in layers)
    assert any(layer.has_residual and not layer.residual_pixel_bytes for layer in layers)
    assert any(layer.adds and layer.kind for layer in layers), "a sum as a pass without weights"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 999), st.sampled_from(sorted(PLANS)), st.integers(1, 4))
def test_random_networks_with_units_are_golden(seed: int, plan: str, batch: int) -> None:
    right(world(seed, activation="lut", plan=PLANS[plan], split=plan == "split", slots=9), batch)


def test_a_piece_that_changes_in_memory_is_seen() -> None:
    """Layers are kept decoded until a byte that they came from is another."""
    w = world(SEEDS[0], activation="dsp", slots=9)
    right(w, 2)
    index = next(at for at, layer in enumerate(w.program.descriptors) if layer.activation == ActivationCode.TABLE)
    layer, qlayer = w.program.descriptors[index], w.qnet.layers[index]
    assert qlayer.unit is not None
    pieces = qlayer.unit.pieces.copy()
    pieces[:, 0] //= 2
    image = read(w.npu, "WEIGHTS_LO") | read(w.npu, "WEIGHTS_HI") << 32
    at = pieces_at(layer, w.design.mode(index, 2), w.design)
    w.npu.memory.view(image + at, pieces.nbytes)[:] = pieces.view(np.uint8).reshape(-1)
    layers = list(w.qnet.layers)
    layers[index] = replace(qlayer, unit=replace(qlayer.unit, pieces=pieces))
    right(replace(w, qnet=replace(w.qnet, layers=tuple(layers))), 2)


def test_the_base_of_a_slope_says_nothing() -> None:
    w = world(SEEDS[0], activation="dsp", slots=9)
    index = first(w, lambda layer: layer.activation == ActivationCode.SLOPE)
    image = read(w.npu, "WEIGHTS_LO") | read(w.npu, "WEIGHTS_HI") << 32
    at = image + pieces_at(w.program.descriptors[index], w.design.mode(index, 2), w.design)
    w.npu.memory.view(at, 2)[:] ^= 0x5A
    right(w, 2)


def first(w: HostWorld, what: Callable[[Descriptor], Any]) -> int:
    return next(index for index, layer in enumerate(w.program.descriptors) if what(layer))


def refused(w: HostWorld, index: int, **changes: Any) -> None:
    """A layer with changed fields must end as a bad descriptor."""
    layers = list(w.program.descriptors)
    layers[index] = replace(layers[index], **changes)
    program = replace(w.program, descriptors=tuple(layers), design_digest=w.design.digest)
    driver = Driver(SimulatedNpu(w.design), program, w.design)
    driver.load()
    driver.activate([0])
    with pytest.raises(NpuError) as error:
        driver.run_to_exit(w.design.stages - 1)
    assert (error.value.cause, error.value.layer_index) == (Cause.BAD_DESCRIPTOR, index)


def test_pieces_that_no_unit_takes_are_refused() -> None:
    w = world(SEEDS[0], activation="dsp", loaded=False)
    alone, slopes = (
        first(w, lambda layer: layer.kind and layer.pieces),
        first(w, lambda layer: layer.activation in (ActivationCode.SLOPE, ActivationCode.AFFINE)),
    )
    at = w.program.descriptors[alone].weights[3]
    refused(w, alone, weights=(NO_WEIGHTS,) * 4)
    refused(w, alone, weights=(NO_WEIGHTS, NO_WEIGHTS, NO_WEIGHTS, at + 32))
    refused(w, slopes, pieces=1)
    refused(w, slopes, pieces=256 * w.design.out_words + 1)


def test_an_npu_without_a_unit_refuses_what_needs_one() -> None:
    w = world(SEEDS[0], activation="dsp", loaded=False)
    plain = replace(w, design=replace(w.design, activation=None))
    refused(plain, first(plain, lambda layer: layer.activation))
    spread = replace(plain, program=replace(w.program, descriptors=tuple(map(bare, w.program.descriptors))))
    refused(spread, first(spread, lambda layer: layer.residual_spread))


def bare(layer: Descriptor) -> Descriptor:
    """A layer without its activation."""
    return replace(layer, activation=0, pieces=0)
