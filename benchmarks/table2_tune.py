"""Tune the weights of `Credit` on the rows of Table II: an evolution strategy over the compiled loop (Numba).

The weights that ship were made by these runs, in this order (`{row}` is filled in by the script):

    python benchmarks/table2_tune.py --goal balanced --generations 140
    tune="python benchmarks/table2_tune.py --sigma 0.08 --start-from {row}-balanced.json"
    $tune --goal balanced --generations 90
    $tune --goal balanced --generations 60 --anytime 0.03
    $tune --goal on-time --generations 60
    $tune --goal tail --generations 60
    $tune --goal balanced --generations 50 --seeds 2 --robust --sigma 0.1

Tried against drift and left (on two to thirty seeds from 1000 on, never the ones reported):

- tables and gains for the true exit rates or the true latency, as a perfect re-estimation would give
  (ZCU104): `optimal` gains at most 3 points of the average, `credit`'s p99 stays three times `fluid`'s on
  Inception-v3. The tail comes from giving up too many, not from wrong numbers;
- a shorter patience alone (`credit:patience=2`): p99 within 31 % of `fluid`'s, but no longer below it when
  all is as told;
- `fluid` or greedy instead of `optimal` to work off the tail: p99 2 to 17 points higher at about the same
  violations; `optimal` with a queue beyond its table: the average 32 % higher in bursts;
- nobody given up, or 0.5 %: p99 above `fluid`'s when all is as told; fewer given up while many are late:
  the same;
- working off the tail before anybody is late (from 50 or 80 % of the objective): p99 about 3 points lower,
  violations 3 to 17 points higher.

Training streams are seeds [5, 0..2], 20,000 requests each; nothing here touches the generators that
results are reported on (`scheduler.comparison.sources.ARRIVALS` and `EXITS`).
Writes scheduler/policies/tuned/*.json, which ship with the package.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Policy, Request, World, draw_exits, measure, poisson, simulate
from fluidnpu.scheduler.compiled import loop
from fluidnpu.scheduler.compiled.twin import Npu, Stream, twin_of
from fluidnpu.scheduler.policies import Anytime, Credit, Fluid, Setting, Weights
from fluidnpu.scheduler.policies.weights import KNOTS, fingerprint, read_weights
from fluidnpu.scheduler.simulation import halve_early_exits
from fluidnpu.scheduler.tuning.evolution import Evolution
from fluidnpu.scheduler.tuning.tune import to_vector, to_weights
from fluidnpu.studies.fluid_batching.paper import PaperRow, table2_rows

WEIGHTS = Path(__file__).parent.parent / "scheduler" / "policies" / "tuned"
K = len(KNOTS)
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Streams = list[tuple[Sequence[Request], Integers, Integers]]  # requests, their arrivals (ns), their exits


@dataclass(frozen=True, kw_only=True)
class Rescue:
    """Anytime answers that a candidate may give; with `rescue_only`, to late requests alone."""

    share: float = 0.0
    rescue_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Streams in one world, and the share of their loss."""

    streams: Streams
    factor: float = 1.0  # on the latency
    stressed: bool = False
    share: float = 1.0


def setting_of(row: PaperRow) -> Setting:
    """The setting of a row of Table II."""
    return row.serving.setting(row.rate_per_s, row.slo_ns)


