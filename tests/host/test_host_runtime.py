"""The runtime loop: the simulator's schedule, the golden model's answers, one for each request."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from host_worlds import HostWorld, Images, world
from host_worlds import traffic_of as traffic
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.hls import Cause
from fluidnpu.host import Driver, DriverUsageError, GaveUpError, ServeResult, serve_requests
from fluidnpu.host.devices.simulated import JobFault
from fluidnpu.host.serving.replies import Refusal
from fluidnpu.models import golden
from fluidnpu.scheduler import (
    Action,
    Answer,
    Outcome,
    Policy,
    PolicyError,
    Request,
    Run,
    Shed,
    View,
    Wait,
    World,
    make_policy,
    simulate,
)

POLICIES = ("serial", "greedy", "greedy:b_max=2", "adaptive:timeout=45%", "adaptive-s", "fluid", "fluid-repaired")


def run(w: HostWorld, requests: list[Request], images: Images, policy: str | Policy, **options: Any) -> ServeResult:
    made = make_policy(policy) if isinstance(policy, str) else policy
    return serve_requests(requests, images, made, w.driver, **options)


def check_answers(w: HostWorld, images: Images, served: ServeResult) -> None:
    """Every answer is golden's, to the last bit of confidence."""
    exits, classes, sure = golden.early_exit(w.qnet, images)
    assert [a.exit for a in served.answers] == exits.tolist()
    assert [a.prediction for a in served.answers] == classes.tolist()
    assert [a.confidence for a in served.answers] == sure.tolist()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("load", [0.3, 0.9, 2.0])
def test_device_and_simulator_make_the_same_schedule(policy: str, load: float) -> None:
    w = world(3, exits=3, slots=8)
    images = w.images(60)
    requests = traffic(w, 60, load)
    served = run(w, requests, images, policy, exit_rates=(0.5, 0.2, 0.3))
    check_answers(w, images, served)
    served.schedule.check()
    assert served.failures == ()
    exits = [a.exit for a in served.answers]
    expected = simulate(
        requests, make_policy(policy), World(latency=w.design.latency, exits=exits, exit_rates=(0.5, 0.2, 0.3), slots=8)
    )
    assert served.schedule == expected
    assert [(a.start_ns, a.end_ns) for a in served.replies] == list(
        zip(expected.start_ns, expected.end_ns, strict=True)
    )


@settings(max_examples=40, deadline=None)
@given(
    gaps=st.lists(st.integers(0, 3000), min_size=1, max_size=20),
    slo=st.integers(1, 20_000),
    policy=st.sampled_from(POLICIES),
)
def test_same_schedule_for_any_arrivals(gaps: list[int], slo: int, policy: str) -> None:
    """Also with several arrivals at the very same nanosecond."""
    w = world(5)
    requests = [Request(i, int(t), int(t) + slo) for i, t in enumerate(np.cumsum(gaps))]
    images = w.images(len(requests))
    served = run(w, requests, images, policy, exit_rates=(0.5, 0.5))
    check_answers(w, images, served)
    exits = [a.exit for a in served.answers]
    assert served.schedule == simulate(
        requests, make_policy(policy), World(latency=w.design.latency, exits=exits, exit_rates=(0.5, 0.5))
    )


def test_several_schedules_follow_one_another_on_one_device() -> None:
    w = world(3)
    images, requests = w.images(20), traffic(w, 20)
    once = run(w, requests, images, "fluid").schedule
    assert run(w, requests, images, "fluid").schedule == once


class Youngest:
    """Last come, first served, one at a time: what waits past an exit must still be sorted by arrival."""

    name = "youngest"

    def reset(self) -> None:
        pass

    def decide(self, view: View) -> Action:
        if sum(map(len, view.waiting[1:])) < view.slots and view.waiting[0]:
            return Run(0, (view.waiting[0][-1],))
        stage = next(s for s in range(1, len(view.waiting)) if view.waiting[s])
        assert list(view.waiting[stage]) == sorted(view.waiting[stage], key=lambda r: (r.arrival_ns, r.id))
        return Run(stage, tuple(view.waiting[stage][: view.b_max]))


