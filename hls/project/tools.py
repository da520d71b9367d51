"""The vendor's tools of two generations, and what differs between them. Facts only.

Sources: UG902 (v2019.2) for Vivado HLS; UG1399 (v2022.1), "Migrating to Vitis HLS", for Vitis HLS; the block
designs of PYNQ v2.6 and v3.0.1 (github.com/Xilinx/PYNQ, boards/ZCU104/base) for versions of IP and for where
Vivado leaves the hardware description; the change log of boards/Xilinx/kv260_som
(github.com/Xilinx/XilinxBoardStore), which begins with 2020.2.2, for the first tools that know a Kria.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core.dialect import Dialect


@dataclass(frozen=True, kw_only=True)
class Tools:
    """One generation of Vivado with its HLS compiler.

    `version` is that for which projects are written; `later`: later ones take them too. `stream_suffix`
    follows the name of a top-level stream in RTL. `ip_versions`: where they are not those of `platform.py`.
    `unknown_parts`: how parts begin that came later.
    """

    version: str
    later: bool
    hls: str
    hls_title: str
    dialect: Dialect
    solution_options: str
    cflags: str
    configurations: tuple[str, ...]
    stream_suffix: str
    sources: str
    ip_versions: Mapping[str, str] = field(default_factory=dict)
    unknown_parts: tuple[str, ...] = ()

    def vlnv(self, vlnv: str) -> str:
        """The VLNV of an IP in these tools."""
        name = vlnv.rpartition(":")[0]
        return f"{name}:{self.ip_versions[name]}" if name in self.ip_versions else vlnv


TOOLS: Mapping[str, Tools] = {
    "2019.2": Tools(
        version="2019.2",
        later=False,
        hls="vivado_hls",
        hls_title="Vivado HLS",
        dialect=Dialect.VIVADO_HLS,
        solution_options="",
        cflags="-std=c++0x",
        configurations=("config_array_partition -maximum_size 4096",),
        stream_suffix="_V_V",
        sources="srcs",
        unknown_parts=("xck",),  # Kria SOMs
    ),
    "2022.1": Tools(
        version="2022.1",
        later=True,
        hls="vitis_hls",
        hls_title="Vitis HLS",
        dialect=Dialect.VITIS_HLS,
        solution_options="-flow_target vivado ",
        cflags="-std=c++14",
        configurations=(),
        stream_suffix="",
        sources="gen",
        ip_versions={"xilinx.com:ip:zynq_ultra_ps_e": "3.4"},
    ),
}
