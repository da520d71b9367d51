"""All SystemVerilog by a second compiler, and its structs against the packers of Python.

Verilator takes what the language forbids, such as a name used before its declaration.
"""

import random
import re
from dataclasses import replace
from importlib.resources import files

import pytest
from second_compiler import complaints, core_box, slice_box

from fluidnpu import hls
from fluidnpu.boards import load_board
from fluidnpu.dse.testing import tiny_design
from fluidnpu.hls.formats import DESCRIPTOR, FBCB, Bits, Value
from fluidnpu.hls.formats.format import Format
from fluidnpu.hls.formats.table import FORMATS
from fluidnpu.hls.views.formats import members, render_format_package
from fluidnpu.rtl_tb import sources


def test_all_rtl_is_legal() -> None:
    """And no width changes unsaid."""
    npu = files("fluidnpu.rtl_tb").joinpath("npu").joinpath("fluidnpu_npu.sv").read_text()
    assert complaints({**sources(), "fluidnpu_npu.sv": npu}) == []


def test_a_name_before_its_declaration_is_told() -> None:
    early = "module early (output logic o);\n  assign o = late;\n  logic late;\nendmodule\n"
    assert len(complaints({"early.sv": early})) == 1


# -- generated projects

WORLDS = [
    ("zc706", "pl", "hls", "2019.2"),
    ("zc706", "ps_striped", "rtl", "2022.1"),
    ("zcu104", "ps_striped", "rtl", "2019.2"),
    ("zcu104", "ps_striped", "hls", "2022.1"),
]
SEEDS = [  # (file, right, wrong): a width, and what a tool needs to be told of it
    ("fluid_npu.v", "wire [31:0] saturations", "wire [15:0] saturations"),
    ("fluidnpu_hls_core.v", "reg  [31:0]  saturations_o", "reg  [23:0]  saturations_o"),
    ("fluidnpu_hls_core.v", "wire [32:0] sum", "wire [31:0] sum"),
]


def project(board: str, memory: str, core: str, tools: str) -> tuple[dict[str, str], list[str]]:
    """The Verilog of a generated project, packages first, and its black boxes."""
    place, there = load_board(board), load_board(board).memory(memory)
    ports = {"port_bits": there.port_bits, "stripes": there.stripes, "memory": memory}
    unit = "lut" if core == "hls" else "dsp"  # without one: the modules themselves, above
    design = tiny_design().changed(board=board, clock_hz=place.clock_hz, activation=unit, **ports)
    files = hls.render_project(design, None, place, core=core, rtl=sources(), tools=tools)
    texts = {name: text for name, text in files.items() if name.startswith("rtl/") and isinstance(text, str)}
    suffix = "_V_V" if tools == "2019.2" else ""  # of a stream in the names of csynth's ports
    box = core_box(design, suffix) if core == "hls" else slice_box(place.dsp_primitive)
    return {name: texts[name] for name in sorted(texts, key=lambda name: not name.endswith("_pkg.sv"))}, [box]


@pytest.mark.parametrize("world", WORLDS, ids="-".join)
def test_a_generated_project_has_no_error_and_no_warning(world: tuple[str, str, str, str]) -> None:
    texts, boxes = project(*world)
    assert complaints(texts, boxes=boxes) == []


@pytest.mark.parametrize("seed", SEEDS, ids=[seed[2] for seed in SEEDS])
def test_a_wrong_width_is_told(seed: tuple[str, str, str]) -> None:
    (name, right, wrong), (texts, boxes) = seed, project(*WORLDS[0])
    assert texts[f"rtl/{name}"].count(right) == 1
    lines = complaints(texts | {f"rtl/{name}": texts[f"rtl/{name}"].replace(right, wrong)}, boxes=boxes)
    assert any(line.startswith(f"rtl/{name}:") and "bits" in line for line in lines)


def test_a_core_of_other_streams_is_told() -> None:
    texts, (box,) = project(*WORLDS[0])
    lines = complaints(texts, boxes=[box.replace("input [127:0] cmd", "input [63:0] cmd")])
    assert any(line.startswith("rtl/fluidnpu_hls_core.v:") and "bits" in line for line in lines)


