"""Find the places for exits in a network, and attach a head to a place.

A head is a global average pool and one linear classifier with random weights: enough to explore and to
build, not to answer before it is trained. A *cut* is a tensor that everything later depends on, so nothing
else of the network waits in memory there.

>>> from fluidnpu.models.zoo import skeleton
>>> net = attach_exits(single_exit(skeleton("resnet8")), ["stage1_block1_b_out"])
>>> [exit.name for exit in net.exits], [layer.name for layer in net.layers][3:5], net.layers[-1].stage
(['exit1', 'final'], ['exit1_pool', 'exit1_fc'], 1)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import NetworkError
from ..graph.checks import MapCheck
from ..graph.network import Exit, Layer, Network, Parameters
from ..graph.shapes import Kind
from ..graph.stages import stages_of, with_outputs

_CLOSE = 4  # names suggested in place of an unknown one


@dataclass(frozen=True, kw_only=True)
class ExitPlace:
    """A tensor of the backbone that can take an exit, and the share of the backbone's MACs before it."""

    tensor: str
    shape: tuple[int, int, int]
    macs: int
    share: float
    cut: bool


def layers_needed(network: Network, tensor: str) -> frozenset[int]:
    """Return the indices of the layers that a tensor depends on."""
    begun: set[int] = set()
    stack = list(network.writers(tensor))
    while stack:
        index = stack.pop()
        if index not in begun:
            begun.add(index)
            stack += network.sources[index]
    return frozenset(begun)


def backbone_end(network: Network) -> str:
    """Return the tensor that ends the last exit's backbone: its logits, or what a head of maps first
    enlarges.

    So a decoder's layers are its head's, and the shortcuts that it reads do not hide the backbone's blocks.
    """
    logits = network.exits[-1].classes
    if isinstance(network.check, MapCheck):
        for index in sorted(layers_needed(network, logits)):
            layer = network.layers[index]
            (height, width, _), (rows, columns, _) = network.tensors[layer.output], layer.in_shape
            if height * width > rows * columns:
                return layer.input
    return logits


def exit_places(network: Network) -> tuple[ExitPlace, ...]:
    """Return the places for exits: the tensors of the last exit's backbone with work before and after them,
    by MACs.
    """
    backbone = layers_needed(network, backbone_end(network))
    macs = {index: layer.shape.macs for index, layer in enumerate(network.layers)}
    total = sum(macs[index] for index in backbone)
    taken = network.given_out
    places = []
    for tensor in dict.fromkeys(network.layers[index].output for index in sorted(backbone)):
        needs = layers_needed(network, tensor)
        before = sum(macs[index] for index in needs)
        if tensor not in taken and 0 < before < total:
            behind = backbone - needs
            first_hand = {source for index in behind for source in network.sources[index]} & needs
            waiting = {network.layers[index].output for index in first_hand}
            if any(network.input in (network.layers[index].input, network.layers[index].residual) for index in behind):
                waiting.add(network.input)
            places.append(
                ExitPlace(
                    tensor=tensor,
                    shape=network.tensors[tensor],
                    macs=before,
                    share=before / total,
                    cut=waiting == {tensor},
                )
            )
    return tuple(sorted(places, key=lambda place: place.macs))


def equidistant_tensors(network: Network, exits: int) -> tuple[str, ...]:
    """Choose the cuts nearest to 1/exits, 2/exits, ... of the backbone's MACs.

    Returns exits - 1 tensors, since the last exit is there already. Raises NetworkError when there are too
    few cuts.
    """
    cuts = [place for place in exit_places(network) if place.cut]
    if not 1 <= exits <= len({place.macs for place in cuts}) + 1:
        raise NetworkError(
            f"the number of exits must lie in 1..{len({place.macs for place in cuts}) + 1} for '{network.name}', which has so many "
            f"cuts, not {exits}; name the tensors instead"
        )
    chosen: list[ExitPlace] = []
    for stage in range(1, exits):
        done = chosen[-1].macs if chosen else 0
        later = sorted({place.macs for place in cuts if place.macs > done})
        possible = set(later[: len(later) - (exits - 1 - stage)])  # leave a cut for each exit still to come
        fair = [place for place in cuts if place.macs in possible]
        chosen.append(min(fair, key=lambda place: abs(place.share - stage / exits)))
    return tuple(place.tensor for place in chosen)


def unknown_name(what: str, name: str, names: Iterable[str], where: str) -> str:
    """Return the sentence that refuses a name, with the known names that are closest to it."""
    names = list(names)
    close = difflib.get_close_matches(name, names, _CLOSE, 0.3) or names[:_CLOSE]
    return f"there is no {what} '{name}' in {where}; close to it: {', '.join(close)}"


def single_exit(network: Network) -> Network:
    """Return the network without its early exits and their heads."""
    return staged(network, network.exits[-1:])


def keep_exits(network: Network, names: Sequence[str]) -> Network:
    """Return the network with the named early exits and the last one alone. Raises NetworkError."""
    early = [exit.name for exit in network.exits[:-1]]
    for name in names:
        if name not in early:
            raise NetworkError(unknown_name("early exit", name, early, f"'{network.name}'"))
    kept = [exit for exit in network.exits[:-1] if exit.name in names]
    rates = (replace(exit, rate=None) for exit in (*kept, network.exits[-1]))
    return staged(network, tuple(rates))


