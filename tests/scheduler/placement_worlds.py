"""Every plan of a small fleet, one by one: what the planner is held to."""

from collections.abc import Iterator
from itertools import product
from math import inf

from fluidnpu.scheduler.placement.dynamic import Pipeline, Stage, pipeline_of
from fluidnpu.scheduler.placement.options import Space


def every_pipeline(space: Space, first: int = 0, used: tuple[int, ...] = ()) -> Iterator[tuple[Stage, ...]]:
    """Yield every chain of pieces from a cut to the end, with every number of devices."""
    used = used or (0,) * len(space.kinds)
    if first == space.blocks:
        yield ()
        return
    for (kind, start, end), options in space.pieces.items():
        if start != first:
            continue
        for m in range(1, space.kinds[kind].count - used[kind] + 1):
            after = tuple(n + m * (k == kind) for k, n in enumerate(used))
            for option in options:
                for rest in every_pipeline(space, end, after):
                    yield (Stage(kind=kind, devices=m, option=option), *rest)


def best_of_all(space: Space, budget: int | None = None) -> Pipeline | None:
    """The pipeline of most rate, then fewest devices, then least latency, by looking at each."""
    best: Pipeline | None = None
    for stages in every_pipeline(space):
        one = pipeline_of(stages, space.head_rate)
        cost = sum(space.kinds[s.kind].cost_micros * s.devices for s in stages)
        if one.latency_ns > space.slo_ns or (budget is not None and cost > budget):
            continue
        if best is None or (-one.rate, one.used, one.latency_ns) < (-best.rate, best.used, best.latency_ns):
            best = one
    return best


def cheapest_of_all(space: Space, rate: float) -> int | None:
    """The least cost of a pipeline that carries a rate, by looking at each."""
    costs = [
        sum(space.kinds[s.kind].cost_micros * s.devices for s in stages)
        for stages in every_pipeline(space)
        if (one := pipeline_of(stages, space.head_rate)).rate >= rate * (1 - 1e-9) and one.latency_ns <= space.slo_ns
    ]
    return min(costs, default=None)


def best_mix_of_all(space: Space) -> float:
    """The most rate of any mix of pieces, by giving every device every piece, without the latency of whole
    paths.
    """
    choices = []
    for kind, members in enumerate(space.kinds):
        cells = [None, *(cell for cell in space.pieces if cell[0] == kind)]
        choices += [cells] * members.count
    best = 0.0
    for given in product(*choices):
        capacity: dict[tuple[int, int], float] = {}
        for cell in given:
            if cell is not None:
                option = space.pieces[cell][0]
                capacity[cell[1:]] = capacity.get(cell[1:], 0.0) + option.rate
        best = max(best, least_cut(capacity, space.blocks))
    return min(best, space.head_rate)


def least_cut(capacity: dict[tuple[int, int], float], blocks: int) -> float:
    """The capacity of the least cut between the first block and the end, which is the largest flow."""
    inner = range(1, blocks)
    least = inf
    for chosen in product((False, True), repeat=len(inner)):
        side = {0, *(cut for cut, there in zip(inner, chosen, strict=True) if there)}
        least = min(least, sum(value for (a, b), value in capacity.items() if a in side and b not in side))
    return least
