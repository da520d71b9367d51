"""The reference core against `models.golden`: every mode, odd shapes, every batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hls_cases import (
    CHAIN,
    LANES,
    R_BATCHING,
    ROW_LANES,
    SPLIT,
    WIDE,
    Plan,
    Shape,
    design_of,
    images_for,
    network_of,
    with_b_r,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import Design
from fluidnpu.hls import StreamError, compile_program
from fluidnpu.hls.core import execute_streams_reference, layer_streams, scatter_output
from fluidnpu.models import Layer, QuantisedNetwork, golden
from fluidnpu.models.numeric import Stored


def run_chain(
    qnet: QuantisedNetwork, design: Design, batch: int, rng: np.random.Generator
) -> Iterator[tuple[Layer, Stored, Stored, tuple[int, int]]]:
    """Run a network through the streams, chained through slots: layer, both outputs, both saturations."""
    program = compile_program(qnet, design)
    images = images_for(rng, qnet, batch)
    slots = program.new_slots(batch)
    for slot, image in zip(slots, images, strict=True):
        program.tensors["t0"].stored(slot)[...] = program.pack_sample(image)
    tensors = {"t0": images}
    for index, qlayer in enumerate(qnet.layers):
        layer, word = qlayer.layer, program.fbcb_word(index, batch)
        streams = layer_streams(program.descriptors[index], word, design, slots, program.weights)
        output, saturated = execute_streams_reference(streams, design)
        saturated += scatter_output(program.descriptors[index], word, design, output, slots, program.weights)
        residual = layer.added(tensors[layer.residual]) if layer.residual else None
        tensors[layer.output], expected = golden.run_layer_counting(qlayer, tensors[layer.input], residual)
        got = np.stack([program.read_tensor(slot, layer.output) for slot in slots])
        yield layer, got, tensors[layer.output], (saturated, expected)


@pytest.mark.parametrize(
    "plan", [R_BATCHING, WIDE, SPLIT, ROW_LANES, LANES], ids=["r", "wide", "split", "rows", "lanes"]
)
@pytest.mark.parametrize("batch", [1, 2, 3, 5, 8])
def test_every_mode_equals_golden(plan: Plan, batch: int) -> None:
    rng = np.random.default_rng(batch)
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    design = design_of(qnet, plan, t_r=13, t_p=4, t_c=5, b_max=8, split=plan is SPLIT, weight_slots=3, out_words=4)
    seen = 0
    for layer, got, expected, (saturated, expected_saturated) in run_chain(qnet, design, batch, rng):
        np.testing.assert_array_equal(got, expected, err_msg=layer.name)
        assert saturated == expected_saturated
        seen += saturated
    assert seen > 0


@pytest.mark.parametrize(
    ("batch", "b_r"), [(batch, b_r) for batch in range(1, 9) for b_r in range(-(-batch // 2), batch + 1)]
)
def test_every_b_r_equals_golden(batch: int, b_r: int) -> None:
    rng = np.random.default_rng(batch)
    qnet = network_of(rng, (3, 3, 2), CHAIN[:2])
    design = with_b_r(design_of(qnet, t_r=5, t_p=3, t_c=4, b_max=8), lambda b: b_r if b == batch else b)
    for layer, got, expected, _ in run_chain(qnet, design, batch, rng):
        np.testing.assert_array_equal(got, expected, err_msg=layer.name)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_layers_equal_golden(data: st.DataObject) -> None:
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    groups = draw(st.sampled_from([1, 1, 2, 3, 12]))
    join = draw(st.sampled_from([count for count in range(1, groups + 1) if groups % count == 0]))
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    shape = Shape(
        groups * draw(st.integers(1, 9 if groups < 12 else 2)),
        kernel=kernel,
        stride=draw(st.tuples(st.integers(1, 3), st.integers(1, 2))),
        padding=draw(st.tuples(*[st.integers(0, 2)] * 4)),
        groups=groups,
        residual=None,
        relu=draw(st.booleans()),
    )
    qnet = network_of(
        rng,
        (draw(st.integers(3, 6)), draw(st.integers(3, 6)), groups * draw(st.integers(1, 5 if groups < 12 else 2))),
        [shape],
    )
    plan = draw(st.sampled_from([R_BATCHING, WIDE, SPLIT, ROW_LANES, LANES]))
    t_p = draw(st.integers(2, 5)) * 2 if plan is SPLIT else draw(st.integers(3, 9))
    design = design_of(
        qnet,
        plan,
        t_r=draw(st.integers(2, 40)),
        t_p=t_p,
        t_c=draw(st.integers(2, 9)),
        b_max=8,
        split=plan is SPLIT,
        weight_slots=draw(st.integers(1, 4)),
        out_words=draw(st.integers(1, 9)),
    ).changed(joins=(join,))
    for _, got, expected, _ in run_chain(qnet, design, draw(st.integers(1, 8)), rng):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("join", [1, 4, 16, 48])
def test_a_depthwise_layer_is_the_same_however_many_groups_are_one(join: int) -> None:
    """5x5 with stride 2 on 48 channels; joined, its weights take more words and its beats are fewer."""
    rng = np.random.default_rng(5)
    shape = Shape(48, kernel=(5, 5), stride=(2, 2), padding=(1, 1, 2, 2), groups=48)
    qnet = network_of(rng, (8, 8, 48), [shape])
    design = design_of(qnet, t_r=16, t_p=8, t_c=16, b_max=2).changed(joins=(join,))
    ((_, got, expected, counted),) = run_chain(qnet, design, 2, rng)
    np.testing.assert_array_equal(got, expected)
    assert counted[0] == counted[1]
    (descriptor,) = compile_program(qnet, design).descriptors
    assert (descriptor.groups, descriptor.group_words, descriptor.columns) == (48 // join, join, join)


def test_streams_that_do_not_fit_their_commands_are_refused() -> None:
    rng = np.random.default_rng(0)
    qnet = network_of(rng, (3, 3, 2), [Shape(4)])
    design = design_of(qnet)
    program = compile_program(qnet, design)
    streams = layer_streams(
        program.descriptors[0], program.fbcb_word(0, 1), design, program.new_slots(1), program.weights
    )
    from dataclasses import replace

    with pytest.raises(StreamError, match="input stream ends after"):
        execute_streams_reference(replace(streams, input=streams.input[:-1]), design)
    with pytest.raises(StreamError, match="weight stream must have"):
        execute_streams_reference(replace(streams, weight=np.repeat(streams.weight, 2, axis=0)), design)
    with pytest.raises(StreamError, match="output stream of this layer"):
        scatter_output(
            program.descriptors[0], 0, design, np.zeros((streams.outputs + 1, 4), np.int16), program.new_slots(1)
        )
