"""The measurements that Fluid Batching states, as data: Table II, and the settings of Figs. 7 to 9.

Tables of latencies stand for its boards.

The paper gives no latency per stage and batch. `data/table2_latency.json` holds one table for each row of
Table II, made with a roofline model whose one free factor was fitted so that the average latency of `fluid`
is the paper's. Everything else that comes out is a prediction.

>>> [(row.network, row.board, row.slo_ms) for row in table2_rows()][0]
('resnet50', 'ZC706', 200)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from fluidnpu.scheduler import Serving

NETWORKS = {"resnet50": "ResNet-50", "inceptionv3": "Inception-v3"}
LAYERS = {"resnet50": 56, "inceptionv3": 96}


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """One row of Table II: its setting, the table that stands for its hardware, the paper's averages (ms) and
    violations (%).
    """

    network: str
    board: str
    rate_per_s: float
    slo_ms: int
    serving: Serving
    lazy_average_ms: float
    lazy_violations_pct: float
    fluid_average_ms: float
    fluid_violations_pct: float

    @property
    def name(self) -> str:
        """As in tables, e.g. `ResNet-50, ZC706`."""
        return f"{NETWORKS[self.network]}, {self.board}"

    @property
    def slo_ns(self) -> int:
        """The objective in nanoseconds."""
        return self.slo_ms * 10**6

    @property
    def layers(self) -> int:
        """Layers that LazyBatching may preempt at, a multiple of the four stages."""
        return LAYERS[self.network]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Two figures over one row's table: the first by rate at `slo_ms`, the second by objective at
    `rate_per_s`.
    """

    figures: tuple[str, str]
    row: PaperRow
    slo_ms: int
    rates_per_s: tuple[float, ...]
    rate_per_s: float
    slos_ms: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PrintedDesign:
    """One row of Table I as printed: the design point, and its share of DSPs and of on-chip memory in %."""

    network: str
    board: str
    point: tuple[int, int, int]
    dsp_pct: float
    memory_pct: float


TABLE_1 = (
    PrintedDesign(network="resnet50", board="zc706", point=(4652, 7, 128), dsp_pct=99.56, memory_pct=99.96),
    PrintedDesign(network="resnet50", board="zcu104", point=(6832, 10, 172), dsp_pct=99.53, memory_pct=99.99),
    PrintedDesign(network="inceptionv3", board="zc706", point=(2742, 4, 225), dsp_pct=100.0, memory_pct=99.94),
    PrintedDesign(network="inceptionv3", board="zcu104", point=(6832, 10, 172), dsp_pct=100.0, memory_pct=99.99),
)
FBCB_PCT = {  # of the board's registers, section IV
    ("resnet50", "zc706"): 0.57,
    ("resnet50", "zcu104"): 0.54,
    ("inceptionv3", "zc706"): 0.95,
    ("inceptionv3", "zcu104"): 0.90,
}


@lru_cache
def table2_rows() -> tuple[PaperRow, ...]:
    """Read the four rows of Table II."""
    text = resources.files(__package__).joinpath("data").joinpath("table2_latency.json").read_text(encoding="utf-8")
    rows = []
    for raw in json.loads(text)["rows"]:
        name = f"{NETWORKS[raw['network']]} on {raw['board']}"
        rows.append(
            PaperRow(
                network=raw["network"],
                board=raw["board"],
                rate_per_s=raw["rate_per_s"],
                slo_ms=raw["slo_ms"],
                serving=Serving.loads(json.dumps(raw | {"name": name})),
                lazy_average_ms=raw["paper_lazy_avg_ms"],
                lazy_violations_pct=raw["paper_lazy_viol_pct"],
                fluid_average_ms=raw["paper_fluid_avg_ms"],
                fluid_violations_pct=raw["paper_fluid_viol_pct"],
            )
        )
    return tuple(rows)


@lru_cache
def sweeps() -> tuple[Sweep, Sweep]:
    """Give the settings of Figs. 7 to 9: the paper's ranges, closer together where policies part ways."""
    first, last = table2_rows()[0], table2_rows()[3]
    return (
        Sweep(
            figures=("Fig. 7", "Fig. 9a"),
            row=first,
            slo_ms=400,
            rates_per_s=(5, 7.5, 10, 12.5, 15, 16.25, 17.5, 18.75, 20, 21.25, 22.5, 23.75, 25),
            rate_per_s=15,
            slos_ms=(100, 150, 200, 250, 300, 400, 500, 600),
        ),
        Sweep(
            figures=("Fig. 8", "Fig. 9b"),
            row=last,
            slo_ms=200,
            rates_per_s=(20, 25, 30, 35, 37.5, 40, 42.5, 45, 47.5, 50, 55, 60),
            rate_per_s=35,
            slos_ms=(60, 80, 100, 150, 200, 250, 300, 400),
        ),
    )
