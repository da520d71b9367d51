"""Every RTL module has its twin in the exact model, or a reason to have none."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from fluidnpu.rtl_tb import sources

TWIN = Path(__file__).resolve().parent.parent.parent / "dse" / "exact" / "twin"
DATA = "moves data only; its delay is part of core_array's or core_finish's"
LANE = "moves data only; its delay is part of fluidnpu_activation's"
BYTES = "moves data only; its delays at 8 bits are numbers of the array (`Array.late`, `.finish_steps`)"
TYPES = "types and constants"
WITHOUT = {
    "common_reset": "a job begins long after its reset has gone",
    "core_bank": DATA,
    "core_chain": DATA,
    "core_gather": DATA,
    "core_mac": DATA,
    "core_packed_array": BYTES,
    "core_packed_chain": BYTES,
    "core_packed_mac": BYTES,
    "core_packed_pe": BYTES,
    "core_pe": DATA,
    "core_pe_split": DATA,
    "core_requantise": DATA,
    "core_rescale": BYTES,
    "core_scale": BYTES,
    "core_skew": DATA,
    "core_weight_bus": DATA,
    "core_pkg": TYPES,
    "fluidnpu_activation_lane": LANE,
    "fluidnpu_output_filter_bytes": "moves data only; its delay is part of fluidnpu_output_filter's",
    "fluidnpu_output_filter_lane": "moves data only; its delay is part of fluidnpu_output_filter's",
    "fluidnpu_counters": "counts what the other modules do, and delays none of them",
    "fluidnpu_formats_pkg": TYPES,
    "fluidnpu_multiplier": LANE,
    "fluidnpu_pkg": TYPES,
    "fluidnpu_registers_pkg": TYPES,
    "fluidnpu_regs": "a job begins behind the write of START, and nothing is written during it",
}
MODULES = sorted(name.removesuffix(".sv") for name in sources())


def named() -> dict[str, set[str]]:
    """The names in backticks of each file's head."""
    heads = {path.name: ast.get_docstring(ast.parse(path.read_text())) or "" for path in sorted(TWIN.rglob("*.py"))}
    return {name: set(re.findall(r"`(\w+)`", head)) for name, head in heads.items()}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_named_by_one_file_of_the_twin_or_needs_none(module: str) -> None:
    files = [name for name, names in named().items() if module in names]
    assert len(files) == (0 if module in WITHOUT else 1), f"{module} is named by {files or 'no file'}"


def test_the_twin_names_no_module_that_is_gone() -> None:
    prefixes = ("axi_", "common_", "core_", "fluidnpu_")
    names = {name for names in named().values() for name in names if name.startswith(prefixes)}
    assert names <= set(MODULES)
    assert set(WITHOUT) <= set(MODULES)
