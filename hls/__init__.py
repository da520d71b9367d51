"""From a design to hardware: the register map, the NPU program, Vivado HLS C++ and project files, and C simulation."""

from .core.banks import hls_core_lacks, hls_ultra_banks
from .core.csim import CoreSimulator, CsimError, ap_headers, compile_core, compile_shared_core, core_texts
from .core.equivalence import CsimReport, Difference, LayerCheck, csim_network
from .core.reference_core import execute_streams_reference, round_half_even
from .core.render import render_core, row_distance
from .core.streams import (
    Command,
    LayerStreams,
    StreamError,
    Tile,
    layer_streams,
    output_beats,
    scatter_output,
    tiles,
    toeplitz_rows,
    unpack_layer,
    window_addresses,
)
from .core.vectors import core_modes, core_vectors, vector_files
from .formats.table import NO_WEIGHTS
from .program.compiler import check_buildable, check_made_for, compile_program
from .program.descriptor import DESCRIPTOR_BYTES, Descriptor, DescriptorError
from .program.exact_jobs import layer_jobs
from .program.fbcb import FbcbEntry, FbcbError
from .program.fbcb import decode as decode_fbcb
from .program.fbcb import encode as encode_fbcb
from .program.layout import LayoutError, TileLayout, column_tiles, pack_weights, part_words, unpack_weights
from .program.program import ExitPlace, Program, ProgramError, TensorPlace, build_id
from .program.row_buffer import InputRows, buffer_bytes
from .project.checks.pragmas import check_pragmas
from .project.checks.tcl import check_tcl
from .project.design_views import render_register_json, render_sv_package
from .project.platform import NPU_CELL, NPU_VLNV, PLATFORMS, Platform
from .project.project import ProjectError, render_project
from .project.reports import (
    HlsReport,
    ReportError,
    Timing,
    Utilisation,
    import_reports,
    parse_csynth,
    parse_timing,
    parse_utilization,
)
from .project.writing import check_folder, write_project
from .registers import REGISTERS, WINDOW_BYTES, Access, Cause, Field, Register, by_name
from .views.formats import render_format_table
from .views.packages import sv_packages
from .views.registers import render_c_header, render_register_table

__all__ = [
    "DESCRIPTOR_BYTES",
    "NO_WEIGHTS",
    "NPU_CELL",
    "NPU_VLNV",
    "PLATFORMS",
    "REGISTERS",
    "WINDOW_BYTES",
    "Access",
    "Cause",
    "Command",
    "CoreSimulator",
    "CsimError",
    "CsimReport",
    "Descriptor",
    "DescriptorError",
    "Difference",
    "ExitPlace",
    "FbcbEntry",
    "FbcbError",
    "Field",
    "HlsReport",
    "InputRows",
    "LayerCheck",
    "LayerStreams",
    "LayoutError",
    "Platform",
    "Program",
    "ProgramError",
    "ProjectError",
    "Register",
    "ReportError",
    "StreamError",
    "TensorPlace",
    "Tile",
    "TileLayout",
    "Timing",
    "Utilisation",
    "ap_headers",
    "buffer_bytes",
    "build_id",
    "by_name",
    "check_buildable",
    "check_folder",
    "check_made_for",
    "check_pragmas",
    "check_tcl",
    "column_tiles",
    "compile_core",
    "compile_program",
    "compile_shared_core",
    "core_modes",
    "core_texts",
    "core_vectors",
    "csim_network",
    "decode_fbcb",
    "encode_fbcb",
    "execute_streams_reference",
    "hls_core_lacks",
    "hls_ultra_banks",
    "import_reports",
    "layer_jobs",
    "layer_streams",
    "output_beats",
    "pack_weights",
    "parse_csynth",
    "parse_timing",
    "parse_utilization",
    "part_words",
    "render_c_header",
    "render_core",
    "render_format_table",
    "render_project",
    "render_register_json",
    "render_register_table",
    "render_sv_package",
    "round_half_even",
    "row_distance",
    "scatter_output",
    "sv_packages",
    "tiles",
    "toeplitz_rows",
    "unpack_layer",
    "unpack_weights",
    "vector_files",
    "window_addresses",
    "write_project",
]
