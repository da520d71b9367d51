"""The structures of Linux' GPIO interface, held to the header of this machine, and what a board may lack."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fluidnpu.host import DeviceAccessError
from fluidnpu.host.devices.physical import status_lines
from fluidnpu.host.devices.physical.places import Places

PROGRAM = """
#include <stdio.h>
#include <linux/gpio.h>
int main(void) {
    printf("%zu %zu %zu %lu %lu %lu %d\\n", sizeof(struct gpiochip_info), sizeof(struct gpiohandle_request),
           sizeof(struct gpiohandle_data), (unsigned long)GPIO_GET_CHIPINFO_IOCTL, (unsigned long)GPIO_GET_LINEHANDLE_IOCTL,
           (unsigned long)GPIOHANDLE_GET_LINE_VALUES_IOCTL, GPIOHANDLE_REQUEST_INPUT);
}
"""


def test_structures_and_requests_are_those_of_linux(tmp_path: Path) -> None:
    if shutil.which("gcc") is None or not Path("/usr/include/linux/gpio.h").exists():
        pytest.skip("needs a C compiler and linux/gpio.h")
    (tmp_path / "sizes.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-o", tmp_path / "sizes", tmp_path / "sizes.c"], check=True)
    said = subprocess.run([tmp_path / "sizes"], capture_output=True, text=True, check=True).stdout.split()
    lines = status_lines
    ours = (
        lines.CHIP_INFO.size, lines.LINE_HANDLE.size, lines.LINE_VALUES.size,
        lines.GET_CHIP_INFO, lines.GET_LINE_HANDLE, lines.GET_LINE_VALUES, lines.INPUT,
    )  # fmt: skip
    assert tuple(map(int, said)) == ours


def test_a_machine_without_the_controller_is_told(tmp_path: Path) -> None:
    with pytest.raises(DeviceAccessError, match=r"GPIO controller 'zynq_gpio' must be among .*CONFIG_GPIO_ZYNQ"):
        status_lines.read_status_lines("zynq7000", Places(devices=tmp_path))
    (tmp_path / "gpiochip0").touch()
    with pytest.raises(DeviceAccessError, match=r"lines 54 to 60 of '.*gpiochip0' must be readable, and they are not"):
        status_lines.read_status_lines("zynq7000", Places(devices=tmp_path))
