"""Policies, ranges and worlds of the study."""

from __future__ import annotations

from fluidnpu.scheduler.comparison import Truth
from fluidnpu.scheduler.simulation import halve_early_exits

from .paper import PaperRow

BASELINES = ("serial", "greedy", "adaptive-s", "adaptive-m", "adaptive-l", "staged:tau_b=4", "fluid", "fluid-repaired")
OURS = ("optimal", "credit:dial=0", "credit", "credit:dial=2", "guarded")
ANYTIME = ("fluid:anytime=3%", "credit:anytime=3%", "guarded:anytime=3%")
ON_FLUID_HARDWARE = ("serial", "greedy", "fluid")
ADAPTIVE = ("adaptive-s", "adaptive-m", "adaptive-l")
DIALS = tuple(f"credit:dial={d / 4:g}" for d in range(9))
DRIFT = ("fluid", "optimal", "credit", "credit:robust=1", "guarded", *ANYTIME)
SOLVED_ONCE = ("credit", "guarded")  # in sweeps: for the rate of Table II
MAPPED = ("serial", "greedy", "adaptive-s", "fluid", "optimal", "credit", "guarded")
MAP_LOADS = (0.2, 0.4, 0.6, 0.7, 0.8)  # solving takes ever longer towards 1
MAP_SLOS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # over the latency of one sample alone
LAYER_COSTS_US = (0, 50, 100, 200, 300, 400, 600, 800)
THRESHOLDS = (0.65, 0.9, 0.97)
YARDSTICKS = ("violations_pct", "average_ms", "p99_ms")


def worlds(row: PaperRow) -> dict[str, Truth]:
    """Worlds that are not as the policies were told, by name."""
    return {
        "bursts": Truth(traffic="bursty:burst=2:share=0.2:dwell=1s"),
        "early exits halved": Truth(exit_rates=halve_early_exits(row.serving.exit_rates)),
        "10 % slower": Truth(latency_factor=1.1),
        "10 % faster": Truth(latency_factor=0.9),
    }
