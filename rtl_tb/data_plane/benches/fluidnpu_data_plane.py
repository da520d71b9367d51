"""The whole data plane under random jobs: every beat of the five streams and every byte of memory is
compared.
"""

from __future__ import annotations

import random
from dataclasses import replace

from cocotb.triggers import RisingEdge

from fluidnpu.hls import Cause, register
from fluidnpu.hls.program import decode_for, with_checksum

from ...common.benches.clock import Dut, begin, bench, reset, setting
from ...common.benches.lite import LiteMaster
from ...common.benches.streams import raised
from .. import coverage
from ..environment.host import (
    COUNTER_FULL,
    DESIGN,
    FAIR,
    LAYERS,
    ROUGH,
    SATURATED,
    Host,
    attach,
    change_batch,
    meet,
    open_host,
    some_slots,
)
from ..environment.jobs import ExpectedBeats, Shape, expect, make_program, random_shape


@bench(20_000)
async def one_plain_layer(dut: Dut) -> None:
    """A 3 x 3 convolution at batch 1 on an ideal memory is right."""
    host = await open_host(dut, [Shape(kernel=(3, 3), group_words=5, columns=11)] * LAYERS, words={0: 0})
    await change_batch(host, [], [2])
    await host.job([2], 0, 0)


@bench(200_000)
async def random_layers(dut: Dut) -> None:
    """Random programs, batches, exits and merges are right in fair and rough weather."""
    rng = await begin(dut)
    for number in range(setting("PROGRAMS", 4)):
        weather, pace = (FAIR, 1.0) if number % 2 else (ROUGH, 0.6)
        program = make_program(DESIGN, [random_shape(rng, DESIGN) for _ in range(LAYERS)], rng)
        await reset(dut)
        host = await attach(dut, rng, program, weather, pace)
        active: list[int] = []
        for _ in range(3):
            batch = some_slots(rng, program, rng.randrange(1, DESIGN.b_max + 1))
            if set(batch) != set(active):
                await change_batch(host, active, batch)
            active = batch
            host.core.first = rng.choice([0, COUNTER_FULL - 40 * SATURATED])
            first = rng.randrange(LAYERS)
            await host.job(active, first, rng.randrange(first, LAYERS))
        host.cover_bursts()
        host.stop()


@bench(2_000_000)
async def every_plan_at_every_batch(dut: Dut) -> None:
    """Each k and each b_r at each batch size is right; the FBCB is rewritten before every job."""
    rng = await begin(dut)
    shapes = [random_shape(rng, DESIGN) for _ in range(LAYERS)]
    for index, shape in enumerate(shapes):
        plain = replace(shape, kind=0, groups=1, merged=False, filter=None)
        shapes[index] = replace(plain, out=(3, 4), columns=DESIGN.t_c - 1)
    host = await attach(dut, rng, make_program(DESIGN, shapes, rng, every_mode=True), FAIR, 1.0)
    active: list[int] = []
    for _, word, batch in coverage.plans(DESIGN):
        layer = rng.randrange(LAYERS)
        fbcb, at = list(host.program.fbcb), layer * DESIGN.b_max + batch - 1
        fbcb[at] = word
        host.program = replace(host.program, fbcb=tuple(fbcb))
        await host.put("FBCB_INDEX", at)
        await host.put("FBCB_DATA", word)
        new = some_slots(rng, host.program, batch)
        if set(new) != set(active):
            await change_batch(host, active, new)
        active = new
        await host.job(active, layer, layer)
    host.cover_bursts()


# -- errors --------------------------------------------------------------------------------------------------


def varied_shapes(rng: random.Random) -> list[Shape]:
    """Layers with weights, residuals and a pool, large enough that something is under way for a while, and
    any others.
    """
    plain = Shape(kernel=(3, 3), group_words=9, columns=DESIGN.t_c + 3, out=(5, 5), residual=True)
    return [plain, Shape(kind=1, kernel=(2, 2), group_words=7), *(random_shape(rng, DESIGN) for _ in range(LAYERS - 2))]


async def must_fail(host: Host, cause: Cause, layer: int | None = None) -> None:
    """Check that the job ends with that cause and layer, and that the NPU is idle."""
    status = await host.wait_idle()
    assert await host.error() is cause
    assert not register("STATUS").field("DONE").get(status)
    if layer is not None:
        assert register("ERROR").field("LAYER").get(await host.get("ERROR")) == layer


