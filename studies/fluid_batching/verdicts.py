"""The paper's statements with the outcome here: pure functions of the study's dictionary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..statements import Verdict, link_statements
from ..writing import plus_minus
from .design_verdicts import batch_16, fbcb, figure_1, figure_10, prototype, table_1
from .paper import Sweep, sweeps, table2_rows

NEAR_POINTS = 2.0  # violations are called equal within two points: the paper averages three seeds of unknown length
SIMILAR = 1.15  # "similar" latency: within 15 %
FITTED_WITHIN = 0.05  # of the paper's average, to which the row's table was scaled
LEAST_OVER_ALONE = 4.0  # an objective below this many times one sample alone is "excessively low"
FEW_PCT = 1.0  # "no violations": a p99 objective is met
GAIN_RANGES = {"Fig. 7": (5.0, 18.0, 20.4), "Fig. 8": (25.0, 35.0, 13.5)}  # rates a second, utilisation gain in %
HEADLINE_LATENCY, HEADLINE_VIOLATIONS = 1.97, 6.7  # of the abstract
TITLES = {  # of the table or figure that has the numbers of a statement, by how its place begins
    "Fig. 10": "Fig. 10",
    "Fig. 1": "Fig. 1: busy MAC efficiency with and without exits, and GOP/s by part",
    "abstract": "Fig. 7",
    "Table II": "Table II",
    "Table I": "Table I",
    "Section IV, resources": "Table I",
    "Section III-B, calls": "Table II",
    "Section IV": "Fig. 10",
    "Fig. 7": "Fig. 7",
    "Fig. 8": "Fig. 8",
    "Fig. 9a": "Fig. 9a",
    "Fig. 9b": "Fig. 9b",
}
SUSTAINED = {"Fig. 7": 20.0, "Fig. 8": 55.0}  # requests a second

Body = Mapping[str, Any]


def verdicts(study: Body) -> list[Verdict]:
    """Judge every statement, in the paper's order."""
    parts = study["parts"]
    judgements = [*figure_1(parts), *headline(parts), *prototype(), *table_1(parts["Table I"]), *fbcb(parts["Table I"])]
    for sweep in sweeps():
        judgements += figure_7_or_8(sweep, parts[sweep.figures[0]])
    for row in table2_rows():
        judgements += table2_row(row.name, parts["table2"][row.name], parts["lazy"][row.name])
    judgements += scheduler_calls(parts["lazy"])
    for sweep in sweeps():
        judgements += figure_9(sweep, parts[sweep.figures[1]])
    judgements += figure_10(parts["fig10"]["share of peak"])
    judgements += batch_16(parts["fig10"]["batch 16"])
    return link_statements(judgements, TITLES)


# -- the abstract --------------------------------------------------------------------------------------------


def headline(parts: Body) -> Iterator[Verdict]:
    """Judge the two ratios of the abstract over adaptive batching, in geometric means."""
    slower, later = [], []
    for sweep in sweeps():
        for at in _lines(parts[sweep.figures[0]]).values():
            fluid = _mean(at["fluid"], "average_ms")
            slower += [_mean(v, "average_ms") / fluid for k, v in at.items() if k[:2] in ("FC", "R-")]
        for at in _lines(parts[sweep.figures[1]]).values():
            fluid = _mean(at["fluid"], "violations_pct")
            later += [_mean(v, "violations_pct") / fluid for k, v in at.items() if k[:2] in ("FC", "R-") and fluid]
    for statement, paper, ratios in (
        ("lower average latency than streaming systems of the day", HEADLINE_LATENCY, slower),
        ("fewer violations of a tail objective than those", HEADLINE_VIOLATIONS, later),
    ):
        logs = [math.log(ratio) for ratio in ratios if 0 < ratio < math.inf]
        mean = math.exp(sum(logs) / max(1, len(logs)))
        yield Verdict(
            where="abstract",
            statement=statement,
            paper=f"{paper:g} times on average",
            ours=f"{mean:.2f} times, the geometric mean of {len(logs)} points of six adaptive lines; {len(ratios) - len(logs)} points "
            "have no ratio (unstable, or nobody late)",
            holds=[mean > 1, mean >= paper * (2 - SIMILAR)],
            why="over every rate of Figs. 7 and 8, and every objective of Fig. 9; the paper does not say over what it averages, "
            "and counts LazyBatching in",
        )


# -- Table II ------------------------------------------------------------------------------------------------


