"""Every cause of ERROR is reachable; a refused command changes no state; after a reset the NPU works."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from host_worlds import CTRL, HostWorld, field, read, snapshot, world, write

from fluidnpu.dse import BatchPlan
from fluidnpu.dse.design import Stack
from fluidnpu.hls import REGISTERS, Access, Cause, WhileBusy, register
from fluidnpu.hls.program import DESCRIPTOR_BYTES
from fluidnpu.hls.program.fbcb import encode_fbcb
from fluidnpu.host import NpuError
from fluidnpu.host.devices.simulated import JobFault
from fluidnpu.models import golden

ERRORS = ("STATUS", "ERROR", "IRQ_STATUS")


def command(w: HostWorld, verb: str, mask: int = 0) -> None:
    write(w.npu, "SLOT_MASK", mask)
    write(w.npu, "CTRL", CTRL[verb])


def aim(w: HostWorld, first: int, last: int) -> None:
    write(w.npu, "FIRST_LAYER", first)
    write(w.npu, "LAST_LAYER", last)


def active(w: HostWorld) -> None:
    command(w, "MERGE", 0b11)


REFUSED: dict[str, tuple[Cause, Callable[[HostWorld], None], Callable[[HostWorld], None]]] = {
    "exit of an idle slot": (Cause.EXIT_NOT_ACTIVE, active, lambda w: command(w, "EXIT", 0b110)),
    "merge of an active slot": (Cause.MERGE_ACTIVE, active, lambda w: command(w, "MERGE", 0b110)),
    "merge beyond b_max": (Cause.BATCH_TOO_LARGE, active, lambda w: command(w, "MERGE", 0b11100)),
    "both beyond and active": (Cause.MERGE_ACTIVE, active, lambda w: command(w, "MERGE", 0xFFFF_FFFF)),
    "layers in wrong order": (Cause.BAD_LAYER_RANGE, lambda w: aim(w, 1, 0), lambda w: command(w, "START")),
    "layers beyond the program": (
        Cause.BAD_LAYER_RANGE,
        lambda w: aim(w, 0, len(w.program.descriptors)),
        lambda w: command(w, "START"),
    ),
    "nobody to run": (Cause.EMPTY_BATCH, lambda w: aim(w, 0, 0), lambda w: command(w, "START")),
    "two commands at once": (Cause.BUSY, active, lambda w: write(w.npu, "CTRL", CTRL["EXIT"] | CTRL["MERGE"])),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_commands_leave_all_state(case: str) -> None:
    w = world()
    cause, prepare, act = REFUSED[case]
    prepare(w)
    before = snapshot(w.npu, but=(*ERRORS, "SLOT_MASK"))
    memory = w.driver.stored_logits(range(4), 0).copy()
    act(w)
    assert field(w.npu, "ERROR", "CAUSE") == cause
    assert field(w.npu, "STATUS", "ERROR")
    assert field(w.npu, "STATUS", "IDLE")
    assert read(w.npu, "IRQ_STATUS") == register("IRQ_STATUS").field("ERROR").mask
    assert snapshot(w.npu, but=(*ERRORS, "SLOT_MASK")) == before
    assert np.array_equal(w.driver.stored_logits(range(4), 0), memory)


@pytest.mark.parametrize("verb", ["START", "EXIT", "MERGE"])
def test_busy(verb: str) -> None:
    """A command while a job runs sets BUSY and does not disturb the job."""
    w = world()
    for slot, image in enumerate(w.images(2)):
        w.driver.write_sample(slot, image)
    active(w)
    aim(w, *w.program.stages[0])
    write(w.npu, "CTRL", CTRL["START"])
    command(w, verb, 0b01)
    assert field(w.npu, "ERROR", "CAUSE") == Cause.BUSY
    assert field(w.npu, "STATUS", "BUSY")
    assert read(w.npu, "ACTIVE") == 0b11
    w.npu.clock.sleep_until(10**12)
    assert field(w.npu, "STATUS", "DONE")
    expected = golden.run(w.qnet, w.images(2))[0]
    assert np.array_equal(w.driver.stored_logits([0, 1], 0), expected)


def test_a_start_while_busy_keeps_the_first_error() -> None:
    w = world()
    active(w)
    aim(w, *w.program.stages[0])
    write(w.npu, "CTRL", CTRL["START"])
    layer = w.driver.status().layer
    command(w, "START")
    while w.driver.status().layer == layer:
        w.npu.clock.sleep_until(w.npu.clock.now_ns() + 1)
    command(w, "START")
    assert field(w.npu, "ERROR", "CAUSE") == Cause.BUSY
    assert field(w.npu, "ERROR", "LAYER") == layer, "the first of two"


@pytest.mark.parametrize("name", [one.name for one in REGISTERS if one.access is Access.RW])
def test_a_setting_that_a_job_works_with_stands_still(name: str) -> None:
    """A write while a job runs is refused as BUSY, acts from the next START on, or concerns no job."""
    w = world()
    for slot, image in enumerate(w.images(2)):
        w.driver.write_sample(slot, image)
    active(w)
    aim(w, *w.program.stages[0])
    expected = golden.run(w.qnet, w.images(2))[0]
    before, index = read(w.npu, name), read(w.npu, "FBCB_INDEX")
    write(w.npu, "CTRL", CTRL["START"])
    write(w.npu, name, before ^ 64 if name != "WATCHDOG" else 0)
    refused = register(name).busy is WhileBusy.REFUSED
    assert field(w.npu, "ERROR", "CAUSE") == (Cause.BUSY if refused else Cause.NONE)
    if name == "FBCB_DATA":
        assert read(w.npu, "FBCB_INDEX") == index + 1
    elif refused:
        assert read(w.npu, name) == before
    w.npu.clock.sleep_until(10**12)
    assert field(w.npu, "STATUS", "DONE")
    assert np.array_equal(w.driver.stored_logits([0, 1], 0), expected)


def test_error_keeps_the_first_cause_until_start() -> None:
    w = world()
    command(w, "EXIT", 0b1)
    command(w, "MERGE", 0xFFFF)
    assert field(w.npu, "ERROR", "CAUSE") == Cause.EXIT_NOT_ACTIVE
    command(w, "START")
    assert field(w.npu, "ERROR", "CAUSE") == Cause.EMPTY_BATCH


# -- causes that end a job -----------------------------------------------------------------------------------


def descriptor_bytes(w: HostWorld, layer: int) -> npt.NDArray[np.uint8]:
    address = read(w.npu, "PROGRAM_HI") << 32 | read(w.npu, "PROGRAM_LO")
    return w.npu.memory.view(address + layer * DESCRIPTOR_BYTES, DESCRIPTOR_BYTES)


def edit(w: HostWorld, layer: int, **changes: object) -> None:
    changed = replace(w.program.descriptors[layer], **changes)  # type: ignore[arg-type]
    descriptor_bytes(w, layer)[:] = np.frombuffer(changed.pack(), np.uint8)


def flip_a_bit(w: HostWorld) -> None:
    descriptor_bytes(w, 1)[40] ^= 4


def fbcb(w: HostWorld, layer: int, word: int) -> None:
    write(w.npu, "FBCB_INDEX", layer * w.design.b_max + 1)
    write(w.npu, "FBCB_DATA", word)


JOBS: dict[str, tuple[Cause, int, Callable[[HostWorld], None]]] = {
    "damaged descriptor": (Cause.BAD_DESCRIPTOR, 1, flip_a_bit),
    "misaligned program": (
        Cause.BAD_DESCRIPTOR,
        0,
        lambda w: write(w.npu, "PROGRAM_LO", read(w.npu, "PROGRAM_LO") + 4),
    ),
    "misaligned slots": (Cause.BAD_DESCRIPTOR, 0, lambda w: write(w.npu, "SLOT_BYTES", w.program.slot_bytes + 2)),
    "odd offset": (Cause.BAD_DESCRIPTOR, 1, lambda w: edit(w, 1, in_offset=w.program.descriptors[1].in_offset + 1)),
    "odd row": (Cause.BAD_DESCRIPTOR, 1, lambda w: edit(w, 1, in_row_bytes=w.program.descriptors[1].in_row_bytes + 1)),
    "k = 2 that the program holds no weights for": (
        Cause.BAD_FBCB,
        0,
        lambda w: fbcb(w, 0, register("FBCB_DATA").field("K").put(1)),
    ),
    "k = 1/2 on trees that do not split": (
        Cause.BAD_FBCB,
        0,
        lambda w: fbcb(w, 0, register("FBCB_DATA").field("K").put(2)),
    ),
    "b_r beyond the batch": (Cause.BAD_FBCB, 0, lambda w: fbcb(w, 0, register("FBCB_DATA").field("B_R").put(2))),
    "a pool on an NPU without room for one": (Cause.BAD_DESCRIPTOR, 1, lambda w: edit(w, 1, pool_kernel=2)),
    "more P-tiles than a command can ask for": (
        Cause.BAD_DESCRIPTOR,
        1,
        lambda w: edit(w, 1, kind=0, kernel_h=255, kernel_w=255, group_words=60),
    ),
    "program nowhere": (Cause.BUS_READ, 0, lambda w: write(w.npu, "PROGRAM_HI", 7)),
    "weights nowhere": (Cause.BUS_READ, 0, lambda w: write(w.npu, "WEIGHTS_HI", 7)),
    "slots nowhere": (Cause.BUS_READ, 0, lambda w: write(w.npu, "SLOT_BASE_HI", 7)),
    "input beyond memory": (Cause.BUS_READ, 1, lambda w: edit(w, 1, in_offset=0x4000_0000)),
    "output beyond memory": (Cause.BUS_WRITE, 1, lambda w: edit(w, 1, out_offset=0x4000_0000)),
    "watchdog": (Cause.WATCHDOG, 0, lambda w: write(w.npu, "WATCHDOG", 1)),
}


@pytest.mark.parametrize("ran", [False, True], ids=["first", "ran before"])
@pytest.mark.parametrize("case", JOBS)
def test_failed_jobs_name_layer_and_cause_and_keep_the_batch(case: str, ran: bool) -> None:
    """A job that ran before is kept decoded, and must see every change of what it was decoded from."""
    w = world(seed=3)
    cause, layer, damage = JOBS[case]
    images = w.images(2)
    for slot, image in enumerate(images):
        w.driver.write_sample(slot, image)
    active(w)
    aim(w, *w.program.stages[0])
    if ran:
        write(w.npu, "CTRL", CTRL["START"])
        w.npu.clock.sleep_until(10**9)
        assert field(w.npu, "STATUS", "DONE")
        write(w.npu, "IRQ_STATUS", register("IRQ_STATUS").field("DONE").mask)
    damage(w)
    before = snapshot(w.npu, but=(*ERRORS, "CYCLES_LO", "SATURATIONS"))
    write(w.npu, "CTRL", CTRL["START"])
    w.npu.clock.sleep_until(10**12)
    assert field(w.npu, "ERROR", "CAUSE") == cause
    assert field(w.npu, "ERROR", "LAYER") == layer
    assert field(w.npu, "STATUS", "IDLE")
    assert not field(w.npu, "STATUS", "DONE")
    assert read(w.npu, "IRQ_STATUS") == register("IRQ_STATUS").field("ERROR").mask
    assert snapshot(w.npu, but=(*ERRORS, "CYCLES_LO", "SATURATIONS")) == before
    w.driver.recover()
    w.driver.merge([0, 1])
    w.driver.run_to_exit(w.design.stages - 1)
    for exit_index, expected in enumerate(golden.run(w.qnet, images)):
        assert np.array_equal(w.driver.stored_logits([0, 1], exit_index), expected)


def test_a_job_that_ran_before_needs_the_slots_of_now() -> None:
    """The same job on slots that no memory holds: what is kept of it says nothing about them."""
    w = world(seed=3)
    active(w)
    w.driver.run_stage(0)
    w.driver.exit([1])
    command(w, "MERGE", 1 << 31)
    write(w.npu, "CTRL", CTRL["START"])
    w.npu.clock.sleep_until(10**12)
    assert field(w.npu, "ERROR", "CAUSE") == Cause.BUS_READ


def test_all_causes_are_covered() -> None:
    covered = {one[0] for one in REFUSED.values()} | {one[0] for one in JOBS.values()} | {Cause.BUSY}
    assert covered == set(Cause) - {Cause.NONE}


@pytest.mark.parametrize("cause", [Cause.BUS_READ, Cause.BUS_WRITE, Cause.BAD_DESCRIPTOR])
def test_injected_faults_reach_the_driver(cause: Cause) -> None:
    w = world(faults=[JobFault(job=1, cause=cause, layer=1)])
    w.driver.write_sample(2, w.images(1)[0])
    w.driver.merge([2])
    w.driver.run_stage(0)
    with pytest.raises(NpuError) as caught:
        w.driver.run_stage(0)
    assert (caught.value.cause, caught.value.layer_index, caught.value.slots) == (cause, 1, (2,))
    assert caught.value.layer == w.design.layers[1].name
    assert cause.name in str(caught.value)


def test_two_lanes_need_stackable_elements() -> None:
    w = world(stackable=False)
    word = encode_fbcb(w.design.mode(0, 2), BatchPlan(k=Stack.ONE, b_r=1), 2) & ~register("FBCB_DATA").field("B_R").mask
    active(w)
    fbcb(w, 0, word)
    aim(w, *w.program.stages[0])
    write(w.npu, "CTRL", CTRL["START"])
    assert field(w.npu, "ERROR", "CAUSE") == Cause.BAD_FBCB
