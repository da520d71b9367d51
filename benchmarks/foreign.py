"""`guarded` as deployed beside `fluid` on tables that nothing was tuned on, also in worlds not as told.

    nice -n 10 python benchmarks/foreign.py --out build/foreign         # a quarter of an hour on one core
    python benchmarks/foreign.py --set batching --out build/batching    # the second set
    python benchmarks/foreign.py --tables 3 --seeds 3 --requests 3000   # a first look

A table of `foreign_tables.json` or `batching_tables.json` is met as a user's is: it is solved and weights are
chosen on streams of their own (generator key 6), then the policies meet the streams of `scheduler.comparison`
(keys 70 and 71).

A difference is a mean over seeds of paired differences with its 95 % interval; it counts as worse or better
where the interval excludes zero. Loads are shares of what an endless queue gets at best. Writes foreign.json
and prints the page.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from foreign_tables import BATCHING_FILE, FILE, Foreign, at_load, evaluation_tables

from fluidnpu.dse import has_numba
from fluidnpu.scheduler import Metrics, Policy, Request, compare, draw_exits, make_policy, measure, poisson, traits_of
from fluidnpu.scheduler.comparison import Truth
from fluidnpu.scheduler.comparison.capacity import predicted_capacity
from fluidnpu.scheduler.comparison.serving import tally_stream
from fluidnpu.scheduler.simulation import interval

METRICS = ("violations_pct", "average_ms", "p99_ms")
NOTHING = {"violations_pct": 0.01, "average_ms": 0.0, "p99_ms": 0.0}  # % violations that are no difference
POLICIES = ("fluid", "guarded", "guarded:dial=2")
CALM, PEAK = 20_000, 5_000  # requests
PEAK_NAME, BURST_NAME = "calm, then peak", "burst, then calm"
SHIPPED = ("serial", "greedy", "fluid", "fluid:drain=1", "optimal", "credit", "guarded")
BURST_LOAD, BURST_SIZE = 0.93, 15  # of the policy's own predicted capacity; times the slots
SETS = {"foreign": FILE, "batching": BATCHING_FILE}
Runs = dict[str, Sequence[Metrics]]
Report = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class World:
    """A world that is not as told: the load told and the truth, for a table."""

    name: str
    about: str
    told: Callable[[Foreign], float]  # load
    truth: Callable[[Foreign], Truth]


def usual(table: Foreign) -> float:
    return table.load


WORLDS = (
    World(name="told 65 %, really 95 %", about="the rate is 46 % higher than told", told=lambda t: 0.65,
          truth=lambda t: Truth(rate_per_s=at_load(t.serving, 0.95))),
    World(name="bursts", about="twice the rate for a fifth of the time, not told", told=usual,
          truth=lambda t: Truth(traffic="bursty")),
    World(name="mixed objectives", about="a fifth have 0.4, a fifth 3 times the objective", told=usual,
          truth=lambda t: Truth(objectives=((0.2, round(0.4 * t.slo_ns)), (0.2, 3 * t.slo_ns)))),
    World(name="slower", about="every run takes 10 % longer than told", told=usual,
          truth=lambda t: Truth(latency_factor=1.1)),
)  # fmt: skip


def differences(runs: Runs, policy: str, other: str = "fluid") -> Report:
    """Mean and half-width of paired differences, means of both, and the verdict, by metric."""
    out: Report = {}
    for name in METRICS:
        ours, theirs = ([float(getattr(m, name)) for m in runs[key]] for key in (policy, other))
        gap = interval([a - b for a, b in zip(ours, theirs, strict=True)])
        verdict = "worse" if gap.mean - gap.half > NOTHING[name] else "better" if gap.mean + gap.half < 0 else "same"
        out[name] = {
            "ours": float(np.mean(ours)),
            "fluid": float(np.mean(theirs)),
            "half": gap.half,
            "verdict": verdict,
        }
    return out


def as_told(table: Foreign, args: argparse.Namespace) -> Report:
    """All policies on one table, in the world as told."""
    setting = table.serving.setting(table.rate_per_s, table.slo_ns)
    begin = time.process_time()
    setting.count_table()
    solved = time.process_time() - begin
    made = [make_policy(name, setting) for name in POLICIES]
    chosen = time.process_time() - begin - solved
    found = compare(table.serving, made, rate_per_s=table.rate_per_s, slo_ns=table.slo_ns, requests=args.requests,
                    seeds=args.seeds, compiled=has_numba())  # fmt: skip
    return {
        "name": table.serving.name,
        "about": table.about,
        "load": table.load,
        "slo_over_alone": table.slo_ns / sum(row[0] for row in table.serving.latency.ns),
        "weights": traits_of(made[1]).weights_from,
        "solve_cpu_s": solved,
        "choose_cpu_s": chosen,
        "unstable": [name for name in POLICIES if found.unstable(name)],
        "over_fluid": {name: differences(dict(found.metrics), name) for name in POLICIES[1:]},
    }


def otherwise(world: World, table: Foreign, args: argparse.Namespace) -> Report:
    """`guarded` and `fluid` on one table in a world that is not as told."""
    rate, truth = at_load(table.serving, world.told(table)), world.truth(table)
    found = compare(table.serving, ["fluid", "guarded"], rate_per_s=rate, slo_ns=table.slo_ns, requests=args.few_requests,
                    seeds=args.few_seeds, truth=truth, compiled=has_numba())  # fmt: skip
    if found.true_load >= 1 or found.unstable("fluid") or found.unstable("guarded"):
        return {"name": table.serving.name, "left_out": "more comes than can be served"}
    return {"name": table.serving.name, "over_fluid": {"guarded": differences(dict(found.metrics), "guarded")}}


def calm_then_peak(table: Foreign, args: argparse.Namespace) -> Report:
    """A calm day at 30 % of the load that can be served, then a peak at 98 %, told 65 %: the peak alone."""
    setting = table.serving.setting(at_load(table.serving, 0.65), table.slo_ns)
    names = ("fluid", "guarded", "fluid:anytime=3%")
    runs: dict[str, list[Metrics]] = {name: [] for name in names}
    made: dict[str, Policy] = {name: make_policy(name, setting) for name in names}
    for seed in range(args.few_seeds):
        rng = np.random.default_rng([74, seed])
        calm = poisson(at_load(table.serving, 0.3), CALM, slo_ns=table.slo_ns, rng=rng)
        peak = poisson(at_load(table.serving, 0.98), PEAK, slo_ns=table.slo_ns, rng=rng)
        last = calm[-1].arrival_ns
        stream = calm + [Request(CALM + r.id, last + r.arrival_ns, last + r.deadline_ns) for r in peak]
        exits = draw_exits(table.serving.exit_rates, len(stream), rng).tolist()
        for name in names:
            tally = tally_stream(table.serving, made[name], stream, exits, compiled=has_numba())
            runs[name].append(measure(tally, warmup=CALM))
    early = {name: float(np.mean([m.anytime_pct for m in runs[name]])) for name in names[2:]}
    return {
        "name": table.serving.name,
        "over_fluid": {"guarded": differences(dict(runs), "guarded")},
        "early_pct": early,
    }


def burst_then_calm(table: Foreign, args: argparse.Namespace) -> Report:
    """Every policy at BURST_LOAD of its predicted capacity, with a burst a quarter into the run and without.

    `stays`: seeds where the last fifth of the run has more than twice the latency of the same stream without
    the burst, and more than the objective. `capacity`: what an endless queue gets over what is predicted.
    """
    out: Report = {"name": table.serving.name, "stays": {}, "capacity": {}}
    slots, count = table.serving.latency.b_max, args.few_requests
    for name in SHIPPED:
        predicted = predicted_capacity(table.serving, name, table.slo_ns)
        policy = make_policy(name, table.serving.setting(BURST_LOAD * predicted, table.slo_ns))
        stays = 0
        for seed in range(args.few_seeds):
            calm, burst = (
                np.array(measured_ns(table, policy, BURST_LOAD * predicted, count, seed, size)[-count // 5 :])
                for size in (0, BURST_SIZE * slots)
            )
            stays += bool(burst.mean() > 2 * calm.mean() and burst.mean() > table.slo_ns)
        out["stays"][name] = stays
        out["capacity"][name] = endless(table, policy) / predicted
    return out


def measured_ns(table: Foreign, policy: Policy, rate: float, count: int, seed: int, burst: int) -> list[int]:
    """Latencies in order of arrival, with a burst of so many a quarter into the run."""
    rng = np.random.default_rng([75, seed])
    times = [r.arrival_ns for r in poisson(rate, count, slo_ns=table.slo_ns, rng=rng)]
    times = sorted(times + [times[count // 4]] * burst)
    stream = [Request(i, at, at + table.slo_ns) for i, at in enumerate(times)]
    exits = draw_exits(table.serving.exit_rates, len(stream), rng).tolist()
    tally = tally_stream(table.serving, policy, stream, exits, compiled=has_numba())
    return [int(end) - at for end, at in zip(tally.end_ns, times, strict=True)]


def endless(table: Foreign, policy: Policy, count: int = 20_000) -> float:
    """Answers a second in the middle of a queue that all came at once."""
    exits = draw_exits(table.serving.exit_rates, count, np.random.default_rng([77, count])).tolist()
    stream = [Request(i, 0, table.slo_ns) for i in range(count)]
    ends = np.sort(tally_stream(table.serving, policy, stream, exits, compiled=has_numba()).end_ns)
    return float(0.8 * count / (ends[9 * count // 10] - ends[count // 10]) * 1e9)


def verdicts(rows: Sequence[Report], policy: str) -> dict[str, dict[str, int]]:
    """How many tables are better, the same and worse by metric, and `any` for worse in any of them."""
    counted = [row["over_fluid"][policy] for row in rows if "over_fluid" in row]
    out = {
        name: {v: sum(row[name]["verdict"] == v for row in counted) for v in ("better", "same", "worse")}
        for name in METRICS
    }
    worse = sum(any(row[name]["verdict"] == "worse" for name in METRICS) for row in counted)
    out["any"] = {"worse": worse, "of": len(counted)}
    return out


def ratio(cell: Report) -> float:
    return float(cell["ours"] / cell["fluid"]) if cell["fluid"] else 1.0


def span(rows: Sequence[Report], policy: str, metric: str) -> tuple[float, float, float]:
    """Least, median and largest ratio to `fluid`'s, over the tables where fluid has any."""
    floor = 0.05 if metric == "violations_pct" else 0.0
    cells = [row["over_fluid"][policy][metric] for row in rows if "over_fluid" in row]
    values = [ratio(cell) for cell in cells if cell["fluid"] > floor] or [1.0]
    return min(values), float(np.median(values)), max(values)


