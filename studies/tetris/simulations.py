"""Tasks of the study; each answers in plain JSON types. Planned rates, and the twin where it says so."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidnpu.scheduler import placement
from fluidnpu.scheduler.simulation import interval

from ..running.study import Size
from ..writing import mean_low_high, significant
from .profiles import (
    EXITS_EASY,
    EXITS_FLUID,
    GIGABIT,
    MADE_UP,
    RAMPS,
    TEN_GIGABIT,
    GpuTimes,
    board_fleet,
    draw_profile,
    gpu_fleet,
    mix_rates,
    patience_rates,
)

SLO_MS = 100
V100S = {"V100": 16}
MIXED = {"V100": 6, "P100": 8, "K80": 15}
MIXES = (0.8, 0.5, 0.2)  # shares of easy samples
DRAWN_BATCHES = (1, 4, 16)
SIZES = (1, 2, 4, 8, 16)
TABLE_1 = {"BERT-Base": (12, 0.87, 2.09), "ResNet-50": (17, 1.13, 2.62), "BERT-Large": (24, 1.53, 3.63)}  # layers, s, s
FORECAST_SEEDS = 5
PAPER: dict[str, Any] = {"serial": False, "ramps": ("on", "last")}  # the paper's space: one pipeline over the fleet


def space_of(
    fleet: placement.Fleet, batches: Sequence[int], slo_ms: float = SLO_MS, **settings: Any
) -> placement.Space:
    """The space of a fleet's network at 90 % of the objective, as the planner takes it."""
    network = next(iter(fleet.networks))
    return placement.Space.of(fleet, network, round(0.9e6 * slo_ms), batches=tuple(batches), **settings)


def rates_of(fleet: placement.Fleet, batch: int, slo_ms: float = SLO_MS) -> dict[str, float | None]:
    """Planned samples a second of the baselines and of the paper's space, at batches up to one size."""
    sizes = range(1, batch + 1)
    space = space_of(fleet, sizes, slo_ms, **PAPER)
    line, wide = placement.best_pipeline(space), placement.best_pipeline(space_of(fleet, sizes, slo_ms))
    black = placement.best_pipeline(space_of(fleet, sizes, slo_ms, serial=False, ramps=("on",)))
    rates = {
        "stock": whole(space_of(fleet, sizes, slo_ms), "none"),
        "exits, all must leave": all_leave(space_of(fleet, sizes, slo_ms), batch),
        "exits, shrinking": whole(space_of(fleet, sizes, slo_ms), "on"),
        "TETRIS": 0.0 if line is None else line.rate,
        "TETRIS, black box": 0.0 if black is None else black.rate,
        "ours, one pipeline": 0.0 if wide is None else wide.rate,
    }
    return {name: significant(rate) for name, rate in rates.items()}


def whole(space: placement.Space, ramps: str) -> float:
    """Rate of the whole network on every device, with one way of its exits."""
    total = 0.0
    for kind in space.kinds:
        able = [
            whole_option
            for whole_option in placement.whole_options(space, kind)
            if len(whole_option.chain) == 1
            and whole_option.chain[0].ramps == ramps
            and whole_option.latency_ns(kind.count) <= space.slo_ns
        ]
        total += max((option.rate for option in able), default=0.0) * kind.count
    return total


def all_leave(space: placement.Space, batch: int) -> float:
    """Rate where a batch leaves a ramp only when all of it may: it stays full until the last has left."""
    total = 0.0
    for kind in space.kinds:
        rates = []
        for b in range(1, batch + 1):
            t = sum(
                (1 - (1 - space.reach[k]) ** b) * (block.ns[b - 1] + block.head_ns[b - 1])
                for k, block in enumerate(kind.profile.blocks)
            )
            longest = sum(block.ns[b - 1] + block.head_ns[b - 1] for block in kind.profile.blocks)
            if longest * (1 + (b - 1) / (b * kind.count)) <= space.slo_ns:
                rates.append(placement.NS * b / t)
        total += max(rates, default=0.0) * kind.count
    return total


