"""`--registers` and `--reserved`: the physical addresses of an NPU that is opened without PYNQ."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from ...errors import UsageError

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def ADDRESSES(command: Callable[..., Any]) -> Callable[..., Any]:  # noqa: N802  -- as the options that several commands share
    """Add both options to a command."""
    reserved = click.option(
        "--reserved",
        metavar="ADDRESS:SIZE",
        help="devmem: physical memory that Linux leaves to the NPU, such as 0x30000000:128MiB  [default: the programmable "
        "logic's own]",
    )
    registers = click.option(
        "--registers",
        metavar="ADDRESS",
        help="devmem: physical address of the NPU's registers  [default: that of the board's generated design]",
    )
    return registers(reserved(command))


def physical(registers: str | None, reserved: str | None) -> dict[str, Any]:
    """Read both addresses, as `host.open_device` takes them. Raises UsageError."""
    return {
        "registers": None if registers is None else _address("--registers", registers),
        "reserved": None if reserved is None else parse_reserved(reserved),
    }


def parse_reserved(text: str) -> tuple[int, int]:
    """Read physical address and bytes of memory. Raises UsageError.

    >>> parse_reserved("0x30000000:128MiB")
    (805306368, 134217728)
    """
    address, _, size = text.partition(":")
    match = re.fullmatch(rf"(\d+)({'|'.join(_UNITS)})", size, re.ASCII)
    if match is None:
        raise UsageError(f"--reserved must be ADDRESS:SIZE such as 0x30000000:128MiB, not '{text}'")
    return _address("--reserved", address), int(match[1]) * _UNITS[match[2]]


def _address(option: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise UsageError(f"{option} must have a physical address such as 0x30000000, not '{text}'") from None
