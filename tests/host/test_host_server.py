"""The inference server: several clients, one owner, exactly one reply or exception for each request."""

import threading
import time
from collections import Counter
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from host_worlds import HOUR_NS, PATIENCE_S, HostWorld, Images, world

from fluidnpu.hls import register
from fluidnpu.host import (
    DriverUsageError,
    GaveUpError,
    NpuTimeout,
    QueueFullError,
    Reply,
    Server,
    ServerClosedError,
    WallClock,
)
from fluidnpu.host.devices.simulated import JobFault
from fluidnpu.models import golden
from fluidnpu.scheduler import Outcome, PolicyError, Run, View, Wait, make_policy
from fluidnpu.scheduler.simulation import Terms

STATUS = register("STATUS").offset


def live(seed: int = 3, **options: Any) -> HostWorld:
    """On the wall clock; stages take about a millisecond."""
    return world(seed, clock=WallClock(), millis=True, **options)


def soak(w: HostWorld, policy: str, clients: int, each: int) -> tuple[Server, dict[int, Reply]]:
    """`clients` threads submit `each` images in bursts; answers by image index."""
    images = w.images(clients * each)
    futures: dict[int, Future[Reply]] = {}

    def client(number: int) -> None:
        rng = np.random.default_rng(number)
        for index in range(number * each, (number + 1) * each):
            futures[index] = server.submit(images[index], Terms(slo_ns=HOUR_NS))
            if rng.random() < 0.3:
                time.sleep(rng.random() * 0.003)

    with Server(w.driver, make_policy(policy)) as server:
        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    return server, {index: future.result(0) for index, future in futures.items()}


def check(w: HostWorld, answers: dict[int, Reply]) -> None:
    exits, classes, sure = golden.early_exit(w.qnet, w.images(len(answers)))
    assert sorted(answers) == list(range(len(answers)))
    assert set(Counter(a.request_id for a in answers.values()).values()) == {1}
    for index, answer in answers.items():
        assert (answer.exit, answer.prediction, answer.confidence) == (exits[index], classes[index], sure[index])
        assert answer.arrival_ns <= answer.start_ns < answer.end_ns


@pytest.mark.parametrize("policy", ["serial", "greedy", "adaptive:timeout=2ms", "fluid"])
def test_many_clients_get_one_answer_each(policy: str) -> None:
    w = live(slots=8)
    server, answers = soak(w, policy, clients=5, each=24)
    check(w, answers)
    assert server.answered == 120
    assert server.waiting == 0


def test_faults_under_load_lose_nothing() -> None:
    w = live(slots=8, faults=[JobFault(job=job, layer=job % 2) for job in range(2, 40, 9)])
    server, answers = soak(w, "fluid", clients=4, each=20)
    check(w, answers)
    assert server.failures > 1


@pytest.mark.long
def test_soak() -> None:
    w = live(slots=16, faults=[JobFault(job=job) for job in range(50, 3000, 211)])
    server, answers = soak(w, "fluid", clients=8, each=600)
    check(w, answers)
    assert server.failures > 1


def test_a_lone_request_waits_for_the_timeout_of_its_policy() -> None:
    w = live()
    with Server(w.driver, make_policy("adaptive:timeout=40ms")) as server:
        answer = server.submit(w.images(1)[0], Terms(slo_ns=HOUR_NS)).result(PATIENCE_S)
    assert answer.start_ns - answer.arrival_ns >= 40 * 10**6
    assert answer.met


def test_closing_answers_everyone_at_once() -> None:
    """After `close` no further arrival can come, so a policy that waits for company stops waiting."""
    w = live()
    server = Server(w.driver, make_policy("adaptive:timeout=3600s")).start()
    futures = [server.submit(image, Terms(slo_ns=HOUR_NS)) for image in w.images(3)]
    server.close(PATIENCE_S)
    assert all(future.done() for future in futures)
    with pytest.raises(ServerClosedError, match="closed"):
        server.submit(w.images(1)[0], Terms(slo_ns=HOUR_NS))


