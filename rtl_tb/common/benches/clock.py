"""Clock, reset, deadline and seeded random numbers of every bench; cocotb drives the clock on a top-level
port.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

Dut = Any  # a simulator handle; cocotb gives no types for a design's ports
Test = Callable[[Dut], Awaitable[None]]


def bench(timeout_us: int) -> Callable[[Test], Test]:
    """Make a cocotb test with a deadline in simulated microseconds; MOST_US in the environment limits it."""
    limited = min(timeout_us, int(os.environ.get("MOST_US", timeout_us)))
    return cast(Callable[[Test], Test], cocotb.test(timeout_time=limited, timeout_unit="us"))


async def begin(dut: Dut, **inputs: int) -> random.Random:
    """Drive the clock, reset with `inputs` set, return the bench's random numbers."""
    Clock(dut.clk_i, 10, "ns").start(start_high=False)
    await reset(dut, **inputs)
    return random.Random(cocotb.RANDOM_SEED)


async def reset(dut: Dut, **inputs: int) -> None:
    """Hold reset for four cycles with `inputs` set and all other `_i` ports 0, then wait until it has gone.

    It reaches the parts of a top two cycles late (`common_reset`).
    """
    for handle in dut:
        if handle._name.endswith("_i") and handle._name not in ("clk_i", "rst_ni"):
            handle.value = inputs.get(handle._name, 0)
    dut.rst_ni.value = 0
    for _ in range(4):
        await RisingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    for _ in range(3):
        await RisingEdge(dut.clk_i)


def setting(name: str, default: int) -> int:
    """A number from the environment, else the parameter that the module was built with (T_P: TP, DATA_BYTES:
    DataBytes).
    """
    built: dict[str, int] = json.loads(os.environ.get("PARAMETERS", "{}"))
    camel = "".join(part.capitalize() for part in name.split("_"))
    return int(os.environ.get(name, built.get(camel, default)))
