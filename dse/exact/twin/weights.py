"""The weight stream: twin of `fluidnpu_weight_streamer` and `fluidnpu_unpack`."""

from __future__ import annotations

from dataclasses import dataclass

from .bus.masters import ReadMaster, req_ready, request
from .parameters import LayerConstants, Setup
from .queues import SKID_DEPTH, Queue
from .records import jit

JOBS = 2


@dataclass(slots=True)
class Unpack:
    """Registers and ports of `fluidnpu_unpack`."""

    count: int  # words stored
    left: int  # words to give
    missing: int  # words still to come from the port
    skip: int
    # ports
    job_words: int  # of the next job; 0: none
    job_skip: int
    give: int  # a beat
    get: int  # a port word
    begins: int  # the next job


@dataclass(slots=True)
class WeightStreamer:
    """Registers of `fluidnpu_weight_streamer`."""

    blocks: int  # row blocks whose weights were not yet requested
    jobs: int
    unpack: Unpack


@jit
def step_unpack(unpack: Unpack, port: int, beat: int, valid: bool, ready: bool) -> None:
    """Give a beat of `beat` words, begin the next job, and take a word of `port` words, all in one cycle."""
    count, left = unpack.count, unpack.left
    unpack.give = ready and left != 0 and (count >= beat or count >= left)
    if unpack.give:
        left = max(left - beat, 0)
        count = 0 if left == 0 else count - beat
        unpack.left = left
    unpack.begins = unpack.job_words != 0 and left == 0
    if unpack.begins:
        unpack.left = unpack.missing = unpack.job_words
        unpack.skip = unpack.job_skip
    unpack.get = valid and unpack.missing != 0 and count <= beat
    if unpack.get:
        gained = port - unpack.skip
        count += gained
        unpack.missing = max(unpack.missing - gained, 0)
        unpack.skip = 0
    unpack.count = count


@jit
def weights_idle(weights: WeightStreamer) -> bool:
    """Return whether all requested weights were given to the core."""
    return (weights.blocks | weights.jobs | weights.unpack.left) == 0


@jit
def step_weights(
    weights: WeightStreamer, m0: ReadMaster, queue: Queue, layer: LayerConstants, setup: Setup, turn: bool, fetch: bool
) -> None:
    """Request the weights of a row block, and convert port words to beats of the core's weight `queue`.

    `turn`: m0 has the address of a descriptor; `fetch`: its words come first.
    """
    asks = weights.blocks != 0 and weights.jobs < JOBS and not turn and req_ready(m0, layer.weights)
    unpack = weights.unpack
    unpack.job_words = layer.block_words if weights.jobs else 0
    beat = setup.weight_slots * setup.t_p
    step_unpack(unpack, setup.port_words, beat, m0.level != 0 and not fetch, queue.level < SKID_DEPTH)
    queue.push = unpack.give
    if unpack.get:
        m0.data_ready = 1
    weights.jobs -= unpack.begins
    if asks:
        request(m0, layer.weights, (layer.block_words + setup.port_words - 1 << setup.word_shift) >> setup.port_shift)
        weights.jobs += 1
        weights.blocks -= 1
