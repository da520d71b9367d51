"""Residual reader against the stream model: the rows of the residual in the order of the outputs."""

from __future__ import annotations

from itertools import product

from fluidnpu.hls.formats import TILE

from ...common.benches.clock import Dut, begin, bench, reset
from ...common.benches.streams import Reader, Sink, StreamSource, pulse, running
from ...common.benches.words import beats_of
from ..environment.cases import PORT_BYTES, random_case
from ..environment.jobs import array_under_test

DESIGN = array_under_test(weight_slots=2, out_words=3, activation=1)


@bench(50_000)
async def residuals_come_in_the_order_of_outputs(dut: Dut) -> None:
    """Rows that begin at any word of a port word come in the order of outputs.

    So do a pixel for the whole map, and a word for all channels of a pixel, of which one port word is read.
    """
    rng = await begin(dut)
    kinds = list(product((False, True), repeat=2))
    for number in range(28):
        spread, fixed = kinds[number % len(kinds)]
        case = random_case(rng, DESIGN, residual=True, spread=spread, fixed=fixed)
        await reset(dut, **case.reset_inputs())
        await pulse(dut, "layer_start_i")
        reader = Reader(dut, rng, case.padded_memory(), case.program.base, PORT_BYTES)
        commands = StreamSource(dut, rng, "command_valid_i", "command_ready_o", ("command_i",))
        commands.items.extend((TILE.pack(command),) for command in case.commands())
        beats = Sink(dut, rng, "beat_valid_o", "beat_ready_i", ("beat_o",))
        expected = beats_of(case.streams.residual) + beats_of(case.streams.factor)
        with running(reader, commands, beats):
            await beats.take(len(expected), 20 * len(expected) + 500)
        assert [beat for (beat,) in beats.got] == expected
        assert not spread or {words for _, words in reader.asked} == {1}
        assert not spread or not fixed or len(set(reader.asked)) == len(case.active)