def simulate_drawn_point(seed: int) -> dict[str, Any]:
    """All that the paper says of GPUs, on one drawn profile, at fewer batch sizes and objectives."""
    gpus = draw_profile(seed)
    return {
        "homogeneous": {f"{b}": batch_point(V100S, 0.5, b, gpus) for b in DRAWN_BATCHES},
        "mixed types": {f"{b}": batch_point(MIXED, 0.5, b, gpus) for b in DRAWN_BATCHES},
        "cost": {f"{b}": cost_point(b, gpus) for b in DRAWN_BATCHES},
        "heterogeneity": {f"{b}": heterogeneity_point(b, gpus) for b in DRAWN_BATCHES},
        "parallel": {f"{b}": parallel_point(b, gpus) for b in DRAWN_BATCHES},
        "mixes": {f"{easy:g}": batch_point(V100S, easy, 8, gpus) for easy in MIXES},
        "tolerance": {f"{entropy:g}": tolerance_point(entropy, gpus) for entropy in (0.3, 0.4, 0.5)},
        "objective": {f"{slo:g}": slo_point(slo, gpus) for slo in (12.0, 100.0)},
        "patience": {f"{count}": patience_point(count, gpus) for count in (1, 2, 3)},
    }


def optimiser(network: str) -> dict[str, bool]:
    """Table 1: if the optimiser keeps the paper's seconds, by the CPU time of its second run on this host.

    Times themselves would make no two studies equal; `benchmarks/placement.py` prints them.
    """
    layers, *most = TABLE_1[network]
    ends, reached = np.linspace(0, 1, RAMPS + 1), np.r_[0, np.cumsum(mix_rates(0.5))]
    rates = np.diff(np.interp(np.linspace(0, 1, layers + 1), ends, reached)).tolist()
    kept = {}
    for (name, counts), seconds in zip((("homogeneous", V100S), ("heterogeneous", MIXED)), most, strict=True):
        fleet = gpu_fleet(counts, rates)
        placement.best_pipeline(space_of(fleet, SIZES, **PAPER))
        began = time.process_time()
        placement.best_pipeline(space_of(fleet, SIZES, **PAPER))
        kept[name] = time.process_time() - began <= seconds
    return kept


def batch_point(counts: dict[str, int], easy: float, batch: int, gpus: GpuTimes = MADE_UP) -> dict[str, Any]:
    """Figs. 7 to 11 and 19: one fleet, one mix, one largest batch."""
    return rates_of(gpu_fleet(counts, mix_rates(easy), gpus), batch)


def patience_point(patience: int, gpus: GpuTimes = MADE_UP) -> dict[str, Any]:
    """Fig. 14: PABEE's counter decides who leaves."""
    return rates_of(gpu_fleet(V100S, patience_rates(patience), gpus), 16)


def tolerance_point(tolerance: float, gpus: GpuTimes = MADE_UP) -> dict[str, Any]:
    """Fig. 15: the entropy at which ramps let go."""
    return rates_of(gpu_fleet(V100S, mix_rates(0.5, tolerance), gpus), 8)


def slo_point(slo_ms: float, gpus: GpuTimes = MADE_UP) -> dict[str, Any]:
    """Fig. 18: the objective decides the largest batch."""
    return rates_of(gpu_fleet(V100S, mix_rates(0.5), gpus), 16, slo_ms)


def cost_point(batch: int, gpus: GpuTimes = MADE_UP) -> dict[str, Any]:
    """Figs. 12 and 13: fewest V100s, and least cost of the mixed types, for 6,000 samples a second."""
    rate, sizes = 6000.0, range(1, batch + 1)
    homogeneous = gpu_fleet({"V100": 40}, mix_rates(0.5), gpus)
    mixed = gpu_fleet({"V100": 12, "P100": 14, "K80": 16}, mix_rates(0.5), gpus)
    fleets = {
        "stock": whole(space_of(homogeneous, sizes), "none") / 40,
        "exits, all must leave": all_leave(space_of(homogeneous, sizes), batch) / 40,
    }
    planned: dict[str, Any] = {}
    price = homogeneous.types["V100"].cost_micros / 1e6
    for name, fleet_ in fleets.items():
        count = int(np.ceil(rate / fleet_)) if fleet_ else None
        planned[name] = {"gpus": count, "cost": None if count is None else significant(count * price)}
    line = placement.cheapest_pipeline(space_of(homogeneous, sizes, **PAPER), rate)
    wide = placement.cheapest_pipeline(space_of(mixed, sizes, **PAPER), rate)
    planned["TETRIS"] = {
        "gpus": None if line is None else line.used,
        "cost": None if line is None else significant(line.used * price),
    }
    cost = (
        None
        if wide is None
        else sum(mixed.types[space_kind(mixed, s.kind)].cost_micros * s.devices for s in wide.stages)
    )
    planned["TETRIS, mixed types"] = {
        "gpus": None if wide is None else wide.used,
        "cost": None if cost is None else significant(cost / 1e6),
    }
    return planned


