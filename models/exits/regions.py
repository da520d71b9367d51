"""Find the blocks and regions of a network's backbone from its graph, and the candidates for exits there.

A *block* ends at a cut, a tensor that everything later depends on, where no pool and no depthwise layer
parts what belongs together. A *region* is a run of blocks whose outputs have one shape. A stem (one layer
before blocks of several) and the head (what follows the last block) take no exits. PAME, sections 4.1 and
5.1, works with the same two words; the paper takes them as given, here they are found. A head of maps begins
where a map is first enlarged.

>>> from fluidnpu.models.zoo import full_size
>>> [len(region.blocks) for region in backbone_of(full_size("resnet50")).regions]
[3, 4, 6, 3]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ..errors import NetworkError
from ..graph.network import Layer, Network
from ..graph.shapes import Kind, Shape, Workload
from .heads import ExitPlace, backbone_end, exit_places, layers_needed


@dataclass(frozen=True, kw_only=True)
class LayerBlock:
    """A block: the tensor that it reads, the one that it gives, and the indices of its layers in order."""

    source: str
    tensor: str
    layers: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class BlockRegion:
    """A run of blocks whose outputs have one shape (height, width, channels)."""

    shape: Shape
    blocks: tuple[LayerBlock, ...]


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """A network taken apart: stem, regions of blocks, and the head that reads the last block's tensor.

    `stem` and `head` are indices of layers; the stem may be empty.
    """

    stem: tuple[int, ...]
    regions: tuple[BlockRegion, ...]
    head: tuple[int, ...]

    @property
    def blocks(self) -> tuple[LayerBlock, ...]:
        """All blocks in order, numbered from 1 in tables."""
        return tuple(block for region in self.regions for block in region.blocks)

    def region_of(self, tensor: str) -> int:
        """Return the index of the region in which a block gives this tensor. Raises KeyError."""
        region_of = {block.tensor: index for index, region in enumerate(self.regions) for block in region.blocks}
        return region_of[tensor]


def backbone_of(network: Network) -> Backbone:
    """Take the last exit's backbone apart.

    Raises NetworkError for a network with one block or none, where no exit can stand.
    """
    end = backbone_end(network)
    ends = _block_ends(network)
    if end != network.exits[-1].classes:
        ends = [*(tensor for tensor in ends if tensor != end), end]
    start: frozenset[int] = frozenset()
    source, blocks = network.input, []
    for tensor in ends:
        needs = layers_needed(network, tensor)
        blocks.append(LayerBlock(source=source, tensor=tensor, layers=tuple(sorted(needs - start))))
        start, source = needs, tensor
    head = tuple(sorted(layers_needed(network, network.exits[-1].classes) - start))
    stem: tuple[int, ...] = ()
    if len(blocks) > 2 and _gemms(network, blocks[0]) == 1 < _gemms(network, blocks[1]):
        stem, blocks = blocks[0].layers, blocks[1:]
    if len(blocks) < 2:
        raise NetworkError(
            f"an exit stands between two blocks, and '{network.name}' has {len(blocks) or 'none'}: no tensor before "
            "its head is all that the rest depends on"
        )
    runs = groupby(blocks, key=lambda block: network.tensors[block.tensor])
    regions = tuple(BlockRegion(shape=shape, blocks=tuple(run)) for shape, run in runs)
    return Backbone(stem=stem, regions=regions, head=head)


def candidate_tensors(network: Network, count: int) -> tuple[str, ...]:
    """Choose `count` candidates at equal distance: after the blocks e_i = a * i + 1 - a, a = blocks // count.

    This is the placement of PAME, section 5.2: blocks 1, 4, ..., 31 for eleven exits of ResNet-101. Raises
    NetworkError for more candidates than blocks that have a block behind them.
    """
    blocks = backbone_of(network).blocks
    if not 1 <= count < len(blocks):
        raise NetworkError(
            f"the number of candidates must lie in 1..{len(blocks) - 1} for '{network.name}' of {len(blocks)} blocks, "
            f"not {count}"
        )
    step = len(blocks) // count
    return tuple(blocks[step * index].tensor for index in range(count))


def workload_in_parts(network: Network) -> Workload:
    """Return the network's layers with every part as a stage: a segment and a head for each early exit, then
    the rest.

    The latency table of such a workload gives the times of all sets of active exits by addition. Raises
    NetworkError for one exit, and for two exits at one tensor.
    """
    early = len(network.exits) - 1
    if not early:
        raise NetworkError(f"parts are those of a network with early exits, and '{network.name}' has none")
    backbone = layers_needed(network, network.exits[-1].classes)
    shapes = []
    for index, layer in enumerate(network.layers):
        head = index not in backbone
        shapes.append(replace(layer.shape, stage=2 * layer.stage + head))
    missing = set(range(2 * early + 1)) - {shape.stage for shape in shapes}
    if missing:
        part = min(missing)
        raise NetworkError(
            f"every early exit needs layers of its own and of the backbone, and '{network.exits[part // 2].name}' of "
            f"'{network.name}' has no {'head' if part % 2 else 'segment'}"
        )
    names = [name for exit in network.exits[:-1] for name in (f"{exit.name} segment", f"{exit.name} head")]
    return Workload(name=network.name, layers=tuple(shapes), exits=(*names, network.exits[-1].name))


def _block_ends(network: Network) -> list[str]:
    """Return the tensors at which blocks end, in the order of execution."""
    cuts = [place for place in exit_places(network) if place.cut]
    if any(_is_map(place) for place in cuts):
        cuts = [place for place in cuts if _is_map(place)]  # vectors behind the last map are the head's
    readers: dict[str, list[Layer]] = {}
    for layer in network.layers:
        for tensor in {layer.input, layer.residual} - {None}:
            readers.setdefault(tensor or "", []).append(layer)
    start: frozenset[int] = frozenset()
    ends = []
    for place in cuts:
        needs = layers_needed(network, place.tensor)
        inside = [network.layers[index] for index in sorted(needs - start)]
        writers = [network.layers[index] for index in network.writers(place.tensor)]
        if _ends_block(inside, writers, readers.get(place.tensor, [])):
            ends.append(place.tensor)
            start = needs
    return ends


def _is_map(place: ExitPlace) -> bool:
    return place.shape[0] * place.shape[1] > 1


def _ends_block(inside: Sequence[Layer], writers: Sequence[Layer], readers: Sequence[Layer]) -> bool:
    """True if a cut is the end of a block: a pool belongs to the block behind it, and a depthwise layer to
    the dense layers around it.
    """
    if not any(layer.kind is Kind.GEMM and not _depthwise(layer) for layer in writers):
        return False
    return any(map(_depthwise, inside)) or not any(map(_depthwise, readers))


def _depthwise(layer: Layer) -> bool:
    return layer.kind is Kind.GEMM and layer.groups > 1 and layer.groups == layer.in_shape[2]


def _gemms(network: Network, block: LayerBlock) -> int:
    return sum(network.layers[index].kind is Kind.GEMM for index in block.layers)
