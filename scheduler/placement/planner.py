"""The planner: every form of serving a network on a fleet, the best of them as a plan, and the reason.

Forms: `stock` (no exits, whole network on every device), `data parallel`, `serial` (chains on one device),
`pipeline` (one chain over the fleet) and `mix` (any pieces anywhere). Each wider form contains the one
before, so a plan is never below data parallel.

>>> from fluidnpu.scheduler.placement.testing import toy_fleet
>>> answer = place(toy_fleet(boards=4), slo_ns=10**9)
>>> answer.plan.form, round(answer.plan.gap_pct, 1)
('data parallel, serial splits', 0.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from ..errors import FleetError, PlacementError
from .dynamic import MOST_STATES, Pipeline, best_pipeline, cheapest_pipeline, states
from .fleet import Fleet
from .integer import GAP, NODES, Mix, best_mix, has_solver
from .options import DeviceKind, Option, Space, obstacles, shrunk, whole_options
from .paths import Piece
from .plan import RAMPS, Job, Plan, Pool, Route

SLACK = 0.1  # share of the objective reserved for effects outside the model
HEADROOM = 0.1  # of a device's time, kept for bunched arrivals
FORMS = ("stock", "data parallel", "serial", "pipeline", "mix")
NARROW = 0.02  # minimum gain of a wider form; its simulation falls about that far short of its plan
_EPS = 1e-9


@dataclass(frozen=True, kw_only=True)
class Form:
    """One form of serving: the rate that it carries, its cost, its bound and its longest latency.

    `bound`: no plan of the form's own space carries more samples a second (for least cost: costs less).
    `why`: the reason where the form has no plan.
    """

    name: str
    rate_per_s: float
    cost_micros: int
    latency_ns: float
    devices: int
    bound: float
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The plan and the forms that it was chosen from."""

    plan: Plan
    forms: tuple[Form, ...]

    def form(self, name: str) -> Form:
        """Give a form by its name. Raises KeyError."""
        return {form.name: form for form in self.forms}[name]


def place(
    fleet: Fleet,
    network: str | None = None,
    *,
    slo_ns: int,
    rate_per_s: float | None = None,
    budget_micros: int | None = None,
    slack: float = SLACK,
    headroom: float = HEADROOM,
    overlap: bool = True,
    batches: Sequence[int] = (),
    forms: Sequence[str] = FORMS,
    gap: float = GAP,
    nodes: int = NODES,
    ramps: Sequence[str] = RAMPS,
) -> Placement:
    """Plan one network: most goodput for the devices or a budget, or with `rate_per_s` least cost for a rate.

    `network` may be left out where the fleet has one. Without SciPy there is no `mix`. `ramps`: as `Space`
    has them. Raises FleetError for a wrong question and PlacementError where no plan exists.
    """
    if network is None:
        if len(fleet.networks) != 1:
            raise FleetError(f"a network must be named among {', '.join(fleet.networks)}")
        network = next(iter(fleet.networks))
    for name, value in (("slack", slack), ("headroom", headroom)):
        if not 0 <= value < 1:
            raise FleetError(f"{name} must be a share of 0 to below 1, not {value:g}")
    if odd := [form for form in forms if form not in FORMS]:
        raise FleetError(f"forms must be among {', '.join(FORMS)}, not {', '.join(odd)}")
    space = Space.of(
        fleet, network, round(slo_ns * (1 - slack)), overlap=overlap, batches=tuple(batches), ramps=tuple(ramps)
    )
    wanted = None if rate_per_s is None else rate_per_s / (1 - headroom)
    asked = _Asked(space, wanted, budget_micros, gap, nodes)
    mixes = {name: asked.solved(name) for name in FORMS if name in forms}
    best = _chosen(mixes, wanted)
    if best is None:
        raise PlacementError(_no_plan(space, rate_per_s))
    rows = tuple(_row(name, candidate, asked, headroom) for name, candidate in mixes.items())
    mix = mixes[best]
    assert mix is not None
    return Placement(plan=_plan(fleet, asked, best, mix, rows, headroom, slo_ns), forms=rows)


