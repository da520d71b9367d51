"""Allocation matrices scored on devices: the benchmark mode of Pochelu et al., on simulated NPUs.

Every network has a queue of its samples. A device takes a batch of the network whose turn it is, passes those
whose queue is empty, and runs the batch, each sample to its exit. The score is what the whole set took on the
devices' own clocks. Links and hosts are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fluidnpu.scheduler import PlacementError, placement

from ..bundle import Bundle
from ..devices.device import VirtualClock
from ..devices.simulated import SimulatedNpu
from ..driver import Driver
from ..errors import DriverUsageError

Matrix = npt.NDArray[np.int64]
Progress = Callable[[int, int], None]
MOST_RUNS = 200_000  # samples of all matrices and networks that one call computes
NS = 1e9


@dataclass(frozen=True, kw_only=True)
class Score:
    """Samples a second of the ensemble that a matrix carried, and the most that its best shares can carry."""

    matrix: Matrix
    measured_per_s: float
    planned_per_s: float


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A fleet's devices and bundles, ready to score matrices of its networks.

    `samples`: of the ensemble; a network has as many times its weight. Who leaves at which exit is drawn by
    the exit rates of the fleet file, for every matrix alike. Raises DriverUsageError.
    """

    fleet: placement.Fleet
    folder: Path
    samples: int
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.fleet.networks) < 2:
            raise DriverUsageError("matrices are of several networks, and the fleet file has one")
        if served := [device.name for device in self.fleet.devices if device.address]:
            raise DriverUsageError(f"matrices are scored on simulated devices, and '{served[0]}' has an address")
        for kind in self.fleet.types.values():
            if kind.kind != "npu":
                raise DriverUsageError(
                    f"matrices are scored on simulated NPUs, and type '{kind.name}' is a {kind.kind}"
                )
            for network, (source, _) in kind.paths.items():
                if source != "bundle":
                    raise DriverUsageError(
                        f"what is scored must be a bundle, and network '{network}' of type '{kind.name}' is a {source}"
                    )

    def check(self, matrices: int) -> int:
        """Return the samples in a score, of all networks. Raises DriverUsageError for too many scores."""
        samples = sum(self._counts(self.problem).values())
        if matrices * samples > MOST_RUNS:
            raise DriverUsageError(
                f"at most {MOST_RUNS} samples are computed for scores, and {matrices} matrices of {samples} are more"
            )
        return samples

    def candidates(self, start: Matrix, count: int) -> list[Matrix]:
        """Return up to `count` matrices (devices, networks): the start, worst-fit, the best neighbours."""
        problem = self.problem
        made, changed = [start], []
        with suppress(PlacementError):  # worst-fit may find no room where a plan does
            made.append(placement.worst_fit(problem))
        for device, network, batch in placement.neighbours(problem, start):
            matrix = start.copy()
            matrix[device, network] = batch
            changed.append(matrix)
        made += sorted(changed, key=lambda matrix: -problem.turns(matrix))
        return list({matrix.tobytes(): matrix for matrix in made}.values())[:count]

    def matrix_of(self, plan: placement.Plan) -> Matrix:
        """Return the batches of a plan, int64 (devices, networks)."""
        problem = self.problem
        matrix = np.zeros((len(problem.devices), len(problem.networks)), np.int64)
        for pool in plan.pools:
            for device in pool.devices:
                for job in pool.jobs:
                    matrix[problem.devices.index(device), problem.networks.index(job.network)] = job.batch
        return matrix

    @property
    def problem(self) -> placement.Problem:
        """The networks of the fleet on its devices, by arithmetic."""
        return placement.Problem.of(self.fleet)

    def scores(self, matrices: Sequence[Matrix], progress: Progress = lambda done, of: None) -> list[Score]:
        """Score matrices (devices, networks), each on devices of its own.

        Raises DriverUsageError for too many samples.
        """
        problem, samples = self.problem, self.check(len(matrices))
        scores = []
        for index, matrix in enumerate(matrices):
            step = partial(_report, progress, index * samples, len(matrices) * samples)
            took = self._took_ns(problem, matrix, step)
            planned = problem.shared(matrix).rate
            scores.append(Score(matrix=matrix, measured_per_s=self.samples * NS / took, planned_per_s=planned))
        return scores

    def named(self, matrix: Matrix) -> dict[str, dict[str, int]]:
        """Return the batches of a matrix (devices, networks) by name, without zeros."""
        problem = self.problem
        return {
            name: {problem.networks[m]: int(row[m]) for m in np.flatnonzero(row)}
            for name, row in zip(problem.devices, matrix, strict=True)
        }

    def _counts(self, problem: placement.Problem) -> dict[int, int]:
        return {m: max(1, round(self.samples * demand)) for m, demand in enumerate(problem.demand)}

    def _exits(self, network: str, count: int) -> list[int]:
        """Draw the exit of each sample: the rates hold as nearly as whole samples can."""
        rates = self.fleet.networks[network].exit_rates or (1.0,)
        ends = np.rint(np.cumsum(rates) * count).astype(int)
        exits = np.searchsorted(ends, np.arange(count), side="right").clip(0, len(rates) - 1)
        return [int(exit) for exit in np.random.default_rng(self.seed).permutation(exits)]

    def _took_ns(self, problem: placement.Problem, matrix: Matrix, progress: Callable[[int], None]) -> int:
        """Return the time of the last answer."""
        counts = self._counts(problem)
        exits = {m: self._exits(problem.networks[m], count) for m, count in counts.items()}
        clocks = {d: VirtualClock() for d in np.flatnonzero((matrix > 0).any(axis=1))}
        drivers = {(d, m): self._driver(problem, d, m, clocks[d]) for d, m in np.argwhere(matrix > 0)}
        images = {m: self._images(problem, m, int(matrix[:, m].max())) for m in counts}
        turn = dict.fromkeys(clocks, 0)
        working, end = dict.fromkeys(clocks), 0
        while working:
            d = min(working, key=lambda device: (clocks[device].now_ns(), device))
            order = [(turn[d] + k) % len(counts) for k in range(len(counts))]
            m = next((m for m in order if matrix[d, m] and exits[m]), None)
            if m is None:
                del working[d]
                continue
            turn[d] = m + 1
            batch, exits[m] = exits[m][: matrix[d, m]], exits[m][matrix[d, m] :]
            _run(drivers[d, m], images[m], batch)
            end = max(end, clocks[d].now_ns())
            progress(sum(counts.values()) - sum(map(len, exits.values())))
        return end

    def _bundle(self, problem: placement.Problem, device: int, network: int) -> Bundle:
        _, path = self.fleet.types[problem.types[device]].paths[problem.networks[network]]
        return Bundle.read(self.folder / path)

    def _driver(self, problem: placement.Problem, device: int, network: int, clock: VirtualClock) -> Driver:
        bundle = self._bundle(problem, device, network)
        driver = Driver(SimulatedNpu(bundle.design, clock=clock), bundle.program, bundle.design)
        driver.load()
        return driver

    def _images(self, problem: placement.Problem, network: int, count: int) -> list[npt.NDArray[np.generic]]:
        device = int(np.flatnonzero(np.isfinite(problem.seconds[:, network, 0]))[0])
        program = self._bundle(problem, device, network).program
        return list(program.random_samples(np.random.default_rng(self.seed), count))


def _report(progress: Progress, before: int, of: int, done: int) -> None:
    progress(before + done, of)


def _run(driver: Driver, images: Sequence[npt.NDArray[np.generic]], exits: Sequence[int]) -> None:
    """Run a batch, each sample to its exit."""
    for slot in range(len(exits)):
        driver.write_sample(slot, images[slot])
    for stage in range(max(exits) + 1):
        driver.activate([slot for slot, exit in enumerate(exits) if exit >= stage])
        driver.run_stage(stage)