def table2_row(name: str, row: Body, lazy: Body) -> Iterator[Verdict]:
    """Judge the four numbers of one row."""
    paper, policies = row["paper"], row["policies"]
    where = f"Table II: {name}, {row['rate_per_s']:g}/s, {row['slo_ms']:g} ms"
    fluid, free = policies["fluid"], next(v for k, v in policies.items() if k.startswith("lazy"))
    yield Verdict(
        where=where,
        statement="Fluid: average latency",
        paper=f"{paper['fluid']['average_ms']:g} ms",
        ours=plus_minus(fluid["average_ms"], unit=" ms"),
        holds=[abs(fluid["average_ms"][0] / paper["fluid"]["average_ms"] - 1) <= FITTED_WITHIN],
        fitted=True,
        why=f"the row's latency table was scaled so that it holds, within {100 * FITTED_WITHIN:g} %",
    )
    gap = fluid["violations_pct"][0] - paper["fluid"]["violations_pct"]
    yield Verdict(
        where=where,
        statement="Fluid: SLO violations",
        paper=f"{paper['fluid']['violations_pct']:g} %",
        ours=plus_minus(fluid["violations_pct"], unit=" %"),
        holds=[abs(gap) <= NEAR_POINTS],
        why=f"{gap:+.1f} points; a prediction, since only the average was fitted",
    )
    yield _lazy_average(where, paper["lazy"]["average_ms"], free["average_ms"], fluid["average_ms"], lazy)
    yield _lazy_violations(where, paper["lazy"]["violations_pct"], free["violations_pct"], lazy)


def _lazy_average(where: str, paper: float, free: Sequence[float], fluid: Sequence[float], lazy: Body) -> Verdict:
    cost = lazy["fitted_cost_us"]
    reach = "no cost up to 800 us reaches it" if cost is None else f"{cost} us a layer would"
    return Verdict(
        where=where,
        statement="LazyBatching: average latency, asked at every layer at no cost",
        paper=f"{paper:g} ms",
        ours=plus_minus(free, unit=" ms"),
        holds=[abs(free[0] / paper - 1) <= SIMILAR - 1],
        why=f"{100 * (free[0] / fluid[0] - 1):+.0f} % against Fluid on the same hardware: unaware of exits, coarse in its estimates: that does not "
        f"make the published gap; {reach}",
    )


def _lazy_violations(where: str, paper: float, free: Sequence[float], lazy: Body) -> Verdict:
    fitted = lazy["fitted"]
    ours = None if fitted is None else fitted["violations_pct"]
    gap = math.inf if ours is None else ours[0] - paper
    near = abs(gap) <= NEAR_POINTS
    if ours is None:
        why = "no cost per layer gives the published average"
    else:
        why = f"{gap:+.1f} points with {lazy['fitted_cost_us']} us a layer (without: {free[0]:.1f} %)"
        if not near:
            why += (
                "; one cost per layer explains the average or the violations, not both, and the paper does not state it"
            )
    return Verdict(
        where=where,
        statement="LazyBatching: SLO violations, at the cost that gives its average",
        paper=f"{paper:g} %",
        ours=plus_minus(ours, unit=" %"),
        holds=[near],
        why=why,
    )


def scheduler_calls(lazy: Body) -> Iterator[Verdict]:
    """Judge the number of questions to each scheduler."""
    calls = {name: entry["calls_over_fluid"] for name, entry in lazy.items()}
    resnet = [value for name, value in calls.items() if name.startswith("ResNet")]
    yield Verdict(
        where="Section III-B, calls",
        statement="fewer scheduler calls than layer-wise preemption, ResNet-50 with four exits",
        paper="16.6 times",
        ours=", ".join(f"{value:.1f} ({name})" for name, value in calls.items()),
        holds=[min(resnet) > 10, all(abs(v / 16.6 - 1) <= 0.1 for v in resnet)],
        why="every question to either policy under the row's traffic, with 14 (24) equal layers a stage; the paper does not say how it counts",
    )


# -- Figs. 7 to 9 --------------------------------------------------------------------------------------------


def _lines(part: Body) -> dict[float, Body]:
    """Give the lines by x, in order."""
    return {float(x): part[x]["lines"] for x in sorted(part, key=float)}


def _mean(cell: Body, key: str) -> float:
    value = cell[key]
    return math.inf if value is None else value[0]


