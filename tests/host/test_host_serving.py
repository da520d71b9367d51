"""Terms of requests, typed refusals, priorities, owners of a device, damage that is noticed, and models that
outlive their servers.
"""

import subprocess
import sys
import threading
import time
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_worlds import HOUR_NS, PATIENCE_S, HeldClock, HostWorld, eventually, world
from oip_worlds import bundle_of

from fluidnpu.dse import LatencyTable
from fluidnpu.host import (
    Bundle,
    BundleError,
    Driver,
    DriverUsageError,
    NpuTimeout,
    Reply,
    Server,
    SimulatedNpu,
    VirtualClock,
    WallClock,
    serve_requests,
)
from fluidnpu.host.devices.claims import locked
from fluidnpu.host.devices.recall import Recall
from fluidnpu.host.devices.simulated import JobFault
from fluidnpu.host.serving import (
    DeviceInUseError,
    ExpiredError,
    IntegrityError,
    ModelOptions,
    Models,
    ModelUnavailableError,
    ShedError,
    UnknownModelError,
)
from fluidnpu.host.serving.decisions import DecisionLog
from fluidnpu.host.serving.model import UNAVAILABLE, Model
from fluidnpu.host.serving.statistics import Statistics
from fluidnpu.models import golden
from fluidnpu.scheduler import Action, Outcome, PolicyError, Request, Run, SchedulerError, View, make_policy
from fluidnpu.scheduler.comparison import replay_live
from fluidnpu.scheduler.policies import Setting
from fluidnpu.scheduler.simulation import Terms

SECOND_NS = 10**9
MS = 1_000_000


def held(stage_ms: int) -> tuple[HostWorld, HeldClock]:
    """A world in which every stage takes so long, in any batch, on a clock that the test moves."""
    w, clock = world(3, loaded=False), HeldClock()
    ns = tuple((stage_ms * MS,) * w.design.b_max for _ in range(w.design.stages))
    design = replace(w.design, latency=LatencyTable(ns=ns))
    program = replace(w.program, design_digest=design.digest)
    npu = SimulatedNpu(design, clock=clock)
    driver = Driver(npu, program, design)
    driver.load()
    return HostWorld(w.qnet, design, program, npu, driver), clock


def deep(w: HostWorld) -> Any:
    """Images that leave at the last exit."""
    images = w.images(64)
    return images[golden.early_exit(w.qnet, images)[0] == w.design.stages - 1]


# -- terms of a request --------------------------------------------------------------------------------------


def test_a_deadline_that_passes_while_the_npu_works_gives_the_last_exits_answer() -> None:
    w, clock = held(4)
    image = deep(w)[0]
    with Server(w.driver, make_policy("serial")) as server:
        asked = server.submit(image, Terms(slo_ns=6 * MS, anytime=True))
        clock.wait_for_sleep(4 * MS)
        clock.move(4 * MS)
        clock.wait_for_sleep(8 * MS)
        assert not asked.done()
        clock.move(6 * MS)
        reply = asked.result(PATIENCE_S)
        assert clock.sleeps_until_ns == 8 * MS, "the NPU is in the middle of stage 1"
        assert server.waiting == 0
        clock.let_go()
        late = server.submit(image, Terms(slo_ns=6 * MS)).result(PATIENCE_S)  # the slot is free again
    stored = golden.run(w.qnet, image[None])
    assert (reply.outcome, reply.end_ns) == (Outcome.ANYTIME, 6 * MS)
    assert (reply.exit, reply.prediction) == (0, int(np.argmax(stored[0][0])))
    assert (late.outcome, late.exit, late.met) == (Outcome.EXIT, 1, False)
    assert server.answered == 2


