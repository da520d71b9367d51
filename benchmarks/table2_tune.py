"""Tunes the weights of `Credit` on the rows of Table II: evolution strategy over simulations in the compiled loop (needs Numba).

The weights that ship were made by these runs, in this order (`{row}` is filled in by the script):

    python benchmarks/table2_tune.py --goal balanced --generations 140
    tune="python benchmarks/table2_tune.py --sigma 0.08 --start-from {row}-balanced.json"
    $tune --goal balanced --generations 90
    $tune --goal balanced --generations 60 --anytime 0.03
    $tune --goal on-time --generations 60
    $tune --goal tail --generations 60
    $tune --goal balanced --generations 50 --seeds 2 --robust --sigma 0.1

Training streams are seeds [5, 0..2], 20,000 requests each; nothing here touches the generators that
results are reported on (`scheduler.comparison.compare.ARRIVALS` and `EXITS`).
Writes scheduler/policies/tuned/*.json, which ship with the package.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Anytime, Fluid, World, draw_exits, halve_early_exits, measure, poisson, simulate
from fluidnpu.scheduler.compiled import kernel
from fluidnpu.scheduler.compiled.trace import rules_of
from fluidnpu.scheduler.policies.credit import KNOTS, Credit, Weights
from fluidnpu.scheduler.policies.setting import Setting
from fluidnpu.scheduler.policies.weights import fingerprint, read_weights

HERE = Path(__file__).parent
TABLE2 = HERE.parent / "tests" / "data" / "table2_latency.json"
WEIGHTS = HERE.parent / "scheduler" / "policies" / "tuned"
K = len(KNOTS)


def setting_of(row: dict) -> Setting:
    table = LatencyTable(ns=tuple(map(tuple, row["latency_ns"])))
    rates = tuple(row["exit_rates"])
    return Setting(latency=table, exit_rates=rates, rate_per_s=row["rate_per_s"], slo_ns=row["slo_ms"] * 10**6)


class Loop:
    """One setting, ready to run many weights on streams of (arrivals, exits)."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.believed = setting, np.array(setting.latency.ns, np.int64)

    def run(self, weights: Weights, arrival, leaves, anytime=0.0, rescue_only=False, factor=1.0):
        """Latency in ns and early-answer flag of every request. Runs take `factor` times the table."""
        policy = Credit(self.setting, weights)
        if anytime:
            policy = Anytime(policy, anytime, rescue_only)
        took, b_max = np.rint(self.believed * factor).astype(np.int64), self.believed.shape[1]
        machine = kernel.Machine(self.believed, took, b_max, b_max)
        stream = kernel.Stream(arrival, arrival + self.setting.slo_ns, leaves, arrival)
        broken, fates, _, _ = kernel.serve(stream, machine, rules_of(policy, machine))
        assert not broken
        return fates[:, 1] - arrival, fates[:, 3]


def streams(row: dict, seeds, count: int = 20_000):
    """Training streams; common to all candidates."""
    out = []
    for seed in seeds:
        rng = np.random.default_rng([5, seed])
        requests = poisson(row["rate_per_s"], count, slo_ns=row["slo_ms"] * 10**6, rng=rng)
        exits = draw_exits(row["exit_rates"], count, rng)
        out.append((requests, np.array([r.arrival_ns for r in requests]), exits.astype(np.int64)))
    return out


def evaluate(loop: Loop, data, weights: Weights, anytime=0.0, rescue_only=False, factor=1.0):
    """Mean violations (%), average (ms), p99 (ms), anytime answers (%) over the streams."""
    rows = []
    for _, arrival, leaves in data:
        got = loop.run(weights, arrival, leaves, anytime, rescue_only, factor)
        skip = len(arrival) // 20
        ms = got[0][skip:] / 1e6
        k = int(0.99 * len(ms))
        rows.append(
            (
                100 * np.mean(got[0][skip:] > loop.setting.slo_ns),
                ms.mean(),
                np.partition(ms, k)[k],
                100 * got[1][skip:].mean(),
            )
        )
    return np.mean(rows, axis=0)


def loss(goal: str, result, fluid, stressed: bool = False) -> float:
    """What tuning minimises; `fluid` holds the same three numbers for Algorithm 1 on the same streams."""
    v, a, p = (result[i] / fluid[i] for i in range(3))
    if goal == "on-time":  # late answers are worthless
        return v + 0.01 * p + 0.01 * a
    if goal == "tail":  # p99 is the contract
        return p + 0.05 * v + 0.05 * a
    if stressed:  # no worse than fluid, if that can be had
        return v + 2 * max(0.0, p - 1) + 2 * max(0.0, a - 1)
    return v + 10 * max(0.0, p - 0.96) + 10 * max(0.0, a - 0.97)  # balanced: no worse than fluid in anything


def worlds_of(row: dict, seeds: int, robust: bool):
    """(streams, factor on the latency, stressed, share in the loss): as told and, if robust, 10 % slower and with early exits halved."""
    worlds = [(streams(row, range(seeds)), 1.0, False, 1.0)]
    if robust:
        halved = row | {"exit_rates": halve_early_exits(row["exit_rates"])}
        worlds += [(streams(row, [50]), 1.1, True, 0.3), (streams(halved, [51]), 1.0, True, 0.3)]
    return worlds


def of_fluid(setting: Setting, data, factor: float):
    """Violations, average and p99 of Algorithm 1 on these streams."""
    slow = LatencyTable(ns=tuple(tuple(round(ns * factor) for ns in line) for line in setting.latency.ns))
    found = [
        measure(
            simulate(
                r, Fluid(), World(latency=setting.latency, exits=e.tolist(), exit_rates=setting.exit_rates, actual=slow)
            )
        )
        for r, _, e in data
    ]
    return np.mean([(m.violations_pct, m.average_ms, m.p99_ms) for m in found], axis=0)


