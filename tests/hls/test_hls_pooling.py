"""Max pools that are merged with the layer before them: descriptors, streams and what is stored."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hls_cases import LANES, R_BATCHING, ROW_LANES, SMALL, SPLIT, WIDE, Plan, Shape, design_of, images_for, network_of
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import DesignError
from fluidnpu.hls import DescriptorError, FbcbError, ProgramError, compile_program, csim_network
from fluidnpu.hls.core import execute_streams_reference, layer_streams, left_output, scatter_output
from fluidnpu.hls.formats import FBCB
from fluidnpu.hls.program import Descriptor, decode_for, pool_map
from fluidnpu.models import Kind, QuantisedNetwork, golden

POOL = Shape(6, kind=Kind.MAX_POOL, kernel=(3, 3), stride=(2, 2), padding=(1, 1, 0, 0))
NETWORK = [
    Shape(6, kernel=(3, 3), padding=(1, 1, 1, 1)),
    POOL,
    Shape(7, kernel=(1, 1), relu=False),
    Shape(7, kind=Kind.MAX_POOL, kernel=(2, 2), stride=(2, 2)),
    Shape(3, kernel=(2, 2)),
]
SIZES: dict[str, Any] = {"t_r": 13, "t_p": 4, "t_c": 5, "b_max": 4, "weight_slots": 3, "out_words": 4}


def quantised(seed: int = 3) -> QuantisedNetwork:
    qnet = network_of(np.random.default_rng(seed), (16, 16, 3), NETWORK)
    clamps = (replace(layer, lo=-32768) if layer.layer.kind is Kind.MAX_POOL else layer for layer in qnet.layers)
    return replace(qnet, layers=tuple(clamps))


@pytest.mark.parametrize("plan", [R_BATCHING, WIDE, SPLIT, ROW_LANES], ids=["r", "wide", "split", "rows"])
@pytest.mark.parametrize("batch", [1, 3])
def test_what_is_stored_is_the_pool_of_the_golden_model(plan: Plan, batch: int) -> None:
    qnet = quantised()
    design = design_of(qnet, plan, **SIZES, split=plan is SPLIT)
    assert [bool(layer.pooling) for layer in design.layers] == [True, False, True, False, False]
    program = compile_program(qnet, design)
    images = images_for(np.random.default_rng(batch), qnet, batch)
    slots = program.new_slots(batch)
    for slot, image in zip(slots, images, strict=True):
        program.tensors["t0"].stored(slot)[...] = program.pack_sample(image)
    tensors = {"t0": images}
    for index, qlayer in enumerate(qnet.layers):
        layer, word, descriptor = qlayer.layer, program.fbcb_word(index, batch), program.descriptors[index]
        streams = layer_streams(descriptor, word, design, slots, program.weights)
        assert bool(streams.commands) != bool(descriptor.merged)
        output, saturated = execute_streams_reference(streams, design)
        scatter_output(descriptor, word, design, output, slots)
        tensors[layer.output], expected = golden.run_layer_counting(qlayer, tensors[layer.input], None)
        assert saturated == expected
        got = np.stack([program.read_tensor(slot, layer.output) for slot in slots])
        if descriptor.pool_kernel:
            assert not got.any(), "the map itself is never stored"
        else:
            np.testing.assert_array_equal(got, tensors[layer.output], err_msg=layer.name)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 3), st.integers(0, 1), st.integers(0, 1), st.integers(3, 9), st.integers(8, 12), st.integers(0, 99)
)
def test_beats_that_are_left_are_those_that_are_stored(
    kernel: int, top: int, left: int, height: int, width: int, seed: int
) -> None:
    """Two ways to the same words: the order of the stream, and the map in memory."""
    rng = np.random.default_rng(seed)
    if kernel == 2:
        height, width = height + (height - 1 + top + 1) % 2, width + (width + left) % 2
    qnet = network_of(rng, (height, width, 2), [Shape(7, relu=False)])
    design = design_of(qnet, ROW_LANES if seed % 2 else None, **SIZES)
    descriptor = replace(compile_program(qnet, design).descriptors[0], pool_kernel=kernel, pool_top=top, pool_left=left)
    word = compile_program(qnet, design).fbcb_word(0, 2)
    plain = replace(descriptor, pool_kernel=0)
    streams = layer_streams(plain, word, design, np.zeros((2, 4096), np.int16), compile_program(qnet, design).weights)
    output = rng.integers(-9, 9, (streams.outputs, design.out_words)).astype(np.int16)
    slots = np.zeros((2, 8192), np.int16)
    scatter_output(descriptor, word, design, output, slots)
    beats = left_output(descriptor, word, design, output, 2)
    high, wide = descriptor.pooled_hw
    assert len(beats) == high * wide * streams.outputs // (height * width)
    maps = np.zeros((2, 8192), np.int16)
    scatter_output(plain, word, design, output, maps)
    first = descriptor.out_offset // 2
    whole = maps[:, first : first + height * width * 7].reshape(2, height, width, 7)
    pooled = pool_map(whole, descriptor)
    assert pooled.shape == (2, high, wide, 7)
    for y in range(high):
        for x in range(wide):
            rows = slice(max(0, 2 * y - top), 2 * y - top + kernel)
            columns = slice(max(0, 2 * x - left), 2 * x - left + kernel)
            np.testing.assert_array_equal(pooled[:, y, x], whole[:, rows, columns].max(axis=(1, 2)))
            at = first + (y * descriptor.out_row_bytes + x * descriptor.out_pixel_bytes) // 2
            np.testing.assert_array_equal(slots[:, at : at + 7], pooled[:, y, x])


@pytest.mark.parametrize("chain", [True, False])
def test_c_simulation_compares_the_map_and_what_is_stored(chain: bool) -> None:
    """The map that passes a pool is compared before the pool, and the pool's where it is stored."""
    qnet = quantised()
    images = images_for(np.random.default_rng(2), qnet, 2)
    report = csim_network(qnet, design_of(qnet, **SMALL), images, [2], chain=chain)
    assert [check.mismatches for check in report.checks] == [0] * 5
    assert [check.outputs for check in report.checks[:2]] == [2 * 16 * 16 * 6, 2 * 8 * 8 * 6]
    assert [check.saturations for check in report.checks] == [check.expected_saturations for check in report.checks]


