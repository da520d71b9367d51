"""Depthwise layers that are merged with the layers before them, on the simulated NPU."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cache
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_worlds import HostWorld, design_of, read, right
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import BatchPlan, Design
from fluidnpu.dse.design import Stack
from fluidnpu.hls import Cause, Program, compile_program
from fluidnpu.hls.program import Stages, filter_at
from fluidnpu.host import Bundle, Driver, NpuError, SimulatedNpu
from fluidnpu.host.devices.timing import JobTimes
from fluidnpu.host.fleet.parts import part_of
from fluidnpu.models import QuantisedNetwork, golden, quantise
from fluidnpu.models.zoo import random_blocks

PLANS = {
    "rows": None,
    "wide": BatchPlan(k=Stack.TWO),
    "split": BatchPlan(k=Stack.HALF),
    "row lanes": BatchPlan(row_lanes=True),
}


@cache
def network(seed: int, exits: int = 2, blocks: int = 2) -> QuantisedNetwork:
    return quantise(random_blocks(seed, exits=exits, blocks=blocks))


def choices(qnet: QuantisedNetwork) -> list[tuple[int, ...]]:
    """Every set of pairs, by their producers."""
    pairs = [pair.producer for pair in qnet.network.filters]
    return list(chain.from_iterable(combinations(pairs, count) for count in range(len(pairs) + 1)))


def merging(qnet: QuantisedNetwork, chosen: Collection[int], **options: Any) -> Design:
    design = design_of(qnet, activation="lut", **options)
    return replace(design, layers=qnet.network.workload.filtered(chosen))


def world(qnet: QuantisedNetwork, chosen: Collection[int] | None = None, **options: Any) -> HostWorld:
    """A network on a design that merges these pairs, all of them by default."""
    design = merging(qnet, choices(qnet)[-1] if chosen is None else chosen, **options)
    program = compile_program(qnet, design)
    npu = SimulatedNpu(design)
    driver = Driver(npu, program, design, slots=9)
    driver.load()
    return HostWorld(qnet, design, program, npu, driver)


@pytest.mark.parametrize("seed", [3, 5])
def test_every_choice_of_pairs_is_golden(seed: int) -> None:
    qnet = network(seed)
    assert len(choices(qnet)) >= 16
    for number, chosen in enumerate(choices(qnet)):
        w = world(qnet, chosen)
        assert [bool(layer.filter_kernel) for layer in w.program.descriptors].count(True) == len(chosen)
        right(w, 1 + number % w.design.b_max, seed=number)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 9999), st.sampled_from(sorted(PLANS)), st.integers(1, 4), st.integers(1, 9))
def test_random_networks_are_golden(seed: int, plan: str, batch: int, out_words: int) -> None:
    qnet = network(seed)
    right(world(qnet, plan=PLANS[plan], split=plan == "split", out_words=out_words), batch, seed)


@pytest.mark.long
def test_many_random_networks_are_golden() -> None:
    """Any choice, and any array behind ports of any width."""
    rng = np.random.default_rng(70)
    for seed in range(10_000, 10_400):
        qnet = quantise(random_blocks(seed, blocks=int(rng.integers(1, 4))))
        chosen = choices(qnet)[rng.integers(0, len(choices(qnet)))]
        plan = rng.choice(sorted(PLANS))
        t_p = int(rng.integers(3, 9)) & (~1 if plan == "split" else ~0)
        sizes = {"t_p": max(t_p, 4), "t_c": int(rng.integers(2, 12)), "out_words": int(rng.integers(1, 20))}
        ports = int(rng.choice([32, 64, 128, 512]))
        w = world(qnet, chosen, plan=PLANS[plan], split=plan == "split", port_bits=ports, **sizes)
        right(w, int(rng.integers(1, 5)), seed)


def test_an_exit_on_the_wide_map_keeps_its_depthwise_layer_apart() -> None:
    """Seeds of which one has an exit on the map in front, the other on the map behind."""
    for seed in range(40):
        qnet = network(seed)
        wide = {layer.input for layer in qnet.network.layers if layer.output == "logits0"}
        for pair in qnet.network.filters:
            assert qnet.network.layers[pair.producer].output not in wide
    behind = [qnet for qnet in map(network, range(40)) if _ends_behind_a_filter(qnet)]
    assert behind
    right(world(behind[0]), 3)


def _ends_behind_a_filter(qnet: QuantisedNetwork) -> bool:
    head = next(layer for layer in qnet.network.layers if layer.output == "logits0")
    return head.input in {qnet.network.layers[pair.depthwise].output for pair in qnet.network.filters}


def test_samples_come_and_go_between_stages() -> None:
    """Masks change while merged layers of a later stage have yet to run."""
    w = world(network(5, exits=3))
    images = w.images(4, seed=1)
    for slot, image in enumerate(images):
        w.driver.write_sample(slot, image)
    w.driver.activate([0, 1, 3])
    w.driver.run_stage(0)
    w.driver.exit([1])
    w.driver.run_stage(1)
    w.driver.activate([2])
    w.driver.run_stage(0)
    w.driver.run_stage(1)
    w.driver.merge([0, 3])
    w.driver.run_stage(2)
    logits = golden.run(w.qnet, images)
    np.testing.assert_array_equal(w.driver.stored_logits([0, 2, 3], 2), logits[2][[0, 2, 3]])
    np.testing.assert_array_equal(w.driver.stored_logits([1], 0), logits[0][[1]])


def test_weights_that_change_in_memory_are_seen() -> None:
    """Layers are kept decoded until a byte that they came from is another."""
    w = world(network(3))
    right(w, 2)
    pair = w.qnet.network.filters[0]
    layer, depthwise = w.program.descriptors[pair.producer], w.qnet.layers[pair.depthwise]
    image = read(w.npu, "WEIGHTS_LO") | read(w.npu, "WEIGHTS_HI") << 32
    at = image + filter_at(layer, w.design.mode(pair.producer, 2), w.design)
    w.npu.memory.view(at, 2).view(np.int16)[:] //= 2  # the first tap of the first channel
    weights = depthwise.weights.copy()
    weights[0, 0, 0] //= 2
    layers = list(w.qnet.layers)
    layers[pair.depthwise] = replace(depthwise, weights=weights)
    right(replace(w, qnet=replace(w.qnet, layers=tuple(layers))), 2)


def refused(w: HostWorld, design: Design, index: int, **changes: Any) -> None:
    """A layer with changed fields must end as a bad descriptor on the NPU of a design."""
    layers = list(w.program.descriptors)
    layers[index] = replace(layers[index], **changes)
    program = replace(w.program, descriptors=tuple(layers), design_digest=design.digest)
    driver = Driver(SimulatedNpu(design), program, design)
    driver.load()
    driver.activate([0])
    with pytest.raises(NpuError) as error:
        driver.run_to_exit(design.stages - 1)
    assert (error.value.cause, error.value.layer_index) == (Cause.BAD_DESCRIPTOR, index)


def test_a_filter_that_an_npu_has_not_is_refused() -> None:
    w = world(network(3))
    work, room = w.qnet.network.workload, w.design.filter_room
    pairs = work.filters
    refused(w, replace(w.design, layers=work.layers), pairs[0].producer)
    largest = max(pairs, key=lambda pair: pair.filtering.kernel)
    assert largest.filtering.kernel > min(pair.filtering.kernel for pair in pairs)
    some = tuple(one for one in w.design.hardware_filterings if one[2] < largest.filtering.kernel)
    first = next(pair.producer for pair in pairs if pair.filtering.kernel == largest.filtering.kernel)
    refused(w, w.design.with_room((), some), first)
    refused(w, w.design, pairs[0].producer, filter_rows=room.weights + 1)
    most = max(pairs, key=lambda pair: w.program.descriptors[pair.producer].filter_rows).producer
    refused(w, w.design, most, filter_rows=1)


def test_a_merged_layer_alone_is_refused_without_a_filter() -> None:
    w = world(network(3), ())
    depthwise = w.qnet.network.filters[0].depthwise
    refused(w, w.design, depthwise, merged=1, activation=0, activation_window=0, pieces=0)


def test_a_merged_layer_takes_no_share_of_its_stage() -> None:
    w = world(network(3))
    pair, times = w.qnet.network.filters[-1], JobTimes(w.design)
    ends = times.layer_ends(0, len(w.design.layers) - 1, 2)
    assert ends[pair.depthwise] == ends[pair.depthwise - 1]
    assert ends[-1] == sum(row[1] for row in w.design.latency.ns)


@pytest.mark.parametrize("seed", [5, 7])
def test_every_part_of_a_network_has_the_bits_of_the_whole(seed: int) -> None:
    """Also where heads are left out, and on an NPU with room for the filters of the whole."""
    w = world(network(seed, exits=3, blocks=1))
    images = w.images(3)
    right = {w.program.input: w.qnet.quantise_input(images)}
    for stage in range(3):
        golden.run_stage(w.qnet, stage, right)
    for first, last in ((0, 0), (0, 1), (1, 1), (1, 2), (2, 2)):
        stages = Stages(first=first, last=last, exits=(last,))
        part = part_of(Bundle(design=w.design, program=w.program), stages)
        driver = Driver(SimulatedNpu(part.design), part.program, part.design)
        driver.load()
        for slot, sample in enumerate(right[part.program.input]):
            driver.write_sample(slot, sample)
        driver.activate(range(3))
        driver.run_stage(0)
        stored = driver.stored_logits(range(3), 0)
        np.testing.assert_array_equal(stored, golden.stored_logits(w.qnet, last, right))
        if part.program.onward:
            np.testing.assert_array_equal(driver.onward(range(3)), right[part.program.onward])


def test_networks_side_by_side_keep_their_pairs(tmp_path: Path) -> None:
    """Two networks, one of which merges nothing, in one NPU; its bundle is read as it was written."""
    mixed = [world(network(3)), world(network(5), ())]
    joined = Design.joined([w.design for w in mixed])
    for index, w in enumerate(mixed):
        part = joined.part(index)
        assert part.filter_room == joined.filter_room
        program = compile_program(w.qnet, part)
        assert [one.filter_kernel for one in program.descriptors] == [
            one.filter_kernel for one in w.program.descriptors
        ]
        program.save(tmp_path / str(index))
        assert Program.load(tmp_path / str(index)) == program
        npu = SimulatedNpu(part)
        driver = Driver(npu, program, part, slots=9)
        driver.load()
        right(HostWorld(w.qnet, part, program, npu, driver), 3)
        assert Design.loads(part.dumps()) == part
