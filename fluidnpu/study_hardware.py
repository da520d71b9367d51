"""The hardware that the study serves on: for each row of Table II the designs of fluid, FC-only and R batching, and their latency tables.

The row's own table stands for fluid batching. FC-only and R batching each run on the design that the search finds best for them at batch 8 (as the
paper says, section IV); their tables are the row's table times the `paper` model's ratio to the fluid design, stage by stage and batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import Design, LatencyTable, equidistant_exits, explore, search
from fluidnpu.dse.paper import Batching, stage_latency
from fluidnpu.models import Workload, read_layer_table, read_onnx, shipped_file
from fluidnpu.scheduler import PaperRow, Recorded, Serving

FILES = {"resnet50": "layers_resnet50.json", "inceptionv3": "layers_inception_v3.json"}
MODEL = "resnet8_fashion_mnist.onnx"
ONLY_8 = (1e-6,) * 7 + (1.0,)


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One way of batching on its best design: what is served on it, and what the `paper` model says of it."""

    serving: Serving
    model: LatencyTable
    point: tuple[int, int, int]


def workload_of(row: PaperRow) -> tuple[Workload, Board]:
    """The row's network, cut at equal MACs into four stages, and its board."""
    with shipped_file(FILES[row.network]) as path:
        work = read_layer_table(path)
    return equidistant_exits(work, 4, row.serving.exit_rates), load_board(row.board.lower())


@lru_cache
def hardware(row: PaperRow, b_max: int = 8) -> dict[str, Hardware]:
    """`fluid`, `FC` and `R`; with MACs and peak, so that busy MAC efficiency can be told. `b_max` above 8 is for the model's table only."""
    work, board = workload_of(row)
    macs = [0] * 4
    for layer in work.layers:
        macs[layer.stage] += layer.macs
    found: dict[str, Hardware] = {}
    for way in (Batching.FLUID, Batching.FC, Batching.R):
        stackable = way is Batching.FLUID
        weights = None if way is Batching.FLUID else ONLY_8
        point = search(work, board, b_max=8, weights=weights, batching=way, stackable=stackable).best
        model = stage_latency(
            work.layers,
            point,
            clock_hz=board.clock_hz,
            words_per_cycle=board.paper_words_per_cycle,
            b_max=b_max,
            batching=way,
            stackable=stackable,
        )
        base = found["fluid"].model if found else model
        ratio = np.array(model.ns)[:, :8] / np.array(base.ns)[:, :8]
        scaled = np.rint(np.array(row.serving.latency.ns) * ratio).astype(int)
        serving = Serving(
            latency=LatencyTable(ns=tuple(tuple(map(int, line)) for line in scaled)),
            exit_rates=row.serving.exit_rates,
            name=f"{row.serving.name}, {way.value}",
            macs=tuple(macs),
            peak_macs_per_s=float(point.dsp * board.clock_hz),
        )
        kind = {Batching.FLUID: "fluid", Batching.FC: "FC", Batching.R: "R"}[way]
        found[kind] = Hardware(serving=serving, model=model, point=(point.t_r, point.t_p, point.t_c))
    return found


def boards_of_fig10() -> Iterator[tuple[str, Workload, Board]]:
    """The networks and boards of Fig. 10, without exits."""
    for network, file in FILES.items():
        with shipped_file(file) as path:
            work = read_layer_table(path)
        for name in ("zc706", "zcu104"):
            board = load_board(name)
            yield f"{'ResNet-50' if network == 'resnet50' else 'Inception-v3'}, {board.name.upper()}", work, board


@lru_cache
def recorded_images() -> tuple[Recorded, Design]:
    """The shipped network's int16 confidences on the shipped test images, and its design for the ZC706."""
    from .simulating import record_network

    with shipped_file(MODEL) as path:
        return record_network(path)[0], explore(read_onnx(path).workload, load_board("zc706")).design
