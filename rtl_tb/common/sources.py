"""The SystemVerilog as text: each subject's `rtl/` and the generated packages, in compile order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from fluidnpu.hls import sv_packages

from ..errors import SimulationError

SUBJECTS = ("common", "axi", "data_plane", "core", "npu")


@cache
def texts_of(folder: str, suffix: str = ".sv") -> dict[str, str]:
    """File name -> text of the files `<subject>/<folder>/*<suffix>` of all subjects; names are unique.

    >>> "fifo_contract.sv" in texts_of("proofs")
    True
    """
    folders = [files("fluidnpu.rtl_tb").joinpath(subject).joinpath(folder) for subject in SUBJECTS]
    items = [item for place in folders if place.is_dir() for item in place.iterdir() if item.name.endswith(suffix)]
    return {item.name: item.read_text() for item in sorted(items, key=lambda item: item.name)}


@cache
def sources() -> dict[str, str]:
    """File name -> text of all RTL; packages come first, so that any tool may read them in this order."""
    rtl = texts_of("rtl")
    packages = {name: text for name, text in rtl.items() if name.endswith("_pkg.sv")}
    return {**sv_packages(), **packages, **rtl}


def edited(texts: Mapping[str, str], edits: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Return the texts with each edit (file, old, new) made. Raises SimulationError unless `old` occurs
    exactly once.

    >>> edited({"a.sv": "x = 1;"}, [("a.sv", "1", "2")])
    {'a.sv': 'x = 2;'}
    """
    out = dict(texts)
    for name, old, new in edits:
        if out[name].count(old) != 1:
            raise SimulationError(f"an edit of {name} must match exactly once: {old!r}")
        out[name] = out[name].replace(old, new)
    return out


def needed(texts: Mapping[str, str], top: str) -> dict[str, str]:
    """The files that module `top` reaches by name, in the order of `texts`; each module has a file of its
    name.

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
