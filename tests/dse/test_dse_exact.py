"""The exact model without RTL: compiled or not the counts are the same, and those of memory traffic follow
by hand.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import DesignError, DramModel, Mode
from fluidnpu.dse.exact import LayerJob, Machine, job_cycles
from fluidnpu.dse.exact.model import layer_cost, layer_numbers
from fluidnpu.dse.exact.twin.sequencer import DESCRIPTOR_BYTES
from fluidnpu.dse.hardware.activation import USES
from fluidnpu.dse.hardware.array import Array

ARRAY = Array(t_r=64, t_p=4, t_c=8, weight_slots=1, in_words=8, out_words=4, split=True)
MACHINE = Machine(array=ARRAY)
HLS = Machine(array=ARRAY, row_distance=ARRAY.row_distance())  # with the HLS core
JOB = LayerJob(
    mode=Mode.NORMAL, batch=1, b_r=1, block=24, in_offset=0, in_row_bytes=2 * 10 * 6, in_pixel_bytes=2 * 6, kernel_h=3, kernel_w=3,
    stride_h=1, stride_w=1, dilation_h=1, dilation_w=1, out_h=7, out_w=8, group_words=6, groups=1, columns=18, out_offset=4096,
    out_row_bytes=2 * 8 * 18, out_pixel_bytes=2 * 18, weights=1 << 16, descriptor=1 << 20,
)  # fmt: skip
IDEAL = DramModel.IDEAL
SLOW = DramModel(
    latency_cycles=20,
    write_latency_cycles=9,
    link_words=4.0,
    total_words=6.5,
    refresh_interval_cycles=400,
    refresh_cycles=30,
)


def modes(job: LayerJob) -> list[LayerJob]:
    """The job in every mode the machine has, with a residual and without, as a pool, with each use of the
    activation unit, whose residual repeats a pixel or a word of each, and through a depthwise filter.
    """
    gemms = [replace(job, mode=mode, has_residual=r, residual_offset=9000, residual_row_bytes=288, residual_pixel_bytes=36)
             for mode in (Mode.NORMAL, Mode.WIDE, Mode.SPLIT) for r in (0, 1)]  # fmt: skip
    two = [replace(job, mode=Mode.LANES, batch=2, b_r=1), replace(job, mode=Mode.LANES, batch=2, b_r=2, row_lanes=True)]
    pool = replace(job, mode=Mode.MAX_POOL, columns=6, out_row_bytes=96, out_pixel_bytes=12)
    units = [
        replace(job, activation=1, pieces=258),
        replace(two[1], activation=3, pieces=24, has_residual=1, residual_offset=9000, residual_spread=1),
        replace(pool, kernel_h=1, kernel_w=1, activation=2, has_residual=1, residual_offset=9000),
        replace(pool, kernel_h=1, kernel_w=1, activation=2, has_residual=1, residual_spread=1, residual_row_bytes=16,
                residual_pixel_bytes=2),
    ]  # fmt: skip
    filtered = replace(
        job,
        filter_kernel=3,
        filter_stride=2,
        filter_top=1,
        filter_rows=12,
        walk_h=job.out_h + 1,
        walk_w=max(job.out_w + 1, 3),  # without a window that leaves a layer would not end
    )
    filters = [
        filtered,
        replace(filtered, filter_kernel=4, filter_stride=1, filter_top=2, filter_left=2, filter_table=1, activation=1, pieces=258,
                mode=Mode.LANES, batch=2, b_r=2, row_lanes=True),
    ]  # fmt: skip
    return [*gemms, *two, pool, *units, *filters]


def few_jobs() -> list[LayerJob]:
    """Short jobs in every mode, as plain Python counts them in seconds."""
    return modes(replace(JOB, out_h=1, columns=10))


def counted() -> list[str]:
    """The cycles of those jobs with both memories, behind stripes, and with the HLS core, as text."""
    slots = {1: [0], 2: [0, 1 << 15]}
    worlds = [(MACHINE, IDEAL), (MACHINE, SLOW), (replace(MACHINE, stripes=2), SLOW), (HLS, SLOW)]
    return [
        repr(job_cycles([job], slots[job.batch], machine, dram, first_cycle=7))
        for job in few_jobs()
        for machine, dram in worlds
    ]


def test_compiled_or_not_the_cycles_are_the_same() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import test_dse_exact as these\n"
        "from fluidnpu.dse.exact.twin.records import COMPILED\n"
        "assert not COMPILED\n"
        "print(*these.counted(), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    assert done.stdout.splitlines() == counted()


@settings(max_examples=60, deadline=None)
@given(
    h=st.integers(1, 9), w=st.integers(1, 9), c=st.integers(1, 9), n=st.integers(1, 20), k=st.integers(1, 3), mode=st.integers(0, 14),
    block=st.integers(1, 24), port=st.sampled_from([8, 16, 32]), words=st.sampled_from([1 << 14, 1 << 16]),
    core=st.sampled_from([MACHINE, HLS]),
)  # fmt: skip
def test_beats_are_those_of_the_streams(
    h: int, w: int, c: int, n: int, k: int, mode: int, block: int, port: int, words: int, core: Machine
) -> None:
    row, pixel = 2 * c * (w + k - 1), 2 * c
    plain = replace(
        JOB, in_row_bytes=row, in_pixel_bytes=pixel, kernel_h=k, kernel_w=k, out_h=h, out_w=w, group_words=c, columns=n, block=block,
        out_row_bytes=2 * n * w, out_pixel_bytes=2 * n, out_offset=1 << 14,
    )  # fmt: skip
    job = modes(plain)[mode]
    if job.pool:
        job = replace(job, columns=c, out_row_bytes=pixel * w, out_pixel_bytes=pixel)
    fixed = job.has_residual and not job.residual_row_bytes
    beside = (0, 0) if fixed else (2 * w, 2) if job.residual_spread else (2 * n * w, 2 * n)
    job = replace(job, residual_offset=1 << 14, residual_row_bytes=beside[0], residual_pixel_bytes=beside[1])
    machine = replace(core, port_bytes=port, buffer_words=words)
    slots = [index << 18 for index in range(job.batch)]
    (found,) = job_cycles([job], slots, machine, limit=10**7)
    (slow,) = job_cycles([job], slots, machine, SLOW, limit=10**7)
    width, columns = machine.array.tile(job.mode)
    column_tiles = -(-job.columns // columns)
    taps = job.kernel_h * job.kernel_w
    p_tiles = -(-taps // 2) if job.mode is Mode.MAX_POOL else taps if job.pool else -(-taps * c // width)
    rows = sum(job.beats)
    assert found.input_beats == column_tiles * job.beats[0] * p_tiles
    assert found.output_beats == rows * sum(
        -(-min(columns, job.columns - i) // 4) for i in range(0, job.columns, columns)
    )
    product = job.activation == USES.index("product")
    assert found.residual_beats == (found.output_beats if job.has_residual and not product else 0)
    constants = (
        -(-4 * job.pieces // port) + -(-4 * 258 * job.filter_table // port) + 6 * job.filter_rows * -(-16 // port)
    )
    assert constants <= found.read_beats[2] == slow.read_beats[2]
    assert job.has_residual or found.read_beats[2] == constants
    if job.residual_spread:  # a port word a row of each column tile
        assert found.read_beats[2] - constants == rows * column_tiles
    assert found.cycles > found.input_beats + layer_numbers(job, machine)["plan_cycles"]
    assert slow.cycles >= found.cycles
    same = ("input_beats", "weight_beats", "output_beats", "residual_beats", "write_beats")
    assert [getattr(slow, name) for name in same] == [getattr(found, name) for name in same]


@pytest.mark.parametrize("machine", [MACHINE, HLS], ids=["rtl", "hls"])
def test_a_plan_is_made_while_the_layer_before_runs(machine: Machine) -> None:
    """Only the first layer waits for all of it; a short layer leaves the next one to wait for the rest."""
    first, *middle, last = job_cycles([JOB] * 4, [0], machine)
    assert middle[0] == middle[1]
    cost = layer_cost(JOB, [0], machine)
    assert first.cycles == cost.lead + cost.run
    assert [one.cycles for one in (*middle, last)] == [cost.behind(cost)] * 3 == [cost.run + 1] * 3
    assert (middle[0].read_beats[0] - last.read_beats[0]) * machine.port_bytes == DESCRIPTOR_BYTES
    short = replace(JOB, kernel_h=1, kernel_w=1, out_h=1, out_w=1, columns=1, group_words=1)
    cost = layer_cost(short, [0], machine)
    first, *middle, last = job_cycles([short] * 4, [0], machine)
    assert first.cycles >= cost.lead + cost.run
    assert [one.cycles for one in middle] == [cost.behind(cost)] * 2
    assert cost.run + 1 < cost.behind(cost) < cost.lead + cost.run
    # No descriptor comes before the weights of the last layer.
    assert 0 <= cost.behind(cost) - last.cycles <= DESCRIPTOR_BYTES // machine.port_bytes


def test_refresh_counts_from_reset() -> None:
    cycles = {job_cycles([JOB], [0], MACHINE, SLOW, first_cycle=first)[0].cycles for first in range(0, 400, 40)}
    assert len(cycles) > 1
    again = job_cycles([JOB], [0], MACHINE, SLOW, first_cycle=4 * 400 + 40)
    assert again == job_cycles([JOB], [0], MACHINE, SLOW, first_cycle=40)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"array": replace(ARRAY, t_p=2)}, "t_p must be at least 3"),
        ({"stripes": 3}, "stripes must be 1, 2 or 4"),
        ({"buffer_words": 0}, "buffer_words must be at least 1"),
        ({"port_bytes": 64}, "multiple of 32 port words"),
        ({"row_distance": 1}, "row_distance must be 0, or lie in 2..62"),
        ({"array": replace(ARRAY, t_p=10, in_words=20)}, "line_words must be at least the 20 words of a beat"),
    ],
)
def test_machines_that_cannot_be(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(DesignError, match=message):
        replace(MACHINE, **wrong)


def test_jobs_that_cannot_be() -> None:
    with pytest.raises(DesignError, match="batch of 2 samples"):
        job_cycles([JOB], [0, 64], MACHINE)
    with pytest.raises(DesignError, match="does not end within 10 cycles"):
        job_cycles([JOB], [0], MACHINE, limit=10)
    with pytest.raises(DesignError, match="at most 64 bursts"):
        job_cycles([JOB], [0], MACHINE, DramModel(outstanding=65))


def test_all_counts_are_told() -> None:
    (found,) = job_cycles([JOB], [0], MACHINE)
    assert np.all(
        np.array([found.cycles, found.weight_beats, *found.read_beats[:2], *found.read_bursts[:2], found.write_bursts])
        > 0
    )
