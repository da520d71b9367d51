"""Depthwise layers that are merged with the layers before them: constants, streams and what is stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hls_cases import BYTES, R_BATCHING, ROW_LANES, SMALL, SPLIT, WIDE, Plan, Shape, design_of, images_for, network_of
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import Design, Mode
from fluidnpu.hls import FbcbError, Program, ProgramError, StreamError, compile_program, csim_network
from fluidnpu.hls.core import execute_streams_reference, layer_streams, left_output, scatter_output
from fluidnpu.hls.formats import FBCB, NO_WEIGHTS
from fluidnpu.hls.program import decode_layer, link
from fluidnpu.hls.program.filtering import filter_fits, layer_filter
from fluidnpu.models import QuantisedNetwork, golden
from fluidnpu.models.graph import Use
from fluidnpu.models.numeric.words import INT8, INT16, Word

PLANS = {"r": R_BATCHING, "wide": WIDE, "split": SPLIT, "rows": ROW_LANES}
PAIR = [
    Shape(11, use=Use.TABLE, relu=False),
    Shape(11, kernel=(5, 5), stride=(2, 2), padding=(2, 1, 1, 2), groups=11, use=Use.TABLE),
    Shape(4, kernel=(1, 1), relu=False),
]


def sides(rng: np.random.Generator, size: int, kernel: int) -> tuple[int, int]:
    """Padding on both sides of an axis, so that a window fits."""
    before = int(rng.integers(max(0, kernel - size - (kernel - 1)), kernel))
    return before, int(rng.integers(max(0, kernel - size - before), kernel))


def drawn(rng: np.random.Generator, size: tuple[int, int]) -> list[Shape]:
    """A layer, one with a filter behind it, and one that reads what that stores: any kernel and sides.

    Maps are of this `size`.
    """
    channels, kernel, stride = int(rng.integers(2, 14)), int(rng.integers(2, 8)), int(rng.integers(1, 3))
    (top, bottom), (left, right) = (sides(rng, one, kernel) for one in size)
    uses = (None, *Use)
    front = uses[rng.integers(0, len(uses))]
    return [
        Shape(channels, kernel=(3, 3), padding=(1, 1, 1, 1)),
        Shape(
            channels,
            residual="t1" if front is Use.PRODUCT or rng.integers(0, 2) else None,
            use=front,
            relu=bool(rng.integers(0, 2)),
        ),
        Shape(
            channels,
            kernel=(kernel, kernel),
            stride=(stride, stride),
            padding=(top, left, bottom, right),
            groups=channels,
            use=(None, Use.TABLE)[rng.integers(0, 2)],
            relu=bool(rng.integers(0, 2)),
        ),
        Shape(3, relu=False),
    ]


def merging(qnet: QuantisedNetwork, plan: Plan = None, **sizes: Any) -> Design:
    """A design that merges all pairs of a network; with words of 8 bits no trees split."""
    work, least = qnet.network.workload, SMALL
    if qnet.bits == INT8.bits:
        plan, least = WIDE if plan == SPLIT else plan, BYTES
        sizes = sizes | {"split": False, "t_c": -(-sizes.get("t_c", 8) // 4) * 4}
    design = design_of(qnet, plan, **least | {"activation": "lut"} | sizes)
    return replace(design, layers=work.filtered([pair.producer for pair in work.filters]))


def run_merged(qnet: QuantisedNetwork, design: Design, batch: int, seed: int) -> Program:
    """Hold what is stored, and all saturations, to golden's; what is merged must leave no map behind."""
    program = compile_program(qnet, design)
    images = images_for(np.random.default_rng(seed), qnet, batch)
    slots = program.new_slots(batch)
    for slot, image in zip(slots, images, strict=True):
        program.tensors["t0"].stored(slot)[...] = program.pack_sample(image)
    tensors, counted, expected = {"t0": images}, 0, 0
    for index, qlayer in enumerate(qnet.layers):
        layer, word, descriptor = qlayer.layer, program.fbcb_word(index, batch), program.descriptors[index]
        streams = layer_streams(descriptor, word, design, slots, program.weights)
        assert bool(streams.commands) != bool(descriptor.merged)
        output, saturated = execute_streams_reference(streams, design)
        counted += saturated + scatter_output(descriptor, word, design, output, slots, program.weights)
        residual = layer.added(tensors[layer.residual]) if layer.residual else None
        tensors[layer.output], more = golden.run_layer_counting(qlayer, tensors[layer.input], residual)
        expected += more
        got = np.stack([program.read_tensor(slot, layer.output) for slot in slots])
        if descriptor.filter_kernel:
            assert not got.any(), "the map itself is never stored"
        else:
            np.testing.assert_array_equal(got, tensors[layer.output], err_msg=layer.name)
    assert counted == expected
    return program


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("batch", [1, 3])
def test_what_is_stored_is_the_filter_of_the_golden_model(plan: str, batch: int) -> None:
    qnet = network_of(np.random.default_rng(3), (9, 12, 3), PAIR)
    program = run_merged(qnet, merging(qnet, PLANS[plan], split=plan == "split"), batch, batch)
    front, depthwise, _ = program.descriptors
    assert (front.filter_kernel, front.pooled_hw, front.walk_h, front.walk_w) == (5, (4, 6), 9, 14)
    assert depthwise.merged
    assert set(depthwise.weights) == {NO_WEIGHTS}
    assert depthwise.pieces == depthwise.activation == 0


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from(sorted(PLANS)),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(3, 7),
    st.sampled_from([INT16, INT8]),
)
def test_random_pairs_equal_golden(seed: int, plan: str, batch: int, out_words: int, t_c: int, word: Word) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 10)), int(rng.integers(4, 11))
    qnet = network_of(rng, (*size, 3), drawn(rng, size), word)
    assert [(pair.producer, pair.depthwise) for pair in qnet.network.filters][-1] == (1, 2)
    run_merged(qnet, merging(qnet, PLANS[plan], split=plan == "split", out_words=out_words, t_c=t_c), batch, seed)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from(sorted(PLANS)), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9))
