"""The Pareto front of what can be built: throughput, latency of a single sample, DSPs, on-chip memory and LUTs.

Candidates are all arrays of a board's space that fit it, each with accumulators as deep as can be and with shallower ones (`DEPTHS`), all beside the
least input buffer. The `paper` model times them; under the `exact` model, which would take days to count them all, its floor does (`exact_bound`):
no plan of theirs is faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidnpu.boards import Board
from fluidnpu.models import Workload

from ..exact.search import floors
from ..exact.sharing import machine_on
from ..hardware.dram import DramModel
from ..paper.model import Point, operations_rate
from ..paper.search import Floats, Ints, Space, evaluate, legal_space, pareto_front
from ..resources.buildable import Buildable, buildable, ram_bits
from ..resources.fit import CORES, MIN_T_C, MIN_T_P, stream_words

DEPTHS = (512, 1024, 2048, 4096)  # rows; what RAM a bank takes changes at such steps


@dataclass(frozen=True, kw_only=True, eq=False)
class Front:
    """Designs that none beats in all five figures at once, best objective first.

    `objective`: GOP/s weighted over batch sizes, `latency_ms`: at b = 1; at most and at least so much under the `exact` model.
    Memory and LUTs are compared in whole per cent of the device, since finer differences are remainders. `candidates`: how many were compared.
    """

    designs: Buildable
    objective: Floats
    latency_ms: Floats
    candidates: int

    def __len__(self) -> int:
        return len(self.designs)

    def rows(self, limit: int | None = None) -> list[dict[str, Any]]:
        """One dictionary a design; `limit` thins them evenly to at most that many, both ends kept."""
        chosen: Ints = np.arange(len(self))
        if limit is not None and len(self) > limit:
            chosen = np.linspace(0, len(self) - 1, limit).astype(int)
        found = []
        for index in chosen.tolist():
            point = self.designs.space[index]
            found.append(
                {
                    "t_r": point.t_r,
                    "t_p": point.t_p,
                    "t_c": point.t_c,
                    "objective_gops": float(self.objective[index]),
                    "latency_1_ms": float(self.latency_ms[index]),
                    "dsp": int(self.designs.dsp[index]),
                    "memory_bits": int(self.designs.memory_bits[index]),
                    "lut": round(self.designs.lut[index]),
                }
            )
        return found


def front(
    workload: Workload,
    board: Board,
    *,
    b_max: int,
    weights: tuple[float, ...],
    model: str = "paper",
    memory: str | None = None,
    core: str = CORES[0],
) -> Front:
    """The front of a board for a workload. `weights`: of the throughput at each batch size, b_max of them; the others as `explore` takes them."""
    fbcb_words = len(workload.layers) * b_max
    found = buildable(
        _at_depths(legal_space(board)), board, fbcb_words=fbcb_words, b_max=b_max, memory=memory, core=core
    )
    if not len(found):
        return Front(designs=found, objective=np.zeros(0), latency_ms=np.zeros(0), candidates=0)
    words = stream_words(board, memory)
    if model == "exact":
        machine = machine_on(board, memory, Point(t_r=2, t_p=MIN_T_P, t_c=MIN_T_C))
        asked = sorted({1, *(b for b in range(1, b_max + 1) if weights[b - 1])})
        ticks = words * floors(workload, found.space, machine, DramModel.of(board, memory), asked)
    else:
        asked = list(range(1, b_max + 1))
        ticks = evaluate(found.space, workload.layers, b_max=b_max, words_per_cycle=words)
    gops = {
        b: operations_rate(workload.macs, b, board.clock_hz, words) / row for b, row in zip(asked, ticks, strict=True)
    }
    objective = np.asarray(sum(weights[b - 1] * row for b, row in gops.items()))
    latency = 1e3 * ticks[0] / words / board.clock_hz
    memory_pct = -(-100 * found.memory_bits // ram_bits(board.ramb18, board.uram288))
    lut_pct = np.ceil(100 * found.lut / board.lut)
    best = pareto_front(np.column_stack([-objective, latency, found.dsp, memory_pct, lut_pct]))
    return Front(designs=found[best], objective=objective[best], latency_ms=latency[best], candidates=len(found))


def _at_depths(space: Space) -> Space:
    """Every point at its depth and at shallower ones, each once."""
    depths = np.concatenate([space.t_r, *(np.minimum(space.t_r, depth) for depth in DEPTHS)])
    rows = np.unique(
        np.stack([depths, np.tile(space.t_p, 1 + len(DEPTHS)), np.tile(space.t_c, 1 + len(DEPTHS))]), axis=1
    )
    return Space(t_r=rows[0], t_p=rows[1], t_c=rows[2])