class _Asked:
    """One question, and the answers of every form."""

    def __init__(self, space: Space, rate: float | None, budget: int | None, gap: float, nodes: int) -> None:
        self.space, self.rate, self.budget, self.gap, self.nodes = space, rate, budget, gap, nodes
        self.known: Mix | None = None
        self.why: dict[str, str] = {}
        self.wholes = [whole_options(space, kind) for kind in space.kinds]

    def solved(self, name: str) -> Mix | None:
        """Answer in one form; None where it has no plan. Forms are asked from narrow to wide."""
        mix = self._solve(name)
        if mix is not None and (self.known is None or self._is_better(mix)):
            self.known = mix
        return mix

    def _is_better(self, mix: Mix) -> bool:
        assert self.known is not None
        if self.rate is None:
            return mix.rate > self.known.rate
        return mix.cost_micros < self.known.cost_micros

    def _solve(self, name: str) -> Mix | None:
        if name in ("stock", "data parallel", "serial"):
            return self.whole(name)
        if name == "pipeline":
            if states(self.space) > MOST_STATES:
                self.why[name] = f"more than {MOST_STATES} states; the mix contains it"
                return None
            pipeline = self._pipeline()
            return None if pipeline is None else as_mix(self.space, pipeline)
        if not has_solver():
            self.why[name] = "needs SciPy: pip install 'fluidnpu[fleet]'"
            return None
        return best_mix(
            self.space,
            rate=self.rate,
            budget_micros=self.budget,
            start=self.known,
            gap=self.gap,
            nodes=self.nodes,
        )

    def _pipeline(self) -> Pipeline | None:
        if self.rate is None:
            return best_pipeline(self.space, budget_micros=self.budget)
        return cheapest_pipeline(self.space, self.rate)

    def whole(self, name: str) -> Mix | None:
        """Place the whole network on every device, each kind at its best: exact, since devices are alike.

        With a budget or a rate, kinds are taken in the order of rate a cost, which is exact but for the last.
        """
        space, placed = self.space, {}
        for kind in range(len(space.kinds)):
            options = [choice for choice in self.wholes[kind] if _is(name, choice)]
            able = [option for option in options if option.latency_ns(space.kinds[kind].count) <= space.slo_ns]
            if able:
                best = max(able, key=lambda choice: choice.rate)
                placed[kind, 0, space.blocks, 0] = best
        if not placed:
            self.why[name] = self._why_alone(name)
            return None
        return _fill(space, placed, self.rate, self.budget)

    def _why_alone(self, name: str) -> str:
        space, exits = self.space, len(self.space.kinds[0].profile.exits)
        if name == "stock" and (exits == 1 or "none" not in space.ramps):
            return "the network has no exit to leave out" if exits == 1 else "the plan must run every exit"
        return obstacles(space)


def _is(name: str, option: Option) -> bool:
    """Return whether an option of the whole network is of a form; wider forms contain the narrower."""
    if name == "stock":
        return option.chain[0].ramps == "none"
    return name == "serial" or len(option.chain) == 1


