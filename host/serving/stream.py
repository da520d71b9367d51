"""Serving a stream of requests whose arrivals are known, on the device's own clock.

On a virtual clock the schedule equals that of `scheduler.simulate` for the same requests and exits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fluidnpu.scheduler import Policy, Request, Schedule, Wait
from fluidnpu.scheduler.exits import Criteria, ExitRule, StageCosts
from fluidnpu.scheduler.simulation import ActiveExits, Watcher

from ..devices import claims
from ..driver import Driver
from ..errors import DeviceError, DriverUsageError, ShedError
from .replies import Fate, Image, Reply
from .runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class ServeResult:
    """Replies in the order of the requests, their schedule, and the failures that were recovered from.

    A request that was shed has a `Refusal` in place of a `Reply`: no prediction can be read from it.
    `missed_interrupts` counts jobs that ended without an interrupt; each cost a whole deadline.
    """

    replies: tuple[Fate, ...]
    schedule: Schedule
    failures: tuple[DeviceError, ...]
    missed_interrupts: int = 0

    @property
    def answers(self) -> tuple[Reply, ...]:
        """The replies of a stream in which no request was shed. Raises ShedError where one was."""
        answers = tuple(reply for reply in self.replies if isinstance(reply, Reply))
        if len(answers) != len(self.replies):
            raise ShedError(f"{len(self.replies) - len(answers)} of {len(self.replies)} requests were shed")
        return answers


def serve_requests(
    requests: Sequence[Request],
    images: Sequence[Image] | Image,
    policy: Policy,
    driver: Driver,
    *,
    exit_rates: Sequence[float] | None = None,
    rule: ExitRule | Criteria | Sequence[ExitRule | Criteria] | None = None,
    costs: StageCosts | None = None,
    attempts: int = 3,
    networks: Mapping[str, int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    active: ActiveExits | None = None,
    watch: Watcher | None = None,
) -> ServeResult:
    """Serve requests with known arrivals on the device's own clock, `images[i]` (H, W, C) for request i.

    On a virtual clock this takes as long as the arithmetic. The driver must be loaded. Every request gets
    exactly one reply, also when jobs fail. `progress(answered, total)` is called as replies come; shed
    requests do not count as answered. For `rule`, `costs`, `networks`, `active` and `watch` see `Runtime`.
    Raises GaveUpError when a job fails `attempts` times in a row, and DriverUsageError for requests that are
    not sorted, or images of another number.
    """
    if len(requests) != len(images):
        raise DriverUsageError(f"each of {len(requests)} requests needs an image, and {len(images)} came")
    if any((a.arrival_ns, a.id) >= (b.arrival_ns, b.id) for a, b in itertools.pairwise(requests)):
        raise DriverUsageError("requests must be sorted by arrival and id, and they are not")
    with claims.claimed(driver.device, driver):
        return _serve(
            requests,
            images,
            Runtime(
                driver,
                policy,
                exit_rates=exit_rates,
                rule=rule,
                costs=costs,
                attempts=attempts,
                active=active,
                watch=watch,
                networks=networks,
            ),
            progress,
        )


def _serve(
    requests: Sequence[Request],
    images: Sequence[Image] | Image,
    runtime: Runtime,
    progress: Callable[[int, int], None] | None,
) -> ServeResult:
    """Serve until every request has ended."""
    driver = runtime.driver
    by_id: dict[int, Fate] = {}
    due, answered, missed = 0, 0, driver.missed_interrupts
    while True:
        now = runtime.now_ns
        while due < len(requests) and requests[due].arrival_ns <= now:
            runtime.admit(requests[due], images[due])
            due += 1
        if runtime.ledger.busy:
            result = runtime.step(closed=due == len(requests))
            if isinstance(result, Wait):
                until = requests[due].arrival_ns
                runtime.sleep_until(until if result.until_ns is None else min(until, result.until_ns))
            else:
                by_id.update((reply.request_id, reply) for reply in result)
                answered += sum(isinstance(reply, Reply) for reply in result)
                if progress is not None:
                    progress(answered, len(requests))
        elif due < len(requests):
            runtime.sleep_until(requests[due].arrival_ns)
        else:
            break
    replies = tuple(by_id[request.id] for request in requests)
    return ServeResult(
        replies=replies,
        schedule=runtime.ledger.schedule(),
        failures=tuple(runtime.failures),
        missed_interrupts=driver.missed_interrupts - missed,
    )
