"""The study's network, and the work of its exits against its single-exit form (Fig. 16)."""

from __future__ import annotations

from typing import Any

from fluidnpu.boards import load_board
from fluidnpu.dse import Point, explore
from fluidnpu.dse.paper import stage_latency
from fluidnpu.models.zoo import Architecture, skeleton

from ..writing import significant

BOARD = "zc706"
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


def head_times() -> dict[str, Any]:
    """Return the time of one sample through the whole network on an array for it, and without early heads.

    By the paper model, on the array that it finds best at batch 1; times in us.
    """
    network = skeleton(architecture())
    design = explore(network.workload, load_board(BOARD), b_max=1, model="paper", core="rtl").design
    early = tuple(exit.name for exit in network.exits[:-1])

    def whole_us(heads: bool) -> float:
        layers = [layer for layer in design.lowered_layers if heads or not layer.name.startswith(early)]
        table = stage_latency(
            layers,
            Point(t_r=design.t_r, t_p=design.t_p, t_c=design.t_c),
            clock_hz=design.clock_hz,
            words_per_cycle=design.out_words,
            b_max=1,
            stackable=design.stackable,
            input_words=design.input_words,
        )
        return sum(row[0] for row in table.ns) / 1e3

    all_us, single_us = whole_us(True), whole_us(False)
    return {"us": all_us, "single_us": single_us, "share_pct": significant(100 * (all_us / single_us - 1))}
