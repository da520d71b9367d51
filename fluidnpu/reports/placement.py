"""The page of one plan (`place --report`): picture, forms, curves of rate and cost, and a loss of devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fluidnpu import scheduler
from fluidnpu.scheduler import placement
from fluidnpu.studies.drawing import inline_figure, inline_panels, page_template

from .. import words
from ..quantities import plain
from .placement_figures import Offered, Priced, cost_curve, faults_over_time, goodput_curves
from .plan_picture import plan_picture

OFFERED = (0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5)  # of the planned rate
PRICED = 6  # rates up to the planned one
COUNT = 6_000  # requests a point
LOSS_S = 12.0  # of the run with lost devices, at the most
MOST = 60_000  # requests of that run, at the most
LOSS_RATE = 0.9  # of the planned rate
BINS = 60
GOOD_PCT = 99.0
WORDS = (
    "form",
    "planned requests/s",
    "cost an hour",
    "longest ms",
    "devices",
    "pool",
    "type",
    "network",
    "blocks",
    "batch",
    "time share",
    "entering/s",
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The question that a plan answers, so that the page can ask it again for other rates."""

    network: str | None
    slo_ns: int
    slack: float
    headroom: float
    nodes: int
    rate_per_s: float | None = None
    budget_micros: int | None = None
    overlap: bool = True


def render_placement(fleet: placement.Fleet, placed: placement.Placement, asked: Asked) -> str:
    """Render a plan; curves are of the twin (simulated), for plans of one network only."""
    plan = placed.plan
    alone = len(plan.networks) == 1
    lines = _goodput(fleet, plan, asked) if alone else {}
    priced = _prices(fleet, plan, asked) if alone else []
    loss = _loss(fleet, plan) if alone else None
    loads = placement.loads(fleet, plan)
    unit = f"{plain(plan.cost_micros / 1e6, 4)} an hour"
    return page_template(__package__, "placement.html.j2").render(
        fleet=fleet,
        plan=plan,
        forms=placed.forms,
        cost=unit,
        plain=plain,
        words=words.explain_words(WORDS),
        picture=plan_picture(fleet, plan),
        rows=[(pool, load, _links(load)) for pool, load in zip(plan.pools, loads, strict=True)],
        head=placement.head_load(fleet, plan),
        bottleneck=_bottleneck(fleet, plan, loads),
        goodput=inline_panels(goodput_curves(lines, plan.rate_per_s, GOOD_PCT)) if lines else "",
        points=lines,
        prices=inline_panels(cost_curve(priced, "an hour")) if len(priced) > 1 else "",
        loss=loss,
        faults="" if loss is None else inline_figure(loss.figure, "Requests in time as devices are lost"),
        count=COUNT,
        slack=asked.slack,
        headroom=asked.headroom,
    )


def _links(load: placement.Load) -> float:
    return max(load.link_in, load.link_out)


def _bottleneck(fleet: placement.Fleet, plan: placement.Plan, loads: Sequence[placement.Load]) -> str:
    """Say what is busiest: a pool's devices, its links, or the front's."""
    shares = [(load.total, f"the devices of pool {k}") for k, load in enumerate(loads)]
    shares += [(_links(load), f"the links of pool {k}") for k, load in enumerate(loads)]
    shares += [(placement.head_load(fleet, plan), "the front's link")]
    share, what = max(shares)
    return f"{what}, {100 * share:.0f} % busy at the planned rate"


def _goodput(fleet: placement.Fleet, plan: placement.Plan, asked: Asked) -> dict[str, list[Offered]]:
    """Serve the plan, and plain data parallel where that is another plan, at rates around the planned one."""
    plans = {plan.form: plan}
    try:
        plain = placement.place(
            fleet,
            asked.network,
            slo_ns=asked.slo_ns,
            slack=asked.slack,
            headroom=asked.headroom,
            forms=("data parallel",),
        ).plan
    except scheduler.PlacementError:
        plain = plan
    if asked.rate_per_s is None and asked.budget_micros is None and plain.form != plan.form:
        plans[plain.form] = plain
    return {
        name: [_offered(fleet, plan_, share * plan.rate_per_s) for share in OFFERED] for name, plan_ in plans.items()
    }


def _offered(fleet: placement.Fleet, plan: placement.Plan, rate: float) -> Offered:
    served = placement.serve_plan(fleet, plan, rate_per_s=rate, count=COUNT, seed=1)
    return Offered(rate_per_s=rate, goodput_per_s=rate * served.in_time, in_time_pct=100 * served.in_time)


def _prices(fleet: placement.Fleet, plan: placement.Plan, asked: Asked) -> list[Priced]:
    """Plan least cost for rates up to the planned one, and beyond it while the fleet carries them."""
    rows = []
    for step in range(1, PRICED + 1 + (PRICED // 2 if asked.rate_per_s else 0)):
        rate = plan.rate_per_s * step / PRICED * (1 - 1e-9)
        try:
            placed = placement.place(
                fleet,
                asked.network,
                slo_ns=asked.slo_ns,
                slack=asked.slack,
                headroom=asked.headroom,
                overlap=asked.overlap,
                rate_per_s=rate,
                nodes=asked.nodes,
            ).plan
        except scheduler.PlacementError:
            break
        used = sum(len(pool.devices) for pool in placed.pools)
        rows.append(Priced(rate_per_s=rate, cost=placed.cost_micros / 1e6, devices=used))
    return rows


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Devices that are away for a while: who, when (s), the shares in time before, meanwhile and after."""

    devices: tuple[str, ...]
    from_s: float
    to_s: float
    rate_per_s: float
    in_time_pct: tuple[float, float, float]
    again: int
    unanswered: int
    figure: str


def _loss(fleet: placement.Fleet, plan: placement.Plan) -> Loss:
    """Serve the plan while a tenth of its largest pool, one device at least, is away for a third of the
    time.
    """
    pool = max(plan.pools, key=lambda pool_: len(pool_.devices))
    gone = pool.devices[: max(1, len(pool.devices) // 10)]
    rate = LOSS_RATE * plan.rate_per_s
    span_s = min(LOSS_S, MOST / rate)
    span_s = max(span_s, 50 * plan.slo_ns / 1e9)
    start, stop = span_s / 3, 2 * span_s / 3
    faults = [
        placement.Fault(at_ns=round(1e9 * at), device=device, back=back)
        for at, back in ((start, False), (stop, True))
        for device in gone
    ]
    served = placement.serve_plan(
        fleet, plan, rate_per_s=rate, count=max(100, round(rate * span_s)), seed=1, faults=faults
    )
    arrival_s = served.arrival_ns / 1e9
    good = (served.end_ns >= 0) & (served.latency_ns <= plan.slo_ns)
    edges = np.linspace(0, arrival_s[-1], BINS + 1)
    width = edges[1] - edges[0]
    offered, _ = np.histogram(arrival_s, edges)
    in_time, _ = np.histogram(arrival_s[good], edges)
    parts = [good[arrival_s < start], good[(arrival_s >= start) & (arrival_s < stop)], good[arrival_s >= stop]]
    shares = [100 * float(part.mean()) if len(part) else 0.0 for part in parts]
    return Loss(
        devices=gone,
        from_s=start,
        to_s=stop,
        rate_per_s=rate,
        in_time_pct=(shares[0], shares[1], shares[2]),
        again=served.again,
        unanswered=len(served.end_ns) - served.answered,
        figure=faults_over_time(
            [float(x) for x in (edges[:-1] + edges[1:]) / 2],
            [float(x) for x in offered / width],
            [float(x) for x in in_time / width],
            (start, stop),
        ),
    )
