"""Statements about the NPU's designs, with the outcome here: Fig. 1, Table I, Fig. 10, resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..statements import Verdict, untested
from .paper import FBCB_PCT, NETWORKS, TABLE_1

NEAR_PCT = 0.05  # points of a printed share
FBCB_WITHIN = 0.2  # of the printed share of registers
LEAST_GAIN = 1.1  # of utilisation by batching: what Fig. 1a calls significant
Body = Mapping[str, Any]


def figure_1(parts: Body) -> Iterator[Verdict]:
    """Judge the two halves of the motivation."""
    gains: dict[str, dict[str, float]] = {}
    for name, row in parts["Fig. 1a"].items():
        gains[name] = {
            label: lines["adaptive-m"]["busy_mac_efficiency_pct"][0] / lines["serial"]["busy_mac_efficiency_pct"][0]
            for label, lines in row.items()
        }
    yield Verdict(
        where="Fig. 1a: ResNet-50 at 25/s",
        statement="batching improves the utilisation of the network without exits, and exits take that gain away",
        paper="improved significantly, and attenuated radically",
        ours="; ".join(
            f"{name}: busy MAC efficiency x {entry['without']:.2f} without exits, x {entry['with exits']:.2f} with them"
            for name, entry in gains.items()
        ),
        holds=[
            *(gain["without"] >= LEAST_GAIN for gain in gains.values()),
            *(gain["with exits"] - 1 <= (gain["without"] - 1) / 2 for gain in gains.values()),
        ],
        why="the middle timeout over single samples, R batching; significant: a tenth, radically: half of it. 69 % of the "
        "samples stay to the end, so a batch keeps most of its size",
    )
    part = parts["Fig. 1b"]["GOP/s"]
    ways = {name: part[name] for name in ("SERIAL", "FC", "R", "P")}
    count = len(ways["R"])
    best = [
        {name for name, row in ways.items() if row[k] >= 0.999 * max(r[k] for r in ways.values())} for k in range(count)
    ]
    alike = set.intersection(*best)
    yield Verdict(
        where="Fig. 1b: ResNet-50 in four parts, ZC706, B = 8",
        statement="different parts of the network gain most from different ways of batching",
        paper="fundamental variability",
        ours="best by part: " + "; ".join(", ".join(sorted(names)) for names in best),
        holds=[not alike],
        why="GOP/s in the paper model, each way on its own best design; "
        + (
            f"{', '.join(sorted(alike))} is among the best of every part"
            if alike
            else "no way is among the best of every part"
        ),
    )


def prototype() -> Iterator[Verdict]:
    """Name what only the paper's board and training could tell."""
    yield untested(
        "Figs. 2 to 6",
        "the matrices, the system, the ways of batching, the engine, a timeline",
        "drawings",
        "a drawing states no number; the page draws batches over time as Fig. 6 does, and the RTL's proofs hold the engine",
    )
    yield untested(
        "Section IV, accuracy",
        "accuracy of the networks with exits",
        "75.6 % (ResNet-50), 75.8 % (Inception-v3)",
        "needs ImageNet and the exits trained on it; the exit rates are the paper's, and their accuracy is taken from it",
    )
    yield untested(
        "Section IV, LUTs",
        "share of LUTs: the whole NPU, its control unit, stackable PEs",
        "75 to 79 %, below 0.5 %, below 5.5 and 6 %",
        "counts of the paper's own RTL after a vendor's implementation; ours is another design and has met no vendor tool",
    )
    yield untested(
        "Section III-B, overhead",
        "input of new samples, which is not overlapped, costs next to nothing",
        "0.05 % of latency at most",
        "measured by the paper on its boards; on ours the transfer is cycles of a stage, and is told in the limits of the documentation",
    )


def table_1(part: Body) -> Iterator[Verdict]:
    """Judge the search against the printed designs."""
    for row in TABLE_1:
        ours = part[f"{row.network}, {row.board}"]
        point, printed = (", ".join(map(str, p)) for p in (ours["point"], row.point))
        same = tuple(ours["point"]) == row.point
        slip = (
            ""
            if same
            else f"; the printed point has {row.point[1] * row.point[2]} DSPs, which is not the {row.dsp_pct:g} % printed beside it: it "
            "repeats another row"
        )
        yield Verdict(
            where="Table I",
            statement=f"the best design for {NETWORKS[row.network]} on {row.board.upper()}",
            paper=f"<{printed}>, {row.dsp_pct:g} % of DSPs, {row.memory_pct:g} % of memory",
            ours=f"<{point}>, {ours['dsp_pct']:.2f} %, {ours['memory_pct']:.2f} %, "
            f"{'the only optimum' if ours['unique'] else 'one of several optima'} of {ours['designs']} designs",
            holds=[
                same,
                bool(ours["unique"]),
                abs(ours["dsp_pct"] - row.dsp_pct) <= NEAR_PCT,
                abs(ours["memory_pct"] - row.memory_pct) <= NEAR_PCT,
            ],
            why=f"searched by the paper model, whose bandwidth was fitted to this table{slip}",
            fitted=True,
        )


