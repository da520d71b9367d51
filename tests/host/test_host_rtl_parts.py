"""Parts of a network on the RTL that was built for all of it: their bits are the golden model's."""

import numpy as np
import pytest
from rtl_worlds import EXITS, rtl_world

from fluidnpu.hls.program import Stages
from fluidnpu.host import Bundle, Driver
from fluidnpu.host.fleet.parts import part_of
from fluidnpu.models import golden

PARTS = [
    Stages(first=0, last=0, exits=(0,)),
    Stages(first=1, last=2, exits=(2,)),
    *(pytest.param(Stages(first=k, last=n, exits=(n,)), marks=pytest.mark.long) for k, n in ((0, 1), (1, 1), (2, 2))),
]


@pytest.mark.parametrize("stages", PARTS, ids=lambda one: f"{one.first}-{one.last}")
def test_a_part_runs_on_the_bitstream_of_the_whole(stages: Stages) -> None:
    """Heads inside are left out; the registers name fewer layers, and other places of weights and tensors."""
    w = rtl_world()
    right = {w.program.input: w.qnet.quantise_input(w.images(2))}
    for stage in range(EXITS):
        golden.run_stage(w.qnet, stage, right)
    part = part_of(Bundle(design=w.design, program=w.program), stages)
    assert len(part.program.descriptors) < len(w.program.descriptors)
    driver = Driver(w.device, part.program, part.design, slots=part.design.b_max + 4, patience=20_000)
    driver.load()
    for slot, sample in enumerate(right[part.program.input]):
        driver.write_sample(slot, sample)
    driver.activate((0, 1))
    driver.run_stage(0)
    assert np.array_equal(driver.stored_logits((0, 1), 0), golden.stored_logits(w.qnet, stages.last, right))
    if part.program.onward:
        assert np.array_equal(driver.onward((0, 1)), right[part.program.onward])
