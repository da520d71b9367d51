"""Devices (simulated, PYNQ, /dev/mem), the driver, the runtime loop and the inference server."""

from .bundle import Bundle, bitstream
from .devices.device import ArrayBuffer, Buffer, Clock, Device, VirtualClock, WallClock
from .devices.devmem import DevMemNpu
from .devices.memory import SimulatedMemory
from .devices.opening import open_device
from .devices.pynq.bitstream import read_simulated_bitstream, write_simulated_bitstream
from .devices.pynq.classes import active_device, npu_of, open_overlay, simulated_pynq_device
from .devices.pynq.hwh import hardware_description
from .devices.rtl import RtlClock, RtlDevice, rtl_device
from .devices.simulated import Fault, SimulatedNpu
from .driver import MASK_SLOTS, PATIENCE, Driver, Job, Status, encode_image
from .errors import (
    BuildMismatch,
    BundleError,
    DeviceAccessError,
    DeviceError,
    DriverUsageError,
    GaveUpError,
    HostError,
    NpuError,
    NpuTimeout,
    OutOfMemory,
    PynqMissingError,
    QueueFullError,
    ServerClosedError,
)
from .identity import build_id, shape_word
from .serving.runtime import Answer, Runtime, Served, serve
from .serving.server import Server

__all__ = [
    "MASK_SLOTS",
    "PATIENCE",
    "Answer",
    "ArrayBuffer",
    "Buffer",
    "BuildMismatch",
    "Bundle",
    "BundleError",
    "Clock",
    "DevMemNpu",
    "Device",
    "DeviceAccessError",
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
    "PynqMissingError",
    "QueueFullError",
    "RtlClock",
    "RtlDevice",
    "Runtime",
    "Served",
    "Server",
    "ServerClosedError",
    "SimulatedMemory",
    "SimulatedNpu",
    "Status",
    "VirtualClock",
    "WallClock",
    "active_device",
    "bitstream",
    "build_id",
    "encode_image",
    "hardware_description",
    "npu_of",
    "open_device",
    "open_overlay",
    "read_simulated_bitstream",
    "rtl_device",
    "serve",
    "shape_word",
    "simulated_pynq_device",
    "write_simulated_bitstream",
]
