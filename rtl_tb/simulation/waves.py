"""Writes a waveform (FST) of one layer and a decoded log beside it.

    python -m fluidnpu.rtl_tb.simulation.waves '{"kernel": [3, 3]}' 0 '[[0, 1, 2], [0, 2]]'

Verilator traces to VCD, which needs no library; `write_fst` turns that into FST, some thirty times smaller.
The VCD is removed unless it was asked for.

>>> parse_batches("[[2, 0], [0]]")
[[0, 2], [0]]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from fluidnpu.hls.formats import ActivationCode
from fluidnpu.hls.program import decode_layer
from fluidnpu.models.graph import LEAST_POOLED

from ..common.command import ended
from ..data_plane.parameters import DATA_PLANE_TOP, data_plane_parameters
from ..errors import SimulationError
from .model import RtlModel, play

if TYPE_CHECKING:
    from ..data_plane.environment.jobs import Shape

SIZES = {
    "t_r": 16, "t_p": 4, "t_c": 8, "b_max": 8, "stackable": 1, "split": 0, "weight_slots": 1, "out_words": 4, "activation": 1
}  # fmt: skip
SLOTS = SIZES["b_max"] + 2  # of `jobs.make_program`
CHANNELS = 32  # most of a network's layer, whose height and width `networks` has cut
LIMIT = 100_000  # input beats; each costs about 4 kB of VCD before it is FST
SLOT_LIMIT = 1 << 22  # bytes

HELP = """
SHAPE is JSON with any fields of rtl_tb.data_plane.environment.jobs.Shape but `filter`, or the name of a network's layer (--list), cut
to a few pixels and at most 32 channels. Its activation is 1 to 4: a table, a product, slopes, slopes and offsets, all random.
FBCB_WORD is what ADR 5 describes: k in bits 0..1 (0: k = 1, 1: k = 2, 3: row lanes), b_r - 1 in bits 2..6, the row
block in bits 7 and up (0: as deep as the banks); b_r is raised or lowered to what a batch allows.
BATCHES are the slots of one job after another: who is missing in the next has left, who is new has been merged.

A 3 x 3 layer with a residual on slots 0, 1, 2, then without slot 1, two samples stacked in the lanes of the first job:
  python -m fluidnpu.rtl_tb.simulation.waves '{"kernel": [3, 3], "residual": true}' 4 '[[0, 1, 2], [0, 2]]'
A layer of ResNet-50 at batch 2, which slot 5 joins:
  python -m fluidnpu.rtl_tb.simulation.waves 'resnet50 3x3 s1 64 -> 64' 0 '[[0, 1], [0, 1, 5]]'

Everything goes below $FLUIDNPU_BUILD (build/ by default).
"""


def parse_shape(text: str) -> Shape:
    """Read a shape from JSON or take the layer of that name. Raises ValueError of one sentence."""
    from ..data_plane.environment.jobs import Shape
    from ..data_plane.environment.networks import shapes

    if not text.lstrip().startswith("{"):
        named = dict(shapes())
        if text not in named:
            raise ValueError(f"SHAPE must be a JSON object or the name of a layer (--list shows them), not {text}")
        whole = named[text]
        cut = {name: min(getattr(whole, name), CHANNELS) for name in ("group_words", "groups", "columns")}
        return replace(whole, **cut)
    given = _json("SHAPE", text)
    defaults = {
        field.name: field.default for field in fields(Shape) if field.name != "filter"
    }  # which SIZES has none of
    for name, value in given.items():
        if name not in defaults:
            raise ValueError(f"SHAPE must have fields of {', '.join(defaults)}, not {name}")
        default = defaults[name]
        wants, fits = "a whole number that is not negative", _is_number(value)
        if isinstance(default, bool):
            wants, fits = "true or false", isinstance(value, bool)
        elif isinstance(default, tuple):
            wants = "two whole numbers that are not negative, height first"
            if len(default) == 3:
                wants = "three whole numbers that are not negative: kernel, rows above, columns left"
            fits = isinstance(value, list) and len(value) == len(default) and all(map(_is_number, value))
        if not fits:
            raise ValueError(f"{name} of SHAPE must be {wants}, not {json.dumps(value)}")
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
    return Shape(**values)


def parse_word(text: str) -> int:
    """Read a register's value, decimal or with a prefix. Raises ValueError of one sentence."""
    try:
        word = int(text, 0)
    except ValueError:
        word = -1
    if not 0 <= word < 1 << 32:
        raise ValueError(f"FBCB_WORD must be a number of 32 bits such as 4 or 0x204, not {text}")
    return word


def parse_batches(text: str) -> list[list[int]]:
    """Read the slots of each job, ascending. Raises ValueError of one sentence."""
    batches = _json("BATCHES", text)
    b_max = SIZES["b_max"]
    must = f"BATCHES must be a list of jobs, each a list of 1 to {b_max} different slots of 0..{SLOTS - 1}"
    if not isinstance(batches, list) or not batches:
        raise ValueError(f"{must}, not {text}")
    for job in batches:
        if not isinstance(job, list) or not all(_is_number(slot) and slot < SLOTS for slot in job):
            raise ValueError(f"{must}, not {json.dumps(job)}")
        if not 1 <= len(job) <= b_max or len(set(job)) < len(job):
            raise ValueError(f"{must}, not {json.dumps(job)}")
    return [sorted(job) for job in batches]