def figure_7_or_8(sweep: Sweep, part: Body) -> Iterator[Verdict]:
    """Judge the statements of section IV about rates, low to high."""
    lines = _lines(part)
    where = f"{sweep.figures[0]}: {sweep.row.name}, {sweep.slo_ms} ms"
    first = next(iter(lines.values()))
    lowest = f"at {next(iter(lines)):g}/s"
    average = {name: _mean(entry, "average_ms") for name, entry in first.items()}
    waits = {name: average[name] for name in ("R-s", "R-m", "R-l", "fluid")}
    yield Verdict(
        where=where,
        statement="slow arrivals: the waits of AdaptB-M and -L cost latency; S balances better",
        paper="excessive latency",
        ours=f"average {lowest}: " + ", ".join(f"{k} {v:.0f} ms" for k, v in waits.items()),
        holds=[average["R-l"] > average["R-m"] > 1.5 * average["R-s"]],
        why="a timeout that is a share of the objective is waited for whenever the batch does not fill",
    )
    others = min(v for k, v in average.items() if k not in ("serial", "credit", "guarded"))
    efficiency = {name: entry["busy_mac_efficiency_pct"][0] for name, entry in first.items()}
    on_same = {k: efficiency[k] for k in ("serial", "greedy", "fluid")}
    yield Verdict(
        where=where,
        statement="slow arrivals: SERIAL has the lowest latency and the lowest utilisation",
        paper="stated without numbers",
        ours=f"{lowest}: average {average['serial']:.1f} ms, least of the others {others:.1f} ms; busy MAC efficiency "
        + ", ".join(f"{k} {v:.1f} %" for k, v in on_same.items()),
        holds=[average["serial"] <= 1.01 * others, min(on_same.values()) == on_same["serial"]],
        why="utilisation is compared on the same hardware, as busy MAC efficiency",
    )
    yield _similar_to_serial(where, sweep, lines)
    yield from _high_rates(where, sweep, part)


def _similar_to_serial(where: str, sweep: Sweep, lines: Mapping[float, Body]) -> Verdict:
    low, high, gain = GAIN_RANGES[sweep.figures[0]]
    span = [at for x, at in lines.items() if low <= x <= high]
    latency = [_mean(at["fluid"], "average_ms") / _mean(at["serial"], "average_ms") for at in span]
    p99 = [_mean(at["fluid"], "p99_ms") for at in span]
    more = [
        100 * (at["fluid"]["busy_mac_efficiency_pct"][0] / at["serial"]["busy_mac_efficiency_pct"][0] - 1)
        for at in span
    ]
    mean_gain = sum(more) / len(more)
    met = [x for x in lines if _mean(lines[x]["fluid"], "p99_ms") <= sweep.slo_ms]
    alone, full = (sweep.row.serving.latency.between(0, 3, b) / b for b in (1, 8))
    return Verdict(
        where=where,
        statement=f"{low:g} to {high:g}/s: average like SERIAL's, p99 within the objective, higher utilisation",
        paper=f"utilisation {gain:g} % higher on average",
        ours=f"average {min(latency):.2f} to {max(latency):.2f} of SERIAL's, p99 up to {max(p99):.0f} ms "
        f"(met up to {max(met, default=0):g}/s), busy MAC efficiency {mean_gain:+.1f} %",
        holds=[max(latency) <= SIMILAR, max(p99) <= sweep.slo_ms, mean_gain >= gain / 1.5],
        why=f"on the fitted table a full batch is {100 * (alone / full - 1):.0f} % faster a sample than single samples, so no more is to be gained"
        "; the tail is that of Poisson arrivals, which SERIAL has, too",
    )


def _high_rates(where: str, sweep: Sweep, part: Body) -> Iterator[Verdict]:
    lines = _lines(part)
    lightest = part[min(part, key=float)]
    limit = {kind: lightest["rate_per_s"] / load for kind, load in lightest["least_load"].items()}
    yield Verdict(
        where=where,
        statement="FC-only batching reaches its limit first, then R; Fluid goes furthest",
        paper="order of the plateaus",
        ours="capacity " + ", ".join(f"{kind} {limit[kind]:.1f}/s" for kind in ("SERIAL", "FC", "R", "fluid")),
        holds=[limit["FC"] < limit["R"], limit["R"] < limit["fluid"]],
        why="capacity is arithmetic: every run at its most efficient batch; greedy batching, which the paper leaves out, has Fluid's",
    )
    steady = [x for x, at in lines.items() if not at["fluid"]["unstable"]]
    fluid, target = max(steady), SUSTAINED[sweep.figures[0]]
    beyond = f"{sweep.row.board}'s table, fitted to the average of Table II, allows {limit['fluid']:.1f}/s at best"
    yield Verdict(
        where=where,
        statement="sustained processing rate",
        paper=f"above {target:g}/s",
        ours=f"{fluid:g}/s, the highest stable rate tried",
        holds=[fluid >= target],
        why=beyond if fluid >= target else f"{beyond}: both of the paper's figures cannot come from that table",
    )
    busy, efficiency = (lines[fluid]["fluid"][key][0] for key in ("busy_pct", "busy_mac_efficiency_pct"))
    yield Verdict(
        where=where,
        statement="utilisation at high traffic",
        paper="close to 95 %",
        ours=f"at {fluid:g}/s: NPU busy {busy:.0f} % of the time, busy MAC efficiency {efficiency:.0f} %",
        holds=[busy >= 93, efficiency >= 93],
        why="the paper does not define it; the share of time that the NPU runs is reached, multiply-accumulates over the peak are not: "
        "the fitted tables are that much slower than the peak",
    )
    yield _over_serial(where, sweep, lines)


