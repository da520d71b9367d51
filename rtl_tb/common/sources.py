"""The SystemVerilog as text: each subject's `rtl/` and the generated packages, in compile order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from fluidnpu.hls import sv_packages

SUBJECTS = ("common", "axi", "data_plane", "core", "npu")


@cache
def texts_of(folder: str, suffix: str = ".sv") -> dict[str, str]:
    """File name -> text of the files `<subject>/<folder>/*<suffix>` of all subjects; names are unique.

    >>> "fifo_contract.sv" in texts_of("proofs")
    True
    """
    folders = [files("fluidnpu.rtl_tb").joinpath(subject, folder) for subject in SUBJECTS]
    items = [item for place in folders if place.is_dir() for item in place.iterdir() if item.name.endswith(suffix)]
    return {item.name: item.read_text() for item in sorted(items, key=lambda item: item.name)}


@cache
def sources() -> dict[str, str]:
    """File name -> text; packages first, so that any tool may read them in this order."""
    rtl = texts_of("rtl")
    packages = {name: text for name, text in rtl.items() if name.endswith("_pkg.sv")}
    return {**sv_packages(), **packages, **rtl}


def needed(texts: Mapping[str, str], top: str) -> dict[str, str]:
    """The files that module `top` reaches by name, in the order of `texts`: one module, one file, one name.

    >>> list(needed(sources(), "axi_read_master"))
    ['axi_read_master.sv', 'common_fifo.sv']
    """
    names = {name.removesuffix(".sv") for name in texts}
    reached, todo = set(), [top]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += names & set(re.findall(r"\w+", re.sub(r"//.*", "", texts[f"{name}.sv"])))
    return {name: text for name, text in texts.items() if name.removesuffix(".sv") in reached}
