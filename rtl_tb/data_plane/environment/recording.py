"""Runs one layer through a sequence of batches; `bursts.txt` beside the waveform decodes every burst."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluidnpu.hls.program import Descriptor

from ...common.benches.clock import Dut, begin, bench
from .host import DESIGN, FAIR, PORT_BYTES, Host, attach, change_batch
from .jobs import BenchProgram, Shape, make_program


@dataclass(frozen=True)
class Decoder:
    """Describes the contents of an address."""

    program: BenchProgram
    layer: Descriptor

    def place(self, address: int, size: int) -> str:
        """Name the part of the program, or the slot, tensor, row and pixels."""
        p = self.program
        if address < p.weights:
            return f"descriptor {(address - p.program) // 128}"
        if address < p.slot_base:
            return f"weights, bytes {address - p.weights}..{address - p.weights + size - 1}"
        slot, offset = divmod(address - p.slot_base, p.slot_bytes)
        d = self.layer
        tensors = [
            ("input", d.in_offset, d.in_row_bytes, d.in_pixel_bytes),
            ("output", d.out_offset, d.out_row_bytes, d.out_pixel_bytes),
        ]
        if d.has_residual:
            tensors.append(("residual", d.residual_offset, d.residual_row_bytes, d.residual_pixel_bytes))
        name, start, row, pixel = max((t for t in tensors if t[1] < offset + size), key=lambda t: t[1])
        first, last = max(offset - start, 0), max(offset + size - 1 - start, 0)
        return f"slot {slot}, {name} row {first // row} pixel {first % row // pixel} .. row {last // row} pixel {last % row // pixel}"


def progress(host: Host) -> str:
    """Name the command, P-tile and beat that the core takes next."""
    taken, before = host.core.got["input"], 0
    for number, (inputs, _, _) in enumerate(host.core.want.after):
        if taken < inputs:
            beats = host.core.want.cmd[number] >> 4 & 0xFFFF
            tile, beat = divmod(taken - before, beats)
            return f"core at command {number}, tile {tile}, beat {beat}"
        before = inputs
    return "core has all inputs"


@bench(10_000_000)
async def record(dut: Dut) -> None:
    """Run the layer for each batch of `$BATCHES` in turn, with exits and merges between them."""
    rng = await begin(dut)
    raw: dict[str, Any] = json.loads(os.environ["SHAPE"])
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    shape = Shape(**fields)
    words = {0: int(os.environ["WORD"])}
    program = make_program(DESIGN, [shape] * int(os.environ["LAYERS"]), rng, words=words)
    host = await attach(dut, rng, program, FAIR, 1.0)
    host.dram.note = lambda: progress(host)
    decoder = Decoder(program, program.descriptors[0])
    lines: list[str] = []
    active: list[int] = []
    for batch in json.loads(os.environ["BATCHES"]):
        if batch != active:
            await change_batch(host, active, batch)
        active = batch
        for counters in host.dram.counters.values():
            counters.log.clear()
        cycles = await host.job(active, 0, 0)
        lines.append(
            f"# job on slots {active}: {cycles} cycles, {len(host.core.want.cmd)} commands, mode {host.core.want.modes[0].name}"
        )
        entries = sorted((entry, port) for port, c in host.dram.counters.items() for entry in c.log)
        for (cycle, way, address, beats, note), port in entries:
            what = decoder.place(address, beats * PORT_BYTES)
            lines.append(f"{cycle:8} {port} {'reads' if way == 'r' else 'writes'} {beats:3} beats: {what} ({note})")
    Path("bursts.txt").write_text("\n".join(lines) + "\n")
