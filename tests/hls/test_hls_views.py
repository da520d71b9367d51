"""Views of the register map and of a design: page, C header, JSON, SystemVerilog package."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hls_cases import design_of, project_of, small_network, texts

from fluidnpu import host
from fluidnpu.hls import REGISTERS, write_project
from fluidnpu.hls.project.design_views import render_sv_package
from fluidnpu.hls.views.registers import render_c_header, render_register_table


def test_views_hold_every_register_and_field() -> None:
    header, table = render_c_header(), render_register_table()
    for register in REGISTERS:
        assert f"#define FLUIDNPU_{register.name} 0x{register.offset:02X}u" in header
        assert f"| 0x{register.offset:02X} | {register.name} |" in table
        for field in register.fields:
            assert f"#define FLUIDNPU_{register.name}_{field.name}_MASK 0x{field.mask:08X}u" in header


def test_the_c_header_compiles(tmp_path: Path) -> None:
    (tmp_path / "registers.h").write_text(render_c_header())
    (tmp_path / "use.c").write_text(
        '#include "registers.h"\nint main(void) { return FLUIDNPU_CTRL_START_MASK == 1u ? 0 : 1; }\n'
    )
    subprocess.run(["gcc", "-Wall", "-Werror", "-std=c99", "-o", "use", "use.c"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "use"], check=False).returncode == 0


@pytest.mark.parametrize("board", ["zc706", "zcu104"])
def test_the_bundle_has_the_register_map_and_the_build_id(board: str, tmp_path: Path) -> None:
    project = project_of(board)
    files = texts(project)
    found = json.loads(files["bundle/registers.json"])
    assert found["design"] == json.loads(files["bundle/design.json"])["digest"]
    assert found["build_id"] == json.loads(files["manifest.json"])["build_id"]
    assert f"-offset 0x{found['base']:08X} " in files["vivado/block_design.tcl"]
    offsets = {one["name"]: (one["offset"], one["access"], one["reset"]) for one in found["registers"]}
    assert offsets == {one.name: (one.offset, one.access, one.reset) for one in REGISTERS}
    bits = [(f["name"], f["low"], f["width"]) for one in found["registers"] for f in one["fields"]]
    assert bits == [(f.name, f.low, f.width) for one in REGISTERS for f in one.fields]
    write_project(project, tmp_path)
    assert host.Bundle.read(tmp_path / "bundle").design.board == board  # a file more is no harm


def test_the_sv_package_has_every_parameter() -> None:
    qnet = small_network()
    design = design_of(qnet)
    text = render_sv_package(design)
    for name, value in design.rtl_parameters().items():
        assert f"localparam int unsigned {name} = {value};" in text
