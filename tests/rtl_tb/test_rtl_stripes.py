"""Masters striped over narrow ports: the masters' own benches on them, what only stripes can do wrong, and
the whole NPU with them.
"""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
from needs import needs_libpython
from npu_worlds import DESIGN, LAYERS, PROGRAM, SLOTS, expected, read, run_batch, write

from fluidnpu.dse import DramModel
from fluidnpu.hls import register
from fluidnpu.rtl_tb import NpuModel, RtlNpu
from fluidnpu.rtl_tb.npu.job import WEIGHTS
from fluidnpu.rtl_tb.simulation.model import RtlModel, run

# cocotbext-axi wants identifiers and one port, so that memory is not met here.
MASTERS = "reads_and_writes_are_right|errors_are_told|a_flush_reaches_idle"


def model_of(ports: int, data_bytes: int, burst: int = 16) -> RtlModel:
    parameters = {"DataBytes": data_bytes, "MaxBurst": burst, "Ports": ports}
    return RtlModel(top="axi_striped_masters_top", parameters=parameters)


@needs_libpython
@pytest.mark.parametrize(("ports", "data_bytes"), [(4, 16), pytest.param(2, 8, marks=pytest.mark.long)])
def test_striped_masters(ports: int, data_bytes: int) -> None:
    model = model_of(ports, data_bytes)
    assert len(run(model)) == 5
    assert len(run(model, "axi_masters_top", tests=MASTERS)) == 3


@pytest.mark.long
def test_bursts_of_one_word_stream_too() -> None:
    assert run(model_of(4, 16, burst=1), tests="reads_stream")


FOUR_PORTS = DramModel(
    latency_cycles=50,
    write_latency_cycles=50,
    link_words=3.0,
    total_words=9.0,
    refresh_interval_cycles=600,
    refresh_cycles=20,
)
ROUGH = DramModel(latency_cycles=9, write_latency_cycles=70, link_words=1.3, total_words=3.7, refresh_interval_cycles=301,
                  refresh_cycles=77, outstanding=2)  # fmt: skip
WIDE = [(2, 16), (4, 64)]  # ports of 8 bytes, as narrow as they come; of 16, as on ZCU104


@cache
def striped(stripes: int, port_bytes: int) -> NpuModel:
    return NpuModel.of(DESIGN, stripes=stripes, port_bytes=port_bytes)


def check_batch(npu: RtlNpu, batch: int) -> None:
    for got, wanted in zip(run_batch(npu, batch), expected(batch), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("stripes", "port_bytes"), [pytest.param(*WIDE[0], marks=pytest.mark.matrix), WIDE[1]])
def test_a_striped_npu_is_bit_exact(stripes: int, port_bytes: int) -> None:
    """On ideal memory, on four ports that share one DRAM, on rough ports that take two bursts at once."""
    for dram in (DramModel.IDEAL, FOUR_PORTS, ROUGH):
        for batch in (1, 4):
            npu = RtlNpu(striped(stripes, port_bytes), dram=dram, memory_bytes=1 << 22)
            check_batch(npu, batch)
            runs = npu.take_layers()
            assert [run.layer for run in runs] == list(range(LAYERS))
            words = port_bytes // stripes // 2
            moved = words * sum(sum(run.read_beats) + run.write_beats for run in runs)
            assert not dram.total_words or moved <= dram.total_words * sum(run.cycles for run in runs) * 1.02


@pytest.mark.parametrize(("stripes", "port_bytes"), [pytest.param(*WIDE[0], marks=pytest.mark.matrix), WIDE[1]])
def test_a_soft_reset_at_any_moment_leaves_nothing_behind(stripes: int, port_bytes: int) -> None:
    """Masters drain their bursts through the stripes; the next job is right."""
    rng = random.Random(stripes)
    npu = RtlNpu(striped(stripes, port_bytes), dram=FOUR_PORTS, memory_bytes=1 << 22)
    check_batch(npu, 2)
    control = register("CTRL")
    for _ in range(12):
        write(npu, "IRQ_STATUS", 3)
        write(npu, "CTRL", control.field("START").mask)
        npu.run(rng.randrange(1, 6000))
        write(npu, "CTRL", control.field("SOFT_RESET").mask)
        npu.run(20_000, until_idle=True)
        assert npu.idle
    write(npu, "IRQ_STATUS", 3)
    write(npu, "FBCB_INDEX", 0)
    check_batch(npu, 2)


def test_a_bad_address_is_told_and_forgotten() -> None:
    """An error on one narrow port ends the job as an error on a wide one does."""
    npu = RtlNpu(striped(*WIDE[1]), dram=FOUR_PORTS, memory_bytes=1 << 22)
    check_batch(npu, 2)
    for bad in (WEIGHTS + PROGRAM.weights_offset + 100, SLOTS + 40):
        write(npu, "IRQ_STATUS", 3)
        npu.fault(bad=(bad, bad + 1))
        write(npu, "CTRL", register("CTRL").field("START").mask)
        assert npu.run(1_000_000, until_interrupt=True)
        assert read(npu, "ERROR") != 0
        npu.fault()
        write(npu, "CTRL", register("CTRL").field("SOFT_RESET").mask)
        npu.run(20_000, until_idle=True)
        assert npu.idle
        write(npu, "IRQ_STATUS", 3)
    write(npu, "FBCB_INDEX", 0)
    check_batch(npu, 2)


@pytest.mark.matrix
def test_a_seeded_bug_in_a_stripe_shows() -> None:
    for file, old, new in (
        ("axi_stripe_cut.sv", "staying[l] ? Used - 1 : Used", "Used"),
        ("axi_read_stripe.sv", "within_q == len >> PortBits", "within_q == 8'd0"),
    ):
        model = NpuModel(parameters=striped(*WIDE[1]).parameters, edits=((file, old, new),))
        with pytest.raises((AssertionError, RuntimeError)):
            check_batch(RtlNpu(model, dram=FOUR_PORTS, memory_bytes=1 << 22), 2)
