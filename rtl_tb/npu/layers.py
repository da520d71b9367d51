"""Runs layers of any design on the RTL of its array: every stored word is compared, and so are the cycles.

    python -m fluidnpu.rtl_tb.npu.layers DESIGN.json [--layer NAME] [--batch N] [--out HxW]

Data plane and core run together behind the memory of the design's board, one job a layer, with random weights
and images. The words that a job leaves in memory must be those of the stream model, and its cycles, beats and
bursts those of the exact model. Cycles are simulated.

>>> shape_of(LayerShape(name="fc", r=1, p=8, c=4), (8, 8)).columns
4
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np

from fluidnpu.boards import BoardFileError, load_board
from fluidnpu.dse import Design, DesignError, DramModel
from fluidnpu.dse.exact import LayerCycles, job_cycles
from fluidnpu.hls import register
from fluidnpu.hls.core import execute_streams_reference, layer_streams, scatter_output
from fluidnpu.hls.formats import ActivationCode
from fluidnpu.hls.program import decode_for, encode_fbcb, layer_job
from fluidnpu.models import Kind, LayerShape
from fluidnpu.models.graph import LEAST_FILTERED, Filtering

from ..common.command import ended
from ..data_plane.environment.jobs import BenchProgram, Shape, make_program
from ..errors import ParameterError, RtlError, SimulationError
from ..simulation.bench import read_design
from .device import LayerRun, RtlNpu
from .job import differences, shared_model

PROG = "python -m fluidnpu.rtl_tb.npu.layers"
MEMORY = 1 << 28  # bytes of the simulated memory
LIMIT = 1 << 28  # cycles of a layer
MOST_BEATS = 3_000_000  # input beats of a layer: a minute or so of simulation on a large array
_KINDS = {Kind.GEMM: 0, Kind.MAX_POOL: 1, Kind.SUM_POOL: 2}


@dataclass(frozen=True, kw_only=True)
class RtlLayerCheck:
    """One layer at one batch: the RTL's run, the exact model's cycles, and whether every word was right."""

    name: str
    plan: str
    batch: int
    run: LayerRun
    model: LayerCycles
    right: bool

    @property
    def ok(self) -> bool:
        """True when words, cycles, beats and bursts are all equal."""
        return self.right and not differences(self.run, self.model)


def shape_of(layer: LayerShape, most: tuple[int, int] | None) -> Shape:
    """Return a layer of a design as the benches have it, its outputs cut to at most `most` rows and columns.

    A layer of which only <R, P, C> is known is a 1x1 convolution over R pixels.
    """
    window = layer.window
    out = window.out if window else (1, layer.r)
    if most is not None:
        out = (min(out[0], most[0]), min(out[1], most[1]))
    kernel = window.kernel if window else (1, 1)
    kind = _KINDS[layer.kind]
    words = layer.c if kind else layer.p // (kernel[0] * kernel[1])
    pooling = layer.pooling
    shape = Shape(
        kind=kind,
        kernel=kernel,
        stride=window.stride if window else (1, 1),
        dilation=window.dilation if window else (1, 1),
        out=out,
        group_words=words,
        groups=layer.groups,
        columns=layer.c,
        residual=layer.residual,
        beside=max(0, window.channels - words * layer.groups) if window else 0,
        pool=(pooling.kernel, *pooling.padded) if pooling else (0, 0, 0),
        filter=_cut_filter(layer.filtering, window.out, out) if layer.filtering and window else None,
        merged=layer.merged,
        activation=ActivationCode[layer.activation.upper() or "NONE"],
        spread=layer.residual_spread,
        fixed=layer.residual_fixed,
    )
    return shape if shape.pools else replace(shape, pool=(0, 0, 0))  # what is cut may be no map that it pools


def _cut_filter(filtering: Filtering, whole: tuple[int, int], out: tuple[int, int]) -> Filtering | None:
    """The filter over the part of a map that is left; None where that is too small for it."""
    kernel, stride = filtering.kernel, filtering.stride
    behind = [walk - size for walk, size in zip(filtering.walk(whole), whole, strict=True)]
    spans = [size + before + after - kernel for size, before, after in zip(out, filtering.padded, behind, strict=True)]
    if out[1] < LEAST_FILTERED or min(spans) < 0:
        return None
    high, wide = (min(span // stride + 1, most) for span, most in zip(spans, filtering.out, strict=True))
    return replace(filtering, out=(high, wide))


def fbcb_word(design: Design, index: int, batch: int) -> int:
    """Return the FBCB word of a layer's plan at a batch size."""
    return encode_fbcb(design.mode(index, batch), design.plans[index][batch - 1], batch)