def start(stages: int) -> np.ndarray:
    """Credit that falls to nothing before the deadline, a little later at later stages."""
    knots = np.array(KNOTS)
    rows = [0.8 * np.clip((0.8 + 0.05 * s - knots) / 0.3, 0, 1) for s in range(stages)]
    return np.concatenate([*rows, np.zeros(K), [1.0]])


def to_weights(x: np.ndarray) -> Weights:
    rows = x[:-1].reshape(-1, K)
    return Weights(
        v=tuple(tuple(map(float, r)) for r in rows[:-1]), done=tuple(map(float, rows[-1])), on_time=float(x[-1])
    )


def from_weights(w: Weights) -> np.ndarray:
    return np.concatenate([*map(np.array, w.v), np.array(w.done), [w.on_time]])


def evolve(f, x, sigma, generations, rng, population=20, tell=lambda *_: None):
    """CMA-ES (Hansen's tutorial, with its default constants); returns the final mean."""
    n, mu = len(x), population // 2
    w = np.log(mu + 0.5) - np.log(np.arange(1, mu + 1))
    w /= w.sum()
    eff = 1 / np.sum(w**2)
    cc, cs = (4 + eff / n) / (n + 4 + 2 * eff / n), (eff + 2) / (n + eff + 5)
    c1 = 2 / ((n + 1.3) ** 2 + eff)
    cmu = min(1 - c1, 2 * (eff - 2 + 1 / eff) / ((n + 2) ** 2 + eff))
    damp = 1 + 2 * max(0, np.sqrt((eff - 1) / (n + 1)) - 1) + cs
    chi = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
    pc, ps, cov, basis, scale = np.zeros(n), np.zeros(n), np.eye(n), np.eye(n), np.ones(n)
    for g in range(generations):
        if g % 5 == 0:
            values, basis = np.linalg.eigh((cov + cov.T) / 2)
            scale = np.sqrt(np.maximum(values, 1e-16))
        steps = (rng.standard_normal((population, n)) * scale) @ basis.T
        values = np.array([f(x + sigma * s) for s in steps])
        order = np.argsort(values, kind="stable")[:mu]
        move = w @ steps[order]
        x = x + sigma * move
        ps = (1 - cs) * ps + np.sqrt(cs * (2 - cs) * eff) * (basis @ ((basis.T @ move) / scale))
        still = np.linalg.norm(ps) / np.sqrt(1 - (1 - cs) ** (2 * g + 2)) < (1.4 + 2 / (n + 1)) * chi
        pc = (1 - cc) * pc + still * np.sqrt(cc * (2 - cc) * eff) * move
        rank_one = np.outer(pc, pc) + (1 - still) * cc * (2 - cc) * cov
        cov = (1 - c1 - cmu) * cov + c1 * rank_one + cmu * (steps[order].T * w) @ steps[order]
        sigma *= np.exp((cs / damp) * (np.linalg.norm(ps) / chi - 1))
        tell(g, values.min(), np.median(values), sigma)
    return x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="0,1,2,3")
    parser.add_argument("--goal", default="balanced", choices=["balanced", "on-time", "tail"])
    parser.add_argument("--anytime", type=float, default=0.0, help="share of anytime answers allowed, e.g. 0.03")
    parser.add_argument("--rescue-only", action="store_true")
    parser.add_argument("--robust", action="store_true", help="also in worlds that are not as told")
    parser.add_argument("--generations", type=int, default=150)
    parser.add_argument("--sigma", type=float, default=0.15)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--start-from", help="weights file to start from instead of the built-in start")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    args = parser.parse_args()
    rows = json.loads(TABLE2.read_text())["rows"]
    for index in map(int, args.rows.split(",")):
        begin, row = time.time(), rows[index]
        setting = setting_of(row)
        loop = Loop(setting)
        worlds = worlds_of(row, args.seeds, args.robust)
        references = [of_fluid(setting, data, factor) for data, factor, _, _ in worlds]
        goal = args.goal + ("-robust" if args.robust else "") + ("-anytime" if args.anytime else "")
        name = f"{row['network']}-{row['board'].lower()}-{goal}"
        x = start(setting.latency.stages)
        if args.start_from:
            file = args.out / args.start_from.format(row=f"{row['network']}-{row['board'].lower()}")
            x = from_weights(read_weights(json.loads(file.read_text()), file.name))

        def f(x, loop=loop, worlds=worlds, references=references):
            weights, total = to_weights(x), 0.0
            for (data, factor, stressed, share), reference in zip(worlds, references, strict=True):
                result = evaluate(loop, data, weights, args.anytime, args.rescue_only, factor)
                total += share * loss(args.goal, result, reference, stressed)
            return total

        def tell(g, best, median, sigma):
            if g % 25 == 0:
                print(f"  generation {g}: best {best:.3f}, median {median:.3f}, sigma {sigma:.3f}", flush=True)

        x = np.round(evolve(f, x, args.sigma, args.generations, np.random.default_rng(index), tell=tell), 4)
        for (data, factor, _, _), reference in zip(worlds, references, strict=True):
            result = evaluate(loop, data, to_weights(x), args.anytime, args.rescue_only, factor)
            print(name, "train:", np.round(result, 2), "fluid:", np.round(reference, 2), flush=True)
        print(f"{time.time() - begin:.0f} s", flush=True)
        args.out.mkdir(exist_ok=True)
        body = {"goal": goal, "fingerprint": fingerprint(setting), "anytime": args.anytime, "knots": KNOTS}
        w = to_weights(x)
        (args.out / f"{name}.json").write_text(
            json.dumps(body | {"v": w.v, "done": w.done, "on_time": w.on_time}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
