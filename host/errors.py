"""The errors of the host room, as one tree. A ValueError is the caller's fault, a RuntimeError the world's.

    HostError
    ├── BundleError (ValueError)      a folder is not a bundle, or its files do not belong together
    ├── DriverUsageError (ValueError) a slot, stage, exit or image that this program does not have
    ├── PynqMissingError (ImportError) a PYNQ device was asked for where PYNQ is not installed
    ├── QueueFullError (RuntimeError) the server has reached its limit of requests
    ├── ShedError (RuntimeError)      the policy refused the request, since its objective could not be met
    │   └── ExpiredError              the request was still in the queue when its own timeout passed
    ├── DeviceInUseError (RuntimeError) another server, or another process, owns the device
    ├── ModelUnavailableError (RuntimeError) a model is not loaded, or its device is being recovered
    ├── ProtocolError (ValueError)    a request that the protocol or the model does not allow
    │   ├── TooLargeError             a body, a batch or a tensor above the server's limits
    │   ├── ConflictError             a key that came with another content, labels where nothing adapts
    │   ├── UnknownRegionError        a region of shared memory that is not registered, or has no object
    │   └── UnsupportedError          a part of the protocol that this server does not have
    ├── UnknownModelError (ValueError) a name or version that the server does not have
    ├── AccessError (RuntimeError)    a request without the token, or for the admin surface elsewhere
    ├── RemoteError (RuntimeError)    a server could not be reached, or failed in an unknown way
    │   └── BoardError                a board of a fleet is silent, lost, or not the one of its bundle
    ├── ServerClosedError (RuntimeError) the server takes no more requests, or did not end in time
    └── DeviceError (RuntimeError)    the device, or the memory behind it, failed
        ├── BuildMismatch             the device was built from another design than the bundle
        ├── NpuTimeout                a wait passed its deadline
        ├── NpuError                  the ERROR register holds a cause
        ├── IntegrityError            program, registers or results on the device are damaged
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


class ShedError(HostError, RuntimeError):
    """The policy refused the request, which has no answer; `waited_ns` is its time in the queue."""

    def __init__(self, message: str, waited_ns: int = 0) -> None:
        super().__init__(message)
        self.waited_ns = waited_ns


class ExpiredError(ShedError):
    """The request was still in the queue when the timeout that it came with passed."""


class ModelUnavailableError(HostError, RuntimeError):
    """The model is not loaded, or its device failed and is being recovered; a later attempt may succeed."""


class ProtocolError(HostError, ValueError):
    """A request that the protocol or the model does not allow."""


class TooLargeError(ProtocolError):
    """A body, a batch or a tensor is above the limits of the server."""


class ConflictError(ProtocolError):
    """The request does not fit the state: a key with another content, or labels where nothing adapts."""


class UnknownRegionError(ProtocolError):
    """A region of shared memory is not registered, or there is no object behind it."""


class UnsupportedError(ProtocolError):
    """The request asks for a part of the protocol that this server does not have."""


class UnknownModelError(HostError, ValueError):
    """The server has no model of this name, or not this version of it."""


class AccessError(HostError, RuntimeError):
    """The request lacks the server's token, or asks for the admin surface where it is not."""

    def __init__(self, message: str, *, known: bool = False) -> None:
        super().__init__(message)
        self.known = known  # True: who asks is known, and may not


class RemoteError(HostError, RuntimeError):
    """A server could not be reached, or failed in a way that has no class of its own here."""


class BoardError(RemoteError):
    """A board of a fleet is silent (it may be at work), lost, or not the one that its bundle was made for."""

    def __init__(self, message: str, *, silent: bool = False) -> None:
        super().__init__(message)
        self.silent = silent


class DeviceInUseError(HostError, RuntimeError):
    """Another server of this process, or another process, owns the device."""


class ServerClosedError(HostError, RuntimeError):
    """The server takes no more requests, or did not end in time; a failure that closed it is the cause."""


class DeviceError(HostError, RuntimeError):
    """The device or the memory behind it failed; a soft reset and another attempt may help."""


class BuildMismatch(DeviceError):  # noqa: N818  -- named as what happened
    """The device was built from another design than the one the host holds; nothing was run."""

    def __init__(self, *, what: str, expected: int, found: int, hint: str = "") -> None:
        super().__init__(f"{what} of the NPU must be {expected:#010x} for this design, not {found:#010x}{hint}")
        self.what, self.expected, self.found = what, expected, found


class NpuTimeout(DeviceError):  # noqa: N818  -- named as what happened
    """A wait passed its deadline; `layer` is the layer that the heartbeat reported."""

    def __init__(self, *, waited_ns: int, layer_index: int, layer: str, slots: tuple[int, ...]) -> None:
        super().__init__(
            f"no answer from the NPU within {waited_ns / 1e6:.3f} ms; it stands in layer {layer_index} ('{layer}') "
            f"with slots {_list_slots(slots)} active"
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
            f"the NPU reports {cause.name} in layer {layer_index} ('{layer}') with slots {_list_slots(slots)} active"
        )
        self.cause, self.layer_index, self.layer, self.slots = cause, layer_index, layer, slots

    @property
    def batch(self) -> int:
        """Number of active samples."""
        return len(self.slots)


class IntegrityError(DeviceError):
    """The program in memory, a register or a job's results are not what the host wrote or may expect."""


class DeviceAccessError(DeviceError):
    """The device cannot be opened or mapped, its bus failed, or nothing answers there."""


class OutOfMemory(DeviceError):  # noqa: N818  -- named as what happened
    """The device has no contiguous memory of the requested size left."""


class GaveUpError(DeviceError):
    """A job failed every attempt; the last failure is the cause. Its requests, `request_ids`, are dropped."""

    def __init__(self, message: str, request_ids: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.request_ids = request_ids


def _list_slots(slots: tuple[int, ...]) -> str:
    return ", ".join(map(str, slots)) or "none"
