"""Devices (simulated, PYNQ, /dev/mem), the driver, the runtime loop and the inference server."""

from .device import ArrayBuffer, Buffer, Clock, Device, VirtualClock, WallClock
from .driver import MASK_SLOTS, Driver, Job, Status, encode_image
from .errors import (
    BuildMismatch,
    BundleError,
    DeviceError,
    DriverUsageError,
    GaveUpError,
    HostError,
    NpuError,
    NpuTimeout,
    OutOfMemory,
)
from .identity import build_id, shape_word
from .memory import SimulatedMemory
from .simulated import Fault, SimulatedNpu

__all__ = [
    "MASK_SLOTS",
    "ArrayBuffer",
    "Buffer",
    "BuildMismatch",
    "BundleError",
    "Clock",
    "Device",
    "DeviceError",
    "Driver",
    "DriverUsageError",
    "Fault",
    "GaveUpError",
    "HostError",
    "Job",
    "NpuError",
    "NpuTimeout",
    "OutOfMemory",
    "SimulatedMemory",
    "SimulatedNpu",
    "Status",
    "VirtualClock",
    "WallClock",
    "build_id",
    "encode_image",
    "shape_word",
]
