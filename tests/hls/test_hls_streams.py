"""The address model: commands, lanes, row blocks and weights of a layer."""

from __future__ import annotations

import numpy as np
import pytest
from hls_cases import CHAIN, LANES, SPLIT, design_of, network_of
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.dse import Mode
from fluidnpu.hls import StreamError, compile_program
from fluidnpu.hls.core import tiles
from fluidnpu.hls.core.streams import Command, row_lanes, unpack_layer
from fluidnpu.models import Kind


def test_commands_pack_and_unpack() -> None:
    command = Command(mode=Mode.LANES, beats=65535, lane1_beats=3, p_tiles=9, cols=4095, shift=47, residual_shift=31,
                      has_residual=1, last=1, lo=-7, hi=9)  # fmt: skip
    assert Command.unpack(command.pack()) == command
    assert command.pack() >> 109 == 0
    with pytest.raises(StreamError, match="cols takes 12 bits"):
        Command(mode=Mode.NORMAL, beats=1, p_tiles=1, cols=4096).pack()


@given(batch=st.integers(1, 8), rows=st.integers(1, 9), data=st.data())
def test_lanes_hold_every_row_once_and_lane_1_is_a_prefix(batch: int, rows: int, data: st.DataObject) -> None:
    from fluidnpu.hls.program import FbcbEntry

    b_r = data.draw(st.integers(-(-batch // 2), batch))
    first, second = row_lanes(FbcbEntry(Mode.LANES, batch, b_r, 64, data.draw(st.booleans())), rows)
    assert sorted([*first, *second]) == list(range(batch * rows))
    assert len(second) <= len(first)


def test_blocks_never_exceed_an_accumulator_bank() -> None:
    rng = np.random.default_rng(0)
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    design = design_of(qnet, SPLIT, t_r=13, t_p=4, t_c=5, split=True)
    program = compile_program(qnet, design)
    for index, descriptor in enumerate(program.descriptors):
        from fluidnpu.hls.program import decode_fbcb

        run = decode_fbcb(
            program.fbcb_word(index, 3), kind=descriptor.kind, batch=3, t_r=13, stackable=True, split=True
        )
        plan = list(tiles(descriptor, run, design))
        assert all(tile.command.beats <= (6 if run.mode is Mode.SPLIT else 13) for tile in plan)
        assert [tile.command.last for tile in plan] == [0] * (len(plan) - 1) + [1]


def test_the_image_gives_the_weights_back() -> None:
    rng = np.random.default_rng(3)
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    design = design_of(qnet, LANES, t_p=5, t_c=7, weight_slots=2)
    program = compile_program(qnet, design)
    for qlayer, descriptor in zip(qnet.layers, program.descriptors, strict=True):
        for mode in (Mode.NORMAL, Mode.LANES):
            if qlayer.layer.kind is Kind.GEMM:
                weights, bias = unpack_layer(descriptor, mode, design, program.weights)
                np.testing.assert_array_equal(weights, qlayer.weights)
                np.testing.assert_array_equal(bias, qlayer.bias)