def test_a_deadline_that_passes_before_the_first_exit_waits_for_it() -> None:
    w, clock = held(4)
    with Server(w.driver, make_policy("serial")) as server:
        asked = server.submit(deep(w)[0], Terms(slo_ns=1 * MS, anytime=True))
        clock.wait_for_sleep(4 * MS)
        clock.move(2 * MS)
        eventually(lambda: not server._deadlines)  # the deadline has been seen
        assert not asked.done()
        clock.move(4 * MS)
        reply = asked.result(PATIENCE_S)
    assert (reply.outcome, reply.exit, reply.met) == (Outcome.ANYTIME, 0, False)
    assert reply.end_ns == 4 * MS


def test_anytime_on_a_virtual_clock() -> None:
    w = world(3)
    with Server(w.driver, make_policy("serial")) as server:
        reply = server.submit(deep(w)[0], Terms(slo_ns=1, anytime=True)).result(PATIENCE_S)
        full = server.submit(deep(w)[0], Terms(slo_ns=SECOND_NS, anytime=True)).result(PATIENCE_S)
    assert (reply.outcome, reply.exit) == (Outcome.ANYTIME, 0)
    assert (full.outcome, full.exit) == (Outcome.EXIT, 1)


def test_a_request_that_is_still_queued_at_its_timeout_ends_with_an_error() -> None:
    w, clock = held(4)
    images = deep(w)
    with Server(w.driver, make_policy("serial")) as server:
        first = server.submit(images[0], Terms(slo_ns=SECOND_NS))
        clock.wait_for_sleep(4 * MS)  # before the second comes
        second = server.submit(images[1], Terms(slo_ns=SECOND_NS, timeout_ns=2 * MS))
        clock.let_go()
        assert isinstance(second.exception(PATIENCE_S), ExpiredError)
        assert first.result(PATIENCE_S).exit == 1
        assert (server.answered, server.shed) == (1, 1)
    for wrong in (0, -1, 1.5):
        with pytest.raises(DriverUsageError, match="whole number of ns"):
            server.submit(images[0], Terms(slo_ns=SECOND_NS, timeout_ns=wrong))  # type: ignore[arg-type]


def test_a_policy_that_waits_is_asked_again_when_a_timeout_passes() -> None:
    w = world(3, clock=WallClock(), millis=True)
    with Server(w.driver, make_policy("adaptive:timeout=3600s")) as server:
        future = server.submit(w.images(1)[0], Terms(slo_ns=HOUR_NS, timeout_ns=30_000_000))
        assert isinstance(future.exception(PATIENCE_S), ExpiredError)


def test_a_shed_request_is_an_error_and_no_class() -> None:
    w, clock = held(100)
    images = w.images(12)
    clock.let_go()
    server = Server(w.driver, make_policy("greedy:shed=1"))
    futures = [server.submit(image, Terms(slo_ns=120 * MS)) for image in images]  # all at one time
    with server:
        done, _ = wait(futures, PATIENCE_S)
    errors = [future.exception() for future in done]
    assert {type(error) for error in errors if error is not None} == {ShedError}
    assert server.shed == sum(error is not None for error in errors) > 0
    assert server.answered + server.shed == 12


def test_a_stream_with_refusals_has_no_answers() -> None:
    w = world(3)
    requests = [Request(i, 0, 1) for i in range(4)]
    served = serve_requests(requests, w.images(4), make_policy("greedy:shed=1"), w.driver)
    with pytest.raises(ShedError, match="of 4 requests were shed"):
        _ = served.answers
    assert any(not isinstance(reply, Reply) for reply in served.replies)


def test_lone_requests_that_are_cancelled_leave_nothing_to_decide() -> None:
    w = world(3)
    with Server(w.driver, make_policy("fluid")) as server:
        cancelled = 0
        for image in w.images(200):
            cancelled += server.submit(image, Terms(slo_ns=SECOND_NS)).cancel()
        assert server.submit(w.images(1)[0], Terms(slo_ns=SECOND_NS)).result(PATIENCE_S).met
    assert server.failure is None
    assert server.answered == 201 - cancelled


