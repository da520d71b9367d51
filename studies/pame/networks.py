"""Networks of the study: those that were trained here, and ResNet-101 of the paper, which gives times
alone.
"""

from __future__ import annotations

from functools import lru_cache

from fluidnpu.boards import load_board
from fluidnpu.dse import explore
from fluidnpu.models import Network
from fluidnpu.models.exits import attach_bridges, backbone_of, candidate_tensors, single_exit, workload_in_parts
from fluidnpu.models.zoo import Architecture, full_size, skeleton
from fluidnpu.scheduler.tuning import CandidateTable

from .dense import CANDIDATES as MAP_CANDIDATES
from .dense import dense_skeleton

BOARD = "zc706"
BATCH = 16
FASHION = Architecture(name="resnet26_small", blocks=4, stem_stride=2)
DIGITS = Architecture(name="resnet26_digits", blocks=4, widths=(8, 16, 32), input_shape=(8, 8, 1))
CANDIDATES = {"fashion": 6, "digits": 11, "resnet101": 11, "landmarks": MAP_CANDIDATES, "segmentation": MAP_CANDIDATES}


def without_candidates(name: str) -> Network:
    """Return a network of the study with one exit, without weights."""
    if name == "resnet101":
        return full_size(name)
    by_name = {"fashion": FASHION, "digits": DIGITS}
    return single_exit(skeleton(by_name[name])) if name in by_name else dense_skeleton(name)


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
