"""The generated C++, compiled with g++, against `models.golden`: every mode, every batch, odd shapes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hls_cases import (
    CHAIN,
    LANES,
    R_BATCHING,
    ROW_LANES,
    SHIPPED,
    SMALL,
    SPLIT,
    WIDE,
    Plan,
    Shape,
    design_of,
    images_for,
    network_of,
    with_b_r,
)

from fluidnpu.hls import CsimReport, ProgramError, compile_program, csim_network
from fluidnpu.models import Kind, QuantisedNetwork, quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.models.zoo import random_network
from fluidnpu.models.zoo.patchwork import random_patchwork

PLANS = pytest.mark.parametrize("plan", [R_BATCHING, WIDE, ROW_LANES, LANES], ids=["r", "wide", "rows", "lanes"])


def assert_equal(report: CsimReport) -> None:
    assert report.ok, report.summary()
    assert report.mismatches == 0


@PLANS
@pytest.mark.parametrize("split", [False, True], ids=["", "trees-split"])
def test_every_mode_and_batch_equals_golden(plan: Plan, split: bool, rng: np.random.Generator) -> None:
    """All plans share two compiled cores: the mode is in the command, not in the hardware."""
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    report = csim_network(qnet, design_of(qnet, plan, split=split, **SMALL), images_for(rng, qnet, 8))
    assert_equal(report)
    assert report.batches == (1, 2, 3, 4, 5, 6, 7, 8)
    assert report.saturations > 0


def test_half_k_equals_golden(rng: np.random.Generator) -> None:
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    report = csim_network(qnet, design_of(qnet, SPLIT, split=True, **SMALL), images_for(rng, qnet, 8))
    assert_equal(report)


def test_every_b_r_equals_golden(rng: np.random.Generator) -> None:
    qnet = network_of(rng, (3, 4, 3), CHAIN[:2])
    images = images_for(rng, qnet, 8)
    for batch in range(2, 9):
        for b_r in range(-(-batch // 2), batch + 1):
            design = with_b_r(design_of(qnet, **SMALL), {**{b: b for b in range(1, 9)}, batch: b_r}.__getitem__)
            assert_equal(csim_network(qnet, design, images, [batch]))


ULTRA = [  # each is a core of its own: (UltraRAM banks, with split trees, in the default tests)
    pytest.param(banks, split, id=f"{name}-{'trees-split' if split else ''}", marks=() if default else pytest.mark.long)
    for name, banks, split, default in (
        ("some", 3, False, True), ("some", 3, True, False),
        ("more", 9, False, False), ("more", 9, True, True),
        ("all", 99, False, False), ("all", 99, True, False),
    )
]  # fmt: skip


@pytest.mark.parametrize(("ultra_banks", "split"), ULTRA)
def test_accumulators_in_ultraram_equal_golden(ultra_banks: int, split: bool, rng: np.random.Generator) -> None:
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    for plan in (LANES, WIDE, SPLIT) if split else (LANES, WIDE):
        design = design_of(qnet, plan, split=split, **SMALL)
        assert_equal(csim_network(qnet, design, images_for(rng, qnet, 3), [1, 3], ultra_banks=ultra_banks))


def test_pools_as_wide_as_a_port_equal_golden(rng: np.random.Generator) -> None:
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
def test_odd_shapes_equal_golden(
    image: tuple[int, int, int], shapes: list[Shape], plan: Plan, rng: np.random.Generator
) -> None:
    qnet = network_of(rng, image, shapes)
    assert_equal(csim_network(qnet, design_of(qnet, plan, **SMALL), images_for(rng, qnet, 3), [1, 3]))


@pytest.mark.parametrize(
    "sizes",
    [
        {"t_r": 2, "t_p": 3, "t_c": 2, "weight_slots": 1, "out_words": 1},
        {"t_r": 40, "t_p": 9, "t_c": 3, "weight_slots": 2, "out_words": 7, "stackable": False},
        {"t_r": 9, "t_p": 4, "t_c": 3, "weight_slots": 1, "out_words": 2, "stackable": False, "split": True},
    ],
    ids=["least", "plain", "plain-trees-split"],
)
def test_other_sizes_equal_golden(sizes: dict[str, Any], rng: np.random.Generator) -> None:
    """The smallest core that can be built (more pool channels than PEs), and cores without stackable PEs."""
    qnet = network_of(rng, (7, 6, 3), CHAIN)
    assert_equal(csim_network(qnet, design_of(qnet, b_max=3, **sizes), images_for(rng, qnet, 3)))


def test_narrow_accumulators_equal_golden(rng: np.random.Generator) -> None:
    qnet = network_of(rng, (4, 4, 2), [Shape(5)])
    weights = qnet.layers[0].weights // 64
    layer = replace(qnet.layers[0], weights=weights.astype(np.int16), bias=qnet.layers[0].bias // 1024)
    small = replace(qnet, layers=(layer,))
    design = replace(design_of(small, **SMALL), acc_bits=32)
    assert layer.accumulator_bits <= 32 < qnet.layers[0].accumulator_bits
    assert_equal(csim_network(small, design, images_for(rng, small, 2), [2]))
    with pytest.raises(ProgramError, match="needs accumulators of"):
        compile_program(qnet, design)


def test_unchained_layers_read_golden_values(rng: np.random.Generator) -> None:
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


def test_batches_out_of_range_are_refused(rng: np.random.Generator) -> None:
    qnet = network_of(rng, (3, 3, 2), [Shape(4)])
    with pytest.raises(ProgramError, match=r"batch sizes must lie in 1\.\.2 for 2 images"):
        csim_network(qnet, design_of(qnet, **SMALL), images_for(rng, qnet, 2), [3])


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_equal_golden(seed: int) -> None:
    """Several exits, concatenations, residuals and pools, chained through slots, on one compiled core."""
    qnet = quantise(random_network(seed))
    plan = [R_BATCHING, WIDE, ROW_LANES, LANES, SPLIT][seed % 5]
    images = np.random.default_rng(seed).integers(0, 256, (3, *qnet.network.tensors["image"])).astype(np.uint8)
    design = design_of(qnet, plan, split=True, **{**SMALL, "b_max": 3})
    report = csim_network(qnet, design, images)
    assert_equal(report)
    assert report.layers == len(qnet.layers)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(s, marks=pytest.mark.matrix) for s in range(8, 40))])
def test_layers_of_parts_equal_golden(seed: int) -> None:
    """Channels sliced, rows left out, tensors written in tiles, zeros that nobody writes, maps given out."""
    qnet = quantise(random_patchwork(seed, exits=seed % 3))
    plan = [R_BATCHING, WIDE, ROW_LANES, LANES, SPLIT][seed % 5]
    images = np.random.default_rng(seed).integers(0, 256, (3, *qnet.network.tensors["image"])).astype(np.uint8)
    design = design_of(qnet, plan, split=True, **{**SMALL, "b_max": 3})
    assert_equal(csim_network(qnet, design, images))


def shipped_network() -> QuantisedNetwork:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        return quantise(read_onnx(path))


def test_the_shipped_network_equals_golden() -> None:
    """The whole ResNet-8 on real images: LANES, and k = 2 at batch 1; the long test has the other cases."""
    qnet, images = shipped_network(), shipped_images(3).images
    report = csim_network(qnet, design_of(qnet, LANES, **SHIPPED), images, [3])
    assert_equal(report)
    assert report.layers == len(qnet.layers)
    assert_equal(csim_network(qnet, design_of(qnet, WIDE, **SHIPPED), images, [1]))


@pytest.mark.long
@pytest.mark.parametrize(
    "plan", [R_BATCHING, WIDE, SPLIT, ROW_LANES, LANES], ids=["r", "wide", "split", "rows", "lanes"]
)
def test_the_shipped_network_equals_golden_at_every_batch(plan: Plan) -> None:
    qnet, images = shipped_network(), shipped_images(8).images
    options = {"b_max": 8, "t_r": 2048, "t_p": 8, "t_c": 112, "weight_slots": 4, "out_words": 8}
    report = csim_network(qnet, design_of(qnet, plan, split=True, **options), images)
    assert_equal(report)
    assert report.batches == tuple(range(1, 9))
