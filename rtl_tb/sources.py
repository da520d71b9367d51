"""The SystemVerilog of the data plane as text: the files of `rtl/` and the generated packages, in compile order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from fluidnpu.hls import sv_packages


@cache
def sources() -> dict[str, str]:
    """File name -> text; packages first, so that any tool may read them in this order."""
    rtl = {
        item.name: item.read_text()
        for item in files("fluidnpu.rtl_tb").joinpath("rtl").iterdir()
        if item.name.endswith(".sv")
    }
    packages = {name: text for name, text in sorted(rtl.items()) if name.endswith("_pkg.sv")}
    modules = {name: text for name, text in sorted(rtl.items()) if not name.endswith("_pkg.sv")}
    return {**sv_packages(), **packages, **modules}


def needed(texts: Mapping[str, str], top: str) -> dict[str, str]:
    """The files that module `top` reaches by name, in the order of `texts`: one module, one file, one name.

    >>> list(needed(sources(), "axi_read_master"))
    ['axi_read_master.sv', 'fluidnpu_fifo.sv']
    """
    names = {name.removesuffix(".sv") for name in texts}
    found, todo = set(), [top]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += names & set(re.findall(r"\w+", re.sub(r"//.*", "", texts[f"{name}.sv"])))
    return {name: text for name, text in texts.items() if name.removesuffix(".sv") in found}
