"""Random designs, small enough to be synthesised in a minute. Deterministic by seed.

They cover everything that the counts of primitives depend on.

>>> one, two = random_designs(2, seed=1)
>>> one != two and random_designs(1, seed=1)[0] == one
True
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fluidnpu.dse import Design
from fluidnpu.dse.testing import design_for
from fluidnpu.models import LayerShape, Workload

MAX_MACS = 64
PORT_BITS = (64, 128, 512, 64, 128)  # design by design in turn
MAX_ROWS = 2600  # six chunks of 512 rows: every way in which block RAMs are put together


def random_designs(count: int, seed: int) -> list[Design]:
    """Draw `count` designs of up to MAX_MACS multiply-accumulates; a seed gives the same first ones for any
    count.
    """
    rng = np.random.default_rng(seed)
    return [_one(rng, index) for index in range(count)]


def wide_designs(part: str) -> tuple[Design, ...]:
    """Designs beyond the random ones.

    Core: many columns. Data plane: a wide tree and a wide output; streams that are all as wide as a port.
    """
    work = Workload(name="wide", layers=(LayerShape(name="layer", r=4, p=9, c=8),) * 54, exits=("final",))
    if part == "core":
        return (design_for(work, t_r=600, t_p=4, t_c=64, b_max=8, weight_slots=2, out_words=8, port_bits=64),)
    return (
        design_for(work, t_r=512, t_p=13, t_c=8, b_max=8, out_words=16, port_bits=128),
        design_for(work, t_r=512, t_p=7, t_c=8, b_max=8, weight_slots=5, out_words=32, port_bits=512),
    )


def _one(rng: np.random.Generator, index: int) -> Design:
    def whole(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    split = bool(rng.random() < 0.2)
    t_p = 2 * whole(2, 4) if split else whole(3, 8)
    layers = tuple(LayerShape(name=f"layer{i}", r=4, p=9, c=8) for i in range(whole(1, 60)))
    made = design_for(
        Workload(name=f"random{index}", layers=layers, exits=("final",)),
        t_r=int(np.exp(rng.uniform(np.log(2), np.log(MAX_ROWS)))),
        t_p=t_p,
        t_c=whole(2, MAX_MACS // t_p),
        b_max=whole(1, 16),
        stackable=bool(rng.random() < 0.75),
        split=split,
        weight_slots=whole(1, 3),
        out_words=whole(1, 6),
    )
    port_bits = PORT_BITS[index % len(PORT_BITS)]
    made = made.changed(acc_bits=whole(32, 48), port_bits=port_bits)
    least = 16 * made.line_words
    return replace(made, buffer_words=max(1 << 15 + index % 4, 1 << (least - 1).bit_length()))