def space_kind(fleet: placement.Fleet, index: int) -> str:
    """The type of a kind of device."""
    return list(fleet.types)[index]


def heterogeneity_point(batch: int, gpus: GpuTimes = MADE_UP) -> dict[str, Any]:
    """Fig. 16: 16 V100 against 6 V100, 8 P100 and 15 K80 at equal cost, in the paper's space."""
    out = {}
    for name, counts in (("16 V100", V100S), ("6 V100, 8 P100, 15 K80", MIXED)):
        pipeline = placement.best_pipeline(
            space_of(gpu_fleet(counts, mix_rates(0.5), gpus), range(1, batch + 1), **PAPER)
        )
        out[name] = significant(0.0 if pipeline is None else pipeline.rate)
    return out


def parallel_point(batch: int, gpus: GpuTimes = MADE_UP) -> dict[str, Any]:
    """Fig. 17: pipelined over devices, waiting for links, and splits in turns on one device with a barrier.

    With a barrier a device waits until all copies of a split have finished: the plan runs the second split as
    often as whole batches of the first allow, rounded up.
    """
    fleet, sizes = gpu_fleet(V100S, mix_rates(0.5), gpus), range(1, batch + 1)
    on = placement.best_pipeline(space_of(fleet, sizes, **PAPER))
    waits = placement.best_pipeline(space_of(fleet, sizes, overlap=False, **PAPER))
    space = space_of(fleet, sizes)
    serial = max((o.rate for o in placement.whole_options(space, space.kinds[0]) if len(o.chain) > 1), default=0.0)
    return {
        "pipelined": significant(0.0 if on is None else on.rate),
        "parallel, waiting for links": significant(0.0 if waits is None else waits.rate),
        "off, with a barrier": significant(16 * barrier(space, batch)),
        "in turns, without a barrier": significant(16 * serial),
    }


def barrier(space: placement.Space, batch: int) -> float:
    """Best rate of two splits on one device that waits for all copies of the first before the second."""
    best, kind = 0.0, space.kinds[0]
    blocks, reach = kind.profile.blocks, space.reach
    for cut in range(1, space.blocks):
        first = sum(b.ns[batch - 1] for b in blocks[:cut]) + blocks[cut - 1].head_ns[batch - 1]
        second = sum(b.ns[batch - 1] for b in blocks[cut:]) + blocks[-1].head_ns[batch - 1]
        copies = int(np.ceil(1 / max(reach[cut], 1e-9)))
        runs = int(np.ceil(copies * reach[cut]))
        best = max(best, placement.NS * copies * batch / (copies * first + runs * second))
    return best


def space_point(counts: dict[str, int]) -> dict[str, Any]:
    """One pipeline, the paper's space, against any mix of pieces."""
    fleet = gpu_fleet(counts, mix_rates(0.5))
    sizes = SIZES
    line = placement.best_pipeline(space_of(fleet, sizes, **PAPER))
    mix = placement.best_mix(space_of(fleet, sizes, serial=False, ramps=("on", "last")))
    wide = placement.best_mix(space_of(fleet, sizes))
    assert line is not None
    assert mix is not None
    assert wide is not None
    return {
        "one pipeline": significant(line.rate),
        "mix": significant(mix.rate),
        "bound": significant(mix.bound),
        "mix with serial splits": significant(wide.rate),
        "bound with serial splits": significant(wide.bound),
    }


