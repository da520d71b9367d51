"""A host, a DRAM model and a core around the data plane: loads programs, runs jobs, compares every beat and
byte.

The core is played in Python: it takes the streams at any pace and answers with what the reference core
computes.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from fluidnpu.hls import Cause, register

from ...common.benches.clock import Dut, begin, setting
from ...common.benches.dram import PAGE, BenchDram, Weather
from ...common.benches.lite import LiteMaster
from .. import coverage
from .jobs import BenchProgram, ExpectedBeats, Shape, array_under_test, expect, make_program

DESIGN = array_under_test()
PORT_BYTES = DESIGN.port_bytes
LAYERS = setting("LAYERS", 4)
COUNTER_FULL = (1 << 32) - 1
SATURATED = 5  # words a beat of output: the sum of two counters mostly steps over COUNTER_FULL, not onto it
RESET_LATE = 5  # cycles from a job's error to the core's reset, at most
FAIR = Weather()
ROUGH = Weather(latency=(2, 40), pause=0.25)
HIT: Counter[str] = Counter()  # coverage bins met in this run of the simulator, with their hits


def meet(*names: str) -> None:
    """Note coverage bins; the file is written at once, so that it survives a failing run."""
    HIT.update(names)
    Path(coverage.FILE).write_text(json.dumps(HIT, sort_keys=True))


@dataclass
class CoreScoreboard:
    """Takes the core's streams, compares them beat by beat, answers.

    `pace` is the chance to be ready or to answer in a cycle.
    """

    dut: Dut
    rng: random.Random
    pace: float = 1.0
    want: ExpectedBeats = field(default_factory=ExpectedBeats)
    got: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("cmd", "input", "weight", "residual"), 0))
    sent: int = 0
    saturations: int = COUNTER_FULL  # of a long life so far; `SATURATED` a beat of output
    first: int = 0  # those that a job begins with
    wrong: str = ""
    doubt: str = ""  # a wrong beat; none where the core is reset, as it does a few cycles behind a job's error
    doubted: int = 0  # cycles for which it is known

    def expect(self, want: ExpectedBeats) -> None:
        """Begin a new job."""
        self.want, self.sent = want, 0
        self.got = dict.fromkeys(self.got, 0)

    def progress(self) -> str:
        """The count of beats of every stream so far."""
        done = [f"{name} {count}/{len(getattr(self.want, name))}" for name, count in self.got.items()]
        return ", ".join([*done, f"output {self.sent}/{len(self.want.output)}"])

    def finished(self) -> None:
        """Check that every expected beat has come."""
        assert not self.doubt, self.doubt
        for name, count in self.got.items():
            assert count == len(getattr(self.want, name)), (
                f"{name}: {count} of {len(getattr(self.want, name))} beats came"
            )
        assert self.sent == len(self.want.output)

    async def run(self) -> None:
        """Play the core until cancelled."""
        dut = self.dut
        ports = {n: tuple(getattr(dut, f"m_axis_{n}_{s}") for s in ("tvalid", "tready", "tdata")) for n in self.got}
        ready = dict.fromkeys(self.got, 0)
        out_valid = command = 0
        for _, port, _ in ports.values():
            port.value = 0
        dut.s_axis_output_tvalid.value = 0
        while True:
            await RisingEdge(dut.clk_i)
            if dut.core_clear_o.value:
                self.saturations = self.first
            if not dut.core_rst_no.value:
                self.saturations = dut.saturations_i.value = 0
                self.want = ExpectedBeats()  # the dropped job's beats are nobody's any more
                self.doubt = ""
                out_valid = command = 0
                dut.s_axis_output_tvalid.value = 0
                continue
            self.doubted = self.doubted + 1 if self.doubt else 0
            if self.doubted > RESET_LATE and not self.wrong:
                self.wrong = self.doubt
            for name, (valid, ready_port, data) in ports.items():
                if ready[name] and valid.value:
                    self._take(name, int(data.value))
                now = int(self.rng.random() < self.pace)
                if now != ready[name]:
                    ready_port.value = ready[name] = now
            if out_valid and dut.s_axis_output_tready.value:
                self.sent += 1
                self.saturations = min(self.saturations + SATURATED, COUNTER_FULL)
                out_valid = 0
            dut.saturations_i.value = self.saturations
            if not self.sent:
                command = 0
            if not out_valid and self.sent < len(self.want.output) and self.rng.random() < self.pace:
                while self.sent >= self.want.after[command][2]:
                    command += 1
                inputs, residuals, _ = self.want.after[command]
                if self.got["input"] >= inputs and self.got["residual"] >= residuals:
                    dut.s_axis_output_tdata.value = self.want.output[self.sent]
                    out_valid = 1
            dut.s_axis_output_tvalid.value = out_valid

    def _take(self, name: str, data: int) -> None:
        at, want = self.got[name], getattr(self.want, name)
        self.got[name] += 1
        if not self.doubt and (at >= len(want) or data != want[at]):
            expected = f"{want[at]:#x}" if at < len(want) else "nothing"
            self.doubt = f"{name} beat {at} of {len(want)}: {data:#x} came, {expected} was expected"


@dataclass
class Host:
    """The driver's verbs on registers, and the memory behind them."""

    dut: Dut
    rng: random.Random
    program: BenchProgram
    dram: BenchDram
    core: CoreScoreboard
    lite: LiteMaster
    tasks: list[Any] = field(default_factory=list)

    def stop(self) -> None:
        """Release all ports."""
        for task in (*self.dram.tasks, *self.tasks):
            task.cancel()

    async def put(self, name: str, value: int) -> None:
        """Write a register."""
        assert await self.lite.write(register(name).offset, value) == 0, name

    async def get(self, name: str) -> int:
        """Read a register."""
        value, response = await self.lite.read(register(name).offset)
        assert response == 0, name
        return value

    async def load(self) -> None:
        """Tell the NPU the addresses of the program and fill the FBCB."""
        p = self.program
        for name, value in (("PROGRAM", p.program), ("WEIGHTS", p.weights), ("SLOT_BASE", p.slot_base)):
            await self.put(f"{name}_LO", value & 0xFFFF_FFFF)
            await self.put(f"{name}_HI", value >> 32)
        await self.put("SLOT_BYTES", p.slot_bytes)
        await self.put("LAYERS", len(p.descriptors))
        await self.put("FBCB_INDEX", 0)
        for word in p.fbcb:
            await self.put("FBCB_DATA", word)
        await self.put("IRQ_ENABLE", 3)

    async def command(self, name: str, mask: int = 0) -> None:
        """Give EXIT, MERGE, START or SOFT_RESET."""
        if name in ("EXIT", "MERGE"):
            await self.put("SLOT_MASK", mask)
        await self.put("CTRL", register("CTRL").field(name).mask)

    async def soft_reset(self) -> None:
        """Give SOFT_RESET; STATUS must show IDLE within 200 polls."""
        await self.command("SOFT_RESET")
        for _ in range(200):
            if register("STATUS").field("IDLE").get(await self.get("STATUS")):
                return
        raise AssertionError("a soft reset does not end in IDLE")

    async def start(self, first: int, last: int) -> None:
        """START a range of layers."""
        await self.put("FIRST_LAYER", first)
        await self.put("LAST_LAYER", last)
        await self.command("START")

    async def wait_idle(self, cycles: int = 20_000) -> int:
        """Wait for the interrupt and IDLE; returns STATUS."""
        for _ in range(cycles):
            await RisingEdge(self.dut.clk_i)
            if self.dut.irq_o.value or self.core.wrong:
                break
        assert not self.core.wrong, self.core.wrong
        assert self.dut.irq_o.value, f"no interrupt within {cycles} cycles; {self.core.progress()}"
        for _ in range(2000):
            status = await self.get("STATUS")
            if register("STATUS").field("IDLE").get(status):
                await self.put("IRQ_STATUS", 3)
                return status
        raise AssertionError("the NPU does not become idle")

    async def error(self) -> Cause:
        """The cause in ERROR."""
        return Cause(register("ERROR").field("CAUSE").get(await self.get("ERROR")))

    async def job(self, active: list[int], first: int, last: int) -> int:
        """Run a job that must succeed, compare it with the model, and return its cycles."""
        want = expect(self.program, active, range(first, last + 1), self.dram.memory)
        self.core.expect(want)
        await self.start(first, last)
        status = await self.wait_idle(20_000 + 10 * (len(want.input) + len(want.weight) + len(want.output)))
        assert await self.error() is Cause.NONE, self.program.descriptors[first : last + 1]
        assert register("STATUS").field("DONE").get(status)
        self.core.finished()
        assert self.dram.memory == want.memory, first_difference(self.dram.memory, want.memory, self.program)
        counted = min(self.core.first + SATURATED * len(want.output) + want.saturated, COUNTER_FULL)
        assert await self.get("SATURATIONS") == counted, "they are those of this job alone"
        self._cover(active, first, last)
        return await self.get("CYCLES_LO")

    def dropped(self, before: bytes, want: ExpectedBeats) -> None:
        """Check that a dropped job left every byte as it was or as the whole job would: nothing outside its
        outputs.
        """
        now, old, new = (np.frombuffer(memory, np.uint8) for memory in (self.dram.memory, before, want.memory))
        wrong = np.flatnonzero((now != old) & (now != new))
        assert not len(wrong), f"byte {wrong[0]} became {now[wrong[0]]:#x}, and it was {old[wrong[0]]:#x}"

    def _cover(self, active: list[int], first: int, last: int) -> None:
        p, batch = self.program, len(active)
        for layer in range(first, last + 1):
            word = p.fbcb[layer * DESIGN.b_max + batch - 1]
            meet(*coverage.layer_bins(p.descriptors[layer], word, batch, DESIGN))
        meet("job of one layer" if first == last else "job of several layers")
        meet("rough weather" if self.dram.weather.pause else "fair weather")
        if first:
            meet("job not from layer 0")
        if active[-1] - active[0] >= batch:
            meet("slots not adjacent")

    def cover_bursts(self) -> None:
        """Note the bursts that a page end cut: shorter than they could be, ending where a page does."""
        for count in self.dram.counters.values():
            for _, way, address, beats, _ in count.log:
                if beats < 16 and (address + beats * PORT_BYTES) % PAGE == 0:
                    meet("read burst ends at a page" if way == "r" else "write burst ends at a page")


