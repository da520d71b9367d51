"""The runtime loop: the policy decides, the driver acts, a rule decides exits, replies return.

It asks the policy exactly when `scheduler.simulate` does and keeps the same `Ledger`, so on a virtual clock
both make the same schedule from the same requests. A failed job is recovered (soft reset, program written
again) and run again: its samples never left their slots. With a guarded driver nothing in a slot is
believed after a failure, since a damaged job may have written anywhere: every sample that it holds is
written again and runs again from the first stage when its turn comes.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import cast

import numpy as np

from fluidnpu.dse import Design
from fluidnpu.models.exits import exceeds_threshold, stated, sureness
from fluidnpu.models.graph import Check, ExitCheck, MapCheck
from fluidnpu.scheduler import (
    Answer,
    Ledger,
    Outcome,
    Policy,
    Request,
    Run,
    Wait,
)
from fluidnpu.scheduler.exits import LAST, Criteria, Criterion, ExitProfile, ExitRule, RuledExits, StageCosts
from fluidnpu.scheduler.simulation import OVERDUE, PLAIN, ActiveExits, Flight, InForce, Status, Terms, Watcher

from ..driver import Driver, JobRecord, Meanwhile
from ..errors import DeviceError, DriverUsageError, GaveUpError
from .replies import GOES_ON, Fate, Image, Observer, Refusal, Reply, map_answers

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True, kw_only=True)
class Sample(Flight):
    """A flight on a device: its image as stored, its slot, and the logits of the last exit whose head ran.

    A slot is given when the image is written, which may be ahead of the first run. `suspect`: it may hold
    anything.
    """

    image: Image
    slot: int | None = None
    logits: Image | None = None
    suspect: bool = False


class Runtime:
    """Serves requests on a driver, one decision of the policy a `step`.

    `rule` decides at every exit but the last whether a sample leaves: criteria, or a rule of one's own
    (default: the program's thresholds as a criterion). `costs` tells the latter the costs of each stage
    (default: the design's MACs), the former have a profile. `attempts`: how often a job is tried before
    GaveUpError. Then its requests are dropped and their slots free, while all others still wait, so a caller
    that catches the error may `Driver.recover` and go on. `record` keeps the past for `Ledger.schedule`; a
    server that runs for weeks does not. `observers` receive all that happens, in order. `active`: exits
    that may be inactive and change meanwhile; `watch` sees every run, and chooses whose samples run on
    after their answer. `meanwhile` is called while the NPU is busy, or has failed to start: for work
    that must not delay it. Images of requests that wait are written ahead then, as far as slots are
    free. `patience`: decisions of the policy in a row that may break the rules; see `Ledger`.

    With several programs there is a rule for each, and `networks` names by tenant the program that its
    requests are for; exits of replies are then those of their network, and stages are numbered consecutively.
    """

    def __init__(
        self,
        driver: Driver,
        policy: Policy,
        *,
        exit_rates: Sequence[float] | None = None,
        rule: ExitRule | Criteria | Sequence[ExitRule | Criteria] | None = None,
        costs: StageCosts | None = None,
        attempts: int = 3,
        record: bool = True,
        observers: Sequence[Observer] = (),
        active: ActiveExits | None = None,
        watch: Watcher | None = None,
        networks: Mapping[str, int] | None = None,
        meanwhile: Meanwhile | None = None,
        patience: int = 0,
    ) -> None:
        if attempts < 1:
            raise DriverUsageError(f"attempts must be at least 1, not {attempts}")
        design = driver.design
        self.networks = driver.networks(networks or {})
        rates = _believed_rates(driver.parts, exit_rates)
        self.driver, self.policy = driver, policy
        self.failures: deque[DeviceError] = deque(maxlen=None if record else 1)
        self.failed = 0  # jobs, over all time
        self.lost_in_a_row = 0  # jobs given up since one ended well
        self._attempts = attempts
        if rule is None:
            rule = [usual_criteria(driver, network=index) for index in range(len(driver.parts))]
        rules = tuple(rule) if isinstance(rule, Sequence) else (rule,)
        if len(rules) != len(driver.parts):
            raise DriverUsageError(f"there must be a rule for each of {len(driver.parts)} networks, not {len(rules)}")
        self.criteria = tuple(criteria for criteria in rules if isinstance(criteria, Criteria))
        self._exits = [
            RuledExits(rule=exit_rule, costs=StageCosts.of(part) if costs is None else costs)
            for exit_rule, part in zip(rules, driver.parts, strict=True)
        ]
        if active is not None and len(driver.parts) > 1:
            raise DriverUsageError(f"active exits are those of one network, and the driver has {len(driver.parts)}")
        self.ledger = Ledger[Sample](
            policy=policy.name,
            latency=design.latency,
            exit_rates=rates,
            b_max=design.b_max,
            slots=driver.slots,
            networks=self.networks,
            active=active,
            watch=watch,
            ended=self._ended,
            patience=patience,
            record=record,
        )
        self._last = frozenset(self.networks.last)
        self._adopted: InForce | None = None  # since the last run
        self.adoption_ns: deque[int] = deque(maxlen=1000)  # from the decision of a change to the next batch
        self._free = [list(slots) for slots in driver.slots_of]
        self._ahead: list[dict[int, Sample]] = [{} for _ in driver.parts]  # queued with a slot, in order
        self._told_meanwhile = meanwhile
        self._any_suspect = False
        self._observers = tuple(observers)
        self._epoch = driver.device.clock.now_ns()
        policy.reset()
        for observer in self._observers:
            observer.began(self.ledger.view)
            if active is not None:
                observer.adapted(0, active.now)

    @property
    def now_ns(self) -> int:
        """Nanoseconds since this runtime began: the scale of requests and replies."""
        return self.driver.device.clock.now_ns() - self._epoch

    def sleep_until(self, time_ns: int) -> None:
        """Let time pass on the device's clock."""
        self.driver.device.clock.sleep_until(self._epoch + time_ns)

    def admit(self, request: Request, image: Image, terms: Terms = PLAIN) -> None:
        """Put a request into the queue; requests must come in order of (arrival, id)."""
        if terms.criterion is not None and self.criteria:
            self.criteria[self.networks.of(request)].set(terms.criterion, request=request.id)
        self.ledger.admit(Sample(request, terms, image=image))
        for observer in self._observers:
            observer.admitted(request, terms)

    def withdraw(self, ids: Iterable[int]) -> list[int]:
        """Take requests that nobody waits for out of the queue; return those that had not begun."""
        withdrawn = self.ledger.withdraw(ids)
        for sample in withdrawn:
            for observer in self._observers:
                observer.withdrawn(sample.request)
        return [sample.request.id for sample in withdrawn]

    def step(self, closed: bool) -> list[Fate] | Wait:
        """Take one decision and execute it; a `Wait` is left to the caller.

        Requests whose terms end them now are ended first, without a question. `closed` says that no further
        request will be admitted. Raises PolicyError, GaveUpError.
        """
        now, ledger = self.now_ns, self.ledger
        if (state := ledger.adopt()) is not None:
            self._adopted = state
            for observer in self._observers:
                observer.adapted(now, state)
        action = ledger.decide(self.policy, now, closed)
        for observer in self._observers:
            observer.decided(ledger.view, action)
        if isinstance(action, Wait):
            return action
        fates: list[Fate]
        if isinstance(action, Run):
            fates = self._run(now, action)
        elif isinstance(action, Answer):
            fates = [self._answer_early(sample) for sample in ledger.answer(now, action)]
        else:
            fates = [_refusal(sample) for sample in ledger.shed(now, action)]
        for observer in self._observers:
            observer.ended(fates)
        return fates

    # -- actions ---------------------------------------------------------------------------------------------

    def _local(self, stage: int) -> int:
        """Return the number of a stage within its network."""
        return stage - self.networks.first[self.networks.of_stage[stage]]

    def _run(self, now: int, run: Run) -> list[Fate]:
        stage = run.stage
        batch = self.ledger.begin(now, run)
        network, exit = self.networks.of_stage[stage], self._local(stage)
        if exit == 0:
            self._launch(batch, network)
        slots = _slots_of(batch)
        if self._adopted is not None:
            self.adoption_ns.append(time.perf_counter_ns() - self._adopted.decided_ns)
            self._adopted = None
        job = self._work(run, batch, slots)
        end = self.now_ns
        for observer in self._observers:
            observer.ran(run, now, end, job)
        if not self.ledger.runs_head(stage):
            self.ledger.finish(run, end, [""] * len(batch), worked_ns=job.npu_ns)
            return []
        logits = self.driver.logits(slots, stage)
        check = self.driver.programs[network].check
        sures, labels = (values.tolist() for values in stated(logits, check))
        plain = check is ExitCheck.TOP or isinstance(check, MapCheck)
        checked = sures if plain else self._check_exits(batch, logits, check)
        if stage in self._last:
            reasons = self._at_the_end(network, checked)
        else:
            started = [sample.start_ns for sample in batch]
            reasons = self._exits[network].leaving(run.requests, started, exit, end, checked)
        answered = self.ledger.finish(run, end, reasons, labels, worked_ns=job.npu_ns, confidences=checked)
        rows = dict(zip(batch, zip(logits, labels, sures, strict=True), strict=True))
        for sample, (row, label, sure) in rows.items():
            if sample.status is Status.WAITING:
                sample.logits = row
                if sample.terms.anytime:
                    early = self._reply(sample, row, label, sure, (end, stage, Outcome.ANYTIME, OVERDUE))
                    self.ledger.pass_exit(sample, early)
        return [self._reply(sample, *rows[sample]) for sample in answered]

    def _at_the_end(self, network: int, checked: Sequence[float]) -> list[str]:
        """Return the reasons at a network's last exit; of a part, some samples go on there."""
        program = self.driver.programs[network]
        if not program.onward:
            return [LAST] * len(checked)
        limit = program.onward_threshold
        leaves = f"confidence > {limit:g}"
        return [leaves if exceeds_threshold(sure, limit) else GOES_ON for sure in checked]

    def _check_exits(self, batch: Sequence[Sample], logits: Image, check: Check) -> list[float]:
        """Return what the network's own exit check makes of the logits; some look at the exit before, too.

        That is the last exit whose head ran, which may differ in a batch whose exits have just changed.
        """
        before = {k: sample.logits for k, sample in enumerate(batch) if sample.logits is not None}
        checked = np.empty(len(batch))
        if first := [k for k in range(len(batch)) if k not in before]:
            checked[first] = sureness(logits[first], check)
        if later := list(before):
            labels = stated(np.stack([before[k] for k in later]), check)[1]
            checked[later] = sureness(logits[later], check, labels)
        values: list[float] = checked.tolist()
        return values

    def _launch(self, batch: Sequence[Sample], network: int) -> None:
        """Give every sample of a first run a slot, and its image to the slot."""
        ahead, free = self._ahead[network], self._free[network]
        for sample in batch:
            ahead.pop(sample.request.id, None)
            if sample.slot is None:
                if not free:  # the last in the queue waits longest
                    _, latest = ahead.popitem()
                    self._give_back(latest)
                sample.slot = heapq.heappop(free)
                self.driver.write_sample(sample.slot, sample.image)

    def _meanwhile(self) -> None:
        """Do what can be done while the NPU works: the caller's part, then images into free slots."""
        if self._told_meanwhile is not None:
            self._told_meanwhile()
        for queue, ahead, free in zip(self.ledger.queues, self._ahead, self._free, strict=True):
            for request in queue[: self.ledger.b_max]:
                if not free:
                    break
                if request.id not in ahead:
                    sample = ahead[request.id] = self.ledger.flights[request.id]
                    self.driver.write_sample(free[0], sample.image)
                    sample.slot = heapq.heappop(free)

    def _write_anew(self) -> None:
        """Forget which images were written ahead; after a failure nothing in a free slot is believed."""
        for ahead in self._ahead:
            for sample in ahead.values():
                self._give_back(sample)
            ahead.clear()

    def _work(self, run: Run, batch: Sequence[Sample], slots: Sequence[int]) -> JobRecord:
        """Run the stage, recovering from failures; drop the batch after the last attempt (GaveUpError)."""
        for attempt in range(self._attempts):
            try:
                if attempt:
                    self.driver.recover()
                job = self._run_again(run, batch, slots) if self._any_suspect else self._run_once(run, slots)
            except DeviceError as error:
                _log.warning("attempt %d at stage %d failed: %s", attempt + 1, run.stage, error)
                self.failures.append(error)
                self.failed += 1
                self._write_anew()
                if self._told_meanwhile is not None:
                    self._told_meanwhile()
                if self.driver.guarded:
                    self._any_suspect = True
                    for sample in self.ledger.flights.values():
                        sample.suspect = sample.slot is not None
                for observer in self._observers:
                    observer.failed(error)
            else:
                self.lost_in_a_row = 0
                return job
        self.lost_in_a_row += 1
        last = self.failures[-1]
        lost = GaveUpError(
            f"stage {run.stage} failed {self._attempts} times in a row; the last time: {last}",
            request_ids=tuple(sample.request.id for sample in self.ledger.lose()),
        )
        for observer in self._observers:
            observer.failed(lost)
        raise lost from last

    def _run_once(self, run: Run, slots: Sequence[int]) -> JobRecord:
        self.driver.activate(slots)
        if self.ledger.runs_head(run.stage):
            return self.driver.run_stage(run.stage, meanwhile=self._meanwhile)
        predicted_ns = self.ledger.view.latency.ns[run.stage][len(slots) - 1]
        return self.driver.run_segment(run.stage, predicted_ns, meanwhile=self._meanwhile)

    def _run_again(self, run: Run, batch: Sequence[Sample], slots: Sequence[int]) -> JobRecord:
        """Run the suspect samples of the batch up to the stage before, from their images; then the stage."""
        suspect = [sample for sample in batch if sample.suspect]
        again = _slots_of(suspect)
        for sample, slot in zip(suspect, again, strict=True):
            self.driver.write_sample(slot, sample.image)
        if again and self._local(run.stage):
            self.driver.activate(again)
            self.driver.run_to_exit(run.stage - 1, run.stage - self._local(run.stage))
        job = self._run_once(run, slots)
        for sample in suspect:
            sample.suspect = False
        self._any_suspect = any(sample.suspect for sample in self.ledger.flights.values())
        return job

    def _answer_early(self, sample: Sample) -> Reply:
        """Return the reply of a sample that leaves with the exit that it passed last."""
        assert sample.logits is not None, "an exit was asked"
        sure, label = (values[0] for values in stated(sample.logits[None], self._check_of(sample.request)))
        return self._reply(sample, sample.logits, int(label), float(sure))

    def _reply(
        self,
        sample: Sample,
        logits: Image,
        label: int,
        sure: float,
        fate: tuple[int, int, Outcome, str] | None = None,
    ) -> Reply:
        """Make a sample's reply of its fate, or of another that it may still have."""
        end_ns, stage, outcome, because = fate or (sample.end_ns, sample.exit, sample.outcome, sample.because)
        request, slots = sample.request, _slots_of([sample])
        outputs: Mapping[str, Image] = {}
        if (program := self.driver.programs[self.networks.of(request)]).tail is not None:
            outputs = self.driver.stored_outputs(slots, stage)  # the rest is done on another thread
        elif program.outputs:
            outputs = self.driver.outputs(slots, stage)
        points, pixels = map_answers(logits, self._check_of(request))
        return Reply(
            request_id=request.id,
            prediction=label,
            exit=self._local(stage),
            confidence=sure,
            arrival_ns=request.arrival_ns,
            start_ns=sample.start_ns,
            end_ns=end_ns,
            deadline_ns=(sample.origin or request).deadline_ns,
            npu_ns=sample.worked_ns,
            batch=sample.batch,
            logits=logits,
            because=because,
            tenant=request.tenant,
            program=None if program.tail is None else program,
            outcome=outcome,
            outputs={name: values[0] for name, values in outputs.items()},
            keypoints=points,
            label_map=pixels,
            onward=self.driver.onward(slots)[0] if because == GOES_ON else None,
        )

    def _check_of(self, request: Request) -> Check:
        return self.driver.programs[self.networks.of(request)].check

    def _ended(self, sample: Sample) -> None:
        """Free the slot of a sample, if it has one; what the slot holds stays until the next is written."""
        network = self.networks.of(sample.request)
        self._ahead[network].pop(sample.request.id, None)
        if sample.slot is not None:
            heapq.heappush(self._free[network], sample.slot)
        for criteria in self.criteria:
            criteria.forget(sample.request.id)

    def _give_back(self, sample: Sample) -> None:
        """Free the slot of a sample whose image was written ahead."""
        assert sample.slot is not None
        heapq.heappush(self._free[self.networks.of(sample.request)], sample.slot)
        sample.slot = None


def _slots_of(batch: Sequence[Sample]) -> list[int]:
    return [cast(int, sample.slot) for sample in batch]


def _refusal(sample: Sample) -> Refusal:
    request = sample.request
    return Refusal(
        request_id=request.id,
        arrival_ns=request.arrival_ns,
        start_ns=sample.start_ns,
        end_ns=sample.end_ns,
        deadline_ns=request.deadline_ns,
        reason=sample.because,
        tenant=request.tenant,
    )


def usual_criteria(driver: Driver, profile: ExitProfile | None = None, network: int = 0) -> Criteria:
    """Return the criteria of a program that nobody gave any: its thresholds, over the profile of its
    design.
    """
    profile = ExitProfile.of(driver.parts[network]) if profile is None else profile
    return Criteria(profile, Criterion.of_thresholds(driver.programs[network].thresholds[: profile.exits - 1]))


def _believed_rates(parts: Sequence[Design], given: Sequence[float] | None) -> tuple[float, ...]:
    """Return the exit shares that the policy believes: those given, the designs', or equal ones."""
    if given is None:
        return tuple(chain(*(part.exit_rates or (1 / part.stages,) * part.stages for part in parts)))
    stages = sum(part.stages for part in parts)
    if len(given) != stages:
        raise DriverUsageError(f"exit_rates must name {stages} shares, one per exit, not {len(given)}")
    return tuple(given)
