"""A processor in an NPU's place: the golden bits in its own time, measured, and as a worker of a fleet."""

import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fleet_worlds import FLEET, NAME, fleet, plan_of, slow_world
from host_worlds import HostWorld, eventually, read, world
from oip_worlds import bundle_of

import fluidnpu
from fluidnpu.dse import Design, LatencyTable
from fluidnpu.hls import Cause
from fluidnpu.host import Bundle, BundleError, DeviceError, Driver, DriverUsageError, WallClock, open_device
from fluidnpu.host.devices.processor import ProcessorNpu
from fluidnpu.host.errors import NpuError
from fluidnpu.host.fleet import BoardOptions, Roster, measure_worker
from fluidnpu.host.fleet.boards import worker
from fluidnpu.models import golden
from fluidnpu.scheduler.placement import Profile

WORKERS = """
[types.thread]
kind = "cpu"
memory_bytes = 1_000_000_000
networks.small.bundle = "worker"
"""


def as_worker(w: HostWorld, folder: Path) -> Bundle:
    """Write a worker's bundle whose times nobody measured: 1 and 2 ms, and half a millisecond a sample."""
    rows = tuple(tuple(1_000_000 * (s + 1) + 500_000 * b for b in range(w.design.b_max)) for s in range(2))
    made = worker.worker_bundle(
        Bundle(design=w.design, program=w.program), LatencyTable(ns=rows), "one thread of a test"
    )
    made.write(folder)
    return made


def right(w: HostWorld, images: Any) -> list[tuple[int, int, bytes]]:
    exits, classes, _ = golden.early_exit(w.qnet, images)
    stored = golden.run(w.qnet, images)
    logits = [np.float32(w.qnet.logits(exit, stored[exit])[row]).tobytes() for row, exit in enumerate(exits)]
    return list(zip(exits.tolist(), classes.tolist(), logits, strict=True))


# -- the device --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exits", [1, 3])
def test_its_bits_are_the_golden_models_whatever_its_table_says(exits: int) -> None:
    """The table says hours, and nobody waits for them; an answer is there when the stage has been started."""
    w = world(4, exits=exits, loaded=False)
    hours = LatencyTable(ns=tuple(tuple(10**13 for _ in row) for row in w.design.latency.ns))
    design = replace(w.design, latency=hours)
    driver = Driver(ProcessorNpu(design), replace(w.program, design_digest=design.digest), design)
    driver.load()
    images = w.images(design.b_max)
    stored = golden.run(w.qnet, images)
    for slot, image in enumerate(images):
        driver.write_sample(slot, image)
    slots = range(design.b_max)
    driver.activate(slots)
    for stage in range(exits):
        began = time.monotonic_ns()
        job = driver.run_stage(stage)
        took = time.monotonic_ns() - began
        assert np.array_equal(driver.logits(slots, stage), w.qnet.logits(stage, stored[stage]))
        assert 0 < job.end_ns - job.start_ns <= took, "the time that it took is the job's"
        counted = read(driver.device, "CYCLES_LO") + (read(driver.device, "CYCLES_HI") << 32)
        assert 0 < counted <= took * design.clock_hz / 1e9


def test_a_program_that_is_damaged_ends_as_on_a_board() -> None:
    w = world(3, loaded=False)
    npu = ProcessorNpu(w.design)
    driver = Driver(npu, w.program, w.design)
    driver.load()
    driver.write_sample(0, w.images(1)[0])
    driver.activate((0,))
    image = w.program.image()
    where = next(one.array for one in npu.memory.buffers if one.array[: len(image)].tobytes() == image)
    where[:64] = 0xFF
    with pytest.raises(NpuError) as refused:
        driver.run_stage(0)
    assert refused.value.cause is Cause.BAD_DESCRIPTOR


def test_jobs_of_a_process_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two programs of one worker: while one computes the other waits."""
    at_work, most = 0, 0
    gate = threading.Event()
    before = ProcessorNpu.__mro__[1]._compute  # type: ignore[attr-defined]

    def watched(self: Any, job: Any, until_ns: int) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        gate.wait(0.05)
        before(self, job, until_ns)
        at_work -= 1

    monkeypatch.setattr(ProcessorNpu.__mro__[1], "_compute", watched)
    drivers = []
    for seed in (3, 5):
        w = world(seed, loaded=False)
        drivers.append(Driver(ProcessorNpu(w.design), w.program, w.design))
        drivers[-1].load()
        drivers[-1].write_sample(0, w.images(1)[0])
        drivers[-1].activate((0,))
    threads = [threading.Thread(target=one.run_stage, args=(0,)) for one in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_device_by_name_is_for_measured_bundles(tmp_path: Path) -> None:
    w = world(3, loaded=False)
    made = as_worker(w, tmp_path)
    with open_device("cpu", made) as device:
        assert isinstance(device, ProcessorNpu)
    with (
        pytest.raises(DriverUsageError, match=r"measured on one .* and this one is for"),
        open_device("cpu", Bundle(design=w.design, program=w.program)),
    ):
        pass
    with pytest.raises(DriverUsageError, match="no clock can be given"), open_device("cpu", made, clock=WallClock()):
        pass


# -- measuring ---------------------------------------------------------------------------------------------


def test_times_are_medians_of_what_the_thread_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the thread stands still but in `run_stage`, where it goes by stage and batch."""
    w, now, runs = world(3, loaded=False), 0, 0
    before = Driver.run_stage

    def run(self: Driver, stage: int) -> Any:
        nonlocal now, runs
        runs += 1
        slow = 10**9 if runs % 5 == 0 else 0  # a median does not mind
        now += 1000 * (stage + 1) * {1: 5, 2: 7, 3: 6, 4: 9}[len(self.active)] + slow
        return before(self, stage)

    monkeypatch.setattr(Driver, "run_stage", run)
    monkeypatch.setattr(time, "thread_time_ns", lambda: now)
    told: list[tuple[int, int]] = []
    found = worker.stage_times(
        Bundle(design=w.design, program=w.program), 0.0, lambda done, of: told.append((done, of))
    )
    assert w.design.b_max == 4
    assert found.ns == ((5000, 7000, 7000, 9000), (10000, 14000, 14000, 18000)), "never faster with more samples"
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_worker_is_the_same_program_with_other_times(tmp_path: Path) -> None:
    w = world(3, loaded=False)
    bundle = Bundle.read(bundle_of(w, tmp_path / "b"))
    found = measure_worker(tmp_path / "b", 0.001)
    assert found.design.model == "measured"
    assert found.design.board.startswith("one thread of ")
    assert found.design.latency != bundle.design.latency
    assert all(a <= b for row in found.design.latency.ns for a, b in pairwise(row))
    assert found.program.image() == bundle.program.image()
    assert found.profile.source == f"measured on {found.design.board}"
    found.write(tmp_path / "worker")
    assert Bundle.read(tmp_path / "worker") == found
    assert Design.loads(found.design.dumps()) == found.design
    (tmp_path / "b" / "program.bin").write_bytes(b"")
    with pytest.raises(BundleError):
        measure_worker(tmp_path / "b", 0.001)


