"""The pragmas of the core in the words of Vivado HLS or of Vitis HLS. Pure text.

The templates are written for Vivado HLS 2019.2. Vitis HLS names storage, packing and most options otherwise
(UG1399, v2022.1, chapters "HLS Pragmas" and "Migrating to Vitis HLS").

>>> in_dialect("#pragma HLS RESOURCE variable=q core=FIFO_SRL", Dialect.VITIS_HLS)
'#pragma HLS BIND_STORAGE variable=q type=fifo impl=srl'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

_RULES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"RESOURCE variable=(\w+) core=(RAM_2P|FIFO)_(\w+)", lambda m: _storage(m[1], m[2], m[3])),
    (r"DATA_PACK variable=(\w+)", lambda m: f"AGGREGATE variable={m[1]} compact=bit"),
    (r"ARRAY_PARTITION variable=([\w.]+) complete", lambda m: f"ARRAY_PARTITION variable={m[1]} type=complete"),
    (
        r"DEPENDENCE variable=(\w+) inter RAW false",
        lambda m: f"DEPENDENCE variable={m[1]} type=inter direction=RAW dependent=false",
    ),
    (r"INTERFACE (axis|ap_ctrl_none) port=", lambda m: f"INTERFACE mode={m[1]} port="),
)


class Dialect(Enum):
    """The HLS compiler that pragmas are written for."""

    VIVADO_HLS = "vivado_hls"
    VITIS_HLS = "vitis_hls"


def _storage(variable: str, kind: str, cell: str) -> str:
    return f"BIND_STORAGE variable={variable} type={kind.lower()} impl={cell.lower()}"


def in_dialect(text: str, dialect: Dialect) -> str:
    """Write the pragmas of a text, which are those of Vivado HLS, for `dialect`."""
    if dialect is Dialect.VIVADO_HLS:
        return text
    for pattern, replacement in _RULES:
        text = re.sub(rf"(?<=#pragma HLS ){pattern}", replacement, text)
    return text