def page(report: Report) -> str:
    """The result as Markdown."""
    rows, size = report["tables"], report["size"]
    lines = [
        "| table | load, objective | violations % | average ms | p99 ms | `guarded` decides with |",
        "|---|---|---|---|---|---|",
    ]
    marks = {"better": "", "same": " =", "worse": " **worse**"}
    for row in rows:
        cells = []
        for name in METRICS:
            cell = row["over_fluid"]["guarded"][name]
            digits = 2 if name == "violations_pct" else 1
            text = f"{cell['fluid']:.{digits}f} → {cell['ours']:.{digits}f} ± {cell['half']:.{digits}f}"
            cells.append(text + marks[cell["verdict"]])
        weights = row["weights"].split(": ")[1].split(",")[0] if ": " in row["weights"] else row["weights"]
        weights = "`fluid`" if weights.startswith("none") else weights
        shape = f"{100 * row['load']:.0f} %, {row['slo_over_alone']:.1f}"
        lines.append(f"| {row['about']} | {shape} | {' | '.join(cells)} | {weights} |")
    lines += ["", "| world | tables | worse in any | violations | average | p99 |", "|---|---|---|---|---|---|"]
    for name, about, found in (
        ("as told", "", rows),
        *((w["name"], w["about"], w["tables"]) for w in report["worlds"] if w["name"] != BURST_NAME),
    ):
        counted = verdicts(found, "guarded")
        cells = []
        for metric in METRICS:
            low, middle, high = span(found, "guarded", metric)
            better, worse = counted[metric]["better"], counted[metric]["worse"]
            cells.append(f"{better} better, {worse} worse; {low:.2f}, {middle:.2f}, {high:.2f}")
        title = f"{name} ({about})" if about else name
        lines.append(f"| {title} | {counted['any']['of']} | {counted['any']['worse']} | {' | '.join(cells)} |")
    lines += [
        "",
        "| dial | worse than `fluid` in p99 | violations over `fluid`'s | p99 over `fluid`'s |",
        "|---|---|---|---|",
    ]
    for name in ("guarded", "guarded:dial=2"):
        worse = verdicts(rows, name)["p99_ms"]["worse"]
        cells = [
            "least {:.2f}, median {:.2f}, largest {:.2f}".format(*span(rows, name, m))
            for m in ("violations_pct", "p99_ms")
        ]
        lines.append(f"| `{name}` | {worse} of {len(rows)} | {' | '.join(cells)} |")
    lines += [
        "",
        f"| policy, at {BURST_LOAD:.0%} of its capacity | tables where a burst stays | throughput of an endless queue over the predicted |",
        "|---|---|---|",
    ]
    bursts = next(w["tables"] for w in report["worlds"] if w["name"] == BURST_NAME)
    for name in SHIPPED if bursts else ():
        stays = sum(row["stays"][name] > 0 for row in bursts)
        shares = [row["capacity"][name] for row in bursts]
        lines.append(f"| `{name}` | {stays} of {len(bursts)} | {min(shares):.3f} to {max(shares):.3f} |")
    early = [row["early_pct"] for w in report["worlds"] for row in w["tables"] if "early_pct" in row]
    if early:
        most = {name: max(row[name] for row in early) for name in early[0]}
        lines += ["", "Anytime answers in the peak, the most of any table: "
                  + ", ".join(f"`{name}` {value:.1f} %" for name, value in most.items()) + "."]  # fmt: skip
    made = (f"{size['seeds']} seeds of {size['requests']} requests "
              f"as told, {size['few_seeds']} seeds of {size['few_requests']} in the other worlds. "
              f"It took {report['cpu_s']:.0f} CPU seconds, of which "
              f"solving took {np.median([r['solve_cpu_s'] for r in rows]):.1f} and choosing "
              f"{np.median([r['choose_cpu_s'] for r in rows]):.1f} a table in the median (all places of the dial at once).")  # fmt: skip
    lines += ["", textwrap.fill(made, 108, break_long_words=False, break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=list(SETS), default="foreign", help="the frozen set of tables")
    parser.add_argument("--tables", type=int, default=100, help="the first so many")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--few-seeds", type=int, default=8)
    parser.add_argument("--few-requests", type=int, default=20_000, help="in worlds that are not as told")
    parser.add_argument("--few-tables", type=int, default=100, help="in worlds that are not as told")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=Path("build/foreign"))
    parser.add_argument("--resume", action="store_true", help="go on with what --out holds")
    args = parser.parse_args()
    tables = list(evaluation_tables(SETS[args.set]))[: args.tables]
    begin, rows, worlds = start(args)
    for table in tables:
        if all(row["name"] != table.serving.name for row in rows):
            rows.append(as_told(table, args))
            told = rows[-1]["over_fluid"]["guarded"]
            said = ", ".join(f"{ratio(told[m]):.2f} {told[m]['verdict']}" for m in METRICS)
            print(f"{table.serving.name}: {said}", file=sys.stderr, flush=True)
            leave(args, begin, rows, worlds)
    for table in tables[: args.few_tables]:
        for name, body in worlds.items():
            if all(row["name"] != table.serving.name for row in body["tables"]):
                world = next((w for w in WORLDS if w.name == name), None)
                special = {PEAK_NAME: calm_then_peak, BURST_NAME: burst_then_calm}
                body["tables"].append(special[name](table, args) if world is None else otherwise(world, table, args))
                leave(args, begin, rows, worlds)
        print(f"{table.serving.name}: in other worlds", file=sys.stderr, flush=True)
    print(page(json.loads((args.out / "foreign.json").read_text())), end="")


