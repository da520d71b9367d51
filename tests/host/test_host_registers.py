"""The simulated NPU's registers against the register map: access classes, reset values, missing bits."""

from dataclasses import replace

import numpy as np
import pytest
from host_worlds import CTRL, field, read, snapshot, world, write

from fluidnpu.dse.testing import tiny_design
from fluidnpu.hls import REGISTERS, WINDOW_BYTES, Access, Cause, Register, register
from fluidnpu.host import SimulatedNpu
from fluidnpu.host.devices.simulated import JobFault
from fluidnpu.host.devices.timing import JobTimes
from fluidnpu.host.identity import build_id_word, shape_word
from fluidnpu.models import golden

ALL_ONES = 0xFFFF_FFFF
IDENTITY = {"BUILD_ID": build_id_word, "SHAPE": shape_word}


def bits(register: Register) -> int:
    return sum(one.mask for one in register.fields) if register.fields else ALL_ONES


@pytest.fixture
def npu() -> SimulatedNpu:
    return SimulatedNpu(tiny_design())


@pytest.mark.parametrize("register", REGISTERS, ids=lambda r: r.name)
def test_reset_values(npu: SimulatedNpu, register: Register) -> None:
    expected = IDENTITY[register.name](npu.design) if register.name in IDENTITY else register.reset
    assert npu.read(register.offset) == expected


@pytest.mark.parametrize("register", [r for r in REGISTERS if r.access is Access.RO], ids=lambda r: r.name)
def test_read_only_registers_ignore_writes(npu: SimulatedNpu, register: Register) -> None:
    before = snapshot(npu)
    npu.write(register.offset, ALL_ONES)
    assert snapshot(npu) == before


@pytest.mark.parametrize(
    "register", [r for r in REGISTERS if r.access is Access.RW and r.name != "FBCB_DATA"], ids=lambda r: r.name
)
def test_writable_registers_keep_the_bits_they_have(npu: SimulatedNpu, register: Register) -> None:
    before = snapshot(npu, but=[register.name])
    for value in (ALL_ONES, 0x5555_5555, 0):
        npu.write(register.offset, value)
        assert npu.read(register.offset) == value & bits(register)
    assert snapshot(npu, but=[register.name]) == before


def test_control_reads_zero_and_unknown_bits_do_nothing(npu: SimulatedNpu) -> None:
    before = snapshot(npu)
    write(npu, "CTRL", ALL_ONES & ~bits(register("CTRL")))
    assert snapshot(npu) == before
    assert read(npu, "CTRL") == 0


def test_events_are_cleared_by_writing_ones(npu: SimulatedNpu) -> None:
    write(npu, "CTRL", CTRL["START"])
    status = register("IRQ_STATUS")
    assert read(npu, "IRQ_STATUS") == status.field("ERROR").mask
    write(npu, "IRQ_STATUS", status.field("DONE").mask)
    assert read(npu, "IRQ_STATUS") == status.field("ERROR").mask
    write(npu, "IRQ_STATUS", status.field("ERROR").mask)
    assert read(npu, "IRQ_STATUS") == 0


def test_the_line_follows_enabled_events_only(npu: SimulatedNpu) -> None:
    write(npu, "CTRL", CTRL["START"])
    assert not npu.irq
    write(npu, "IRQ_ENABLE", register("IRQ_ENABLE").field("DONE").mask)
    assert not npu.irq
    write(npu, "IRQ_ENABLE", register("IRQ_ENABLE").field("ERROR").mask)
    assert npu.irq


@pytest.mark.parametrize("offset", [1, 2, -4, WINDOW_BYTES, 0x1000])
def test_accesses_outside_the_window_are_refused(npu: SimulatedNpu, offset: int) -> None:
    with pytest.raises(ValueError, match="multiple of 4"):
        npu.read(offset)
    with pytest.raises(ValueError, match="multiple of 4"):
        npu.write(offset, 0)


def test_values_have_32_bits(npu: SimulatedNpu) -> None:
    for value in (-1, 1 << 32):
        with pytest.raises(ValueError, match="32 bits"):
            npu.write(register("SLOT_MASK").offset, value)


def test_holes_in_the_window_read_zero(npu: SimulatedNpu) -> None:
    taken = {register.offset for register in REGISTERS}
    holes = [offset for offset in range(0, WINDOW_BYTES, 4) if offset not in taken]
    assert holes
    for offset in holes:
        npu.write(offset, ALL_ONES)
        assert npu.read(offset) == 0


def test_fbcb_index_steps_on_after_each_write(npu: SimulatedNpu) -> None:
    words = len(npu.design.layers) * npu.design.b_max
    write(npu, "FBCB_INDEX", words - 2)
    for step in range(2):
        write(npu, "FBCB_DATA", 0)
        assert read(npu, "FBCB_INDEX") == words - 1 + step
    assert field(npu, "STATUS", "ERROR") == 0
    write(npu, "FBCB_DATA", 0)  # one beyond the last
    assert field(npu, "ERROR", "CAUSE") == Cause.BAD_FBCB