def test_priorities_enter_first() -> None:
    w = world(3)
    images = w.images(1)
    order: list[int] = []
    server = Server(w.driver, make_policy("serial"))
    futures = []
    for index, priority in enumerate([2, 2, 2, 2, 2, 2, 2, 2, 2, 2, -1, 0]):
        future = server.submit(images[0], Terms(slo_ns=SECOND_NS, priority=priority))
        future.add_done_callback(lambda _, index=index: order.append(index))  # type: ignore[misc]
        futures.append(future)
    with server:
        wait(futures, PATIENCE_S)
    assert order[:2] == [10, 11]
    assert sorted(order) == list(range(12))


def test_memory_of_requests_does_not_grow() -> None:
    """A small version of benchmarks/soak.py."""
    w = world(5, exits=1)
    with Server(w.driver, make_policy("greedy")) as server:
        for _ in range(30):
            futures = [server.submit(image, Terms(slo_ns=SECOND_NS, anytime=True)) for image in w.images(8)]
            wait(futures, PATIENCE_S)
    assert not server._runtime.ledger.flights
    assert not server._tickets
    assert not server._by_tenant.total()


# -- one owner -----------------------------------------------------------------------------------------------


def test_a_device_has_one_server() -> None:
    w = world(3)
    other = Driver(w.npu, w.program, w.design)
    with Server(w.driver, make_policy("greedy")) as server:
        with pytest.raises(DeviceInUseError, match="one owner"):
            Server(w.driver, make_policy("greedy")).start()
        with pytest.raises(DeviceInUseError, match="one owner"):
            other.load()
        with pytest.raises(DeviceInUseError, match="one owner"):
            serve_requests([], [], make_policy("greedy"), w.driver)
        assert server.submit(w.images(1)[0], Terms(slo_ns=SECOND_NS)).result(PATIENCE_S).met
    other.load()
    with Server(other, make_policy("greedy")) as server:
        assert server.submit(w.images(1)[0], Terms(slo_ns=SECOND_NS)).result(PATIENCE_S).met


def test_another_process_cannot_open_a_board() -> None:
    code = "from fluidnpu.host.devices.claims import locked\nwith locked('test-board'): print('opened')"
    with locked("test-board"):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "DeviceInUseError: a device must have one owner" in done.stderr
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "opened\n"


# -- damage --------------------------------------------------------------------------------------------------


def guarded(w: HostWorld) -> HostWorld:
    driver = Driver(w.npu, w.program, w.design, guarded=True)
    driver.load()
    return replace(w, driver=driver)


def run_once(w: HostWorld) -> None:
    w.driver.write_sample(0, w.images(1)[0])
    w.driver.activate((0,))
    w.driver.run_to_exit(w.design.stages - 1)


def test_a_good_job_passes_the_guard() -> None:
    w = guarded(world(3))
    run_once(w)
    images = w.images(20)
    served = serve_requests([Request(i, i, 10**9) for i in range(20)], images, make_policy("fluid"), w.driver)
    exits, classes, _ = golden.early_exit(w.qnet, images)
    assert [(a.exit, a.prediction) for a in served.answers] == list(zip(exits, classes, strict=True))
    assert served.failures == ()


@pytest.mark.parametrize("where", [0, 0.5, 0.999])
def test_a_damaged_program_is_noticed_and_written_again(where: float) -> None:
    w = guarded(world(3))
    code = w.driver._buffers[0].array
    at = int(where * len(w.program.image()))
    code[at] ^= 0x10
    with pytest.raises((IntegrityError, RuntimeError)):
        run_once(w)
    w.driver.recover()
    run_once(w)


def test_a_changed_register_is_noticed() -> None:
    w = guarded(world(3))
    wait_interrupt = w.npu.wait_interrupt

    def flipping(deadline_ns: int) -> bool:
        w.npu._stored["SLOT_BYTES"] ^= 64
        return wait_interrupt(deadline_ns)

    w.npu.wait_interrupt = flipping  # type: ignore[method-assign]
    with pytest.raises(IntegrityError, match="register SLOT_BYTES must hold"):
        run_once(w)