def run_layer(npu: RtlNpu, program: BenchProgram, word: int, active: Sequence[int], *, limit: int = LIMIT) -> LayerRun:
    """Run the first layer of a program as one job on these slots, with its FBCB word.

    The program's memory is put at the beginning of the NPU's. Raises ParameterError when it is larger, and
    SimulationError unless the job ends well.
    """
    shift = npu.base - program.base
    if len(program.memory) > len(npu.memory):
        raise ParameterError(
            f"a layer must fit a memory of {len(npu.memory)} bytes, and it takes {len(program.memory)}"
        )
    npu.view(npu.base, len(program.memory))[:] = np.frombuffer(program.memory, np.uint8)
    addresses = {"PROGRAM": program.program, "WEIGHTS": program.weights, "SLOT_BASE": program.slot_base}
    for name, address in addresses.items():
        _put(npu, f"{name}_LO", (address + shift) & 0xFFFF_FFFF)
        _put(npu, f"{name}_HI", address + shift >> 32)
    settings = {
        "SLOT_BYTES": program.slot_bytes, "LAYERS": 1, "FIRST_LAYER": 0, "LAST_LAYER": 0, "IRQ_ENABLE": 3,
        "FBCB_INDEX": len(active) - 1, "FBCB_DATA": word, "SLOT_MASK": sum(1 << slot for slot in active),
        "CTRL": register("CTRL").field("SOFT_RESET").mask,
    }  # fmt: skip
    for name, value in settings.items():
        _put(npu, name, value)
    if npu.run(100):
        raise SimulationError("a soft reset must not raise the interrupt")
    npu.take_layers()
    for command in ("MERGE", "START"):
        _put(npu, "CTRL", register("CTRL").field(command).mask)
    finished, error = npu.run(limit, until_interrupt=True), npu.read(register("ERROR").offset)
    if not finished or error:
        raise SimulationError(f"the job must end within {limit} cycles and without an error, and ERROR is {error:#x}")
    _put(npu, "IRQ_STATUS", 3)
    (run,) = npu.take_layers()
    return run


def is_right(npu: RtlNpu, program: BenchProgram, word: int, active: Sequence[int]) -> bool:
    """Tell if memory is what the stream model makes of the program's: every word of every slot."""
    want = bytearray(program.memory)
    every = program.slot_words(want)
    slots = every[list(active)]
    streams = layer_streams(program.descriptors[0], word, program.design, slots, program.image)
    answer, _ = execute_streams_reference(streams, program.design)
    scatter_output(program.descriptors[0], word, program.design, answer, slots, program.image)
    every[list(active)] = slots
    return bytes(npu.view(npu.base, len(want))) == bytes(want)


def exact_cycles(npu: RtlNpu, program: BenchProgram, word: int, active: Sequence[int], run: LayerRun) -> LayerCycles:
    """Return the exact model's cycles of the job that `run_layer` ran."""
    descriptor, shift, design = program.descriptors[0], npu.base - program.base, program.design
    places = {"weights": program.weights + shift, "descriptor": program.program + shift}
    job = layer_job(design, descriptor, word, len(active), **places)
    slots = [program.slot_base + shift + slot * program.slot_bytes for slot in active]
    (cycles,) = job_cycles([job], slots, npu.model.machine, npu.dram, first_cycle=run.start_cycle, limit=4 * run.cycles)
    return cycles


def check_layer(npu: RtlNpu, design: Design, index: int, batch: int, most: tuple[int, int] | None) -> RtlLayerCheck:
    """Run one layer of a design at a batch size, on RTL and in both models."""
    layer = design.lowered(index)
    rng = random.Random(f"{layer.name} {batch}")
    word = fbcb_word(design, index, batch)
    program = make_program(design, [shape_of(layer, most)], rng, words={0: word})
    active = sorted(rng.sample(range(program.slots), batch))
    run = run_layer(npu, program, word, active)
    plan = design.plans[index][batch - 1]
    lanes = " row lanes" if plan.row_lanes else ""
    return RtlLayerCheck(
        name=layer.name,
        plan=f"k={plan.k}{lanes} b_r={plan.b_r} block={plan.block or 'bank'}",
        batch=batch,
        run=run,
        model=exact_cycles(npu, program, word, active, run),
        right=is_right(npu, program, word, active),
    )


def open_npu(design: Design, dram: DramModel) -> RtlNpu:
    """Return the NPU of a design; its build serves every network on the same array."""
    return RtlNpu(shared_model(design), dram=dram, memory_bytes=MEMORY)


