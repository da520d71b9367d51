"""The activation unit of programs: its pieces in the image, its residuals, and what is stored behind it."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hls_cases import (
    LANES,
    R_BATCHING,
    ROW_LANES,
    SMALL,
    SPLIT,
    UNITS,
    WIDE,
    Shape,
    design_of,
    images_for,
    network_of,
    random_units,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from test_hls_reference_core import run_chain

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.hardware.activation import USES
from fluidnpu.hls import DescriptorError, Program, ProgramError, StreamError, compile_program, csim_network
from fluidnpu.hls.core import execute_streams_reference, layer_streams, scatter_output
from fluidnpu.hls.formats import MAGIC, NO_WEIGHTS, ActivationCode
from fluidnpu.hls.program import Descriptor, link, pieces_at
from fluidnpu.hls.program.pieces import layer_unit
from fluidnpu.models import Kind, QuantisedNetwork
from fluidnpu.models.graph import Use
from fluidnpu.models.numeric import Unit

UNIT = {**SMALL, "activation": "lut"}
PLANS = {"r": R_BATCHING, "wide": WIDE, "split": SPLIT, "rows": ROW_LANES, "lanes": LANES}


@pytest.fixture(scope="module")
def units() -> QuantisedNetwork:
    return network_of(np.random.default_rng(4), (7, 6, 3), UNITS)


def equal(qnet: QuantisedNetwork, design: Design, batch: int, seed: int) -> int:
    """Hold a chain of layers to golden, words and saturations; return how many saturated."""
    seen = 0
    for layer, got, expected, (saturated, wanted) in run_chain(qnet, design, batch, np.random.default_rng(seed)):
        np.testing.assert_array_equal(got, expected, err_msg=layer.name)
        assert saturated == wanted, layer.name
        seen += saturated
    return seen


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_every_use_in_every_mode_equals_golden(units: QuantisedNetwork, plan: str, batch: int) -> None:
    assert equal(units, design_of(units, PLANS[plan], split=plan == "split", **UNIT), batch, batch) > 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from(sorted(PLANS)), st.integers(1, 8), st.integers(1, 9), st.integers(3, 7))
def test_random_networks_with_units_equal_golden(seed: int, plan: str, batch: int, out_words: int, t_c: int) -> None:
    rng = np.random.default_rng(seed)
    qnet = network_of(rng, (int(rng.integers(3, 7)), int(rng.integers(3, 7)), 3), random_units(rng, 5))
    sizes = UNIT | {"out_words": out_words, "t_c": t_c}
    equal(qnet, design_of(qnet, PLANS[plan], split=plan == "split", **sizes), batch, seed)


def test_groups_that_are_joined_keep_their_slopes(units: QuantisedNetwork) -> None:
    joins = [3 if shape.groups % 3 == 0 else 1 for shape in UNITS]
    design = design_of(units, WIDE, **UNIT).changed(joins=tuple(joins))
    assert equal(units, design, 3, 1) > 0


def test_c_simulation_of_the_core_and_the_unit_behind_it(units: QuantisedNetwork) -> None:
    design = design_of(units, LANES, **UNIT)
    report = csim_network(units, design, images_for(np.random.default_rng(2), units, 3), [1, 3])
    assert report.ok, report.summary()
    assert report.saturations > 0


def test_a_wrong_piece_is_found_in_c_simulation(units: QuantisedNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(layer: Descriptor, mode: Mode, design: Design, weights: bytes) -> Unit:
        unit = layer_unit(layer, mode, design, weights)
        return replace(unit, shift=unit.shift - 1) if unit.use is Use.PRODUCT else unit

    monkeypatch.setattr("fluidnpu.hls.core.streams.layer_unit", wrong)
    design = design_of(units, R_BATCHING, **UNIT)
    report = csim_network(units, design, images_for(np.random.default_rng(2), units, 1), [1])
    assert not report.ok
    assert "'l1' at batch 1" in report.summary()


def test_a_unit_stands_in_front_of_a_pool() -> None:
    shapes = [
        Shape(6, kernel=(3, 3), padding=(1, 1, 1, 1), use=Use.TABLE, relu=False),
        Shape(6, kind=Kind.MAX_POOL, kernel=(2, 2), stride=(2, 2), relu=False),
        Shape(3, use=Use.AFFINE),
    ]
    qnet = network_of(np.random.default_rng(3), (16, 16, 3), shapes)
    design = design_of(qnet, ROW_LANES, **UNIT)
    assert [layer.merged for layer in design.layers] == [False, True, False]
    report = csim_network(qnet, design, images_for(np.random.default_rng(2), qnet, 2), [2])
    assert report.ok, report.summary()


def test_a_pool_that_pads_takes_no_word_below_zero_from_a_unit() -> None:
    """It pads with zeros, and what lies beside the map is in no window of a pool behind a layer."""
    shapes = [
        Shape(6, kernel=(3, 3), padding=(1, 1, 1, 1), use=Use.TABLE, relu=False),
        Shape(6, kind=Kind.MAX_POOL, kernel=(3, 3), stride=(2, 2), padding=(1, 1, 0, 0), relu=False),
        Shape(3),
    ]
    qnet = network_of(np.random.default_rng(3), (16, 16, 3), shapes)
    design = design_of(qnet, ROW_LANES, **UNIT)
    assert design.layers[1].merged
    with pytest.raises(ProgramError, match="pool 'l1' pads with zeros, so layer 'l0' must store no word below zero"):
        compile_program(qnet, design)
    unit = qnet.layers[0].unit
    assert unit is not None
    above = replace(qnet.layers[0], unit=replace(unit, lo=0, hi=32767))
    clipped = replace(qnet, layers=(above, *qnet.layers[1:]))
    report = csim_network(clipped, design, images_for(np.random.default_rng(2), qnet, 2), [2])
    assert report.ok, report.summary()


# -- what lies in the image ---------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS)
def test_the_image_gives_back_every_unit(units: QuantisedNetwork, plan: str) -> None:
    """Of each layer in each mode that it runs in, on a boundary and in no other part."""
    design = design_of(units, PLANS[plan], split=plan == "split", **UNIT)
    program, spans = compile_program(units, design), list[tuple[int, int]]()
    for index, (qlayer, layer) in enumerate(zip(units.layers, program.descriptors, strict=True)):
        assert qlayer.unit is not None
        for mode in {design.mode(index, batch) for batch in range(1, design.b_max + 1)}:
            got, want = layer_unit(layer, mode, design, program.weights), qlayer.unit
            assert (got.use, got.window, got.shift, got.lo, got.hi) == (
                want.use, want.window, want.shift, want.lo, want.hi,
            )  # fmt: skip
            np.testing.assert_array_equal(got.pieces, want.pieces)
            if layer.pieces:
                start = pieces_at(layer, mode, design)
                assert start % 64 == 0
                spans.append((start, start + 4 * layer.pieces))
            elif layer.kind:
                assert layer.weights == (NO_WEIGHTS,) * 4
    starts = [at for layer in program.descriptors for at in layer.weights if at != NO_WEIGHTS]
    assert len(spans) > len(UNITS) / 2
    for first, end in spans:
        assert all(not first < start < end for start in starts)
        assert end <= len(program.weights)


def test_programs_side_by_side_find_their_pieces(units: QuantisedNetwork) -> None:
    design = design_of(units, LANES, **UNIT)
    program = compile_program(units, design)
    image = link([program, program])
    weights = image.content[image.weights_offset :]
    for index, moved in enumerate(image.descriptors):
        layer, number = program.descriptors[index % len(UNITS)], index % len(UNITS)
        for mode in {design.mode(number, batch) for batch in range(1, design.b_max + 1)}:
            mine = layer_unit(layer, mode, design, program.weights)
            np.testing.assert_array_equal(layer_unit(moved, mode, design, weights).pieces, mine.pieces)


def test_a_program_with_units_is_loaded_as_it_was_saved(units: QuantisedNetwork, tmp_path: Path) -> None:
    program = compile_program(units, design_of(units, **UNIT))
    program.save(tmp_path)
    assert Program.load(tmp_path) == program


@pytest.mark.parametrize("layout", [2, 3])
def test_a_file_of_an_earlier_layout_is_packed_anew(tmp_path: Path, layout: int) -> None:
    """Its descriptors have zeros where those of today have the activation unit, or the filter."""
    qnet = network_of(np.random.default_rng(4), (4, 4, 2), [Shape(4)])
    program = compile_program(qnet, design_of(qnet, **SMALL))
    program.save(tmp_path)
    image = bytearray((tmp_path / "program.bin").read_bytes())
    image[:2] = layout.to_bytes(2, "little")
    image[124:128] = zlib.crc32(image[:124]).to_bytes(4, "little")
    (tmp_path / "program.bin").write_bytes(image)
    body = json.loads((tmp_path / "program.json").read_text()) | {"image_sha256": sha256(image).hexdigest()}
    del body["digest"]
    digest = sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    (tmp_path / "program.json").write_text(json.dumps({**body, "digest": digest}))
    loaded = Program.load(tmp_path)
    assert loaded == program
    assert loaded.image()[:4] == MAGIC.to_bytes(4, "little")
    with pytest.raises(DescriptorError, match=f"must begin with {MAGIC:#x}, not 0xf1d0000{layout}"):
        Descriptor.unpack(bytes(image[:128]))


# -- what is refused ----------------------------------------------------------------------------------------


def test_the_search_and_the_formats_have_the_same_codes() -> None:
    assert [code.name.lower() for code in ActivationCode] == ["none", *USES[1:]]
    assert {use.name for use in Use} | {"NONE"} == {code.name for code in ActivationCode}


def test_a_design_without_a_unit_is_refused(units: QuantisedNetwork) -> None:
    with pytest.raises(
        ProgramError, match="must have an activation unit for 12 layers of 'random', the first of them 'l0'"
    ):
        compile_program(units, design_of(units, **SMALL))
    spread = network_of(np.random.default_rng(4), (4, 4, 2), [Shape(4), Shape(4, residual="t1", residual_spread=True)])
    with pytest.raises(ProgramError, match="must have an activation unit for 1 layers of 'random'"):
        compile_program(spread, design_of(spread, **SMALL))
    fixed = network_of(np.random.default_rng(4), (4, 4, 2), [Shape(4), Shape(4, residual="t1", residual_step=(0, 0))])
    equal(fixed, design_of(fixed, **SMALL), 2, 1)


def test_more_pieces_than_a_lane_holds_are_refused() -> None:
    qnet = network_of(np.random.default_rng(4), (2, 2, 300), [Shape(300, groups=300, use=Use.SLOPE)])
    with pytest.raises(ProgramError, match=r"channels of layer 'l0' need 300 pieces of a lane .*, which holds 256"):
        compile_program(qnet, design_of(qnet, **UNIT))


def test_pieces_that_are_not_in_the_image_are_missed(units: QuantisedNetwork) -> None:
    design = design_of(units, **UNIT)
    program = compile_program(units, design)
    layer, word, slots = program.descriptors[0], program.fbcb_word(0, 1), program.new_slots(1)
    streams = layer_streams(layer, word, design, slots, program.weights)
    output, _ = execute_streams_reference(streams, design)
    end = pieces_at(layer, Mode.NORMAL, design) + 4 * layer.pieces
    with pytest.raises(StreamError, match=f"pieces of this layer must end within the image of {end - 1} bytes"):
        scatter_output(layer, word, design, output, slots, program.weights[: end - 1])
    lone = replace(layer, weights=(NO_WEIGHTS,) * 4)
    with pytest.raises(StreamError, match="stores no pieces for mode NORMAL"):
        scatter_output(lone, word, design, output, slots, program.weights)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"activation": 5}, r"activation must lie in 0\.\.4, not 5"),
        ({"activation_window": 7}, "a table must have an activation_window of 8..15 and 258 pieces, not 7 and 258"),
        ({"pieces": 257}, "258 pieces, not 8 and 257"),
        ({"activation": 0}, "pieces must be there for tables and channels alone, not 258 for code 0"),
        ({"activation": 3, "pieces": 0}, "for tables and channels alone, not 0 for code 3"),
        ({"activation": 2, "pieces": 0}, "a product must have a residual"),
        ({"residual_spread": 1}, "a residual must be there to be spread"),
        ({"activation_lo": 3, "activation_hi": 2}, r"must be ordered int16, not 3\.\.2"),
        ({"kind": 1, "merged": 1}, "a layer that the one before it has computed must have no activation, not 1"),
    ],
)
def test_a_descriptor_that_contradicts_itself_is_refused(
    units: QuantisedNetwork, change: dict[str, int], match: str
) -> None:
    layer = replace(compile_program(units, design_of(units, **UNIT)).descriptors[0], activation_window=8)
    assert Descriptor.unpack(layer.pack()) == layer
    with pytest.raises(DescriptorError, match=match):
        replace(layer, **change)  # type: ignore[arg-type]
