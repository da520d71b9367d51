"""The walls that a design runs against at one batch size: its multipliers, its tiles, its memory.

Every cycle that the exact model counts belongs to one of the three. *Compute*: cycles that the layers would
take if every multiplier worked. *Tiles*: cycles more since layers do not fill the array, such as a depthwise
convolution, most of whose weights are zeros there; pools, which multiply nothing, count here. *Memory*: the
rest, in which the array waits for inputs, weights or outputs, or is set up. Work of a filter on the way out
is none of the array's: where that is slower, the array waits for outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluidnpu.models import Kind, LayerShape

from ..design import Design
from ..hardware.array import ceil_div, pool_beats

LARGE = 0.15  # share of the cycles from which layers of one kind are worth a sentence
FILLED = 0.5  # share of the array below which a layer leaves it empty


@dataclass(frozen=True, kw_only=True)
class Walls:
    """Shares of the cycles of one batch, which add up to one."""

    batch: int
    cycles: int
    compute: float
    tiles: float
    memory: float

    @property
    def first(self) -> str:
        """The wall that takes the most cycles: "compute", "tiles" or "memory"."""
        return max(("compute", "tiles", "memory"), key=lambda name: getattr(self, name))


def walls(design: Design, cycles: Sequence[int], batch: int, only: Sequence[int] | None = None) -> Walls:
    """The walls of a design at a batch size; `cycles` are those of each layer at it, as counted.

    `only`: indices of the layers to look at, which must take some cycles; by default all.
    """
    total, compute, filled = 0, 0.0, 0.0
    for index in range(len(cycles)) if only is None else only:
        layer, taken = design.layers[index], cycles[index]
        busy = 0 if layer.merged else batch * layer.macs / design.macs_per_cycle
        total, compute = total + taken, compute + busy
        filled += max(busy, min(taken, tile_cycles(design, index, batch)))
    return Walls(
        batch=batch,
        cycles=total,
        compute=compute / total,
        tiles=(filled - compute) / total,
        memory=(total - filled) / total,
    )


def tile_cycles(design: Design, layer: int, batch: int) -> int:
    """Cycles in which the array streams a layer's rows through all its tiles, with nothing to wait for."""
    shape, plan, mode = design.lowered(layer), design.plans[layer][batch - 1], design.mode(layer, batch)
    if shape.merged:
        return 0
    width, columns = design.array.tile(mode)
    if shape.kind is not Kind.GEMM:
        beats = pool_beats(shape.p, maximum=shape.kind is Kind.MAX_POOL)
        return batch * shape.r * beats * ceil_div(shape.c, columns)
    rows = ceil_div(batch * shape.r, 2) if plan.row_lanes else plan.b_r * shape.r
    return rows * shape.groups * ceil_div(shape.p, width) * ceil_div(shape.c, columns)


def waste(design: Design, cycles: Sequence[int], batch: int) -> list[str]:
    """Sentences on the kinds of layers that leave most of the array empty, where they cost much.

    Grouped layers (depthwise ones are the extreme) and layers of few channels. Empty where none costs much.
    """
    layers = design.layers
    own = [i for i, layer in enumerate(layers) if layer.macs and not layer.merged]
    narrow = [i for i in own if _fill(design, i, batch) < FILLED]
    kinds = (
        ("grouped (depthwise)", [i for i in narrow if layers[i].groups > 1], "each group fills"),
        ("narrow", [i for i in narrow if layers[i].groups == 1], "they fill"),
    )
    sentences = []
    for name, members, verb in kinds:
        share = sum(cycles[i] for i in members) / sum(cycles)
        macs = sum(layers[i].macs for i in members) / sum(layers[i].macs for i in own) if own else 0.0
        if members and share > LARGE and share > macs:
            fill = sum(_fill(design, i, batch) * cycles[i] for i in members) / sum(cycles[i] for i in members)
            plural = "s take" if len(members) > 1 else " takes"
            sentences.append(
                f"{len(members)} {name} layer{plural} {100 * share:.0f} % of the cycles for {100 * macs:.0f} % of the "
                f"MACs: {verb if len(members) > 1 or 'group' in verb else 'it fills'} {_percent(fill)} of the array"
            )
    return sentences


def _fill(design: Design, layer: int, batch: int) -> float:
    """Share of the array's multipliers that a layer's tiles occupy."""
    shape: LayerShape = design.layers[layer]
    return batch * shape.macs / (tile_cycles(design, layer, batch) * design.macs_per_cycle)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"