def first_difference(got: bytearray, want: bytearray, program: BenchProgram) -> str:
    """Describe the first byte in which memory differs."""
    at = next(i for i, (a, b) in enumerate(zip(got, want, strict=True)) if a != b)
    slot, offset = divmod(at + program.base - program.slot_base, program.slot_bytes)
    return f"slot {slot}, byte {offset}: {got[at]:#x} instead of {want[at]:#x}"


async def open_host(
    dut: Dut, shapes: list[Shape], weather: Weather = FAIR, pace: float = 1.0, words: dict[int, int] | None = None
) -> Host:
    """Reset, then set up memory, core and a loaded program."""
    rng = await begin(dut)
    program = make_program(DESIGN, shapes, rng, words=words)
    return await attach(dut, rng, program, weather, pace)


async def attach(dut: Dut, rng: random.Random, program: BenchProgram, weather: Weather, pace: float) -> Host:
    """Set up everything around the design for a given program."""
    dram = BenchDram(dut, rng, bytearray(program.memory), program.base, weather)
    dram.read_port("m0_axi", PORT_BYTES)
    dram.read_port("m1_axi", PORT_BYTES)
    dram.read_port("m2_axi", PORT_BYTES)
    dram.write_port("m2_axi", PORT_BYTES)
    core = CoreScoreboard(dut, rng, pace)
    running = cocotb.start_soon(core.run())
    host = Host(dut, rng, program, dram, core, LiteMaster(dut, rng, deadline=1000), [running])
    await host.load()
    return host


def some_slots(rng: random.Random, program: BenchProgram, batch: int) -> list[int]:
    """Draw ascending slot numbers."""
    return sorted(rng.sample(range(program.slots), batch))


async def change_batch(host: Host, old: list[int], new: list[int]) -> None:
    """EXIT the slots that leave, MERGE those that come."""
    out, into = set(old) - set(new), set(new) - set(old)
    meet("exit and merge" if out and into else "exit" if out else "merge")
    if out:
        await host.command("EXIT", sum(1 << s for s in out))
    if into:
        await host.command("MERGE", sum(1 << s for s in into))
