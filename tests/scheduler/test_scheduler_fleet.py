"""The fleet file, profiles and plans: what they hold and refuse, and that they survive a round trip."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import LatencyTable
from fluidnpu.dse.testing import tiny_design
from fluidnpu.scheduler.errors import FleetError
from fluidnpu.scheduler.placement import Block, Fleet, Job, Plan, Pool, Profile, Route, read_fleet
from fluidnpu.scheduler.placement.fleet import parse_fleet

FLEET = """
schema = 1
name = "lab"
head = "lan"

[networks.net]
input_bytes = 3072
answer_bytes = 40

[links.lan]
bytes_per_s = 117_700_000
latency = "150us"
source = "measured with iperf3"

[types.fast]
memory_bytes = 536_870_912
cost_per_hour = 0.12
cost_source = "assumed"
[types.fast.networks.net]
profile = "fast.json"

[types.cpu]
kind = "cpu"
memory_bytes = 1_000_000_000
networks.net.profile = "cpu.json"

[[devices]]
type = "fast"
addresses = ["10.0.0.1:8001", "10.0.0.2:8001"]

[[devices]]
type = "cpu"
name = "old"
"""


def profile(scale: int = 1, exits: int = 2) -> Profile:
    blocks = tuple(
        Block(
            name=f"b{k}",
            ns=(10 * scale, 15 * scale),
            head_ns=(2, 3) if k % 2 else (),
            exit=f"exit{k // 2}" if k % 2 else "",
            cut_bytes=100,
            weights_bytes=1000,
        )
        for k in range(2 * exits)
    )
    return Profile(network="net", blocks=blocks, slot_bytes=500)


def opened(kind: str, path: str) -> Profile:
    assert kind == "profile"
    return profile(1 if path == "fast.json" else 7)


def fleet(text: str = FLEET) -> Fleet:
    return parse_fleet(text, opened, "fleet.toml")


def test_a_fleet_has_devices_by_type_with_names_links_and_addresses() -> None:
    found = fleet()
    assert [(d.name, d.type, d.link, d.address) for d in found.devices] == [
        ("fast-0", "fast", "lan", "10.0.0.1:8001"),
        ("fast-1", "fast", "lan", "10.0.0.2:8001"),
        ("old", "cpu", "lan", ""),
    ]
    assert found.counts == {"fast": 2, "cpu": 1}
    assert found.cost_micros == 240_000
    assert found.links["lan"].latency_ns == 150_000
    assert found.links["lan"].transfer_ns(1177) == 10_000
    assert found.types["fast"].profiles["net"].memory_bytes(2) == 4000 + 1000
    assert fleet().digest == found.digest != fleet(FLEET.replace("0.12", "0.13")).digest


def test_a_fleet_without_a_lost_board_is_another_fleet() -> None:
    left = fleet().without({"fast-1"})
    assert left.counts == {"fast": 1, "cpu": 1}
    assert left.digest != fleet().digest
    with pytest.raises(FleetError, match="known to be left out, and ghost are not"):
        fleet().without({"ghost"})
    with pytest.raises(FleetError, match="at least one device"):
        fleet().without({"fast-0", "fast-1", "old"})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema = 1", "schema = 2", r"schema must be 1, not 2"),
        ('name = "lab"', "", r"name must be given, and it is missing"),
        ('head = "lan"', 'head = "wan"', r"the head must hang on one of the links lan, not 'wan'"),
        ("input_bytes = 3072", "input_bytes = -1", r"networks.net.input_bytes must be a whole number in 0\.\."),
        ("answer_bytes = 40", "exit_rates = [0.5, 0.6]", r"networks.net.exit_rates must sum to 1, not to 1.1"),
        ("answer_bytes = 40", "exit_rates = [1]", r"exit_rates of network 'net' must be 2, one an exit, not 1"),
        ('latency = "150us"', 'latency = "150"', r"links.lan.latency must be a positive number with a unit"),
        ("bytes_per_s = 117_700_000", "", r"links.lan.bytes_per_s must be given"),
        ('cost_source = "assumed"', "", r"types.fast.cost_source must say where cost_per_hour comes from"),
        ('profile = "fast.json"', 'profil = "fast.json"', r"types.fast.networks.net may have bundle, design, profile"),
        ('profile = "fast.json"', "", r"types.fast.networks.net must have exactly one of profile, design, bundle"),
        ("[types.fast.networks.net]", "[types.fast.networks.ghost]", r"ghost must be one of the networks net"),
        ('kind = "cpu"', 'kind = "gpu"', r"types.cpu.kind must be one of npu, cpu, not 'gpu'"),
        ('type = "cpu"', 'type = "gpu"', r"device 'old' must have one of the types fast, cpu, not 'gpu'"),
        ('name = "old"', 'name = "fast-0"', r"'fast-0' comes twice"),
        ('name = "old"', 'colour = "red"', r"devices\[1\] may have .*, not colour"),
        ('"10.0.0.2:8001"', '"10.0.0.1:8001"', r"'fast-1' and 'fast-0' share 10.0.0.1:8001"),
        ('"10.0.0.2:8001"', '"10.0.0.2"', r"devices\[0\].addresses must be HOST:PORT each, not '10.0.0.2'"),
        ('type = "fast"\n', 'type = "fast"\ncount = 3\n', r"devices\[0\].addresses must be 3, one a device, not 2"),
        ("[[devices]]", "[[gadgets]]", r"a fleet may have .*, not gadgets"),
        ("memory_bytes = 536_870_912", "memory_bytes = true", r"types.fast.memory_bytes must be a whole number"),
        ("[links.lan]", "[links.lan", r"must be TOML"),
    ],
)
def test_what_a_fleet_file_must_not_say_is_refused_with_its_place(old: str, new: str, said: str) -> None:
    assert old in FLEET
    with pytest.raises(FleetError, match=said) as told:
        fleet(FLEET.replace(old, new))
    assert "\n" not in str(told.value).replace("(at line", "").strip()
    assert str(told.value).startswith("fleet file 'fleet.toml'")


def test_types_whose_networks_do_not_agree_are_refused() -> None:
    with pytest.raises(FleetError, match=r"types 'fast' and 'cpu' must have the same blocks and exits of 'net'"):
        parse_fleet(FLEET, lambda kind, path: profile(exits=2 if path == "fast.json" else 3))


def test_a_fleet_is_read_with_its_designs_profiles_and_bundles(tmp_path: Path) -> None:
    design = tiny_design()
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "design.json").write_text(design.dumps())
    (tmp_path / "tiny.json").write_text(design.dumps())
    (tmp_path / "tiny.profile.json").write_text(Profile.of_design(design).dumps())
    for entry in ('bundle = "bundle"', 'design = "tiny.json"', 'profile = "tiny.profile.json"'):
        text = FLEET.replace('profile = "fast.json"', entry).split("[types.cpu]")[0]
        (tmp_path / "fleet.toml").write_text(text + '[[devices]]\ntype = "fast"\n')
        found = read_fleet(tmp_path / "fleet.toml").types["fast"].profiles["net"]
        assert found.design == design.digest
        assert found.latency == design.latency
        assert found.weights_bytes == 2 * sum(x.p * x.c * x.groups for x in design.layers if x.macs)
    (tmp_path / "bundle" / "design.json").unlink()
    (tmp_path / "fleet.toml").write_text(FLEET.replace('profile = "fast.json"', 'bundle = "bundle"'))
    with pytest.raises(FleetError, match=r"types.fast.networks.net.bundle: .* and it has neither"):
        read_fleet(tmp_path / "fleet.toml")
    with pytest.raises(FleetError, match="must be readable UTF-8 text"):
        read_fleet(tmp_path / "none.toml")


@settings(max_examples=25)
@given(
    ns=st.lists(st.lists(st.integers(1, 10**12), min_size=3, max_size=3), min_size=1, max_size=5),
    slot=st.integers(0, 1 << 40),
)
def test_a_profile_survives_its_text(ns: list[list[int]], slot: int) -> None:
    table = LatencyTable(ns=tuple(map(tuple, ns)))
    made = Profile.of_table("some net", table, slot_bytes=slot, source="hypothesis")
    again = Profile.loads(made.dumps())
    assert again == made
    assert again.latency == table


def test_a_profile_that_was_changed_by_hand_is_refused() -> None:
    raw = json.loads(profile().dumps())
    raw["slot_bytes"] = 1
    with pytest.raises(FleetError, match="its digest does not fit its numbers"):
        Profile.loads(json.dumps(raw))
    with pytest.raises(FleetError, match="must have exactly the fields of a profile"):
        Profile.loads(json.dumps(raw | {"speed": 3}))
    with pytest.raises(FleetError, match="must be JSON"):
        Profile.loads("{")
    with pytest.raises(FleetError, match="whose kind is 'profile'"):
        Profile.loads("[]")


def test_blocks_that_cannot_be_are_refused() -> None:
    with pytest.raises(FleetError, match="must name the exit whose head it prices"):
        Block(name="b", ns=(1,), head_ns=(1,))
    with pytest.raises(FleetError, match="must take whole nanoseconds above zero, not 0"):
        Block(name="b", ns=(0,))
    with pytest.raises(FleetError, match="must end at an exit"):
        Profile(network="n", blocks=(Block(name="b", ns=(1,)),))
    with pytest.raises(FleetError, match="must have 1 batch sizes, and 'c' has 2"):
        Profile(network="n", blocks=(Block(name="b", ns=(1,)), Block(name="c", ns=(1, 2), exit="e")))


def plan_of(*pools: Pool, routes: tuple[tuple[int, ...], ...] = ((0,),)) -> Plan:
    ways = tuple(Route(network="net", pools=way, rate_per_s=10.0 / len(routes)) for way in routes)
    facts: dict[str, Any] = {"objective": "goodput", "slo_ns": 10**8, "rate_per_s": 10.0, "bound_per_s": 11.0}
    return Plan(fleet=fleet().digest, pools=pools, routes=ways, **facts)


def job(first: int, last: int, batch: int = 2) -> Job:
    return Job(network="net", first=first, last=last, batch=batch)


def pool(kind: str, devices: str, *jobs: Job) -> Pool:
    return Pool(type=kind, devices=tuple(devices.split()), jobs=jobs)


def test_a_plan_knows_its_form_and_whom_it_is_for() -> None:
    front, rear = pool("fast", "fast-0", job(0, 1)), pool("fast", "fast-1", job(2, 3))
    whole = plan_of(pool("fast", "fast-0 fast-1", job(0, 3)))
    serial = plan_of(pool("fast", "fast-0", job(0, 1), job(2, 3)))
    line = plan_of(front, rear, routes=((0, 1),))
    mixed = plan_of(front, rear, pool("cpu", "old", job(0, 3, 1)), routes=((0, 1), (2,)))
    assert [p.form for p in (whole, serial, line, mixed)] == [
        "data parallel",
        "data parallel, serial splits",
        "pipeline",
        "several heterogeneous pipelines",
    ]
    for one in (whole, serial, line, mixed):
        assert Plan.loads(one.dumps()) == one
        one.check(fleet())
        with pytest.raises(FleetError, match="must be for fleet 'lab'"):
            one.check(fleet().without({"old"}))
    assert mixed.devices["old"].type == "cpu"


def test_plans_that_cannot_be_are_refused() -> None:
    front, rear, whole = (job(0, 1),), (job(2, 3),), pool("fast", "fast-0", job(0, 3))
    with pytest.raises(FleetError, match="fast-0 is in two"):
        plan_of(whole, whole, routes=((0,), (1,)))
    with pytest.raises(FleetError, match=r"route 0 of 'net' must end at block 3, not at 1"):
        plan_of(pool("fast", "fast-0", *front), pool("fast", "fast-1", *rear), routes=((0,),))
    with pytest.raises(FleetError, match=r"route 0 of 'net' must go on at block 0, and pool 0 begins at 2"):
        plan_of(pool("fast", "fast-0", *rear))
    with pytest.raises(FleetError, match=r"route 0 of 'net' must go on at block 2, and pool 0 begins at 0"):
        plan_of(pool("fast", "fast-0", *front), pool("fast", "fast-1", *rear), routes=((0, 0), (0, 1)))
    with pytest.raises(FleetError, match="a route of 'net' must lead through pool 1, and none does"):
        plan_of(whole, pool("fast", "fast-1", job(0, 3)))
    with pytest.raises(FleetError, match=r"route 0 must lead through pools 0\.\.0, not 7"):
        plan_of(whole, routes=((7,),))
    with pytest.raises(FleetError, match="of its type 'fast', and old are not"):
        plan_of(pool("fast", "old", job(0, 3))).check(fleet())
    with pytest.raises(FleetError, match=r"batches up to 2 of 'net', not 0\.\.3 in 9"):
        plan_of(pool("fast", "fast-0", job(0, 3, 9))).check(fleet())
    raw = json.loads(plan_of(whole).dumps())
    with pytest.raises(FleetError, match="its digest does not fit"):
        Plan.loads(json.dumps(raw | {"rate_per_s": 99.0}))
    with pytest.raises(FleetError, match="exactly the fields of a plan"):
        Plan.loads(json.dumps({**raw, "pools": [{}]}))
