"""Programs side by side: every layer finds its own weights, and one program alone is as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluidnpu.dse import Design
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import Program, ProgramError, compile_program
from fluidnpu.hls.formats import NO_WEIGHTS
from fluidnpu.hls.program import DESCRIPTOR_BYTES, Descriptor, link
from fluidnpu.models import quantise
from fluidnpu.models.zoo import random_network


def programs_of(*seeds: int) -> tuple[Program, ...]:
    qnets = [quantise(random_network(seed, exits=2)) for seed in seeds]
    designs = [replace(design_for(q.network.workload), network=f"n{s}") for q, s in zip(qnets, seeds, strict=True)]
    whole = Design.joined(designs)
    parts = [whole.part(index) for index in range(len(seeds))] if len(seeds) > 1 else [whole]
    return tuple(compile_program(qnet, part) for qnet, part in zip(qnets, parts, strict=True))


def test_one_program_is_linked_as_it_is() -> None:
    (program,) = programs_of(4)
    image = link([program])
    assert image.content == program.image()
    assert (image.weights_offset, image.slot_bytes) == (program.weights_offset, program.slot_bytes)
    assert (image.fbcb_words, image.layers, image.first_layers) == (program.fbcb_words, len(program.descriptors), (0,))


def test_every_layer_of_every_program_finds_its_own_weights() -> None:
    programs = tuple(  # with words that no two layers share, so that none can stand in for another
        replace(program, fbcb_words=tuple(range(1000 * at, 1000 * at + len(program.fbcb_words))))
        for at, program in enumerate(programs_of(4, 16, 2), 1)
    )
    image, parts = link(programs), 0
    assert image.slot_bytes == max(program.slot_bytes for program in programs)
    assert image.layers == sum(len(program.descriptors) for program in programs)
    weights = image.content[image.weights_offset :]
    for program, first in zip(programs, image.first_layers, strict=True):
        for index, own in enumerate(program.descriptors):
            at = DESCRIPTOR_BYTES * (first + index)
            linked = Descriptor.unpack(image.content[at : at + DESCRIPTOR_BYTES])
            assert replace(linked, weights=own.weights) == own
            for mine, there in zip(own.weights, linked.weights, strict=True):
                assert (mine == NO_WEIGHTS) == (there == NO_WEIGHTS)
                if mine != NO_WEIGHTS:
                    parts += 1
                    assert there % 64 == 0
                    end = len(program.weights)
                    assert weights[there : there + end - mine] == program.weights[mine:end]
        b_max = program.b_max
        words = image.fbcb_words[first * b_max : (first + len(program.descriptors)) * b_max]
        assert words == program.fbcb_words
    assert parts > len(programs)


def test_weights_beyond_the_address_space_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = programs_of(4, 16)
    whole = len(link(programs).content) - link(programs).weights_offset
    monkeypatch.setattr("fluidnpu.hls.program.linking.ADDRESS_LIMIT", whole + 1)
    link(programs)
    monkeypatch.setattr("fluidnpu.hls.program.linking.ADDRESS_LIMIT", whole)
    with pytest.raises(ProgramError, match=f"must be smaller than {whole} bytes, not {whole}"):
        link(programs)


def test_programs_of_different_npus_are_refused() -> None:
    a, b = programs_of(4, 16)
    with pytest.raises(ProgramError, match="for one NPU"):
        link([a, replace(b, b_max=2, fbcb_words=b.fbcb_words[: 2 * len(b.descriptors)])])
    with pytest.raises(ProgramError, match="for one NPU"):
        link([])