def test_beats_that_are_left_are_those_that_are_stored(
    seed: int, plan: str, batch: int, out_words: int, block: int
) -> None:
    """Two ways to the same words: the order of the stream, and the map in memory."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 7)), int(rng.integers(4, 9))
    front, depthwise = drawn(rng, size)[1:3]
    shapes = [replace(front, use=None, residual=None), replace(depthwise, use=None)]
    qnet = network_of(rng, (*size, 3), shapes)
    design = merging(qnet, PLANS[plan], split=plan == "split", out_words=out_words)
    short = tuple(tuple(replace(one, block=min(block, design.t_r // 2)) for one in row) for row in design.plans)
    design = replace(design, plans=short)
    program = compile_program(qnet, design)
    layer, word = program.descriptors[0], program.fbcb_word(0, batch)
    slots = program.new_slots(batch)
    output = rng.integers(-99, 99, (layer_streams(layer, word, design, slots, program.weights).outputs, out_words))
    beats = left_output(layer, word, design, output.astype(np.int16), batch, program.weights)
    scatter_output(layer, word, design, output.astype(np.int16), slots, program.weights)
    stored = np.stack([program.read_tensor(slot, "t2") for slot in slots])
    width = design.tile(decode_layer(design, word, layer, batch).mode)[1]
    each = [-(-min(width, layer.columns - first) // out_words) for first in range(0, layer.columns, width)]
    assert len(beats) == batch * layer.pooled_hw[0] * layer.pooled_hw[1] * sum(each)
    if len(each) == 1:
        pixels = beats.reshape(*stored.shape[:3], -1)
        np.testing.assert_array_equal(pixels[..., : layer.columns], stored)
        assert not pixels[..., layer.columns :].any()
    words = np.sort(beats[beats != 0])
    np.testing.assert_array_equal(words, np.sort(stored[stored != 0]))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 9), st.sampled_from([32, 128, 512]), st.sampled_from([INT16, INT8]))
def test_constants_come_back_as_they_were(seed: int, out_words: int, port_bits: int, word: Word) -> None:
    """From the image of a program alone, and moved beside another."""
    rng = np.random.default_rng(seed)
    front, depthwise, last = drawn(rng, (4, 6))[1:]
    qnet = network_of(rng, (4, 6, 3), [replace(front, use=None, residual=None), depthwise, last], word)
    design = merging(qnet, ROW_LANES if seed % 2 else R_BATCHING, out_words=out_words, port_bits=port_bits)
    program = compile_program(qnet, design)
    image = link([program, program])
    for layers, weights in (
        (program.descriptors, program.weights),
        (image.descriptors[3:], image.content[image.weights_offset :]),
    ):
        mode = design.mode(0, 2)
        got, want = layer_filter(layers[0], mode, design, weights), qnet.layers[1]
        np.testing.assert_array_equal(got.weights, want.weights)
        for channels in ("bias", "multipliers", "shifts"):
            np.testing.assert_array_equal(getattr(got, channels), getattr(want, channels))
        assert (got.shift, got.lo, got.hi) == (want.shift, want.lo, want.hi)
        assert (got.unit is None) == (want.unit is None)
        if got.unit is not None and want.unit is not None:
            np.testing.assert_array_equal(got.unit.pieces, want.unit.pieces)
            names = ("window", "shift", "lo", "hi")
            assert [getattr(got.unit, name) for name in names] == [getattr(want.unit, name) for name in names]


def test_a_program_with_a_filter_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    qnet = network_of(np.random.default_rng(3), (9, 12, 3), PAIR)
    program = compile_program(qnet, merging(qnet))
    program.save(tmp_path)
    assert Program.load(tmp_path) == program


@pytest.mark.parametrize("chain", [True, False])
def test_c_simulation_compares_the_map_and_what_is_stored(chain: bool) -> None:
    """The map that passes a filter is compared before it, and the filter's where it is stored."""
    qnet = network_of(np.random.default_rng(3), (9, 12, 3), PAIR)
    images = images_for(np.random.default_rng(2), qnet, 2)
    report = csim_network(qnet, merging(qnet), images, [2], chain=chain)
    assert report.ok, report.summary()
    assert [check.outputs for check in report.checks] == [2 * 9 * 12 * 11, 2 * 4 * 6 * 11, 2 * 4 * 6 * 4]
    assert report.checks[1].saturations == report.checks[1].expected_saturations > 0