# -- bit formats: the packed structs of the generated package against the packers of Python


def wrong_fields(packed: Format, values: dict[str, Value], package: str) -> list[str]:
    """Fields that a struct of SystemVerilog does not find where Python packed them, told by elaboration."""
    lines = [
        "module look;",
        f"  localparam fluidnpu_formats_pkg::{packed.name}_t Word = {packed.bits}'h{packed.pack(values):x};",
    ]
    for bits in packed.fields:
        for place in range(bits.count):
            number = bits.number(packed.pack(values), place) & (1 << bits.width) - 1
            member = f"Word.{bits.name}{f'[{place}]' if bits.count > 1 else ''}"
            lines.append(f"  if ({member} != {bits.width}'d{number}) begin")
            lines.append(f'    $error("{bits.name}");')
            lines.append("  end")
    lines.append("endmodule")
    return complaints({"fluidnpu_formats_pkg.sv": package, "look.sv": "\n".join(lines) + "\n"})


def some_values(packed: Format, rng: random.Random) -> dict[str, Value]:
    """A value for every field, codes among their names."""
    values: dict[str, Value] = {}
    for bits in packed.fields:
        least, most = bits.limits
        numbers = tuple(rng.randint(least, most) for _ in range(bits.count))
        values[bits.name] = numbers[0] if bits.count == 1 else numbers
    return values


@pytest.mark.parametrize("packed", FORMATS, ids=lambda packed: packed.name)
def test_a_struct_has_its_fields_where_python_packs_them(packed: Format) -> None:
    rng = random.Random(packed.name)
    for _ in range(3):
        assert wrong_fields(packed, some_values(packed, rng), sources()["fluidnpu_formats_pkg.sv"]) == []


def test_a_field_in_another_place_is_told() -> None:
    """The table with two fields exchanged: the package of the old one does not agree with its packer."""
    by_name = {bits.name: bits for bits in FBCB.fields}
    moved = (replace(by_name["b_r"], low=0), replace(by_name["k"], low=5), by_name["block"])
    told = wrong_fields(replace(FBCB, fields=moved), {"k": 1, "b_r": 3}, sources()["fluidnpu_formats_pkg.sv"])
    assert len(told) == 2


def test_codes_are_those_of_python() -> None:
    checks = "".join(
        f"  if (fluidnpu_formats_pkg::{name} != {codes.width}'d{code}) begin\n    $error();\n  end\n"
        for codes in {bits.codes for packed in FORMATS for bits in packed.fields if bits.codes}
        for name, code in members(codes)
    )
    package = {"fluidnpu_formats_pkg.sv": sources()["fluidnpu_formats_pkg.sv"]}
    assert complaints({**package, "look.sv": f"module look;\n{checks}endmodule\n"}) == []


def test_codes_and_structs_stand_in_the_package_alone() -> None:
    texts = {name: text for name, text in sources().items() if name != "fluidnpu_formats_pkg.sv"}
    names = [name for packed in FORMATS for bits in packed.fields if bits.codes for name, _ in members(bits.codes)]
    again = re.compile(rf"\b({'|'.join(set(names))})\s*=[^=]|\}}\s*({'|'.join(p.name for p in FORMATS)})_t;")
    assert {name: found[0] for name, text in texts.items() if (found := again.search(text))} == {}


def test_one_more_row_of_the_descriptor_is_one_more_member() -> None:
    """All RTL reads its old fields from a table with one more, and the new one lies where Python packs it."""
    row = Bits("padding", 3, 16, 4, "rows above the first that windows touch", most=9)
    fields = tuple(sorted((*DESCRIPTOR.fields, row), key=lambda bits: bits.start))
    wide = replace(DESCRIPTOR, fields=fields)
    package = render_format_package(tuple(wide if packed is DESCRIPTOR else packed for packed in FORMATS))
    assert complaints({**sources(), "fluidnpu_formats_pkg.sv": package}) == []
    values = some_values(wide, random.Random(0)) | {"padding": 9}
    assert wrong_fields(wide, values, package) == []
    unknown = wrong_fields(wide, values, sources()["fluidnpu_formats_pkg.sv"])
    assert len(unknown) == 1
    assert "padding" in unknown[0]
