"""Figures of the reports, drawn with matplotlib and returned as SVG text.

They know numbers and labels, not their origin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from fluidnpu.studies.drawing import HALF, INK, ON_COLOUR, PALETTE, WIDTH, YELLOW, logarithmic, new_figure, to_svg

from ..quantities import plain

LIGHT = {PALETTE[1], PALETTE[4], PALETTE[5], YELLOW}  # too light for white letters
ROOF_NAME, LETTER = (-6.0, 5.0), 5.4  # points: of a roof's name from its place; of a letter
PANEL_INCHES = (3.7, 2.9)  # of a small figure, of which three stand side by side
NAMED = 5  # layers of a roofline that are named
WALLS = {"compute": PALETTE[0], "tiles": PALETTE[1], "memory": PALETTE[4]}  # what limits a design, and its colour


def speed_panels(
    ms: Mapping[str, Sequence[float]], walls: Mapping[str, Sequence[tuple[float, float, float]]] | None = None
) -> dict[str, str]:
    """Draw milliseconds a batch and the gain of batching, a line a design; and where its cycles go.

    `ms[name][b - 1]` is the time of batch b. `walls[name][b - 1]`: shares of compute, tiles and memory, if
    they were counted. Returns small figures by title.
    """
    gains = {name: [b * times[0] / t for b, t in enumerate(times, 1)] for name, times in ms.items()}
    figures = {}
    for title, lines, least in (
        ("milliseconds of a batch", ms, 0.0),
        ("frames/s over those of batch 1", gains, 0.9),
    ):
        figure, (axis,) = new_figure(*PANEL_INCHES)
        for colour, (name, values) in zip(PALETTE, lines.items(), strict=False):
            axis.plot(
                range(1, len(values) + 1), values, color=colour, marker="o", markersize=4, linewidth=1.6, label=name
            )
        axis.set_ylim(bottom=least)
        axis.legend(frameon=False, fontsize=9, labelcolor=INK)
        _by_batch(axis, title, max(map(len, ms.values())))
        figures[title] = to_svg(figure)
    for name, rows in (walls or {}).items():
        figure, (axis,) = new_figure(*PANEL_INCHES)
        _stack(axis, rows)
        title = f"{name}: where the cycles go (%)"
        _by_batch(axis, title, len(rows))
        figures[title] = to_svg(figure)
    return figures


def _by_batch(axis: Any, title: str, most: int) -> None:
    """Name a figure over batch sizes and its ruler."""
    axis.set_xticks(range(1, most + 1))
    axis.set_xlabel("batch size", fontsize=9, color=INK)
    axis.set_title(title, fontsize=10, color=INK, loc="left")


def _stack(axis: Any, rows: Sequence[tuple[float, float, float]]) -> None:
    """Draw shares as stacked bars, a bar a batch size, and say what each colour is."""
    below = [0.0] * len(rows)
    for (name, colour), shares in zip(WALLS.items(), zip(*rows, strict=True), strict=True):
        axis.bar(
            range(1, len(rows) + 1),
            [100 * x for x in shares],
            bottom=[100 * low for low in below],
            color=colour,
            width=0.7,
            label=name,
        )
        for batch, (low, share) in enumerate(zip(below, shares, strict=True), 1):
            if share >= 0.09:
                middle = {"ha": "center", "va": "center", "fontsize": 8}
                ink = ON_COLOUR if colour in LIGHT else "white"
                axis.text(batch, 100 * low + 50 * share, f"{100 * share:.0f}", color=ink, **middle)
        below = [low + share for low, share in zip(below, shares, strict=True)]
    axis.set_ylim(0, 100)
    axis.grid(False)
    axis.legend(frameon=False, fontsize=9, labelcolor=INK, ncols=3, loc="upper left", bbox_to_anchor=(-0.1, -0.2))


def heat_map(
    values: Sequence[Sequence[float]], row_labels: Sequence[str], cells: Sequence[Sequence[str]], title: str
) -> str:
    """Draw utilisation in percent, layers by batch sizes; `cells` holds the text of each cell (k and B_R)."""
    figure, (axis,) = new_figure(WIDTH, 0.9 + 0.27 * len(values))
    axis.grid(False)
    colours = axis.imshow(values, cmap="YlGnBu", vmin=0, vmax=100, aspect="auto")
    _scale(figure.colorbar(colours, ax=axis, pad=0.01, aspect=40), "per cent of peak")
    for y, row in enumerate(cells):
        for x, text in enumerate(row):
            axis.text(
                x, y, text, ha="center", va="center", fontsize=8, color="white" if values[y][x] > 60 else ON_COLOUR
            )
    axis.set_yticks(range(len(row_labels)), row_labels, fontsize=8)
    axis.set_xticks(range(len(values[0])), [str(b + 1) for b in range(len(values[0]))])
    axis.set_xlabel("batch size", fontsize=9, color=INK)
    axis.set_title(title, fontsize=10, color=INK, loc="left")
    return to_svg(figure)


def _scale(bar: Any, label: str) -> None:
    """Write a colour scale in the house's ink."""
    bar.set_label(label, fontsize=9, color=INK)
    bar.ax.tick_params(colors=INK, labelsize=8)
    bar.outline.set_visible(False)


@dataclass(frozen=True, kw_only=True)
class RoofPoint:
    """A layer's place under the roof; `limit` of WALLS gives its colour, its share of the time its size."""

    name: str
    per_word: float
    gops: float
    limit: str
    share: float