def test_lanes_by_samples_are_refused() -> None:
    """Their outputs would not come in the order of the image."""
    qnet = network_of(np.random.default_rng(3), (9, 12, 3), PAIR)
    design = merging(qnet)
    layer = compile_program(qnet, design).descriptors[0]
    with pytest.raises(FbcbError, match=r"b_r must be 2 where outputs pass a pool or a filter in the order .*, not 1"):
        decode_layer(design, FBCB.pack({"b_r": 0}), layer, 2)


def test_constants_that_are_not_in_the_image_are_missed() -> None:
    qnet = network_of(np.random.default_rng(3), (9, 12, 3), PAIR)
    design = merging(qnet)
    program = compile_program(qnet, design)
    layer = program.descriptors[0]
    assert filter_fits(layer, Mode.NORMAL, design)
    assert not filter_fits(replace(layer, filter_rows=layer.filter_rows - 7), Mode.NORMAL, design)
    end = max(at for at in program.descriptors[2].weights if at != NO_WEIGHTS)
    layer_filter(layer, Mode.NORMAL, design, program.weights[:end])
    with pytest.raises(StreamError, match=f"must end within the image of {end - 64} bytes"):
        layer_filter(layer, Mode.NORMAL, design, program.weights[: end - 64])
    with pytest.raises(StreamError, match="no weights of a filter for mode WIDE"):
        layer_filter(layer, Mode.WIDE, design, program.weights)


def test_a_design_without_the_pair_runs_both_layers() -> None:
    """A pair is a choice: a design may merge it or not, and the workload's digest is the same."""
    qnet = network_of(np.random.default_rng(3), (9, 12, 3), PAIR)
    design = merging(qnet)
    apart = replace(design, layers=qnet.network.workload.layers)
    assert design.workload_digest == apart.workload_digest == qnet.network.workload.digest
    program = compile_program(qnet, apart)
    assert not any(one.filter_kernel or one.merged for one in program.descriptors)
    run_merged(qnet, apart, 2, 1)


def test_a_filter_behind_a_zero_point_is_refused() -> None:
    """A filter has words 0 beside its maps."""
    rng = np.random.default_rng(3)
    qnet = network_of(rng, (9, 12, 3), PAIR, INT8, zeros=True)
    with pytest.raises(ProgramError, match=r"must be padded with words 0 to be a filter.*\(--lanes 0\)"):
        compile_program(qnet, merging(qnet))
