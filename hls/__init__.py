"""From a design to hardware: the register map, the NPU program, Vivado HLS C++ and project files, and C simulation."""

from .descriptor import DESCRIPTOR_BYTES, NO_WEIGHTS, Descriptor, DescriptorError
from .registers import REGISTERS, WINDOW_BYTES, Access, Cause, Field, Register, by_name

__all__ = [
    "DESCRIPTOR_BYTES",
    "NO_WEIGHTS",
    "REGISTERS",
    "WINDOW_BYTES",
    "Access",
    "Cause",
    "Descriptor",
    "DescriptorError",
    "Field",
    "Register",
    "by_name",
]
