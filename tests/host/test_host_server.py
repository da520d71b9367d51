"""The live server: several clients, one owner of the device, exactly one answer or one exception for each request."""

import threading
import time
from collections import Counter
from concurrent.futures import CancelledError, Future, wait

import numpy as np
import pytest
from host_worlds import World, world

from host import (
    Answer,
    DriverUsageError,
    Fault,
    GaveUpError,
    QueueFullError,
    Server,
    ServerClosedError,
    WallClock,
)
from models import golden
from scheduler import Outcome, PolicyError, Run, View, Wait, make_policy

SECOND_NS = 10**9
PATIENCE_S = 30


def live(seed: int = 3, **options) -> World:
    """On the wall clock; stages take about a millisecond."""
    return world(seed, clock=WallClock(), millis=True, **options)


def soak(w: World, policy: str, clients: int, each: int) -> tuple[Server, dict[int, Answer]]:
    """`clients` threads submit `each` images in bursts; answers by image index."""
    images = w.images(clients * each)
    futures: dict[int, Future[Answer]] = {}

    def client(number: int) -> None:
        rng = np.random.default_rng(number)
        for index in range(number * each, (number + 1) * each):
            futures[index] = server.submit(images[index], SECOND_NS)
            if rng.random() < 0.3:
                time.sleep(rng.random() * 0.003)

    with Server(w.driver, make_policy(policy)) as server:
        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    return server, {index: future.result(0) for index, future in futures.items()}


def check(w: World, answers: dict[int, Answer]) -> None:
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
    w = live(slots=8, faults=[Fault(job=job, layer=job % 2) for job in range(2, 40, 9)])
    server, answers = soak(w, "fluid", clients=4, each=20)
    check(w, answers)
    assert server.failures > 1


@pytest.mark.long
def test_soak() -> None:
    w = live(slots=16, faults=[Fault(job=job) for job in range(50, 3000, 211)])
    server, answers = soak(w, "fluid", clients=8, each=600)
    check(w, answers)
    assert server.failures > 1


def test_a_lone_request_waits_for_the_timeout_of_its_policy() -> None:
    w = live()
    with Server(w.driver, make_policy("adaptive:timeout=40ms")) as server:
        answer = server.submit(w.images(1)[0], SECOND_NS).result(PATIENCE_S)
    assert answer.start_ns - answer.arrival_ns >= 40 * 10**6
    assert answer.met


def test_closing_answers_everyone_at_once() -> None:
    """After `close` no further arrival can come, so a policy that waits for company stops waiting."""
    w = live()
    server = Server(w.driver, make_policy("adaptive:timeout=20s")).start()
    futures = [server.submit(image, 60 * SECOND_NS) for image in w.images(3)]
    started = time.monotonic()
    server.close(PATIENCE_S)
    assert all(future.done() for future in futures)
    assert time.monotonic() - started < 10
    with pytest.raises(ServerClosedError, match="closed"):
        server.submit(w.images(1)[0], SECOND_NS)


def test_bad_requests_are_the_callers() -> None:
    w = live()
    with Server(w.driver, make_policy("greedy")) as server:
        with pytest.raises(DriverUsageError, match="shape"):
            server.submit(np.zeros((1, 1, 1), np.uint8), SECOND_NS)
        with pytest.raises(DriverUsageError, match="latency objective"):
            server.submit(w.images(1)[0], 0)
        assert server.submit(w.images(1)[0], SECOND_NS).result(PATIENCE_S).outcome is Outcome.EXIT
    with pytest.raises(DriverUsageError, match="queue_limit"):
        Server(w.driver, make_policy("greedy"), queue_limit=0)


def test_a_full_queue_refuses() -> None:
    w = live()
    server = Server(w.driver, make_policy("adaptive:timeout=20s:b_max=4"), queue_limit=2).start()
    for image in w.images(2):
        server.submit(image, 60 * SECOND_NS)
    with pytest.raises(QueueFullError, match="2 requests wait"):
        server.submit(w.images(1)[0], SECOND_NS)
    server.close(PATIENCE_S)


def test_a_cancelled_request_is_never_run() -> None:
    w = live()
    server = Server(w.driver, make_policy("greedy"))  # not started: nothing is admitted yet
    first, second = (server.submit(image, SECOND_NS) for image in w.images(2))
    assert first.cancel()
    server.start()
    server.close(PATIENCE_S)
    assert server.answered == 1
    assert second.result(0).request_id == 1
    with pytest.raises(CancelledError):
        first.result(0)


def test_a_dead_device_fails_every_request_and_closes() -> None:
    w = live(faults=[Fault(job=job) for job in range(2, 50)])
    server = Server(w.driver, make_policy("serial")).start()
    futures = [server.submit(image, SECOND_NS) for image in w.images(8)]
    done, undone = wait(futures, PATIENCE_S)
    assert not undone
    failed = [future for future in done if future.exception() is not None]
    assert failed
    assert all(isinstance(future.exception(), GaveUpError) for future in failed)
    with pytest.raises(ServerClosedError) as caught:
        server.submit(w.images(1)[0], SECOND_NS)
    assert isinstance(caught.value.__cause__, GaveUpError)
    server.close(PATIENCE_S)


def test_a_policy_that_breaks_the_rules_fails_every_request() -> None:
    class Wrong:
        name = "wrong"

        def reset(self) -> None:
            pass

        def decide(self, view: View) -> Run | Wait:
            return Run(1, tuple(view.waiting[0]))

    w = live()
    with Server(w.driver, Wrong()) as server:
        future = server.submit(w.images(1)[0], SECOND_NS)
        assert isinstance(future.exception(PATIENCE_S), PolicyError)


def test_an_image_may_change_after_submit() -> None:
    w = live()
    images = w.images(4)
    with Server(w.driver, make_policy("adaptive:timeout=5ms")) as server:
        futures = []
        for image in images:
            copy = image.copy()
            futures.append(server.submit(copy, SECOND_NS))
            copy[:] = 0
        answers = dict(enumerate(future.result(PATIENCE_S) for future in futures))
    check(w, answers)


def test_a_server_never_started_closes() -> None:
    Server(live().driver, make_policy("greedy")).close()
