"""Small networks with maps as answers and random weights: residual blocks, and a head that enlarges again.

>>> net = random_hourglass(3, MapTask.LANDMARKS)
>>> [net.tensors[exit.classes] for exit in net.exits], net.check.text
([(12, 8, 3), (12, 8, 3), (12, 8, 3)], 'landmarks:shape=12x8x3,count=0.5,top=4')
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..exits.bridges import attach_bridges
from ..exits.measuring import with_check, with_thresholds
from ..exits.regions import candidate_tensors
from ..graph.builder import Builder
from ..graph.checks import MapCheck, MapTask
from ..graph.network import Exit, Network
from .synthetic import with_random_weights


def random_hourglass(seed: int, task: MapTask, *, exits: int = 2, shortcuts: bool = True) -> Network:
    """Return a network of six residual blocks in three regions with a head of maps, and `exits` early exits.

    `shortcuts`: the head adds the last maps of the first two regions as it enlarges. Exits have bridges, and
    weights of their own; their thresholds lie about the middle of what random images give.
    """
    rng = np.random.default_rng(seed)
    net = Builder({"image": (24, 16, int(rng.integers(1, 4)))})
    widths = [int(rng.integers(3, 7)) for _ in range(3)]
    value, ends = net.conv("stem", "image", widths[0], 3, 2), []
    for region, width in enumerate(widths, start=1):
        for block in (1, 2):
            stride = 2 if region > 1 and block == 1 else 1
            short = value
            if block == 1:
                short = net.conv(f"r{region}_down", value, width, 1, stride, clip=(None, None))
            inner = net.conv(f"r{region}b{block}_a", value, width, 3, stride)
            value = net.conv(f"r{region}b{block}_b", inner, width, 3, residual=short)
        ends.append(value)
    for region in (1, 0):
        added = {"residual": ends[region]} if shortcuts else {}
        value = net.enlarge(f"up{region + 1}", value, widths[region], **added)
    maps = net.conv("maps", value, 3, clip=(None, None), output="final")
    plain = replace(
        net.network(f"hourglass{seed}", [Exit(name="final", logits=maps)]),
        check=MapCheck(task=task, shape=net.tensors[maps], top=4),
    )
    plain = with_random_weights(plain, seed)
    if not exits:
        return plain
    network = attach_bridges(plain, candidate_tensors(plain, exits))
    return _of_many_minds(with_random_weights(network, seed + 1), seed)


def _of_many_minds(network: Network, seed: int) -> Network:
    """Return the network with the middle of its sureness on random images as thresholds."""
    from ..exits.rule import sureness_of_exits
    from ..numeric.float_reference import run_float

    logits = run_float(network, network.intake.random(11, seed))
    middles = [float(np.median(sureness_of_exit_)) for sureness_of_exit_ in sureness_of_exits(logits, network.check)]
    return with_thresholds(with_check(network, network.check), middles)