def _put(npu: RtlNpu, name: str, value: int) -> None:
    npu.write(register(name).offset, value)


def _chosen(design: Design, names: Sequence[str]) -> list[int]:
    layer_names = [layer.name for layer in design.layers]
    for name in names:
        if name not in layer_names:
            near = get_close_matches(name, layer_names, 3) or layer_names[:3]
            raise ParameterError(f"a layer of the design must be named, such as {', '.join(near)}, not '{name}'")
    return [layer_names.index(name) for name in names] or list(range(len(layer_names)))


def _cut(text: str) -> tuple[int, int] | None:
    if text == "full":
        return None
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if match is None:
        raise ParameterError(f"--out must be rows and columns such as 8x8, or full, not {text}")
    return int(match[1]), int(match[2])


def _within(design: Design, indices: Sequence[int], batch: int, most: tuple[int, int] | None) -> None:
    for index in indices:
        shape = shape_of(design.lowered(index), most)
        width, columns = design.tile(
            decode_for(design, fbcb_word(design, index, batch), kind=shape.kind, batch=batch).mode
        )
        taps, pixels = shape.kernel[0] * shape.kernel[1], shape.out[0] * shape.out[1]
        tiles = taps if shape.kind else -(-taps * shape.group_words // width)
        beats = batch * pixels * tiles * shape.groups * -(-shape.columns // columns)
        if beats > MOST_BEATS:
            raise ParameterError(
                f"a layer must take at most {MOST_BEATS} input beats, and '{design.layers[index].name}' takes {beats}: "
                "cut it with --out"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run layers and print a table; returns 1 when a word or a cycle differs, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Run layers of a design on the RTL of its array, and compare every word and every cycle.",
        epilog="The design may be of any board. Outputs are cut, so that a layer takes seconds: --out full runs it whole.",
    )
    parser.add_argument("design", metavar="DESIGN", help="a design file of `fluidnpu dse`")
    parser.add_argument(
        "--layer", metavar="NAME", action="append", default=[], help="a layer of the design; all by default"
    )
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="samples of the job, 1 by default")
    parser.add_argument(
        "--out", default="8x8", metavar="HxW", help="most output rows and columns (default 8x8), or full"
    )
    parser.add_argument("--board", metavar="FILE.toml", help="the board, for a design of a file that carries none")
    parser.add_argument("--ideal", action="store_true", help="memory that answers at once, not the board's")
    chosen = parser.parse_args(arguments)
    try:
        design, most = read_design(chosen.design), _cut(chosen.out)
        if not 1 <= chosen.batch <= design.b_max:
            raise ParameterError(f"--batch must lie in 1..{design.b_max}, not {chosen.batch}")
        indices = _chosen(design, chosen.layer)
        _within(design, indices, chosen.batch, most)
        if chosen.board is not None:
            design = design.on(load_board(chosen.board))
        dram = DramModel.IDEAL if chosen.ideal else design.dram
    except (ParameterError, DesignError, BoardFileError) as error:
        parser.error(str(error))
    try:
        return _table(design, indices, chosen.batch, most, dram)
    except ParameterError as error:
        parser.error(str(error))
    except (RtlError, OSError) as error:
        print(f"FAIL  {error}", file=sys.stderr)
        return 1


def _table(design: Design, indices: Sequence[int], batch: int, most: tuple[int, int] | None, dram: DramModel) -> int:
    began = time.monotonic()
    npu = open_npu(design, dram)
    name = f"<{design.t_r}, {design.t_p}, {design.t_c}>"
    print(f"{name} of {design.board}, batch {batch}, built in {time.monotonic() - began:.1f} s; cycles are simulated")
    print(f"{'':4}  {'layer':24} {'plan':28} {'RTL':>10} {'exact':>10} {'busy':>6}  words")
    bad = 0
    for index in indices:
        check = check_layer(npu, design, index, batch, most)
        bad += not check.ok
        busy = f"{100 * check.run.input_beats / check.run.cycles:.0f} %"
        words = "equal" if check.right else "WRONG"
        print(f"{'PASS' if check.ok else 'FAIL'}  {check.name[:24]:24} {check.plan:28} {check.run.cycles:10} "
              f"{check.model.cycles:10} {busy:>6}  {words}", flush=True)  # fmt: skip
        for what, (rtl, model) in differences(check.run, check.model).items():
            print(f"      {what}: {rtl} in RTL, {model} in the exact model")
    print(f"{len(indices) - bad} of {len(indices)} layers passed in {time.monotonic() - began:.1f} s")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.npu.layers"))
