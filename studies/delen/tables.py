"""The study's tables as Markdown, for documentation: generated, so never edited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..writing import plus_minus, table_head, table_row
from .energy import POLICIES, SPLIT_POLICIES
from .modes import MODES
from .settings import IDLE_W, LEVELS, NETWORKS, RATE, RATES
from .shares import FLOODS, LIMIT_RATES
from .tasks import LIMITED
from .verdicts import TITLES

Body = Mapping[str, Any]


def tables_markdown(study: Body, command: str) -> str:
    """Write every table of the study."""
    blocks = [
        [
            "# Tables of the study of Delen",
            "",
            f"Written by `{command}`; do not edit.",
            "Simulated; energy is modelled.",
        ],
        *([f"## {title}", "", *table_head(head), *map(table_row, rows)] for title, head, rows in tables(study)),
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def tables(study: Body) -> list[tuple[str, list[str], list[list[str]]]]:
    """Give title, head and rows of every table."""
    parts = study["parts"]
    return [
        (TITLES["Table 1"], ["criterion", "read"], _criteria(parts)),
        ("Table 3", ["what", "within the paper's time"], _bounds(parts)),
        ("Fig. 3: accuracy % by exit", ["network", "samples", *(f"exit {n}" for n in range(1, 5))], _exits(parts)),
        (
            f"Fig. 7: modes at {RATE}/s",
            ["mode", "answered/s", "accuracy %", "mean ms", "p99 ms", "exits %"],
            _modes(parts),
        ),
        ("Figs. 11, 12: accuracy % (mean ms) over the rate", ["mode", *(f"{r}/s" for r in RATES)], _rates(parts)),
        (
            "Fig. 8 on one split: energy over the whole network's, and accuracy % on unseen samples (99 % of the last exit's asked)",
            ["network", *POLICIES],
            _energy(parts),
        ),
        (
            "Fig. 10: lifetime over the whole network's at 10/s, over idle watts",
            ["policy", *map(str, IDLE_W)],
            _life(parts),
        ),
        ("Fig. 13: share of the NPU under a limit of 0.5", ["mode", *(f"{r}/s" for r in LIMIT_RATES)], _limits(parts)),
        (
            "Figs. 14, 15: before and during a burst of img1",
            ["shares", "tenant", "service ms", "response ms", "p99 ms", "accuracy %"],
            _burst(parts),
        ),
        ("Isolation: a victim's p99 in ms", ["flood", "tenants", "one queue"], _isolation(parts)),
        (
            TITLES["ours: a bound"],
            ["network", *SPLIT_POLICIES],
            _guarantee(parts),
        ),
        (
            TITLES["Fig. 9"],
            ["network", *(f"{level}: {100 * asked:g} %" for level, asked in LEVELS.items())],
            _levels(parts),
        ),
        (TITLES["Fig. 16"], ["what", "without", "with", "more %"], _heads(parts)),
    ]


def _criteria(parts: Body) -> list[list[str]]:
    return [[f"`{text}`", "yes" if able else "no"] for text, able in parts["Table 1"]["criteria"].items()]


def _bounds(parts: Body) -> list[list[str]]:
    return [[what, "yes" if kept else "no"] for what, kept in parts["Table 3"]["bounds"].items()]


def _exits(parts: Body) -> list[list[str]]:
    rows = parts["Fig. 3"]
    return [[n, str(rows[n]["samples"]), *(plus_minus(exit) for exit in rows[n]["accuracy_pct"])] for n in NETWORKS]


def _levels(parts: Body) -> list[list[str]]:
    cells = parts["Fig. 9"]
    return [
        [n, *(f"{c['energy']:.2f}, {c['accuracy_pct']:.2f} %" for c in (cells[f"{n}, {level}"] for level in LEVELS))]
        for n in NETWORKS
    ]


def _heads(parts: Body) -> list[list[str]]:
    work, time = parts["Fig. 16"]["heads"], parts["Fig. 16"]["times"]
    macs = [f"{x:,}" for x in (work["macs"] - work["early_heads"], work["macs"])]
    return [
        ["time, us", f"{time['single_us']:.1f}", f"{time['us']:.1f}", f"{time['share_pct']:.2f}"],
        ["multiply-accumulates", *macs, f"{work['share_pct']:.2f}"],
    ]


def _modes(parts: Body) -> list[list[str]]:
    rows = []
    for mode in MODES:
        entry = parts["modes"][f"{mode}, {RATE:g}"]
        cells = [plus_minus(entry[key], digits) for key, digits in (("answered_per_s", 1), ("accuracy_pct", 2))]
        cells += [plus_minus(entry[key], 0) for key in ("average_ms", "p99_ms")]
        rows.append([mode, *cells, " / ".join(f"{share:.0f}" for share in entry["exit_pct"])])
    return rows


def _rates(parts: Body) -> list[list[str]]:
    def cell(mode: str, rate: float) -> str:
        entry = parts["modes"][f"{mode}, {rate:g}"]
        return f"{plus_minus(entry['accuracy_pct'])} ({entry['average_ms'][0]:.0f})"

    return [[mode, *(cell(mode, rate) for rate in RATES)] for mode in MODES]


def _energy(parts: Body) -> list[list[str]]:
    def cell(mode_: Body) -> str:
        missed = "" if mode_["met"] else ", missed"
        return f"{mode_['energy']:.2f}, {mode_['accuracy_pct']:.2f}{missed}{' (' + mode_['said'] + ')' if mode_['said'] else ''}"

    return [[network, *(cell(parts["Fig. 8"][network][policy]) for policy in POLICIES)] for network in NETWORKS]


def _life(parts: Body) -> list[list[str]]:
    rows = parts["Fig. 10"]["lifetimes"]["ratios"]["10/s"]
    return [[policy, *(f"{value:.2f}" for value in row)] for policy, row in rows.items()]


def _limits(parts: Body) -> list[list[str]]:
    return [[m, *(plus_minus(parts["Fig. 13"][f"{m}, {rate:g}"], 3) for rate in LIMIT_RATES)] for m in LIMITED]


def _burst(parts: Body) -> list[list[str]]:
    rows = []
    for label, body in (("fixed", parts["Figs. 14, 15"]["alone"]), ("cooperative", parts["Figs. 14, 15"]["together"])):
        for key in sorted(body):
            entry = body[key]
            cells = [plus_minus(entry[name]) for name in ("service_ms", "response_ms", "p99_ms", "accuracy_pct")]
            rows.append([label, key, *cells])
    return rows


def _isolation(parts: Body) -> list[list[str]]:
    isolation = parts["isolation"]
    return [
        [f"{flood}/s", *(plus_minus(isolation[f"{flood:g}"][key], 0) for key in ("tenants", "one queue"))]
        for flood in FLOODS
    ]


def _guarantee(parts: Body) -> list[list[str]]:
    rows = []
    for network in NETWORKS:
        entry = parts["guarantee"][network]
        cells = [
            f"{entry[k]['missed']} of {entry['splits']}, {plus_minus(entry[k]['energy'], 3)}" for k in SPLIT_POLICIES
        ]
        rows.append([network, *cells])
    return rows
