"""The cycles of a design with the core that is built, where its search counted the other one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..design import Design
from ..errors import DesignError
from ..exact.mapping import LayerMapping
from ..exact.model import LayerCost, Machine, layer_cost
from ..exact.search import latency_of, synthetic_job
from ..hardware.array import Mode
from ..jit import has_numba


def counted_with(design: Design, core: str) -> Design:
    """The design with the cycles of `core`, one of CORES, its array and its plans as they are.

    It is returned as it is where its cycles are that core's already, and where it does not say whose they
    are: bitstreams know older files by their digests. Raises DesignError without the facts of its board, and
    without Numba.

    >>> from fluidnpu.dse.testing import tiny_design
    >>> counted_with(tiny_design(), "hls") == tiny_design()
    True
    """
    if design.core in (None, core):
        return design
    if not has_numba():
        raise DesignError(
            f"the cycles of the design are those of core '{design.core}', and to count those of '{core}' needs Numba: "
            "pip install 'fluidnpu[design]'"
        )
    costs = layer_costs(design, core, range(1, design.b_max + 1))
    return replace(design, core=core, latency=latency_of(design.layers, costs, design.clock_hz))


def layer_costs(design: Design, core: str, batches: Sequence[int]) -> list[list[LayerCost]]:
    """For each batch size the cost of each layer under the design's plans, with tensors of its own."""
    machine = Machine.of(design, core)
    return [[_cost(design, index, batch, machine) for index in range(len(design.layers))] for batch in batches]


def _cost(design: Design, index: int, batch: int, machine: Machine) -> LayerCost:
    plan, mode = design.plans[index][batch - 1], design.mode(index, batch)
    deepest = design.t_r // 2 if mode is Mode.SPLIT else design.t_r
    mapping = LayerMapping(mode=mode, batch=batch, b_r=plan.b_r, row_lanes=plan.row_lanes)
    job, slots = synthetic_job(design.lowered(index), mapping, plan.block or deepest, design.array)
    return layer_cost(job, slots, machine, design.dram)
