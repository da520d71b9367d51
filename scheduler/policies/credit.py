"""The policy of smallest mean latency with credit for answers in time.

`Optimal` knows how many samples wait at each stage, not how old they are. `Credit` subtracts from its cost
to go a credit for each sample present, which depends on its stage and on its age when the action ends, and
a credit for each sample that leaves, on time or late:

    score(stage, batch) = cost(stage, |batch|) - sum over samples present V_stage(age + d)
                          - sum over the batch gain(age + d)
    gain(a) = leave * D(a) + (1 - leave) * V_next(a) - V_stage(a),   leave: chance to exit after this stage

and the batch are the samples of largest gain. V and D are piecewise linear in age/objective (`Weights`),
tuned in simulation. All of it is tabulated in whole sample-nanoseconds by steps of age, so that a score is
a sum of integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..compiled.twin import Compiled, Npu, Stream
from ..errors import SchedulerError
from ..policy import Action, Request, Run, Traits, View, Wait
from ..simulation.units import format_ms
from .baselines import CROWDED, PATIENCE, run_with_room, urgent_lines
from .entry import Entry, parse_bounded, parse_flag
from .selection import choose
from .setting import Setting
from .solving.decision_process import MS, NEVER, CountTable, continue_shares
from .weights import KNOTS, Weights, candidates, load_weights, read_weight_file

BINS = 128  # per objective
ROBUST = "mean of balanced-robust"
LOOK = 24  # how many of a line are weighed: the most urgent


def tabulate(row: Sequence[float], scale: float, bonus: float = 0.0) -> list[int]:
    """Return a piecewise-linear row as whole numbers, by steps of 1/BINS of the objective.

    `bonus` is added up to age 1.

    >>> steps = tabulate([1.0] * len(KNOTS), 20.0, bonus=3.0)
    >>> len(steps), steps[0], steps[127], steps[128]
    (641, 23, 23, 20)
    """
    ages = np.minimum((np.arange(int(KNOTS[-1] * BINS) + 1) + 0.5) / BINS, KNOTS[-1])
    values = scale * np.interp(ages, KNOTS, row) + np.where(np.arange(len(ages)) < BINS, bonus, 0.0)
    return [int(x) for x in np.rint(values)]


class Credit:
    """Least cost to continue counts, less the credit for answers in time; the module gives the score.

    Deadlines of single requests count: a request's age is taken as if it had the setting's objective and
    the same deadline. No sample starves: one that is `patience` objectives old goes before everything else.
    Raises SchedulerError.
    """

    def __init__(self, setting: Setting, weights: Weights, name: str = "credit", patience: float = PATIENCE) -> None:
        if len(weights.v) != setting.latency.stages:
            raise SchedulerError(f"weights must be for {setting.latency.stages} stages, not {len(weights.v)}")
        self.name = name
        self.weights_from = "given"
        self.table: CountTable = setting.count_table()
        self._rows = self.table.rows
        self._slo, self._width = setting.slo_ns, max(1, setting.slo_ns // BINS)
        self._patience_ns = round(patience * setting.slo_ns)
        scale = setting.slo_ns / 4  # sample-nanoseconds
        self.v = [tabulate(row, scale) for row in weights.v]
        done = tabulate(weights.done, scale, weights.on_time * scale)
        goes_on = continue_shares(setting.exit_rates)
        self.gain = []  # per stage: gain by age at the end of the run
        for s, on in enumerate(goes_on):
            after = self.v[s + 1] if s + 1 < len(goes_on) else done
            gains = [(1 - on) * d + on * a - v for d, a, v in zip(done, after, self.v[s], strict=True)]
            self.gain.append([round(x) for x in gains])
        self._oldest = len(done) - 1
        self._steps = [[self._step(ns) for ns in row] for row in setting.latency.ns]
        self._gap = self._step(round(1e9 / setting.rate_per_s))
        longest = max(self._gap, *map(max, self._steps))
        for row in (*self.v, *self.gain):
            row.extend([row[-1]] * longest)  # so that the oldest sample after the longest run needs no clamp

    @property
    def traits(self) -> Traits:
        """The facts that a comparison needs."""
        return Traits(weights_from=self.weights_from, solved_for_per_s=self.table.rate_per_s)

    def _step(self, ns: int) -> int:
        """Return a duration in steps of age, rounded; beyond the last knot nothing changes."""
        return min((ns + self._width // 2) // self._width, self._oldest)

    def compiled(self, stream: Stream, npu: Npu) -> Compiled | None:
        """Return the twin for the compiled loop, or None for an NPU with other stages or batch sizes."""
        from ..compiled.credit import CreditTwin

        counts, steps = self.table.compiled(len(npu.believed)), np.array(self._steps, np.int64)
        if counts is None or steps.shape != npu.believed.shape:
            return None
        twin = CreditTwin(
            counts=counts,
            slo_ns=self._slo,
            width_ns=self._width,
            patience_ns=self._patience_ns,
            gap=self._gap,
            oldest=self._oldest,
            look=LOOK,
            steps=steps,
            v=np.array(self.v, np.int64),
            gain=np.array(self.gain, np.int64),
        )
        return Compiled(twin=twin)

    def reset(self) -> None:
        """Keep no state."""

    def decide(self, view: View) -> Action:
        """Weigh every feasible stage and batch size one action ahead, and waiting for an arrival."""
        return self.weigh(view, urgent_lines(view, LOOK))

    def weigh(self, view: View, waiting: Sequence[Sequence[Request]]) -> Action:
        """Decide as `decide`, given `urgent_lines`."""
        table, width = self.table, self._width
        base, oldest = view.now_ns + self._slo, self._oldest
        starved = self.starved(view, waiting)
        if starved is not None:
            return starved
        counts = [len(w) for w in view.waiting]
        queued = min(counts[0], table.queue_max)
        place = table.places.get(tuple(counts[1:]))
        if place is None:
            return run_with_room(view, 0, table.slots, CROWDED)
        costs = self._rows[queued][place]
        ages = [[min(max((base - r.deadline_ns) // width, 0), oldest) for r in w] for w in waiting]
        present = [(self.v[s], age) for s, group in enumerate(ages) for age in group]
        best, best_stage, best_batch = NEVER, -1, [0]
        for stage, limit in enumerate(self._limits(view, counts, queued)):
            group, gain, steps, first = ages[stage], self.gain[stage], self._steps[stage], stage * table.b_max
            for b in range(limit):
                d = steps[b]
                gains = [gain[age + d] for age in group]
                order = list(range(len(gains)))
                if b + 1 < len(gains):  # the largest gains, the older first among equals
                    order = sorted(order, key=gains.__getitem__, reverse=True)[: b + 1]
                    gains = [gains[i] for i in order]
                score = costs[first + b] - sum([v[age + d] for v, age in present]) - sum(gains)
                if score < best:
                    best, best_stage, best_batch = score, stage, order
        if not view.closed:
            d = self._gap
            if costs[-1] - sum([v[age + d] for v, age in present]) < best:
                return Wait(None, "worth more to wait for one more")
        entry = waiting[best_stage]
        return Run(best_stage, tuple([entry[i] for i in best_batch]), f"best score {best / MS:.0f} sample-ms")

    def _slots(self, view: View) -> int:
        return min(self.table.slots, view.slots or view.b_max)

    def _limits(self, view: View, counts: list[int], queued: int) -> list[int]:
        """Return the largest batch that can be made at each stage."""
        b_max = min(self.table.b_max, view.b_max)
        return [
            min(b_max, self._slots(view) - sum(counts[1:]), queued, LOOK),
            *[min(count, b_max, LOOK) for count in counts[1:]],
        ]

    def starved(self, view: View, waiting: Sequence[Sequence[Request]]) -> Run | None:
        """Return a run of the most urgent once it is past its patience; None before."""
        base = view.now_ns + self._slo
        limit = base - self._patience_ns
        for group in waiting:
            if group and group[0].deadline_ns < limit:
                break
        else:
            return None
        stage = min((s for s, group in enumerate(waiting) if group), key=lambda s: waiting[s][0].deadline_ns)
        reason = f"oldest first: it has waited {format_ms(base - waiting[stage][0].deadline_ns)}"
        return run_with_room(view, stage, self._slots(view), reason, waiting)


def with_weights(setting: Setting, weights: Weights) -> Credit:
    """Make the policy as weights are tried for it."""
    return Credit(setting, weights)


def make_credit(
    setting: Setting,
    *,
    name: str,
    dial: float = 1.0,
    robust: bool = False,
    anytime: bool = False,
    patience: float = PATIENCE,
    weights: Weights | None = None,
) -> Credit:
    """Make the policy with the weights given, those that ship for the setting, or the best of them for it.

    Raises SchedulerError.
    """
    if robust and dial != 1.0:
        raise SchedulerError(f"robust weights are tuned for dial=1 only, not {dial:g}")
    origin = "given"
    if weights is None:
        tuned = load_weights(setting, dial, anytime, robust)
        if tuned is None and robust:
            tuned = candidates(setting)[ROBUST], ROBUST
        if tuned is None:
            choice = choose(setting, with_weights, "credit", dial=dial, anytime=anytime, referee=False)
            assert choice.weights is not None
            tuned = choice.weights, choice.origin
        weights, origin = tuned
    policy = Credit(setting, weights, name=name, patience=patience)
    policy.weights_from = origin
    return policy


def parse_dial(key: str, text: str) -> dict[str, float]:
    """Return a place of the dial, 0 to 2. Raises SchedulerError."""
    must = "lie between 0 (late answers are worthless), 1 (balanced) and 2 (p99 is the contract)"
    return parse_bounded(key, text, lambda value: 0 <= value <= 2, must)


def parse_patience(key: str, text: str) -> dict[str, float]:
    """Return a patience in objectives. Raises SchedulerError."""
    return parse_bounded(key, text, lambda value: 0 < value <= PATIENCE, f"lie above 0 and up to {PATIENCE} objectives")


def parse_weights(key: str, text: str) -> dict[str, Weights]:
    """Return the weights in a file. Raises SchedulerError."""
    return {key: read_weight_file(Path(text))}


ENTRIES = {
    "credit": Entry(
        make_credit,
        "the same, with credit for answers in time",
        {"dial": parse_dial, "robust": parse_flag, "patience": parse_patience, "weights": parse_weights},
        solved=True,
        tuned=True,
        drains=True,
    )
}