def attach_exits(network: Network, tensors: Sequence[str], *, threshold: float = 1.0, seed: int = 0) -> Network:
    """Attach a head at each tensor, in order of their MACs; with a threshold of 1 no sample leaves there.

    `fluidnpu.models.training.fit_heads` fits their weights.

    Exit rates are forgotten. Where the network has calibration, a head's ranges are bounds that follow from
    its weights. Raises NetworkError for a tensor that is not among `exit_places`, and for one that is named
    twice.
    """
    if isinstance(network.check, MapCheck):
        raise NetworkError(
            f"a linear head tells classes apart, and the exits of '{network.name}' give maps; bridges (--candidates) end "
            "in the network's own head"
        )
    places = {place.tensor: place for place in exit_places(network)}
    for index, tensor in enumerate(tensors):
        if tensor not in places:
            raise NetworkError(unknown_name("place for an exit", tensor, places, f"'{network.name}'"))
        if tensor in tensors[:index]:
            raise NetworkError(f"the tensors of exits must differ, and '{tensor}' comes twice")
    rng = np.random.default_rng(seed)
    taken = {exit.name for exit in network.exits} | set(network.tensors) | {layer.name for layer in network.layers}
    exits = []
    for tensor in sorted(tensors, key=lambda name: places[name].macs):
        name = _free_name(taken)
        network = _with_head(network, tensor, name, rng)
        exits.append(Exit(name=name, logits=name, threshold=threshold))
    return staged(network, [*(replace(exit, rate=None) for exit in network.exits), *exits])


def _free_name(taken: set[str]) -> str:
    """Return the first exitN that collides with no name, its own layers and tensors included."""
    count = 1
    while {f"exit{count}", f"exit{count}_pool", f"exit{count}_pool_out", f"exit{count}_fc"} & taken:
        count += 1
    taken.add(f"exit{count}")
    return f"exit{count}"


def _with_head(network: Network, tensor: str, name: str, rng: np.random.Generator) -> Network:
    """Append pool and classifier with their tensors, weights and ranges."""
    height, width, channels = network.tensors[tensor]
    classes = network.tensors[network.exits[-1].classes][2]
    pool = Layer(
        name=f"{name}_pool", kind=Kind.SUM_POOL, input=tensor, output=f"{name}_pool_out", channels=channels,
        in_shape=(height, width, channels), kernel=(height, width),
    )  # fmt: skip
    linear = Layer(
        name=f"{name}_fc", kind=Kind.GEMM, input=pool.output, output=name, channels=classes, in_shape=(1, 1, channels)
    )
    parameters, calibration = dict(network.parameters), dict(network.calibration)
    if parameters:
        weights = rng.normal(0, channels**-0.5, (1, channels, classes)).astype(np.float32)
        parameters[linear.name] = Parameters(weights=weights, bias=np.zeros(classes, np.float32))
        if tensor in calibration:
            mean = calibration[tensor] * network.gains[tensor]
            calibration[pool.output] = calibration[tensor] * height * width / 2**pool.pool_shift
            calibration[name] = float(np.abs(weights).sum(axis=1).max()) * mean
    return replace(
        network,
        tensors={**network.tensors, pool.output: (1, 1, channels), name: (1, 1, classes)},
        layers=(*network.layers, pool, linear),
        parameters=parameters,
        calibration=calibration,
    )


def staged(network: Network, exits: Sequence[Exit]) -> Network:
    """Return the network of these exits, in stages; layers that none of them needs are left out.

    Exits are ordered by the MACs that they need of the last exit's backbone, then by all that they need.
    """
    needs = {exit.name: layers_needed(network, exit.logits) if exit.logits else frozenset() for exit in exits}
    macs = [layer.shape.macs for layer in network.layers]
    last = network.exits[-1].name
    backbone = needs[last]

    def depth(exit: Exit) -> tuple[bool, int, int]:
        shared, own = needs[exit.name] & backbone, needs[exit.name]
        return exit.name == last, sum(macs[index] for index in shared), sum(macs[index] for index in own)

    ranked = sorted(exits, key=depth)
    outputs = [layers_needed(network, output.tensor) for output in network.outputs]
    joined, places = with_outputs([needs[exit.name] for exit in ranked], outputs)
    placed = stages_of(joined, range(len(network.layers)))
    layers = tuple(replace(network.layers[index], stage=stage) for index, stage in placed)
    tensors = {network.input, *(layer.output for layer in layers)}
    ranged = {*tensors, *(layer.inner for layer in layers)}
    return replace(
        network,
        tensors={name: shape for name, shape in network.tensors.items() if name in tensors},
        layers=layers,
        exits=tuple(ranked),
        outputs=tuple(replace(output, stage=stage) for output, stage in zip(network.outputs, places, strict=True)),
        parameters={layer.name: network.parameters[layer.name] for layer in layers if layer.name in network.parameters},
        calibration={name: value for name, value in network.calibration.items() if name in ranged},
    )
