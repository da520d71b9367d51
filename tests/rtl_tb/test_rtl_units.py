"""Every module of the data plane alone; the masters are in test_rtl_masters, the whole in test_rtl_data_plane."""

import pytest

from rtl_tb import Model, run, sources
from rtl_tb.benches.units import UNITS


@pytest.mark.parametrize(
    "b_max", [4, pytest.param(1, marks=pytest.mark.long), pytest.param(16, marks=pytest.mark.long)]
)
def test_engine(b_max: int) -> None:
    model = Model(top="fluid_batching_engine", parameters={"BMax": b_max, "Layers": 3})
    assert len(run(model, "engine", env={"B_MAX": str(b_max)})) == 2


@pytest.mark.long
def test_engine_without_stackable_but_split() -> None:
    model = Model(top="fluid_batching_engine", parameters={"BMax": 8, "Layers": 5, "Stackable": 0, "Split": 1})
    run(model, "engine", env={"B_MAX": "8", "LAYERS": "5", "STACKABLE": "0", "SPLIT": "1"})


def test_registers() -> None:
    shape = {"BMax": 5, "TP": 7, "TC": 300, "Stackable": 0, "Split": 1, "BuildId": 0x89AB_CDEF}
    assert len(run(Model(top="fluidnpu_regs", parameters=shape), "regs")) == 5


DEFAULT = ("fluidnpu_fifo", "fluidnpu_row_buffer", "fluidnpu_unpack")


@pytest.mark.parametrize(
    "name", [name if name in DEFAULT else pytest.param(name, marks=pytest.mark.long) for name in UNITS]
)
def test_unit(name: str) -> None:
    unit = UNITS[name]
    assert run(Model(top=name, parameters=unit.parameters), unit.bench, tests=unit.tests, env=unit.env)


def test_every_module_has_a_bench() -> None:
    modules = {
        name.removesuffix(".sv") for name in sources() if not name.startswith("core_") and not name.endswith("_pkg.sv")
    }
    elsewhere = {
        "axi_read_master",
        "axi_write_master",
        "axi_read_stripe",
        "axi_write_stripe",
        "axi_stripe_cut",
        "fluidnpu_gather_fifo",
        "fluid_batching_engine",
        "fluidnpu_regs",
        "fluidnpu_core",
        "fluidnpu_data_plane",
    }
    assert modules == set(UNITS) | elsewhere
