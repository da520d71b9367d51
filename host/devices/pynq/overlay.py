"""Loading a bitstream through PYNQ, on a board or on a simulated device. Imports pynq only when asked.

`npu_of(overlay)` is the same on both: PYNQ binds `FluidNpuIP` to the NPU by its VLNV, and that driver is our
`Device`. They differ in the PYNQ device that the overlay is loaded on: a board's own, or
`simulated_pynq_device()`, whose "bitstream" is the design itself. Only the latter has been run so far.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from fluidnpu.hls.project import NPU_VLNV

from ...errors import BundleError, DeviceAccessError, HostError, PynqMissingError
from ..device import Clock, Device
from ..memory import SimulatedMemory


def _classes() -> ModuleType:
    """Import the classes that need pynq, which registers our driver. Raises PynqMissingError."""
    try:
        from . import classes
    except ImportError as error:
        raise PynqMissingError(
            "PYNQ must be installed for this device (pip install 'fluidnpu[board]', then pip install --no-deps pynq), "
            f"and it is not: {error}"
        ) from None
    return classes


def simulated_pynq_device(*, clock: Clock | None = None, memory: SimulatedMemory | None = None) -> Any:
    """Make a PYNQ device without silicon, for `open_overlay` or `pynq.Overlay(..., device=...)`.

    Raises PynqMissingError.
    """
    return _classes().SimulatedPynqDevice(clock=clock, memory=memory)


@contextmanager
def active_device(device: Any) -> Iterator[None]:
    """Make `device` the one PYNQ takes when none is named; afterwards the previous one is active again."""
    cls = _classes().pynq.Device
    before = getattr(cls, "_active_device", None)
    cls.active_device = device
    try:
        yield
    finally:
        if before is None:
            del cls._active_device
        else:
            cls.active_device = before


def open_overlay(bit: Path | str, device: Any = None) -> Device:
    """Download a bitstream and return its NPU, on this board or on a `simulated_pynq_device`.

    Raises PynqMissingError, BundleError, and DeviceAccessError where PYNQ finds no board or cannot load the
    bitstream.
    """
    pynq = _classes().pynq
    try:
        if device is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "No devices found")  # our sentence says it
                return npu_of(pynq.Overlay(str(bit)))
        with active_device(device):
            return npu_of(pynq.Overlay(str(bit), device=device))
    except HostError:
        raise
    except Exception as error:  # PYNQ says what it cannot do in errors of any kind
        reason = str(error) or type(error).__name__
        raise DeviceAccessError(f"PYNQ must load '{bit}' on a board, and it cannot: {reason}") from error


def npu_of(overlay: Any) -> Device:
    """Return the NPU of a loaded overlay, bound to our driver. Raises BundleError unless there is exactly
    one.
    """
    names = [name for name, ip in overlay.ip_dict.items() if ip["type"] == NPU_VLNV]
    if len(names) != 1:
        raise BundleError(f"an overlay must hold exactly one {NPU_VLNV}, and it holds {len(names)}")
    npu: Device = getattr(overlay, names[0])
    return npu
