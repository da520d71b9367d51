"""Worst-fit decreasing (Pochelu et al., algorithm 1): every network on the device with most memory left."""

from __future__ import annotations

import numpy as np

from ...errors import PlacementError
from .allocation import Matrix, Problem


def worst_fit(problem: Problem, batch: int | None = None) -> Matrix:
    """Place networks by memory, largest first, at the smallest batch; a CPU is used when nothing else fits.

    The matrix is (devices, networks). Which network is the largest, and what is left, are asked for each
    device, since needs differ by type; ties go to the first device. Raises PlacementError that names the
    network, its need and the room left.
    """
    batch = problem.batches[0] if batch is None else batch
    size = problem.index[batch]
    runs = np.isfinite(problem.seconds[:, :, size])
    matrix = np.zeros((len(problem.devices), len(problem.networks)), np.int64)
    left = problem.room.copy()
    needs = np.where(runs, problem.need[:, :, size], 0).max(axis=0)
    for m in sorted(range(len(problem.networks)), key=lambda k: (-int(needs[k]), k)):
        for kind in ("npu", "cpu"):
            able = [
                d
                for d in range(len(problem.devices))
                if problem.kinds[d] == kind and runs[d, m] and problem.need[d, m, size] <= left[d]
            ]
            if able:
                device = max(able, key=lambda d: (int(left[d]), -d))
                matrix[device, m] = batch
                left[device] -= problem.need[device, m, size]
                break
        else:
            raise PlacementError(
                f"network '{problem.networks[m]}' must fit a device, and it needs {int(needs[m])} bytes at batch {batch} "
                f"where at most {int(left.max())} are left"
            )
    return matrix
