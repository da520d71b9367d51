"""Golden snapshots: what users and other programs read, equal to the files in `tests/reference/snapshots`.

After a wanted change: FLUIDNPU_REWRITE_REFERENCE=1 python -m pytest tests/test_snapshots.py, and read the
diff. The project of a bitstream, with its bundle, is held so by tests/hls/test_hls_project.py, and Table I by
tests/dse/test_dse_table1.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from fluidnpu.boards import load_board
from fluidnpu.dse import LatencyTable, explore
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program
from fluidnpu.hls.views.formats import render_format_table
from fluidnpu.hls.views.registers import render_register_table
from fluidnpu.host.oip.edges.openapi import document
from fluidnpu.host.oip.front import BoardAdmin
from fluidnpu.host.oip.operations import OPERATIONS
from fluidnpu.models import quantise, read_onnx, shipped_file
from fluidnpu.models.zoo import random_network
from fluidnpu.scheduler import Serving
from fluidnpu.scheduler.comparison import Source, record
from fluidnpu.scheduler.comparison.compare import compare
from fluidnpu.scheduler.placement import place
from fluidnpu.scheduler.placement.testing import toy_fleet

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOTS = ROOT / "tests" / "reference" / "snapshots"
TABLE_2 = json.loads(files("fluidnpu.studies").joinpath("fluid_batching/data/table2_latency.json").read_text())["rows"]


def as_json(value: Any, depth: int = 9) -> str:
    """Sorted JSON, indented to a depth, with nine digits of a number: others differ between processors."""
    short = json.loads(json.dumps(value), parse_float=lambda text: float(f"{float(text):.9g}"))
    return indented(short, depth, "\n") + "\n"


def indented(value: Any, depth: int, newline: str) -> str:
    if not depth or not isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    inner = newline + " "
    rows = (f"{inner}{json.dumps(key)}: {indented(value[key], depth - 1, inner)}" for key in sorted(value))
    return f"{{{','.join(rows)}{newline}}}"


def serving_of(row: dict[str, Any]) -> Serving:
    """The served network of a row of Table II."""
    return Serving(latency=LatencyTable(ns=tuple(map(tuple, row["latency_ns"]))), exit_rates=tuple(row["exit_rates"]))


def cycles() -> str:
    """The shipped network on a ZC706: the array that the search finds, and nanoseconds by stage and batch."""
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        found = explore(read_onnx(path).workload, load_board("zc706"), b_max=2)
    array = [found.design.t_r, found.design.t_p, found.design.t_c]
    return as_json({"array": array, "latency_ns": found.design.latency.ns, "per_second": found.frames_per_second})


def table_2() -> str:
    """The paper's four rows, shorter than in the study."""
    lines, policies = [], ["serial", "greedy", "fluid"]
    for row in TABLE_2:
        rate, slo_ns = row["rate_per_s"], row["slo_ms"] * 10**6
        found = compare(serving_of(row), policies, rate_per_s=rate, slo_ns=slo_ns, requests=400, seeds=2)
        lines += [f"{row['network']} on {row['board']}, {rate}/s within {row['slo_ms']} ms", found.table(), ""]
    return "\n".join(lines)


def decisions() -> str:
    """The log of twenty requests that `fluid` serves at the rate of Table II's first row."""
    serving, rate, slo_ns = serving_of(TABLE_2[0]), 15.0, 200_000_000
    drawn = Source(rate_per_s=rate, slo_ns=slo_ns, count=20).draw(serving, 1)
    return record(serving, "fluid", drawn.requests, drawn.exits, rate_per_s=rate, slo_ns=slo_ns)[0]


def plan() -> str:
    """The cheapest plan of four boards for 300 requests a second."""
    found = place(toy_fleet(4, bytes_per_s=10**8), rate_per_s=300.0, slo_ns=50_000_000)
    return as_json({key: value for key, value in found.plan.to_dict().items() if key not in ("digest", "fleet")})


def openapi() -> str:
    """The document of a server with one small network and its admin surface."""
    network = quantise(random_network(3))
    program = compile_program(network, design_for(network.network.workload))
    operations = [one for one in OPERATIONS if one.needs is not BoardAdmin]
    return as_json(document("VERSION", {"small": program}, operations), depth=5)


MADE: dict[str, tuple[Path, Callable[[], str]]] = {
    "registers": (ROOT / "docs" / "reference" / "registers.md", render_register_table),
    "formats": (ROOT / "docs" / "reference" / "formats.md", render_format_table),
    "cycles": (SNAPSHOTS / "resnet8_zc706.json", cycles),
    "table 2": (SNAPSHOTS / "table_2.txt", table_2),
    "decisions": (SNAPSHOTS / "fluid.jsonl", decisions),
    "plan": (SNAPSHOTS / "plan.json", plan),
    "openapi": (SNAPSHOTS / "openapi.json", openapi),
}


@pytest.mark.parametrize("name", MADE)
def test_it_is_what_the_snapshot_says(name: str) -> None:
    path, made = MADE[name]
    text = made()
    if os.environ.get("FLUIDNPU_REWRITE_REFERENCE"):
        path.write_text(text, encoding="utf-8")
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()
