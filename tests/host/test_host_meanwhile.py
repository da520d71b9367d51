"""Work of the host while the NPU works: images written ahead, answers told, and neither after a failure."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import numpy as np
import pytest
from host_worlds import PATIENCE_S, HostWorld, field, world

from fluidnpu.hls import Cause
from fluidnpu.host import Driver, Reply, Server, serve_requests
from fluidnpu.host.devices.simulated import JobFault
from fluidnpu.host.errors import DeviceAccessError
from fluidnpu.host.serving.runtime import Runtime
from fluidnpu.models import golden
from fluidnpu.scheduler import Action, Request, Run, Shed, View, Wait, make_policy
from fluidnpu.scheduler.policies.baselines import Greedy
from fluidnpu.scheduler.simulation import Terms

SECOND_NS = 10**9


def idle(w: HostWorld) -> bool:
    return bool(field(w.npu, "STATUS", "IDLE"))


def at_once(count: int) -> list[Request]:
    return [Request(number, 0, SECOND_NS) for number in range(count)]


def written(w: HostWorld) -> list[tuple[int, bool]]:
    """Record each write of a sample as it comes: its slot, and whether the NPU was idle."""
    found: list[tuple[int, bool]] = []
    write: Callable[[int, Any], None] = w.driver.write_sample

    def recorded(slot: int, image: Any) -> None:
        found.append((slot, idle(w)))
        write(slot, image)

    w.driver.write_sample = recorded  # type: ignore[method-assign]
    return found


def check(w: HostWorld, images: Any, answers: Any) -> None:
    exits, classes, sure = golden.early_exit(w.qnet, images)
    assert [a.exit for a in answers] == exits.tolist()
    assert [a.prediction for a in answers] == classes.tolist()
    assert [a.confidence for a in answers] == sure.tolist()


def test_images_of_waiting_requests_are_written_while_the_npu_works() -> None:
    w = world(3)
    batch = w.design.b_max
    w = world(3, slots=2 * batch)
    found, images = written(w), w.images(3 * batch)
    served = serve_requests(at_once(3 * batch), images, make_policy("greedy"), w.driver)
    check(w, images, served.answers)
    assert [alone for _, alone in found[:batch]] == [True] * batch  # nothing was under way yet
    assert [alone for _, alone in found[batch:]] == [False] * (2 * batch)


def test_without_a_free_slot_nothing_is_written_ahead() -> None:
    w = world(3, exits=1)
    batch = w.design.b_max
    found, images = written(w), w.images(2 * batch)
    check(w, images, serve_requests(at_once(2 * batch), images, make_policy("greedy"), w.driver).answers)
    assert [alone for _, alone in found] == [True] * (2 * batch)


class _LastFirst:
    """Begins the newest requests of the queue as far as there are slots, and goes on when none is left."""

    name = "last-first"

    def reset(self) -> None:
        pass

    def decide(self, view: View) -> Action:
        queue, held = view.waiting
        room = min(view.b_max, 2 * view.b_max - len(held))
        return Run(0, tuple(queue[-room:])) if queue and room else Run(1, tuple(held[: view.b_max]))


def test_a_slot_that_was_written_for_another_is_written_again() -> None:
    """A policy may run requests whose images are not there while all slots are taken by images of others."""
    w = world(3)
    batch = w.design.b_max
    w = world(3, slots=2 * batch)
    found, images = written(w), w.images(4 * batch)
    served = serve_requests(at_once(4 * batch), images, _LastFirst(), w.driver)
    check(w, images, served.answers)
    assert len(found) > 4 * batch


@pytest.mark.parametrize("guarded", [False, True])
def test_after_a_failure_every_image_is_written_anew(guarded: bool) -> None:
    w = world(3, slots=8, faults=[JobFault(job=0, cause=Cause.WATCHDOG, layer=1)])
    batch = w.design.b_max
    driver = Driver(w.npu, w.program, w.design, slots=2 * batch, guarded=guarded)
    driver.load()
    w = HostWorld(w.qnet, w.design, w.program, w.npu, driver)
    found, images = written(w), w.images(2 * batch)
    served = serve_requests(at_once(2 * batch), images, make_policy("greedy"), w.driver)
    assert len(served.failures) == 1
    check(w, images, served.answers)
    assert len(found) == (4 if guarded else 3) * batch  # and those of the batch, where nothing is believed


def test_every_slot_is_free_in_the_end() -> None:
    class Moody:
        """Sheds the second of the queue now and then."""

        name, asked = "moody", 0

        def reset(self) -> None:
            pass

        def decide(self, view: View) -> Action:
            self.asked += 1
            if self.asked % 3 == 0 and len(view.waiting[0]) > 1:
                return Shed((view.waiting[0][1],))
            return Greedy(b_max=2).decide(view)

    w = world(3, slots=8)
    runtime = Runtime(w.driver, Moody())
    for request in at_once(30):
        runtime.admit(request, w.images(30)[request.id])
    while runtime.ledger.busy:
        assert not isinstance(runtime.step(closed=True), Wait)
    assert sorted(runtime._free[0]) == list(range(8))
    assert not runtime._ahead[0]


def test_answers_are_told_while_the_next_job_runs_and_the_last_ones_at_once() -> None:
    w = world(3, exits=1)
    batch = w.design.b_max
    images = w.images(3 * batch)
    told: list[bool] = []
    server = Server(w.driver, make_policy("greedy"))
    futures: list[Future[Reply]] = []
    for image in images:
        futures.append(server.submit(image, Terms(slo_ns=SECOND_NS)))
        futures[-1].add_done_callback(lambda _: told.append(idle(w)))
    with server:
        assert not wait(futures, PATIENCE_S).not_done
    check(w, images, [future.result() for future in futures])
    assert told == [False] * (2 * batch) + [True] * batch


def test_answers_do_not_wait_for_a_job_that_cannot_begin() -> None:
    """The bus fails before the second job's START; the first one's answers come before any recovery."""
    w = world(3, exits=1)
    batch = w.design.b_max
    told: list[int] = []
    server = Server(w.driver, make_policy("greedy"))
    futures = [server.submit(image, Terms(slo_ns=SECOND_NS)) for image in w.images(2 * batch)]
    for number, future in enumerate(futures):
        future.add_done_callback(lambda done, number=number: told.append(number))  # type: ignore[misc]
    activate, recover, found = w.driver.activate, w.driver.recover, list[int]()

    def activated(slots: Any) -> None:
        if w.driver.active:
            raise DeviceAccessError("the bus does not answer")
        activate(slots)

    def recovered() -> None:
        found.append(len(told))
        recover()

    w.driver.activate, w.driver.recover = activated, recovered  # type: ignore[method-assign]
    with server:
        assert not wait(futures, PATIENCE_S).not_done
    assert found[0] == batch
    assert all(future.exception() is None for future in futures)


def test_encode_copies_and_a_written_image_is_its_own() -> None:
    w = world(3)
    stored = w.driver.encode(w.images(1)[0])
    again = w.driver.encode(stored)
    assert np.array_equal(stored, again)
    assert not np.shares_memory(stored, again)
