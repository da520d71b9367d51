"""The register file under every legal and illegal access of the window, from `hls.REGISTERS`.

Nothing hangs, nothing else changes.
"""

from __future__ import annotations

import cocotb
from cocotb.triggers import RisingEdge

from fluidnpu.hls import COUNTERS, REGISTERS, VERSION, WINDOW_BYTES, Access, Cause, WhileBusy, register
from fluidnpu.hls.formats import BATCH, CONTROL, FAULT, FBCB_WRITE, PROGRESS

from ...common.benches.clock import Dut, begin, bench, setting
from ...common.benches.lite import LiteMaster

OKAY, SLVERR = 0, 2
SHAPE = {
    "B_MAX": setting("B_MAX", 4),
    "VERSION": VERSION,
    "T_P": setting("T_P", 4),
    "T_C": setting("T_C", 8),
    "STACKABLE": setting("STACKABLE", 1),
    "SPLIT": setting("SPLIT", 0),
}
COUNTER_FULL = (1 << 32) - 1
SETTINGS = [r for r in REGISTERS if r.access is Access.RW]


def kept(name: str, value: int) -> int:
    """The part of a write that a settings register keeps: its fields, or all bits when it has none."""
    fields = register(name).fields
    return value & sum(field.mask for field in fields) if fields else value


@bench(5000)
async def every_offset_answers(dut: Dut) -> None:
    """Each byte offset, legal or not, is read and written once in random order and answers."""
    rng = await begin(dut, counted_valid_i=1)
    lite = LiteMaster(dut, rng)
    shadow = {r.name: r.reset for r in SETTINGS}
    by_offset = {r.offset: r for r in REGISTERS}
    offsets = [*range(WINDOW_BYTES), *range(WINDOW_BYTES, 4096, 252), 4095]
    for offset in rng.sample(offsets, len(offsets)):
        entry = by_offset.get(offset)
        data, response = await lite.read(offset)
        assert response == (OKAY if entry else SLVERR), f"read {offset:#x}"
        if entry and entry.name in shadow and entry.name != "FBCB_DATA":  # its word comes from the engine
            assert data == shadow[entry.name], entry.name
        if entry and entry.access is Access.W1S:
            assert data == 0
        value, strobe = rng.getrandbits(32), rng.choice((15, 15, 15, rng.randrange(15)))
        if entry and entry.name == "CTRL":
            value = 0
        legal = entry is not None and entry.access is not Access.RO and strobe == 15
        assert await lite.write(offset, value, strobe) == (OKAY if legal else SLVERR), f"write {offset:#x}"
        if legal and entry and entry.name == "FBCB_DATA":
            shadow["FBCB_INDEX"] = (shadow["FBCB_INDEX"] + 1) & 0xFFFF_FFFF
        elif legal and entry and entry.name in shadow:
            shadow[entry.name] = kept(entry.name, value)
    for name, value in shadow.items():
        if name != "FBCB_DATA":
            assert await lite.read(register(name).offset) == (value, OKAY), name


@bench(5000)
async def commands_are_pulses(dut: Dut) -> None:
    """One write of CTRL gives one cycle; a partial write gives none, several at once give an error."""
    rng = await begin(dut)
    lite = LiteMaster(dut, rng)
    pulses = ("START", "EXIT", "MERGE", "SOFT_RESET")
    counts = dict.fromkeys(pulses, 0)

    async def count() -> None:
        while True:
            await RisingEdge(dut.clk_i)
            now = CONTROL.numbers(int(dut.control_o.value))
            for name in pulses:
                counts[name] += now[name.lower()]

    cocotb.start_soon(count())
    for name in pulses:
        await lite.write(register("CTRL").offset, register("CTRL").field(name).mask)
    await lite.write(register("CTRL").offset, 15, strobe=7)
    assert counts == dict.fromkeys(pulses, 1), counts
    for value in (3, 5, 6, 7):
        await lite.write(register("CTRL").offset, value)
        cause = register("ERROR").field("CAUSE").get((await lite.read(register("ERROR").offset))[0])
        assert cause == Cause.BUSY, f"CTRL = {value}"
        await lite.write(register("CTRL").offset, 15)
    assert counts == {**dict.fromkeys(pulses, 1), "SOFT_RESET": 5}, counts


