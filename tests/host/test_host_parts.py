"""Parts of networks: cut from compiled programs, run on their own NPUs, bit-identical to the whole."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_worlds import HostWorld, world
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.hls import Program, ProgramError
from fluidnpu.hls.program import Stages, crossing, cut
from fluidnpu.host import Bundle, BundleError, Driver, DriverUsageError, Reply, SimulatedNpu
from fluidnpu.host.fleet.parts import part_of
from fluidnpu.host.fleet.reference import Reference
from fluidnpu.host.serving.stream import serve_requests
from fluidnpu.models import golden
from fluidnpu.models.graph import ExitCheck
from fluidnpu.scheduler import Request, make_policy

SEEDS = (3, 5, 8, 11)


def every_part(stages: int) -> Iterator[Stages]:
    for first in range(stages):
        for last in range(first, stages):
            for count in range(last - first + 1):
                for early in combinations(range(first, last), count):
                    yield Stages(first=first, last=last, exits=(*early, last))


def bundle(w: HostWorld) -> Bundle:
    return Bundle(design=w.design, program=w.program)


def tensors(w: HostWorld, images: Any) -> dict[str, Any]:
    """All tensors of the golden model, every stage run."""
    found = {w.program.input: w.qnet.quantise_input(images)}
    for stage in range(len(w.program.stages)):
        golden.run_stage(w.qnet, stage, found)
    return found


def loaded(part: Bundle) -> Driver:
    driver = Driver(SimulatedNpu(part.design), part.program, part.design)
    driver.load()
    return driver


def served(part: Bundle, samples: Any, policy: str = "fluid") -> list[Reply]:
    """All samples at once, on an NPU of their own."""
    requests = [Request(i, 0, 10**15) for i in range(len(samples))]
    return list(serve_requests(requests, samples, make_policy(policy, None), loaded(part)).answers)


@pytest.mark.parametrize(("seed", "options"), [*((seed, {}) for seed in SEEDS), (18, {"activation": "lut"})])
def test_every_part_has_the_bits_of_the_whole(seed: int, options: dict[str, Any]) -> None:
    w = world(seed, exits=3, loaded=False, **options)
    images = w.images(3)
    right = tensors(w, images)
    for stages in every_part(3):
        part = part_of(bundle(w), stages)
        driver = loaded(part)
        for slot, sample in enumerate(right[part.program.input]):
            driver.write_sample(slot, sample)
        driver.activate(range(3))
        for stage, exit in enumerate(stages.exits):
            driver.run_stage(stage)
            stored = driver.stored_logits(range(3), stage)
            assert np.array_equal(stored, golden.stored_logits(w.qnet, exit, right)), (stages, exit)
        if part.program.onward:
            assert np.array_equal(driver.onward(range(3)), right[part.program.onward])
        else:
            assert stages.last == 2


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 40), ends=st.sets(st.integers(0, 1)), policy=st.sampled_from(["serial", "fluid", "greedy"]))
def test_samples_leave_a_chain_of_parts_where_they_leave_the_whole(seed: int, ends: set[int], policy: str) -> None:
    w = world(seed, exits=3, loaded=False)
    images = w.images(10, seed)
    exits, classes, _ = golden.early_exit(w.qnet, images)
    chosen, left = np.full(10, -1), np.full(10, -1)
    rows, samples, first = np.arange(10), images, 0
    for last in [*sorted(ends), 2]:
        part = part_of(bundle(w), Stages(first=first, last=last, exits=tuple(range(first, last + 1))))
        replies = served(part, samples, policy)
        stays = np.array([reply.onward is not None for reply in replies], bool)
        for row, reply, stay in zip(rows, replies, stays, strict=True):
            if not stay:
                chosen[row], left[row] = first + reply.exit, reply.prediction
        if not stays.any():
            break
        rows, samples, first = (
            rows[stays],
            np.stack([one.onward for one in replies if one.onward is not None]),
            last + 1,
        )
    assert chosen.tolist() == exits.tolist()
    assert left.tolist() == classes.tolist()


def test_a_part_is_smaller_and_takes_the_time_of_its_stages() -> None:
    w = world(3, exits=3, loaded=False)
    whole, parts = bundle(w), [part_of(bundle(w), Stages(first=k, last=k, exits=(k,))) for k in range(3)]
    assert all(one.memory_bytes < whole.memory_bytes for one in parts)
    assert sum(len(one.program.descriptors) for one in parts) == len(w.program.descriptors)
    assert tuple(one.design.latency.ns[0] for one in parts) == w.design.latency.ns
    assert {one.design.hardware_digest for one in parts} == {w.design.digest}, "one bitstream runs them all"
    bare = part_of(whole, Stages(first=0, last=1, exits=(1,)))
    for batch in range(w.design.b_max):
        both = w.design.latency.ns[0][batch] + w.design.latency.ns[1][batch]
        assert w.design.latency.ns[1][batch] < bare.design.latency.ns[0][batch] < both, "a head is left out"
    assert len(bare.program.descriptors) == w.program.segments[0] + 1 + len(w.design.stage_layers(1))


def test_every_layer_keeps_its_words() -> None:
    """All words are made different, so that those of another layer would show."""
    w = world(3, exits=3, loaded=False)
    words = tuple(range(len(w.program.fbcb_words)))
    stages = Stages(first=1, last=2, exits=(2,))
    part = cut(changed(w, fbcb_words=words), stages, w.design.digest)
    layers = [layer for members in stages.layers(w.program) for layer in members]
    assert part.fbcb_words == tuple(layer * w.design.b_max + k for layer in layers for k in range(w.design.b_max))


def test_exit_rates_of_a_part_are_of_those_that_enter_it() -> None:
    w = world(3, exits=3, loaded=False)
    design = replace(w.design, exit_rates=(0.5, 0.3, 0.2))
    whole = Bundle(design=design, program=replace(w.program, design_digest=design.digest))
    assert part_of(whole, Stages(first=1, last=2, exits=(1, 2))).design.exit_rates == pytest.approx((0.6, 0.4))
    assert part_of(whole, Stages(first=0, last=2, exits=(1, 2))).design.exit_rates == pytest.approx((0.8, 0.2))
    assert part_of(whole, Stages(first=0, last=0, exits=(0,))).design.exit_rates == (1.0,)


def test_a_part_is_read_as_it_was_written(tmp_path: Path) -> None:
    w = world(5, exits=3, loaded=False)
    part = part_of(bundle(w), Stages(first=1, last=2, exits=(2,)))
    part.write(tmp_path)
    again = Bundle.read(tmp_path)
    assert again == part
    assert again.program.cut == part.program.cut
    assert again.program.cut is not None
    assert again.program.cut.whole == w.program.digest
    assert part.program.digest != w.program.digest


def test_a_part_judges_answers_of_other_boards() -> None:
    w = world(3, exits=3, loaded=False)
    part = part_of(bundle(w), Stages(first=0, last=1, exits=(0, 1)))
    images = w.images(12)
    replies, judge = served(part, images, "serial"), Reference(part)
    stays = np.array([one.onward is not None for one in replies])
    assert 0 < stays.sum() < 12
    outputs: dict[str, Any] = {
        "exit": np.array([one.exit for one in replies]),
        "label": np.array([one.prediction for one in replies]),
        "logits": np.array([one.logits for one in replies], np.float32),
        "goes_on": stays,
        "onward": np.stack([one.onward for one in replies if one.onward is not None]),
    }
    assert judge.objection(images, outputs) == ""
    tensor = outputs["onward"].copy()
    tensor[-1, 0, 0, 0] ^= 1
    assert "goes on has wrong bits" in judge.objection(images, {**outputs, "onward": tensor})
    assert "left at exit" in judge.objection(images, {**outputs, "goes_on": np.zeros(12, bool)})
    assert "where it must not" in judge.objection(images, {**outputs, "goes_on": np.ones(12, bool)})
    assert judge.judged == ("label", "confidence", "exit", "logits", "goes_on", "onward")


def test_a_part_takes_what_the_part_before_gives_and_nothing_else() -> None:
    w = world(3, exits=3, loaded=False)
    part = part_of(bundle(w), Stages(first=1, last=2, exits=(1, 2)))
    driver = loaded(part)
    shape = driver.program.input_intake.shape
    for wrong in (np.zeros(shape, np.uint8), np.zeros(shape, np.float32)):
        with pytest.raises(DriverUsageError, match="must be int16 as stored"):
            driver.write_sample(0, wrong)
    with pytest.raises(DriverUsageError, match="they end there"):
        driver.onward((0,))


def changed(w: HostWorld, **fields: Any) -> Program:
    return replace(w.program, **fields)


def test_networks_that_cannot_be_cut_say_why() -> None:
    w = world(3, exits=3, loaded=False)
    stages = Stages(first=0, last=1, exits=(0, 1))
    digest = w.design.digest
    with pytest.raises(ProgramError, match="look at the exit before"):
        cut(changed(w, check=ExitCheck.AGREEMENT), stages, digest)
    with pytest.raises(ProgramError, match=r"must lie in 0\.\.2, not 0\.\.3"):
        cut(w.program, Stages(first=0, last=3, exits=(3,)), digest)
    with pytest.raises(ProgramError, match="is a part"):
        cut(cut(w.program, stages, digest), stages, digest)
    for first, last, exits in ((1, 0, (0,)), (0, 1, (0,)), (0, 1, (1, 0, 1)), (1, 2, (0, 2))):
        with pytest.raises(ProgramError, match=r"stages first\.\.last and exits among them"):
            Stages(first=first, last=last, exits=exits)


def test_two_tensors_that_cross_are_named() -> None:
    """The last stage's first layer is made to add what the first stage made."""
    w = world(3, exits=3, loaded=False)
    crosses = [crossing(w.program, stage) for stage in range(2)]
    index = w.program.stages[2][0]
    layer = w.program.descriptors[index]
    odd = replace(layer, has_residual=1, residual_offset=w.program.tensors[crosses[0]].offset)
    layers = (*w.program.descriptors[:index], odd, *w.program.descriptors[index + 1 :])
    program = changed(w, descriptors=layers)
    with pytest.raises(ProgramError, match=f"one tensor must cross from stage 1 .* {crosses[0]}, {crosses[1]} would"):
        crossing(program, 1)
    assert crossing(program, 0) == crosses[0], "the same tensor read twice is one"
    with pytest.raises(BundleError, match="one tensor must cross"):
        part_of(Bundle(design=w.design, program=program), Stages(first=2, last=2, exits=(2,)))