def test_samples_past_an_exit_wait_in_order_of_arrival() -> None:
    w = world(3, exits=3, slots=6)
    images, requests = w.images(60), traffic(w, 60, load=3.0)
    served = run(w, requests, images, Youngest(), exit_rates=(0.5, 0.2, 0.3))
    exits = golden.early_exit(w.qnet, images)[0].tolist()
    assert served.schedule == simulate(
        requests, Youngest(), World(latency=w.design.latency, exits=exits, exit_rates=(0.5, 0.2, 0.3), slots=6)
    )


FAULTS = (None, Cause.BUS_READ, Cause.BUS_WRITE, Cause.BAD_DESCRIPTOR)


@pytest.mark.parametrize("policy", ["serial", "greedy", "fluid"])
@pytest.mark.parametrize("cause", FAULTS)
def test_faults_lose_nothing(policy: str, cause: Cause | None) -> None:
    faults = [JobFault(job=job, cause=cause, layer=job % 3) for job in range(0, 60, 7)]
    w = world(3, slots=8, faults=faults)
    images, requests = w.images(40), traffic(w, 40)
    served = run(w, requests, images, policy)
    check_answers(w, images, served)
    assert Counter(a.request_id for a in served.replies) == Counter(r.id for r in requests)
    assert len(served.failures) == sum(f.job < w.npu.jobs for f in faults) > 1
    served.schedule.check()


@settings(max_examples=20, deadline=None)
@given(jobs=st.sets(st.integers(0, 30), max_size=12), cause=st.sampled_from(FAULTS))
def test_any_pattern_of_faults_loses_nothing(jobs: set[int], cause: Cause | None) -> None:
    w = world(5, faults=[JobFault(job=job, cause=cause) for job in jobs])
    images, requests = w.images(12), traffic(w, 12, load=1.5)
    served = run(w, requests, images, "fluid", attempts=14)
    check_answers(w, images, served)


def test_a_damaged_program_is_written_again() -> None:
    """Memory that changes under the NPU is repaired by recovery, since samples and program live apart."""

    class Vandal:
        name = "vandal"

        def __init__(self, driver: Driver) -> None:
            self.inner, self.driver, self.asked = make_policy("greedy"), driver, 0

        def reset(self) -> None:
            self.inner.reset()

        def decide(self, view: View) -> Action:
            self.asked += 1
            if self.asked % 5 == 0:
                self.driver._buffers[0].array[128 + 64 :] ^= 0xFF
            return self.inner.decide(view)

    w = world(3)
    images, requests = w.images(30), traffic(w, 30)
    served = run(w, requests, images, Vandal(w.driver))
    check_answers(w, images, served)
    assert {error.cause for error in served.failures} == {Cause.BAD_DESCRIPTOR}  # type: ignore[attr-defined]


def test_a_device_that_never_recovers_is_given_up() -> None:
    w = world(3, faults=[JobFault(job=job) for job in range(3, 99)])
    with pytest.raises(GaveUpError, match=r"stage \d failed 3 times in a row") as caught:
        run(w, traffic(w, 20), w.images(20), "greedy")
    assert caught.value.__cause__ is not None


class Scripted:
    """Answers and sheds by script, else greedy."""

    name = "scripted"

    def __init__(self) -> None:
        self.inner = make_policy("greedy")

    def reset(self) -> None:
        self.inner.reset()

    def decide(self, view: View) -> Action:
        if view.waiting[1] and view.waiting[1][0].id % 3 == 0:
            return Answer((view.waiting[1][0],), "anytime")
        if view.waiting[0] and view.waiting[0][-1].id % 5 == 4:
            return Shed((view.waiting[0][-1],), "too much")
        return self.inner.decide(view)


