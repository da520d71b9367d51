"""The study's network, and the work of its exits against its single-exit form (Fig. 16)."""

from __future__ import annotations

from typing import Any

from fluidnpu.models.zoo import Architecture, skeleton

from ..writing import significant

WIDTHS, HEADS = (8, 16, 32, 48), ((), (), (), ())


def architecture(name: str = "delen4", input_shape: tuple[int, int, int] = (28, 28, 1)) -> Architecture:
    """Return the study's network: four residual stages, each with a pool and a classifier behind it."""
    return Architecture(name=name, blocks=1, widths=WIDTHS, heads=HEADS, input_shape=input_shape)


def head_macs() -> dict[str, Any]:
    """Return multiply-accumulates of the whole network, and of heads that a single exit has not."""
    network = skeleton(architecture())
    early = [
        layer.shape.macs for exit in network.exits[:-1] for layer in network.layers if layer.name.startswith(exit.name)
    ]
    whole = network.workload.macs
    return {"macs": whole, "early_heads": sum(early), "share_pct": significant(100 * sum(early) / (whole - sum(early)))}
