"""Two networks on one NPU: every bit as alone, in any order of stages; slots and jobs of one network only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_worlds import PATIENCE_S, world
from hypothesis import given, settings
from hypothesis import strategies as st
from network_worlds import EXITS, NAMES, PairWorld, any_company, joint_design, pair
from rtl_worlds import ROUGH, SMALL, Forged, model

import fluidnpu
from fluidnpu.dse import BatchPlan
from fluidnpu.hls import compile_program
from fluidnpu.host import Bundle, BundleError, Driver, DriverUsageError, Server, SimulatedNpu, serve_requests
from fluidnpu.host.oip import NetworkServer, ServeOptions, in_background
from fluidnpu.host.serving import IntegrityError, ModelOptions, Models, ProtocolError
from fluidnpu.models.exits.rule import confidence
from fluidnpu.rtl_tb import RtlNpu
from fluidnpu.scheduler import PolicyError, Request, SchedulerError, World, simulate
from fluidnpu.scheduler.comparison import replay_live
from fluidnpu.scheduler.exits import Criteria, ExitProfile, Recorded, RuledExits
from fluidnpu.scheduler.simulation import Networks, Terms
from fluidnpu.scheduler.simulation.world import SideBySide
from fluidnpu.scheduler.tenants import Shared, Tenancy, Tenant, measure_tenants, parse_tenants

OF = {"doors": 0, "cameras": 1, "hall": 1}


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1 << 20), guarded=st.booleans())
def test_samples_of_two_networks_in_any_company_equal_golden(seed: int, guarded: bool) -> None:
    any_company(pair(guarded=guarded), np.random.default_rng(seed))


@pytest.mark.cpu(10, "two networks in turns on the whole NPU, in Verilator")
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
            reply = server.submit(image, Terms(slo_ns=10**12, tenant=name, criterion="false")).result(PATIENCE_S)
            expected = w.golden(which, image[None])[-1][0]
            assert reply.exit == EXITS - 1
            assert reply.logits is not None
            np.testing.assert_array_equal(reply.logits, w.qnets[which].logits(EXITS - 1, expected))
        with pytest.raises(DriverUsageError, match="of shape"):
            server.submit(w.images(0, 1)[0], Terms(slo_ns=10**9, tenant="cameras"))
        with pytest.raises(SchedulerError, match="a tenant must be one of doors, cameras, not ''"):
            server.submit(w.images(0, 1)[0], Terms(slo_ns=10**9))


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


# -- over the network ----------------------------------------------------------------------------------------


TENANTS = """
interval = "100ms"
[tenant.porch]
share = 0.4
network = "doors"
[tenant.yard]
share = 0.3
network = "cameras"
criteria = "exit_number == 1"
[tenant.road]
share = 0.3
network = "cameras"
mode = "pareto"
"""
EVEN = Recorded(confidences=[[0.2, 0.9], [0.9, 0.9]] * 40, correct=[[0, 1], [1, 1]] * 40)


def folders_of(w: PairWorld, folder: Path) -> dict[str, Path]:
    """Write a bundle of each network; together they are the NPU of both."""
    for index, (name, program) in enumerate(zip(NAMES, w.programs, strict=True)):
        Bundle(design=w.design.part(index), program=program).write(folder / name)
    return {name: folder / name for name in NAMES}


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PairWorld, NetworkServer]]:
    w = pair(millis=True)
    folder = tmp_path_factory.mktemp("pair")
    options = ModelOptions(
        slo_ns=10**10, tenancy=parse_tenants(TENANTS), recorded={"cameras": EVEN}, decisions=folder / "decisions"
    )
    with in_background(Models(folders_of(w, folder), options), ServeOptions(http=0, admin=0)) as server:
        yield w, server


def test_two_bundles_are_served_on_one_npu_under_their_names(listening: tuple[PairWorld, NetworkServer]) -> None:
    w, server = listening
    doors, cameras = (server.models.find(name) for name in NAMES)
    assert doors.npu is cameras.npu  # one NPU
    assert doors.npu.loads == 1  # loaded once, not once a name
    with fluidnpu.connect(server.url(), model="doors") as npu:
        for tenant in ("", "porch"):  # the only tenant of its network need not be named
            image = w.images(0, 1, seed=5)[0]
            answer = npu.infer(image, tenant=tenant, criteria="false")
            assert answer.prediction == int(w.golden(0, image[None])[-1][0].argmax())
        with pytest.raises(ProtocolError, match="a tenant must be one of porch, not 'yard'"):
            npu.infer(image, tenant="yard")
    with fluidnpu.connect(server.url(), model="cameras") as npu:
        image = w.images(1, 1, seed=6)[0]
        assert npu.infer(image, tenant="yard").left_because == "exit_number == 1"
        answer = npu.infer(image, tenant="road", criteria="false")
        assert (answer.exit, answer.prediction) == (1, int(w.golden(1, image[None])[-1][0].argmax()))
        with pytest.raises(ProtocolError, match="must name its tenant, one of yard, road"):
            npu.infer(image)
    assert doors.statistics is not None
    assert cameras.statistics is not None
    assert (doors.statistics.answered, cameras.statistics.answered) == (2, 2)
    assert set(doors.statistics.batches) <= {(0, 1), (1, 1)}  # stages of its own


def test_tenants_of_a_network_are_changed_under_its_name_only(listening: tuple[PairWorld, NetworkServer]) -> None:
    w, server = listening
    doors, cameras = (server.models.find(name) for name in NAMES)
    assert set(cameras.tenants()["tenants"]) == {"yard", "road"}
    with pytest.raises(ProtocolError, match="a tenant must be one of porch, not 'yard'"):
        doors.change(None, {"yard": {"share": 0.1}})
    with pytest.raises(ProtocolError, match="keeps its network 'cameras'"):
        cameras.change(None, {"yard": {"network": "doors"}})
    with pytest.raises(ProtocolError, match="sum to at most 1"):
        cameras.change(None, {"yard": {"share": 0.9}})
    usual = doors.tenants()["criteria"]
    cameras.change("exit_number == 2", {"yard": {"criteria": "false"}})
    assert doors.tenants()["criteria"] == usual
    cameras.load()  # both are loaded again; what was changed stays
    assert doors.npu.loads == 2
    with fluidnpu.connect(server.url(), model="cameras") as npu:
        assert npu.infer(w.images(1, 1)[0], tenant="yard").left_because == "last exit"
    with fluidnpu.connect(server.url(), model="doors") as npu:
        assert npu.infer(w.images(0, 1)[0]).exit in (0, 1)


def test_a_fronts_thresholds_follow_share_and_rate_on_a_server(listening: tuple[PairWorld, NetworkServer]) -> None:
    """The mode pareto, from recorded confidences that the server was given."""
    w, server = listening
    cameras = server.models.find("cameras")
    image = w.images(1, 1)[0]
    with fluidnpu.connect(server.url(), model="cameras") as npu:
        for _ in range(200):
            npu.infer(image, tenant="road")
            said = cameras.tenants()["tenants"]["road"].get("criteria", "")
            if said.startswith(("confidence", "exit_number")):
                return
    pytest.fail(f"no interval of 100 ms changed the criterion, which is {said!r}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TENANTS.replace('"cameras"', '"yards"'), "must name every bundle, doors, cameras, and no other; see 'yards'"),
        ("[tenant.a]\nshare = 1\nnetwork = 'doors'", "must name every bundle, doors, cameras, and no other; see 'cam"),
    ],
)
def test_tenants_and_bundles_must_name_the_same_networks(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DriverUsageError, match=says):
        Models(folders_of(pair(), tmp_path), ModelOptions(tenancy=parse_tenants(text)))


def test_bundles_of_different_npus_are_not_served_together(tmp_path: Path) -> None:
    folders = folders_of(pair(), tmp_path)
    other = world(3, exits=2, loaded=False)
    Bundle(design=other.design, program=other.program).write(folders["cameras"])
    models = Models(folders, ModelOptions(tenancy=parse_tenants(TENANTS.replace('mode = "pareto"', ""))))
    with pytest.raises(BundleError, match="networks side by side must have one NPU"):
        models.find("doors").load()


def test_the_turns_of_two_networks_are_asked_again_from_the_log(
    listening: tuple[PairWorld, NetworkServer], tmp_path: Path
) -> None:
    w, server = listening
    doors, cameras = (server.models.find(name) for name in NAMES)
    doors.load()  # a log of its own
    own = {"porch": (0, doors), "yard": (1, cameras), "road": (1, cameras)}
    for change in ({"yard": {"share": 0.3}}, {"yard": {"share": 0.1, "burst": "2ms"}}):
        cameras.change(None, change)
        asked = [name for name in own for _ in range(8)]
        futures = [
            own[name][1].submit(w.images(own[name][0], 1)[0], Terms(slo_ns=10**12, tenant=name)) for name in asked
        ]
        assert all(future.result(PATIENCE_S) for future in futures)
    folder = cameras.npu.options.decisions
    assert folder is not None
    cameras.unload()
    lines = (folder / "doors+cameras.jsonl").read_text().splitlines()
    doors.load()
    relived = replay_live(lines)
    assert (relived.requests, relived.asked) == (48, relived.decisions)
    assert {json.loads(line).get("stage") for line in lines} >= {0, 1, 2, 3}  # stages of both networks
    head = json.loads(lines[0])
    moved = head["networks"] | {"of_tenant": {"porch": 1, "yard": 0, "road": 0}}
    with pytest.raises(PolicyError):
        replay_live([json.dumps(head | {"networks": moved}), *lines[1:]])
    with pytest.raises(SchedulerError, match="network must be one of 0"):
        replay_live([json.dumps(head | {"networks": moved | {"of_tenant": {"porch": 2}}})])