def test_anytime_answers_and_shedding() -> None:
    w = world(3)
    images, requests = w.images(40), traffic(w, 40, load=1.5)
    served = run(w, requests, images, Scripted())
    outcomes = {a.outcome for a in served.replies}
    assert outcomes == set(Outcome)
    logits = [w.qnet.logits(i, stored) for i, stored in enumerate(golden.run(w.qnet, images))]
    for index, answer in enumerate(served.replies):
        if isinstance(answer, Refusal):
            assert not answer.met
            assert not hasattr(answer, "prediction")
        else:
            assert answer.prediction == np.argmax(logits[answer.exit][index])
    exits = golden.early_exit(w.qnet, images)[0]
    assert served.schedule == simulate(
        requests, Scripted(), World(latency=w.design.latency, exits=exits.tolist(), exit_rates=(0.5, 0.5))
    )


class Wrong:
    """One illegal decision."""

    name = "wrong"

    def __init__(self, act: Callable[[View], Action]) -> None:
        self.act = act

    def reset(self) -> None:
        pass

    def decide(self, view: View) -> Action:
        return self.act(view)


@pytest.mark.parametrize(
    ("act", "violation"),
    [
        (lambda v: Wait(), "no further arrival"),
        (lambda v: Run(0, ()), "batch of 0"),
        (lambda v: Run(9, tuple(v.waiting[0])), "stage 9"),
        (lambda v: Run(0, (v.waiting[0][0],) * 2), "twice"),
        (lambda v: Run(1, (v.waiting[0][0],)), "does not wait"),
        (lambda v: Answer((v.waiting[0][0],)), "waits past no exit"),
        (lambda v: Answer(()), "answers nobody"),
        (lambda v: Shed(()), "sheds nobody"),
        (lambda v: Shed((Request(77, 0, 1),)), "does not wait"),
    ],
)
def test_a_policy_that_breaks_the_rules_is_named(act: Callable[[View], Action], violation: str) -> None:
    w = world(3)
    with pytest.raises(PolicyError, match=violation):
        run(w, [Request(0, 0, 100)], w.images(1), Wrong(act))


def test_waiting_in_the_past_is_named() -> None:
    w = world(3)
    requests = [Request(0, 0, 100), Request(1, 50, 150)]
    with pytest.raises(PolicyError, match="not later than now"):
        run(w, requests, w.images(2), Wrong(lambda v: Wait(v.now_ns)))


def test_too_few_slots_are_named() -> None:
    """A policy that holds more samples than there are slots breaks its own contract (`view.slots`)."""

    def hoard(view: View) -> Action:
        return Run(0, tuple(view.waiting[0][:1])) if view.waiting[0] else Run(1, tuple(view.waiting[1]))

    w = world(3, slots=4)
    exits = golden.early_exit(w.qnet, w.images(200))[0]
    late = w.images(200)[exits == 1][:5]
    with pytest.raises(PolicyError, match="holds 5 samples in 4 slots"):
        run(w, [Request(i, 0, 100) for i in range(5)], late, Wrong(hoard))


def test_input_is_checked() -> None:
    w = world(3)
    with pytest.raises(DriverUsageError, match="needs an image"):
        run(w, traffic(w, 3), w.images(2), "greedy")
    with pytest.raises(DriverUsageError, match="sorted"):
        run(w, traffic(w, 3)[::-1], w.images(3), "greedy")
    with pytest.raises(DriverUsageError, match="exit_rates"):
        run(w, traffic(w, 3), w.images(3), "greedy", exit_rates=(1.0,))
    with pytest.raises(DriverUsageError, match="attempts"):
        run(w, traffic(w, 3), w.images(3), "greedy", attempts=0)


def test_nothing_to_serve() -> None:
    w = world(3)
    assert run(w, [], w.images(0), "greedy").replies == ()
