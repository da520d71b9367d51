"""Counters of layers on the simulated NPU and on the RTL; what a driver reads back of what it has loaded."""

import pytest
from campaigns.faulty import FaultyDevice, Mischief, Mishap
from host_worlds import HostWorld, read, world, write
from rtl_worlds import design_of, rtl_world

from fluidnpu.hls import VERSION, register
from fluidnpu.host import BuildMismatch, NpuError, SimulatedNpu
from fluidnpu.host.devices import RtlDevice
from fluidnpu.host.driver import Driver
from fluidnpu.host.identity import shape_word
from fluidnpu.host.serving import IntegrityError


@pytest.mark.parametrize("device", ["simulated", "rtl"])
@pytest.mark.cpu(15, "compiles the exact model's loop where no run before did")
def test_every_layer_counts_what_the_exact_model_counts(device: str) -> None:
    """Jobs of one stage and of several, at every batch; the RTL has counters of its own."""
    design = design_of(0)
    w = rtl_world(dram=design.dram, port_bytes=design.port_bytes)
    last = len(w.design.layers) - 1
    driver = w.driver
    if device == "simulated":
        driver = Driver(SimulatedNpu(design), w.program, design)
        driver.load()
    for slot, image in enumerate(w.images(w.design.b_max)):
        driver.write_sample(slot, image)
    for batch in range(1, w.design.b_max + 1):
        driver.activate(range(batch))
        driver.run_to_exit(w.design.stages - 1)
        counts = driver.read_counts(0, last)
        assert counts == driver.expected_counts(0, last)
        assert all(0 < layer.inputs + layer.starved + layer.blocked <= layer.cycles for layer in counts)
        if device == "rtl":
            assert sum(layer.cycles for layer in counts) == driver.status().cycles
    first, end = w.program.stages[1]
    driver.run_stage(1)
    assert driver.read_counts(first, end) == driver.expected_counts(first, end)
    assert driver.read_counts(end + 1, last) == counts[end + 1 :], "those of the last job that ran a layer"


def test_a_dropped_layer_leaves_the_counts_before() -> None:
    w = world(3)
    w.driver.activate([0])
    w.driver.run_to_exit(w.design.stages - 1)
    before = w.driver.read_counts(0, len(w.design.layers) - 1)
    write(w.npu, "WATCHDOG", 1)
    write(w.npu, "FIRST_LAYER", 0)
    write(w.npu, "CTRL", register("CTRL").field("START").mask)
    w.npu.clock.sleep_until(10**12)
    assert w.driver.status().cause.name == "WATCHDOG"
    assert w.driver.read_counts(0, len(w.design.layers) - 1) == before


@pytest.mark.parametrize("name", ["FBCB_DATA", "PROGRAM"])
def test_layers_before_one_that_is_refused_are_counted(name: str) -> None:
    """The refused one was fetched, which counts, and has no counts of its own."""
    design = design_of(0)
    w = rtl_world(dram=design.dram, port_bytes=design.port_bytes)
    simulated = Driver(SimulatedNpu(design), w.program, design)
    simulated.load()
    counts = []
    for driver in (w.driver, simulated):
        assert isinstance(driver.device, SimulatedNpu | RtlDevice)
        driver.activate([0])
        if name == "PROGRAM":  # a damaged descriptor
            descriptors = driver.device.memory.view(read(driver.device, "PROGRAM_LO"), 256)
            descriptors[130] ^= 1
        else:
            write(driver.device, "FBCB_INDEX", design.b_max)
            write(driver.device, name, 31)  # b_r beyond all
        with pytest.raises(NpuError, match="layer 1"):
            driver.run_to_exit(0)
        counts.append(driver.read_counts(0, 1))
    assert counts[0][0] == counts[1][0]
    assert counts[1][1].numbers == (0,) * 8


def test_an_npu_that_has_run_nothing_counts_nothing() -> None:
    w = world(3)
    assert w.driver.read_counts(0, 0)[0].numbers == (0,) * 8
    write(w.npu, "COUNTERS_LAYER", 0xFFFF)
    assert read(w.npu, "LAYER_CYCLES") == 0


def damaged(w: HostWorld, what: str) -> None:
    if what == "fbcb":
        at = len(w.program.fbcb_words) - 1
        write(w.npu, "FBCB_INDEX", at)
        write(w.npu, "FBCB_DATA", w.program.fbcb_words[at] ^ 1 << 2)
    else:
        buffer = w.driver._buffers[0]
        buffer.array[{"descriptor": 0x40 + 200, "weights": len(buffer.array) - 70}[what]] ^= 1


@pytest.mark.parametrize("what", ["descriptor", "weights", "fbcb"])
def test_what_is_loaded_is_compared_on_demand(what: str) -> None:
    w = world(3)
    w.driver.check_loaded()
    damaged(w, what)
    with pytest.raises(IntegrityError, match="FBCB word" if what == "fbcb" else "must have the CRC-32"):
        w.driver.check_loaded()
    w.driver.load()
    w.driver.check_loaded()


class Forgetful(SimulatedNpu):
    """Its FBCB keeps no word of an odd place."""

    def write(self, offset: int, value: int) -> None:
        odd = offset == register("FBCB_DATA").offset and read(self, "FBCB_INDEX") % 2
        super().write(offset, 0x7C if odd else value)


def test_a_load_that_does_not_read_back_is_no_load() -> None:
    w = world(3, loaded=False)
    driver = Driver(Forgetful(w.design), w.program, w.design)
    with pytest.raises(IntegrityError, match="FBCB word 1 must be"):
        driver.load()


def test_a_guarded_driver_finds_a_damaged_fbcb_word() -> None:
    """It reads the words of each job back, so a plan that changed is told, also where results are right."""
    w = world(3, loaded=False)
    places = [layer * w.design.b_max for layer in range(w.program.stages[0][1] + 1)]
    npu = FaultyDevice(w.npu, [Mishap(kind=Mischief.DAMAGED_FBCB, job=0, place=places[0])])
    driver = Driver(npu, w.program, w.design, guarded=True)
    driver.load()
    driver.write_sample(0, w.images(1)[0])
    driver.activate([0])
    with pytest.raises((IntegrityError, NpuError), match=r"FBCB word 0|BAD_FBCB"):
        driver.run_stage(0)
    driver.recover()
    driver.activate([0])
    driver.run_stage(0)


def test_an_npu_of_another_version_is_named() -> None:
    """Design and program fit, and its descriptors have another checksum."""
    w = world(3, loaded=False)

    class Old(SimulatedNpu):
        def read(self, offset: int) -> int:
            mask = register("SHAPE").field("VERSION").mask
            return super().read(offset) & ~mask if offset == register("SHAPE").offset else super().read(offset)

    assert register("SHAPE").field("VERSION").get(shape_word(w.design)) == VERSION
    with pytest.raises(BuildMismatch, match="another version of fluidnpu: make its bitstream again"):
        Driver(Old(w.design), w.program, w.design).load()
