"""Networks of the study: those that were trained here, and ResNet-101 of the paper, which gives times
alone.
"""

from __future__ import annotations

from functools import lru_cache

from fluidnpu.boards import load_board
from fluidnpu.dse import explore
from fluidnpu.models import Exit, Kind, Network
from fluidnpu.models.exits import attach_bridges, backbone_of, candidate_tensors, single_exit, workload_in_parts
from fluidnpu.models.zoo import Architecture, Builder, skeleton
from fluidnpu.scheduler.tuning import CandidateTable

from .dense import CANDIDATES as MAP_CANDIDATES
from .dense import dense_skeleton

BOARD = "zc706"
BATCH = 16
FASHION = Architecture(name="resnet26_small", blocks=4, stem_stride=2)
DIGITS = Architecture(name="resnet26_digits", blocks=4, widths=(8, 16, 32), input_shape=(8, 8, 1))
CANDIDATES = {"fashion": 6, "digits": 11, "resnet101": 11, "landmarks": MAP_CANDIDATES, "segmentation": MAP_CANDIDATES}


def resnet101() -> Network:
    """Return the skeleton of ResNet-101 (v1.5, 224 x 224, 1000 classes): 3, 4, 23 and 3 bottlenecks."""
    net = Builder({"image": (224, 224, 3)})
    value = net.pool(Kind.MAX_POOL, "maxpool", net.conv("conv1", "image", 64, 7, 2), 2, 1)
    for region, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 23), (512, 3)), start=1):
        for block in range(blocks):
            name, stride = f"layer{region}.{block}", 2 if region > 1 and block == 0 else 1
            inner = net.conv(f"{name}.conv2", net.conv(f"{name}.conv1", value, width), width, 3, stride)
            if block == 0:
                value = net.conv(f"{name}.downsample", value, 4 * width, 1, stride, clip=(None, None))
            value = net.conv(f"{name}.conv3", inner, 4 * width, residual=value)
    net.classifier(("avgpool", "fc"), value, 1000, "final")
    return net.network("resnet101", [Exit(name="final", logits="final")])


def without_candidates(name: str) -> Network:
    """Return a network of the study with one exit, without weights."""
    if name == "resnet101":
        return resnet101()
    known = {"fashion": FASHION, "digits": DIGITS}
    return single_exit(skeleton(known[name])) if name in known else dense_skeleton(name)


@lru_cache
def with_candidates(name: str) -> Network:
    """Return a network of the study with its candidates, without weights."""
    plain = without_candidates(name)
    return attach_bridges(plain, candidate_tensors(plain, CANDIDATES[name]))


@lru_cache
def table_of(name: str) -> CandidateTable:
    """Return the times of its parts on the board, by the `paper` model, for batches up to 16."""
    network = with_candidates(name)
    design = explore(workload_in_parts(network), load_board(BOARD), b_max=BATCH, model="paper", core="rtl").design
    return CandidateTable.of(design, [exit.name for exit in network.exits[:-1]])


def macs_of(name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the MACs of every segment and of every head."""
    work = workload_in_parts(with_candidates(name))
    parts = [0] * len(work.exits)
    for layer in work.layers:
        parts[layer.stage] += layer.macs
    return tuple(parts[0::2]), tuple(parts[1::2])


def block_numbers(name: str) -> tuple[int, ...]:
    """Return the number of the block behind which each candidate stands, from 1."""
    plain = without_candidates(name)
    tensors = [block.tensor for block in backbone_of(plain).blocks]
    return tuple(tensors.index(tensor) + 1 for tensor in candidate_tensors(plain, CANDIDATES[name]))
