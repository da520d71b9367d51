"""How well the input DMA uses its port: layers one by one on a DRAM model with a fixed latency, counted, written to `efficiency.json`."""

from __future__ import annotations

import json
import os
from pathlib import Path

from .common import Dut, begin, bench, reset, setting
from .data_plane import DESIGN, PORT_BYTES, attach, change_batch
from .dram import Weather
from .jobs import Shape, make_program

LATENCY = setting("LATENCY", 100)


@bench(100_000_000)
async def measure(dut: Dut) -> None:
    """Every layer of `$SHAPES` at batch 1 with the FBCB word it names; beats are held to the model as always."""
    rng = await begin(dut)
    results = []
    for entry in json.loads(os.environ["SHAPES"]):
        shape = Shape(**{**entry["shape"], **{k: tuple(entry["shape"][k]) for k in ("kernel", "stride", "out")}})
        program = make_program(DESIGN, [shape] * setting("LAYERS", 1), rng, words={0: entry["word"]})
        await reset(dut)
        host = await attach(dut, rng, program, Weather(latency=(LATENCY, LATENCY)), 1.0)
        await change_batch(host, [], [0])
        cycles = await host.job([0], 0, 0)
        host.stop()
        columns = sum(1 for c in host.core.want.cmd) or 1
        blocks = -(-shape.out[0] * shape.out[1] // DESIGN.t_r)
        words = shape.out[0] * shape.out[1] * shape.kernel[0] * shape.kernel[1] * shape.group_words
        counters = host.dram.counters
        read = counters["m1_axi"].read_beats
        log = [(address, beats) for _, _, address, beats, _ in counters["m1_axi"].log]
        places = [address + i * PORT_BYTES for address, beats in log for i in range(beats)]
        d, slot = program.descriptors[0], program.slot_base
        rows = {slot + d.in_offset + y * d.in_row_bytes for y in range(shape.out[0] + shape.kernel[0] - 1)}
        length = (shape.out[1] + shape.kernel[1] - 1) * d.in_pixel_bytes
        useful = {(at + i) // PORT_BYTES for at in rows for i in range(0, length, 2)}
        results.append(
            {
                "name": entry["name"],
                "cycles": cycles,
                "input_beats": len(host.core.want.input),
                "delivered_words": words * shape.groups * columns // (blocks * shape.groups),
                "port_beats": read,
                "port_words": PORT_BYTES // 2,
                "read_again": len(places) - len(set(places)),
                "outside": len({at // PORT_BYTES for at in places} - useful),
                "program_beats": counters["m0_axi"].read_beats,
                "output_beats": len(host.core.want.output),
                "write_beats": counters["m2_axi"].write_beats,
                "bursts": host.dram.counters["m1_axi"].read_bursts,
            }
        )
    Path("efficiency.json").write_text(json.dumps(results))