def _fill(space: Space, options: Mapping[Piece, Option], rate: float | None, budget: int | None) -> Mix | None:
    """Take devices of the kinds with most rate a cost until rate or budget is reached."""

    def worth(cell: Piece) -> tuple[float, float]:
        cost = space.kinds[cell[0]].cost_micros
        return (options[cell].rate / cost if cost else inf, options[cell].rate)

    left, missing, placed = inf if budget is None else float(budget), inf if rate is None else rate, {}
    for cell in sorted(options, key=worth, reverse=True):
        kind, option = space.kinds[cell[0]], options[cell]
        count = kind.count
        if missing < inf:
            count = min(count, -int(-missing * (1 - _EPS) // option.rate))
        if kind.cost_micros and left < inf:
            count = min(count, int(left // kind.cost_micros))
        if count > 0:
            placed[cell] = (option, count)
            missing -= count * option.rate
            left -= count * kind.cost_micros
    total = min(space.head_rate, sum(option.rate * count for option, count in placed.values()))
    if not placed or (rate is not None and total < rate * (1 - 1e-6)):
        return None
    routes: dict[tuple[Piece, ...], float] = {}
    head = space.head_rate if rate is None else min(space.head_rate, rate)
    for cell, (option, count) in placed.items():
        routes[(cell,)] = min(option.rate * count, head)
        head -= routes[(cell,)]
    cost = sum(space.kinds[cell[0]].cost_micros * count for cell, (_, count) in placed.items())
    latency = max(option.latency_ns(count) for option, count in placed.values())
    return Mix(placed=placed, routes=routes, rate=total, cost_micros=cost, bound=total, latency_ns=latency)


def as_mix(space: Space, pipeline: Pipeline) -> Mix:
    """Write a single pipeline as a mix of pieces."""
    placed = {
        (stage.kind, stage.option.chain[0].first, stage.option.chain[-1].end, 0): (stage.option, stage.devices)
        for stage in pipeline.stages
    }
    cost = sum(space.kinds[stage.kind].cost_micros * stage.devices for stage in pipeline.stages)
    return Mix(
        placed=placed,
        routes={tuple(placed): pipeline.rate},
        rate=pipeline.rate,
        cost_micros=cost,
        bound=pipeline.rate,
        latency_ns=pipeline.latency_ns,
    )


def _chosen(mixes: Mapping[str, Mix | None], wanted: float | None) -> str | None:
    """The narrowest form that no other beats by more than `NARROW`: twins of narrow forms keep their word."""
    able = {name: mix for name, mix in mixes.items() if mix is not None}
    if not able:
        return None
    if wanted is not None:
        least = min(mix.cost_micros for mix in able.values())
        cheap = {name: mix for name, mix in able.items() if mix.cost_micros <= least}
        fewest = min(mix.used for mix in cheap.values())
        return next(name for name, mix in cheap.items() if mix.used == fewest)
    most = max(mix.rate for mix in able.values())
    return next(name for name, mix in able.items() if mix.rate >= most * (1 - NARROW))


def _row(name: str, mix: Mix | None, asked: _Asked, headroom: float) -> Form:
    if mix is None:
        why = asked.why.get(name) or (
            "no chain of pieces keeps memory and objective" if asked.rate is None else "does not carry the rate"
        )
        return Form(name=name, rate_per_s=0.0, cost_micros=0, latency_ns=0.0, devices=0, bound=0.0, why=why)
    return Form(
        name=name,
        rate_per_s=mix.rate * (1 - headroom),
        cost_micros=mix.cost_micros,
        latency_ns=mix.latency_ns,
        devices=mix.used,
        bound=mix.bound * (1 - headroom) if asked.rate is None else mix.bound,
    )


def _plan(fleet: Fleet, asked: _Asked, name: str, mix: Mix, rows: Sequence[Form], headroom: float, slo_ns: int) -> Plan:
    """Write a mix as a plan: names of devices, jobs, routes, bound and reasons."""
    space, kept = asked.space, 1 - headroom
    free = [list(kind.devices) for kind in space.kinds]
    order = sorted(mix.placed, key=lambda piece: (piece[1], piece[2], piece[0], piece[3]))
    pools = []
    for piece in order:
        option, count = mix.placed[piece]
        devices, free[piece[0]] = tuple(free[piece[0]][:count]), free[piece[0]][count:]
        flow = sum(rate for way, rate in mix.routes.items() if piece in way)
        pools.append(
            Pool(
                type=space.kinds[piece[0]].type,
                devices=devices,
                jobs=_jobs(space, space.kinds[piece[0]], option, flow * kept),
                latency_ns=round(option.latency_ns(count)),
            )
        )
    routes = tuple(
        Route(network=space.network.name, pools=tuple(order.index(piece) for piece in way), rate_per_s=rate * kept)
        for way, rate in sorted(mix.routes.items(), key=lambda item: (-item[1], item[0]))
        if rate > 0
    )
    goodput = asked.rate is None
    bound = max((row.bound for row in rows if not row.why), default=0.0)
    return Plan(
        fleet=fleet.digest,
        objective="goodput" if goodput else "cost",
        slo_ns=slo_ns,
        pools=tuple(pools),
        routes=routes,
        rate_per_s=mix.rate * kept,
        bound_per_s=max(bound, mix.rate * kept) if goodput else 0.0,
        cost_micros=mix.cost_micros,
        bound_micros=0 if goodput else _least_cost(rows),
        method=name,
        notes=_notes(asked, rows, name),
    )


def _least_cost(rows: Sequence[Form]) -> int:
    """The bound of the widest form that was solved."""
    return round(next(row.bound for row in reversed(rows) if not row.why))


def _jobs(space: Space, kind: DeviceKind, option: Option, flow: float) -> tuple[Job, ...]:
    """The splits of an option as jobs; weights are their shares of the device's time."""
    shares = [1.0 if split.ramps == "none" else space.reach[split.first] for split in option.chain]
    loads = []
    for split, share in zip(option.chain, shares, strict=True):
        blocks = kind.profile.blocks[split.first : split.end]
        loads.append(
            share * sum(block.ns[split.batch - 1] + block.head_ns[split.batch - 1] for block in blocks) / split.batch
        )
    return tuple(
        Job(
            network=space.network.name,
            first=split.first,
            last=split.end - 1,
            batch=split.batch,
            ramps=split.ramps,
            rate_per_s=flow * share,
            weight=load / sum(loads),
        )
        for split, share, load in zip(option.chain, shares, loads, strict=True)
    )


def _notes(asked: _Asked, rows: Sequence[Form], name: str) -> tuple[str, ...]:
    """Say why the plan is as it is: what splitting would bring, and what its link would cost."""
    space, forms = asked.space, {row.name: row for row in rows}
    notes = []
    plain = forms.get("data parallel")
    if asked.rate is None and plain is not None and not plain.why:
        wider = [row for row in rows if row.name in ("serial", "pipeline", "mix") and not row.why]
        gains = [f"{row.name} {100 * (row.rate_per_s / plain.rate_per_s - 1):+.1f} %" for row in wider]
        if gains:
            notes.append(f"beside data parallel: {', '.join(gains)}")
    if name in ("stock", "data parallel", "serial") and space.blocks > 1:
        notes.append(link_against_gain(space))
    if asked.rate is None and space.head_rate < inf and max(row.rate_per_s for row in rows) >= 0.89 * space.head_rate:
        notes.append(f"the head's link is the wall: it carries {space.head_rate:.4g} samples a second")
    return tuple(notes)


def link_against_gain(space: Space) -> str:
    """Say what the cheapest cut costs on the link, and what larger batches behind it could save.

    The saving is at most that of every block behind the cut at its largest batch instead of the batch that
    is left of it there.
    """
    kind = max(space.kinds, key=lambda candidate: candidate.count)
    blocks, reach, b = kind.profile.blocks, space.reach, kind.profile.b_max
    best: tuple[float, int, float, float] | None = None
    for cut in range(1, space.blocks):
        if not reach[cut] > 0:
            continue
        move = reach[cut] * kind.link.transfer_ns(blocks[cut - 1].cut_bytes)
        saved = 0.0
        for k in range(cut, space.blocks):
            row = np.array([0, *blocks[k].ns], float) + np.array([0, *blocks[k].head_ns])
            left = float(shrunk(reach[k], b)[b] @ row) / b
            saved += left - reach[k] * row[b] / b
        if best is None or saved - move > best[2] - best[3]:
            best = (saved - move, cut, saved, move)
    if best is None:
        return "no sample passes a cut, so nothing can be split"
    _, cut, saved, move = best
    return (
        f"cut after block '{blocks[cut - 1].name}': full batches behind it save at most {saved / 1e6:.3g} ms of device time a "
        f"sample, and its tensor takes {move / 1e6:.3g} ms of the link '{kind.link.name}'"
    )


def _no_plan(space: Space, rate: float | None) -> str:
    if rate is not None:
        return (
            f"a plan must carry {rate:.6g}/s of '{space.network.name}' within {space.slo_ns / 1e6:.4g} ms (slack taken off) "
            "on these devices, and none does"
        )
    return (
        f"a plan must answer '{space.network.name}' within {space.slo_ns / 1e6:.4g} ms (slack taken off), and none does; "
        f"alone {obstacles(space)}"
    )
