"""The simulated device's "bitstream": a text file with PS family and design, and the .hwh beside it.

A real board refuses it, since it has no bitstream header; the simulated device refuses all other files.
"""

from __future__ import annotations

from pathlib import Path

from fluidnpu.dse import Design, DesignError

from ...errors import BundleError
from .hwh import PS, hardware_description

_MAGIC = "fluidnpu simulated bitstream, schema 1"


def write_simulated_bitstream(folder: Path | str, design: Design, *, family: str = "zynq7000") -> Path:
    """Write `npu.bit` and `npu.hwh` into a folder, created if needed, and return the path of the former.

    Raises BundleError for a family that there is not.
    """
    if family not in PS:
        raise BundleError(f"the family of a board must be one of {', '.join(PS)}, not {family!r}")
    Path(folder).mkdir(parents=True, exist_ok=True)
    bit = Path(folder) / "npu.bit"
    bit.write_text(f"{_MAGIC}\n{family}\n{design.dumps()}", encoding="utf-8")
    bit.with_suffix(".hwh").write_text(hardware_description(family, clock_hz=design.clock_hz), encoding="utf-8")
    return bit


def read_simulated_bitstream(path: Path | str) -> tuple[str, Design]:
    """Read (family, design) from a simulated bitstream. Raises BundleError for any other file."""
    try:
        magic, family, text = Path(path).read_text(encoding="utf-8").split("\n", 2)
    except (OSError, ValueError) as error:  # a real bitstream is no UTF-8 text, and UnicodeDecodeError is a ValueError
        raise BundleError(f"'{path}' must be a simulated bitstream, and it cannot be read as one: {error}") from None
    if magic != _MAGIC or family not in PS:
        raise BundleError(f"'{path}' must begin with {_MAGIC!r} and a family, not {magic[:60]!r}")
    try:
        return family, Design.loads(text, str(path))
    except DesignError as error:
        raise BundleError(str(error)) from None
