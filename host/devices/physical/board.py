"""Opening the NPU of this board: the checks, then the memory, then the registers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from fluidnpu.hls.project import PLATFORMS

from ...errors import DeviceAccessError
from ..device import Device
from .checkup import CheckupTarget, preflight, usable_buffer
from .devmem import DevMemNpu
from .places import BOARD, Places
from .regions import DmaRegion, Region, WordRegion

_PL_BYTES = 1 << 28  # mapped of the programmable logic's memory: enough for any program and its slots


@contextmanager
def open_npu(
    target: CheckupTarget, reserved: tuple[int, int] | None = None, places: Places = BOARD
) -> Iterator[Device]:
    """Check this board and map its NPU, its memory at `reserved` (physical address, bytes) or `region_for`.

    The checks need a board whose processing system is known. Raises DeviceAccessError.
    """
    if target.board is not None:
        for step in preflight(target, places):
            if step.passed is False:
                raise DeviceAccessError(step.said)
    with ExitStack() as opened:
        region = region_for(target, places) if reserved is None else WordRegion(places.memory, *reserved)
        opened.callback(region.close)
        yield opened.enter_context(DevMemNpu(register_base=target.registers, region=region, path=places.memory))


def region_for(target: CheckupTarget, places: Places = BOARD) -> Region:
    """Map the largest u-dma-buf in the memory that the NPU reads; without one, the logic's through /dev/mem.

    Raises DeviceAccessError where neither is there.
    """
    buffer = usable_buffer(target, places)
    if buffer is not None:
        return DmaRegion(buffer)
    pl = PLATFORMS[target.family].pl_memory
    if not target.in_logic or pl is None:
        raise DeviceAccessError(
            "the NPU reads the processors' memory, so a u-dma-buf must be there (software/fluidnpu.dtsi), or an address and "
            "a size that Linux leaves alone be given (--reserved)"
        )
    return WordRegion(places.memory, pl.base, _PL_BYTES)