def test_bad_requests_are_the_callers() -> None:
    w = live()
    with Server(w.driver, make_policy("greedy")) as server:
        with pytest.raises(DriverUsageError, match="shape"):
            server.submit(np.zeros((1, 1, 1), np.uint8), Terms(slo_ns=HOUR_NS))
        objectives: tuple[Any, ...] = (0, -1, 1.5, float("nan"), float("inf"), True, "x", None, 10**19)
        for objective in objectives:
            with pytest.raises(DriverUsageError, match=r"latency objective must be a whole number of ns in 1\.\."):
                server.submit(w.images(1)[0], Terms(slo_ns=objective))
        not_arrays: tuple[Any, ...] = (None, w.images(1)[0].tolist())
        for image in not_arrays:
            with pytest.raises(DriverUsageError, match="must be a NumPy array"):
                server.submit(image, Terms(slo_ns=HOUR_NS))
        int_like: Any = np.int64(HOUR_NS)
        assert server.submit(w.images(1)[0], Terms(slo_ns=int_like)).result(PATIENCE_S).met
        assert server.submit(w.images(1)[0], Terms(slo_ns=HOUR_NS)).result(PATIENCE_S).outcome is Outcome.EXIT
    with pytest.raises(DriverUsageError, match="queue_limit"):
        Server(w.driver, make_policy("greedy"), queue_limit=0)
    with pytest.raises(DriverUsageError, match="lost_in_a_row"):
        Server(w.driver, make_policy("greedy"), lost_in_a_row=0)


def test_a_full_queue_refuses() -> None:
    w = live()
    server = Server(w.driver, make_policy("adaptive:timeout=3600s:b_max=4"), queue_limit=2).start()
    for image in w.images(2):
        server.submit(image, Terms(slo_ns=HOUR_NS))
    with pytest.raises(QueueFullError, match="2 requests wait"):
        server.submit(w.images(1)[0], Terms(slo_ns=HOUR_NS))
    server.close(PATIENCE_S)


def test_a_cancelled_request_is_never_run() -> None:
    w = live()
    server = Server(w.driver, make_policy("greedy"))  # not started: nothing is admitted yet
    first, second = (server.submit(image, Terms(slo_ns=HOUR_NS)) for image in w.images(2))
    assert first.cancel()
    server.start()
    server.close(PATIENCE_S)
    assert server.answered == 1
    assert second.result(0).request_id == 1
    with pytest.raises(CancelledError):
        first.result(0)


def submit_one_by_one(server: Server, images: Images) -> list[Future[Reply]]:
    """Each when the one before has ended, so that each is a job of its own."""
    futures = []
    for image in images:
        futures.append(server.submit(image, Terms(slo_ns=HOUR_NS)))
        wait(futures, PATIENCE_S)
    return futures


def test_a_batch_given_up_is_its_own_loss() -> None:
    """Others wait, some past an exit, while a batch is lost: they are answered and every slot is freed."""
    w = live(slots=4, faults=[JobFault(job=job) for job in range(4, 7)])
    images = w.images(40)
    server = Server(w.driver, make_policy("fluid"))
    futures = [server.submit(image, Terms(slo_ns=HOUR_NS)) for image in images]
    with server:
        done, undone = wait(futures, PATIENCE_S)
        assert not undone
        failed = [future for future in done if future.exception() is not None]
        assert 1 <= len(failed) <= w.design.b_max
        assert {type(future.exception()) for future in failed} == {GaveUpError}
        error = failed[0].exception()
        assert isinstance(error, GaveUpError)
        assert sorted(error.request_ids) == [i for i, one in enumerate(futures) if one in failed]
        assert (server.lost, server.answered, server.waiting) == (len(failed), 40 - len(failed), 0)
        assert server.healthy
        assert server.failure is None
        again = [server.submit(image, Terms(slo_ns=HOUR_NS)) for image in images]
        exits, classes, _ = golden.early_exit(w.qnet, images)
        assert [(f.result(PATIENCE_S).exit, f.result().prediction) for f in again] == list(
            zip(exits, classes, strict=True)
        )


@pytest.mark.parametrize("limit", [1, 2])
def test_batches_given_up_one_after_another_close_the_server(limit: int) -> None:
    w = live(faults=[JobFault(job=job) for job in range(50)])
    server = Server(w.driver, make_policy("serial"), attempts=2, lost_in_a_row=limit).start()
    futures = submit_one_by_one(server, w.images(limit))
    assert all(isinstance(future.exception(), GaveUpError) for future in futures)
    server.close(PATIENCE_S)
    assert w.npu.jobs == 2 * limit
    assert not server.healthy
    with pytest.raises(
        ServerClosedError, match=rf"{limit} jobs one after another were given up; the last: stage 0 failed 2"
    ):
        server.submit(w.images(1)[0], Terms(slo_ns=HOUR_NS))


def test_a_job_that_ends_well_forgives_those_before() -> None:
    faults = [JobFault(job=job) for job in (*range(4), *range(5, 9), *range(10, 14))]
    w = live(exits=1, faults=faults)
    with Server(w.driver, make_policy("serial"), attempts=2, lost_in_a_row=3) as server:
        futures = submit_one_by_one(server, w.images(8))
    assert [future.exception() is None for future in futures] == [False, False, True, False, False, True, False, False]