def roofline(
    layers: Sequence[RoofPoint], peak_gops: float, gwords_per_s: float, per_word: str, slope: str, title: str
) -> str:
    """Draw layers under the roofs of memory and array, GOP/s by operations per word, both logarithmic.

    `per_word` names the words that are counted, `slope` the roof of memory.
    """
    figure, (axis,) = new_figure(*HALF)
    points = [(layer.name, layer.per_word, layer.gops) for layer in layers]
    low, high = min(x for _, x, _ in points) / 1.6, max(x for _, x, _ in points) * 1.6
    knee = peak_gops / gwords_per_s
    roof = sorted({low, min(max(knee, low), high), high})
    axis.plot(roof, [min(peak_gops, x * gwords_per_s) for x in roof], color=INK, linewidth=1.2)
    for layer in layers:
        colour, size = WALLS[layer.limit], 18 + 260 * layer.share
        axis.scatter(layer.per_word, layer.gops, color=colour, s=size, alpha=0.75, zorder=3, linewidths=0)
    axis.set_ylim(min(y for _, _, y in points) / 2.2, 2.2 * max(peak_gops, *(y for _, _, y in points)))
    axis.set_xlim(low, high)
    limits = (*axis.get_xlim(), *axis.get_ylim())
    words = {"textcoords": "offset points", "fontsize": 9, "color": INK}
    roofs = {(high, peak_gops): f"array {plain(peak_gops, 4)} GOP/s"} if knee < high else {}
    if knee > 1.5 * low:
        middle = low**0.35 * min(knee, high) ** 0.65  # where a name has room at the left
        roofs[middle, middle * gwords_per_s] = slope
    for place, label in roofs.items():
        axis.annotate(label, place, xytext=ROOF_NAME, ha="right", **words)
    spots = _furthest(points, peak_gops, gwords_per_s)
    named = {
        place: names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "") for place, names in spots.items()
    }
    for place, (label, offset) in _placed(named, [(x, y) for _, x, y in points], roofs, limits).items():
        axis.annotate(label, place, xytext=offset, **words)
    axis.set_xscale("log")
    axis.set_yscale("log")
    logarithmic(axis.xaxis)
    logarithmic(axis.yaxis)
    axis.set_xlabel(per_word, fontsize=9, color=INK)
    axis.set_title(f"{title} (GOP/s)", fontsize=10, color=INK, loc="left")
    return to_svg(figure)


def _furthest(
    points: Sequence[tuple[str, float, float]], peak_gops: float, gwords_per_s: float
) -> dict[tuple[float, float], list[str]]:
    """Return the names of the layers furthest below the roof, by places that are not too near each other."""
    below = sorted(points, key=lambda p: p[2] / min(peak_gops, p[1] * gwords_per_s))
    groups: dict[tuple[float, float], list[str]] = {}
    for name, x, y in below:
        near = next((place for place in groups if _near(place, (x, y))), None)
        if near is not None:
            groups[near].append(name)
        elif len(groups) < NAMED:
            groups[x, y] = [name]
    return groups


def _near(place: tuple[float, float], other: tuple[float, float]) -> bool:
    """Return whether two points of these logarithmic axes are too near each other for a label each."""
    return max(place[0] / other[0], other[0] / place[0]) < 1.15 and max(place[1] / other[1], other[1] / place[1]) < 1.25


def _placed(
    labels: Mapping[tuple[float, float], str],
    points: Sequence[tuple[float, float]],
    roofs: Mapping[tuple[float, float], str],
    limits: Sequence[float],
) -> dict[tuple[float, float], tuple[str, tuple[float, float]]]:
    """Give each label its offset in points beside its place, where it covers no other label and no point.

    A label without such a place is left out. `roofs`: names that stand at `ROOF_NAME` from their places.
    `limits`: least and most of both axes.
    """
    x_low, x_high, y_low, y_high = limits
    wide, high = 72 * 0.9 * HALF[0], 72 * 0.76 * HALF[1]  # of the axes, in points

    def at(point: tuple[float, float]) -> tuple[float, float]:
        x, y = log(point[0] / x_low) / log(x_high / x_low), log(point[1] / y_low) / log(y_high / y_low)
        return wide * x, high * y

    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in map(at, points)]
    for place, name in roofs.items():
        x, y = (a + b for a, b in zip(at(place), ROOF_NAME, strict=True))
        taken.append((x - LETTER * len(name), y, x, y + 10))
    placed: dict[tuple[float, float], tuple[str, tuple[float, float]]] = {}
    for place, label in labels.items():
        (x, y), w = at(place), LETTER * len(label)
        for dx, dy in ((7, -13), (-7 - w, 4), (7, -3), (-7 - w, -3), (7, 8), (-7 - w, -13)):
            box = (x + dx, y + dy, x + dx + w, y + dy + 10)
            inside = box[0] >= 0 and box[2] <= wide and box[1] >= 0 and box[3] <= high
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                placed[place] = (label, (dx, dy))
                break
    return placed


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


Corner = tuple[float, float, float, float, float]


def pareto_front(points: Sequence[Corner], chosen: Corner, title: str) -> str:
    """Draw designs (latency at B = 1 in ms, memory in Mbit, thousand LUTs, mean GOP/s, DSPs), the chosen
    ringed.
    """
    labels = ("latency at B = 1 (ms)", "on-chip memory (Mbit)", "LUTs (thousands, estimated)")
    figure, panels = new_figure(WIDTH, 3.6, len(labels))
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
    logarithmic(panels[0].xaxis)
    _scale(figure.colorbar(shown, ax=panels, pad=0.01), "DSPs")
    panels[0].set_ylabel("mean GOP/s over batch sizes", fontsize=9, color=INK)
    figure.suptitle(title, fontsize=10, color=INK, x=0.01, ha="left")
    return to_svg(figure)
