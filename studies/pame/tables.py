"""The study's tables as Markdown, for documentation: generated, so never edited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..writing import plus_minus, share_text, table_head, table_row
from .verdicts import MAPS, NAMES, TITLES, count_missed, mean_of, split_rows, spread

Body = Mapping[str, Any]


def tables_markdown(study: Body, command: str) -> str:
    """Write the selections, the splits, the exit checks, the maps and the load changes."""
    parts = study["parts"]
    blocks = [
        ["# Tables of the study of PAME", "", f"Written by `{command}`; do not edit. Simulated."],
        [f"## {TITLES['Fig. 18']}", "", *resnet101(parts)],
        [f"## {TITLES['Fig. 17']}", "", *heads(parts)],
        ["## Selections, eta of the own last exit, in-sample", "", *selections(parts["selection"])],
        ["## Splits of Fashion-MNIST, eta 0.99 of the single exit trained as long", "", *splits(parts)],
        ["## From arrival, beside in service", "", *arrivals(parts["arrival"])],
        ["## Precision (%) when the surest half leaves", "", *checks(parts["checks"])],
        ["## Maps: selections on composited pictures, judged on the other half", "", *maps(parts["maps"])],
        ["## Maps: score (%) when the surest half leaves", "", *map_checks(parts["maps"])],
        ["## Easy and hard garments", "", *drift(parts["drift"]["fashion"])],
        ["## Hard garments while exits adapt", "", *adaptation(parts["adaptation"]["fashion"])],
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def resnet101(parts: Body) -> list[str]:
    """Write ResNet-101's times with the paper's movers: alone, and with parallel batches by tau_b."""
    times = parts["resnet101"]["times"]
    lines = table_head(["parallel batch", "throughput %", "average ms in service", "late samples %"])
    average = f"{times['single_ms'] * (1 + times['average_change_pct'] / 100):.1f}"
    lines.append(
        table_row(
            [
                "never, batches always full",
                f"{times['throughput_change_pct']:.1f}",
                average,
                f"{100 * times['late_batches']:.1f} of batches",
            ]
        )
    )
    for tau, row in sorted(parts["Fig. 18"].items(), key=lambda item: int(item[0])):
        cells = [plus_minus(row[key]) for key in ("throughput_change_pct", "average_ms", "late_pct")]
        lines.append(table_row([f"tau_b {tau}", *cells]))
    return lines


def heads(parts: Body) -> list[str]:
    """Write what a head costs: in time and in multiply-accumulates, and the Simple head's by arithmetic."""
    lines = table_head(["head", "of the time of a sample that moves on %", "of the backbone's MACs %"])
    for name, entry in parts["Fig. 17"].items():
        lines.append(
            table_row(
                [f"{name}, candidate {entry['candidate']}", f"{entry['time_pct']:.1f}", f"{entry['macs_pct']:.1f}"]
            )
        )
    simple = parts["resnet101"]["simple"]
    lines.append(table_row(["Simple, as printed", "-", f"{simple['printed_pct']:.1f}"]))
    lines.append(table_row(["Simple, without inserted zeros", "-", f"{simple['needed_pct']:.1f}"]))
    return lines


def selections(part: Body) -> list[str]:
    """Write a row a selection: the first exit alone, one by one, and the best that was found."""
    head = [
        "images, eta",
        "selection",
        "exits",
        "average %",
        "above the best %",
        "tail %",
        "late %",
        "precision kept %",
    ]
    lines = table_head(head)
    for key in sorted(part):
        best = part[key]["proven"]
        above = {"greedy": f"{best['greedy_above_pct']:.2f}", "exchanged": f"{best['exchanged_above_pct']:.2f}"}
        for label, which in (("first exit", "first"), ("one by one", "greedy"), ("exchanged", "exchanged")):
            entry = part[key][which]
            average, tail = (f"{entry[name]:.1f}" for name in ("average_change_pct", "tail_change_pct"))
            late, kept = f"{100 * entry['late_batches']:.1f}", f"{entry['kept_pct']:.2f}"
            lines.append(
                table_row([key, label, _chain(entry["chain"]), average, above.get(which, ""), tail, late, kept])
            )
        label, gap = f"best found on {best['samples']}", f"gap at most {best['gap_pct']:.2f}"
        average = f"{best['average_change_pct']:.1f}"
        lines.append(table_row([key, label, _chain(best["chain"]), average, gap, "", "", ""]))
    return lines


def _chain(chain: list[list[float]]) -> str:
    return ", ".join(f"H{int(exit)} > {threshold:g}" for exit, threshold in chain) or "none"


