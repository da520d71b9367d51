"""Gains of tensors at 8 bits: the factor that makes a tensor's largest value its largest word (ADR 75).

A power of two alone leaves half of the words unused at worst, a bit of eight. Layers with weights take any
factor into their channels' multipliers, and what they add into the residual's; tables take it into their
entries. Pools and passes hand words on, so what they read and write shares one factor; so does what a slope
reads and writes. What words are multiplied by, and what comes of it, keeps powers of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ..graph.activations import Use
from ..graph.network import Layer, Network
from ..graph.shapes import Kind
from .words import Word

ROUNDING = 1e-12  # so that the largest value stays within the largest word


def free_gains(
    network: Network, ranges: Mapping[str, float], width: Word
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return the gains of tensors and of words in front of activations, and `ranges` over these."""
    groups = _tied(network)
    factors = dict.fromkeys(network.ranged, 1.0)
    for names, pinned in groups:
        if not pinned:
            factors |= dict.fromkeys(names, _factor([ranges[name] for name in names], width))
    gains = {name: network.gains.get(name, 1.0) * factors[name] for name in network.ranged}
    return gains, {name: ranges[name] / factors[name] for name in network.ranged}


def _factor(ranges: list[float], width: Word) -> float:
    """Return the factor, above a half and at most 1, that wastes least of the words of all these ranges."""
    steps = [width.headroom * size / width.highest for size in ranges if size > 0]
    wanted = sorted({step / 2.0 ** math.ceil(math.log2(step)) for step in steps})
    if not wanted:
        return 1.0

    def waste(factor: float) -> float:
        return sum(math.ceil(math.log2(step / factor) - ROUNDING) - math.log2(step / factor) for step in steps)

    return min(wanted, key=lambda factor: (waste(factor), -factor)) * (1 + ROUNDING)


def _tied(network: Network) -> list[tuple[list[str], bool]]:
    """Return the names of `Network.ranged` in groups that share a factor, each with whether it must be 1."""
    parents = {name: name for name in (*network.ranged, "")}

    def root(name: str) -> str:
        while parents[name] != name:
            parents[name] = parents[parents[name]]
            name = parents[name]
        return name

    for layer in network.layers:
        for first, second in _ties(layer):
            parents[root(first)] = root(second)
    groups: dict[str, list[str]] = {}
    for name in network.ranged:
        groups.setdefault(root(name), []).append(name)
    return [(names, of == root("")) for of, names in groups.items()]


def _ties(layer: Layer) -> Iterator[tuple[str, str]]:
    """Yield pairs of names that share a factor; the empty name's is 1."""
    word = layer.inner or layer.output
    if layer.kind is not Kind.GEMM:
        yield word, layer.input
        if layer.adds:
            yield word, str(layer.residual)
    if layer.multiplies:
        yield from ((name, "") for name in (word, str(layer.residual), layer.output))
    if layer.activation is not None and layer.activation.use is Use.SLOPE:
        yield word, layer.output