def test_lanes_by_samples_are_refused() -> None:
    """Their outputs would not come in the order of the image."""
    qnet = quantised()
    with pytest.raises(DesignError, match="layer 'l0' at batch 2: b_r must be 2 where outputs pass a pool"):
        design_of(qnet, LANES, **SIZES)
    design = design_of(qnet, **SIZES)
    word = FBCB.pack({"b_r": 0})
    assert decode_for(design, word, kind=0, batch=2).b_r == 1
    with pytest.raises(FbcbError, match=r"b_r must be 2 where outputs pass a pool or a filter in the order .*, not 1"):
        decode_for(design, word, kind=0, batch=2, ordered=True)


def descriptor(**fields: Any) -> Descriptor:
    return replace(compile_program(quantised(), design_of(quantised(), **SIZES)).descriptors[0], **fields)


def test_a_descriptor_is_refused() -> None:
    assert descriptor().pool_kernel == 3
    with pytest.raises(DescriptorError, match=r"pool_kernel must be 2 or 3, or 0 .* not 1"):
        descriptor(pool_kernel=1)
    with pytest.raises(DescriptorError, match="a layer of kind 1 passes no pool, not 3"):
        descriptor(kind=1)
    with pytest.raises(DescriptorError, match="a layer that the one before it has computed must pass no pool, not 3"):
        descriptor(merged=1)


def test_a_pool_that_clips_is_not_merged() -> None:
    """`quantise` makes none; the compiler trusts no one."""
    qnet = quantised()
    clipped = replace(qnet.layers[1], hi=100)
    odd = replace(qnet, layers=(qnet.layers[0], clipped, *qnet.layers[2:]))
    with pytest.raises(
        ProgramError, match=r"pool 'l1' must keep the 0\.\..* of layer 'l0' to be merged .*-32768\.\.100"
    ):
        compile_program(odd, design_of(odd, **SIZES))


def test_a_design_without_merged_pools_still_runs_the_network() -> None:
    """Such as a design file of an earlier version."""
    qnet = quantised()
    work = qnet.network.workload
    design = design_of(qnet, **SIZES)
    older = replace(design, layers=work.unmerged.layers)
    assert older.pool_room == (0, 0)
    assert design.pool_room[1] > 0
    program = compile_program(qnet, older)
    assert not any(one.pool_kernel or one.merged for one in program.descriptors)
