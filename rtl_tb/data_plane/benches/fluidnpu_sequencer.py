"""The sequencer against the address model: every command of every layer in order; refusals, errors and
resets.
"""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import RisingEdge

from fluidnpu.hls import Cause
from fluidnpu.hls.formats import BATCH, CONTROL, FAULT, LAYER, PROGRESS, SETTINGS, TILE

from ...common.benches.clock import Dut, begin, bench, reset
from ...common.benches.streams import pulse
from ..environment.cases import DESIGN, Case, random_case


class Neighbours:
    """Plays the neighbours of the sequencer for a job of `cases` on one batch and notes its outputs."""

    def __init__(self, dut: Dut, rng: random.Random, cases: list[Case], bad_plan: int = -1) -> None:
        self.dut, self.rng, self.cases, self.bad_plan = dut, rng, cases, bad_plan
        self.commands: list[tuple[int, int]] = []  # (layer, command)
        self.starts: list[int] = []
        self.done = self.errors = 0
        self.cause = Cause.NONE
        self.failed = -1  # the layer that shows with the last error
        self.lookups: list[int] = []
        self.told = -1  # the layer to be fetched, a cycle ago
        self.early = 0  # lookups of a layer while another one ran

    async def run(self) -> None:
        """Drive the ports until cancelled."""
        dut, ready, planning, planned = self.dut, 0, 0, 0
        while True:
            await RisingEdge(dut.clk_i)
            job = progress(dut)
            layer = job["layer"]
            fetching, next_layer = bool(dut.fetch_o.value), int(dut.fetch_layer_o.value)
            assert not fetching or next_layer == self.told, "a layer is told the cycle before its fetch"
            assert not fetching or next_layer - layer in (0, 1), "no layer but the next is looked at"
            self.told = next_layer
            if ready and dut.command_valid_o.value:
                assert int(dut.running_o.value) == LAYER.pack(self.cases[layer].layer())
                self.commands.append((layer, int(dut.command_o.value)))
            if dut.layer_start_o.value:
                self.starts.append(layer)
            self.done += job["done"]
            error = FAULT.numbers(int(dut.error_o.value))
            if error["valid"]:
                self.errors += 1
                self.failed = layer
                self.cause = Cause(error["cause"])
            fetched = int(bool(dut.fetch_o.value) and self.rng.random() < 0.3)
            if dut.lookup_o.value:
                planned = next_layer
                self.lookups.append(planned)
                self.early += planned != layer
            dut.plan_valid_i.value = int(dut.lookup_o.value)
            planning = self.rng.randrange(1, 5) if dut.plan_o.value else max(0, planning - 1)
            answer = int(planning == 1)
            dut.plan_done_i.value = int(answer and planned != self.bad_plan)
            bad = int(answer and planned == self.bad_plan)
            dut.plan_bad_i.value = FAULT.pack({"valid": bad, "cause": int(Cause.BAD_FBCB)})
            dut.plan_layer_i.value = LAYER.pack(self.cases[min(planned, len(self.cases) - 1)].layer())
            dut.fetched_i.value = fetched
            dut.written_i.value = int(self.rng.random() < 0.3)
            ready = int(self.rng.random() < 0.6)
            dut.command_ready_i.value = ready


def some_layers(rng: random.Random) -> list[Case]:
    """Draw four layers that run at the same batch on the same slots; some pools are merged."""
    cases = [random_case(rng, DESIGN)]
    while len(cases) < 4:
        case = random_case(rng, DESIGN, merged=rng.random() < 0.2)
        if len(case.active) == len(cases[0].active):
            case.active = cases[0].active
            cases.append(case)
    return cases


def inputs(cases: list[Case], first: int = 0, last: int = 3) -> dict[str, int]:
    """Settings of a job on `cases`."""
    program = cases[0].program
    settings = {
        "first_layer": first, "last_layer": last, "layers": len(cases), "slot_base": program.slot_base,
        "slot_bytes": program.slot_bytes,
    }  # fmt: skip
    batch = {"active": sum(1 << slot for slot in cases[0].active), "b_act": len(cases[0].active)}
    return {"settings_i": SETTINGS.pack(settings), "batch_i": BATCH.pack(batch), "masters_idle_i": 1}


def progress(dut: Dut) -> dict[str, int]:
    """Return what the sequencer tells the registers."""
    return PROGRESS.numbers(int(dut.progress_o.value))


async def command(dut: Dut, name: str) -> None:
    """Pulse START or SOFT_RESET."""
    dut.control_i.value = CONTROL.pack({name: 1})
    await RisingEdge(dut.clk_i)
    dut.control_i.value = 0


async def idle(dut: Dut, cycles: int) -> None:
    """Wait until the sequencer is not busy."""
    for _ in range(cycles):
        await RisingEdge(dut.clk_i)
        if not progress(dut)["busy"]:
            return
    raise AssertionError(f"still busy after {cycles} cycles")


