"""Words of 8 bits (ADR 75): layouts, the C++ core, and the simulated device, against `models.golden`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hls_cases import (
    BYTES,
    CHAIN,
    LANES,
    R_BATCHING,
    ROW_LANES,
    UNITS,
    WIDE,
    Plan,
    Shape,
    design_of,
    images_for,
    network_of,
    project_of,
    random_units,
    texts,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime.quantization import QuantType, quantize_static
from test_models_int8_files import Reader, float_model

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import LayoutError, Program, ProgramError, compile_program, csim_network
from fluidnpu.hls.core import core_vectors, csim
from fluidnpu.hls.core.csim import CoreSimulator
from fluidnpu.hls.core.dialect import Dialect
from fluidnpu.hls.core.render import render_core
from fluidnpu.hls.program import headers, pack_weights, part_words, scales, unpack_weights
from fluidnpu.hls.program.layout import TileLayout, column_tiles
from fluidnpu.host import Driver, SimulatedNpu
from fluidnpu.models import LayerShape, QuantisedLayer, QuantisedNetwork, Workload, golden, quantise, read_onnx
from fluidnpu.models.numeric.words import INT8, Stored

WORKLOAD = Workload(name="any", layers=(LayerShape(name="one", r=4, p=4, c=4),))
PLANS = {"r": R_BATCHING, "wide": WIDE, "rows": ROW_LANES, "lanes": LANES}
EVERY_PLAN = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
BUGS = {  # of the parts that only this width has: (file, text, the same with the bug where SLIP is true)
    "a borrow stays in the upper field": ("multiply.h", "low < 0", "!SLIP && low < 0"),
    "the columns of a pair change places": (
        "multiply.h", "now_weight[j], now_weight[j + 1]", "now_weight[j + SLIP], now_weight[j + 1 - SLIP]"
    ),
    "the pair's other half is left out": ("multiply.h", "wide && j / 2 % 2 == 0", "!SLIP && wide && j / 2 % 2 == 0"),
    "a row takes the scales of the next command": (
        "array.h", "copy_scales(line_scale, drain_scale)", "copy_scales(line_scale, SLIP ? now_scale : drain_scale)"
    ),
    "scales stay where they are": ("array.h", "shift_scales(line_scale)", "if (!SLIP) shift_scales(line_scale)"),
    "a pool is scaled": ("post.h", "c.gemm ? line.scale[i] : scale_t(1)", "c.gemm || SLIP ? line.scale[i] : scale_t(1)"),
    "the residual is not multiplied": (
        "post.h", "extra * c.residual_multiplier", "extra * (SLIP ? ap_uint<16>(1) : c.residual_multiplier)"
    ),
}  # fmt: skip


def to_the_last_bit(layer: QuantisedLayer) -> QuantisedLayer:
    """The same layer with scales of 1 and small weights, so that its words show each unit of a sum."""
    ones = np.ones(layer.layer.channels, np.int64)
    weights = (layer.weights // 64).astype(np.int8)
    return replace(layer, weights=weights, bias=0 * ones, multipliers=ones << 16, shifts=16 * ones, lo=INT8.lowest)


def of_bytes(**sizes: Any) -> Design:
    return design_for(WORKLOAD, **{"t_p": 8, "t_c": 8, "weight_slots": 2, "word_bits": 8} | sizes)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_unpack_is_the_inverse_of_pack(data: st.DataObject) -> None:
    draw = data.draw
    mode = draw(st.sampled_from([Mode.NORMAL, Mode.WIDE, Mode.LANES]))
    design = of_bytes(
        t_p=draw(st.integers(8, 19)), t_c=4 * draw(st.integers(1, 4)), weight_slots=2 * draw(st.integers(1, 3))
    )
    p, columns = draw(st.integers(1, 40)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    weights = rng.integers(-127, 128, (p, columns)).astype(np.int8)
    channels = (
        rng.integers(-(1 << 31), 1 << 31, columns), rng.integers(0, 1 << 17, columns), rng.integers(0, 48, columns)
    )  # fmt: skip
    words = pack_weights(weights, headers(*channels), mode, design)
    assert words.dtype == np.int8
    assert words.shape == (part_words(p=p, columns=columns, groups=1, mode=mode, design=design),)
    back = unpack_weights(words, p=p, columns=columns, mode=mode, design=design)
    np.testing.assert_array_equal(back[0], weights)
    for got, want in zip(scales(back[1], design), channels, strict=True):
        np.testing.assert_array_equal(got, want)
    for _, cols in column_tiles(columns, mode, design):
        tile = TileLayout(p=p, cols=cols, mode=mode, design=design)
        assert tile.tile_beats == design.array.tile_beats(mode, cols)
        assert tile.bias_beats == design.array.bias_beats(cols)


def test_slots_of_a_pair_come_half_by_half() -> None:
    """Lower half of both columns, then upper half of both; behind an odd column a column of zeros."""
    weights = np.arange(1, 49, dtype=np.int8).reshape(16, 3)
    words = pack_weights(weights, np.zeros(3, np.int64), Mode.WIDE, of_bytes())
    slots = words.reshape(-1, 8)[-8:]  # behind the headers
    lower, upper = weights[:8].T, weights[8:].T
    np.testing.assert_array_equal(slots[:4], [lower[0], lower[1], upper[0], upper[1]])
    np.testing.assert_array_equal(slots[4:], [lower[2], np.zeros(8), upper[2], np.zeros(8)])


def test_a_header_has_its_fields_where_adr_75_says() -> None:
    channels = np.array([-2]), np.array([0x1_2345]), np.array([0x2F])
    words = pack_weights(np.zeros((1, 1), np.int8), headers(*channels), Mode.NORMAL, of_bytes())
    assert words[:8].view(np.uint8).tolist() == [0xFE, 0xFF, 0xFF, 0xFF, 0x45, 0x23, 0x01, 0x2F]


def test_layouts_refuse_what_they_cannot_hold() -> None:
    ones = np.ones(3, np.int64)
    with pytest.raises(LayoutError, match="a multiplier of 17 bits must come with each of 3 biases"):
        headers(ones, ones << 17, ones)
    with pytest.raises(LayoutError, match="a shift of 6 bits must come with each of 3 biases"):
        headers(ones, ones, ones[:2])
    with pytest.raises(LayoutError, match="a bias must fit 32 bits"):
        headers(ones << 31, ones, ones)
    with pytest.raises(LayoutError, match="weights must be int8 for this design, not int16"):
        pack_weights(np.zeros((4, 3), np.int16), ones, Mode.NORMAL, of_bytes())


@pytest.mark.parametrize("network_bits", [8, 16])
def test_a_network_and_a_design_of_unlike_widths_are_refused(network_bits: int) -> None:
    rng = np.random.default_rng(0)
    narrow, wide = network_of(rng, (4, 4, 2), [Shape(4)], INT8), network_of(rng, (4, 4, 2), [Shape(4)])
    qnet = narrow if network_bits == 8 else wide
    design = design_of(qnet) if network_bits == 8 else design_of(qnet, **BYTES)
    match = f"must be quantised to the {24 - network_bits} bits of the design's words, and 'random' has {network_bits}"
    with pytest.raises(ProgramError, match=match):
        compile_program(qnet, design)


def test_programs_keep_their_width_and_their_zeros(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    qnet = network_of(rng, (7, 6, 3), CHAIN, INT8, zeros=True)
    program = compile_program(qnet, design_of(qnet, **BYTES))
    program.save(tmp_path)
    loaded = Program.load(tmp_path)
    assert (loaded, loaded.digest) == (program, program.digest)
    assert (loaded.bits, loaded.word_bytes, loaded.dtype) == (8, 1, INT8.dtype)
    assert {layer.byte_words for layer in loaded.descriptors} == {1}
    slot = loaded.new_slots(1)[0]
    for name, zero in qnet.zeros.items():
        assert loaded.tensors[name].zero == zero
        assert (loaded.tensors[name].stored(slot) == zero).all()
    with pytest.raises(ProgramError, match="every layer and tensor must have words of 16 bits"):
        replace(program, bits=16)


@pytest.mark.parametrize(
    "sizes",
    [{}, {"t_p": 13, "t_c": 6, "weight_slots": 4, "stackable": False, "out_words": 3}],
    ids=["stackable", "plain"],
)
def test_the_core_answers_as_the_reference_core(sizes: dict[str, Any]) -> None:
    design = of_bytes(**sizes)
    with CoreSimulator(design) as core:
        for streams, output, saturations in core_vectors(design):
            got, counted = core.run(streams)
            np.testing.assert_array_equal(got, output)
            assert counted == saturations


@pytest.mark.parametrize(("board", "field"), [("zc706", 17), ("zcu104", 18)])
def test_a_project_has_the_width_everywhere(board: str, field: int) -> None:
    """Constants of the C++ by the board's DSPs, streams of bytes, and the parameter of the RTL."""
    files = texts(project_of(board, word=INT8))
    assert f"FieldBits = {field};" in files["hls/src/params.h"]
    assert f"Piece = {1 << field - 15};" in files["hls/src/params.h"]
    assert "typedef ap_int<8> word_t;" in files["hls/src/fluidnpu_core.h"]
    assert re.search(r"\.WordBits\(8\)", files["rtl/fluid_npu.v"])
    bits = 8 * design_for(WORKLOAD, t_p=8, t_c=8, weight_slots=2, word_bits=8).out_words
    assert f"[{bits - 1}:0] residual_i" in files["rtl/fluidnpu_hls_core.v"]
    assert "WordBits" not in texts(project_of(board))["rtl/fluid_npu.v"]


