"""The /dev/mem backend on a temporary file, with tests playing the NPU behind the mapping."""

import mmap
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from host_worlds import world

from fluidnpu.hls import REGISTERS, WINDOW_BYTES, register
from fluidnpu.host import (
    BuildMismatch,
    DeviceAccessError,
    Driver,
    DriverUsageError,
    NpuTimeout,
    OutOfMemory,
    VirtualClock,
)
from fluidnpu.host.devices.device import Clock
from fluidnpu.host.devices.physical.devmem import DevMemNpu
from fluidnpu.host.identity import build_id_word, shape_word

PAGE = mmap.ALLOCATIONGRANULARITY
MEMORY = 4 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "mem"
    file.write_bytes(bytes(2 * PAGE + MEMORY))
    return file


def device(path: Path, clock: Clock | None = None) -> DevMemNpu:
    return DevMemNpu(path=path, register_base=PAGE, region=(2 * PAGE, MEMORY), clock=clock)


def word(path: Path, name: str) -> int:
    return int(np.fromfile(path, np.uint32, 1, offset=PAGE + register(name).offset)[0])


def test_registers_are_words_in_the_file(path: Path) -> None:
    with device(path) as npu:
        for entry in REGISTERS:
            npu.write(entry.offset, 0x8000_0000 | entry.offset)
        for entry in REGISTERS:
            assert npu.read(entry.offset) == 0x8000_0000 | entry.offset
    assert word(path, "FBCB_DATA") == 0x8000_0000 | register("FBCB_DATA").offset
    with device(path) as npu:
        for offset in (2, -4, WINDOW_BYTES):
            with pytest.raises(ValueError, match="multiple of 4"):
                npu.read(offset)


def test_memory_is_the_file(path: Path) -> None:
    with device(path) as npu:
        first, second = npu.allocate(100), npu.allocate(5000)
        assert first.physical_address == 2 * PAGE
        assert second.physical_address % 4096 == 0
        assert second.physical_address >= first.physical_address + 100
        second.array[:] = 7
        assert not np.fromfile(path, np.uint8, 5000, offset=second.physical_address).any()
        second.flush()
        assert (np.fromfile(path, np.uint8, 5000, offset=second.physical_address) == 7).all()
        with pytest.raises(OutOfMemory):
            npu.allocate(MEMORY)
        npu.free(first)
        npu.free(second)
        again = npu.allocate(MEMORY)
        assert again.physical_address == 2 * PAGE
        assert not again.array.any()


def test_wrong_use_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(DeviceAccessError, match="cannot be"):
        device(tmp_path / "nowhere")
    (tmp_path / "short").write_bytes(bytes(10))
    with pytest.raises(DeviceAccessError):
        device(tmp_path / "short")
    with pytest.raises(DeviceAccessError, match="too large"):
        DevMemNpu(path=path, register_base=PAGE, region=(1 << 80, MEMORY))
    with pytest.raises(DriverUsageError, match="page size"):
        DevMemNpu(register_base=12, region=(0, 1))
    with pytest.raises(DriverUsageError, match="at least 1 byte"):
        DevMemNpu(register_base=0, region=(0, 0))


def identify(npu: DevMemNpu, build: int, shape: int) -> None:
    """What silicon would hold; a file keeps the driver from nothing."""
    npu.write(register("BUILD_ID").offset, build)
    npu.write(register("SHAPE").offset, shape)
    npu.write(register("STATUS").offset, register("STATUS").reset)


def test_a_driver_over_the_file_refuses_a_foreign_build(path: Path) -> None:
    w = world(loaded=False)
    with device(path) as npu:
        identify(npu, 1, shape_word(w.design))
        with pytest.raises(BuildMismatch, match="BUILD_ID"):
            Driver(npu, w.program, w.design).load()


def test_events_are_polled(path: Path) -> None:
    rises_ns = 25_000_000

    class Rising(VirtualClock):
        """The silicon has an event at this time."""

        def sleep_until(self, time_ns: int) -> None:
            super().sleep_until(time_ns)
            if time_ns >= rises_ns:
                npu.write(register("IRQ_STATUS").offset, 1)

    with device(path, Rising()) as npu:
        npu.write(register("IRQ_ENABLE").offset, 3)
        assert not npu.wait_interrupt(5_000_000)
        assert npu.clock.now_ns() == 5_000_000
        assert npu.wait_interrupt(10 * 10**9)
        assert rises_ns <= npu.clock.now_ns() < rises_ns + 1_000_000


class Echo(DevMemNpu):
    """Silicon behind the file, as far as memory cannot play it: the FBCB, and IRQ_STATUS that clears."""

    fbcb: ClassVar[dict[int, int]] = {}

    def write(self, offset: int, value: int) -> None:
        if offset == register("IRQ_STATUS").offset:
            value = self.read(offset) & ~value
        super().write(offset, value)
        if offset == register("FBCB_DATA").offset:
            index = register("FBCB_INDEX").offset
            self.fbcb[self.read(index)] = value
            super().write(index, self.read(index) + 1)

    def read(self, offset: int) -> int:
        if offset == register("FBCB_DATA").offset:
            return self.fbcb[super().read(register("FBCB_INDEX").offset)]
        return super().read(offset)


def test_a_driver_loads_and_times_out_over_the_file(path: Path) -> None:
    """The program lies in the file at the addresses in the registers; without an NPU the deadline ends it."""
    w = world(loaded=False)
    with Echo(path=path, register_base=PAGE, region=(2 * PAGE, MEMORY)) as npu:
        identify(npu, build_id_word(w.design), shape_word(w.design))
        driver = Driver(npu, w.program, w.design)
        driver.load()
        driver.write_sample(1, w.images(1)[0])
        driver.merge([1])
        with pytest.raises(NpuTimeout):
            driver.run_stage(0)
        image = np.fromfile(path, np.uint8, len(w.program.image()), offset=word(path, "PROGRAM_LO"))
        assert image.tobytes() == w.program.image()
        slot = np.fromfile(
            path, np.uint8, w.program.slot_bytes, offset=word(path, "SLOT_BASE_LO") + w.program.slot_bytes
        )
        stored = w.program.read_tensor(slot, w.program.input)
        assert np.array_equal(stored, w.qnet.quantise_input(w.images(1))[0])
        assert word(path, "LAYERS") == len(w.program.descriptors)
        driver.close()