def _over_serial(where: str, sweep: Sweep, lines: Mapping[float, Body]) -> Verdict:
    both = [
        at
        for x, at in lines.items()
        if x > sweep.rate_per_s and not (at["serial"]["unstable"] or at["fluid"]["unstable"])
    ]
    gains = {
        key: [_mean(at["serial"], key) / _mean(at["fluid"], key) for at in both] for key in ("average_ms", "p99_ms")
    }
    spans = [
        f"{name} {min(gains[key]):.2f} to {max(gains[key]):.2f}"
        for name, key in (("average", "average_ms"), ("p99", "p99_ms"))
        if both
    ]
    least, most = ([reach(values) for values in gains.values()] if both else [0.0] for reach in (min, max))
    return Verdict(
        where=where,
        statement=f"above {sweep.rate_per_s:g}/s: better average and tail than SERIAL",
        paper="significant gains in both",
        ours="SERIAL over Fluid: " + (", ".join(spans) or "no rate at which both are stable"),
        holds=[*(gain > 1 for gain in most), *(gain > 1 for gain in least)],
        why="at the best rate and at the worst, average and p99; the gain grows with the rate"
        + ("" if min(least) > 1 else "; just above the middle of the range there is none"),
    )


def figure_9(sweep: Sweep, part: Body) -> Iterator[Verdict]:
    """Judge the violations by objective."""
    lines = _lines(part)
    where = f"{sweep.figures[1]}: {sweep.row.name}, {sweep.rate_per_s:g}/s"
    widest = max(lines)
    loose = {k: _mean(v, "violations_pct") for k, v in lines[widest].items()}
    adaptive = {k: v for k, v in loose.items() if k[:2] in ("FC", "R-")}
    yield Verdict(
        where=where,
        statement="AdaptB violates even a relaxed objective",
        paper="significant violations at the right of the axis",
        ours=f"at {widest:g} ms: " + ", ".join(f"{k} {v:.1f} %" for k, v in adaptive.items()),
        holds=[*[v > FEW_PCT for v in adaptive.values()]],
        why="M and L wait for a share of the objective, so relaxing it does not help them; S does meet a relaxed objective here",
    )
    fluid = {x: _mean(at["fluid"], "violations_pct") for x, at in lines.items()}
    good = min((x for x, v in fluid.items() if v < FEW_PCT), default=math.inf)
    at_figure = fluid[float(sweep.slo_ms)]
    relaxed = [v for x, v in fluid.items() if x >= LEAST_OVER_ALONE * sweep.row.serving.latency.between(0, 3, 1) / 1e6]
    yield Verdict(
        where=where,
        statement="Fluid: no violations unless the objective is excessively low",
        paper="none",
        ours=f"{at_figure:.1f} % at {sweep.slo_ms} ms; below {FEW_PCT:g} % from {good:g} ms on",
        holds=[at_figure < FEW_PCT, *(v < FEW_PCT for v in relaxed)],
        why=f"none: below {FEW_PCT:g} %, at the figure's objective and at each from {LEAST_OVER_ALONE:g} times one sample alone on; Poisson arrivals "
        "bunch now and then, and greedy and SERIAL are late then, too; the paper's three runs may have been too short to see it",
    )
    worse = {
        x: (_mean(at["fluid"], "violations_pct"), _mean(at["serial"], "violations_pct")) for x, at in lines.items()
    }
    fewer = [f <= s + 0.1 for f, s in worse.values()]
    yield Verdict(
        where=where,
        statement="similar or fewer violations than SERIAL",
        paper="at every objective",
        ours=", ".join(f"{x:g} ms: {f:.1f} against {s:.1f} %" for x, (f, s) in worse.items()),
        holds=[*fewer],
        why="holds at every objective" if all(fewer) else "holds at some objectives only",
    )
