"""The errors of the host room, as one tree. A ValueError is the caller's fault, a RuntimeError the world's.

    HostError
    ├── BundleError (ValueError)      a folder is not a bundle, or its files do not belong together
    ├── DriverUsageError (ValueError) a slot, stage, exit or image that this program does not have
    ├── PynqMissingError (ImportError) a PYNQ device was asked for where PYNQ is not installed
    ├── QueueFullError (RuntimeError) the server has reached its limit of requests
    ├── ServerClosedError (RuntimeError) the server takes no more requests, or did not end in time
    └── DeviceError (RuntimeError)    the device, or the memory behind it, failed
        ├── BuildMismatch             the device was built from another design than the bundle
        ├── NpuTimeout                a wait passed its deadline
        ├── NpuError                  the ERROR register holds a cause
        ├── DeviceAccessError         the device is not opened or mapped, or silent, or its bus failed
        ├── OutOfMemory               no contiguous memory is left
        └── GaveUpError               a job failed every attempt it was given

>>> str(NpuError(cause=Cause.WATCHDOG, layer_index=3, layer="conv2", slots=(0, 1)))
"the NPU reports WATCHDOG in layer 3 ('conv2') with slots 0, 1 active"
"""

from __future__ import annotations

from fluidnpu.hls import Cause


class HostError(Exception):
    """Base class of all errors of the host room."""


class BundleError(HostError, ValueError):
    """A folder is not a bundle, or its files do not belong together."""


class DriverUsageError(HostError, ValueError):
    """The caller named a slot, stage, exit or image that the program lacks, or asked out of order."""


class PynqMissingError(HostError, ImportError):
    """A PYNQ device was asked for where PYNQ is not installed."""


class QueueFullError(HostError, RuntimeError):
    """The server has reached its limit of unanswered requests; a later attempt may succeed."""


class ServerClosedError(HostError, RuntimeError):
    """The server takes no more requests, or did not end in time; a failure that closed it is the cause."""


class DeviceError(HostError, RuntimeError):
    """The device or the memory behind it failed; a soft reset and another attempt may help."""


class BuildMismatch(DeviceError):  # noqa: N818  -- named as what happened
    """The device was built from another design than the one the host holds; nothing was run."""

    def __init__(self, *, what: str, expected: int, found: int) -> None:
        super().__init__(f"{what} of the NPU must be {expected:#010x} for this design, not {found:#010x}")
        self.what, self.expected, self.found = what, expected, found


class NpuTimeout(DeviceError):  # noqa: N818  -- named as what happened
    """A wait passed its deadline; `layer` is the layer that the heartbeat reported."""

    def __init__(self, *, waited_ns: int, layer_index: int, layer: str, slots: tuple[int, ...]) -> None:
        super().__init__(
            f"no answer from the NPU within {waited_ns / 1e6:.3f} ms; it stands in layer {layer_index} ('{layer}') "
            f"with slots {_listed(slots)} active"
        )
        self.waited_ns, self.layer_index, self.layer, self.slots = waited_ns, layer_index, layer, slots

    @property
    def batch(self) -> int:
        """Number of active samples."""
        return len(self.slots)


class NpuError(DeviceError):
    """The ERROR register holds a cause; layer and active slots are named with it."""

    def __init__(self, *, cause: Cause, layer_index: int, layer: str, slots: tuple[int, ...]) -> None:
        super().__init__(
            f"the NPU reports {cause.name} in layer {layer_index} ('{layer}') with slots {_listed(slots)} active"
        )
        self.cause, self.layer_index, self.layer, self.slots = cause, layer_index, layer, slots

    @property
    def batch(self) -> int:
        """Number of active samples."""
        return len(self.slots)


class DeviceAccessError(DeviceError):
    """The device cannot be opened or mapped, its bus failed, or nothing answers there."""


class OutOfMemory(DeviceError):  # noqa: N818  -- named as what happened
    """The device has no contiguous memory of the requested size left."""


class GaveUpError(DeviceError):
    """A job failed every attempt; the last failure is the cause. Its requests, `request_ids`, are dropped."""

    def __init__(self, message: str, request_ids: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.request_ids = request_ids


def _listed(slots: tuple[int, ...]) -> str:
    return ", ".join(map(str, slots)) or "none"
