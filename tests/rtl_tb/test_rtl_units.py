"""Every module of the data plane alone; the masters are in test_rtl_masters, the whole in test_rtl_data_plane."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from fluidnpu.rtl_tb import Model, run, sources
from fluidnpu.rtl_tb.simulation.units import UNITS
from fluidnpu.rtl_tb.common.sources import needed


@pytest.mark.parametrize(
    "b_max", [4, pytest.param(1, marks=pytest.mark.long), pytest.param(16, marks=pytest.mark.long)]
)
def test_engine(b_max: int) -> None:
    model = Model(top="fluidnpu_batching_engine", parameters={"BMax": b_max, "Layers": 3})
    assert len(run(model, "engine", env={"B_MAX": str(b_max)})) == 2


@pytest.mark.long
def test_engine_without_stackable_but_split() -> None:
    model = Model(top="fluidnpu_batching_engine", parameters={"BMax": 8, "Layers": 5, "Stackable": 0, "Split": 1})
    run(model, "engine", env={"B_MAX": "8", "LAYERS": "5", "STACKABLE": "0", "SPLIT": "1"})


def test_registers() -> None:
    shape = {"BMax": 5, "TP": 7, "TC": 300, "Stackable": 0, "Split": 1, "BuildId": 0x89AB_CDEF}
    assert len(run(Model(top="fluidnpu_regs", parameters=shape), "regs")) == 5


DEFAULT = ("common_fifo", "fluidnpu_row_buffer", "fluidnpu_unpack")


@pytest.mark.parametrize(
    "name", [name if name in DEFAULT else pytest.param(name, marks=pytest.mark.long) for name in UNITS]
)
def test_unit(name: str) -> None:
    unit = UNITS[name]
    assert run(Model(top=name, parameters=unit.parameters), unit.bench, tests=unit.tests, env=unit.env)


# Module -> the top in which a bench of another test meets it, and that bench.
ELSEWHERE = {
    "axi_read_master": ("axi_masters_top", "masters"),
    "axi_write_master": ("axi_masters_top", "masters"),
    "axi_read_stripe": ("axi_striped_masters_top", "stripes"),
    "axi_write_stripe": ("axi_striped_masters_top", "stripes"),
    "axi_stripe_cut": ("axi_striped_masters_top", "stripes"),
    "axi_gather_fifo": ("axi_striped_masters_top", "stripes"),
    "fluidnpu_batching_engine": ("fluidnpu_batching_engine", "engine"),
    "fluidnpu_regs": ("fluidnpu_regs", "regs"),
    "fluidnpu_core": ("fluidnpu_core", "core_handshake"),
    "fluidnpu_data_plane": ("fluidnpu_data_plane", "data_plane"),
}


def cocotb_tests(bench: str) -> list[str]:
    """The tests of a bench; FileNotFoundError when there is none of that name."""
    text = files("fluidnpu.rtl_tb").joinpath("benches", f"{bench}.py").read_text()
    return re.findall(r"@(?:bench|cocotb\.test)\([^\n]*\)\nasync def (\w+)", text)


def test_every_module_has_a_bench() -> None:
    modules = {
        name.removesuffix(".sv") for name in sources() if not name.startswith("core_") and not name.endswith("_pkg.sv")
    }
    assert modules == set(UNITS) | set(ELSEWHERE)


@pytest.mark.parametrize("module", UNITS)
def test_the_bench_of_a_unit_has_its_tests(module: str) -> None:
    unit = UNITS[module]
    assert [name for name in cocotb_tests(unit.bench) if re.search(unit.tests or "", name)]


@pytest.mark.parametrize("module", ELSEWHERE)
def test_a_bench_elsewhere_runs_the_module(module: str) -> None:
    """The bench exists, its top contains the module, and a test of this folder runs it."""
    top, bench = ELSEWHERE[module]
    harness = {item.name: item.read_text() for item in files("fluidnpu.rtl_tb").joinpath("formal").iterdir()}
    assert f"{module}.sv" in needed({**sources(), **harness}, top)
    assert cocotb_tests(bench)
    tests = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    assert any(re.search(rf'\brun\(.*"{bench}"', text) for text in tests)
