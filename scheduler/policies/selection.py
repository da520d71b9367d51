"""The choice of weights for a table, objective and traffic that none were tuned for, with `fluid` as referee.

Every weight set that ships, and `optimal`, is tried in simulation on the table itself, on streams of the
traffic that is told. Violations, average and p99 are compared with those of `fluid` on the same streams
(ratios below 1 are better); all of them work off a long queue alike (`drain.py`). The dial moves the price of
p99:

    loss = violations + price(dial) p99 + 0.05 average,   price: 0.01, 0.45, 20 at dial 0, 1, 2

and from dial 1 on a set must keep violations, p99 and the average below `fluid`'s on these streams, by more
than they leave in doubt; if none does, the choice is `fluid` itself. All places of the dial choose from one
list of results, so on these streams violations never fall and p99 never rises along the dial.

The fallback, for a load above the one told, is `optimal` where it is no worse than `fluid` at RAISED times
the load, and else `fluid`.

The streams' keys begin with SELECTION, so no stream of a reported result was chosen on.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluidnpu.dse import has_numba

from ..errors import SchedulerError
from ..policy import Policy, Request
from ..simulation.engine import simulate
from ..simulation.metrics import measure, t_quantile
from ..simulation.schedule import Tally
from ..simulation.traffic import draw_exits, generate
from ..simulation.world import World
from .drain import Drain
from .fluid import Fluid
from .optimal import Optimal
from .setting import Setting, least_work_ns
from .solving.saturated import solve_saturated
from .weights import Weights, candidates
from .wrappers.anytime import Anytime
from .wrappers.draining import Draining

SELECTION = 6  # first word of the key of the streams
FIRST, SECOND = (3, 3000), (8, 6000)  # streams and requests each: for all sets, and for those that are left
LEFT = 5  # sets that meet the second streams
SHARE = 0.03  # of anytime answers, where weights for them are asked for
FLOOR = (0.2, 0.0, 0.0)  # % violations that count as none beside `fluid`'s
NOTHING = (0.01, 0.0, 0.0)  # % violations that are no difference
RAISED, NEAR = 1.25, 0.97  # of the load told, at which the fallback is chosen, and of what can be served at most
Floats = NDArray[np.float64]
Make = Callable[[Setting, Weights], Policy]
BESIDE: dict[str, Callable[[Setting], Policy]] = {  # what needs no weights
    "fluid": lambda setting: Fluid(),
    "optimal": Optimal,
}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The weights chosen, their origin in words, and what they reached.

    `plain`: the policy that decides where `weights` are None, "fluid" or "optimal"; `fallback`: the one for a
    load above the one told. `ratios`: violations, average and p99 over `fluid`'s on the streams that were
    chosen on.
    """

    weights: Weights | None
    origin: str
    ratios: tuple[float, float, float] = (1.0, 1.0, 1.0)
    plain: str = ""
    fallback: str = "fluid"

    def __post_init__(self) -> None:
        if self.plain not in ("", *BESIDE) or self.fallback not in BESIDE or (self.weights is None) != bool(self.plain):
            raise SchedulerError(
                f"a choice must hold weights or be one of {' and '.join(BESIDE)}, and fall back to one of them, "
                f"not {self.plain!r} and {self.fallback!r}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        weights = None if self.weights is None else dataclasses.asdict(self.weights)
        return {**dataclasses.asdict(self), "weights": weights, "ratios": list(self.ratios)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], source: str) -> Choice:
        """Invert `to_dict`. Raises SchedulerError naming the source."""
        try:
            weights = raw["weights"]
            if weights is not None:
                rows = tuple(tuple(map(float, row)) for row in weights["v"])
                done = tuple(map(float, weights["done"]))
                weights = Weights(v=rows, done=done, on_time=float(weights["on_time"]))
            violations, average, p99 = map(float, raw["ratios"])
            return cls(
                weights=weights,
                origin=str(raw["origin"]),
                ratios=(violations, average, p99),
                plain=str(raw.get("plain", "fluid" if weights is None else "")),  # plans of 0.1 have neither
                fallback=str(raw.get("fallback", "fluid")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SchedulerError(f"{source} must hold a choice of weights: {error!r}") from None


@dataclass(frozen=True)
class Trial:
    """The results of one policy: violations %, average ms and p99 ms of each stream, and `fluid`'s.

    `weights`: None for a policy of BESIDE.
    """

    name: str
    weights: Weights | None
    results: Floats
    fluid: Floats

    @property
    def ratios(self) -> Floats:
        """Means over the streams, over `fluid`'s, (3,): violations, average and p99."""
        floor = np.array(FLOOR)
        return np.asarray((self.results.mean(0) + floor) / (self.fluid.mean(0) + floor))

    @property
    def no_worse(self) -> bool:
        """True when p99, average and violations are below `fluid`'s by more than the streams leave in
        doubt.
        """
        if self.name == "fluid":
            return True
        gain = self.fluid - self.results
        n = len(gain)
        doubt = t_quantile(0.95, n - 1) * gain.std(0, ddof=1) / math.sqrt(n)
        return bool(np.all(gain.mean(0) >= doubt - np.array(NOTHING)))

    def loss(self, dial: float) -> float:
        """Return what the dial minimises."""
        violations, average, p99 = self.ratios
        return float(violations + price(dial) * p99 + 0.05 * average)


def price(dial: float) -> float:
    """Return the price of p99 beside violations.

    >>> [round(price(dial), 2) for dial in (0, 1, 2)]
    [0.01, 0.45, 20.0]
    """
    return 0.01 * 2000 ** (dial / 2)  # type: ignore[no-any-return]


def choose(
    setting: Setting, make: Make, kind: str, *, dial: float = 1.0, anytime: bool = False, referee: bool = True
) -> Choice:
    """Choose the weights with which `make` gives the best policy of this kind for the setting, or those it
    brings.

    `referee`: the policies of BESIDE are among the choices. Raises SchedulerError.
    """
    name = choice_name(kind, dial, anytime)
    if setting.chosen is not None and name in setting.chosen:
        brought: Choice = setting.chosen[name]
        return brought
    trials = try_all(setting, make, kind, anytime)
    able = [t for t in trials if referee or t.weights is not None]
    safe = [t for t in able if t.no_worse] or able
    best = _best(safe, max(dial, 1.0))
    if dial < 1:  # may pay with p99 for fewer violations, and with nothing else
        first = _best(safe, 1.0).ratios
        best = _best([t for t in able if t.ratios[0] <= first[0] and t.ratios[2] >= first[2]], dial)
    violations, average, p99 = map(float, best.ratios)
    fallback = _fallback(setting, anytime) if referee else "fluid"
    tried = f"chosen from {len(candidates(setting))} sets in simulation"
    if best.name == "fluid":
        origin = f"{tried}: none beats fluid here, so it decides as fluid"
        return Choice(weights=None, origin=origin, plain="fluid", fallback=fallback)
    sentence = f"{best.name}, {_said(violations)} of fluid's violations, {_said(average)} of its average, {_said(p99)} of its p99"
    return Choice(
        weights=best.weights,
        origin=f"{tried}: {sentence}",
        ratios=(violations, average, p99),
        plain="" if best.weights is not None else best.name,
        fallback=fallback,
    )


def choice_name(kind: str, dial: float, anytime: bool) -> str:
    """Return the name of a choice in a plan.

    >>> choice_name("guarded", 1.0, True)
    'guarded:dial=1:anytime'
    """
    return f"{kind}:dial={dial:g}" + ":anytime" * anytime


def _said(ratio: float) -> str:
    return f"{100 * ratio:.0f} %"


def _best(trials: list[Trial], dial: float) -> Trial:
    return min(trials, key=lambda t: (t.loss(dial), t.name))


_tried: dict[tuple[str, str, bool], list[Trial]] = {}  # by circumstances, kind of policy and anytime


def try_all(setting: Setting, make: Make, kind: str, anytime: bool) -> list[Trial]:
    """Try all weight sets on the first streams, and the best of them, and `fluid`, on the second.

    The results of a program's last settings are kept.
    """
    key = (_digest(setting), kind, anytime)
    if key not in _tried:
        while len(_tried) >= 16:
            del _tried[next(iter(_tried))]
        _tried[key] = _race(setting, make, anytime)
    return _tried[key]


def _race(setting: Setting, make: Make, anytime: bool) -> list[Trial]:
    sets = candidates(setting)
    first = run_trials(setting, make, sets, anytime, *_size(FIRST), seed=0)
    left: dict[str, Weights | None] = {}
    for dial in (1.0, 2.0, 0.0, 1.0, 1.5, 1.0):  # the best of each place, and more of the middle
        others = [t for t in first if t.name not in left and t.weights is not None]
        if others and len(left) < LEFT:
            safe = [t for t in others if dial < 1 or max(t.ratios[1:]) < 1.02]
            best = _best(safe or others, dial)
            left[best.name] = best.weights
    return run_trials(setting, make, left, anytime, *_size(SECOND), seed=100, beside=tuple(BESIDE))


@lru_cache(maxsize=16)
def _fallback(setting: Setting, anytime: bool) -> str:
    """Return the policy of BESIDE for a load above the one told."""
    rule = solve_saturated(setting.latency, setting.exit_rates, setting.b_max, setting.slots)
    most = 1e9 / least_work_ns(setting.latency, setting.exit_rates) if rule is None else rule.per_s
    peak = dataclasses.replace(
        setting, rate_per_s=max(setting.rate_per_s, min(RAISED * setting.rate_per_s, NEAR * most))
    )
    [_, optimal] = run_trials(peak, _never, {}, anytime, *_size(SECOND), seed=200, beside=tuple(BESIDE), stated=setting)
    return optimal.name if optimal.no_worse else "fluid"


def _never(setting: Setting, weights: Weights) -> Policy:
    raise AssertionError("no weights are tried for the fallback")


def _size(size: tuple[int, int]) -> tuple[int, int]:
    streams, requests = size
    return (streams, requests) if has_numba() else (max(3, streams // 2), requests // 4)


def run_trials(
    setting: Setting,
    make: Make,
    sets: Mapping[str, Weights | None],
    anytime: bool,
    streams: int,
    requests: int,
    *,
    seed: int,
    beside: Sequence[str] = ("fluid",),
    stated: Setting | None = None,
) -> list[Trial]:
    """Serve the same streams with `fluid`, the others of BESIDE and each set.

    `told`: the setting that the policies are made for, where it is not that of the streams.
    """
    stated = stated or setting
    drawn = [_stream(setting, seed + k, requests) for k in range(streams)]

    def results(policy: Policy) -> Floats:
        policy = Anytime(policy, SHARE) if anytime else policy
        return np.array([_measure(setting, policy, *stream) for stream in drawn])

    plain = {name: results(Draining(BESIDE[name](stated), Drain(stated))) for name in beside}
    fluid = plain["fluid"]
    trials = [Trial(name, None, metrics, fluid) for name, metrics in plain.items()]
    for name, weights in sets.items():
        if weights is not None:
            trials.append(Trial(name, weights, results(make(stated, weights)), fluid))
    return trials


def _stream(setting: Setting, seed: int, count: int) -> tuple[list[Request], list[int]]:
    rng = np.random.default_rng([SELECTION, seed])
    requests = generate(setting.traffic, setting.rate_per_s, count, slo_ns=setting.slo_ns, rng=rng)
    return requests, draw_exits(setting.exit_rates, count, rng).tolist()


def _measure(setting: Setting, policy: Policy, requests: list[Request], exits: list[int]) -> tuple[float, ...]:
    world = World(
        latency=setting.latency, exits=exits, exit_rates=setting.exit_rates, b_max=setting.b_max, slots=setting.slots
    )
    trace = None
    if has_numba():
        from ..compiled.trace import serve_compiled  # loads Numba

        trace = serve_compiled(requests, policy, world)
    metrics = measure(Tally.of(simulate(requests, policy, world)) if trace is None else trace.tally())
    return metrics.violations_pct, metrics.average_ms, metrics.p99_ms


def _digest(setting: Setting) -> str:
    facts = (
        setting.latency.ns,
        setting.exit_rates,
        setting.rate_per_s,
        setting.slo_ns,
        setting.b_max,
        setting.slots,
        setting.traffic,
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()
