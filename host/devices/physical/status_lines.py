"""Status lines of the block design, read through Linux' GPIO devices. They answer whatever the NPU does.

A read of the NPU's own registers halts the processor while the clock is off or no bitstream is loaded. So the
block design wires what must be known before to inputs of the processing system's GPIO controller (EMIO), and
Linux' driver reads them: it also switches that controller's clock on, which is off while nobody asks.

Source: linux/gpio.h, version 1 of its interface, which all kernels from 4.8 on have; drivers/gpio/gpio-zynq.c
for labels and the number of the first EMIO line.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Mapping, Sequence

from fluidnpu.hls.project import STATUS_LINES, STATUS_SIGNATURE

from ...errors import DeviceAccessError
from .places import BOARD, Places

# label and first EMIO line of a family's controller
CHIPS: Mapping[str, tuple[str, int]] = {"zynq7000": ("zynq_gpio", 54), "zynquplus": ("zynqmp_gpio", 78)}

CHIP_INFO = struct.Struct("32s32sI")  # struct gpiochip_info: name, label, lines
LINE_HANDLE = struct.Struct("64II64s32sIi")  # struct gpiohandle_request: offsets, flags, defaults, consumer, lines, fd
LINE_VALUES = struct.Struct("64B")  # struct gpiohandle_data
INPUT = 1  # GPIOHANDLE_REQUEST_INPUT


def _request(number: int, size: int, direction: int) -> int:
    """Encode a request of GPIO devices as asm-generic/ioctl.h does; direction: 2 read, 3 read and write."""
    return direction << 30 | size << 16 | 0xB4 << 8 | number


GET_CHIP_INFO = _request(0x01, CHIP_INFO.size, 2)
GET_LINE_HANDLE = _request(0x03, LINE_HANDLE.size, 3)
GET_LINE_VALUES = _request(0x08, LINE_VALUES.size, 3)


def read_status_lines(family: str, places: Places = BOARD) -> dict[str, bool]:
    """Read the lines that the block design wires, by name: `clock_locked`, `out_of_reset`, `memory_ready`.

    Raises DeviceAccessError where the lines cannot be read, or do not carry the signature of our bitstreams.
    """
    label, first = CHIPS[family]
    width = len(STATUS_SIGNATURE) + len(STATUS_LINES)
    values = _read_lines(label, range(first, first + width), places)
    if tuple(values[: len(STATUS_SIGNATURE)]) != STATUS_SIGNATURE:
        raise DeviceAccessError(
            f"a bitstream of fluidnpu must be loaded, which drives GPIO lines {first} to {first + 3} with "
            f"{_bits(STATUS_SIGNATURE)}, and they read {_bits(values[: len(STATUS_SIGNATURE)])}"
        )
    return dict(zip(STATUS_LINES, map(bool, values[len(STATUS_SIGNATURE) :]), strict=True))


def _bits(values: Sequence[int]) -> str:
    return "".join(map(str, values))


def _read_lines(label: str, lines: range, places: Places) -> list[int]:
    for device in sorted(places.devices.glob("gpiochip*")):
        try:
            fd = os.open(device, os.O_RDWR)
            try:
                if _label(fd) == label:
                    return _values(fd, lines)
            finally:
                os.close(fd)
        except OSError as error:
            raise DeviceAccessError(
                f"lines {lines[0]} to {lines[-1]} of '{device}' must be readable, and they are not: {error.strerror}"
            ) from None
    raise DeviceAccessError(
        f"the GPIO controller '{label}' must be among '{places.devices}/gpiochip*', and it is not: the kernel needs "
        "CONFIG_GPIO_ZYNQ and CONFIG_GPIO_CDEV_V1"
    )


def _label(fd: int) -> str:
    info = bytearray(CHIP_INFO.size)
    fcntl.ioctl(fd, GET_CHIP_INFO, info)
    label: bytes = CHIP_INFO.unpack(info)[1]
    return label.split(b"\0")[0].decode(errors="replace")


def _values(fd: int, lines: range) -> list[int]:
    offsets = [*lines, *[0] * (64 - len(lines))]
    request = bytearray(LINE_HANDLE.pack(*offsets, INPUT, b"", b"fluidnpu", len(lines), -1))
    fcntl.ioctl(fd, GET_LINE_HANDLE, request)
    handle = LINE_HANDLE.unpack(request)[-1]
    try:
        values = bytearray(LINE_VALUES.size)
        fcntl.ioctl(handle, GET_LINE_VALUES, values)
    finally:
        os.close(handle)
    return list(LINE_VALUES.unpack(values)[: len(lines)])
