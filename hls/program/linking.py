"""Programs side by side in one NPU's memory: one descriptor table, one weight image, one FBCB. Pure; no I/O.

Layers are numbered consecutively: those of the first program, then those of the next. The NPU knows of no
networks; a job names layers, and a mask names slots, so which network runs is a matter of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import ProgramError
from ..formats.table import NO_WEIGHTS
from .descriptor import DESCRIPTOR_BYTES, Descriptor
from .program import ADDRESS_LIMIT, Program, align


@dataclass(frozen=True, kw_only=True)
class Image:
    """All programs of an NPU as one image of its memory.

    `content`: descriptors, then weights from `weights_offset` on, for a 64-byte boundary. `first_layers[p]`
    is the number of program p's first layer. `slot_bytes`: of a slot of any program, so the largest.
    """

    content: bytes
    descriptors: tuple[Descriptor, ...]
    weights_offset: int
    fbcb_words: tuple[int, ...]
    slot_bytes: int
    layers: int
    first_layers: tuple[int, ...]


def link(programs: Sequence[Program]) -> Image:
    """Put programs side by side; of a single one the image is its own. Raises ProgramError."""
    if not programs or len({program.b_max for program in programs}) != 1:
        raise ProgramError("programs side by side must be for one NPU, with one largest batch")
    if len(programs) == 1:
        descriptors, weights = list(programs[0].descriptors), programs[0].weights
    else:
        descriptors, weights = _weights_of_all(programs)
    table = b"".join(descriptor.pack() for descriptor in descriptors)
    offset = align(len(descriptors) * DESCRIPTOR_BYTES)
    counts = [len(program.descriptors) for program in programs]
    return Image(
        content=table.ljust(offset, b"\0") + weights,
        descriptors=tuple(descriptors),
        weights_offset=offset,
        fbcb_words=tuple(word for program in programs for word in program.fbcb_words),
        slot_bytes=max(program.slot_bytes for program in programs),
        layers=sum(counts),
        first_layers=tuple(sum(counts[:index]) for index in range(len(counts))),
    )


def _weights_of_all(programs: Sequence[Program]) -> tuple[list[Descriptor], bytes]:
    """All weights one after another, and the descriptors that find theirs there."""
    descriptors: list[Descriptor] = []
    weights = bytearray()
    for program in programs:
        weights.extend(bytes(align(len(weights)) - len(weights)))
        at = len(weights)
        for descriptor in program.descriptors:
            a, b, c, d = (part if part == NO_WEIGHTS else part + at for part in descriptor.weights)
            descriptors.append(replace(descriptor, weights=(a, b, c, d)))
        weights += program.weights
    if len(weights) >= ADDRESS_LIMIT:
        raise ProgramError(
            f"the weights of all programs must be smaller than {ADDRESS_LIMIT} bytes, not {len(weights)}"
        )
    return descriptors, bytes(weights)
