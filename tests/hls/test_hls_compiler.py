"""Compilation: memory map and image; networks and designs that do not match are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hls_cases import LANES, SPLIT, WIDE, Plan, Shape, design_of, design_with, network_of, with_b_r

from fluidnpu.dse import Mode
from fluidnpu.hls import ProgramError, compile_program
from fluidnpu.hls.program import part_words
from fluidnpu.models import QuantisedNetwork


def test_tensors_do_not_overlap_and_lie_on_boundaries(chain: QuantisedNetwork) -> None:
    program = compile_program(chain, design_of(chain))
    end = 0
    for name, place in program.tensors.items():
        assert place.offset % 64 == 0
        assert place.offset >= end
        end = place.offset + place.size
        assert (place.height, place.width, place.channels) == chain.network.tensors[name]
    assert program.slot_bytes % 64 == 0
    assert end <= program.slot_bytes < end + 64
    assert program.tensors["t3"].halo == (1, 2, 1, 2)
    assert program.weights_offset % 64 == 0
    assert all(start % 64 == 0 for d in program.descriptors for start in d.weights if start != 0xFFFFFFFF)


def test_every_word_of_the_image_is_accounted_for(chain: QuantisedNetwork) -> None:
    design = design_of(chain, LANES)
    program = compile_program(chain, design)
    used = 0
    for index, (qlayer, descriptor) in enumerate(zip(chain.layers, program.descriptors, strict=True)):
        modes = {design.mode(index, batch) for batch in range(1, 5)}
        for mode, start in enumerate(descriptor.weights):
            assert (start != 0xFFFFFFFF) == (bool(qlayer.weights.size) and mode in modes)
            if start != 0xFFFFFFFF:
                shape = qlayer.layer.shape
                size = part_words(p=shape.p, columns=shape.c, groups=shape.groups, mode=Mode(mode), design=design)
                used += -(-2 * size // 64) * 64
    assert used - 64 < len(program.weights) <= used


def test_networks_and_designs_that_do_not_go_together_are_refused(chain: QuantisedNetwork) -> None:
    other = network_of(np.random.default_rng(5), (3, 3, 3), [Shape(4)])
    with pytest.raises(ProgramError, match="was made for others"):
        compile_program(chain, design_of(other))
    with pytest.raises(ProgramError, match="t_p must be at least 3"):
        compile_program(chain, design_of(chain, t_p=2))
    with pytest.raises(ProgramError, match="t_r must be at most 65535"):
        compile_program(chain, design_of(chain, t_r=65536))
    with pytest.raises(ProgramError, match="at most 4095 columns"):
        compile_program(chain, design_of(chain, t_c=4096))
    with pytest.raises(ProgramError, match=r"layer 'l0': b_r must lie in 2\.\.3 at batch 3"):
        compile_program(chain, with_b_r(design_of(chain), lambda batch: 1))
    with pytest.raises(ProgramError, match="needs accumulators of"):
        compile_program(chain, design_with(design_of(chain), acc_bits=32))


def test_numbers_that_no_descriptor_holds_are_refused() -> None:
    qnet = network_of(np.random.default_rng(5), (300, 1, 1), [Shape(4, kernel=(300, 1))])
    with pytest.raises(ProgramError, match="layer 'l0' does not fit a descriptor: kernel_h"):
        compile_program(qnet, design_of(qnet))


def test_networks_that_no_address_reaches_are_refused() -> None:
    qnet = network_of(np.random.default_rng(5), (1 << 15, 1 << 14, 8), [Shape(4, stride=(255, 255))])
    with pytest.raises(ProgramError, match="the slot of 'random' must be smaller than 4294967296 bytes"):
        compile_program(qnet, design_of(qnet))


def test_b_r_is_ignored_without_stackable_pes(chain: QuantisedNetwork) -> None:
    """Such a design has no lanes, so its FBCB says R-batching whatever b_r the search wrote down."""
    plain = design_of(chain, stackable=False)
    words = compile_program(chain, with_b_r(plain, lambda batch: 1)).fbcb_words
    assert words == compile_program(chain, plain).fbcb_words


@pytest.mark.parametrize("plan", [WIDE, SPLIT], ids=["wide", "split"])
def test_compiling_twice_gives_the_same_bytes(chain: QuantisedNetwork, plan: Plan) -> None:
    design = design_of(chain, plan, split=plan is SPLIT)
    assert compile_program(chain, design).files() == compile_program(chain, design).files()
