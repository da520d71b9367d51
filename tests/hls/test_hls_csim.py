"""C simulation itself: seeded bugs and hazards must show, and a core that cannot run says why."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from threading import Barrier
from time import sleep
from typing import Any

import numpy as np
import pytest
from hls_cases import BYTES, CHAIN, LANES, SMALL, WIDE, Shape, design_of, images_for, network_of

import fluidnpu.hls.core.csim as csim
from fluidnpu.dse import Design
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import CsimError, compile_program, csim_network
from fluidnpu.hls.core import layer_streams
from fluidnpu.hls.core.csim import CoreSimulator
from fluidnpu.hls.core.dialect import Dialect
from fluidnpu.hls.core.render import render_core
from fluidnpu.models import Kind
from fluidnpu.models.numeric.words import INT8, INT16, Word

Render = Callable[[Design, int, Dialect], dict[str, str]]  # as `render_core`

# One slip for each error that a core can make; each must be caught and located: (file, text, wrong text)
BUGS = {
    "ties round up": ("post.h", "rest == half && floor[0]", "rest == half"),
    "bias forgotten": ("multiply.h", "stacked ? now_bias[j / 2] : now_bias[j]", "acc_t(0)"),
    "pair adder missing": ("multiply.h", "wide && j % 2 == 0", "false"),
    "lane 1 takes lane 0": ("multiply.h", "stacked && j % 2 == 1", "false"),
    "hi ignored": ("post.h", "rounded > value_t(c.hi)", "rounded > value_t(32767)"),
    "residual unshifted": ("post.h", "c.residual_shift", "ap_uint<5>(0)"),
    "saturations uncounted": ("post.h", "rounded < -32768 || rounded > 32767", "false"),
    "minimum taken": ("pool.h", "acc_t(word) > best[i]", "acc_t(word) < best[i]"),
}


@pytest.fixture(scope="module")
def slips(tmp_path_factory: pytest.TempPathFactory) -> tuple[Render, Path]:
    """The generator with every slip in one text, selected by an environment variable: it compiles once."""

    def broken(design: Design, ultra_banks: int, dialect: Dialect) -> dict[str, str]:
        texts = render_core(design, ultra_banks, dialect)
        for number, (name, right, wrong) in enumerate(BUGS.values(), 1):
            assert texts[name].count(right) == 1, right
            texts[name] = texts[name].replace(right, f"(Slip == {number} ? ({wrong}) : ({right}))")
        choice = '#include <cstdlib>\nstatic const int Slip = std::atoi(std::getenv("FLUIDNPU_SLIP"));\n'
        return {**texts, "params.h": texts["params.h"] + choice}

    return broken, tmp_path_factory.mktemp("slips")


@pytest.mark.parametrize("bug", [None, *BUGS])
def test_seeded_bugs_are_found(bug: str | None, monkeypatch: pytest.MonkeyPatch, slips: tuple[Render, Path]) -> None:
    rng = np.random.default_rng(11)  # its own: what shows a bug must not depend on the tests before
    halves = [Shape(3, kind=Kind.SUM_POOL, kernel=(2, 1), relu=False)]
    qnet = network_of(rng, (7, 6, 3), halves if bug == "ties round up" else CHAIN)
    design = design_of(qnet, WIDE if bug == "pair adder missing" else LANES, **SMALL)
    monkeypatch.setattr(csim, "render_core", slips[0])
    monkeypatch.setattr(csim, "FLAGS", tuple(flag for flag in csim.FLAGS if flag != "-O1"))  # compiles faster
    monkeypatch.setenv("FLUIDNPU_SLIP", str(1 + list(BUGS).index(bug) if bug else 0))
    report = csim_network(qnet, design, images_for(rng, qnet, 2), [2], cache=slips[1])
    assert report.ok == (bug is None)
    if bug:
        bad = next(check for check in report.checks if not check.ok)
        assert (bad.first is None) == (bug == "saturations uncounted")
        assert bad.layer in report.summary()


# The accumulators' DEPENDENCE pragma is a promise that C simulation cannot see broken unless it counts calls.
HAZARDS = {
    "sums": ("command.h", "c.beats < RowDistance ? RowDistance : int(c.beats)", "int(c.beats)"),
    "ready": ("array.h", "written_rows[RowDistance - 2]", "written_rows[RowDistance - 3]"),
}


@pytest.mark.parametrize("hazard", HAZARDS)
def test_a_row_read_before_it_is_written_is_found(
    hazard: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, right, wrong = HAZARDS[hazard]

    def broken(design: Design, ultra_banks: int, dialect: Dialect) -> dict[str, str]:
        texts = render_core(design, ultra_banks, dialect)
        assert texts[file].count(right) == 1
        return {**texts, file: texts[file].replace(right, wrong)}

    monkeypatch.setattr(csim, "render_core", broken)
    monkeypatch.setattr(csim, "FLAGS", tuple(flag for flag in csim.FLAGS if flag != "-O1"))
    qnet = network_of(rng, (3, 3, 20), [Shape(4)])
    with pytest.raises(
        CsimError, match=rf"row \d+ of '{hazard}' was read \d+ calls after it was written, and \d+ is the least"
    ):
        csim_network(qnet, design_of(qnet, **SMALL), images_for(rng, qnet, 1), [1], cache=tmp_path)


def test_a_starved_core_names_the_stream(rng: np.random.Generator) -> None:
    qnet = network_of(rng, (3, 3, 2), [Shape(4)])
    design = design_of(qnet, **SMALL)
    program = compile_program(qnet, design)
    streams = layer_streams(
        program.descriptors[0], program.fbcb_word(0, 1), design, program.new_slots(1), program.weights
    )
    starved = "0 of 1 commands were done, and no more came out; empty: input"
    with CoreSimulator(design) as core, pytest.raises(CsimError, match=starved):
        core.run(replace(streams, input=streams.input[:-1]))
    with CoreSimulator(design) as core, pytest.raises(CsimError, match="left 1 input beats unread"):
        core.run(replace(streams, input=np.concatenate([streams.input, streams.input[:1]])))


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    qnet = network_of(np.random.default_rng(0), (3, 3, 2), [Shape(4)])
    design = design_of(qnet, **SMALL)
    with pytest.raises(CsimError, match="needs the C\\+\\+ compiler 'no-such-compiler'"):
        csim.compile_core(design, tmp_path, compiler="no-such-compiler")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CsimError, match=r"pip install 'fluidnpu\[csim\]'"):
        csim.compile_core(design, tmp_path)


def test_two_that_need_one_core_compile_it_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    design = design_for(network_of(np.random.default_rng(0), (3, 3, 2), [Shape(4)]).network.workload)
    compiled, both_ask = [], Barrier(2)

    def compile_slowly(texts: object, folder: Path, compiler: str, harness: str, target: str) -> None:
        compiled.append(target)
        sleep(0.2)  # the other finds no file, and must wait
        (folder / target).touch()

    def ask() -> Path:
        both_ask.wait()
        return csim.compile_core(design, tmp_path)

    monkeypatch.setattr(csim, "_compile", compile_slowly)
    with ThreadPoolExecutor(2) as pool:
        found = [asked.result() for asked in [pool.submit(ask) for _ in range(2)]]
    assert found == [csim.core_binary(design, tmp_path)] * 2
    assert compiled == ["tb_core"]


def test_our_own_stream_header_is_used(tmp_path: Path) -> None:
    """The header of the same name in hls4ml has another licence: it must not be read, nor hls4ml imported."""
    design = design_for(network_of(np.random.default_rng(0), (3, 3, 2), [Shape(4)]).network.workload)
    for name, text in render_core(design).items():
        (tmp_path / name).write_text(text)
    includes = ["-I", str(files("fluidnpu.hls").joinpath("csim")), "-isystem", str(csim.ap_headers())]
    done = subprocess.run(
        ["g++", "-M", *csim.FLAGS, *includes, "fluidnpu_core.cpp"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    read = [word for word in done.stdout.split() if word.endswith("hls_stream.h")]
    assert len(read) == 1
    assert "csim" in read[0]
    assert "hls4ml" not in sys.modules


@pytest.mark.parametrize(("word", "sizes"), [(INT16, SMALL), (INT8, BYTES)], ids=["16", "8"])
def test_the_words_that_are_synthesised_equal_the_fast_ones(
    word: Word, sizes: dict[str, Any], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without FLUIDNPU_CSIM, as Vivado HLS compiles it."""
    qnet = network_of(rng, (7, 6, 3), CHAIN, word)
    monkeypatch.setattr(csim, "FLAGS", tuple(flag for flag in csim.FLAGS if flag not in ("-DFLUIDNPU_CSIM", "-O1")))
    report = csim_network(qnet, design_of(qnet, LANES, **sizes), images_for(rng, qnet, 3), [3], cache=tmp_path)
    assert report.ok, report.summary()
