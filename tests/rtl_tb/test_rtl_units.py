"""Every module alone at the parameters of `UNITS`; the whole data plane is in test_rtl_data_plane, the core
in test_rtl_core.
"""

import re

import pytest
from needs import needs_libpython

from fluidnpu.rtl_tb import sources
from fluidnpu.rtl_tb.common.sources import needed, texts_of
from fluidnpu.rtl_tb.simulation.model import RtlModel, bench_module, run
from fluidnpu.rtl_tb.simulation.setups import parameters_of, setup
from fluidnpu.rtl_tb.simulation.units import UNITS

DEFAULT = (
    "common_fifo",
    "fluidnpu_row_buffer",
    "fluidnpu_unpack",
    "fluidnpu_activation",
    "fluidnpu_output_filter",
    "fluidnpu_batching_engine",
    "fluidnpu_regs",
)
DEFAULT_OF_BYTES = ("fluidnpu_output_filter", "fluidnpu_output_writer")
FEWER = {"fluidnpu_row_buffer": {"CASES": "50"}}  # for the default tests; every kind of case comes all the same
MASTERS = [name for name in UNITS if name.startswith("axi_")]  # run by test_rtl_masters and test_rtl_stripes


def cocotb_tests(bench: str) -> list[str]:
    """The tests of a bench; SimulationError when there is none of that name."""
    return re.findall(
        r"@(?:bench|cocotb\.test)\([^\n]*\)\nasync def (\w+)", BENCHES[bench_module(bench).rpartition(".")[2]]
    )


BENCHES = {name.removesuffix(".py"): text for name, text in texts_of("benches", ".py").items()}


@needs_libpython
@pytest.mark.parametrize(
    "name",
    [name if name in DEFAULT else pytest.param(name, marks=pytest.mark.long) for name in UNITS if name not in MASTERS],
)
def test_unit(name: str) -> None:
    assert run(RtlModel(top=name, parameters=UNITS[name]), env=FEWER.get(name)) == cocotb_tests(name)


@needs_libpython
@pytest.mark.long
@pytest.mark.parametrize("name", FEWER)
def test_unit_at_length(name: str) -> None:
    assert run(RtlModel(top=name, parameters=UNITS[name])) == cocotb_tests(name)


OF_WORDS = [name for name in UNITS if "WordBits" in parameters_of(name)]


@needs_libpython
@pytest.mark.parametrize(
    "name", [name if name in DEFAULT_OF_BYTES else pytest.param(name, marks=pytest.mark.long) for name in OF_WORDS]
)
def test_unit_of_bytes(name: str) -> None:
    """Words of 8 bits (ADR 75): odd numbers of them, and places at any byte."""
    ready = setup(name, {"WordBits": 8})
    assert run(ready.model, env=dict(ready.env)) == cocotb_tests(name)


@pytest.mark.long
@pytest.mark.parametrize("shape", [{"BMax": 1}, {"BMax": 16}, {"BMax": 8, "Layers": 5, "Stackable": 0, "Split": 1}])
def test_engines_of_other_shapes(shape: dict[str, int]) -> None:
    model = RtlModel(top="fluidnpu_batching_engine", parameters={**UNITS["fluidnpu_batching_engine"], **shape})
    assert len(run(model)) == 3


@pytest.mark.long
@pytest.mark.parametrize(
    "shape",
    [
        {"Dsp": 1},
        {"OutWords": 8},
        {"OutWords": 1},
        {"Behind": 1, "OutWords": 5, "Dsp": 1},
        {"Behind": 1, "WordBits": 8},
        {"Dsp": 1, "WordBits": 8},
    ],
)
def test_activation_units_of_other_shapes(shape: dict[str, int]) -> None:
    model = RtlModel(top="fluidnpu_activation", parameters={**UNITS["fluidnpu_activation"], **shape})
    assert len(run(model)) == 3


@pytest.mark.long
@pytest.mark.parametrize(
    "shape",
    [
        {"Kernel": 2},
        {"Kernel": 3, "DeepRows": 0},
        {"Kernel": 4, "OutWords": 1},
        {"Kernel": 6, "OutWords": 8},
        {"Kernel": 7},
        {"Kernel": 3, "DeepRows": 0, "WordBits": 8, "OutWords": 8},
        {"Kernel": 7, "WordBits": 8},
    ],
)
def test_filters_of_other_shapes(shape: dict[str, int]) -> None:
    model = RtlModel(top="fluidnpu_output_filter", parameters={**UNITS["fluidnpu_output_filter"], **shape})
    assert len(run(model)) == 5


# Module without a bench of its own -> the bench whose top contains it.
ELSEWHERE = {
    "axi_read_master": "axi_masters_top",
    "axi_write_master": "axi_masters_top",
    "axi_read_stripe": "axi_striped_masters_top",
    "axi_write_stripe": "axi_striped_masters_top",
    "axi_stripe_cut": "axi_striped_masters_top",
    "axi_gather_fifo": "axi_striped_masters_top",
    "common_skid": "fluidnpu_core",
    "fluidnpu_activation_lane": "fluidnpu_activation",
    "fluidnpu_multiplier": "fluidnpu_activation",
    "fluidnpu_output_filter_lane": "fluidnpu_output_filter",
    "fluidnpu_output_filter_bytes": "fluidnpu_output_filter",
    "fluidnpu_beat_builder": "fluidnpu_row_buffer",
    "fluidnpu_row_addresses": "fluidnpu_output_writer",
}
MODULES = {name.removesuffix(".sv") for name in sources() if not name.endswith("_pkg.sv")}


def test_every_module_has_a_bench() -> None:
    cells = {name for name in MODULES if name.startswith("core_")}  # met in fluidnpu_core
    assert {name for name in MODULES - cells if name not in BENCHES} == set(ELSEWHERE)
    for cell in cells:
        assert f"{cell}.sv" in needed(sources(), "fluidnpu_core")


@pytest.mark.parametrize("bench", [name for name in BENCHES if name in MODULES or name in UNITS])
def test_a_bench_of_a_module_has_tests(bench: str) -> None:
    assert cocotb_tests(bench)


@pytest.mark.parametrize("module", ELSEWHERE)
def test_the_bench_elsewhere_contains_the_module(module: str) -> None:
    assert f"{module}.sv" in needed({**sources(), **texts_of("benches")}, ELSEWHERE[module])
