"""The Pareto front of buildable designs: throughput, latency of one sample, DSPs, on-chip memory and LUTs.

Candidates are all arrays of a board's space that fit it, each with accumulators as deep as can be and with
shallower ones (`DEPTHS`), all beside the least input buffer. The `paper` model times them; under the `exact`
model, which would take days to evaluate them all, its lower bound does (`exact.bound`): no plan of theirs is
faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..exact.search import lower_bounds
from ..hardware.array import Floats, Ints
from ..hardware.space import DesignSpace
from ..paper.model import operations_rate
from ..paper.search import evaluate, pareto_front
from ..question import Question
from ..resources.buildable import Buildable, buildable, ram_bits, target_space

DEPTHS = (512, 1024, 2048, 4096)  # rows; the RAM of a bank changes at such steps


@dataclass(frozen=True, kw_only=True, eq=False)
class ParetoFront:
    """The Pareto-optimal designs over five objectives, best throughput first.

    `objective`: GOP/s weighted over batch sizes, `latency_ms`: at b = 1; both are bounds under the `exact`
    model. Memory and LUTs are compared in whole per cent of the device, since finer differences are
    remainders. `candidates`: number of designs compared.
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
        return [self._row(index) for index in chosen.tolist()]

    def _row(self, index: int) -> dict[str, Any]:
        point = self.designs.space[index]
        return {
            "t_r": point.t_r,
            "t_p": point.t_p,
            "t_c": point.t_c,
            "objective_gops": float(self.objective[index]),
            "latency_1_ms": float(self.latency_ms[index]),
            "dsp": int(self.designs.dsp[index]),
            "memory_bits": int(self.designs.memory_bits[index]),
            "lut": round(self.designs.lut[index]),
        }


def front(question: Question) -> ParetoFront:
    """The front of a question's board for its workload."""
    board, weights = question.board, question.batch_weights
    designs = buildable(_at_depths(target_space(question.target)), question.target)
    if not len(designs):
        return ParetoFront(designs=designs, objective=np.zeros(0), latency_ms=np.zeros(0), candidates=0)
    words = question.target.out_words
    batches, ticks = _times(question, designs.space, words)
    gops = {
        b: operations_rate(question.macs, b, board.clock_hz, words) / row for b, row in zip(batches, ticks, strict=True)
    }
    objective = np.asarray(sum(weights[b - 1] * row for b, row in gops.items()))
    latency = 1e3 * ticks[0] / words / board.clock_hz
    memory_pct = -(-100 * designs.memory_bits // ram_bits(board.ramb18, board.uram288))
    lut_pct = np.ceil(100 * designs.lut / board.lut)
    best = pareto_front(np.column_stack([-objective, latency, designs.dsp, memory_pct, lut_pct]))
    return ParetoFront(
        designs=designs[best], objective=objective[best], latency_ms=latency[best], candidates=len(designs)
    )


def _times(question: Question, space: DesignSpace, words: int) -> tuple[list[int], Floats]:
    """Batch sizes, b = 1 first, and ticks of 1/`words` cycle for each of them and each point."""
    if question.model == "exact":
        batches = sorted({1, *question.batches})
        return batches, words * lower_bounds(question, space, batches)
    batches = list(range(1, question.b_max + 1))
    return batches, question.weighed(
        lambda layers: evaluate(space, layers, b_max=question.b_max, words_per_cycle=words)
    )


def _at_depths(space: DesignSpace) -> DesignSpace:
    """Every point at its depth and at shallower ones, each once."""
    depths = np.concatenate([space.t_r, *(np.minimum(space.t_r, depth) for depth in DEPTHS)])
    rows = np.unique(
        np.stack([depths, np.tile(space.t_p, 1 + len(DEPTHS)), np.tile(space.t_c, 1 + len(DEPTHS))]), axis=1
    )
    return DesignSpace(t_r=rows[0], t_p=rows[1], t_c=rows[2])
