"""Devices (simulated, PYNQ, /dev/mem), the driver, the runtime loop and the inference server."""

from .bundle import Bundle, bitstream
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
    QueueFullError,
    ServerClosedError,
)
from .identity import build_id, shape_word
from .memory import SimulatedMemory
from .runtime import Answer, Runtime, Served, serve
from .server import Server
from .simulated import Fault, SimulatedNpu

__all__ = [
    "MASK_SLOTS",
    "Answer",
    "ArrayBuffer",
    "Buffer",
    "BuildMismatch",
    "Bundle",
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
    "QueueFullError",
    "Runtime",
    "Served",
    "Server",
    "ServerClosedError",
    "SimulatedMemory",
    "SimulatedNpu",
    "Status",
    "VirtualClock",
    "WallClock",
    "bitstream",
    "build_id",
    "encode_image",
    "serve",
    "shape_word",
]
