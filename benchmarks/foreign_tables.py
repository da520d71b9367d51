"""Serving tables of networks, boards and memories that nobody tuned a policy on, drawn from a seed.

python benchmarks/foreign_tables.py # writes foreign_tables.json and batching_tables.json

A table is a network cut into 2 to 5 stages, on an array that fills a share of a board's multipliers, behind a
memory of a quarter to twice the board's words a cycle, with exit rates, a load of 40 to 90 % of what the NPU
serves at best, and an objective of 1.5 to 8 times one sample alone. Durations are those of the `paper` model.

There are kinds, by the first word of the generator's key. EVALUATION tables are for results alone: they were
written to `foreign_tables.json` before anything was tuned on a drawn table. Whatever is tuned or chosen for
the package uses TRAINING tables. BATCHING tables are a second set for results alone, of accelerators that
profit from batches as no design of ours does: a batch of b_max costs 1 to 16 times less a sample, by three
cost models, at 40 to 95 % of what an endless queue gets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fluidnpu.boards import load_board
from fluidnpu.dse import LatencyTable, Point
from fluidnpu.dse.paper.latency import stage_latency
from fluidnpu.models import LayerShape, Workload, read_layer_table, shipped_file
from fluidnpu.models.exits import equidistant_exits
from fluidnpu.scheduler import Serving
from fluidnpu.scheduler.policies.solving.saturated import solve_saturated

EVALUATION, TRAINING, BATCHING = 2401, 2402, 2403
COUNT = 24  # tables of a set
FILE = Path(__file__).with_suffix(".json")
BATCHING_FILE = FILE.with_name("batching_tables.json")
GOLDEN = 0.6180339887498949  # multiples of it modulo 1 fill 0..1 evenly
PUBLISHED = {"resnet50": "layers_resnet50.json", "inception_v3": "layers_inception_v3.json"}
MEMORIES = (0.25, 0.5, 1.0, 2.0)  # of the board's words a cycle


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """One table with its load and objective; `about` says what was drawn."""

    serving: Serving
    rate_per_s: float
    slo_ns: int
    load: float
    about: str


def draw_table(kind: int, index: int) -> Foreign:
    """Draw table `index` of a kind."""
    rng = np.random.default_rng([kind, index])
    network = ("resnet50", "inception_v3", "plain", "mobile")[index % 4]
    stages = int(rng.integers(2, 6))
    work = equidistant_exits(_workload(network, rng), stages)
    board = load_board(("zc706", "zcu104")[int(rng.integers(2))])
    memory = MEMORIES[int(rng.integers(len(MEMORIES)))]
    b_max = int(rng.choice((4, 8, 16) if stages <= 3 else (4, 8) if stages == 4 else (4, 6)))
    t_p = int(rng.integers(4, 33))
    point = Point(
        t_r=int(rng.integers(4, 33)) * 128, t_p=t_p, t_c=int(board.dsp * rng.uniform(0.5, 1.0)) // t_p // 2 * 2
    )
    words = max(1, round(board.paper_words_per_cycle * memory))
    latency = stage_latency(work.layers, point, clock_hz=board.clock_hz, words_per_cycle=words, b_max=b_max)
    early = rng.uniform(0.2, 0.75) * rng.dirichlet((2.0,) * (stages - 1))
    rates = (*(round(float(x), 3) for x in early),)
    serving = Serving(latency=latency, exit_rates=(*rates, round(1 - sum(rates), 3)), name=f"{network}-{index}")
    load = 0.4 + 0.5 * ((index + 0.5) * GOLDEN % 1)
    slo_ns = round(rng.uniform(1.5, 8) * sum(row[0] for row in latency.ns))
    about = (
        f"{network}, {board.name}, <{point.t_r}, {point.t_p}, {point.t_c}>, memory {memory:g}, {stages} stages, "
        f"batches to {b_max}"
    )
    rate = load / serving.least_load(1.0)
    return Foreign(serving=serving, rate_per_s=rate, slo_ns=slo_ns, load=load, about=about)


def draw_batching(index: int) -> Foreign:
    """Draw table `index` of the second set."""
    rng = np.random.default_rng([BATCHING, index])
    model = ("affine", "staircase", "roofline")[index % 3]
    stages = int(rng.integers(2, 5))
    b_max = int(rng.choice((4, 8, 16) if stages <= 3 else (4, 8)))
    gain = 16 ** ((index + 0.5) * GOLDEN % 1)
    alone_ns = 10 ** rng.uniform(5.0, 7.5)  # of the whole network
    rows = []
    for share in rng.dirichlet((2.0,) * stages):
        own = float(np.clip(gain * np.exp(rng.normal(0, 0.5)), 1, b_max))
        rows.append(tuple(max(1, round(alone_ns * share * x)) for x in _batch_costs(model, b_max, own, rng)))
    early = rng.uniform(0.2, 0.75) * rng.dirichlet((2.0,) * (stages - 1))
    rates = (*(round(float(x), 3) for x in early),)
    serving = Serving(
        latency=LatencyTable(ns=tuple(rows)), exit_rates=(*rates, round(1 - sum(rates), 3)), name=f"{model}-{index}"
    )
    load = 0.4 + 0.55 * ((index + 0.5) * GOLDEN * GOLDEN % 1)
    slo_ns = round(rng.uniform(1.5, 8) * sum(row[0] for row in rows))
    cheaper = b_max * sum(row[0] for row in rows) / sum(row[-1] for row in rows)
    about = f"{model}, {stages} stages, batches to {b_max}, a full one {cheaper:.1f} times cheaper a sample"
    return Foreign(serving=serving, rate_per_s=at_load(serving, load), slo_ns=slo_ns, load=load, about=about)


def _batch_costs(model: str, b_max: int, gain: float, rng: np.random.Generator) -> list[float]:
    """Give the cost of every batch over that of one sample; b_max of them cost b_max / gain.

    A fixed part and one a sample; the same in steps of some lanes; or weights to load, then work a sample.
    """
    batches, last = np.arange(1, b_max + 1), b_max / gain
    if b_max == 1 or last <= 1:
        return [1.0] * b_max
    if model == "affine":
        return [float(x) for x in 1 + (last - 1) * (batches - 1) / (b_max - 1)]
    if model == "staircase":
        lanes = int(rng.integers(2, max(3, b_max // 2 + 1)))
        steps = -(-batches // lanes) - 1
        return [float(x) for x in 1 + (last - 1) * steps / max(1, steps[-1])]
    return [float(x) for x in np.maximum(1, last * batches / b_max)]


def at_load(serving: Serving, load: float) -> float:
    """Give the arrivals a second that are this share of what an endless queue gets at best."""
    rule = solve_saturated(serving.latency, serving.exit_rates)
    return load * rule.per_s if rule is not None else load / serving.least_load(1.0)


def _workload(network: str, rng: np.random.Generator) -> Workload:
    if network in PUBLISHED:
        with shipped_file(PUBLISHED[network]) as path:
            return read_layer_table(path)
    make = _plain_layer if network == "plain" else _mobile_layers
    layers: list[LayerShape] = []
    size, channels = int(rng.integers(14, 57)) * 2, int(rng.integers(2, 9)) * 8
    for block in range(int(rng.integers(8, 25))):
        shrinks = size > 7 and rng.random() < 0.25
        size, wider = (size // 2, 2 * channels) if shrinks else (size, channels)
        layers += make(f"block{block}", size * size, channels, min(wider, 1024))
        channels = min(wider, 1024)
    return Workload(name=network, layers=tuple(layers))


def _plain_layer(name: str, rows: int, channels: int, out: int) -> list[LayerShape]:
    return [LayerShape(name=name, r=rows, p=9 * channels, c=out)]


def _mobile_layers(name: str, rows: int, channels: int, out: int) -> list[LayerShape]:
    wide = 4 * channels
    return [
        LayerShape(name=f"{name}.expand", r=rows, p=channels, c=wide),
        LayerShape(name=f"{name}.depth", r=rows, p=9, c=8, groups=wide // 8),
        LayerShape(name=f"{name}.project", r=rows, p=wide, c=out),
    ]


def to_dict(table: Foreign) -> dict[str, Any]:
    """Return the table as JSON types; a file of it alone suits `fluidnpu simulate`."""
    return {
        "name": table.serving.name,
        "about": table.about,
        "load": round(table.load, 6),
        "rate_per_s": table.rate_per_s,
        "slo_ns": table.slo_ns,
        "exit_rates": list(table.serving.exit_rates),
        "latency_ns": [list(row) for row in table.serving.latency.ns],
    }


def evaluation_tables(path: Path = FILE) -> Iterator[Foreign]:
    """Read the evaluation tables, as they were drawn once and for all."""
    for raw in json.loads(path.read_text(encoding="utf-8"))["tables"]:
        serving = Serving(
            latency=LatencyTable(ns=tuple(map(tuple, raw["latency_ns"]))),
            exit_rates=tuple(raw["exit_rates"]),
            name=raw["name"],
        )
        yield Foreign(
            serving=serving,
            rate_per_s=raw["rate_per_s"],
            slo_ns=raw["slo_ns"],
            load=raw["load"],
            about=raw["about"],
        )


def write(path: Path, key: int, tables: list[dict[str, Any]]) -> None:
    """Write tables, one a line."""
    lines = ",\n".join(map(json.dumps, tables))
    path.write_text(f'{{"key": {key}, "tables": [\n{lines}\n]}}\n', encoding="utf-8")


def main() -> None:
    tables = [to_dict(draw_table(EVALUATION, index)) for index in range(COUNT)]
    write(FILE, EVALUATION, tables)
    batching = [to_dict(draw_batching(index)) for index in range(COUNT)]
    write(BATCHING_FILE, BATCHING, batching)
    for table in tables + batching:
        print(f"{table['name']}: {table['about']}, load {100 * table['load']:.0f} %, {table['rate_per_s']:.1f}/s, "
              f"objective {table['slo_ns'] / 1e6:.2f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