def _json(what: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{what} must be JSON ({error.msg} at character {error.pos}), not {text}") from None


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check(shape: Shape, word: int, batches: Sequence[Sequence[int]]) -> None:
    """Raise ValueError of one sentence if the hardware would refuse the layer or its waveform would be too
    large.
    """
    from ..data_plane.environment.jobs import SlotAllocator, bench_design, make_program, place

    pixels, taps = shape.out[0] * shape.out[1], shape.kernel[0] * shape.kernel[1]
    tiles = -(-taps * shape.group_words // SIZES["t_p"]) * -(-shape.columns // SIZES["t_c"]) * shape.groups
    beats = sum(len(batch) for batch in batches) * pixels * tiles
    if beats > LIMIT:
        raise ValueError(f"a layer must take at most {LIMIT} input beats over all jobs to be recorded, not {beats}")
    if shape.merged:
        raise ValueError("a layer must not be merged with another to be recorded alone")
    if shape.pool[0] and not shape.pools:
        raise ValueError(
            f"outputs of a GEMM pass a pool of 2 or 3 that covers a map of at least {LEAST_POOLED} columns, not "
            f"{list(shape.pool)} on {list(shape.out)}"
        )
    layout, design = SlotAllocator(), bench_design(SIZES)
    descriptor = place(shape, Random(0), layout, design)
    needed, (_, room) = descriptor.pooled_hw[1] * descriptor.pool_pitch, design.pool_room
    if needed > room:
        raise ValueError(f"a row of pooled maxima must take at most {room} beats to be recorded, not {needed}")
    lane, words = 256, descriptor.columns * descriptor.groups
    if descriptor.activation >= ActivationCode.SLOPE and descriptor.pieces > lane * design.out_words:
        raise ValueError(f"channels of a slope must fit the {lane} pieces of each lane, and {words} do not")
    if layout.used > SLOT_LIMIT:
        raise ValueError(f"a layer's tensors must take at most {SLOT_LIMIT} bytes of a slot, not {layout.used}")
    if shape.kind and shape.groups > 1:
        raise ValueError(f"a pool must have one group, not {shape.groups}")
    program = make_program(design, [shape], Random(0), words={0: word})
    for batch in map(len, batches):
        decode_layer(design, program.fbcb[batch - 1], descriptor, batch)


def record(
    shape: Shape, word: int, batches: Sequence[Sequence[int]], *, keep_vcd: bool = False
) -> tuple[Path, Path, Path | None]:
    """Record a layer; returns (waveform, decoded log, VCD if kept). Raises SimulationError when a beat is
    wrong; the waveform up to there is kept.
    """
    from ..data_plane.environment.jobs import bench_design

    parameters = data_plane_parameters(bench_design(SIZES)) | {"Layers": 1, "BuildId": 0}
    model = RtlModel(top=DATA_PLANE_TOP, parameters=parameters, waves=True)
    env = {"SIZES": json.dumps(SIZES), "LAYERS": "1", "SHAPE": json.dumps(asdict(shape)), "WORD": str(word)}
    env |= {"BATCHES": json.dumps(batches)}
    done = play(model, "recording", env=env, keep_vcd=keep_vcd)
    if done.failed:
        raise SimulationError(f"{done.cases[0].message}\nwaveform up to there: {done.waveform}")
    assert done.waveform is not None
    return done.waveform, done.log.with_name("bursts.txt"), done.waveform.with_suffix(".vcd") if keep_vcd else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Record a layer and print the paths; exit code 2 for wrong arguments, 1 when the simulation fails."""
    parser = argparse.ArgumentParser(
        prog="python -m fluidnpu.rtl_tb.simulation.waves",
        usage="python -m fluidnpu.rtl_tb.simulation.waves [--vcd] SHAPE FBCB_WORD BATCHES, or --list",
        description="Simulate one layer through a sequence of batches and write its waveform (FST) and a log that decodes every burst.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shape", metavar="SHAPE", nargs="?", help="the layer: JSON or a name")
    parser.add_argument("word", metavar="FBCB_WORD", nargs="?", help="its plan, 0x.. or decimal")
    parser.add_argument("batches", metavar="BATCHES", nargs="?", help="slots of each job, as JSON")
    parser.add_argument("--vcd", action="store_true", help="keep the VCD as well")
    parser.add_argument("--list", action="store_true", help="show the names of layers and stop")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        from ..data_plane.environment.networks import shapes

        print("\n".join(name for name, _ in shapes()))
        return
    if chosen.batches is None:
        parser.error("SHAPE, FBCB_WORD and BATCHES must be given; --help shows an example")
    try:
        shape, word, batches = parse_shape(chosen.shape), parse_word(chosen.word), parse_batches(chosen.batches)
        check(shape, word, batches)
    except ValueError as error:
        parser.error(str(error))
    try:
        fst, log, vcd = record(shape, word, batches, keep_vcd=chosen.vcd)
    except SimulationError as error:
        sys.exit(str(error))
    print(f"layer: {json.dumps(asdict(shape))}\nwaveform: {fst}\nlog: {log}")
    if vcd:
        print(f"VCD: {vcd}")
    print("\n".join(log.read_text().splitlines()[:20]))


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.simulation.waves"))
