"""The SystemVerilog packages that are generated, by file name. Text only.

>>> sorted(sv_packages())
['fluidnpu_formats_pkg.sv', 'fluidnpu_registers_pkg.sv']
"""

from __future__ import annotations

from .formats import FORMATS_PACKAGE, render_format_package
from .registers import REGISTERS_PACKAGE, render_register_package


def sv_packages() -> dict[str, str]:
    """File name -> text of the packages of the register map and of the bit formats."""
    return {
        f"{REGISTERS_PACKAGE}.sv": render_register_package(),
        f"{FORMATS_PACKAGE}.sv": render_format_package(),
    }