@EVERY_PLAN
@pytest.mark.parametrize("shapes", [CHAIN, UNITS], ids=["chain", "units"])
def test_every_mode_and_batch_equals_golden(plan: Plan, shapes: list[Shape]) -> None:
    rng = np.random.default_rng(11)
    qnet = network_of(rng, (7, 6, 3), shapes, INT8, zeros=True)
    design = design_of(qnet, plan, activation="lut", **BYTES)
    report = csim_network(qnet, design, images_for(rng, qnet, 8), [1, 2, 3, 8])
    assert report.ok, report.summary()
    assert report.saturations > 0


def run_on_device(qnet: QuantisedNetwork, design: Design, images: Stored) -> None:
    """Hold every tensor that the simulated device stores, and its saturations, to golden's."""
    program = compile_program(qnet, design)
    driver = Driver(SimulatedNpu(design), program, design)
    driver.load()
    slots = range(len(images))
    for slot, image in zip(slots, images, strict=True):
        driver.write_sample(slot, image)
    driver.activate(slots)
    driver.run_stage(0)
    tensors = {qnet.network.input: images}
    golden.run_stage(qnet, 0, tensors)
    fronts = {one.layer.output for one, layer in zip(qnet.layers, program.descriptors, strict=True) if layer.ordered}
    for name in tensors.keys() - fronts:  # a map in front of a merged pool is never stored
        got = np.stack([program.read_tensor(driver._memory[slot], name) for slot in slots])
        np.testing.assert_array_equal(got, tensors[name], err_msg=name)


