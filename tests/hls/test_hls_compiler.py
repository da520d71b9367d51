"""Compilation: memory map and image; networks and designs that do not match are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hls_cases import LANES, SPLIT, WIDE, Plan, Shape, design_of, design_with, network_of, with_b_r

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.exact.mapping import LayerMapping
from fluidnpu.dse.exact.search import synthetic_job
from fluidnpu.hls import ProgramError, compile_program
from fluidnpu.hls.program import part_words
from fluidnpu.models import Kind, QuantisedNetwork, quantise
from fluidnpu.models.graph import Builder
from fluidnpu.models.graph.network import Exit
from fluidnpu.models.zoo.synthetic import with_random_weights


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


def test_neighbouring_pixels_are_not_named_in_a_design(chain: QuantisedNetwork) -> None:
    """So the digests of designs from before pixels could lie apart are what they were."""
    assert "out_step" not in design_of(chain).dumps()


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


def test_the_search_prices_pixels_as_far_apart_as_a_program_writes_them() -> None:
    """Phases of a larger map; the design of such layers is read back as it was written."""
    net = Builder({"image": (5, 6, 4)})
    net.tensors["large"] = (10, 12, 8)
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        place = {"output": "large", "output_at": (row, column), "output_step": (2, 2)}
        net.add(Kind.GEMM, f"phase{row}{column}", "image", 8, (1, 1), **place)
    network = with_random_weights(net.network("phases", [Exit(name="final", logits=None)]), 0)
    design = design_of(quantise(network))
    program = compile_program(quantise(network), design)
    for layer, descriptor in zip(design.layers, program.descriptors, strict=True):
        job, _ = synthetic_job(layer, LayerMapping(mode=Mode.NORMAL, batch=1, b_r=1), 4, design.array)
        assert (job.out_row_bytes, job.out_pixel_bytes) == (2 * 12 * 8 * 2, 2 * 8 * 2)
        assert (descriptor.out_row_bytes, descriptor.out_pixel_bytes) == (job.out_row_bytes, job.out_pixel_bytes)
    assert [one.out_offset - program.descriptors[0].out_offset for one in program.descriptors] == [0, 16, 192, 208]
    assert Design.loads(design.dumps()) == design
    assert [layer.window.out_step for layer in design.layers if layer.window] == [(2, 2)] * 4