def splits(parts: Body) -> list[str]:
    """Write the naive and the guaranteed selection over all splits."""
    rows = split_rows(parts)
    lines = table_head(["selection", "splits", "eta missed %", "average %", "tail %", "late batches %", "kept %"])
    for which in ("naive", "guaranteed"):
        made = sum(row[which] is not None for row in rows)
        average, tail, kept = (
            spread(rows, which, key) for key in ("average_change_pct", "tail_change_pct", "kept_pct")
        )
        cells = [
            share_text(round(count_missed(rows, which) * made), made) if made else "-",
            plus_minus(average),
            plus_minus(tail),
            f"{100 * mean_of(rows, which, 'late_batches'):.2f}",
            plus_minus(kept, 2),
        ]
        lines.append(table_row([which, str(len(rows)), *cells]))
    return lines


def arrivals(part: Body) -> list[str]:
    """Write a row a load and selection: changes against the network with one exit under the same arrivals."""
    lines = table_head(
        [
            "network, load",
            "chosen",
            "exits",
            "in service %",
            "from arrival %",
            "p99 %",
            "in time %",
            "one exit in time %",
        ]
    )
    for key in sorted(part):
        for chosen, entry in part[key]["rows"].items():
            changes = ("in_service_change_pct", "average_change_pct", "p99_change_pct")
            cells = [f"{entry[name]:.1f}" if name.startswith("in_") else plus_minus(entry[name]) for name in changes]
            times = [f"{entry['met_pct']:.1f}", f"{part[key]['single_met_pct']:.1f}"]
            lines.append(table_row([key, chosen, _chain(entry["chain"]), *cells, *times]))
    return lines


def checks(part: Body) -> list[str]:
    """Write a row a check, a column an exit."""
    lines = []
    for name in sorted(part):
        rows = part[name]
        count = len(rows["random"])
        lines += ["", *table_head([NAMES[name], *(f"H{index}" for index in range(1, count + 1))])]
        for check, values in rows.items():
            lines.append(table_row([check, *("-" if value is None else f"{value:.2f}" for value in values)]))
    return lines[1:]


def drift(part: Body) -> list[str]:
    """Write a row a load."""
    lines = table_head(["images", "average %", "late batches %", "precision kept %", "leave at the first exit %"])
    for label in ("mix", "easy", "hard", "hard, raised"):
        entry = part[label]
        rates = f"{100 * entry['rates'][0]:.1f}"
        late = f"{100 * entry['late_batches']:.1f}"
        lines.append(table_row([label, f"{entry['average_change_pct']:.1f}", late, f"{entry['kept_pct']:.2f}", rates]))
    return lines


def maps(part: Body) -> list[str]:
    """Write a row a selection of a dense task, with random leavers at the same rates beside it."""
    lines = table_head(["task, eta", "exits", "average %", "tail %", "kept %", "random leavers %"])
    for name, title in MAPS.items():
        for eta, entry in part[name]["selected"].items():
            if entry is None:
                lines.append(table_row([f"{title}, {eta}", "none keeps it", "", "", "", ""]))
                continue
            held = entry["held_out"]
            cells = [f"{held[key]:.1f}" for key in ("average_change_pct", "tail_change_pct")]
            kept = [f"{held['kept_pct']:.2f}", f"{entry['random_kept_pct']:.2f}"]
            lines.append(table_row([f"{title}, {eta}", _chain(entry["chain"]), *cells, *kept]))
        sure = part[name]["guaranteed"]
        if sure is None:
            lines.append(table_row([f"{title}, guaranteed", "none proven", "", "", "", ""]))
        else:
            cells = [f"{sure[key]:.1f}" for key in ("average_change_pct", "tail_change_pct")]
            named = f"{title}, {sure['eta']:g} of the single exit guaranteed"
            lines.append(table_row([named, _chain(sure["chain"]), *cells, f"{sure['kept_pct']:.2f}", ""]))
    return lines


def map_checks(part: Body) -> list[str]:
    """Write a row a check of principal values, a column an exit, random leavers last."""
    lines = []
    for name, title in MAPS.items():
        entry = part[name]
        count = len(entry["checks"]["random"])
        lines += ["", *table_head([title, *(f"H{index}" for index in range(1, count + 1)), "last", "single exit"])]
        scores = [f"{share:.2f}" for share in (*entry["exits_pct"], entry["reference_pct"])]
        lines.append(table_row(["each exit alone", *scores]))
        for check, values in entry["checks"].items():
            lines.append(table_row([check, *(f"{value:.2f}" for value in values), "", ""]))
    return lines[1:]


def adaptation(part: Body) -> list[str]:
    """Write a row a third of the streams, with fixed exits and adapting."""
    lines = table_head(["exits", "load", "left early %", "kept %", "average ms", "p99 ms"])
    for side, phases in part["phases"].items():
        for name, entry in phases.items():
            cells = [plus_minus(entry["early_pct"]), plus_minus(entry["kept_pct"], 2)]
            cells += [plus_minus(entry[key], 3) for key in ("average_ms", "p99_ms")]
            lines.append(table_row([side, name, *cells]))
    single = plus_minus(part["single_average_ms"], 3)
    lines.append(table_row(["none", "all thirds", "", "", single, ""]))
    return lines
