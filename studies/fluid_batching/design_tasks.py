"""Tasks about designs: Table I, the co-design loop, Fig. 1b, the ablation of Fig. 10, a batch of 16."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidnpu.dse import explore, search
from fluidnpu.dse.paper import Batching, ablation, stage_latency
from fluidnpu.scheduler import Serving

from ..running.study import Size
from ..writing import significant
from .comparison import RequestLoad, compare_at, policy_cells
from .hardware import B_MAX, MEMORY, ONLY_8, STAGES, boards_of_fig10, hardware, without_exits, workload_of
from .paper import PaperRow, PrintedDesign, table2_rows
from .settings import YARDSTICKS

MOST_STEPS = 6
FBCB_BITS = 5  # of an entry: two for k, three for B_R (section III-A)
LEAST_SHARE = 1e-6  # of a batch size, so that no weight is zero
Answer = dict[str, Any]


def codesign(row: PaperRow, size: Size) -> Answer:
    """Feed the batch histogram under the expected traffic back as the search's weights w_b, until the design
    stays.
    """
    work, board = workload_of(row)
    weights: list[float] | None = None
    seen: list[list[int]] = []
    steps, load = [], None
    for _ in range(MOST_STEPS):
        design = explore(work, board, weights=weights, memory=MEMORY, model="paper", core="rtl").design
        serving = Serving.of(design)
        load = load or _proportional_load(row, serving, size)
        comparison = compare_at(load, serving, ("fluid",))
        runs = np.sum([m.batches for m in comparison.metrics["fluid"]], axis=0)
        shares = [max(float(x), LEAST_SHARE) for x in runs / runs.sum()]
        cells = policy_cells(comparison)["fluid"]
        point = [design.t_r, design.t_p, design.t_c]
        steps.append(
            {
                "point": point,
                "weights": None if weights is None else [significant(w) for w in weights],
                "batch_shares": [significant(x) for x in shares],
                **{key: cells[key] for key in YARDSTICKS},
            }
        )
        if point in seen:
            break
        seen.append(point)
        weights = shares
    assert load is not None
    return {"rate_per_s": significant(load.rate_per_s), "slo_ms": significant(load.slo_ns / 1e6), "steps": steps}


def _proportional_load(row: PaperRow, serving: Serving, size: Size) -> RequestLoad:
    """Keep the share of time that the NPU is busy, and the objective in proportion: the paper model is faster
    than the row.
    """
    rate = row.rate_per_s * row.serving.least_load(1) / serving.least_load(1)
    return RequestLoad.of_sweep(rate, round(row.slo_ns * row.rate_per_s / rate), size)


def table1(row: PrintedDesign) -> Answer:
    """Search a row of Table I by the `paper` model, and count what the FBCB of such an NPU would hold."""
    work, board = without_exits(row.network, row.board)
    explored = explore(work, board, b_max=B_MAX, memory=MEMORY, model="paper", core="rtl")
    resources, best = explored.published_resources, explored.published
    return {
        "point": [best.t_r, best.t_p, best.t_c],
        "unique": bool(explored.ranking.unique),
        "designs": len(explored.ranking),
        "dsp_pct": significant(resources["dsp"]["percent"]),
        "memory_pct": significant(resources["memory_bits"]["percent"]),
        "fbcb_pct": significant(100 * FBCB_BITS * len(work.layers) * B_MAX / board.ff),
    }


def fig1b() -> Answer:
    """Give GOP/s of the four parts of ResNet-50 on ZC706 at a batch of eight, one way of batching everywhere.

    Each way has the design that is best for it; SERIAL has single samples.
    """
    work, board = workload_of(table2_rows()[0])
    macs = [sum(layer.macs for layer in work.layers if layer.stage == stage) for stage in range(STAGES)]
    out: Answer = {"peak": 2 * board.dsp * board.clock_hz / 1e9}
    for name, batching in (("SERIAL", Batching.R), ("FC", Batching.FC), ("R", Batching.R), ("P", Batching.P)):
        batch = 1 if name == "SERIAL" else B_MAX
        weights = None if batch == 1 else ONLY_8
        point = search(work, board, b_max=batch, weights=weights, batching=batching, stackable=False).best
        table = stage_latency(
            work.layers,
            point,
            clock_hz=board.clock_hz,
            words_per_cycle=board.paper_words_per_cycle,
            b_max=batch,
            batching=batching,
            stackable=False,
        )
        out[name] = [significant(2 * batch * macs[k] / table.ns[k][batch - 1]) for k in range(STAGES)]
    return out


def fig10() -> Answer:
    """Give the share of the peak by batch size (Fig. 10), each way of batching on its own best design."""
    out: Answer = {}
    for name, work, board in boards_of_fig10():
        peak = 2 * board.dsp * board.clock_hz / 1e9
        out[name] = {
            row.name: {
                "point": [row.point.t_r, row.point.t_p, row.point.t_c],
                "share_pct": [significant(100 * g / peak) for g in row.gops],
            }
            for row in ablation(work, board)
        }
    return out


def batch_16() -> Answer:
    """Continue the table of ResNet-50 on ZCU104 to B = 16 by the growth that the `paper` model gives from B =
    8.
    """
    row = table2_rows()[1]
    model = hardware(row, b_max=16)["fluid"].model.ns
    eight = row.serving.latency.between(0, row.serving.latency.stages - 1, 8)
    growth = sum(stage[15] for stage in model) / sum(stage[7] for stage in model)
    return {"batch_8_ms": significant(eight / 1e6), "batch_16_ms": significant(eight * growth / 1e6)}
