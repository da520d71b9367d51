"""Places of tensors in shared memory, as requests and answers name them: Triton's extension. Plain data.

Protocol: Triton, docs/protocol/extension_shared_memory.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import ProtocolError, UnsupportedError
from .parameters import LONGEST_ID, abbreviate, is_whole

Fetch = Callable[["RegionPlace", int], bytes]  # gives the bytes of a place, at most so many
Store = Callable[[str, "RegionPlace", bytes], None]  # takes an output by its name
_REGION, _OFFSET, _SIZE = "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size"


@dataclass(frozen=True, slots=True)
class RegionPlace:
    """A tensor's bytes in a region, by the region's name."""

    region: str
    offset: int
    size: int

    def to_json(self, size: int) -> dict[str, Any]:
        """Return the parameters of an answer whose tensor has `size` bytes here."""
        parameters: dict[str, Any] = {_REGION: self.region, _SIZE: size}
        return parameters | ({_OFFSET: self.offset} if self.offset else {})


def read_place(tensor: str, parameters: Mapping[str, Any]) -> RegionPlace | None:
    """Return the place that a tensor's parameters name, None where they name none. Raises ProtocolError."""
    if not {_REGION, _OFFSET, _SIZE} & set(parameters):
        return None
    region, offset, size = (parameters.get(key, default) for key, default in ((_REGION, ""), (_OFFSET, 0), (_SIZE, 0)))
    if not isinstance(region, str) or not 1 <= len(region) <= LONGEST_ID:
        raise ProtocolError(f"tensor '{tensor:.60}' must name its {_REGION}, not {abbreviate(region)}")
    for key, value, least in ((_OFFSET, offset, 0), (_SIZE, size, 1)):
        if not is_whole(value) or not least <= value < 1 << 62:
            raise ProtocolError(f"tensor '{tensor:.60}' must have a {key} from {least}, not {abbreviate(value)}")
    return RegionPlace(region, int(offset), int(size))


def elsewhere(*place: Any) -> Any:
    """Refuse a tensor in shared memory where there is none. Raises UnsupportedError."""
    raise UnsupportedError("a tensor must come in the request, or go in the answer: there is no shared memory here")
