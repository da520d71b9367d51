"""The SystemVerilog of the data plane as text: the files of `rtl/` and the generated register package, in compile order."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from .package import PACKAGE, render_package


@cache
def sources() -> dict[str, str]:
    """File name -> text; packages first, so that any tool may read them in this order."""
    rtl = {
        item.name: item.read_text() for item in files("rtl_tb").joinpath("rtl").iterdir() if item.name.endswith(".sv")
    }
    packages = {name: text for name, text in sorted(rtl.items()) if name.endswith("_pkg.sv")}
    modules = {name: text for name, text in sorted(rtl.items()) if not name.endswith("_pkg.sv")}
    return {f"{PACKAGE}.sv": render_package(), **packages, **modules}