def test_a_worker_has_no_core() -> None:
    w = world(3, loaded=False)
    counted = replace(w.design, model="exact", core="hls")
    bundle = Bundle(design=counted, program=replace(w.program, design_digest=counted.digest))
    made = worker.worker_bundle(bundle, counted.latency, "one thread of a test")
    assert (made.design.model, made.design.core) == ("measured", None)


def test_a_measurement_that_fails_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bundle_of(world(3, loaded=False), tmp_path / "b")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(DeviceError, match="process of its own, which ended with 1"):
        measure_worker(folder, 0.001)


# -- in a fleet --------------------------------------------------------------------------------------------


def mixed(folder: Path, w: HostWorld, devices: str) -> Path:
    bundle_of(w, folder / "bundle")
    as_worker(w, folder / "worker")
    path = folder / "fleet.toml"
    path.write_text(FLEET + WORKERS + devices)
    return path


def test_workers_answer_with_the_boards_bits_and_outlive_kills(tmp_path: Path) -> None:
    w = slow_world()
    path = mixed(tmp_path, w, '[[devices]]\ntype = "board"\n[[devices]]\ntype = "thread"\n')
    images = w.images(16)
    wanted = right(w, images)
    with (
        fleet(path, boards=BoardOptions(slo_ns=10**9), audit_every=4) as (server, front),
        fluidnpu.connect(server.url()) as npu,
    ):
        board, thread = front.dispatcher.leaves
        assert thread.times[NAME].whole_s != board.times[NAME].whole_s, "each has its own table"
        assert "--processor" in front.processes["thread"].options.words()
        assert "--processor" not in front.processes["board"].options.words()

        def asked() -> set[str]:
            answers = [npu.infer(image) for image in images]
            assert [(one.exit, one.prediction, one.logits.tobytes()) for one in answers] == wanted
            return {str(one.parameters["board"]) for one in answers}

        seen: set[str] = set()

        def both_were_asked() -> bool:
            seen.update(asked())
            return seen == {"board", "thread"}

        eventually(both_were_asked)  # one that was slow is asked less
        os.kill(front.processes["thread"].pid, signal.SIGKILL)
        asked()
        front.dispatcher.drain("board")
        assert asked() == {"thread"}, "it is started again, and held requests are its"
        eventually(lambda: front.dispatcher.counts["audits_agreed"] > 0)
        assert front.dispatcher.counts["audits_differed"] == 0


def test_a_network_in_parts_over_a_board_and_a_worker(tmp_path: Path) -> None:
    w = slow_world()
    path = mixed(tmp_path, w, '[[devices]]\ntype = "thread"\n[[devices]]\ntype = "board"\n')
    plan = json.loads(plan_of(path, (0, 0, 4, "on"), (1, 1, 4, "on"), devices=(1, 1)).read_text())
    plan["pools"][0]["type"] = "thread"
    plan.pop("digest", None)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    images = w.images(12)
    with fleet(path, plan=tmp_path / "plan.json") as (server, _), fluidnpu.connect(server.url()) as npu:
        answers = [npu.infer(image) for image in images]
    assert [(one.exit, one.prediction, one.logits.tobytes()) for one in answers] == right(w, images)
    assert {str(one.parameters["board"]) for one in answers} == {"thread", "thread, board"}


def test_times_of_a_processor_are_for_processors_alone(tmp_path: Path) -> None:
    w = world(3, loaded=False)
    path = mixed(tmp_path, w, '[[devices]]\ntype = "thread"\n')
    assert Roster.read(path).seats[0].worker
    text = path.read_text()
    path.write_text(text.replace('"worker"', '"bundle"'))
    with pytest.raises(
        BundleError, match="type 'thread' is a cpu, so its bundle of 'small' must have the times of one"
    ):
        Roster.read(path)
    path.write_text(text.replace('kind = "cpu"', ""))
    with pytest.raises(BundleError, match=r"type 'thread' must be of kind .cpu., since .* one thread of a test"):
        Roster.read(path)
    profile = Profile.of_design(w.design)
    (tmp_path / "host.json").write_text(profile.dumps())
    path.write_text(text.replace('networks.small.bundle = "worker"', 'networks.small.profile = "host.json"'))
    with pytest.raises(BundleError, match="must name the bundle of 'small' to be served, and it names the profile"):
        Roster.read(path)