def test_a_device_that_says_done_without_work_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    w = guarded(world(3))
    monkeypatch.setattr(w.npu, "_compute", lambda job, until_ns: setattr(job, "ran", len(job.steps)))
    with pytest.raises(IntegrityError, match="has written no results"):
        run_once(w)


def test_a_spurious_interrupt_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(3)
    real, told = w.npu.wait_interrupt, [True, True]
    monkeypatch.setattr(w.npu, "wait_interrupt", lambda deadline: told.pop() if told else real(deadline))
    run_once(w)
    assert not told
    assert w.driver.missed_interrupts == 0


def test_a_recall_changes_nothing_but_the_arithmetic() -> None:
    plain = world(3, exits=3)
    recall = Recall(1 << 24)
    npu = SimulatedNpu(plain.design, clock=VirtualClock(), recall=recall)
    driver = Driver(npu, plain.program, plain.design)
    driver.load()
    images = np.concatenate([plain.images(12)] * 4)
    requests = [Request(i, 40 * i, 40 * i + 10_000) for i in range(48)]
    expected = serve_requests(requests, images, make_policy("fluid"), plain.driver)
    assert serve_requests(requests, images, make_policy("fluid"), driver) == expected
    assert recall.recalled > 5
    small = Recall(1)
    bounded = Driver(SimulatedNpu(plain.design, recall=small), plain.program, plain.design)
    bounded.load()
    assert serve_requests(requests, images, make_policy("fluid"), bounded).replies == expected.replies
    assert not small._results


# -- models --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return bundle_of(world(3, loaded=False, millis=True), tmp_path / "m")


def thresholds(folder: Path, value: float) -> None:
    """Write the bundle again with other thresholds: the same design, another program."""
    bundle = Bundle.read(folder)
    exits = tuple(replace(one, threshold=value) for one in bundle.program.exits)
    Bundle(design=bundle.design, program=replace(bundle.program, exits=exits)).write(folder)


def test_a_reload_loses_no_request(folder: Path) -> None:
    model = Model("m", folder, ModelOptions(slo_ns=SECOND_NS))
    model.load()
    images = world(3).images(16)
    futures: list[Future[Reply]] = []
    stop, open_ = threading.Event(), threading.Semaphore(64)

    def client() -> None:
        while not stop.is_set():
            assert open_.acquire(timeout=PATIENCE_S)
            futures.append(model.submit(images[len(futures) % 16]))
            futures[-1].add_done_callback(lambda _: open_.release())

    thread = threading.Thread(target=client)
    thread.start()
    for value in (0.0, 1.0, 0.0):  # leave at the first exit, or never early
        thresholds(folder, value)
        model.load()
        before = len(futures)
        eventually(lambda before=before: len(futures) > before + 10)  # type: ignore[misc]
    reply = model.submit(images[0]).result(PATIENCE_S)
    stop.set()
    thread.join(PATIENCE_S)
    done, undone = wait(futures, PATIENCE_S)
    model.close()
    assert not undone
    assert all(future.exception() is None for future in done)
    assert {future.result().exit for future in done} == {0, 1}
    assert reply.exit == 0
    assert model.loads == 4


def test_a_bundle_that_cannot_be_read_changes_nothing(folder: Path) -> None:
    model = Model("m", folder, ModelOptions(slo_ns=HOUR_NS))
    with pytest.raises(ModelUnavailableError, match="not loaded yet"):
        model.submit(world(3).images(1)[0])
    model.load()
    (folder / "program.bin").write_bytes(b"?")
    with pytest.raises(BundleError):
        model.load()
    assert model.ready
    assert model.submit(world(3).images(1)[0]).result(PATIENCE_S).met
    model.unload()
    with pytest.raises(ModelUnavailableError, match="unloaded"):
        model.submit(world(3).images(1)[0])


