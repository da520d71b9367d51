"""A matrix near the optimum and the proof of how near: an integer programme over types, packed and improved.

Devices of one type are pooled: whole numbers of instances of each network at each batch, their device time
and memory. Whatever can be placed on single devices can be pooled, so the pooled optimum is a bound. Its
instances are packed onto devices; then elements are changed at the prices of the best shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import PlacementError
from ..paths import solver_options, sparse
from .allocation import Matrix, Problem, Shares
from .greedy import soft_greedy
from .worst_fit import worst_fit

NODES = 300  # of branch and bound in one integer programme
GAP = 2e-2
MOST_CHANGES = 60
_EPS = 1e-9


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """A matrix with the best shares of device time, its rate, and the bound that was proven."""

    problem: Problem
    matrix: Matrix
    shares: Shares
    bound: float
    method: str

    @property
    def rate(self) -> float:
        """Samples a second of the ensemble under the planned shares."""
        return self.shares.rate

    @property
    def gap_pct(self) -> float:
        """Per cent by which any matrix can be better at most."""
        return 100 * max(0.0, self.bound / self.rate - 1)


def allocate(problem: Problem, *, nodes: int = NODES, gap: float = GAP) -> Allocation:
    """Find a matrix: worst-fit, soft greedy, pooled and packed, each improved; the best, with the bound.

    Raises PlacementError where the networks fit nowhere, FleetError without SciPy.
    """
    starts: dict[str, Matrix] = {}
    unfit: PlacementError | None = None
    try:
        starts["worst-fit"] = worst_fit(problem)
        starts["greedy"] = soft_greedy(problem, starts["worst-fit"]).matrix
    except PlacementError as error:  # packing by the integer programme may still fit
        unfit = error
    bound, instances = pooled(problem, gap=gap / 4, nodes=nodes)
    if instances is not None and (packed := pack(problem, instances)) is not None:
        starts["packed"] = packed
    best: Allocation | None = None
    for name, start in starts.items():
        enough = bound * (1 - gap)
        matrix, shares = improve(problem, start, bound=enough)
        if best is None or shares.rate > best.rate * (1 + _EPS):
            best = Allocation(problem=problem, matrix=matrix, shares=shares, bound=max(bound, shares.rate), method=name)
    for name, only in (("guided", instances), ("integer", None)):
        if (best is None or best.rate < bound * (1 - gap)) and (only is not None or name == "integer"):
            solution = assigned(problem, only, gap=gap / 2, nodes=nodes // 3 if name == "guided" else nodes)
            if solution is not None and (best is None or problem.shared(solution).rate > best.rate * (1 + _EPS)):
                shares = problem.shared(solution)
                best = Allocation(problem=problem, matrix=solution, shares=shares, bound=bound, method=name)
    if best is None:
        raise unfit or PlacementError(f"{len(problem.networks)} networks must fit {len(problem.devices)} devices")
    return replace(best, bound=max(bound, best.rate))


def groups(problem: Problem) -> list[NDArray[np.int64]]:
    """Devices that the problem cannot distinguish: their indices (members,) by group."""
    alike: dict[bytes, list[int]] = {}
    for d in range(len(problem.devices)):
        key = problem.seconds[d].tobytes() + problem.need[d].tobytes() + problem.room[d].tobytes()
        alike.setdefault(key, []).append(d)
    return [np.array(members) for members in alike.values()]


def pooled(
    problem: Problem, *, gap: float, nodes: int
) -> tuple[float, dict[tuple[int, int, int], tuple[int, float]] | None]:
    """Solve over pooled devices: the bound, and instances with device time by (group, network, batch).

    Raises PlacementError for a network that fits no device.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    members = groups(problem)
    cells = [
        (g, m, k)
        for g, devices in enumerate(members)
        for m in range(len(problem.networks))
        for k in range(len(problem.batches))
        if np.isfinite(problem.seconds[devices[0], m, k]) and problem.need[devices[0], m, k] <= problem.room[devices[0]]
    ]
    if {m for _, m, _ in cells} != set(range(len(problem.networks))):
        lost = sorted(set(range(len(problem.networks))) - {m for _, m, _ in cells})
        needs = [int(problem.need[:, m, 0].min()) for m in lost]
        raise PlacementError(
            f"network '{problem.networks[lost[0]]}' must fit a device, and it needs {needs[0]} bytes where the largest has "
            f"{int(problem.room.max())}"
        )
    n = len(cells)
    speed = np.array([problem.batches[k] / problem.seconds[members[g][0], m, k] for g, m, k in cells])
    unit = float(speed.max())
    rows: list[dict[int, float]] = []
    high: list[float] = []
    for index in range(n):
        rows.append({index: -1.0, n + index: 1.0})
        high.append(0.0)
    for g, devices in enumerate(members):
        places = [index for index, cell in enumerate(cells) if cell[0] == g]
        rows.append({n + index: 1.0 for index in places})
        high.append(float(len(devices)))
        room = float(problem.room[devices[0]])
        rows.append({index: problem.need[devices[0], cells[index][1], cells[index][2]] / room for index in places})
        high.append(float(len(devices)))
        for m in range(len(problem.networks)):
            rows.append({index: 1.0 for index in places if cells[index][1] == m})
            high.append(float(len(devices)))
    for m, demand in enumerate(problem.demand):
        rows.append({**{n + i: -speed[i] / unit for i, cell in enumerate(cells) if cell[1] == m}, 2 * n: demand})
        high.append(0.0)
        rows.append({i: -1.0 for i, cell in enumerate(cells) if cell[1] == m})
        high.append(-1.0)
    width = 2 * n + 1
    aim = np.zeros(width)
    aim[-1] = -1.0
    counts = np.array([float(len(members[g])) for g, _, _ in cells])
    answer: Any = milp(
        aim,
        constraints=LinearConstraint(
            sparse([row for row in rows if row], width), -inf, [h for h, row in zip(high, rows, strict=True) if row]
        ),
        integrality=np.r_[np.ones(n), np.zeros(n + 1)],
        bounds=Bounds(0, np.r_[counts, counts, inf]),
        options=solver_options(gap, nodes),
    )
    if answer.mip_dual_bound is None:
        return inf, None
    bound = -float(answer.mip_dual_bound) * unit
    if answer.x is None:
        return bound, None
    placed = {cell: (round(answer.x[i]), float(answer.x[n + i])) for i, cell in enumerate(cells) if round(answer.x[i])}
    return bound, placed