def test_fbcb_words_with_unknown_bits_are_refused(npu: SimulatedNpu) -> None:
    write(npu, "FBCB_DATA", ALL_ONES)
    assert field(npu, "ERROR", "CAUSE") == Cause.BAD_FBCB


def test_a_job_in_registers() -> None:
    """STATUS, the heartbeat, CYCLES and the events through a whole job."""
    w = world()
    first, last = w.program.stages[0]
    expected_ns = w.design.latency.ns[0][1]
    for slot, image in enumerate(w.images(2)):
        w.driver.write_sample(slot, image)
    w.driver.merge([0, 1])
    write(w.npu, "FIRST_LAYER", first)
    write(w.npu, "LAST_LAYER", last)
    start = w.npu.clock.now_ns()
    write(w.npu, "CTRL", CTRL["START"])
    beats = []
    while field(w.npu, "STATUS", "BUSY"):
        assert not field(w.npu, "STATUS", "IDLE")
        assert not field(w.npu, "STATUS", "DONE")
        beats.append(field(w.npu, "STATUS", "LAYER"))
        w.npu.clock.sleep_until(w.npu.clock.now_ns() + 1)
    assert w.npu.clock.now_ns() - start == expected_ns
    assert beats == sorted(beats)
    assert beats[0] == first
    assert beats[-1] == last
    assert field(w.npu, "STATUS", "LAYER") == last
    assert field(w.npu, "STATUS", "DONE")
    assert field(w.npu, "STATUS", "B_ACT") == 2
    assert read(w.npu, "IRQ_STATUS") == register("IRQ_STATUS").field("DONE").mask
    assert read(w.npu, "CYCLES_LO") == expected_ns * w.design.clock_hz // 10**9
    write(w.npu, "CTRL", CTRL["START"])
    assert not field(w.npu, "STATUS", "DONE")  # a START clears it


def test_soft_reset_drops_the_job_and_empties_the_batch() -> None:
    w = world(faults=[JobFault(job=0)])
    w.driver.merge([0, 1])
    write(w.npu, "CTRL", CTRL["START"])
    w.npu.clock.sleep_until(10**12)
    assert field(w.npu, "STATUS", "BUSY")
    assert read(w.npu, "FBCB_DATA") == 0, "a running job alone reads the FBCB"
    kept = ("STATUS", "ACTIVE", "CYCLES_LO", "CYCLES_HI", "FBCB_DATA")
    before = snapshot(w.npu, but=kept)
    write(w.npu, "CTRL", CTRL["SOFT_RESET"])
    assert snapshot(w.npu, but=kept) == before
    assert field(w.npu, "STATUS", "IDLE")
    assert read(w.npu, "ACTIVE") == 0


def test_saturations_are_counted_per_job() -> None:
    w = world()
    place = w.program.tensors[w.program.input]
    loud = np.full((place.height, place.width, place.channels), 32767, np.int16)
    w.driver.write_sample(0, loud)
    w.driver.merge([0])
    w.driver.run_to_exit(w.design.stages - 1)
    tensors = {w.qnet.network.input: loud[None]}
    expected = sum(sum(golden.run_stage(w.qnet, stage, tensors).values()) for stage in range(w.design.stages))
    assert expected > 0
    assert w.driver.status().saturations == expected
    w.driver.run_to_exit(w.design.stages - 1)
    assert w.driver.status().saturations == expected  # of the last job, not of all


def test_a_dropped_job_has_done_only_what_it_had_time_for() -> None:
    w = world()
    image = w.images(1)
    w.driver.write_sample(0, image[0])
    w.driver.merge([0])
    first, last = w.program.stages[0]
    write(w.npu, "FIRST_LAYER", first)
    write(w.npu, "LAST_LAYER", last)
    write(w.npu, "CTRL", CTRL["START"])
    while field(w.npu, "STATUS", "LAYER") == first:
        w.npu.clock.sleep_until(w.npu.clock.now_ns() + 1)
    write(w.npu, "CTRL", CTRL["SOFT_RESET"])
    w.npu.clock.sleep_until(10**12)
    tensors = {w.qnet.network.input: w.qnet.quantise_input(image)}
    golden.run_stage(w.qnet, 0, tensors)
    done, left = (w.qnet.network.layers[layer].output for layer in (first, last))
    slot = w.driver._memory[0]
    assert np.array_equal(w.program.read_tensor(slot, done), tensors[done][0])
    assert tensors[left].any()
    assert not w.program.read_tensor(slot, left).any()


def test_cycles_and_nanoseconds_round_so_that_neither_loses_a_cycle() -> None:
    times = JobTimes(replace(tiny_design(), clock_hz=150_000_000))
    assert [times.ns(cycles) for cycles in (0, 1, 2, 3)] == [0, 7, 14, 20]
    assert all(times.cycles(times.ns(cycles)) == cycles for cycles in range(1000))