def fbcb(part: Body) -> Iterator[Verdict]:
    """Judge the size of the control block."""
    rows = {key: (part[", ".join(key)]["fbcb_pct"], printed) for key, printed in FBCB_PCT.items()}
    yield Verdict(
        where="Section IV, resources",
        statement="the FBCB takes a share of the registers that grows with the layers",
        paper=", ".join(f"{printed:g} %" for _, printed in rows.values()),
        ours=", ".join(
            f"{ours:.2f} % ({NETWORKS[name]}, {board.upper()})" for (name, board), (ours, _) in rows.items()
        ),
        holds=[abs(ours / printed - 1) <= FBCB_WITHIN for ours, printed in rows.values()],
        why="arithmetic: five bits (k and B_R) for every layer and batch size, over the registers of the device; some 330 registers of "
        "control would make the rest. Our own FBCB is a RAM of wider words",
    )


def figure_10(part: Body) -> Iterator[Verdict]:
    """Judge the ablation of the NPU, in the `paper` cycle model."""
    best = {name: {kind: entry["share_pct"] for kind, entry in ways.items()} for name, ways in part.items()}
    over_r = [max(a - b for a, b in zip(ways["fluid"], ways["R"], strict=True)) for ways in best.values()]
    over_p = [max(a - b for a, b in zip(ways["fluid"], ways["P"], strict=True)) for ways in best.values()]
    never_less = all(
        f >= max(r, p) - 0.01 for w in best.values() for f, r, p in zip(w["fluid"], w["R"], w["P"], strict=True)
    )
    yield Verdict(
        where="Fig. 10",
        statement="Fluid Batching outperforms uniform batching",
        paper="significantly",
        ours=f"up to {max(over_r):.1f} points of the peak more than R and {max(over_p):.1f} more than P, never less",
        holds=[never_less, max(over_r) >= 5],
        why="in the paper model, each way of batching on its own best design; the figure has no values to compare with",
    )
    resnet = {name: ways["fluid + stackable"][3:] for name, ways in best.items() if name.startswith("ResNet")}
    yield Verdict(
        where="Fig. 10",
        statement="ResNet-50 approaches the device's peak for B > 3",
        paper="approaching the theoretical peak",
        ours=", ".join(f"{name}: {min(v):.0f} to {max(v):.0f} % of peak" for name, v in resnet.items()),
        holds=[least >= share for least in (min(v) for v in resnet.values()) for share in (80, 95)],
        why="in the model that reproduces Table I the layers with 64 channels and the classifier wait for memory; the paper states no bandwidth",
    )
    gains = {
        name: [a / b - 1 for a, b in zip(w["fluid + stackable"], w["fluid"], strict=True)] for name, w in best.items()
    }
    first, last = [g[0] for g in gains.values()], [g[-1] for g in gains.values()]
    yield Verdict(
        where="Fig. 10",
        statement="Stackable PEs add most at small batches",
        paper="more prominent for smaller batches, B = 1 included",
        ours=", ".join(
            f"{name}: {100 * g[0]:+.1f} % at B = 1, {100 * g[-1]:+.1f} % at B = 8" for name, g in gains.items()
        ),
        holds=[*[a > 0 for a in first], *[a >= b - 1e-4 for a, b in zip(first, last, strict=True)]],
        why="the gain is there at every batch size, and in this model it is small for ResNet-50",
    )


def batch_16(part: Body) -> Iterator[Verdict]:
    """Judge the reason why the paper stops at a batch of 8."""
    ours = part["batch_16_ms"]
    yield Verdict(
        where="Section IV",
        statement="ResNet-50 on ZCU104 with B = 16: latency, too long for a 200 ms objective",
        paper="277 ms",
        ours=f"{ours:.0f} ms",
        holds=[abs(ours / 277 - 1) <= 0.1, ours > 200],
        why="the row's table at B = 8 times the paper model's growth from B = 8 to 16, all samples to the last exit",
    )
