"""Figures of the reports, drawn with matplotlib and returned as SVG text.

They know numbers and labels, not their origin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fluidnpu.studies.drawing import GRID, INK, PALETTE, YELLOW, new_figure, to_svg


@dataclass(frozen=True, kw_only=True)
class LoadPoint:
    """One policy at one arrival rate."""

    rate_per_s: float
    average_ms: float
    p99_ms: float
    violations_pct: float
    utilisation_pct: float


def load_curves(curves: Mapping[str, Sequence[LoadPoint]], slo_ms: float, marked_rate: float | None = None) -> str:
    """Draw latency, violations and use by arrival rate, one line a policy; the SLO is marked, and one rate if
    given.
    """
    thousands = max(p.rate_per_s for points in curves.values() for p in points) >= 1000
    unit, label = (1e3, "thousand arrivals a second") if thousands else (1.0, "arrivals a second")
    panels = (
        ("average latency (ms)", "average_ms", True),
        ("p99 latency (ms)", "p99_ms", True),
        ("SLO violations (%)", "violations_pct", False),
        ("NPU wall-clock utilisation (%)", "utilisation_pct", False),
    )
    figure, axes = new_figure(14, 3.6, len(panels))
    for axis, (title, key, logarithmic) in zip(axes, panels, strict=True):
        for colour, (name, points) in zip(PALETTE, curves.items(), strict=False):
            axis.plot(
                [p.rate_per_s / unit for p in points],
                [getattr(p, key) for p in points],
                color=colour,
                label=name,
                marker="o",
                markersize=3,
            )
        if logarithmic:
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("")
            axis.axhline(slo_ms, color=INK, linewidth=0.8, linestyle="--")
            axis.annotate("SLO", (0.01, slo_ms), xycoords=("axes fraction", "data"), va="bottom", fontsize=8, color=INK)
        else:
            axis.set_ylim(-2, 102)
        if marked_rate is not None:
            axis.axvline(marked_rate / unit, color=GRID, linewidth=4, zorder=0)
        axis.set_title(title, fontsize=10, color=INK, loc="left")
        axis.set_xlabel(label, fontsize=9, color=INK)
    axes[0].legend(frameon=False, fontsize=9)
    return to_svg(figure)


def throughput_bars(series: Mapping[str, Sequence[float]], peaks: Mapping[str, float]) -> str:
    """Draw GOP/s by batch size, a panel a board, with its peak as a line."""
    figure, axes = new_figure(14, 3, len(series))
    for axis, (name, values) in zip(axes, series.items(), strict=True):
        batches = range(1, len(values) + 1)
        axis.bar(batches, values, color=PALETTE[0], width=0.7)
        for batch, value in zip(batches, values, strict=True):
            axis.annotate(
                f"{100 * value / peaks[name]:.0f} %", (batch, value), ha="center", va="bottom", fontsize=8, color=INK
            )
        axis.axhline(peaks[name], color=INK, linewidth=0.8, linestyle="--")
        axis.set_title(
            f"{name}: GOP/s by batch size (dashed: peak of the array; percent: busy MAC efficiency)",
            fontsize=10,
            color=INK,
            loc="left",
        )
        axis.set_xticks(list(batches))
        axis.set_xlabel("batch size", fontsize=9, color=INK)
        axis.grid(False, axis="x")
    return to_svg(figure)


def heat_map(
    values: Sequence[Sequence[float]], row_labels: Sequence[str], cells: Sequence[Sequence[str]], title: str
) -> str:
    """Draw utilisation in percent, layers by batch sizes; `cells` holds the text of each cell (k and B_R)."""
    figure, (axis,) = new_figure(14, 0.9 + 0.26 * len(values))
    axis.grid(False)
    colours = axis.imshow(values, cmap="YlGnBu", vmin=0, vmax=100, aspect="auto")
    figure.colorbar(colours, ax=axis, label="per cent of peak", pad=0.01, aspect=40)
    for y, row in enumerate(cells):
        for x, text in enumerate(row):
            axis.text(x, y, text, ha="center", va="center", fontsize=8, color="white" if values[y][x] > 60 else INK)
    axis.set_yticks(range(len(row_labels)), row_labels, fontsize=8)
    axis.set_xticks(range(len(values[0])), [str(b + 1) for b in range(len(values[0]))])
    axis.set_xlabel("batch size", fontsize=9, color=INK)
    axis.set_title(title, fontsize=10, color=INK, loc="left")
    return to_svg(figure)


def roofline(
    layers: Sequence[tuple[str, float, float]], peak_gops: float, gwords_per_s: float, per_word: str, title: str
) -> str:
    """Draw layers (name, operations per word, GOP/s) under the roof of memory and array, logarithmic.

    `per_word` names the words that are counted.
    """
    figure, (axis,) = new_figure(14, 4.2)
    points = [(name, x, y) for name, x, y in layers if x > 0]
    low, high = min(x for _, x, _ in points) / 1.6, max(x for _, x, _ in points) * 1.6
    knee = peak_gops / gwords_per_s
    roof = sorted({low, min(max(knee, low), high), high})
    axis.plot(roof, [min(peak_gops, x * gwords_per_s) for x in roof], color=INK, linewidth=1.2)
    axis.scatter([x for _, x, _ in points], [y for _, _, y in points], color=PALETTE[0], s=22, alpha=0.7, zorder=3)
    groups: dict[tuple[str, str], list[str]] = {}
    for name, x, y in sorted(points, key=lambda p: p[2] / min(peak_gops, p[1] * gwords_per_s)):
        groups.setdefault((f"{x:.3g}", f"{y:.3g}"), []).append(name)
    for number, ((x_text, y_text), names) in enumerate(list(groups.items())[:4]):
        label = names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        place = (6, -12 - 11 * number)
        axis.annotate(
            label, (float(x_text), float(y_text)), textcoords="offset points", xytext=place, fontsize=8, color=INK
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    for ruler in (axis.xaxis, axis.yaxis):
        ruler.set_major_formatter("{x:g}")
        ruler.set_minor_formatter("")
    axis.set_xlabel(per_word, fontsize=9, color=INK)
    axis.set_title(f"{title} (GOP/s; named: those furthest below the roof)", fontsize=10, color=INK, loc="left")
    return to_svg(figure)


Corner = tuple[float, float, float, float, float]


def pareto_front(points: Sequence[Corner], chosen: Corner, title: str) -> str:
    """Draw designs (latency at B = 1 in ms, memory in Mbit, thousand LUTs, weighted GOP/s, DSPs), the chosen
    ringed.
    """
    labels = ("latency at B = 1 (ms)", "on-chip memory (Mbit)", "LUTs (thousands, estimated)")
    figure, panels = new_figure(14, 3.8, len(labels))
    for column, (axis, label) in enumerate(zip(panels, labels, strict=True)):
        shown = axis.scatter(
            [point[column] for point in points],
            [point[3] for point in points],
            c=[point[4] for point in points],
            cmap="viridis",
            s=10,
            linewidths=0,
            zorder=3,
        )
        ring = {"s": 130, "facecolors": "none", "edgecolors": PALETTE[3], "linewidths": 1.8, "zorder": 4}
        axis.scatter(chosen[column], chosen[3], **ring)
        axis.set_xlabel(label, fontsize=9, color=INK)
    panels[0].set_xscale("log")
    panels[0].xaxis.set_major_formatter("{x:g}")
    panels[0].xaxis.set_minor_formatter("")
    figure.colorbar(shown, ax=panels, label="DSPs", pad=0.01)
    figure.suptitle(title, fontsize=10, color=INK, x=0.01, ha="left")
    return to_svg(figure)


def shares(parts: Mapping[str, Mapping[str, float]], title: str) -> str:
    """Draw stacked bars, one a resource: each user's share of it, in per cent of the device."""
    figure, (axis,) = new_figure(14, 0.8 + 0.5 * len(parts))
    axis.grid(False, axis="y")
    names = list(dict.fromkeys(name for part in parts.values() for name in part))
    for row, part in enumerate(parts.values()):
        left = 0.0
        for name, value in part.items():
            colour = PALETTE[names.index(name) % 8]
            axis.barh(row, value, left=left, height=0.6, color=colour, edgecolor="white")
            if value > 4:
                ink = INK if colour == YELLOW else "white"
                axis.text(
                    left + value / 2, row, f"{name} {value:.0f} %", ha="center", va="center", fontsize=8, color=ink
                )
            left += value
    axis.set_yticks(range(len(parts)), list(parts), fontsize=9)
    axis.set_xlim(0, 100)
    axis.invert_yaxis()
    axis.set_title(title, fontsize=10, color=INK, loc="left")
    return to_svg(figure)
