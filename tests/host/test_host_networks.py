"""Two networks on one NPU: every bit as alone, in any order of stages; slots and jobs of one network only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from host_worlds import world
from hypothesis import given, settings
from hypothesis import strategies as st
from network_worlds import EXITS, NAMES, any_company, joint_design, pair
from rtl_worlds import ROUGH, SMALL, Forged, model

from fluidnpu.dse import BatchPlan
from fluidnpu.hls import compile_program
from fluidnpu.host import Driver, DriverUsageError, Server, SimulatedNpu, serve_requests
from fluidnpu.host.serving import IntegrityError
from fluidnpu.models import confidence
from fluidnpu.rtl_tb import RtlNpu
from fluidnpu.scheduler import Request, SchedulerError, World, simulate
from fluidnpu.scheduler.exits import Criteria, ExitProfile, RuledExits
from fluidnpu.scheduler.simulation import Networks, SideBySide
from fluidnpu.scheduler.tenants import Shared, Tenancy, Tenant, measure_tenants

OF = {"doors": 0, "cameras": 1, "hall": 1}


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1 << 20), guarded=st.booleans())
def test_samples_of_two_networks_in_any_company_equal_golden(seed: int, guarded: bool) -> None:
    any_company(pair(guarded=guarded), np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("core", "seed"),
    [("rtl", 1), *(pytest.param(core, seed, marks=pytest.mark.long) for core in ("rtl", "hls") for seed in (2, 3))],
)
def test_two_networks_on_the_rtl_are_bit_identical_with_preemption_across_networks(core: str, seed: int) -> None:
    """Verilator; row lanes in one half of the runs would hide nothing, so samples lie in lanes by twos."""
    able: dict[str, Any] = dict(SMALL)
    design = joint_design(plan=BatchPlan(b_r=2), **able)
    device = Forged(RtlNpu(model(SMALL, 16, core), dram=ROUGH, memory_bytes=1 << 22, seed=seed), design.clock_hz)
    device.design = design
    w = pair(device, plan=BatchPlan(b_r=2), patience=20_000, **able)
    assert any_company(w, np.random.default_rng(seed), count=3) >= 3  # the NPU went from network to network


def test_a_job_and_a_slot_are_of_one_network() -> None:
    w = pair(slots=(3, 2))
    driver = w.driver
    assert [list(held) for held in driver.slots_of] == [[0, 1, 2], [3, 4]]
    driver.write_sample(0, w.images(0, 1)[0])
    driver.write_sample(3, w.images(1, 1)[0])
    driver.activate([0, 3])
    with pytest.raises(DriverUsageError, match="a job must be of one network"):
        driver.run_stage(0)
    driver.activate([0])
    with pytest.raises(DriverUsageError, match="a job must be of one network"):
        driver.run_stage(EXITS)  # the other network's first stage
    with pytest.raises(DriverUsageError, match="a job must be of one network"):
        driver.run_to_exit(EXITS, EXITS - 1)
    with pytest.raises(DriverUsageError, match=r"a slot must lie in 0\.\.2, not 3"):
        driver.stored_logits([3], 0)
    with pytest.raises(DriverUsageError, match="of shape"):
        driver.write_sample(3, w.images(0, 1)[0])
    for slots in ((3,), (0, 4), (30, 3)):
        with pytest.raises(DriverUsageError, match="one for each of 2 programs and 32 together"):
            pair(slots=slots)
    with pytest.raises(DriverUsageError, match="compiled for this design"):
        Driver(SimulatedNpu(w.design), w.programs[::-1], w.design)


def test_one_of_the_networks_alone_runs_on_the_npu_of_both() -> None:
    w = pair()
    for index, program in enumerate(w.programs):
        part = w.design.part(index)
        alone = Driver(SimulatedNpu(part), program, part)
        alone.load()
        image = w.images(index, 1)
        alone.write_sample(0, image[0])
        alone.activate([0])
        alone.run_to_exit(EXITS - 1)
        np.testing.assert_array_equal(alone.stored_logits([0], 1)[0], w.golden(index, image)[1][0])
    assert SimulatedNpu(w.design.part(0)).read(0x14) == SimulatedNpu(w.design).read(0x14)  # BUILD_ID


def test_a_guarded_driver_sees_damage_in_either_program() -> None:
    for which in (0, 1):
        w = pair(guarded=True)
        slot, stage = w.driver.slots_of[which][0], w.driver.networks({}).first[which]
        w.driver.write_sample(slot, w.images(which, 1)[0])
        w.driver.activate([slot])
        w.driver.run_stage(stage)
        code = w.driver._buffers[0].array
        code[-200 if which else 4000] ^= 1
        with pytest.raises(IntegrityError, match="damaged"):
            w.driver.run_stage(stage)


# -- policies ------------------------------------------------------------------------------------------------


def tenancy_of(*names: str, **more: Any) -> Tenancy:
    tenants = (Tenant(name=name, share=1 / len(names), network=NAMES[OF[name]], **more) for name in names)
    return Tenancy(tenants=tuple(tenants), interval_ns=5000)


def rates_of() -> tuple[float, ...]:
    return (0.5, 0.5, 0.3, 0.7)


@settings(max_examples=15, deadline=None)
@given(
    gaps=st.lists(st.integers(0, 2500), min_size=1, max_size=16),
    owners=st.lists(st.sampled_from(sorted(OF)), min_size=16, max_size=16),
    inner=st.sampled_from(["serial", "greedy", "fluid"]),
    terms=st.sampled_from([{}, {"borrow": False}, {"at_limit": "drop"}, {"cooperative": True}]),
)
def test_a_device_with_two_networks_and_the_simulator_make_the_same_schedule(
    gaps: list[int], owners: Sequence[str], inner: str, terms: dict[str, Any]
) -> None:
    w = pair(slots=(5, 6))
    requests = [Request(i, int(t), int(t) + 9000, owners[i]) for i, t in enumerate(np.cumsum(gaps))]
    images = [w.images(OF[one.tenant], 1, seed=one.id)[0] for one in requests]
    tenancy, side = tenancy_of(*sorted(OF), burst_ns=3000, **terms), w.driver.networks(OF)

    def shared() -> tuple[Shared, list[Criteria]]:
        texts = ("confidence > 0.35", "confidence > 0.3 or response_time > 3us")
        rules = [Criteria(ExitProfile.of(part), text) for part, text in zip(w.driver.parts, texts, strict=True)]
        return Shared(tenancy, inner, criteria=rules, networks=side), rules

    policy, rules = shared()
    done = serve_requests(requests, images, policy, w.driver, exit_rates=rates_of(), rule=rules, networks=OF)
    done.schedule.check()
    sure = {}
    for one, image in zip(requests, images, strict=True):
        qnet = w.qnets[OF[one.tenant]]
        logits = enumerate(w.golden(OF[one.tenant], image[None]))
        sure[one.id] = [float(confidence(qnet.logits(i, stored))[0]) for i, stored in logits]
    policy, rules = shared()
    exits = SideBySide(networks=side, exits=tuple(RuledExits(rule=rule, confidences=sure) for rule in rules))
    told = World(latency=w.design.latency, exits=exits, exit_rates=rates_of(), networks=side)
    simulated = simulate(requests, policy, told)
    assert done.schedule == simulated
    assert done.schedule.because == simulated.because
    for reply, one in zip(done.replies, requests, strict=True):
        assert reply.tenant == one.tenant
    assert set(measure_tenants(simulated)) == {one.tenant for one in requests}


def test_a_victim_of_one_network_waits_for_one_stage_of_a_flood_of_the_other() -> None:
    w = pair(slots=(5, 5))
    side = w.driver.networks(OF)
    tables = side.tables(w.design.latency)
    full, longest = tables[0].between(0, EXITS - 1, 1), max(map(max, w.design.latency.ns))
    rng = np.random.default_rng(4)
    doors = np.cumsum(rng.exponential(8 * full, 30)).astype(int)

    def p99_ms(flooded: bool) -> float:
        flood = np.cumsum(rng.exponential(full / 4, 150)).astype(int) if flooded else []
        rows = sorted([(int(at), "doors") for at in doors] + [(int(at), "cameras") for at in flood])
        requests = [Request(i, at, at + 10**9, name) for i, (at, name) in enumerate(rows)]
        images = [w.images(OF[one.tenant], 1)[0] for one in requests]
        policy = Shared(tenancy_of("doors", "cameras", burst_ns=2 * full), "fluid", networks=side)
        rules = [Criteria(ExitProfile.of(part), "false") for part in w.driver.parts]
        done = serve_requests(requests, images, policy, w.driver, exit_rates=rates_of(), rule=rules, networks=OF)
        done.schedule.check()
        return measure_tenants(done.schedule)["doors"].p99_ms

    assert p99_ms(flooded=True) <= p99_ms(flooded=False) + (longest + 2 * full) / 1e6


def test_a_server_takes_each_tenants_images_by_its_network() -> None:
    w = pair(slots=(6, 6), millis=True)
    side = w.driver.networks(OF)
    policy = Shared(tenancy_of("doors", "cameras"), "fluid", networks=side)
    with Server(w.driver, policy, networks=OF) as server:
        for which, name in enumerate(NAMES):
            image = w.images(which, 1, seed=7)[0]
            reply = server.submit(image, 10**12, tenant=name, criteria="false").result(60)
            expected = w.golden(which, image[None])[-1][0]
            assert reply.exit == EXITS - 1
            assert reply.logits is not None
            np.testing.assert_array_equal(reply.logits, w.qnets[which].logits(EXITS - 1, expected))
        with pytest.raises(DriverUsageError, match="of shape"):
            server.submit(w.images(0, 1)[0], 10**9, tenant="cameras")
        with pytest.raises(SchedulerError, match="a tenant must be one of doors, cameras, not ''"):
            server.submit(w.images(0, 1)[0], 10**9)


def test_what_does_not_fit_together_is_refused() -> None:
    w = pair()
    with pytest.raises(DriverUsageError, match="a rule for each of 2 networks, not 1"):
        serve_requests([], [], Shared(tenancy_of("doors"), networks=w.driver.networks(OF)), w.driver, rule=[
            Criteria(ExitProfile.of(w.driver.parts[0]), "false")
        ])  # fmt: skip
    with pytest.raises(SchedulerError, match="tenant 'b' must name its network"):
        Tenancy(tenants=(Tenant(name="a", share=0.5, network="n"), Tenant(name="b", share=0.5)))
    with pytest.raises(SchedulerError, match="tenant 'doors' must have a network of its own"):
        Shared(tenancy_of("doors"), networks=Networks(stages=(2, 2), slots=(4, 4)))
    other = world(3, exits=2).design
    assert compile_program(w.qnets[0], w.design.part(0)).design_digest != other.digest
