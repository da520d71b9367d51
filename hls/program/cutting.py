"""A part of a compiled program: some of its stages, without the heads that nobody asks. Pure; no I/O.

A part runs the whole's own descriptors, weights and FBCB words, moved to places of their own, so it cannot
differ from the whole in a bit. It begins with the tensor that crosses from the stage before, as stored, and
samples that do not leave at its last exit go on with the next one.

Parts are cut from the program, not compiled from the network: a bundle is enough, and what was verified is
what runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fluidnpu.models.graph import ExitCheck

from ..errors import ProgramError
from ..formats.table import NO_WEIGHTS
from .descriptor import Descriptor
from .program import Program, ProgramSlice, TensorPlace, align


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Stages first..last (inclusive) of a program, and the exits (numbers in the whole) whose heads run.

    The last stage's exit is always among them. Raises ProgramError.
    """

    first: int
    last: int
    exits: tuple[int, ...]

    def __post_init__(self) -> None:
        exits = self.exits
        inside = all(self.first <= exit <= self.last for exit in exits)
        if not (0 <= self.first <= self.last and inside and exits == tuple(sorted({*exits, self.last}))):
            raise ProgramError(
                f"a part must have stages first..last and exits among them in order, the last stage's too, not "
                f"{self.first}..{self.last} with {list(exits)}"
            )

    def rates(self, exit_rates: Sequence[float] | None) -> tuple[float, ...] | None:
        """Return the shares of entering samples that leave the part at its exits, from the whole's.

        All that are left leave it at the last. None where none are known, and where no sample enters.

        >>> Stages(first=1, last=3, exits=(2, 3)).rates((0.5, 0.1, 0.1, 0.3))
        (0.4, 0.6)
        """
        enter = 0.0 if exit_rates is None else 1 - sum(exit_rates[: self.first])
        if exit_rates is None or enter <= 1e-9:
            return None
        starts = (self.first, *(exit + 1 for exit in self.exits))
        shares = [sum(exit_rates[at : e + 1]) / enter for at, e in zip(starts, self.exits[:-1], strict=False)]
        return (*shares, max(0.0, 1 - sum(shares)))

    def layers(self, program: Program) -> tuple[tuple[int, ...], ...]:
        """Return the layers that run, by stage of the part: one ends at each exit."""
        segments, begun = [], list[int]()
        for stage in range(self.first, self.last + 1):
            first, last = program.stages[stage]
            begun += range(first, (last if stage in self.exits else program.segments[stage]) + 1)
            if stage in self.exits:
                segments.append(tuple(begun))
                begun = []
        return tuple(segments)


def crossing(program: Program, stage: int) -> str:
    """Return the one tensor that crosses from a stage to the next. Raises ProgramError where several do."""
    made = {program.input}
    made |= {program.tensor_at(program.descriptors[k].out_offset) for k in range(program.segments[stage] + 1)}
    used: set[str] = set()
    for layer in program.descriptors[program.stages[stage][1] + 1 :]:
        used |= set(program.tensors_read(layer))
    crosses = sorted(made & used, key=lambda name: program.tensors[name].offset)
    if len(crosses) != 1:
        raise ProgramError(
            f"one tensor must cross from stage {stage} to the next for '{program.network}' to be cut there, and "
            f"{', '.join(crosses) or 'none'} would"
        )
    return crosses[0]


def cut(program: Program, stages: Stages, design_digest: str) -> Program:
    """Return the part of a program that runs some stages; `design_digest` is that of the part's design.

    Raises ProgramError for stages that there are not, for a stage boundary that more than one tensor crosses,
    and for networks that give out more than exits or whose check looks back at the exit before.
    """
    whole = len(program.stages)
    if program.cut is not None:
        raise ProgramError(f"a part must be cut from a whole program, and that of '{program.network}' is a part")
    if stages.last >= whole:
        raise ProgramError(
            f"stages of '{program.network}' must lie in 0..{whole - 1}, not {stages.first}..{stages.last}"
        )
    if program.outputs:
        raise ProgramError(
            f"a network must give out its exits alone to be cut, and '{program.network}' gives out "
            f"{', '.join(output.output.name for output in program.outputs)} beside them"
        )
    if program.check is ExitCheck.AGREEMENT:
        raise ProgramError(
            f"exits must decide by their own values for a network to be cut, and those of '{program.network}' look at "
            f"the exit before"
        )
    source = program.input if stages.first == 0 else crossing(program, stages.first - 1)
    onward = "" if stages.last == whole - 1 else crossing(program, stages.last)
    by_stage = stages.layers(program)
    layers = [layer for members in by_stage for layer in members]
    used = {source, onward} - {""}
    for index in layers:
        layer = program.descriptors[index]
        used |= {program.tensor_at(layer.out_offset), *program.tensors_read(layer)}
    places = _places(program, used)
    weights, moved = _weights(program, layers)
    ends, at = [], 0
    for members in by_stage:
        ends.append((at, at + len(members) - 1))
        at += len(members)
    exits = tuple(program.exits[exit] for exit in stages.exits)
    return replace(
        program,
        design_digest=design_digest,
        descriptors=tuple(_moved(program, program.descriptors[index], places, moved) for index in layers),
        weights=weights,
        fbcb_words=tuple(word for index in layers for word in _words(program, index)),
        tensors=places,
        slot_bytes=align(max(place.offset + place.size for place in places.values())),
        stages=tuple(ends),
        input=source,
        input_scale=program.input_scale if stages.first == 0 else 1.0,
        exits=tuple(exits),
        intake=program.intake if stages.first == 0 else None,
        cut=ProgramSlice(whole=program.digest, first=stages.first, exits=stages.exits, onward=onward),
    )


def _places(program: Program, used: set[str]) -> dict[str, TensorPlace]:
    """Give the tensors that are left places without gaps, in the whole's order."""
    places, offset = dict[str, TensorPlace](), 0
    for name in sorted(used, key=lambda name: program.tensors[name].offset):
        places[name] = replace(program.tensors[name], offset=offset)
        offset = align(offset + places[name].size)
    return places


def _weights(program: Program, layers: Sequence[int]) -> tuple[bytes, dict[int, int]]:
    """Return the weights of some layers, and their new offsets by the old ones."""
    starts = sorted({at for layer in program.descriptors for at in layer.weights if at != NO_WEIGHTS})
    ends = dict(zip(starts, [*starts[1:], len(program.weights)], strict=True))
    image, moved = bytearray(), dict[int, int]()
    for at in sorted({at for k in layers for at in program.descriptors[k].weights if at != NO_WEIGHTS}):
        image.extend(bytes(align(len(image)) - len(image)))
        moved[at] = len(image)
        image += program.weights[at : ends[at]]
    return bytes(image), moved


def _moved(program: Program, layer: Descriptor, places: dict[str, TensorPlace], weights: dict[int, int]) -> Descriptor:
    """Return a layer whose tensors and weights lie at new places."""

    def to(offset: int) -> int:
        name = program.tensor_at(offset)
        return offset - program.tensors[name].offset + places[name].offset

    a, b, c, d = (at if at == NO_WEIGHTS else weights[at] for at in layer.weights)
    return replace(
        layer,
        in_offset=to(layer.in_offset),
        out_offset=to(layer.out_offset),
        residual_offset=to(layer.residual_offset) if layer.has_residual else 0,
        weights=(a, b, c, d),
    )


def _words(program: Program, layer: int) -> tuple[int, ...]:
    return program.fbcb_words[layer * program.b_max : (layer + 1) * program.b_max]