def assigned(
    problem: Problem, only: Mapping[tuple[int, int, int], object] | None, *, gap: float, nodes: int
) -> Matrix | None:
    """Solve device by device, over the instances of a pooled solution or over all; None for none.

    The matrix is (devices, networks). Of the batch sizes of an element only those count that are faster than
    all of less memory; the least and the fastest of them are columns.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    devices, networks, _ = problem.seconds.shape
    group_of = {int(d): g for g, members in enumerate(groups(problem)) for d in members}
    cells = []
    for d in range(devices):
        for m in range(networks):
            sizes = _sizes(problem, d, m)
            if only is not None:
                sizes = [k for k in sizes if (group_of[d], m, k) in only] or (
                    sizes[-1:] if any((group_of[d], m, k) in only for k in range(len(problem.batches))) else []
                )
            cells += [(d, m, k) for k in sizes]
    if not cells:
        return None
    n = len(cells)
    speed = np.array([problem.batches[k] / problem.seconds[d, m, k] for d, m, k in cells])
    unit = float(speed.max())
    rows: list[dict[int, float]] = [{i: -1.0, n + i: 1.0} for i in range(n)]
    high = [0.0] * n
    for d in range(devices):
        places = [i for i, cell in enumerate(cells) if cell[0] == d]
        if not places:
            continue
        rows.append({n + i: 1.0 for i in places})
        rows.append({i: float(problem.need[cells[i]]) / float(problem.room[d]) for i in places})
        high += [1.0, 1.0]
        for m in {cells[i][1] for i in places}:
            rows.append({i: 1.0 for i in places if cells[i][1] == m})
            high.append(1.0)
    for m, demand in enumerate(problem.demand):
        rows.append({**{n + i: -speed[i] / unit for i, cell in enumerate(cells) if cell[1] == m}, 2 * n: demand})
        rows.append({i: -1.0 for i, cell in enumerate(cells) if cell[1] == m})
        high += [0.0, -1.0]
    if not all(rows):
        return None
    aim = np.zeros(2 * n + 1)
    aim[-1] = -1.0
    answer: Any = milp(
        aim,
        constraints=LinearConstraint(sparse(rows, 2 * n + 1), -inf, high),
        integrality=np.r_[np.ones(n), np.zeros(n + 1)],
        bounds=Bounds(0, np.r_[np.ones(2 * n), inf]),
        options=solver_options(gap, nodes),
    )
    if answer.x is None:
        return None
    matrix = np.zeros((devices, networks), np.int64)
    for i, (d, m, k) in enumerate(cells):
        if round(answer.x[i]):
            matrix[d, m] = problem.batches[k]
    return matrix if problem.fits(matrix) else None


def _sizes(problem: Problem, device: int, network: int) -> list[int]:
    """The batch of least need and the fastest that fits, the same where one is both."""
    speed = np.array(problem.batches) / problem.seconds[device, network]
    able = np.flatnonzero(
        np.isfinite(problem.seconds[device, network]) & (problem.need[device, network] <= problem.room[device])
    )
    if not len(able):
        return []
    least = int(able[problem.need[device, network, able].argmin()])
    fastest = int(able[speed[able].argmax()])
    return sorted({least, fastest})


def pack(problem: Problem, instances: dict[tuple[int, int, int], tuple[int, float]]) -> Matrix | None:
    """Put pooled instances onto devices, largest need first, where time is left; None where one stays out.

    The matrix is (devices, networks).
    """
    members = groups(problem)
    matrix = np.zeros((len(problem.devices), len(problem.networks)), np.int64)
    left, busy = problem.room.astype(np.int64).copy(), np.zeros(len(problem.devices))
    candidates = [
        (int(problem.need[members[g][0], m, k]), time_used / count, g, m, k)
        for (g, m, k), (count, time_used) in instances.items()
        for _ in range(count)
    ]
    for need, used, g, m, k in sorted(candidates, key=lambda instance: (-instance[0], -instance[1], instance[3])):
        able = [int(d) for d in members[g] if matrix[d, m] == 0 and need <= left[d]]
        if able:
            device = min(able, key=lambda d: (busy[d], -int(left[d]), d))
            matrix[device, m] = problem.batches[k]
            left[device] -= need
            busy[device] += used
    for m in np.flatnonzero(~(matrix > 0).any(axis=0)):
        able = [
            d
            for d in range(len(problem.devices))
            if np.isfinite(problem.seconds[d, m, 0]) and problem.need[d, m, 0] <= left[d]
        ]
        if not able:
            return None
        device = min(able, key=lambda d: (busy[d], d))
        matrix[device, m] = problem.batches[0]
        left[device] -= problem.need[device, m, 0]
    return matrix


def improve(problem: Problem, start: Matrix, *, bound: float) -> tuple[Matrix, Shares]:
    """Change elements at the prices of the best shares until nothing gains or the bound is met.

    Matrices are (devices, networks). Never below the start.
    """
    matrix, shares = start.copy(), problem.shared(start)
    tried: set[bytes] = {matrix.tobytes()}
    for _ in range(MOST_CHANGES):
        if shares.rate >= bound:
            break
        improved = False
        for change in _promising(problem, matrix, shares)[:12]:
            other = _change(problem, matrix, shares, change)
            if other is None or other.tobytes() in tried:
                continue
            tried.add(other.tobytes())
            other_shares = problem.shared(other)
            if other_shares.rate > shares.rate * (1 + 1e-7):
                matrix, shares, improved = other, other_shares, True
                break
        if not improved:
            break
    return matrix, shares


def _promising(problem: Problem, matrix: Matrix, shares: Shares) -> list[tuple[int, int, int]]:
    """Elements by what a share of device time there gains over what it costs, the best first."""
    speed = np.array(problem.batches) / problem.seconds
    gain = shares.sample_price[None, :, None] * speed - shares.time_price[:, None, None]
    gain = np.where(np.isfinite(problem.seconds), gain, -inf)
    for k, batch in enumerate(problem.batches):
        gain[:, :, k][matrix == batch] = -inf
    order = np.argsort(-gain, axis=None, kind="stable")
    places = np.array(np.unravel_index(order, gain.shape)).T
    scale = max(1e-12, float(np.abs(shares.time_price).max()))
    return [(int(d), int(m), int(k)) for d, m, k in places[:400] if gain[d, m, k] > 1e-9 * scale]


def _change(problem: Problem, matrix: Matrix, shares: Shares, change: tuple[int, int, int]) -> Matrix | None:
    """Set an element; where memory lacks, take out what the device uses least and others have too."""
    device, network, size = change
    other = matrix.copy()
    other[device, network] = problem.batches[size]
    for m in np.argsort(shares.weights[device], kind="stable"):
        if int(problem.held(other)[device]) <= int(problem.room[device]):
            break
        if m != network and other[device, m] and (other[:, m] > 0).sum() > 1:
            other[device, m] = 0
    return other if problem.fits(other) else None