@bench(50_000)
async def refused_commands_change_nothing(dut: Dut) -> None:
    """Every cause from EXIT_NOT_ACTIVE to BUSY is told; the batch stays, and a good job runs afterwards."""
    rng = await begin(dut)
    host = await attach(dut, rng, make_program(DESIGN, varied_shapes(rng), rng), FAIR, 1.0)

    async def refused(cause: Cause, active: int) -> None:
        assert await host.error() is cause
        assert await host.get("ACTIVE") == active
        assert dut.irq_o.value
        await host.put("IRQ_STATUS", 3)

    await host.start(0, 0)
    await refused(Cause.EMPTY_BATCH, 0)
    await host.soft_reset()
    await host.command("MERGE", 0b11)
    for verb, mask, cause in (
        ("EXIT", 0b100, Cause.EXIT_NOT_ACTIVE),
        ("EXIT", 0b101, Cause.EXIT_NOT_ACTIVE),
        ("MERGE", 0b110, Cause.MERGE_ACTIVE),
        ("MERGE", ((1 << DESIGN.b_max) - 1) << 2, Cause.BATCH_TOO_LARGE),
    ):
        host.core.want = ExpectedBeats()
        await host.command(verb, mask)
        await refused(cause, 0b11)
        await host.soft_reset()
        await host.command("MERGE", 0b11)
    for first, last in ((1, 0), (0, LAYERS), (LAYERS, LAYERS)):
        await host.start(first, last)
        await refused(Cause.BAD_LAYER_RANGE, 0b11)
    for name, bit in (*((name, bit) for name in ("PROGRAM_LO", "WEIGHTS_LO", "SLOT_BASE_LO", "SLOT_BYTES") for bit in range(6)),
                      *((f"{name}_HI", bit) for name in ("PROGRAM", "WEIGHTS", "SLOT_BASE") for bit in (8, 19, 31))):  # fmt: skip
        value = await host.get(name)
        await host.put(name, value ^ 1 << bit)
        await host.start(0, 0)
        await refused(Cause.BAD_DESCRIPTOR, 0b11)
        await host.put(name, value)
    await host.put("FBCB_INDEX", LAYERS * DESIGN.b_max)
    await host.put("FBCB_DATA", 0)
    await host.job([0, 1], 0, LAYERS - 1)
    host.core.expect(expect(host.program, [0, 1], range(1), host.dram.memory))
    await host.start(0, 0)
    await host.command("EXIT", 0b01)
    assert await host.get("ACTIVE") == 0b11
    await host.wait_idle()
    await host.command("EXIT", 0b01)
    assert await host.get("ACTIVE") == 0b10


@bench(200_000)
async def wrong_descriptors_are_named(dut: Dut) -> None:
    """Every wrong field of a descriptor or FBCB word is told with its layer; the next job is right again."""
    rng = await begin(dut)
    host = await attach(dut, rng, make_program(DESIGN, varied_shapes(rng), rng), ROUGH, 1.0)
    await host.command("MERGE", 0b101)
    good = list(host.program.descriptors[0].words())
    spoils = [
        (0, 0),
        (2, 0x0101_0100),
        (2, 0x0001_0303),
        (3, 0x0100),
        (4, 5),
        (4, 5 << 16),
        (5, 9),
        (5, 1 << 16),
        (6, 0),
    ]
    of_bytes = int(DESIGN.word_bytes == 1) << 5
    spoils += [(1, value | of_bytes) for value in (3, 48 << 8, 32 << 16)] + [(1, 1 << 5 ^ of_bytes), (7, 0x0000_0001)]
    spoils += [] if of_bytes else [(8, 1), (11, 3), (14, 5), (9, 7), (10, 1)]  # of a byte any place is right
    spoils += [(22, 5), (22, 1 << 16), (22, 3)]
    spoils += [] if DESIGN.activation else [(22, 2), (1, 0b1_0100 | of_bytes)]
    spoils += [(24, 1), (24, 0x18)] if DESIGN.has_filter else [(24, 0x13)]  # a filter of 1 or 8 taps; of 3
    run = decode_for(DESIGN, host.program.fbcb[1], kind=0, batch=2)
    spoils += [(17 + run.mode, 32), (17 + run.mode, 0xFFFF_FFFF)]
    for word, value in [*spoils, (31, 0)]:
        bad = list(good)
        bad[word] = value
        if word != 31:
            bad = list(with_checksum(sum(value << 32 * index for index, value in enumerate(bad))))
        host.dram.memory[:128] = b"".join(w.to_bytes(4, "little") for w in bad)
        await host.start(0, 1)
        await must_fail(host, Cause.BAD_DESCRIPTOR, 0)
    host.dram.memory[:128] = host.program.memory[:128]
    for word in (31 << 2, 2 << 2, 0 if DESIGN.b_max > 2 else 2 << 2, 1 if not DESIGN.stackable else 31 << 2 | 1):
        if word == 0:
            await host.command("MERGE", 0b010)  # three samples do not fit in two lanes of one
        await host.put("FBCB_INDEX", 3 - 1 if word == 0 else 2 - 1)
        await host.put("FBCB_DATA", word)
        await host.start(0, 0)
        await must_fail(host, Cause.BAD_FBCB, 0)
        if word == 0:
            await host.command("EXIT", 0b010)
        await host.load()
    await host.job([0, 2], 0, LAYERS - 1)


