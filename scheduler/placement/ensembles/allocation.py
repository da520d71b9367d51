"""The allocation matrix of several networks on several devices, and the rate that it carries.

`matrix[device, network]` is a batch size, or 0 where the network is not there. A device does one job at a
time, so times add. Under *turns* every network of a device gets one batch a round; under *shares* each gets
its planned share of the device's time, which carries the most that the matrix can.

>>> problem = Problem(
...     devices=("a", "b"), networks=("x", "y"), kinds=("npu", "npu"), batches=(1, 2), demand=(1.0, 1.0),
...     seconds=np.array([[[0.1, 0.1], [0.4, 0.6]]] * 2), need=np.full((2, 2, 2), 9), room=np.array([30] * 2))
>>> matrix = np.array([[2, 2], [0, 2]])
>>> round(problem.turns(matrix), 4), round(problem.shared(matrix).rate, 4)
(2.8571, 5.7143)
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FleetError, PlacementError
from ..fleet import Fleet
from ..options import NS, Floats, Space

Matrix = NDArray[np.int64]
VERSION = 1  # of the search, for what is cached by digest


@dataclass(frozen=True, kw_only=True)
class Shares:
    """The most that a matrix carries: samples a second of the ensemble, and each network's on each device.

    `weights`: share of each device's time. `time_price` and `sample_price`: what one more device's time, or
    one sample a second less of a network, would add to the rate.
    """

    rate: float
    rates: Floats
    weights: Floats
    time_price: Floats
    sample_price: Floats


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Networks to place on devices. Raises FleetError.

    `seconds[device, network, batch index]` of one batch, infinite where a device does not run the network;
    `need` in bytes alike, `room` a device. `demand[network]`: its samples for one of the ensemble.
    `kinds[device]`: `npu` before `cpu`.
    """

    devices: tuple[str, ...]
    networks: tuple[str, ...]
    kinds: tuple[str, ...]
    batches: tuple[int, ...]
    demand: tuple[float, ...]
    seconds: Floats
    need: NDArray[np.int64]
    room: NDArray[np.int64]
    types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = (len(self.devices), len(self.networks), len(self.batches))
        if self.seconds.shape != shape or self.need.shape != shape or self.room.shape != shape[:1]:
            raise FleetError(
                f"times and needs must be {shape}, devices by networks by batches, not {self.seconds.shape}"
            )
        if not self.networks or not self.devices:
            raise FleetError("an allocation needs at least one network and one device")
        if any(not demand > 0 for demand in self.demand) or len(self.demand) != len(self.networks):
            raise FleetError(f"every network must have a demand above zero, not {self.demand}")

    @classmethod
    def of(cls, fleet: Fleet, networks: tuple[str, ...] = (), batches: tuple[int, ...] = ()) -> Problem:
        """Make it from a fleet: whole networks, data parallel, each at its exit rates. Raises FleetError."""
        names = networks or tuple(fleet.networks)
        most = max(p.b_max for t in fleet.types.values() for n, p in t.profiles.items() if n in names)
        sizes = tuple(b for b in (batches or range(1, most + 1)) if b <= most)
        shape = (len(fleet.devices), len(names), len(sizes))
        seconds, need = np.full(shape, inf), np.zeros(shape, np.int64)
        by_type: dict[tuple[str, str], tuple[Floats, NDArray[np.int64]]] = {}
        for name in names:
            space = Space.of(fleet, name, NS * 10**6)
            for kind in space.kinds:
                by_type[kind.type, name] = _whole_network(space, kind, sizes)
        for d, device in enumerate(fleet.devices):
            for m, name in enumerate(names):
                if (device.type, name) in by_type:
                    seconds[d, m], need[d, m] = by_type[device.type, name]
        return cls(
            devices=tuple(device.name for device in fleet.devices),
            networks=names,
            kinds=tuple(fleet.types[device.type].kind for device in fleet.devices),
            types=tuple(device.type for device in fleet.devices),
            batches=sizes,
            demand=tuple(fleet.networks[name].weight for name in names),
            seconds=seconds,
            need=need,
            room=np.array([fleet.types[device.type].memory_bytes for device in fleet.devices], np.int64),
        )

    @cached_property
    def index(self) -> dict[int, int]:
        """Place of each batch size."""
        return {batch: k for k, batch in enumerate(self.batches)}

    @cached_property
    def wants(self) -> Floats:
        """Demand as an array (networks,)."""
        return np.array(self.demand)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over times, needs, room, batches and the version of the search."""
        facts = [self.devices, self.networks, self.kinds, self.batches, self.demand, VERSION]
        text = json.dumps([facts, self.seconds.tolist(), self.need.tolist(), self.room.tolist()])
        return hashlib.sha256(text.encode()).hexdigest()

    def of_matrix(self, values: NDArray[Any], matrix: Matrix) -> NDArray[Any]:
        """Pick an entry (devices, networks) by the batch of each element; zero where the matrix is.

        `values` is (devices, networks, batches).
        """
        places = np.vectorize(lambda batch: self.index.get(int(batch), 0), otypes=[int])(matrix)
        picked = np.take_along_axis(values, places[:, :, None], axis=2)[:, :, 0]
        return np.where(matrix > 0, picked, 0)

    def held(self, matrix: Matrix) -> NDArray[np.int64]:
        """Bytes that are taken on each device, (devices,), by a matrix (devices, networks)."""
        return np.asarray(self.of_matrix(self.need, matrix).sum(axis=1), np.int64)

    def fits(self, matrix: Matrix) -> bool:
        """Return whether the matrix (devices, networks) may be.

        No network is missing, none is where it does not run, and memory is enough.
        """
        return bool(
            (matrix > 0).any(axis=0).all()
            and (self.held(matrix) <= self.room).all()
            and np.isfinite(self.of_matrix(self.seconds, matrix)).all()
        )

    def check(self, matrix: Matrix) -> None:
        """Raise PlacementError that names the network, its need and the room, unless the matrix may be.

        It is (devices, networks).
        """
        missing = [self.networks[m] for m in np.flatnonzero(~(matrix > 0).any(axis=0))]
        if missing:
            raise PlacementError(f"every network must be on a device, and {', '.join(missing)} is on none")
        held = self.held(matrix)
        for d in np.flatnonzero(held > self.room):
            raise PlacementError(
                f"networks on '{self.devices[d]}' must fit {self.room[d]} bytes, and they need {held[d]}"
            )

    def turn_rates(self, matrix: Matrix) -> Floats:
        """Samples a second of each network when every network of a device gets a batch a round."""
        took = self.of_matrix(self.seconds, matrix).sum(axis=1, keepdims=True)
        return np.asarray((matrix / np.where(took > 0, took, inf)).sum(axis=0), float)

    def turns(self, matrix: Matrix) -> float:
        """Rate of the ensemble under turns: that of its slowest network.

        The matrix is (devices, networks); 0 where it may not be.
        """
        if not self.fits(matrix):
            return 0.0
        return float((self.turn_rates(matrix) / self.wants).min())

    def shared(self, matrix: Matrix) -> Shares:
        """The best shares of each device's time for a matrix (devices, networks), a linear programme.

        Raises FleetError without SciPy.
        """
        if importlib.util.find_spec("scipy") is None:
            raise FleetError("the best shares need SciPy, which is not installed: pip install 'fluidnpu[fleet]'")
        from scipy.optimize import linprog
        from scipy.sparse import csr_array

        cells = np.argwhere(matrix > 0)
        took = self.of_matrix(self.seconds, matrix)
        speeds = np.array([took[d, m] / matrix[d, m] for d, m in cells])
        n, devices, networks = len(cells), len(self.devices), len(self.networks)
        unit = float((1 / speeds).max())
        rows = np.r_[cells[:, 0], devices + cells[:, 1], devices + np.arange(networks)]
        columns = np.r_[np.arange(n), np.arange(n), np.full(networks, n)]
        values = np.r_[speeds * unit, -np.ones(n), self.wants]
        matrix_ub = csr_array((values, (rows, columns)), shape=(devices + networks, n + 1))
        limits = np.r_[np.ones(devices), np.zeros(networks)]
        answer: Any = linprog(np.r_[np.zeros(n), -1.0], A_ub=matrix_ub, b_ub=limits, method="highs")
        rates, weights = np.zeros(matrix.shape), np.zeros(matrix.shape)
        for (d, m), x, second in zip(cells, answer.x[:n] * unit, speeds, strict=True):
            rates[d, m], weights[d, m] = x, x * second
        prices = -np.asarray(answer.ineqlin.marginals)
        return Shares(
            rate=float(answer.x[n] * unit),
            rates=rates,
            weights=weights,
            time_price=prices[:devices] * unit,
            sample_price=prices[devices:],
        )


def _whole_network(space: Space, kind: Any, sizes: tuple[int, ...]) -> tuple[Floats, NDArray[np.int64]]:
    """Seconds of a batch through the whole network, exits on, and bytes of weights and two batches."""
    from ..options import whole_times

    times = whole_times(space, kind)
    seconds = np.array([times[b] / NS if b in times else inf for b in sizes])
    need = np.array([kind.profile.memory_bytes(2 * b) for b in sizes], np.int64)
    return seconds, need
