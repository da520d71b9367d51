"""Cut a workload into stages, as if it had exits whose heads cost nothing. Pure arithmetic."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from ..errors import NetworkError
from ..graph.shapes import Workload
from .heads import unknown_name


def equidistant_exits(workload: Workload, exits: int, exit_rates: Sequence[float] | None = None) -> Workload:
    """Cut the layers into `exits` stages of as equal multiply-accumulates as whole layers allow.

    Fluid Batching places three intermediate exits this way. Raises NetworkError when there are fewer layers
    than exits.

    >>> from fluidnpu.models import LayerShape
    >>> layers = tuple(LayerShape(name=n, r=1, p=1, c=c) for n, c in (("a", 4), ("b", 3), ("c", 9)))
    >>> [layer.stage for layer in equidistant_exits(Workload(name="w", layers=layers), 2).layers]
    [0, 0, 1]
    """
    if not 1 <= exits <= len(workload.layers):
        raise NetworkError(
            f"the number of exits must lie in 1..{len(workload.layers)} for '{workload.name}', not {exits}"
        )
    done = list(accumulate(layer.macs for layer in workload.layers))
    cuts: list[int] = []
    for stage in range(1, exits):
        low, high = (cuts[-1] if cuts else 0) + 1, len(workload.layers) - (exits - stage)
        error = {n: abs(done[n - 1] * exits - stage * workload.macs) for n in range(low, high + 1)}
        cuts.append(min(error, key=error.__getitem__))
    return _cut(workload, cuts, exit_rates)


def exits_after(workload: Workload, layers: Sequence[str], exit_rates: Sequence[float] | None = None) -> Workload:
    """Cut the layers after each named one, in their own order.

    For layer tables, which know no tensors. Raises NetworkError for a name that is unknown, comes twice, or
    is the last layer's.

    >>> from fluidnpu.models import LayerShape
    >>> layers = tuple(LayerShape(name=n, r=1, p=1, c=1) for n in "abc")
    >>> [layer.stage for layer in exits_after(Workload(name="w", layers=layers), ["a"]).layers]
    [0, 1, 1]
    """
    names = [layer.name for layer in workload.layers]
    for index, name in enumerate(layers):
        if name not in names:
            raise NetworkError(unknown_name("layer", name, names, f"'{workload.name}'"))
        if name in layers[:index] or name == names[-1]:
            why = "is the last layer, where the network ends anyway" if name == names[-1] else "comes twice"
            raise NetworkError(f"exits must stand after different layers with work behind them, and '{name}' {why}")
    return _cut(workload, sorted(names.index(name) + 1 for name in layers), exit_rates)


def _cut(workload: Workload, cuts: Sequence[int], exit_rates: Sequence[float] | None) -> Workload:
    """End a stage at each index of `cuts`; the last stage ends with the layers."""
    stages = [bisect_right(cuts, index) for index in range(len(workload.layers))]
    return replace(
        workload,
        layers=tuple(replace(layer, stage=s) for layer, s in zip(workload.layers, stages, strict=True)),
        exits=tuple(f"exit{s + 1}" for s in range(len(cuts) + 1)),
        exit_rates=None if exit_rates is None else tuple(exit_rates),
    )
