"""Weight streamer against the stream model: the layer's part of the image, once for every row block."""

from __future__ import annotations

from fluidnpu.hls.formats import LAYER

from ...common.benches.clock import Dut, begin, bench, reset
from ...common.benches.streams import Reader, Sink, StreamSource, running, until
from ...common.benches.words import beats_of
from ..environment.cases import NARROW_DESIGN, PORT_BYTES, Case, random_case


def blocks(case: Case) -> int:
    """Count the row blocks of the layer."""
    return sum(command["block_first"] for command in case.commands())


@bench(50_000)
async def weights_are_copied_for_every_block(dut: Dut) -> None:
    """Each row block gets the layer's part of the image; nothing beyond it is read."""
    rng = await begin(dut)
    for _ in range(25):
        case = random_case(rng, NARROW_DESIGN, kind=0)
        program, layer = case.program, case.layer()
        await reset(dut, layer_i=LAYER.pack(layer), image_i=program.weights)
        reader = Reader(dut, rng, case.padded_memory(), program.base, PORT_BYTES)
        jobs = StreamSource(dut, rng, "block_valid_i", "block_ready_o", ())
        beats = Sink(dut, rng, "beat_valid_o", "beat_ready_i", ("beat_o",))
        jobs.items.extend([()] * blocks(case))
        expected = beats_of(case.streams.weight)
        with running(reader, jobs, beats):
            await beats.take(len(expected), 20 * len(expected) + 500)
            await until(dut, lambda: dut.idle_o.value, 10, "idle")
        assert [beat for (beat,) in beats.got] == expected
        port_words = -(-NARROW_DESIGN.word_bytes * layer["block_words"] // PORT_BYTES)
        assert reader.asked == [(program.weights + layer["weights"], port_words)] * blocks(case)
