"""Pictures of a device: the DSP slices of a design in their columns, and its clock beside the predicted one.

SVG text in the ink of its page, legible on a page of 400 pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from markupsafe import Markup

from fluidnpu.boards import Board
from fluidnpu.dse import Exploration
from fluidnpu.dse.hardware import Prediction
from fluidnpu.dse.resources import FILTER_CHAIN, Cut, lay
from fluidnpu.studies.drawing import GREY, PALETTE, YELLOW

USES = {
    "whole chains": PALETTE[0],
    "chains in pieces": PALETTE[5],
    "array": PALETTE[0],
    "filter": PALETTE[2],
    "scaling and activation": PALETTE[4],
    "accumulators": PALETTE[1],
    "input buffer": PALETTE[5],
    "queues": PALETTE[3],
    "biases": YELLOW,
    "other": PALETTE[4],
    "estimate": GREY,
}  # of slices and other resources, and their colours
PITCH, BAR, TALL = 25.0, 17.0, 216.0  # pixels: from column to column, its width, the height of the highest
HEAD, FOOT, SIDE = 6.0, 34.0, 4.0
PAIR = 2  # slices that multiply by M, where words have 8 bits
RULER, RULER_HIGH = 340.0, 62.0


@dataclass(frozen=True)
class Stretch:
    """Neighbouring slices of a column with one use: `slices` of them from slice `first` on."""

    use: str
    first: int
    slices: int


@dataclass(frozen=True)
class SliceColumn:
    """A column of DSP slices and what lies in it, from below."""

    height: int
    stretches: tuple[Stretch, ...]

    @property
    def used(self) -> int:
        """Slices with a use."""
        return sum(stretch.slices for stretch in self.stretches)


def slice_columns(exploration: Exploration) -> tuple[SliceColumn, ...]:
    """Return what lies in each column of the board's DSP slices, highest column first; none where unknown.

    Of the reference core: the places that the search counts with. The HLS core's slices lie where the tool
    puts them, so each column shows the share of all.
    """
    heights = [height for height, count in sorted(exploration.board.dsp_columns, reverse=True) for _ in range(count)]
    if not heights:
        return ()
    placed = _shared(exploration, heights) if exploration.core == "hls" else _placed(exploration, heights)
    return tuple(SliceColumn(height, tuple(column)) for height, column in zip(heights, placed, strict=True))


def slices_beside(exploration: Exploration) -> dict[str, int]:
    """Return the DSP slices of a design beside its array, by use."""
    fit = exploration.fit
    rest = fit.dsp - fit.array.slices - fit.filter_dsps
    return {"filter": fit.filter_dsps, "scaling and activation": rest}


def _shared(exploration: Exploration, heights: Sequence[int]) -> Iterator[list[Stretch]]:
    """Yield columns that share each use evenly, to a whole slice."""
    uses = {"array": exploration.fit.array.slices, **slices_beside(exploration)}
    below, total = 0, sum(heights)
    for height in heights:
        first, column = 0, []
        for use, slices in uses.items():
            share = slices * (below + height) // total - slices * below // total
            column += [Stretch(use, first, share)] if share else []
            first += share
        below += height
        yield column


def _placed(exploration: Exploration, heights: Sequence[int]) -> list[list[Stretch]]:
    """Place the chains of the array as the search does, and then what is left over in what they leave."""
    array, columns = exploration.fit.array, exploration.board.dsp_columns
    alike = array.chain_columns > 1 or not array.broken
    cut = Cut(array.segment, array.chains) if array.chain_columns > 1 else Cut(array.piece, array.broken)
    placed: list[list[Stretch]] = [[] for _ in heights]
    for place in lay(columns, array.t_p, array.chains, cut, stackable=array.stackable):
        use = "whole chains" if alike or place.words == array.t_p else "chains in pieces"
        placed[place.column].append(Stretch(use, place.offset, place.words))
    step = {"filter": FILTER_CHAIN if array.word_bits == 16 else PAIR, "scaling and activation": 1}
    for use, slices in slices_beside(exploration).items():
        for height, column in zip(heights, placed, strict=True):
            first = max((stretch.first + stretch.slices for stretch in column), default=0)
            taken = min(slices, height - first) // step[use] * step[use]
            column += [Stretch(use, first + at, step[use]) for at in range(0, taken, step[use])]
            slices -= taken
    return [sorted(column, key=lambda stretch: stretch.first) for column in placed]


def floorplan(columns: Sequence[SliceColumn]) -> Markup:
    """Draw columns of slices side by side, to one scale; under each its slices in use and their number."""
    scale = TALL / max(column.height for column in columns)
    width, height = 2 * SIDE + PITCH * len(columns), HEAD + TALL + FOOT
    parts = []
    for index, column in enumerate(columns):
        x, ground = SIDE + PITCH * index + (PITCH - BAR) / 2, HEAD + TALL
        parts.append(_box(x, ground - scale * column.height, BAR, scale * column.height, "var(--grid)"))
        for stretch in column.stretches:
            top = ground - scale * (stretch.first + stretch.slices)
            tip = f"column {index + 1}: {stretch.slices} slices, {stretch.use}"
            parts.append(_box(x, top, BAR, scale * stretch.slices, USES[stretch.use], tip))
        middle = x + BAR / 2
        parts += [_text(middle, ground + 13, str(column.used)), _text(middle, ground + 27, str(column.height), "soft")]
    label = f"{len(columns)} columns of DSP slices, {sum(c.used for c in columns)} slices in use"
    return _svg(parts, width, height, label)


def uses_of(columns: Sequence[SliceColumn]) -> list[tuple[str, str, int]]:
    """Return the key of a floorplan: (use, colour, slices)."""
    stretches = sorted((stretch for column in columns for stretch in column.stretches), key=lambda s: s.use)
    return [
        (use, USES[use], sum(stretch.slices for stretch in group))
        for use, group in groupby(stretches, key=lambda stretch: stretch.use)
    ]


def clock_ruler(board: Board, predicted: Prediction) -> Markup:
    """Draw the interval of the predicted clock, the prediction in it, and the clock of the board."""
    clock = board.clock_hz / 1e6
    most = 1.12 * max(predicted.high_mhz, clock)
    left, wide, line = 8.0, RULER - 16.0, 34.0
    at = {name: left + wide * mhz / most for name, mhz in (("clock", clock), ("mhz", predicted.mhz))}
    low, high = (left + wide * mhz / most for mhz in (predicted.low_mhz, predicted.high_mhz))
    label = (
        f"counted at {clock:g} MHz; predicted {predicted.mhz:.0f} MHz, interval {predicted.low_mhz:.0f} to "
        f"{predicted.high_mhz:.0f} MHz"
    )
    parts = [
        _box(left, line, wide, 2, "var(--grid)"),
        _box(
            low,
            line - 5,
            high - low,
            12,
            PALETTE[5],
            f"interval {predicted.low_mhz:.0f} to {predicted.high_mhz:.0f} MHz",
        ),
        _box(at["mhz"] - 1.5, line - 9, 3, 20, PALETTE[0], f"predicted {predicted.mhz:.0f} MHz"),
        _box(at["clock"] - 1.5, line - 9, 3, 20, PALETTE[3], f"counted at {clock:g} MHz"),
        _text(at["clock"], line - 14, f"{clock:g} MHz"),
        _text(
            (low + high) / 2,
            line + 24,
            f"{predicted.low_mhz:.0f} to {predicted.high_mhz:.0f}, best {predicted.mhz:.0f} MHz",
            "soft",
        ),
    ]
    return _svg(parts, RULER, RULER_HIGH, label)


def _svg(parts: Sequence[str], width: float, height: float, label: str) -> Markup:
    return Markup(
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:{1.3 * width:.0f}px" role="img" '
        f'aria-label="{escape(label)}" font-family="system-ui, sans-serif">{"".join(parts)}</svg>'
    )


def _box(x: float, y: float, w: float, h: float, fill: str, tip: str = "") -> str:
    title = f"<title>{escape(tip)}</title>" if tip else ""
    edge = ' stroke="var(--paper)" stroke-width="0.5"' if tip else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{fill}"{edge}>{title}</rect>'


def _text(x: float, y: float, text: str, ink: str = "ink") -> str:
    style = f"fill:var(--{ink});font-size:11px"
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" style="{style}">{escape(text)}</text>'
