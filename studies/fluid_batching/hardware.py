"""Hardware that the study serves on: designs of fluid, FC-only and R batching for each row of Table II, and
their tables.

The row's own table stands for fluid batching. FC-only and R batching each run on the design that the search
finds best for them at batch 8 (as the paper says, section IV); their tables are the row's table times the
`paper` model's ratio to the fluid design, stage by stage and batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import Design, LatencyTable, explore, search
from fluidnpu.dse.paper import Batching, stage_latency
from fluidnpu.models import Workload, quantise, read_layer_table, read_onnx, shipped_file, shipped_images
from fluidnpu.models.exits import equidistant_exits
from fluidnpu.models.numeric import record_exits
from fluidnpu.scheduler import Serving
from fluidnpu.scheduler.exits import Recorded

from .paper import NETWORKS, PaperRow

FILES = {"resnet50": "layers_resnet50.json", "inceptionv3": "layers_inception_v3.json"}
MODEL = "resnet8_fashion_mnist.onnx"
STAGES = 4
MEMORY = "ps"  # one port a master: the publication's model is a fit with ports of this width
B_MAX = 8
ONLY_8 = (1e-6,) * 7 + (1.0,)  # weights of batch sizes
KINDS = {"fluid": Batching.FLUID, "FC": Batching.FC, "R": Batching.R}


@dataclass(frozen=True, kw_only=True)
class BatchingHardware:
    """One way of batching on its best design: its serving, and the table that the `paper` model gives it."""

    serving: Serving
    model: LatencyTable
    point: tuple[int, int, int]


def workload_of(row: PaperRow) -> tuple[Workload, Board]:
    """Read the row's network, cut at equal MACs into four stages, and its board."""
    with shipped_file(FILES[row.network]) as path:
        work = read_layer_table(path)
    return equidistant_exits(work, STAGES, row.serving.exit_rates), load_board(row.board.lower())


@lru_cache
def hardware(row: PaperRow, b_max: int = B_MAX) -> dict[str, BatchingHardware]:
    """Search the designs of `fluid`, `FC` and `R`, with MACs and peak, so that busy MAC efficiency can be
    told.

    A `b_max` above 8 makes the model's table longer and changes nothing else.
    """
    work, board = workload_of(row)
    macs = [0] * STAGES
    for layer in work.layers:
        macs[layer.stage] += layer.macs
    kinds: dict[str, BatchingHardware] = {}
    for kind, batching in KINDS.items():
        fluid = batching is Batching.FLUID
        weights = None if fluid else ONLY_8
        point = search(work, board, b_max=B_MAX, weights=weights, batching=batching, stackable=fluid).best
        model = stage_latency(
            work.layers,
            point,
            clock_hz=board.clock_hz,
            words_per_cycle=board.paper_words_per_cycle,
            b_max=b_max,
            batching=batching,
            stackable=fluid,
        )
        serving = Serving(
            latency=_scaled(row.serving.latency, model, kinds["fluid"].model if kinds else model),
            exit_rates=row.serving.exit_rates,
            name=f"{row.serving.name}, {batching.value}",
            macs=tuple(macs),
            peak_macs_per_s=float(point.dsp * board.clock_hz),
        )
        kinds[kind] = BatchingHardware(serving=serving, model=model, point=(point.t_r, point.t_p, point.t_c))
    return kinds


def _scaled(table: LatencyTable, model: LatencyTable, base: LatencyTable) -> LatencyTable:
    """Scale a table by the ratio of two others, up to batch 8."""
    ratio = np.array(model.ns)[:, :B_MAX] / np.array(base.ns)[:, :B_MAX]
    scaled = np.rint(np.array(table.ns) * ratio).astype(int)
    return LatencyTable(ns=tuple(tuple(map(int, line)) for line in scaled))


def boards_of_fig10() -> Iterator[tuple[str, Workload, Board]]:
    """Give the networks and boards of Fig. 10, without exits."""
    for network in FILES:
        for name in ("zc706", "zcu104"):
            work, board = without_exits(network, name)
            yield f"{NETWORKS[network]}, {board.name.upper()}", work, board


def without_exits(network: str, board: str) -> tuple[Workload, Board]:
    """Read a network without exits, and a board."""
    with shipped_file(FILES[network]) as path:
        return read_layer_table(path), load_board(board)


@lru_cache
def record_images() -> tuple[Recorded, Design]:
    """Record the shipped network's int16 form on the shipped test images, and search its design for the
    ZC706.
    """
    with shipped_file(MODEL) as path:
        network = read_onnx(path)
    confidences, correct = record_exits(quantise(network), shipped_images())
    design = explore(network.workload, load_board("zc706"), memory=MEMORY, model="paper", core="rtl").design
    return Recorded(confidences=confidences, correct=correct), design
