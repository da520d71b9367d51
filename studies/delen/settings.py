"""Times, loads, modes and power of the study, and its recorded samples."""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from pathlib import Path

import numpy as np

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler.exits import ExitProfile, PowerModel, Recorded

from ..running.study import Size

DATA = Path(__file__).parent / "data" / "recorded.npz"
FULL_MS = 40.0  # of the whole network: 30 requests a second are 1.2 of what it can serve, as in the paper's Fig. 7
STAGES = (0.275, 0.215, 0.189, 0.321)  # of it, as ResNet-50's four exits on a ZC706 at batch 1 (Fluid's Table II)
SLO_MS = 100
THRESHOLD = 0.7
RATES = (10, 20, 30, 40, 50)
RATE = 30
UTILISATION = 0.9
NETWORKS = ("img1", "img2", "digits")
IDLE_W = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0)
ACTIVE_OVER_IDLE_W = 5.0  # watts that work adds; ratios of lifetimes depend on idle over this alone
LEVELS = {"high": 0.985, "medium": 0.96, "low": 0.92}  # of the last exit's accuracy, for the three battery levels
TENANTS = {"img1": 15.0, "img2": 15.0, "digits": 5.0}  # requests a second before the burst, as in the paper
BURST = 2.0  # times the rate of img1, in the middle third
PHASE_S = 20


def table() -> LatencyTable:
    """Return the latency of the four stages in ns, batch 1 alone, as in the paper."""
    return LatencyTable(ns=tuple((round(share * FULL_MS * 1e6),) for share in STAGES))


@cache
def samples(network: str, part: str) -> Recorded:
    """Return the recorded samples of a network: part 'select' or 'test'."""
    with np.load(DATA) as arrays:
        return Recorded(
            confidences=arrays[f"{network}_{part}_confidences"].astype(np.float64),
            correct=arrays[f"{network}_{part}_correct"],
        )


@cache
def profile(network: str) -> ExitProfile:
    """Return the profile of a network: accuracies of the part that selects, energy without idle power."""
    select = samples(network, "select")
    power = PowerModel(idle_w=0.0, active_w=ACTIVE_OVER_IDLE_W)
    energy = tuple(power.energy_nj(ns) for ns in accumulate(row[0] for row in table().ns))
    return ExitProfile(latency=table(), energy_nj=energy, accuracy=select.accuracy, samples=select.samples)


def requests_of(size: Size) -> int:
    """Return the requests a seed and circumstance."""
    return max(200, 3 * size.requests // 20)


def seeds_of(size: Size) -> range:
    """Return the seeds of a circumstance."""
    return range(max(2, size.seeds // 3))
