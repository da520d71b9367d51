"""Figures of the report, drawn with matplotlib and returned as SVG text. Knows numbers and labels, not where they come from."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Okabe and Ito's palette: told apart with any kind of colour vision, in this order.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
INK, GRID = "#1f2933", "#d9dee4"
YELLOW = PALETTE[6]  # too light for white letters


@dataclass(frozen=True, kw_only=True)
class LoadPoint:
    """One policy at one arrival rate."""

    rate_per_s: float
    average_ms: float
    p99_ms: float
    violations_pct: float
    utilisation_pct: float


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A sample's stretch in a stage; times in microseconds."""

    row: int
    start_us: float
    end_us: float
    stage: int
    batch: int


@dataclass(frozen=True, kw_only=True)
class SampleRow:
    """One sample of a timeline: when it arrived and when and where it left."""

    label: str
    arrival_us: float
    end_us: float
    exit: int


def new_figure(width: float, height: float, columns: int = 1, rows: int = 1) -> tuple[Any, Any]:
    """A matplotlib figure in this house's looks, and its axes row by row."""
    # The object-oriented interface: no global state, no display, nothing to close.
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[["left", "bottom"]].set_color(GRID)
        axis.tick_params(colors=INK, labelsize=9)
        axis.grid(True, color=GRID, linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, axes


def to_svg(figure: Any) -> str:
    """The figure as an `<svg>` element; the same numbers give the same bytes."""
    import matplotlib

    out = io.StringIO()
    # Fixed salt and no date.
    with matplotlib.rc_context({"svg.hashsalt": "fluidnpu", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def load_curves(curves: Mapping[str, Sequence[LoadPoint]], slo_ms: float, marked_rate: float | None = None) -> str:
    """Latency, violations and use against arrival rate, one line a policy; the SLO is marked, and one rate if given."""
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


def batch_timeline(rows: Sequence[SampleRow], bars: Sequence[Bar], exits: Sequence[str]) -> str:
    """Who ran when, a row a sample (the paper's Fig. 6): grey while it waits, coloured by stage while it runs, a dot where it leaves."""
    figure, (axis,) = new_figure(14, 0.6 + 0.24 * max(6, len(rows)))
    axis.grid(False)
    origin = min((row.arrival_us for row in rows), default=0.0)
    if max((row.end_us for row in rows), default=0.0) - origin > 20_000:
        from matplotlib.ticker import FuncFormatter

        unit, ticks = "ms", FuncFormatter(lambda us, _: f"{us / 1e3:g}")
        axis.xaxis.set_major_formatter(ticks)
    else:
        unit = "µs"
    for index, row in enumerate(rows):
        axis.plot([row.arrival_us - origin, row.end_us - origin], [index, index], color=GRID, linewidth=2, zorder=1)
        axis.plot(
            row.end_us - origin,
            index,
            "o",
            color=PALETTE[row.exit % 8],
            markersize=6,
            markeredgecolor="white",
            zorder=4,
        )
    for bar in bars:
        left, width = bar.start_us - origin, bar.end_us - bar.start_us
        axis.barh(
            bar.row,
            width,
            left=left,
            height=0.7,
            color=PALETTE[bar.stage % 8],
            edgecolor="white",
            linewidth=0.5,
            zorder=3,
        )
        axis.text(
            left + width / 2,
            bar.row,
            str(bar.batch),
            color="white",
            fontsize=7,
            ha="center",
            va="center",
            zorder=5,
            clip_on=True,
        )
    axis.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel(
        f"time ({unit}); the number in a bar is the batch it ran in, the dot is the exit it took", fontsize=9, color=INK
    )
    from matplotlib.patches import Patch

    handles = [Patch(color=PALETTE[s % 8], label=f"to {name}") for s, name in enumerate(exits)]
    axis.legend(
        handles=[*handles, Patch(color=GRID, label="waits")],
        frameon=False,
        fontsize=9,
        ncol=len(exits) + 1,
        loc="lower left",
        bbox_to_anchor=(0, 1),
    )
    return to_svg(figure)


def throughput_bars(series: Mapping[str, Sequence[float]], peaks: Mapping[str, float]) -> str:
    """GOP/s by batch size, a panel a board, with its peak as a line."""
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
    """Utilisation in percent, layers by batch sizes; `cells` holds the text of each cell (the chosen k and B_R)."""
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
    """Layers (name, operations per word, GOP/s) under the roof of memory and array; both axes logarithmic. `per_word`: of which words."""
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
    """Designs (latency at B = 1 in ms, memory in Mbit, thousand LUTs, weighted GOP/s, DSPs); the chosen one is ringed."""
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
    """Stacked bars, one a resource: who uses how much of it, in per cent of the device."""
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