@bench(200_000)
async def bus_errors_end_the_job(dut: Dut) -> None:
    """An error answer on any port ends the job with its cause; the next job is right."""
    rng = await begin(dut)
    program = make_program(DESIGN, varied_shapes(rng), rng, words={0: 0})
    host = await attach(dut, rng, program, ROUGH, 0.8)
    await host.command("MERGE", 0b1)
    layer, slot = program.descriptors[0], program.slot_base
    weights = next(part for part in layer.weights if part != 0xFFFF_FFFF)
    places = (
        (program.program + 128, Cause.BUS_READ, 0),  # of layer 1 while layer 0 runs, which is told (ADR 50)
        (program.weights + weights + 40, Cause.BUS_READ, 0),
        (slot + layer.in_offset + layer.in_row_bytes, Cause.BUS_READ, 0),
        (slot + layer.residual_offset, Cause.BUS_READ, 0),
        (slot + layer.out_offset, Cause.BUS_WRITE, 0),
    )
    for address, cause, at in places:
        host.dram.bad = {address}
        before, want = bytes(host.dram.memory), expect(program, [0], range(2), host.dram.memory)
        host.core.expect(want)
        await host.start(0, 1)
        await must_fail(host, cause, at)
        host.dropped(before, want)
        host.dram.bad = set()
        await host.job([0], 0, 1)


@bench(400_000)
async def a_soft_reset_always_returns_to_idle(dut: Dut) -> None:
    """A soft reset at any moment of a job, in rough weather, ends in idle; then a whole job is right."""
    rng = await begin(dut)
    host = await attach(dut, rng, make_program(DESIGN, varied_shapes(rng), rng), ROUGH, 0.7)
    for _ in range(setting("RESETS", 12)):
        active = some_slots(rng, host.program, rng.randrange(1, DESIGN.b_max + 1))
        await change_batch(host, [], active)
        before, want = bytes(host.dram.memory), expect(host.program, active, range(LAYERS), host.dram.memory)
        host.core.expect(want)
        await host.start(0, LAYERS - 1)
        for _ in range(rng.choice([rng.randrange(60), rng.randrange(600), rng.randrange(3000)])):
            await RisingEdge(dut.clk_i)
        # Half of the resets come as a write begins: flushed words must not reach memory.
        for _ in range(rng.choice([0, 3000])):
            if dut.m2_axi_awvalid.value:
                break
            await RisingEdge(dut.clk_i)
        for count in host.dram.counters.values():
            data, answers = count.owed
            if data:
                meet("soft reset while memory owes data")
            if answers:
                meet("soft reset while memory owes an answer")
        await host.soft_reset()
        host.dropped(before, want)
        assert await host.get("ACTIVE") == 0
        assert await host.error() is Cause.NONE
        await host.put("IRQ_STATUS", 3)
    await change_batch(host, [], [1, 3])
    await host.job([1, 3], 0, LAYERS - 1)


@bench(200_000)
async def the_watchdog_ends_a_hung_job(dut: Dut) -> None:
    """A memory or a core that stops is told as WATCHDOG; once the bus answers again a job is right."""
    rng = await begin(dut)
    host = await attach(dut, rng, make_program(DESIGN, varied_shapes(rng), rng), FAIR, 1.0)
    await change_batch(host, [], [0])
    await host.put("WATCHDOG", 3000)
    for hang in ("memory", "core"):
        before, want = bytes(host.dram.memory), expect(host.program, [0], range(1), host.dram.memory)
        host.core.expect(want)
        await host.start(0, 0)
        for _ in range(300):
            await RisingEdge(dut.clk_i)
        host.dram.silent = hang == "memory"
        host.core.pace = 0.0 if hang == "core" else 1.0
        await raised(dut, "irq_o")
        assert await host.error() is Cause.WATCHDOG
        host.dram.silent, host.core.pace = False, 1.0
        await must_fail(host, Cause.WATCHDOG, 0)
        host.dropped(before, want)
    await host.put("WATCHDOG", 0)
    await host.job([0], 0, LAYERS - 1)


@bench(1_000)
async def a_host_may_ask_as_the_reset_ends(dut: Dut) -> None:
    """The registers leave reset two cycles late; what is asked as it is released waits, and is answered."""
    rng = await begin(dut)
    lite, mask = LiteMaster(dut, rng), register("SLOT_MASK").offset
    for value in range(1, 5):
        dut.rst_ni.value = 0
        for _ in range(4):
            await RisingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        assert await lite.write(mask, value) == 0
        assert (await lite.read(mask))[0] == value
