"""Yosys against the resource model: DSPs and RAMs equal, LUTs and flip-flops within their interval; DSP cells
compute what the inferred form does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from core_streams import random_streams

from fluidnpu.dse import Design
from fluidnpu.dse.resources import LOGIC_KINDS, PARTS, NpuShape, part_logic
from fluidnpu.dse.resources.logic import interval_pct
from fluidnpu.dse.resources.memories import block_rams, ultra_rams
from fluidnpu.dse.testing import tiny_design
from fluidnpu.hls.core import execute_streams_reference
from fluidnpu.rtl_tb import ParameterError
from fluidnpu.rtl_tb.core.cells import SLICES, slice_model
from fluidnpu.rtl_tb.core.edges import BYTES, PIECES, SPLIT
from fluidnpu.rtl_tb.core.model import STREAMS, CoreModel, core_parameters
from fluidnpu.rtl_tb.synthesis.calibration import CHECK_SEED, FIT_SEED, CalibrationSample, report, sample
from fluidnpu.rtl_tb.synthesis.core import CELLS, examples, predicted, synthesise_core, table
from fluidnpu.rtl_tb.synthesis.random_designs import random_designs
from fluidnpu.rtl_tb.synthesis.yosys import Cells, synthesise

SMALL_CORES = (3, 10)  # of the designs of CHECK_SEED
MORE_CORES = (0, 1, 5)


def chosen(index: int, part: str = "core") -> CalibrationSample:
    """A design that no coefficient was fitted to."""
    return sample(part, random_designs(index + 1, CHECK_SEED)[index])


def assert_as_predicted(found: CalibrationSample) -> None:
    assert found.primitives == found.predicted_primitives
    for kind in LOGIC_KINDS:
        value, measured = float(part_logic(found.part, kind, found.shape)), found.measured(kind)
        assert abs(value / measured - 1) <= interval_pct(kind) / 100, (kind, value, measured)


def test_a_chain_in_pieces_cascades_in_each_of_them() -> None:
    """Pieces of 3, 3 and 1 slices; what lies between them is in the slices, but for a register of the
    loads.
    """
    found = synthesise("core_pe", {"TP": 7, "TR": 512, "AccBits": 36, "Cells": 1, "Piece": 3}, cascades=True)
    assert found == Cells(dsp=7, ramb18=2, uram288=0, lut=0, lutram=0, ff=6 + 2, carry=0, cascaded_dsp=2 + 2)


@pytest.mark.long
@pytest.mark.parametrize(
    "given",
    [
        {"t_r": 600, "t_p": 8, "t_c": 8, "weight_slots": 2, "port_bits": 128, "piece": 3, "broken": 4},
        pytest.param(PIECES, marks=pytest.mark.matrix),
        pytest.param(
            {"t_r": 600, "t_p": 8, "t_c": 8, "weight_slots": 2, "port_bits": 128, "piece": 5, "broken": 4},
            marks=pytest.mark.matrix,
        ),
        pytest.param(
            {"t_r": 600, "t_p": 9, "t_c": 6, "weight_slots": 3, "piece": 3, "broken": 2}, marks=pytest.mark.matrix
        ),
    ],
)
def test_a_core_with_chains_in_pieces_is_as_predicted(given: dict[str, Any]) -> None:
    """Yosys shares some delays of pieces with those of whole chains, and makes shift registers of others, so
    what pieces add is predicted less well than the core: it is held to 3 % of the core's flip-flops.
    """
    design = tiny_design().changed(**given)
    found = synthesise_core(design)
    assert_as_predicted(CalibrationSample(part="core", design=design, shape=NpuShape.on(design, "xc7"), cells=found))
    whole = NpuShape.on(design.changed(piece=0, broken=0), "xc7")
    more = found.ff - synthesise_core(design.changed(piece=0, broken=0)).ff
    expected = float(part_logic("core", "ff", NpuShape.on(design, "xc7")) - part_logic("core", "ff", whole))
    assert abs(more - expected) <= 0.03 * found.ff, (more, expected)


@pytest.mark.long
@pytest.mark.parametrize("cells", ["dsp48e1", "inferred"])
def test_a_processing_element_is_its_dsps_and_its_banks(cells: str) -> None:
    parameters = {"TP": 7, "TR": 512, "AccBits": 36, "Cells": CELLS[cells]}
    found = synthesise("core_pe", parameters, cascades=True)
    waiting = 16 * 7 if cells == "inferred" else 0  # Yosys packs one of the two weight registers
    assert found == Cells(
        dsp=7,
        ramb18=2,
        uram288=0,
        lut=0,
        lutram=0,
        ff=6 + waiting,
        carry=0,
        cascaded_dsp=0 if cells == "inferred" else 6,
    )


BANKS = [(1536, 48, "xc7"), (2100, 37, "xc7"), (1100, 40, "xcup"), (4097, 45, "xcup")]


@pytest.mark.parametrize(
    ("depth", "width", "family"), [BANKS[0], *(pytest.param(*x, marks=pytest.mark.long) for x in BANKS[1:])]
)
def test_a_bank_takes_the_block_rams_of_the_rule(depth: int, width: int, family: str) -> None:
    assert synthesise("core_bank", {"Depth": depth, "Width": width}, family).ramb18 == block_rams(depth, width, family)


@pytest.mark.long
@pytest.mark.parametrize(("depth", "width"), [(4097, 48), (8192, 36)])
def test_a_bank_takes_the_ultra_rams_of_the_rule(depth: int, width: int) -> None:
    found = synthesise("core_bank", {"Depth": depth, "Width": width, "Ultra": 1}, "xcup")
    assert (found.uram288, found.ramb18) == (int(ultra_rams(depth, width)), 0)


@pytest.mark.long
@pytest.mark.parametrize(("split", "ultra_banks"), [(False, 5), pytest.param(True, 9, marks=pytest.mark.matrix)])
def test_on_ultrascale_some_banks_lie_in_ultraram(split: bool, ultra_banks: int) -> None:
    design = tiny_design().changed(t_c=4, t_r=600, split=split)
    found = synthesise_core(design, "xcup", ultra_banks=ultra_banks)
    assert predicted(design, "xcup", ultra_banks=ultra_banks) == {
        "dsp": found.dsp,
        "ramb18": found.ramb18,
        "uram288": found.uram288,
    }
    assert found.uram288 == ultra_banks


@pytest.mark.long
def test_on_ultrascale_inferred_slices_leave_logic_outside() -> None:
    design = tiny_design().changed(t_c=4, t_r=600)
    inferred, instantiated = (
        synthesise_core(design, "xcup", cells=cells, ultra_banks=5) for cells in ("inferred", None)
    )
    assert inferred.dsp == instantiated.dsp
    assert inferred.ff > instantiated.ff
    assert inferred.lut > instantiated.lut


def test_more_ultra_banks_than_banks_are_refused() -> None:
    with pytest.raises(ParameterError, match="UltraBanks must be at most the number of banks"):
        CoreModel(parameters=core_parameters(tiny_design()) | {"UltraBanks": 17}).lint()


@pytest.mark.long
@pytest.mark.parametrize(
    "index", [*SMALL_CORES, *(pytest.param(index, marks=pytest.mark.matrix) for index in MORE_CORES)]
)
def test_random_cores_are_as_predicted(index: int) -> None:
    assert_as_predicted(chosen(index))


@pytest.mark.long
@pytest.mark.parametrize("index", [0])
def test_random_data_planes_are_as_predicted(index: int) -> None:
    assert_as_predicted(chosen(index, "data_plane"))


def test_calibration_and_check_use_different_designs() -> None:
    def key(design: Design) -> tuple[int, ...]:
        return tuple(design.rtl_parameters().values())

    assert not {key(d) for d in random_designs(60, FIT_SEED)} & {key(d) for d in random_designs(60, CHECK_SEED)}


@pytest.mark.long
def test_a_report_sees_a_wrong_count_and_a_wrong_estimate() -> None:
    found = chosen(SMALL_CORES[0])
    text, good = report([found])
    assert good, text
    worse = {part: {k: {"coefficients": {"one": 0.9 * found.measured(k)}} for k in LOGIC_KINDS} for part in PARTS}
    assert not report([found], worse)[1]
    wrong = replace(found, cells=replace(found.cells, ramb18=found.cells.ramb18 + 1))
    assert not report([wrong])[1]


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [name if name == "4x8" else pytest.param(name, marks=pytest.mark.matrix) for name in examples()]
)
def test_dsps_and_block_rams_are_as_predicted(name: str) -> None:
    design = examples()[name]
    found = synthesise_core(design)
    assert {"dsp": found.dsp, "ramb18": found.ramb18, "uram288": found.uram288} == predicted(design)


@pytest.mark.long
def test_the_inferred_form_takes_the_same_dsps_and_rams() -> None:
    design = examples()["4x8"]
    inferred, instantiated = synthesise_core(design, cells="inferred"), synthesise_core(design)
    assert (inferred.dsp, inferred.ramb18) == (instantiated.dsp, instantiated.ramb18)
    assert inferred.ff > instantiated.ff  # Yosys leaves waiting weights outside the slices


@pytest.mark.matrix
def test_the_table_has_a_line_for_every_example() -> None:
    assert [line.split("  ")[0] for line in table(examples()).splitlines()[1:]] == list(examples())


@pytest.mark.long
@pytest.mark.parametrize("numbers", [SPLIT, PIECES, BYTES], ids=["split", "pieces", "bytes"])
@pytest.mark.parametrize("cell", SLICES)
def test_dsp_cells_compute_what_the_inferred_form_does(cell: str, numbers: dict[str, Any]) -> None:
    """With words of 8 bits a DSP48E2 has a longer field, which no DSP48E1 has."""
    design = tiny_design().changed(**numbers)
    if numbers is BYTES and cell == "dsp48e2":
        design = design.changed(field_bits=18, t_p=35)
    inside = core_parameters(design) | {"Cells": SLICES[cell]}
    model = CoreModel(parameters=inside, cells=(("cells.v", slice_model(cell)),))
    for seed in range(60):
        rng = np.random.default_rng(seed)
        streams = random_streams(rng, design, commands=6)
        expected, saturations = execute_streams_reference(streams, design)
        run = model.run(streams, stalls=dict.fromkeys(STREAMS, 0.3), seed=seed + 1)
        np.testing.assert_array_equal(run.output, expected)
        assert run.saturations == saturations