@bench(5000)
async def settings_stand_still_while_a_job_runs(dut: Dut) -> None:
    """A setting that a job works with keeps its value and tells BUSY; the others are written as ever."""
    rng = await begin(dut)
    lite, loads = LiteMaster(dut, rng), 0

    async def count() -> None:
        nonlocal loads
        while True:
            await RisingEdge(dut.clk_i)
            loads += FBCB_WRITE.numbers(int(dut.fbcb_o.value))["valid"]

    cocotb.start_soon(count())
    for busy in (0, 1, 0, 1):
        for entry in rng.sample(SETTINGS, len(SETTINGS)):
            dut.progress_i.value = 0
            await lite.write(register("CTRL").offset, register("CTRL").field("SOFT_RESET").mask)
            before, index = (await lite.read(entry.offset))[0], (await lite.read(register("FBCB_INDEX").offset))[0]
            dut.progress_i.value, loads = PROGRESS.pack({"busy": busy}), 0
            value = kept(entry.name, rng.getrandbits(32))
            assert await lite.write(entry.offset, value) == OKAY
            refused = busy and entry.busy is WhileBusy.REFUSED
            cause = register("ERROR").field("CAUSE").get((await lite.read(register("ERROR").offset))[0])
            assert cause == (Cause.BUSY if refused else Cause.NONE), entry.name
            if entry.name == "FBCB_DATA":
                assert loads == 1 - refused
                assert (await lite.read(register("FBCB_INDEX").offset))[0] == index + 1 & 0xFFFF_FFFF
            else:
                assert (await lite.read(entry.offset))[0] == (before if refused else value), entry.name


@bench(5000)
async def a_counter_is_read_when_it_has_come(dut: Dut) -> None:
    """Each LAYER_ register shows what comes three cycles behind its place, in any order of reads."""
    rng = await begin(dut)
    lite = LiteMaster(dut, rng)

    async def counters() -> None:
        places = [0] * 2
        while True:
            await RisingEdge(dut.clk_i)
            dut.counted_i.value = places.pop(0)
            places.append(int(dut.counters_layer_o.value) << 8 | int(dut.counter_o.value))

    cocotb.start_soon(counters())
    dut.counted_valid_i.value = 1
    for _ in range(60):
        layer, index = rng.getrandbits(16), rng.randrange(len(COUNTERS))
        if rng.random() < 0.5:
            await lite.write(register("COUNTERS_LAYER").offset, layer)
        shown, _ = await lite.read(register("COUNTERS_LAYER").offset)
        data, response = await lite.read(register(f"LAYER_{COUNTERS[index].name}").offset)
        assert (data, response) == (shown << 8 | index, OKAY)
    dut.counted_valid_i.value = 0  # the counts of a layer that has just ended are not there yet
    asks = cocotb.start_soon(lite.read(register("LAYER_CYCLES").offset))
    for _ in range(50):
        await RisingEdge(dut.clk_i)
    assert not asks.done()
    dut.counted_valid_i.value = 1
    assert (await asks)[1] == OKAY


@bench(5000)
async def first_error_stays(dut: Dut) -> None:
    """ERROR keeps the first cause until SOFT_RESET; the interrupt follows its enable and clear."""
    rng = await begin(dut, progress_i=PROGRESS.pack({"layer": 7}))
    lite = LiteMaster(dut, rng)
    error, irq = register("ERROR"), register("IRQ_STATUS")

    async def event(cause: Cause, layer: int) -> None:
        dut.error_i.value = FAULT.pack({"valid": 1, "cause": int(cause)})
        dut.progress_i.value = PROGRESS.pack({"layer": layer})
        await RisingEdge(dut.clk_i)
        dut.error_i.value = 0
        await RisingEdge(dut.clk_i)

    await lite.write(register("IRQ_ENABLE").offset, irq.field("ERROR").mask)
    await event(Cause.BUS_READ, 5)
    await event(Cause.BUS_WRITE, 6)
    value, _ = await lite.read(error.offset)
    assert (error.field("CAUSE").get(value), error.field("LAYER").get(value)) == (Cause.BUS_READ, 5)
    assert int(dut.irq_o.value) == 1
    await lite.write(irq.offset, irq.field("ERROR").mask)
    assert int(dut.irq_o.value) == 0
    # A START that is refused because a job runs, or its flush, is no new beginning.
    dut.progress_i.value = PROGRESS.pack({"busy": 1, "start_refused": 1})
    dut.error_i.value = FAULT.pack({"valid": 1, "cause": int(Cause.BUSY)})
    await lite.write(register("CTRL").offset, register("CTRL").field("START").mask)
    dut.progress_i.value = dut.error_i.value = 0
    value, _ = await lite.read(error.offset)
    assert (error.field("CAUSE").get(value), error.field("LAYER").get(value)) == (Cause.BUS_READ, 5)
    assert int(dut.irq_o.value) == 0
    await lite.write(register("CTRL").offset, register("CTRL").field("SOFT_RESET").mask)
    assert (await lite.read(error.offset))[0] == 0
    await event(Cause.WATCHDOG, 9)
    value, _ = await lite.read(error.offset)
    assert error.field("CAUSE").get(value) == Cause.WATCHDOG


def word(name: str, **values: int) -> int:
    """Compose a register of these fields."""
    return sum(register(name).field(field).put(value) for field, value in values.items())