@bench(100_000)
async def a_job_is_its_commands(dut: Dut) -> None:
    """Any range of layers gives its commands in order and the slots' addresses in ascending order."""
    rng = await begin(dut)
    early = merged = 0
    for _ in range(12):
        cases = some_layers(rng)
        first = rng.randrange(4)
        last = rng.randrange(first, 4)
        await reset(dut, **inputs(cases, first, last))
        around = Neighbours(dut, rng, cases)
        task = cocotb.start_soon(around.run())
        await command(dut, "start")
        await idle(dut, 20_000)
        await RisingEdge(dut.clk_i)
        layers = list(range(first, last + 1))
        want = [(layer, TILE.pack(command)) for layer in layers for command in cases[layer].commands()]
        assert [(n, TILE.unpack(c)) for n, c in around.commands] == [(n, TILE.unpack(c)) for n, c in want]
        starts = [layer for layer in layers if not cases[layer].descriptor.merged]
        assert (around.starts, around.lookups, around.done, around.errors) == (starts, layers, 1, 0)
        merged += len(layers) - len(starts)
        slots = int(dut.slot_o.value)
        assert slots & (1 << 40 * len(cases[0].active)) - 1 == cases[0].slot_port
        early += around.early
        task.cancel()
    assert early, "a layer is looked at while the one before it runs"
    assert merged, "a pool that is merged begins nothing"


async def refused(dut: Dut, cause: Cause) -> None:
    """Pulse a START that must be refused."""
    await command(dut, "start")
    assert progress(dut)["start_refused"]
    assert FAULT.numbers(int(dut.error_o.value)) == {"valid": 1, "cause": int(cause)}


@bench(20_000)
async def a_start_may_be_refused(dut: Dut) -> None:
    """Each cause of a refusal is told, the first one when several hold; nothing runs."""
    rng = await begin(dut)
    cases = some_layers(rng)
    empty, wrong_place = {"batch_i": 0}, {"misaligned_i": 1}
    wrong = {
        Cause.EMPTY_BATCH: [inputs(cases) | empty, inputs(cases, last=9) | empty | wrong_place],
        Cause.BAD_LAYER_RANGE: [inputs(cases, 2, 1), inputs(cases, last=4), inputs(cases, last=0xFFFF) | wrong_place],
        Cause.BAD_DESCRIPTOR: [inputs(cases) | wrong_place],
    }
    for cause, settings in wrong.items():
        for setting in settings:
            await reset(dut, **({"misaligned_i": 0} | setting))
            await refused(dut, cause)
            for _ in range(60):
                await RisingEdge(dut.clk_i)
                assert not progress(dut)["busy"]
    await reset(dut, **inputs(cases), misaligned_i=0)
    task = cocotb.start_soon(Neighbours(dut, rng, cases).run())
    await command(dut, "start")
    await refused(dut, Cause.BUSY)
    await idle(dut, 20_000)
    task.cancel()


@bench(100_000)
async def force_ends_a_job(dut: Dut) -> None:
    """A bad plan, bus error, watchdog or soft reset at any moment is told once and ends the job.

    The flush lasts until the masters are idle; then a job runs again.
    """
    rng = await begin(dut)
    ended = 0
    for how in ("plan_bad", "read_error_i", "write_error_i", "watchdog_i", "soft_reset", "stuck_i") * 8:
        cases = some_layers(rng)
        await reset(dut, **inputs(cases))
        around = Neighbours(dut, rng, cases, bad_plan=1 if how == "plan_bad" else -1)
        task = cocotb.start_soon(around.run())
        await command(dut, "start")
        if how != "plan_bad":
            for _ in range(rng.randrange(2, 120)):
                await RisingEdge(dut.clk_i)
            if not progress(dut)["busy"]:  # a short job has ended by itself
                task.cancel()
                continue
            await (command if how == "soft_reset" else pulse)(dut, how)
        for cycle in range(5_000):
            await RisingEdge(dut.clk_i)
            if dut.flush_o.value or (cycle == 2 and around.done):  # it may have ended in the cycle of the pulse
                break
        else:
            raise AssertionError(f"{how} does not flush")
        by_itself = around.done > 0
        if by_itself:
            task.cancel()
            continue
        dut.masters_idle_i.value = 0
        for _ in range(40):
            await RisingEdge(dut.clk_i)
            assert dut.flush_o.value
            assert not dut.command_valid_o.value
        dut.masters_idle_i.value = 1
        await idle(dut, 40)
        await RisingEdge(dut.clk_i)
        causes = {
            "plan_bad": Cause.BAD_FBCB,
            "read_error_i": Cause.BUS_READ,
            "write_error_i": Cause.BUS_WRITE,
            "watchdog_i": Cause.WATCHDOG,
            "stuck_i": Cause.BAD_FBCB,
        }
        assert (around.errors, around.cause) == (int(how in causes), causes.get(how, Cause.NONE))
        assert around.done == 0
        if how == "plan_bad":  # of layer 1, and told when it is its turn
            assert (around.failed, len(around.commands)) == (1, len(cases[0].tiles))
        assert not dut.flush_o.value
        around.bad_plan, around.commands = -1, []
        await command(dut, "start")
        await idle(dut, 20_000)
        await RisingEdge(dut.clk_i)
        assert around.done == 1
        assert len(around.commands) == sum(len(case.tiles) for case in cases)
        task.cancel()
        ended += 1
    assert ended > 16
