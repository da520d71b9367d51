"""The clock on the wall may jump: deadlines, order and latencies are those of the monotonic clock."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from host_worlds import HOUR_NS, PATIENCE_S, traffic_of, world
from oip_worlds import NAME, served

import fluidnpu
from fluidnpu.hls import register
from fluidnpu.host import Server, WallClock, serve_requests
from fluidnpu.host.errors import ExpiredError
from fluidnpu.scheduler import Serving, make_policy
from fluidnpu.scheduler.simulation import Terms

DAY_S = 86_400


def restless(seed: int) -> Callable[[float], float]:
    rng = random.Random(seed)
    return lambda seconds: seconds + rng.uniform(-DAY_S, DAY_S)


JUMPS: dict[str, Callable[[float], float]] = {  # from seconds of the wall clock to those that it shows
    "to and fro": restless(1),
    "a year ahead": lambda seconds: seconds + 365 * DAY_S,
    "backwards": lambda seconds: 4e9 - seconds,
    "stopped": lambda seconds: 1e9,
}
EVERY = pytest.mark.parametrize("jump", JUMPS)


def let_jump(jump: str, patch: pytest.MonkeyPatch) -> list[float]:
    """Let the wall clock jump from now on; return what it has shown."""
    shown: list[float] = []
    true_time, changed = time.time, JUMPS[jump]

    def jumped() -> float:
        shown.append(changed(true_time()))
        return shown[-1]

    patch.setattr(time, "time", jumped)
    patch.setattr(time, "time_ns", lambda: int(jumped() * 1e9))
    return shown


@EVERY
def test_a_schedule_is_the_same(jump: str, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(3)
    requests, images = traffic_of(w, 40), w.images(40)
    setting = Serving.of(w.design, (0.5, 0.5)).setting(100.0, 10**6)
    expected = serve_requests(requests, images, make_policy("fluid", setting), w.driver)
    let_jump(jump, monkeypatch)
    found = serve_requests(requests, images, make_policy("fluid", setting), w.driver)
    assert found.schedule == expected.schedule
    assert found.replies == expected.replies


def test_a_host_that_is_held_up_before_a_start_waits_as_long_as_ever() -> None:
    """A busy machine may take the processor away between the look at the clock and the START."""
    w = world(3)
    w.driver.write_sample(0, w.images(1)[0])
    w.driver.activate([0])
    write = w.npu.write

    def held_up(offset: int, value: int) -> None:
        if offset == register("CTRL").offset and value == register("CTRL").field("START").mask:
            w.npu.clock.sleep_until(w.npu.clock.now_ns() + 10**9)
        write(offset, value)

    w.npu.write = held_up  # type: ignore[method-assign]
    job = w.driver.run_stage(0)
    assert w.driver.status().done
    assert 10**9 <= job.start_ns <= job.end_ns <= w.npu.clock.now_ns()


@EVERY
def test_deadlines_and_order_are_kept(jump: str, monkeypatch: pytest.MonkeyPatch) -> None:
    let_jump(jump, monkeypatch)
    w = world(3, millis=True, clock=WallClock())
    image = w.images(1)[0]
    with Server(w.driver, make_policy("serial")) as server:
        began_ns = time.monotonic_ns()
        early = [server.submit(image, Terms(slo_ns=HOUR_NS)) for _ in range(4)]
        short = server.submit(image, Terms(slo_ns=HOUR_NS, timeout_ns=1_000))  # it passes behind four jobs
        patient = server.submit(image, Terms(slo_ns=HOUR_NS, timeout_ns=HOUR_NS))
        replies = [one.result(PATIENCE_S) for one in (*early, patient)]
        with pytest.raises(ExpiredError):
            short.result(PATIENCE_S)
        took_ns = time.monotonic_ns() - began_ns
    assert [reply.end_ns for reply in replies] == sorted(reply.end_ns for reply in replies)
    assert all(reply.met and 0 < reply.latency_ns <= took_ns for reply in replies)


@EVERY
def test_a_server_on_the_network_serves_on(jump: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = let_jump(jump, monkeypatch)
    with served(tmp_path, decisions=tmp_path / "log") as s:
        image = s.w.images(1)[0]
        began_us = time.monotonic_ns() // 1_000
        with fluidnpu.connect(s.url, NAME) as npu:
            answers = [npu.infer(image, slo_ms=3.6e6, timeout_ms=3.6e6) for _ in range(5)]
        took_us = time.monotonic_ns() // 1_000 - began_us
        status, text, _ = s.exchange("GET", "/metrics")
        late = s.model.statistics.violations if s.model.statistics else -1
    assert shown  # something asked for the time of day
    assert (status, late) == (200, 0)
    assert b"fluidnpu_violations_total" in text
    exits, classes = s.golden(image[None])
    assert [(one.exit, one.prediction) for one in answers] == [(exits[0], classes[0])] * 5
    assert all(one.parameters["met"] for one in answers)
    assert 0 < sum(one.parameters["npu_us"] + one.parameters["queue_us"] for one in answers) <= took_us