def test_a_model_whose_device_fails_while_it_is_loaded_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("m", folder, ModelOptions(slo_ns=HOUR_NS))
    model.load()

    def failing(driver: Driver) -> None:
        raise NpuTimeout(waited_ns=1, layer_index=0, layer="none", slots=())

    with monkeypatch.context() as patch:
        patch.setattr(Driver, "load", failing)
        with pytest.raises(NpuTimeout) as failed:
            model.load()
    assert (model.state, model.reason) == (UNAVAILABLE, str(failed.value))
    model.load()
    assert model.ready
    model.close()


def test_a_device_that_fails_for_a_while_is_served_again(folder: Path) -> None:
    npus: list[SimulatedNpu] = []

    def opened(bundle: Bundle) -> SimulatedNpu:
        npus.append(SimulatedNpu(bundle.design, clock=WallClock(), faults=[JobFault(job=job) for job in range(12)]))
        return npus[-1]

    model = Model("m", folder, ModelOptions(slo_ns=SECOND_NS, opened=opened, warm=False))
    model.load()
    images = world(3).images(8)
    good, bad = 0, 0

    def served() -> bool:
        nonlocal good, bad
        try:
            model.submit(images[good]).result(PATIENCE_S)
        except RuntimeError:
            bad += 1
        else:
            good += 1
        return good == 8

    eventually(served)
    assert len(npus) == 1
    assert bad > 0
    assert model.recoveries
    assert model.ready
    assert model.lost > 0
    model.close()


def test_names_of_models(tmp_path: Path) -> None:
    with pytest.raises(DriverUsageError, match="one NPU behind 'pynq'"):
        Models({"a": tmp_path, "b": tmp_path}, ModelOptions(device="pynq"))
    for name in ("", "a/b", "-x", "x" * 101):
        with pytest.raises(DriverUsageError, match="a model's name must be"):
            Models({name: tmp_path}, ModelOptions())
    with pytest.raises(UnknownModelError, match="must be one of a, not 'b'"):
        Models({"a": tmp_path}, ModelOptions()).find("b")


def test_the_npus_time_is_its_own_however_slow_this_machine_is() -> None:
    w = world(3, clock=WallClock())
    counts = Statistics(w.design)
    with Server(w.driver, make_policy("greedy"), observers=[counts]) as server:
        replies = wait([server.submit(image, Terms(slo_ns=HOUR_NS)) for image in w.images(20)], PATIENCE_S).done
    cycle_ns = 1e9 / w.design.clock_hz
    assert all(0 <= d.runs * d.predicted_ns - d.measured_ns < d.runs * cycle_ns for d in counts.batches.values())
    assert max(reply.result().npu_ns for reply in replies) <= sum(row[-1] for row in w.design.latency.ns)
    assert counts.host_ns > counts.busy_ns  # which this machine took is told apart


def test_statistics_go_on_over_another_design() -> None:
    w = world(3)
    counts = Statistics(w.design)
    with Server(w.driver, make_policy("greedy"), observers=[counts]) as server:
        wait([server.submit(image, Terms(slo_ns=SECOND_NS)) for image in w.images(20)], PATIENCE_S)
    assert counts.answered == sum(h.cumulative()[-1] for h in counts.latency.values()) == 20
    assert counts.busy_ns == sum(d.measured_ns for d in counts.batches.values()) > 0
    cycle_ns = 1e9 / w.design.clock_hz  # the NPU's time is in whole cycles of its own
    assert all(0 <= d.runs * d.predicted_ns - d.measured_ns < d.runs * cycle_ns for d in counts.batches.values())
    assert counts.host_ns >= counts.busy_ns
    counts.began(View(0, (), LatencyTable(ns=((1,),)), (1.0,), 1))
    assert not counts.batches
    assert counts.answered == 20


def test_an_answer_at_a_deadline_is_counted_beside_the_owners() -> None:
    counts, others = Statistics(world(3).design), list[threading.Thread]()

    class Interrupted(Reply):
        @property
        def met(self) -> bool:
            if not others:  # a switch of threads in the middle of a count
                others.append(threading.Thread(target=counts.answered_early, args=(self,)))
                others[0].start()
                others[0].join(0.05)
            return False

    reply = Interrupted(
        request_id=0, arrival_ns=0, start_ns=1, end_ns=9, deadline_ns=5, prediction=0, exit=0, confidence=0.5
    )
    counts.ended([reply])
    others[0].join(PATIENCE_S)
    assert (counts.answered, counts.violations, counts.tenants[""].violations) == (2, 2, 2)


