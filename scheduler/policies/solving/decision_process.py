"""Minimal mean latency as a semi-Markov decision process on the counts of samples that wait at each stage.

NumPy only.

State: (n_0, n_1, ... ), n_0 waiting in the queue (cut at `queue_max`), the others past an exit, together at
most `slots`. Actions: run stage s on b samples, or wait for the next arrival. Arrivals are Poisson, exits
independent with the expected rates. The cost of time is the number of samples present, so by Little's law
the optimal average cost is the arrival rate times the smallest mean latency.

Solved by value iteration with bounds (Puterman, Markov Decision Processes, section 8.5 and 11.4; Tijms, A
First Course in Stochastic Models, section 7.4). For values h let d(state) be the least, over actions of
duration t, of (cost + E h(next) - h(state)) / t. The optimal average cost lies between the least and the
largest d, so every sweep gives bounds on it, and the last one how far the solution is from the optimum. A
sweep moves h by whole actions with the average cost guessed within those bounds, which is quick but may not
settle; then sweeps continue as relative value iteration, in steps shorter than any action, which always does.

>>> from fluidnpu.dse import LatencyTable
>>> solved = solve_counts(LatencyTable(ns=((10**6,),)), [1.0], rate_per_s=500.0, queue_max=60)
>>> round(solved.average_ms, 2)  # M/D/1 at load 1/2: 1 + 1/2
1.5
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb, exp
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from fluidnpu.dse import LatencyTable
from fluidnpu.models.files import write_file

from ...errors import OverloadError, SchedulerError

if TYPE_CHECKING:
    from ...compiled.optimal import SolvedCounts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
QUEUE_MAX = 48
PATIENT_SWEEPS = 300  # without bounds a tenth closer, before sweeps take shorter steps
MS = 1_000_000  # sample-nanoseconds in a sample-millisecond
MOST = 50_000_000  # costs in a table: 400 MB
MOST_PLACES = 1 << 20  # in the compiled loop's index of counts past the queue
NEVER = 1 << 60  # the cost of a forbidden action


@dataclass(frozen=True, kw_only=True)
class CountTable:
    """A solved process: the relative cost to go of every action in every state, in sample-milliseconds.

    `q[n0, place, stage * b_max + b - 1]`: the cost of running stage on b samples with n0 in the queue; the
    last column is that of waiting for an arrival. Forbidden actions cost infinity. `places` maps the counts
    past the queue to their row. `average_ms`: the optimal mean latency at `rate_per_s`. `key`: digest of
    its circumstances.
    """

    places: dict[tuple[int, ...], int]
    q: Floats
    b_max: int
    queue_max: int
    average_ms: float
    rate_per_s: float
    key: str = ""

    @cached_property
    def slots(self) -> int:
        """The most samples past the queue."""
        return max(map(sum, self.places)) or self.b_max  # of a single stage nobody waits past the queue

    @cached_property
    def whole(self) -> NDArray[np.int64]:
        """`q`, in its shape, in whole sample-nanoseconds, NEVER for infinity.

        Sums of them are exact, so they are the same in any order and on any machine.
        """
        finite = np.isfinite(self.q)
        return np.where(finite, np.rint(np.where(finite, self.q, 0) * MS), NEVER).astype(np.int64)

    @cached_property
    def rows(self) -> list[list[list[int]]]:
        """`whole` as nested lists, which are indexed several times faster than an array."""
        rows: list[list[list[int]]] = self.whole.tolist()
        return rows

    def save(self, path: str | Path) -> None:
        """Write the table as a compressed NumPy archive.

        Solved on a workstation, it ships to the board beside the design.
        """
        places = np.array(list(self.places), np.int64).reshape(len(self.places), -1)
        facts = {name: getattr(self, name) for name in ("b_max", "queue_max", "average_ms", "rate_per_s", "key")}
        archive = io.BytesIO()
        np.savez_compressed(
            archive, q=self.q, places=places, **{name: np.array(value) for name, value in facts.items()}
        )
        write_file(path, archive.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> CountTable:
        """Read the file that `save` wrote. Raises SchedulerError naming the file."""
        try:
            with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                return cls(
                    places={tuple(int(x) for x in row): i for i, row in enumerate(file["places"])},
                    q=np.asarray(file["q"], np.float64),
                    b_max=int(file["b_max"]),
                    queue_max=int(file["queue_max"]),
                    average_ms=float(file["average_ms"]),
                    rate_per_s=float(file["rate_per_s"]),
                    key=str(file["key"]),
                )
        except (OSError, KeyError, ValueError, EOFError, BadZipFile) as error:
            raise SchedulerError(f"{path} must be a table of the decision process on counts: {error}") from None

    def compiled(self, stages: int) -> SolvedCounts | None:
        """Return the table as arrays for the compiled loop.

        None when it is for another number of stages, or its index would be too large.
        """
        from ...compiled.optimal import SolvedCounts

        radix = self.slots + 1
        if any(len(place) != stages - 1 for place in self.places) or self.q.shape[2] != stages * self.b_max + 1:
            return None
        if radix ** (stages - 1) > MOST_PLACES:
            return None
        place = np.zeros(radix ** (stages - 1), np.int64)
        for counts, row in self.places.items():
            key = 0
            for count in counts:
                key = key * radix + count
            place[key] = row
        return SolvedCounts(self.b_max, self.slots, self.queue_max, NEVER, radix, place, self.whole)


def continue_shares(exit_rates: Sequence[float]) -> list[float]:
    """Return the probability of continuing after each exit, given that it was reached.

    >>> continue_shares([0.25, 0.25, 0.5])
    [0.75, 0.6666666666666667, 0.0]
    """
    reaching, shares = 1.0, []
    for rate in exit_rates:
        shares.append(max(0.0, 1 - rate / reaching) if reaching > 1e-12 else 0.0)
        reaching -= rate
    return [*shares[:-1], 0.0]


def table_key(latency: LatencyTable, exit_rates: Sequence[float], rate_per_s: float, b_max: int, slots: int) -> str:
    """Return a digest of everything that a solved table depends on."""
    facts = (latency.ns, tuple(map(float, exit_rates)), float(rate_per_s), b_max, slots)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


class Moves:
    """The places and runs of a process on counts: what waits past the queue, and where a run leads.

    `list`: the places in order, at most `slots` samples each; `keys`: the same as numbers, whose digits to
    the base slots + 1 they are. `goes_on`: the share that goes on past each exit it reaches. `runs`: of each
    run its stage, batch, duration in ms, the chance and the next place (by place) of every number that goes
    on, and where it is allowed.
    """

    def __init__(self, latency: LatencyTable, exit_rates: Sequence[float], *, slots: int, b_max: int) -> None:
        self.stages, self.b_max, self.slots = latency.stages, b_max, slots
        self.list = [p for p in product(range(slots + 1), repeat=self.stages - 1) if sum(p) <= slots]
        self.places = {p: i for i, p in enumerate(self.list)}
        counts = np.array(self.list, np.int64).reshape(len(self.list), -1)
        digits = (slots + 1) ** np.arange(self.stages - 1, dtype=np.int64)[::-1]
        self.keys = keys = counts @ digits  # ascending, as the list is in order
        self.goes_on = continue_shares(exit_rates)
        self.runs: list[tuple[int, int, float, list[tuple[float, Ints]], NDArray[np.bool_]]] = []
        for stage in range(self.stages):
            for b in range(1, b_max + 1):
                allowed = counts.sum(1) + b <= slots if stage == 0 else counts[:, stage - 1] >= b
                taken = keys - (b * digits[stage - 1] if stage else 0)
                nexts = []
                for stay in range(b + 1):
                    entered = taken + (stay * digits[stage] if stage < self.stages - 1 else 0)
                    to = np.where(allowed, np.searchsorted(keys, entered), 0)
                    if (chance := _binomial(b, stay, self.goes_on[stage])) > 0:
                        nexts.append((chance, to))
                self.runs.append((stage, b, latency.ns[stage][b - 1] / 1e6, nexts, allowed))


class _Process(Moves):
    """The process with everything that does not change between sweeps precomputed.

    Values are arrays [place, queued]; `costs` adds the action in front.
    """

    def __init__(
        self,
        latency: LatencyTable,
        exit_rates: Sequence[float],
        rate_per_s: float,
        *,
        slots: int,
        queue_max: int,
        b_max: int,
    ) -> None:
        super().__init__(latency, exit_rates, slots=slots, b_max=b_max)
        self.queue_max = queue_max
        self.rate = rate_per_s / 1e3  # arrivals a millisecond
        self.present = np.array([sum(p) for p in self.list])[:, None] + np.arange(queue_max + 1)[None, :]
        arrivals = [np.ascontiguousarray(_arrivals(self.rate * ms, queue_max).T) for _, _, ms, *_ in self.runs]
        self.actions = list(zip(self.runs, arrivals, strict=True))
        self.ms = np.array([ms for _, _, ms, *_ in self.runs] + [1 / self.rate])[:, None, None]
        self._costs = np.full((len(self.runs) + 1, len(self.list), queue_max + 1), np.inf)

    def drained(self, exit_rates: Sequence[float]) -> Floats:
        """Return the values that a fluid would have: what is there drains at the rate that arrivals leave
        over.

        They are the values where the backlog is long, so value iteration starts from them.
        """
        left: list[float] = []  # mean remaining time in ms of a sample at each stage, at the most efficient batches
        for stage in range(self.stages - 1, -1, -1):
            rows = [ms / b for s, b, ms, *_ in self.runs if s == stage]
            left.insert(0, min(rows) + (continue_shares(exit_rates)[stage] * left[0] if left else 0.0))
        past = np.array([sum(n * ms for n, ms in zip(place, left[1:], strict=True)) for place in self.list])
        work = past[:, None] + left[0] * np.arange(self.queue_max + 1)[None, :]
        return np.asarray(self.present * work / 2 / max(1 - self.rate * left[0], 0.02))

    def costs(self, h: Floats) -> Floats:
        """Return the cost of every action in every state and of what follows, without an average cost.

        The array is overwritten by the next call.
        """
        out = self._costs
        for k, ((stage, b, ms, nexts, allowed), arrivals) in enumerate(self.actions):
            after = h @ arrivals
            (p, to), *others = nexts
            mean = p * after[to]
            for p, to in others:
                mean += p * after[to]
            cost = self.present * ms + self.rate * ms * ms / 2
            if stage == 0:
                out[k, :, b:] = cost[:, b:] + mean[:, :-b]
            else:
                out[k] = cost + mean
            out[k, ~allowed] = np.inf
        out[-1, :, :-1] = self.present[:, :-1] / self.rate + h[:, 1:]
        return out


def _binomial(n: int, k: int, p: float) -> float:
    return comb(n, k) * p**k * (1 - p) ** (n - k)


def _arrivals(mean: float, queue_max: int) -> Floats:
    """Return the probability that a queue of n (row) becomes m (column; the last: all beyond the cut)."""
    chance = np.empty(queue_max + 1)
    chance[0] = exp(-mean)
    for k in range(1, queue_max + 1):
        chance[k] = chance[k - 1] * mean / k
    matrix = np.zeros((queue_max + 1, queue_max + 1))
    for n in range(queue_max + 1):
        matrix[n, n:] = chance[: queue_max + 1 - n]
        matrix[n, -1] = 1 - matrix[n, :-1].sum()
    return matrix


def solve_counts(
    latency: LatencyTable,
    exit_rates: Any,
    *,
    rate_per_s: float,
    b_max: int | None = None,
    slots: int | None = None,
    queue_max: int = QUEUE_MAX,
    tolerance: float = 2e-3,
    sweeps: int = 20_000,
) -> CountTable:
    """Solve the process until its average cost is known within `tolerance` of itself.

    Raises OverloadError when the load is too high for the queue's cut or the bounds do not meet,
    SchedulerError when the table is too large.
    """
    b_max = latency.b_max if b_max is None else b_max
    places = comb((slots or b_max) + latency.stages - 1, latency.stages - 1)
    if (size := places * (queue_max + 1) * (latency.stages * b_max + 1)) > MOST:
        raise SchedulerError(
            f"the decision process must have at most {MOST} costs, and {latency.stages} stages with batches of {b_max} make {size}; "
            "take smaller batches, or a policy that is not solved"
        )
    process = _Process(latency, list(exit_rates), rate_per_s, slots=slots or b_max, queue_max=queue_max, b_max=b_max)
    low, high, h = _settle(process, process.drained(exit_rates), tolerance, sweeps)
    g = (low + high) / 2
    sentence = f"at {rate_per_s:g} requests/s the average number of requests lies in {max(low, 0):.3g} to {high:.3g}"
    if low > queue_max / 2:
        raise OverloadError(
            f"the decision process sees {queue_max} requests in the queue, and {sentence}: solve for less"
        )
    if high - low > tolerance * high:
        raise OverloadError(
            f"the decision process must settle within {sweeps} sweeps, and {sentence}; more sweeps or a lower rate may settle it"
        )
    return CountTable(
        places=process.places,
        q=np.ascontiguousarray((process.costs(h) - g * process.ms).transpose(2, 1, 0)),
        b_max=b_max,
        queue_max=queue_max,
        average_ms=g / process.rate,
        rate_per_s=rate_per_s,
        key=table_key(latency, exit_rates, rate_per_s, b_max, slots or b_max),
    )


def _settle(process: _Process, h: Floats, tolerance: float, sweeps: int) -> tuple[float, float, Floats]:
    """Return bounds on the average cost and the values that gave them, from values `h`; see the module."""
    empty = process.places[(0,) * (process.stages - 1)]
    step = 0.95 * float(process.ms.min())  # below 1: so that no chain is periodic
    g, gain, last, narrowest, since = 0.0, process.rate / 10, 0.0, np.inf, 0
    low, high = 0.0, np.inf
    for sweep in range(sweeps):
        costs = process.costs(h)
        d = ((costs - h) / process.ms).min(axis=0)
        low, high = float(d.min()), float(d.max())
        if high - low <= tolerance * high or low > process.queue_max / 2:
            break
        if high - low < 0.9 * narrowest:
            narrowest, since = high - low, sweep
        if sweep - since > PATIENT_SWEEPS:  # whole actions do not settle
            h = h + step * d
        else:
            following = (costs - g * process.ms).min(axis=0)
            surplus = float(following[empty, 0])  # of a busy cycle, were the average cost g
            gain *= 0.7 if surplus * last < 0 else 1.0
            g, last = min(max(g + min(max(surplus * gain, -0.3), 0.3), low), high), surplus
            h = following
        h = h - h[empty, 0]
    return low, high, h