@bench(5000)
async def what_is_read_is_what_is_there(dut: Dut) -> None:
    """Every register that the hardware sets reads back: shape, state, events, and counters at their largest
    value.
    """
    rng = await begin(dut)
    lite = LiteMaster(dut, rng)

    async def shows(name: str, value: int) -> None:
        assert await lite.read(register(name).offset) == (value, OKAY), f"{name} must be {value:#x}"

    async def start() -> None:
        dut.progress_i.value = 0
        await lite.write(register("CTRL").offset, word("CTRL", START=1))
        dut.progress_i.value = PROGRESS.pack({"busy": 1})

    await shows("SHAPE", word("SHAPE", **SHAPE))
    await shows("BUILD_ID", setting("BUILD_ID", 0))
    dut.fbcb_loaded_i.value = loaded = rng.getrandbits(23)
    await shows("FBCB_DATA", loaded)
    for _ in range(20):
        idle, busy, b_act, layer = rng.randrange(2), rng.randrange(2), rng.randrange(32), rng.getrandbits(16)
        active = rng.getrandbits(32)
        dut.idle_i.value, dut.progress_i.value = idle, PROGRESS.pack({"busy": busy, "layer": layer})
        dut.batch_i.value = BATCH.pack({"active": active, "b_act": b_act})
        await shows("STATUS", word("STATUS", IDLE=idle, BUSY=busy, B_ACT=b_act, LAYER=layer))
        await shows("ACTIVE", active)
    dut.idle_i.value = dut.batch_i.value = dut.progress_i.value = 0

    await start()
    for count in (5, COUNTER_FULL, 0):  # the last: a dropped job has reset the core
        dut.saturations_i.value = count
        await RisingEdge(dut.clk_i)
        await shows("SATURATIONS", count or COUNTER_FULL)
    await start()
    await shows("SATURATIONS", 0)

    dut.cycles_q.value = COUNTER_FULL - 2
    for _ in range(10):
        await RisingEdge(dut.clk_i)
    dut.progress_i.value = PROGRESS.pack({"busy": 1, "done": 1})
    await RisingEdge(dut.clk_i)
    dut.progress_i.value = 0
    await shows("CYCLES_HI", 1)
    low, _ = await lite.read(register("CYCLES_LO").offset)
    assert 5 < low < 10
    await shows("STATUS", word("STATUS", DONE=1))
    await shows("IRQ_STATUS", word("IRQ_STATUS", DONE=1))
    dut.error_i.value = FAULT.pack({"valid": 1, "cause": int(Cause.WATCHDOG)})
    dut.progress_i.value = PROGRESS.pack({"layer": 3})
    await RisingEdge(dut.clk_i)
    dut.error_i.value = 0
    await shows("ERROR", word("ERROR", CAUSE=int(Cause.WATCHDOG), LAYER=3))
    await shows("STATUS", word("STATUS", DONE=1, ERROR=1, LAYER=3))
    for events in ({"DONE": 1, "ERROR": 1}, {"ERROR": 1}, {}):
        await shows("IRQ_STATUS", word("IRQ_STATUS", **events))
        await lite.write(
            register("IRQ_STATUS").offset, word("IRQ_STATUS", **{"DONE" if "DONE" in events else "ERROR": 1})
        )


@bench(5000)
async def the_watchdog_counts_busy_cycles(dut: Dut) -> None:
    """The watchdog fires after WATCHDOG busy cycles, not before."""
    rng = await begin(dut)
    lite = LiteMaster(dut, rng)
    await lite.write(register("WATCHDOG").offset, 50)
    dut.progress_i.value = PROGRESS.pack({"busy": 1})
    cycles = 0
    while not int(dut.watchdog_o.value):
        await RisingEdge(dut.clk_i)
        cycles += 1
        assert cycles < 60
    assert cycles >= 50
    assert (await lite.read(register("CYCLES_LO").offset))[0] >= 50


@bench(5000)
async def cycles_are_those_of_the_last_job(dut: Dut) -> None:
    """CYCLES counts the busy cycles since START, to the cycle, and none of the job before."""
    rng = await begin(dut)
    lite = LiteMaster(dut, rng)

    async def shows(value: int) -> None:
        await RisingEdge(dut.clk_i)
        for name, part in (("CYCLES_LO", value), ("CYCLES_HI", 0)):
            assert await lite.read(register(name).offset) == (part, OKAY), f"{name} must be {part}"

    for busy in (7, 1, 40):
        await lite.write(register("CTRL").offset, register("CTRL").field("START").mask)
        await shows(0)
        dut.progress_i.value = PROGRESS.pack({"busy": 1})
        for _ in range(busy):
            await RisingEdge(dut.clk_i)
        dut.progress_i.value = 0
        await shows(busy)


@bench(1_000)
async def who_asks_in_reset_waits(dut: Dut) -> None:
    """Nothing is taken before the reset has gone, and then it is answered."""
    rng = await begin(dut)
    lite, mask = LiteMaster(dut, rng), register("SLOT_MASK").offset
    for cycles in range(4, 8):
        dut.rst_ni.value = 0
        await RisingEdge(dut.clk_i)
        asks = cocotb.start_soon(lite.write(mask, cycles))
        for _ in range(cycles):
            await RisingEdge(dut.clk_i)
        assert not asks.done()
        dut.rst_ni.value = 1
        assert await asks == 0
        assert (await lite.read(mask))[0] == cycles