def start(args: argparse.Namespace) -> tuple[float, list[Report], dict[str, Report]]:
    """The CPU seconds before this run, the tables so far, and the other worlds so far."""
    worlds: dict[str, Report] = {w.name: {"name": w.name, "about": w.about, "tables": []} for w in WORLDS}
    worlds[PEAK_NAME] = {"name": PEAK_NAME, "about": "30 %, then 98 %, told 65 %: the peak alone", "tables": []}
    worlds[BURST_NAME] = {"name": BURST_NAME, "about": f"{BURST_LOAD:.0%} of the policy's own capacity", "tables": []}
    if not args.resume:
        return time.process_time(), [], worlds
    old = json.loads((args.out / "foreign.json").read_text())
    worlds |= {body["name"]: body for body in old["worlds"]}
    return time.process_time() - old["cpu_s"], old["tables"], worlds


def leave(args: argparse.Namespace, begin: float, rows: Sequence[Report], worlds: dict[str, Report]) -> None:
    """Write what there is so far."""
    sizes = {key: getattr(args, key) for key in ("seeds", "few_seeds", "few_requests", "few_tables", "requests")}
    words = " ".join(f"--{key.replace('_', '-')} {value}" for key, value in sizes.items())
    report = {"command": f"python benchmarks/foreign.py --set {args.set} {words}", "size": sizes,
              "cpu_s": time.process_time() - begin, "tables": rows, "worlds": list(worlds.values())}  # fmt: skip
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "foreign.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
