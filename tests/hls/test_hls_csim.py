"""The generated C++, compiled with g++, against `models.golden`: every mode, every batch, odd shapes, and seeded bugs that must show."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hls_cases import (
    LANES,
    R_BATCHING,
    ROW_LANES,
    SMALL,
    SPLIT,
    WIDE,
    Shape,
    design_of,
    images_for,
    network_of,
    with_b_r,
)
from test_hls_streams import CHAIN

import fluidnpu.hls.core.csim as csim
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import CsimError, ProgramError, compile_program, csim_network
from fluidnpu.hls.core import CoreSimulator, layer_streams
from fluidnpu.hls.core.render import render_core
from fluidnpu.models import Kind, quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.models.zoo import random_network

PLANS = pytest.mark.parametrize("plan", [R_BATCHING, WIDE, ROW_LANES, LANES], ids=["r", "wide", "rows", "lanes"])


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(11)


def assert_equal(report):
    assert report.ok, report.summary()
    assert report.mismatches == 0


@PLANS
@pytest.mark.parametrize("split", [False, True], ids=["", "trees-split"])
def test_every_mode_and_batch_equals_golden(plan, split, rng):
    """All plans share two compiled cores: the mode is in the command, not in the hardware."""
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    report = csim_network(qnet, design_of(qnet, plan, split=split, **SMALL), images_for(rng, qnet, 8))
    assert_equal(report)
    assert report.batches == (1, 2, 3, 4, 5, 6, 7, 8)
    assert report.saturations > 0


def test_half_k_equals_golden(rng):
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    report = csim_network(qnet, design_of(qnet, SPLIT, split=True, **SMALL), images_for(rng, qnet, 8))
    assert_equal(report)


def test_every_b_r_equals_golden(rng):
    qnet = network_of(rng, (3, 4, 3), CHAIN[:2])
    images = images_for(rng, qnet, 8)
    for batch in range(2, 9):
        for b_r in range(-(-batch // 2), batch + 1):
            design = with_b_r(design_of(qnet, **SMALL), lambda b, at=batch, b_r=b_r: b_r if b == at else b)
            assert_equal(csim_network(qnet, design, images, [batch]))


@pytest.mark.parametrize("split", [False, True], ids=["", "trees-split"])
@pytest.mark.parametrize("ultra_banks", [3, 9, 99], ids=["some", "more", "all"])
def test_accumulators_in_ultraram_equal_golden(ultra_banks, split, rng):
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    for plan in (LANES, WIDE, SPLIT) if split else (LANES, WIDE):
        design = design_of(qnet, plan, split=split, **SMALL)
        assert_equal(csim_network(qnet, design, images_for(rng, qnet, 3), [1, 3], ultra_banks=ultra_banks))


def test_pools_as_wide_as_a_port_equal_golden(rng):
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    design = design_of(qnet, LANES, **SMALL).changed(port_bits=512)
    assert design.input_words > 2 * design.t_p
    assert_equal(csim_network(qnet, design, images_for(rng, qnet, 3), [1, 3]))


SHAPES = [
    pytest.param((5, 4, 3), [Shape(7, kernel=(3, 1), padding=(1, 0, 1, 0), relu=False)], id="odd"),
    pytest.param((6, 6, 6), [Shape(6, kernel=(3, 3), padding=(1, 1, 1, 1), groups=6)], id="depthwise"),
    pytest.param((5, 5, 4), [Shape(9, kernel=(5, 5), relu=False)], id="fully-connected"),
    pytest.param((9, 3, 10), [Shape(10, kind=Kind.MAX_POOL, kernel=(3, 3), stride=(3, 3))], id="max-pool-wider-than-t_p"),
    pytest.param((4, 4, 11), [Shape(11, kind=Kind.SUM_POOL, kernel=(4, 4), relu=False)], id="global-pool"),
    pytest.param((2, 2, 1), [Shape(1, relu=False)], id="one-by-one"),
]  # fmt: skip


@PLANS
@pytest.mark.parametrize(("image", "shapes"), SHAPES)
def test_odd_shapes_equal_golden(image, shapes, plan, rng):
    qnet = network_of(rng, image, shapes)
    assert_equal(csim_network(qnet, design_of(qnet, plan, **SMALL), images_for(rng, qnet, 3), [1, 3]))


@pytest.mark.parametrize(
    "sizes",
    [
        {"t_r": 2, "t_p": 3, "t_c": 2, "weight_slots": 1, "out_words": 1},
        {"t_r": 40, "t_p": 9, "t_c": 3, "weight_slots": 2, "out_words": 7, "stackable": False},
    ],
    ids=["least", "plain"],
)
def test_other_sizes_equal_golden(sizes, rng):
    """The smallest core that can be built (more pool channels than PEs), and one without stackable PEs."""
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    assert_equal(csim_network(qnet, design_of(qnet, b_max=3, **sizes), images_for(rng, qnet, 3)))


def test_narrow_accumulators_equal_golden(rng):
    qnet = network_of(rng, (4, 4, 2), [Shape(5)])
    weights = qnet.layers[0].weights // 64
    layer = replace(qnet.layers[0], weights=weights.astype(np.int16), bias=qnet.layers[0].bias // 1024)
    small = replace(qnet, layers=(layer,))
    design = replace(design_of(small, **SMALL), acc_bits=32)
    assert layer.accumulator_bits <= 32 < qnet.layers[0].accumulator_bits
    assert_equal(csim_network(small, design, images_for(rng, small, 2), [2]))
    with pytest.raises(ProgramError, match="needs accumulators of"):
        compile_program(qnet, design)


def test_unchained_layers_read_golden_values(rng):
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    done = []
    report = csim_network(
        qnet,
        design_of(qnet, **SMALL),
        images_for(rng, qnet, 2),
        [2],
        chain=False,
        progress=lambda now, of: done.append((now, of)),
    )
    assert_equal(report)
    assert done == [(i, 7) for i in range(1, 8)]


# One slip for each thing a core can get wrong; each must be caught and located. (file, what it says, what it says with the slip)
BUGS = {
    "ties round up": ("post.h", "rest == half && floor[0]", "rest == half"),
    "bias forgotten": ("multiply.h", "stacked ? now_bias[j / 2] : now_bias[j]", "acc_t(0)"),
    "pair adder missing": ("multiply.h", "wide && j % 2 == 0", "false"),
    "lane 1 takes lane 0": ("multiply.h", "stacked && j % 2 == 1", "false"),
    "hi ignored": ("post.h", "rounded > value_t(c.hi)", "rounded > value_t(32767)"),
    "residual unshifted": ("post.h", "c.residual_shift", "ap_uint<5>(0)"),
    "saturations uncounted": ("post.h", "rounded < -32768 || rounded > 32767", "false"),
    "minimum taken": ("pool.h", "acc_t(word) > best[i]", "acc_t(word) < best[i]"),
}


@pytest.fixture(scope="module")
def slips(tmp_path_factory):
    """The generator with every slip in one text, chosen by an environment variable: so the core compiles once."""

    def broken(design, ultra_banks):
        texts = render_core(design, ultra_banks)
        for number, (name, right, wrong) in enumerate(BUGS.values(), 1):
            assert texts[name].count(right) == 1, right
            texts[name] = texts[name].replace(right, f"(Slip == {number} ? ({wrong}) : ({right}))")
        choice = '#include <cstdlib>\nstatic const int Slip = std::atoi(std::getenv("FLUIDNPU_SLIP"));\n'
        return {**texts, "params.h": texts["params.h"] + choice}

    return broken, tmp_path_factory.mktemp("slips")


@pytest.mark.parametrize("bug", [None, *BUGS])
def test_seeded_bugs_are_found(bug, monkeypatch, slips):
    rng = np.random.default_rng(11)  # its own: what shows a bug must not depend on the tests before
    halves = [Shape(3, kind=Kind.SUM_POOL, kernel=(2, 1), relu=False)]
    qnet = network_of(rng, (7, 6, 3), halves if bug == "ties round up" else CHAIN)
    design = design_of(qnet, WIDE if bug == "pair adder missing" else LANES, **SMALL)
    monkeypatch.setattr(csim, "render_core", slips[0])
    monkeypatch.setattr(csim, "FLAGS", tuple(flag for flag in csim.FLAGS if flag != "-O2"))  # compiles faster
    monkeypatch.setenv("FLUIDNPU_SLIP", str(1 + list(BUGS).index(bug) if bug else 0))
    report = csim_network(qnet, design, images_for(rng, qnet, 2), [2], cache=slips[1])
    assert report.ok == (bug is None)
    if bug:
        bad = next(check for check in report.checks if not check.ok)
        assert (bad.first is None) == (bug == "saturations uncounted")
        assert bad.layer in report.summary()


# The accumulators' DEPENDENCE pragma is a promise that C simulation cannot see broken unless it counts calls.
HAZARDS = {
    "sums": ("command.h", "c.beats < RowDistance ? RowDistance : int(c.beats)", "int(c.beats)"),
    "ready": ("array.h", "written_rows[RowDistance - 2]", "written_rows[RowDistance - 3]"),
}


@pytest.mark.parametrize("hazard", HAZARDS)
def test_a_row_read_before_it_is_written_is_found(hazard, rng, monkeypatch, tmp_path):
    file, right, wrong = HAZARDS[hazard]

    def broken(design, ultra_banks):
        texts = render_core(design, ultra_banks)
        assert texts[file].count(right) == 1
        return {**texts, file: texts[file].replace(right, wrong)}

    monkeypatch.setattr(csim, "render_core", broken)
    monkeypatch.setattr(csim, "FLAGS", tuple(flag for flag in csim.FLAGS if flag != "-O2"))
    qnet = network_of(rng, (3, 3, 20), [Shape(4)])
    with pytest.raises(
        CsimError, match=rf"row \d+ of '{hazard}' was read \d+ calls after it was written, and \d+ is the least"
    ):
        csim_network(qnet, design_of(qnet, **SMALL), images_for(rng, qnet, 1), [1], cache=tmp_path)


def test_a_starved_core_names_the_stream(rng):
    qnet = network_of(rng, (3, 3, 2), [Shape(4)])
    design = design_of(qnet, **SMALL)
    program = compile_program(qnet, design)
    streams = layer_streams(
        program.descriptors[0], program.fbcb_word(0, 1), design, program.new_slots(1), program.weights
    )
    starved = "0 of 1 commands were done, and no more came out; empty: input"
    with CoreSimulator(design) as core, pytest.raises(CsimError, match=starved):
        core.run(replace(streams, input=streams.input[:-1]))
    with CoreSimulator(design) as core, pytest.raises(CsimError, match="left 1 input beats unread"):
        core.run(replace(streams, input=np.concatenate([streams.input, streams.input[:1]])))


def test_what_is_missing_is_named(monkeypatch, tmp_path):
    qnet = network_of(np.random.default_rng(0), (3, 3, 2), [Shape(4)])
    design = design_of(qnet, **SMALL)
    with pytest.raises(CsimError, match="needs the C\\+\\+ compiler 'no-such-compiler'"):
        csim.compile_core(design, tmp_path, compiler="no-such-compiler")
    monkeypatch.setattr(csim.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CsimError, match="pip install --no-deps hls4ml"):
        csim.compile_core(design, tmp_path)


def test_batches_out_of_range_are_refused(rng):
    qnet = network_of(rng, (3, 3, 2), [Shape(4)])
    with pytest.raises(ProgramError, match=r"batch sizes must lie in 1\.\.2 for 2 images"):
        csim_network(qnet, design_of(qnet, **SMALL), images_for(rng, qnet, 2), [3])


def test_our_own_stream_header_is_used(tmp_path):
    """hls4ml's folder has a header of the same name under another licence; it must never be read. Nor may hls4ml be imported."""
    import sys

    design = design_for(network_of(np.random.default_rng(0), (3, 3, 2), [Shape(4)]).network.workload)
    for name, text in render_core(design).items():
        (tmp_path / name).write_text(text)
    from importlib.resources import files

    includes = ["-I", str(files("fluidnpu.hls").joinpath("csim")), "-isystem", str(csim.ap_headers())]
    done = subprocess.run(
        ["g++", "-M", *csim.FLAGS, *includes, "fluidnpu_core.cpp"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    read = [word for word in done.stdout.split() if word.endswith("hls_stream.h")]
    assert len(read) == 1
    assert "csim" in read[0]
    assert "hls4ml" not in sys.modules


def test_the_words_that_are_synthesised_equal_the_fast_ones(rng, monkeypatch, tmp_path):
    """Without FLUIDNPU_CSIM, as Vivado HLS compiles it."""
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    monkeypatch.setattr(csim, "FLAGS", tuple(flag for flag in csim.FLAGS if flag not in ("-DFLUIDNPU_CSIM", "-O2")))
    report = csim_network(qnet, design_of(qnet, LANES, **SMALL), images_for(rng, qnet, 3), [3], cache=tmp_path)
    assert_equal(report)


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_equal_golden(seed):
    """Several exits, concatenations, residuals and pools, chained through slot memory; every network on the same compiled core."""
    qnet = quantise(random_network(seed))
    plan = [R_BATCHING, WIDE, ROW_LANES, LANES, SPLIT][seed % 5]
    images = np.random.default_rng(seed).integers(0, 256, (3, *qnet.network.tensors["image"])).astype(np.uint8)
    design = design_of(qnet, plan, split=True, **{**SMALL, "b_max": 3})
    report = csim_network(qnet, design, images)
    assert_equal(report)
    assert report.layers == len(qnet.layers)


def shipped_network():
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        return quantise(read_onnx(path))


def test_the_shipped_network_equals_golden():
    """The whole ResNet-8 on real images: R-batching, and k = 2 at batch 1. Every batch size and mode: the long test."""
    qnet, images = shipped_network(), shipped_images(3).images
    options = {"b_max": 8, "t_r": 1024, "t_p": 9, "t_c": 32, "weight_slots": 4, "out_words": 8}
    report = csim_network(qnet, design_of(qnet, LANES, **options), images, [3])
    assert_equal(report)
    assert report.layers == len(qnet.layers)
    assert_equal(csim_network(qnet, design_of(qnet, WIDE, **options), images, [1]))


@pytest.mark.long
@pytest.mark.parametrize(
    "plan", [R_BATCHING, WIDE, SPLIT, ROW_LANES, LANES], ids=["r", "wide", "split", "rows", "lanes"]
)
def test_the_shipped_network_equals_golden_at_every_batch(plan):
    qnet, images = shipped_network(), shipped_images(8).images
    options = {"b_max": 8, "t_r": 2048, "t_p": 8, "t_c": 112, "weight_slots": 4, "out_words": 8}
    report = csim_network(qnet, design_of(qnet, plan, split=True, **options), images)
    assert_equal(report)
    assert report.batches == tuple(range(1, 9))