# -- decisions -----------------------------------------------------------------------------------------------


def logged(folder: Path, w: HostWorld, policy: str, **options: Any) -> list[str]:
    """Serve a crowd with all kinds of terms, and return the lines of the log, oldest part first."""
    log = DecisionLog(folder / "d.jsonl", policy, **options)
    setting = Setting(latency=w.design.latency, exit_rates=(0.5, 0.5), rate_per_s=100.0, slo_ns=SECOND_NS)
    log.expect([setting])
    made = make_policy(policy, setting)
    with Server(w.driver, made, exit_rates=(0.5, 0.5), observers=[log]) as server:
        futures = []
        for index, image in enumerate(w.images(120)):
            futures.append(
                server.submit(
                    image,
                    Terms(
                        slo_ns=2_000_000 if index % 3 else HOUR_NS,
                        anytime=index % 2 == 0,
                        timeout_ns=3_000_000 if index % 5 == 0 else None,
                        priority=index % 4 - 1,
                    ),
                )
            )
            if index % 10 == 0:
                time.sleep(0.002)
        wait(futures, PATIENCE_S)
    log.close()
    parts = sorted(folder.glob("d.jsonl*"), key=lambda path: -int(path.suffix[1:]) if path.suffix[1:].isdigit() else 1)
    return [line for part in parts for line in part.read_text().splitlines()]


@pytest.mark.parametrize("policy", ["fluid", "greedy:shed=1", "adaptive:timeout=2ms", "serial"])
def test_a_live_log_replays(tmp_path: Path, policy: str) -> None:
    w = world(3, clock=WallClock(), millis=True)
    lines = logged(tmp_path, w, policy)
    relived = replay_live(lines)
    assert relived.requests == 120
    assert 0 < relived.asked <= relived.decisions
    at = next(i for i, line in enumerate(lines) if '"run"' in line)
    changed = [*lines[:at], lines[at].replace('"why": "', '"why": "x'), *lines[at + 1 :]]
    with pytest.raises(PolicyError, match="decision"):
        replay_live(changed)
    with pytest.raises(SchedulerError, match="line 3 of the decision log"):
        replay_live([*lines[:2], "{}", *lines[2:]])


def test_parts_of_a_rotated_log_replay_alone_and_together(tmp_path: Path) -> None:
    w = world(3, clock=WallClock(), millis=True)
    whole = logged(tmp_path, w, "fluid", most_bytes=4_000, keep=100)
    assert len(list(tmp_path.iterdir())) > 2
    together = replay_live(whole)
    assert (together.requests, together.asked > 0) == (120, True)
    alone = replay_live((tmp_path / "d.jsonl").read_text().splitlines())
    assert alone.asked == 0
    assert 0 < alone.decisions < together.decisions


def test_a_policy_that_decides_at_random_is_caught(tmp_path: Path) -> None:
    class Odd:
        name = "odd"

        def reset(self) -> None:
            pass

        def decide(self, view: View) -> Action:
            stage = next(s for s, line in enumerate(view.waiting) if line)
            return Run(stage, tuple(view.waiting[stage][-1:]))

    w = world(3)
    log = DecisionLog(tmp_path / "odd", "greedy")
    log.expect([Setting(latency=w.design.latency, exit_rates=(0.5, 0.5), rate_per_s=1.0, slo_ns=1)])
    with Server(w.driver, Odd(), observers=[log]) as server:
        wait([server.submit(image, Terms(slo_ns=SECOND_NS)) for image in w.images(6)], PATIENCE_S)
    log.close()
    with pytest.raises(PolicyError):
        replay_live((tmp_path / "odd").read_text().splitlines())