def board_point(zc706: int, zcu104: int, easy: bool, size: Size) -> dict[str, Any]:
    """Data parallel, serial splits and the best pipeline on our boards, planned and in the twin."""
    out: dict[str, Any] = {}
    for name, bytes_per_s in (("1 GbE", GIGABIT), ("10 GbE", TEN_GIGABIT)):
        fleet = board_fleet(zc706, zcu104, EXITS_EASY if easy else EXITS_FLUID, bytes_per_s)
        rates: dict[str, Any] = {}
        for form in ("stock", "data parallel", "serial", "pipeline"):
            settings: dict[str, Any] = {"slo_ns": 200_000_000, "batches": (1, 2, 4, 8)}
            if form == "pipeline":
                space = space_of(fleet, (1, 2, 4, 8), 200, **PAPER)
                rates[form] = {"planned": significant(split_rate(space))}
                continue
            answer = placement.place(fleet, forms=[form], headroom=0.0, **settings)
            served = placement.goodput(fleet, answer.plan, count=size.sweep_requests, steps=8)
            rates[form] = {"planned": significant(answer.plan.rate_per_s), "twin": significant(served)}
        out[name] = rates
    return out


def split_rate(space: placement.Space) -> float:
    """The best rate of a pipeline that crosses the link at least once."""
    pieces = {key: options for key, options in space.pieces.items() if (key[1], key[2]) != (0, space.blocks)}
    split = placement.Space(
        network=space.network,
        kinds=space.kinds,
        slo_ns=space.slo_ns,
        serial=False,
        batches=space.batches,
        ramps=space.ramps,
    )
    split.__dict__["pieces"] = pieces
    pipeline = placement.best_pipeline(split)
    return 0.0 if pipeline is None else pipeline.rate


def forecast_point(world: str, samples: int) -> dict[str, Any]:
    """Mean error of reach one window ahead, in points, by forecast; ramps three by three.

    The mean has its interval over a few draws of the samples, the worst is that of all.
    """
    if world == "steps":
        rows = [mix_rates(easy) for easy in MIXES for _ in range(10)]
    elif world == "slow day":
        rows = [mix_rates(0.5 + 0.3 * float(np.sin(2 * np.pi * k / 48))) for k in range(48)]
    else:
        rows = [mix_rates(0.5)] * 30
    rows = [tuple(float(x) for x in np.reshape(rates, (4, -1)).sum(axis=1)) for rates in rows]
    out: dict[str, Any] = {}
    for name in placement.FORECASTS:
        if name == "arima" and importlib.util.find_spec("statsmodels") is None:
            continue
        errors = [_errors(name, rows, samples, seed) for seed in range(FORECAST_SEEDS)]
        out[name] = {
            "mean": mean_low_high(interval([100 * float(np.mean(error)) for error in errors])),
            "worst": significant(100 * float(np.max(errors))),
        }
    return out


def _errors(name: str, rows: Sequence[tuple[float, ...]], samples: int, seed: int) -> list[float]:
    """Errors of reach by window, from the tenth on."""
    rng = np.random.default_rng([7, seed])
    forecast, errors = placement.make_forecast(name, len(rows[0])), []
    for number, rates in enumerate(rows):
        if number >= 10:
            expected = np.cumsum(forecast.rates())[:-1]
            errors.append(float(np.abs(expected - np.cumsum(rates)[:-1]).mean()))
        forecast.see(rng.multinomial(samples, rates).tolist())
    return errors


def adapt_point() -> dict[str, Any]:
    """Fig. 11: what the plan of 80:20 carries in each mix, and what the mix's own plan carries."""
    fleet = gpu_fleet(V100S, mix_rates(0.8))
    first = placement.place(fleet, slo_ns=SLO_MS * 10**6, headroom=0.0, forms=["serial", "pipeline"]).plan
    out = {}
    for easy in MIXES:
        there = placement.fleet_with_rates(fleet, mix_rates(easy))
        own = placement.place(there, slo_ns=SLO_MS * 10**6, headroom=0.0, forms=["serial", "pipeline"]).plan
        out[f"{easy:g}"] = {
            "plan of 0.8": significant(placement.carried(there, first, 0.0)),
            "own plan": significant(own.rate_per_s),
        }
    return out


def shrinking_batches() -> dict[str, Any]:
    """Fig. 4: sixteen samples go in; how many are left at each ramp."""
    left, out = 1.0, []
    for rate in mix_rates(0.5):
        out.append(significant(16 * left))
        left -= rate
    return {"left": out}