def test_a_quantised_file_with_zero_points_has_the_bits_of_golden(tmp_path: Path) -> None:
    """As other tools write them: uint8 with a zero of its own for each tensor."""
    onnx.save(float_model(), tmp_path / "float.onnx")
    quantize_static(tmp_path / "float.onnx", tmp_path / "file.onnx", Reader(), activation_type=QuantType.QUInt8)
    qnet = quantise(read_onnx(tmp_path / "file.onnx"), bits=8)
    assert len(set(qnet.zeros.values())) > 4
    design = design_of(qnet, activation="lut", **BYTES)
    images = np.random.default_rng(0).random((3, 10, 10, 3))
    report = csim_network(qnet, design, images, [3])
    assert report.ok, report.summary()
    run_on_device(qnet, design, qnet.quantise_input(images))


def drawn(seed: int) -> tuple[QuantisedNetwork, Design, Stored]:
    """Twelve layers, a way to run them, and images; those of each third seed are at the ends of a word."""
    rng = np.random.default_rng(seed)
    qnet = network_of(rng, (5, 4, 3), random_units(rng, 12), INT8, zeros=bool(seed % 2))
    images = images_for(rng, qnet, int(rng.integers(1, 5)))
    if seed % 3 == 0:
        images = np.where(images < 0, INT8.lowest, INT8.highest).astype(np.int8)
    plan = list(PLANS.values())[seed % len(PLANS)]
    return qnet, design_of(qnet, plan, activation="lut", **BYTES), images


def same_on_all(seed: int) -> None:
    qnet, design, images = drawn(seed)
    report = csim_network(qnet, design, images, [len(images)])
    assert report.ok, report.summary()
    run_on_device(qnet, design, images)


@pytest.mark.parametrize("seed", range(3))
def test_drawn_layers_are_the_same_in_c_simulation_and_on_the_device(seed: int) -> None:
    same_on_all(seed)


@pytest.mark.long
def test_three_hundred_drawn_layers_are_the_same_in_c_simulation_and_on_the_device() -> None:
    for seed in range(100, 125):
        same_on_all(seed)


@pytest.mark.parametrize("bug", [None, *BUGS])
def test_seeded_bugs_are_found(
    bug: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def broken(design: Design, ultra_banks: int, dialect: Dialect) -> dict[str, str]:
        texts = render_core(design, ultra_banks, dialect)
        for number, (name, right, wrong) in enumerate(BUGS.values(), 1):
            assert texts[name].count(right) == 1, right
            texts[name] = texts[name].replace(right, wrong.replace("SLIP", f"(Slip == {number})"))
        choice = '#include <cstdlib>\nstatic const int Slip = std::atoi(std::getenv("FLUIDNPU_SLIP"));\n'
        return {**texts, "params.h": texts["params.h"] + choice}

    rng = np.random.default_rng(11)
    qnet = network_of(rng, (7, 6, 3), CHAIN, INT8)
    qnet = replace(qnet, layers=(to_the_last_bit(qnet.layers[0]), *qnet.layers[1:]))
    monkeypatch.setattr(csim, "render_core", broken)
    monkeypatch.setattr(csim, "FLAGS", tuple(flag for flag in csim.FLAGS if flag != "-O1"))  # compiles faster
    monkeypatch.setenv("FLUIDNPU_SLIP", str(1 + list(BUGS).index(bug) if bug else 0))
    design = design_of(qnet, WIDE, **BYTES | {"out_words": 2})
    cache = tmp_path_factory.getbasetemp() / "slips_of_bytes"
    assert csim_network(qnet, design, images_for(rng, qnet, 2) // 16, [2], cache=cache).ok == (bug is None)
