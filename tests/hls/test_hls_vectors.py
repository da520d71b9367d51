"""Test vectors of the core: every mode after every other, under stalls, and as the project's files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hls_cases import SMALL, bytes_of, design_of, design_with, small_network

from fluidnpu.boards import load_board
from fluidnpu.hls import render_project
from fluidnpu.hls.core import core_vectors
from fluidnpu.hls.core.csim import CoreSimulator, compile_core
from fluidnpu.hls.core.render import render_core
from fluidnpu.hls.core.vectors import core_modes
from fluidnpu.hls.project.tools import TOOLS


@pytest.mark.parametrize("split", [False, True], ids=["", "split"])
def test_commands_of_all_modes_in_any_order(split: bool) -> None:
    """Rows drain while the next command, in another mode, is at work; late data must cost time, not bits."""
    qnet = small_network()
    design = design_of(qnet, split=split, **SMALL)
    for stalls in (0, 30, 80):
        with CoreSimulator(design, stalls=stalls) as core:
            for seed in range(25):
                for streams, output, saturations in core_vectors(design, seed):
                    got = core.run(streams)
                    np.testing.assert_array_equal(got[0], output)
                    assert got[1] == saturations


@pytest.mark.parametrize(("split", "tools"), [(False, "2019.2"), (True, "2019.2"), (False, "2022.1")])
def test_the_vectors_are_what_the_generated_core_answers(split: bool, tools: str, tmp_path: Path) -> None:
    """As Vivado runs them: the test bench reads both files and compares; a changed expectation must show."""
    qnet = small_network()
    # With ports of 64 bits the core is one of those that other tests compile.
    design = design_with(design_of(qnet, split=split, **SMALL), board="zc706", memory="ps")
    assert {command.mode for streams, _, _ in core_vectors(design) for command in streams.commands} == set(
        core_modes(design)
    )
    files = render_project(design, None, load_board("zc706"), tools=tools)
    for name, text in render_core(design, dialect=TOOLS[tools].dialect).items():
        assert files[f"hls/{'tb' if name == 'tb_core.cpp' else 'src'}/{name}"] == text
    vectors = {name: bytes_of(files[f"hls/tb/{name}"]) for name in ("jobs.bin", "expected.bin")}
    for name, content in vectors.items():
        (tmp_path / name).write_bytes(content)
    command = [str(compile_core(design, dialect=TOOLS[tools].dialect)), "jobs.bin", "expected.bin"]
    right = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert right.returncode == 0
    assert right.stdout == f"{len(core_modes(design)) + 1} jobs, all as expected\n"
    spoilt = bytearray(vectors["expected.bin"])
    spoilt[-2] ^= 1
    (tmp_path / "expected.bin").write_bytes(spoilt)
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 1