def test_a_device_that_cannot_be_reset_closes_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    w = live(faults=[JobFault(job=job) for job in range(50)])
    server = Server(w.driver, make_policy("serial"), attempts=1).start()
    read = w.npu.read
    monkeypatch.setattr(w.npu, "read", lambda offset: 0 if offset == STATUS else read(offset))  # never idle again
    first, second = (server.submit(image, Terms(slo_ns=HOUR_NS)) for image in w.images(2))
    assert isinstance(first.exception(PATIENCE_S), GaveUpError)
    assert isinstance(second.exception(PATIENCE_S), NpuTimeout)
    server.close(PATIENCE_S)
    assert isinstance(server.failure, NpuTimeout)
    with pytest.raises(ServerClosedError, match="has closed for this reason: no answer from the NPU"):
        server.submit(w.images(1)[0], Terms(slo_ns=HOUR_NS))


def test_a_dead_device_fails_every_request_and_closes() -> None:
    w = live(faults=[JobFault(job=job) for job in range(2, 50)])
    server = Server(w.driver, make_policy("serial")).start()
    futures = [server.submit(image, Terms(slo_ns=HOUR_NS)) for image in w.images(8)]
    done, undone = wait(futures, PATIENCE_S)
    assert not undone
    failed = [future for future in done if future.exception() is not None]
    assert len(failed) > 3
    assert all(isinstance(future.exception(), GaveUpError) for future in failed)
    with pytest.raises(ServerClosedError, match="3 jobs one after another") as caught:
        server.submit(w.images(1)[0], Terms(slo_ns=HOUR_NS))
    assert isinstance(caught.value.__cause__, GaveUpError)
    server.close(PATIENCE_S)


def test_a_policy_that_breaks_the_rules_costs_decisions_and_at_last_the_server() -> None:
    class Wrong:
        name = "wrong"
        wrong = True

        def reset(self) -> None:
            pass

        def decide(self, view: View) -> Run | Wait:
            stage = next(stage for stage, line in enumerate(view.waiting) if line)
            return Run(stage + self.wrong, tuple(view.waiting[stage][:1]))

    w, policy = live(), Wrong()
    image = w.images(1)[0]
    with Server(w.driver, policy) as server:
        for wrong in (True, False, True):  # a decision that is right ends the row
            policy.wrong = wrong
            for _ in range(30):
                assert server.submit(image, Terms(slo_ns=HOUR_NS)).result(PATIENCE_S).met
        with suppress(PolicyError, ServerClosedError):
            for _ in range(101):
                server.submit(image, Terms(slo_ns=HOUR_NS)).result(PATIENCE_S)
    assert isinstance(server.failure, PolicyError)
    assert "which does not wait at the entry of stage" in str(server.failure)


def test_an_image_may_change_after_submit() -> None:
    w = live()
    images = w.images(4)
    with Server(w.driver, make_policy("adaptive:timeout=5ms")) as server:
        futures = []
        for image in images:
            copy = image.copy()
            futures.append(server.submit(copy, Terms(slo_ns=HOUR_NS)))
            copy[:] = 0
        answers = dict(enumerate(future.result(PATIENCE_S) for future in futures))
    check(w, answers)


def test_a_server_never_started_closes() -> None:
    w = live()
    server = Server(w.driver, make_policy("greedy"))
    first, second = (server.submit(image, Terms(slo_ns=HOUR_NS)) for image in w.images(2))
    assert first.cancel()
    server.close()
    assert isinstance(second.exception(0), ServerClosedError)
    assert (server.waiting, server.lost) == (0, 1)
    server.close()
    with pytest.raises(ServerClosedError, match="closed"):
        server.start()


def test_a_server_starts_once() -> None:
    with (
        Server(live().driver, make_policy("greedy")) as server,
        pytest.raises(DriverUsageError, match="started only once"),
    ):
        server.start()


def test_an_answers_callback_may_close(caplog: pytest.LogCaptureFixture) -> None:
    w = live()
    server = Server(w.driver, make_policy("serial")).start()
    future = server.submit(w.images(1)[0], Terms(slo_ns=HOUR_NS))
    future.add_done_callback(lambda _: server.close())
    assert future.result(PATIENCE_S).met
    server.close(PATIENCE_S)
    assert not caplog.records


def test_a_policy_may_wait_on_a_virtual_clock() -> None:
    w = world(3)
    with Server(w.driver, make_policy("adaptive:timeout=5ms")) as server:
        answer = server.submit(w.images(1)[0], Terms(slo_ns=HOUR_NS)).result(PATIENCE_S)
    assert answer.start_ns - answer.arrival_ns == 5 * 10**6
