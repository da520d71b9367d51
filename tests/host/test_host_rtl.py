"""The same driver on the RTL: exits equal the golden model for all plans, batches, memories and orders.

With the core in SystemVerilog, and with the HLS core's C++ in its place.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rtl_worlds import BASE_SEED, EXITS, ROUGH, RtlWorld, activated, design_of, model, network, pooled, rtl_world

from fluidnpu.dse import CORES, BatchPlan, DesignError
from fluidnpu.dse.design import Stack
from fluidnpu.hls import Cause, compile_program, register
from fluidnpu.hls.formats import ActivationCode
from fluidnpu.host import (
    Bundle,
    Driver,
    DriverUsageError,
    NpuError,
    NpuTimeout,
    VirtualClock,
    open_device,
    serve_requests,
)
from fluidnpu.host.devices import RtlDevice
from fluidnpu.models import golden
from fluidnpu.rtl_tb import DramModel, RtlNpu, SimulationError
from fluidnpu.scheduler import Request, make_policy

PLANS = {
    "rows": None,
    "samples_in_lanes": BatchPlan(b_r=2),
    "wide": BatchPlan(k=Stack.TWO, b_r=4),
    "split": BatchPlan(k=Stack.HALF, b_r=4),
    "rows_in_lanes": BatchPlan(b_r=4, row_lanes=True),
}
SLOW = DramModel(latency_cycles=40, write_latency_cycles=60, total_words=2.0)  # outputs wait for it
CORE = pytest.mark.parametrize("core", CORES)
pytestmark = pytest.mark.cpu(10, "the first test of a process loads what all of them drive")
START = register("CTRL").field("START").mask


def check_all_exits(w: RtlWorld, batch: int, seed: int = 0) -> None:
    images = w.images(batch, seed)
    expected, counts = golden.run_counting(w.qnet, images)
    w.put(images)
    w.driver.activate(range(batch))
    for stage in range(EXITS):
        w.driver.run_stage(stage)
        np.testing.assert_array_equal(w.driver.stored_logits(range(batch), stage), expected[stage])
        saturated = sum(counts[w.design.layers[layer].name] for layer in w.design.stage_layers(stage))
        assert w.driver.status().saturations == saturated


@CORE
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("dram", [DramModel.IDEAL, ROUGH], ids=["ideal", "rough"])
def test_every_exit_equals_golden_for_every_batch_and_plan(plan: str, dram: DramModel, core: str) -> None:
    w = rtl_world(plan=PLANS[plan], dram=dram, core=core)
    for batch in range(1, w.design.b_max + 1):
        check_all_exits(w, batch, seed=batch)


@CORE
@pytest.mark.parametrize(
    "plan", [name for name in PLANS if name != "samples_in_lanes"]
)  # which no pooled layer may have
def test_merged_pools_change_no_bit(plan: str, core: str) -> None:
    w = rtl_world(plan=PLANS[plan], dram=ROUGH, core=core, qnet=pooled())
    assert [layer.merged for layer in w.program.descriptors].count(1) == 1
    for batch in (1, w.design.b_max):
        check_all_exits(w, batch, seed=batch)


@CORE
@pytest.mark.parametrize("plan", PLANS)
def test_every_use_of_the_activation_unit_gives_the_golden_bits(plan: str, core: str) -> None:
    w = rtl_world(plan=PLANS[plan], dram=ROUGH, core=core, qnet=activated(38))
    assert {layer.activation for layer in w.program.descriptors} == set(ActivationCode)
    for batch in (1, w.design.b_max):
        check_all_exits(w, batch, seed=batch)


@CORE
@pytest.mark.parametrize("seed", [0, 3, 16, 17, 20, 25])
def test_any_network_with_activations(seed: int, core: str) -> None:
    w = rtl_world(plan=list(PLANS.values())[seed % 5], noise=seed, core=core, qnet=activated(seed))
    check_all_exits(w, 1 + seed % 4, seed)


@CORE
@pytest.mark.parametrize("seed", range(1, 14))
def test_any_network(seed: int, core: str) -> None:
    for noise, (plan, dram) in enumerate(zip(PLANS.values(), (ROUGH, DramModel.IDEAL) * 3, strict=False), 1):
        w = rtl_world(seed, plan, dram, noise=noise, core=core)
        check_all_exits(w, 1 + (seed + noise) % 4, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.matrix) for seed in (3, 8, 10))])
@pytest.mark.parametrize(
    ("shape", "port_bytes"),
    [
        ({"t_r": 9, "t_p": 7, "t_c": 10, "b_max": 8, "weight_slots": 3, "out_words": 8}, 8),
        ({"t_r": 5, "t_p": 3, "t_c": 5, "b_max": 3, "stackable": False, "out_words": 3}, 16),
        ({"t_r": 40, "t_p": 12, "t_c": 13, "b_max": 16, "weight_slots": 2, "out_words": 16, "split": True}, 16),
        ({"t_r": 7, "t_p": 6, "t_c": 4, "b_max": 1, "weight_slots": 4, "out_words": 1}, 32),
    ],
)
def test_other_arrays(shape: dict[str, int | bool], port_bytes: int, seed: int) -> None:
    """Odd widths, few and many rows, no pairs, narrow and wide ports, batches of one and of sixteen."""
    for noise, (name, plan) in enumerate(PLANS.items(), 1):
        able = {
            "wide": "stackable",
            "rows_in_lanes": "stackable",
            "samples_in_lanes": "stackable",
            "split": "split",
        }.get(name)
        if able and not shape.get(able, able == "stackable"):
            continue
        b_max = int(shape["b_max"])
        plan = replace(plan, b_r=-(-b_max // 2) if name == "samples_in_lanes" else b_max) if plan else None
        dram = ROUGH if noise % 2 else DramModel.IDEAL
        w = rtl_world(seed, plan, dram, shape=tuple(shape.items()), port_bytes=port_bytes, noise=noise)
        for batch in {1, (b_max + 1) // 2, b_max}:
            if plan is None or 2 * plan.b_r >= batch:
                check_all_exits(w, batch, seed)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 32), plan=st.sampled_from(sorted(PLANS)), core=st.sampled_from(CORES))
def test_preemption_and_merge_in_the_middle_change_no_bit(seed: int, plan: str, core: str) -> None:
    """Samples run in any company: a random batch of those at the same stage, until everyone has left."""
    rng = np.random.default_rng(seed)
    w = rtl_world(plan=PLANS[plan], dram=ROUGH, core=core)
    images = w.images(7, seed % 1000)
    expected = golden.run(w.qnet, images)
    w.put(images)
    reached = np.zeros(7, int)
    while (reached < EXITS).any():
        stage = int(rng.choice(reached[reached < EXITS]))
        there = rng.permutation(np.flatnonzero(reached == stage))[: rng.integers(1, 5)]
        w.driver.activate(there.tolist())
        w.driver.run_stage(stage)
        reached[there] += 1
        for slot, done in enumerate(reached):  # nobody else's results moved
            for exit_index in range(done):
                np.testing.assert_array_equal(w.driver.stored_logits([slot], exit_index)[0], expected[exit_index][slot])


@CORE
def test_saturations_are_those_of_the_last_job(core: str) -> None:
    w = rtl_world(3, core=core)
    images = w.images(4)
    counts = golden.saturations(w.qnet, images)
    w.put(images)
    w.driver.activate(range(4))
    for _ in range(2):
        for stage in range(EXITS):
            w.driver.run_stage(stage)
            expected = sum(counts[w.design.layers[i].name] for i in w.design.stage_layers(stage))
            assert w.driver.status().saturations == expected
    assert sum(counts.values()) > 0


def test_time_is_cycles() -> None:
    w = rtl_world()
    w.put(w.images(1))
    w.driver.activate([0])
    job = w.driver.run_stage(0)
    cycles = w.driver.status().cycles
    assert cycles * 10 <= job.end_ns - job.start_ns <= (cycles + 16) * 10  # 100 MHz; START and the answer cost a few
    clock = w.device.clock
    simulated, later = w.device.npu.cycle, clock.now_ns() + 10**12
    clock.sleep_until(later)
    assert later <= clock.now_ns() < later + 10
    assert w.device.npu.cycle - simulated < 10  # an idle NPU is not simulated
    assert not w.device.wait_interrupt(later + 500)
    assert clock.now_ns() >= later + 500


# -- what goes wrong -----------------------------------------------------------------------------------------


def failing_run(w: RtlWorld, stage: int) -> NpuError:
    with pytest.raises(NpuError) as caught:
        w.driver.run_stage(stage)
    return caught.value


def test_a_damaged_descriptor_is_named_and_repaired() -> None:
    w = rtl_world()
    layer = w.design.stage_layers(1)[1]
    program = register("PROGRAM_LO").offset
    w.device.npu.view(w.device.read(program) + 128 * layer + 40, 1)[0] ^= 4
    w.put(w.images(2))
    w.driver.activate([0, 1])
    w.driver.run_stage(0)
    error = failing_run(w, 1)
    assert (error.cause, error.layer_index, error.layer) == (Cause.BAD_DESCRIPTOR, layer, w.design.layers[layer].name)
    w.driver.recover()
    check_all_exits(w, 2)


@CORE
@pytest.mark.parametrize("dram", [DramModel.IDEAL, ROUGH], ids=["ideal", "rough"])
@pytest.mark.parametrize("which", ["program", "weights", "input", "residual", "output"])
def test_bus_errors_are_reported_and_recovered_from(which: str, dram: DramModel, core: str) -> None:
    w = rtl_world(dram=dram, core=core)
    address = {name: w.device.read(register(f"{name}_LO").offset) for name in ("PROGRAM", "WEIGHTS", "SLOT_BASE")}
    slot = address["SLOT_BASE"]
    first = w.program.descriptors[0]
    adds = next(layer for layer, d in enumerate(w.program.descriptors) if d.has_residual)
    residual = slot + w.program.descriptors[adds].residual_offset
    bad = {
        "program": (address["PROGRAM"] + 128, address["PROGRAM"] + 256),
        "weights": (address["WEIGHTS"], address["WEIGHTS"] + 64),
        "input": (slot + first.in_offset, slot + first.in_offset + 2),
        "residual": (residual, residual + 2),
        "output": (slot + first.out_offset, slot + first.out_offset + 2),
    }[which]
    w.put(w.images(1))
    w.driver.activate([0])
    if which == "residual":  # another layer writes it before
        w.driver.run_layers(0, adds - 1, 1_000_000)
    w.device.npu.fault(bad=bad)
    with pytest.raises(NpuError) as caught:
        w.driver.run_layers(adds if which == "residual" else 0, max(1, adds), 1_000_000)
    error = caught.value
    assert error.cause is (Cause.BUS_WRITE if which == "output" else Cause.BUS_READ)
    # The descriptor of layer 1 is read while layer 0 runs.
    assert error.layer_index == (adds if which == "residual" else 0)
    w.device.npu.fault()
    w.driver.recover()
    check_all_exits(w, 3)


def test_addresses_outside_memory_are_bus_errors() -> None:
    w = rtl_world()
    w.driver.activate([0])
    w.device.write(register("SLOT_BASE_HI").offset, 0x7F)
    assert failing_run(w, 0).cause is Cause.BUS_READ
    w.driver.recover()
    check_all_exits(w, 1)


@CORE
def test_the_watchdog_drops_a_job_and_the_next_one_is_right(core: str) -> None:
    w = rtl_world(dram=ROUGH, core=core)
    images = w.images(2)
    w.put(images)
    w.driver.activate([0, 1])
    for limit_ns in (10, 600, 2_000, 5_000, 15_000, 40_000):
        with pytest.raises(NpuError) as caught:
            w.driver.run_layers(0, len(w.design.layers) - 1, limit_ns / 20_000)
        assert caught.value.cause is Cause.WATCHDOG
        w.driver.reset()
        check_all_exits(w, 2)


def test_a_bus_that_falls_silent_is_no_trap() -> None:
    """The watchdog reports it; the reset waits for outstanding answers and times out; then all is well."""
    w = rtl_world(dram=ROUGH)
    w.put(w.images(2))
    w.driver.activate([0, 1])
    w.device.npu.fault(silent=True)
    with pytest.raises(NpuError) as caught:
        w.driver.run_layers(0, 3, 0.1)  # time for the descriptor to be asked for
    assert caught.value.cause is Cause.WATCHDOG
    with pytest.raises(NpuTimeout, match="it stands in layer 0"):
        w.driver.reset()
    w.device.npu.fault()
    w.driver.recover()
    check_all_exits(w, 2)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_soft_reset_at_any_moment_leaves_a_sound_npu(data: st.DataObject) -> None:
    plan, rough = data.draw(st.sampled_from(sorted(PLANS))), data.draw(st.booleans())
    core, noise = data.draw(st.sampled_from(CORES)), data.draw(st.integers(1, 99))
    w = rtl_world(plan=PLANS[plan], dram=ROUGH if rough else DramModel.IDEAL, noise=noise, core=core)
    w.put(w.images(3))
    for _ in range(4):
        w.driver.activate([0, 1, 2])
        w.device.write(register("FIRST_LAYER").offset, 0)
        w.device.write(register("LAST_LAYER").offset, len(w.design.layers) - 1)
        w.device.write(register("WATCHDOG").offset, 0)
        w.device.write(register("CTRL").offset, START)
        w.device.npu.run(data.draw(st.integers(0, 12_000)))
        w.driver.recover()
    check_all_exits(w, data.draw(st.integers(1, 4)))


# -- through the front door ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "core"), [("rtl", "rtl"), ("cosim", "hls")])
def test_a_bundle_opens_as_rtl_and_serves(kind: str, core: str) -> None:
    """Behind the memory of the board that the design carries; without one it is refused."""
    qnet, design = network(BASE_SEED), design_of(BASE_SEED)
    bare = replace(design, facts=None)
    nowhere = Bundle(design=bare, program=compile_program(qnet, bare))
    with pytest.raises(DesignError, match="must carry the facts of its board 'zc706'"), open_device(kind, nowhere):
        pass
    bundle = Bundle(design=design, program=compile_program(qnet, design))
    with open_device(kind, bundle) as device:
        assert device.npu.dram == design.dram != DramModel.IDEAL  # type: ignore[attr-defined]
        driver = Driver(device, bundle.program, design, slots=8, patience=20_000)
        driver.load()
        assert device.npu.model.digest == model(core=core).digest  # type: ignore[attr-defined]
        shape = qnet.network.tensors[qnet.network.input]
        images = np.random.default_rng(5).integers(0, 256, (9, *shape), dtype=np.uint8)
        requests = [Request(id=i, arrival_ns=i * 9_000, deadline_ns=i * 9_000 + 10**9) for i in range(9)]
        served = serve_requests(requests, images, make_policy("fluid"), driver)
    exits, classes, _ = golden.early_exit(qnet, images)
    assert [(a.exit, a.prediction) for a in served.answers] == list(zip(exits, classes, strict=True))
    assert not served.failures


def test_npus_with_an_hls_core_share_nothing() -> None:
    """The C++ keeps its state in static variables, and both have one library."""
    first, second = rtl_world(core="hls"), rtl_world(core="hls", plan=PLANS["wide"], dram=ROUGH)
    for w in (first, second):
        w.put(w.images(2))
        w.driver.activate([0, 1])
    w = second
    w.device.write(register("LAST_LAYER").offset, len(w.design.layers) - 1)
    w.device.write(register("CTRL").offset, START)
    w.device.npu.run(500)  # in the middle of a job
    check_all_exits(first, 2)
    w.driver.recover()
    check_all_exits(second, 3)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("dram", [DramModel.IDEAL, SLOW], ids=["ideal", "slow"])
def test_a_job_takes_as_long_with_either_core(plan: str, dram: DramModel) -> None:
    """Except for tiles of few rows, which wait longer in the HLS core and abound in a small network.

    With split trees those waits are 11 % of a job whose plans are made while its layers run.
    """
    cycles = []
    for core in ("rtl", "hls"):
        w = rtl_world(plan=PLANS[plan], dram=dram, core=core)
        w.put(w.images(4))
        w.driver.activate(range(4))
        w.driver.run_layers(0, len(w.design.layers) - 1, 1_000_000)
        cycles.append(w.driver.status().cycles)
    assert abs(cycles[1] / cycles[0] - 1) < (0.12 if plan == "split" else 0.03)


@pytest.mark.long
def test_a_core_that_reads_its_sums_too_soon_ends_the_simulation() -> None:
    sound = model(core="hls")
    text = sound.hls_core["array.h"]
    assert text.count("written_rows[RowDistance - 2]") == 1
    hasty = {**sound.hls_core, "array.h": text.replace("written_rows[RowDistance - 2]", "written_rows[0]")}
    design = design_of(BASE_SEED)
    device = RtlDevice(RtlNpu(replace(sound, hls_core=hasty), memory_bytes=1 << 22), design.clock_hz)
    driver = Driver(device, compile_program(network(BASE_SEED), design), design, slots=4, patience=20_000)
    driver.load()
    driver.activate([0])
    with pytest.raises(SimulationError, match="an assertion in the RTL failed"):
        driver.run_stage(0)


def test_the_rtl_takes_no_clock() -> None:
    qnet, design = network(BASE_SEED), design_of(BASE_SEED)
    bundle = Bundle(design=design, program=compile_program(qnet, design))
    with pytest.raises(DriverUsageError, match="own cycles"), open_device("rtl", bundle, clock=VirtualClock()):
        pass
