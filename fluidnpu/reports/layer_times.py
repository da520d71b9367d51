"""The time of a batch layer by layer, divided among what limits it: rows of bars for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fluidnpu.dse import Exploration

from .figures import WALLS

SHOWN = 40  # layers that have a bar of their own
LEAST_SHARE = 5e-4  # of the time, below which a layer has none: one that another computes takes a command alone


@dataclass(frozen=True, kw_only=True)
class LayerTime:
    """The time of a layer in a batch; `parts_ms` by what limits it (WALLS), which add up to `ms`.

    `index`: of the layer in the design; of several, the first's.
    """

    index: int
    name: str
    ms: float
    parts_ms: Mapping[str, float]

    @property
    def limit(self) -> str:
        """The name of the largest part."""
        return max(WALLS, key=lambda name: self.parts_ms.get(name, 0.0))


def layer_times(exploration: Exploration, batch: int) -> list[LayerTime]:
    """Return the time of every layer of a batch that takes some, in the order of the network.

    The `exact` model divides each layer's cycles; of the `paper` model a layer is limited by its roof alone.
    """
    design = exploration.design
    clock_khz = design.clock_hz / 1e3
    times = []
    for index, layer in enumerate(design.layers):
        walls = exploration.layer_walls(index, batch)
        if walls is not None:
            ms = walls.cycles / clock_khz
            parts = {name: ms * getattr(walls, name) for name in WALLS}
        elif gops := exploration.layer_gops(index)[batch - 1]:
            ms = 2e-6 * batch * layer.macs / gops
            parts = {roof_of(exploration, index, batch)[1]: ms}
        else:
            continue
        times.append(LayerTime(index=index, name=layer.name, ms=ms, parts_ms=parts))
    return times


def roof_of(exploration: Exploration, layer: int, batch: int) -> tuple[float, str]:
    """Return the roof over a layer in GOP/s, and its name: "compute" under the array's, or "memory"."""
    peak = exploration.design.peak_gops
    gwords_per_s = exploration.words_per_cycle * exploration.design.clock_hz / 1e9
    slope = exploration.layer_operations_per_word(layer, batch) * gwords_per_s
    return (slope, "memory") if slope < peak else (peak, "compute")


def shown_times(times: Sequence[LayerTime], most: int = SHOWN) -> list[LayerTime]:
    """Return the layers that take longest, in the order of the network, and all others as one last row.

    >>> ms = (9, 1, 2, 8)
    >>> rows = [LayerTime(index=n, name=f"l{n}", ms=ms[n], parts_ms={"compute": ms[n]}) for n in range(4)]
    >>> [(row.name, row.ms) for row in shown_times(rows, 2)]
    [('l0', 9), ('l3', 8), ('2 other layers', 3)]
    """
    total = sum(time.ms for time in times)
    longest = sorted(times, key=lambda time: -time.ms)[:most]
    shown = {time.index for time in longest if time.ms >= LEAST_SHARE * total}
    rest = [time for time in times if time.index not in shown]
    rows = [time for time in times if time.index in shown]
    return [*rows, _summed(rest)] if len(rest) > 1 else list(times)


def _summed(times: Sequence[LayerTime]) -> LayerTime:
    """Return several layers as one row."""
    parts = {limit: sum(time.parts_ms.get(limit, 0) for time in times) for limit in WALLS}
    ms = sum(time.ms for time in times)
    return LayerTime(index=times[0].index, name=f"{len(times)} other layers", ms=ms, parts_ms=parts)
