"""A board under emulation: the files of its Linux, its registers and an NPU, behind a real process's
accesses.

The process under test is the `fluidnpu` command as it stands. `device_memory.c`, preloaded into it,
redirects the paths that a board has, and makes a bus error of any access to Device memory that is not one
aligned 32-bit word. What such a word reads or writes is answered here: a `SimulatedNpu` behind its
registers, the processing system's registers from a table, GPIO lines from another. An access to an NPU
without clock hangs.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from waiting import PATIENCE_S

from fluidnpu.dse import Design
from fluidnpu.hls import WINDOW_BYTES
from fluidnpu.hls.project import PLATFORMS
from fluidnpu.host import SimulatedNpu, WallClock
from fluidnpu.host.devices import SimulatedMemory

SHIM = Path(__file__).with_name("device_memory.c")
MEMORY_BYTES = 4 << 32 >> 2  # of the look-alike of /dev/mem; sparse
READ, WRITE, LINE = range(3)
RAM_BYTES = 1 << 22
EMIO = {"zynq7000": 54, "zynquplus": 78}
LABELS = {"zynq7000": "zynq_gpio", "zynquplus": "zynqmp_gpio"}
# Registers of a processing system that boots as it should: 100 MHz from an IO PLL of 1000 or 1500 MHz, the
# level shifters on, resets released. Those that are absent read 0.
HEALTHY: Mapping[str, Mapping[int, int]] = {
    "zynq7000": {
        0xF800_0108: 30 << 12,
        0xF800_0170: 5 << 8 | 2 << 20,
        0xF800_0900: 0xF,
    },
    "zynquplus": {
        0xFF5E_0020: 90 << 8 | 1 << 16,
        0xFF5E_00C0: 1 << 24 | 15 << 8 | 1 << 16,
        0xFD61_5000: 2 << 8,
    },
}


def needs_the_emulation() -> None:
    """Skip where the shim cannot run."""
    if platform.machine() != "x86_64" or sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("the emulation decodes x86-64 instructions on Linux, and is compiled by gcc")


@cache
def _compiled(folder: Path) -> Path:
    shared = folder / "device_memory.so"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", shared, SHIM, "-ldl"], check=True)
    return shared


@dataclass
class EmulatedBoard:
    """One board; its attributes may be changed between runs.

    `buffer`: physical address and bytes of the one u-dma-buf, none without. `ram`: address of the memory that
    /dev/mem shows. The NPU reads one of the two, `npu_reads`.
    """

    root: Path
    design: Design
    family: str
    buffer: tuple[int, int] | None = None
    ram: int = 0x8000_0000
    system: dict[int, int] = field(default_factory=dict)
    lines: list[int] = field(default_factory=lambda: [0, 1, 0, 1, 1, 1, 1])
    build: int | None = None
    silent: bool = False
    sync_mode: int = 1
    uio: bool = True
    interrupt: bool = True
    log: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.system = {**HEALTHY[self.family], **self.system}
        self._counted = 0

    @property
    def _clocked(self) -> bool:
        """True when the logic answers an access at all."""
        if self.family == "zynq7000":
            return not self.system.get(0xF800_0178, 0) & 1 and self.system[0xF800_0900] == 0xF and bool(self.lines[4])
        return bool(self.system[0xFF5E_00C0] >> 24 & 1) and bool(self.lines[4])

    def _lay_out(self) -> SimulatedNpu:
        """Make the files, and the NPU over the memory that it reads."""
        dev, classes = self.root / "dev", self.root / "sys" / "class"
        for folder in (dev, classes / "uio", classes / "u-dma-buf", self.root / "proc" / "device-tree"):
            folder.mkdir(parents=True, exist_ok=True)
        compatible = f"xlnx,board\0{PLATFORMS[self.family].compatible}\0"
        (self.root / "proc" / "device-tree" / "compatible").write_text(compatible)
        (dev / "gpiochip0").touch()
        with (dev / "mem").open("wb") as memory:
            memory.truncate(MEMORY_BYTES)
        file, base, size, offset = dev / "mem", self.ram, RAM_BYTES, self.ram
        if self.buffer is not None:
            file, (base, size), offset = dev / "udmabuf0", self.buffer, 0
            attributes = classes / "u-dma-buf" / "udmabuf0"
            attributes.mkdir(exist_ok=True)
            for name, text in (("phys_addr", f"{base:#018x}"), ("size", f"{size}"), ("sync_mode", f"{self.sync_mode}")):
                (attributes / name).write_text(text + "\n")
            file.write_bytes(bytes(size))
        if self.uio:
            (classes / "uio" / "uio0").mkdir(exist_ok=True)
            (classes / "uio" / "uio0" / "name").write_text("fluidnpu\n")
            (classes / "uio" / "uio0" / "event").write_text("0\n")
            (dev / "uio0").write_bytes(b"")
        storage = np.memmap(file, np.uint8, "r+", offset=offset, shape=(size,))
        dram = SimulatedMemory(base=base, storage=storage)
        dram.allocate(size)
        return SimulatedNpu(self.design, clock=WallClock(), memory=dram, build=self.build)

    def attribute(self, name: str) -> str:
        """Read an attribute of the u-dma-buf."""
        return (self.root / "sys/class/u-dma-buf/udmabuf0" / name).read_text().strip()

    def _access(self, npu: SimulatedNpu, verb: int, value: int, address: int) -> tuple[int, int]:
        """Answer one access: (1 for a hang, the word read)."""
        if verb == LINE:
            number = address - EMIO[self.family]
            return 0, self.lines[number] if 0 <= number < len(self.lines) else 0
        offset = address - PLATFORMS[self.family].registers_base
        if not 0 <= offset < WINDOW_BYTES:
            self.log.append((verb, address))
            return 0, self.system.get(address, 0)
        if not self._clocked:
            return 1, 0
        if self.silent:
            return 0, 0xFFFF_FFFF
        if verb == READ:
            return 0, npu.read(offset)
        npu.write(offset, value)
        self._count_interrupt(npu)
        return 0, 0

    def _count_interrupt(self, npu: SimulatedNpu) -> None:
        """Count the NPU's interrupt in the UIO device, once for each time that it was let through."""
        enabled = self.uio and self.interrupt and (self.root / "dev" / "uio0").stat().st_size
        if enabled and npu.irq:
            self._counted += 1
            (self.root / "sys/class/uio/uio0/event").write_text(f"{self._counted}\n")
            (self.root / "dev" / "uio0").write_bytes(b"")

    def run(
        self, words: Sequence[str], env: Mapping[str, str] | None = None, timeout: float = PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the board."""
        npu = self._lay_out()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        setting = {
            **os.environ,
            "LD_PRELOAD": str(_compiled(self.root.parent)),
            "EMU_ROOT": str(self.root),
            "EMU_SOCKET": str(theirs.fileno()),
            "EMU_RAM": f"{self.ram:x}:{RAM_BYTES:x}",
            "EMU_GPIO": LABELS[self.family],
            **(env or {}),
        }
        with _answering(ours, lambda *access: self._access(npu, *access)), theirs:
            return subprocess.run(
                list(words), env=setting, pass_fds=[theirs.fileno()], capture_output=True, text=True, timeout=timeout
            )


@contextmanager
def _answering(ours: socket.socket, answer: object) -> Iterator[None]:
    """Answer messages in a thread until the other end closes."""
    assert callable(answer)

    def serve() -> None:
        while request := ours.recv(16):
            verb, value, address = struct.unpack("<IIQ", request)
            ours.send(struct.pack("<II", *answer(verb, value, address)))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(PATIENCE_S)
        ours.close()