class Trainer:
    """One setting, ready to run many weights on streams of (arrivals, exits)."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.believed = setting, np.array(setting.latency.ns, np.int64)

    def run(
        self, weights: Weights, arrival: Integers, leaves: Integers, rescue: Rescue, factor: float = 1.0
    ) -> tuple[Integers, Integers]:
        """Latency in ns and early-answer flag of every request. Runs take `factor` times the table."""
        policy: Policy = Credit(self.setting, weights)
        if rescue.share:
            policy = Anytime(policy, rescue.share, rescue.rescue_only)
        took, b_max = np.rint(self.believed * factor).astype(np.int64), self.believed.shape[1]
        npu = Npu(self.believed, took, b_max, b_max)
        stream = Stream(arrival, arrival + self.setting.slo_ns, leaves)
        compiled = twin_of(policy, stream, npu)
        assert compiled is not None
        book = loop.serve(stream, npu, compiled)
        assert book is not None
        return book.fates[:, 1] - arrival, book.fates[:, 3]


def streams(setting: Setting, seeds: Iterable[int], count: int = 20_000) -> Streams:
    """Training streams; common to all candidates."""
    out: Streams = []
    for seed in seeds:
        rng = np.random.default_rng([5, seed])
        requests = poisson(setting.rate_per_s, count, slo_ns=setting.slo_ns, rng=rng)
        exits = draw_exits(setting.exit_rates, count, rng)
        out.append((requests, np.array([r.arrival_ns for r in requests]), exits.astype(np.int64)))
    return out


def evaluate(trainer: Trainer, trial: Trial, weights: Weights, rescue: Rescue) -> Floats:
    """Mean violations (%), average (ms), p99 (ms), anytime answers (%) over the streams."""
    rows = []
    for _, arrival, leaves in trial.streams:
        latency, early = trainer.run(weights, arrival, leaves, rescue, trial.factor)
        skip = len(arrival) // 20
        ms = latency[skip:] / 1e6
        k = int(0.99 * len(ms))
        missed = 100 * np.mean(latency[skip:] > trainer.setting.slo_ns)
        rows.append((missed, ms.mean(), np.partition(ms, k)[k], 100 * early[skip:].mean()))
    return np.asarray(np.mean(rows, axis=0))


def loss(goal: str, result: Floats, fluid: Floats, stressed: bool = False) -> float:
    """The quantity that tuning minimises; `fluid` holds the same three numbers for Algorithm 1 on the same
    streams.
    """
    v, a, p = (float(result[i] / fluid[i]) for i in range(3))
    if goal == "on-time":  # late answers are worthless
        return v + 0.01 * p + 0.01 * a
    if goal == "tail":  # p99 is the contract
        return p + 0.05 * v + 0.05 * a
    if stressed:  # no worse than fluid, if that can be had
        return v + 2 * max(0.0, p - 1) + 2 * max(0.0, a - 1)
    return v + 10 * max(0.0, p - 0.96) + 10 * max(0.0, a - 0.97)  # balanced: no worse than fluid in anything


def trials_of(row: PaperRow, seeds: int, robust: bool) -> list[Trial]:
    """The world as told and, if robust, one 10 % slower and one with early exits halved."""
    setting = setting_of(row)
    trials = [Trial(streams=streams(setting, range(seeds)))]
    if robust:
        halved = Setting(
            latency=setting.latency,
            exit_rates=halve_early_exits(setting.exit_rates),
            rate_per_s=setting.rate_per_s,
            slo_ns=setting.slo_ns,
        )
        trials += [
            Trial(streams=streams(setting, [50]), factor=1.1, stressed=True, share=0.3),
            Trial(streams=streams(halved, [51]), stressed=True, share=0.3),
        ]
    return trials


def of_fluid(setting: Setting, trial: Trial) -> Floats:
    """Violations, average and p99 of Algorithm 1 on these streams."""
    slow = LatencyTable(ns=tuple(tuple(round(ns * trial.factor) for ns in line) for line in setting.latency.ns))
    metrics = []
    for requests, _, exits in trial.streams:
        world = World(latency=setting.latency, exits=exits.tolist(), exit_rates=setting.exit_rates, actual=slow)
        metrics.append(measure(simulate(requests, Fluid(), world)))
    return np.asarray(np.mean([(m.violations_pct, m.average_ms, m.p99_ms) for m in metrics], axis=0))


def start(stages: int) -> Floats:
    """Credit that falls to nothing before the deadline, a little later at later stages."""
    knots = np.array(KNOTS)
    rows = [0.8 * np.clip((0.8 + 0.05 * s - knots) / 0.3, 0, 1) for s in range(stages)]
    return np.concatenate([*rows, np.zeros(K), [1.0]])


def evolve(
    f: Callable[[Floats], float],
    x: Floats,
    sigma: float,
    generations: int,
    seed: int,
    *,
    tell: Callable[[int, Floats, float], None],
) -> Floats:
    """Run the evolution strategy; return the final mean."""
    search = Evolution(x, sigma=sigma, seed=seed)
    for g in range(generations):
        losses = [f(candidate) for candidate in search.ask()]
        search.tell(losses)
        tell(g, np.array(losses), search.sigma)
    return search.mean


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
    for index in map(int, args.rows.split(",")):
        tune(table2_rows()[index], index, args)


def tune(row: PaperRow, seed: int, args: argparse.Namespace) -> None:
    """Evolve the weights of one row and write them."""
    begin = time.time()
    setting, rescue = setting_of(row), Rescue(share=args.anytime, rescue_only=args.rescue_only)
    trainer, trials = Trainer(setting), trials_of(row, args.seeds, args.robust)
    references = [of_fluid(setting, trial) for trial in trials]
    goal = args.goal + ("-robust" if args.robust else "") + ("-anytime" if args.anytime else "")
    where = f"{row.network}-{row.board.lower()}"
    x = start(setting.latency.stages)
    if args.start_from:
        file = args.out / args.start_from.format(row=where)
        x = to_vector(read_weights(json.loads(file.read_text()), file.name))

    def f(x: Floats) -> float:
        weights, total = to_weights(x), 0.0
        for trial, reference in zip(trials, references, strict=True):
            total += trial.share * loss(args.goal, evaluate(trainer, trial, weights, rescue), reference, trial.stressed)
        return total

    def tell(g: int, values: Floats, sigma: float) -> None:
        if g % 25 == 0:
            best, median = values.min(), np.median(values)
            print(f"  generation {g}: best {best:.3f}, median {median:.3f}, sigma {sigma:.3f}", flush=True)

    x = np.round(evolve(f, x, args.sigma, args.generations, seed, tell=tell), 4)
    w = to_weights(x)
    for trial, reference in zip(trials, references, strict=True):
        result = evaluate(trainer, trial, w, rescue)
        print(f"{where}-{goal}", "train:", np.round(result, 2), "fluid:", np.round(reference, 2), flush=True)
    print(f"{time.time() - begin:.0f} s", flush=True)
    args.out.mkdir(exist_ok=True)
    body = {"goal": goal, "fingerprint": fingerprint(setting), "anytime": args.anytime, "knots": KNOTS}
    text = json.dumps(body | {"v": w.v, "done": w.done, "on_time": w.on_time}, indent=1)
    (args.out / f"{where}-{goal}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
