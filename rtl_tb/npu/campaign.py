"""Random jobs, faults, resets and coinciding events on the whole NPU, until its coverage closes.

`NpuWorld` compares everything; this file says what is tried. With a steady memory a job is the same in every
cycle, so that a reset, the watchdog and an error of the bus can be made to meet.

>>> sorted(PARTS)[:2]
['bad words', 'bus errors']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from fluidnpu.dse import Design, DramModel
from fluidnpu.hls import Cause
from fluidnpu.hls.program import PIECE_BYTES, decode_layer, filter_at, filter_words, part_words, pieces_at

from . import coverage
from .device import DECERR, SLVERR
from .model import NpuModel
from .world import ACROSS, ARRAY, LIMIT, STEADY, Bytes, NpuWorld, mask_of, model_of

_WATCHED = 2  # cycles from START to the end by a WATCHDOG of 0: the first of the job, and a register behind
RESET_LATE = 1  # cycles from the write of SOFT_RESET to its pulse, which comes from a register
PORTS = ("m0", "m1", "m2", "write")
FAR = DramModel(latency_cycles=170, write_latency_cycles=60, outstanding=6)
ROUGH = DramModel(
    latency_cycles=37, write_latency_cycles=23, link_words=5.3, total_words=7.1, links=(0, 1, 0), refresh_interval_cycles=900,
    refresh_cycles=60, outstanding=3,
)  # fmt: skip


def right_jobs(world: NpuWorld) -> None:
    """Jobs of any layers on any batch, one after another."""
    for _ in range(12):
        layers = world.draw_layers(2)
        world.draw_batch()
        world.draw_plans(layers)
        world.right(layers)


def resets(world: NpuWorld) -> None:
    """A job that a soft reset ends at some moment; the next one begins at once."""
    layers = _prepared(world)
    before, whole = world.memory.copy(), world.after(layers)
    world.start(layers)
    world.npu.run(world.rng.choice((world.rng.randrange(400), world.rng.randrange(3000))))
    world.command("SOFT_RESET")
    world.idle()
    world.dropped(before, whole)
    world.right(layers)


def watchdogs(world: NpuWorld) -> None:
    """A job that the watchdog ends, unless it is done before."""
    layers = _prepared(world)
    before, whole = world.memory.copy(), world.after(layers)
    world.put("WATCHDOG", world.rng.choice((world.rng.randrange(1, 400), world.rng.randrange(1, 3000))))
    world.start(layers)
    cause = world.ends()
    world.must(cause in (Cause.NONE, Cause.WATCHDOG), f"the watchdog must be told, not {cause.name}")
    world.must(cause is not Cause.NONE or bool((world.memory == whole).all()), "a job that is done must be whole")
    world.dropped(before, whole)


def lowered_watchdog(world: NpuWorld) -> None:
    """WATCHDOG is set below the cycles that a job has taken already, and ends it at once."""
    for _ in range(4):
        layers = _prepared(world)
        before, whole = world.memory.copy(), world.after(layers)
        world.start(layers)
        world.npu.run(world.rng.randrange(60, 250))  # no job is so short
        world.put("WATCHDOG", world.rng.randrange(1, 50))
        cause = world.ends()
        world.must(cause is Cause.WATCHDOG, f"a watchdog below CYCLES must end the job, not {cause.name}")
        world.must(world.get("CYCLES_LO") < 5_000, "a watchdog below CYCLES must end the job at once")
        world.dropped(before, whole)


def bus_errors(world: NpuWorld) -> None:
    """An error on each port ends a job; then the watchdog, and a soft reset, come in the same cycle."""
    for port in PORTS:
        layers = _prepared(world)
        address = bad_address(world, layers, port)
        if address is None:
            continue
        response = world.rng.choice((SLVERR, SLVERR, DECERR))
        spoil = partial(world.npu.fault, bad=(address, address + 1), response=response)
        cause = Cause.BUS_WRITE if port == "write" else Cause.BUS_READ
        span = _fail(world, layers, cause, spoil)
        _meet(world, layers, span, cause, spoil)


def bad_words(world: NpuWorld) -> None:
    """A damaged descriptor or FBCB word ends a job; then the watchdog, and a soft reset, come with it."""
    layers = _prepared(world, 1)
    layer, batch = layers[0], len(world.active)
    at = world.at(world.program.program + 128 * layer)
    good = world.npu.view(at, 128).copy()
    if world.rng.random() < 0.5:
        world.npu.view(at, 128)[world.rng.randrange(128)] ^= 1 << world.rng.randrange(8)
        cause = Cause.BAD_DESCRIPTOR
    else:
        world.put("FBCB_INDEX", layer * world.program.design.b_max + batch - 1)
        world.put("FBCB_DATA", 30 << 2)  # 31 samples a lane
        cause = Cause.BAD_FBCB
    span = _fail(world, layers, cause)
    _meet(world, layers, span, cause)
    world.npu.view(at, 128)[:] = good
    world.plan(layer, world.words[layer])
    world.right(layers)


def refusals(world: NpuWorld) -> None:
    """START, EXIT and MERGE change nothing in any state of a job."""
    layers = _prepared(world, 1)
    world.put("SLOT_MASK", mask_of(world.active))
    states = timeline(world, layers)
    for command in ("START", "EXIT", "MERGE"):
        for state in set(states):
            whole = world.after(layers)
            world.start(layers)
            last = len(states) - 1 - states[::-1].index(state)  # a state that is early may have passed
            world.run_to(world.npu.began + 1 + last)
            world.command(command)
            world.must(world.get("ACTIVE") == mask_of(world.active), "a refused command must leave the batch")
            cause = Cause(world.get("ERROR", "CAUSE"))
            world.must(cause is Cause.BUSY, f"{command} must be refused as BUSY, not {cause.name}")
            world.npu.run(100_000, until_idle=True)
            world.must(bool((world.memory == whole).all()), "a refused command must leave the job")
            world.put("IRQ_STATUS", 3)
            world.count()


def misplaced(world: NpuWorld) -> None:
    """Every address that is not aligned, or above 40 bits, refuses START."""
    world.draw_batch()
    names = ("PROGRAM", "WEIGHTS", "SLOT_BASE")
    low = [(name, bit) for name in (*(f"{name}_LO" for name in names), "SLOT_BYTES") for bit in range(6)]
    for name, bit in [*low, *((f"{name}_HI", bit) for name in names for bit in range(8, 32))]:
        good = world.get(name)
        world.put(name, good ^ 1 << bit)
        world.start(range(1))
        cause = Cause(world.get("ERROR", "CAUSE"))
        world.must(cause is Cause.BAD_DESCRIPTOR, f"bit {bit} of {name} must be refused, and the cause is {cause.name}")
        world.must(world.npu.idle, f"a START refused for bit {bit} of {name} must leave the NPU idle")
        world.put(name, good)
    world.put("IRQ_STATUS", 3)
    world.count()


def every_state(world: NpuWorld) -> None:
    """A soft reset, the watchdog and both at once in every state of a job, around each change and its end."""
    layers = _prepared(world, 1)
    length = world.right(layers)
    states = timeline(world, layers)
    changes = [cycle for cycle in range(1, len(states)) if states[cycle] != states[cycle - 1]]
    close = {cycle + step for cycle in (0, *changes, length) for step in (-2, -1, 0, 1, 2)}
    for moment in sorted(cycle for cycle in close if 0 < cycle <= length + 2):
        for events in (("reset",), ("watchdog",), ("reset", "watchdog")):
            _ended(world, layers, moment, events)


def timeline(world: NpuWorld, layers: range) -> list[int]:
    """Return the sequencer's state in every cycle of a job, from the one behind START on."""
    world.start(layers)
    states = [world.npu.state] * (world.npu.cycle - world.npu.began - 1)  # the write of START took as long
    while not world.npu.irq:
        world.must(len(states) < LIMIT, "a job must end")
        states.append(world.npu.state)
        world.npu.run(1)
    world.put("IRQ_STATUS", 3)
    world.count()
    return states


def bad_address(world: NpuWorld, layers: range, port: str) -> int | None:
    """Draw an address that a port touches in one of the layers; None when it touches none."""
    p, layer, slot = world.program, world.rng.choice(layers), world.rng.choice(world.active)
    d, sample = p.descriptors[layer], p.slot_base + slot * p.slot_bytes
    if port != "m0" and d.merged:
        return None
    if port == "m0":
        if d.kind or d.merged or world.rng.random() < 0.5:
            return world.at(p.program + 128 * layer + 4 * world.rng.randrange(32))
        mode = decode_layer(p.design, world.words[layer], d, len(world.active)).mode
        words = part_words(
            p=d.kernel_h * d.kernel_w * d.group_words, columns=d.columns, groups=d.groups, mode=mode, design=p.design
        )
        return world.at(p.weights + d.weights[mode] + d.word_bytes * world.rng.randrange(min(64, words)))
    if port == "m1":
        row, word = world.rng.randrange(d.kernel_h), world.rng.randrange(d.group_words)
        return world.at(sample + d.in_offset + row * d.in_row_bytes + d.word_bytes * word)
    if port == "m2" and (d.pieces or d.filter_kernel) and (not d.has_residual or world.rng.random() < 0.5):
        mode = decode_layer(p.design, world.words[layer], d, len(world.active)).mode
        parts = [(pieces_at(d, mode, p.design), PIECE_BYTES * d.pieces)] if d.pieces else []
        parts += [(filter_at(d, mode, p.design), 2 * filter_words(d, p.design))] if d.filter_kernel else []
        start, size = world.rng.choice(parts)
        return world.at(p.weights + start + world.rng.randrange(0, size, 2))
    if port == "m2" and not d.has_residual:
        return None
    places = {
        "m2": (d.residual_offset, d.residual_row_bytes, d.residual_pixel_bytes),
        "write": (d.out_offset, d.out_row_bytes, d.out_pixel_bytes),
    }
    offset, row_bytes, pixel_bytes = places[port]
    high, wide = d.pooled_hw if port == "write" else (d.out_h, d.out_w)
    spread = port == "m2" and d.residual_spread
    y, x, column = (world.rng.randrange(most) for most in (high, wide, 1 if spread else d.columns))
    return world.at(sample + offset + y * row_bytes + x * pixel_bytes + d.word_bytes * column)


def _prepared(world: NpuWorld, most: int = 3) -> range:
    layers = world.draw_layers(most)
    world.draw_batch()
    world.draw_plans(layers)
    return layers


def _fail(world: NpuWorld, layers: range, cause: Cause, spoil: Callable[[], None] | None = None) -> int:
    """Run a job that must end with a cause; returns the cycles from START to the error.

    `spoil` makes it fail once its models are asked; without one the job is spoilt already, and runs no layer.
    """
    before = world.memory.copy()
    whole = _spoilt(world, layers, spoil)
    world.start(layers)
    ending = world.ends()
    world.must(ending is cause, f"a job must end with {cause.name}, not {ending.name}")
    span = world.npu.failed - world.npu.began
    world.dropped(before, whole)
    return span


def _meet(world: NpuWorld, layers: range, span: int, cause: Cause, spoil: Callable[[], None] | None = None) -> None:
    """Run the job again with the watchdog, then with a soft reset, in the cycle in which it fails."""
    before = world.memory.copy()
    whole = _spoilt(world, layers, spoil)
    world.put("WATCHDOG", max(1, span - _WATCHED))
    world.start(layers)
    ending = world.ends()
    world.must(ending in (cause, Cause.WATCHDOG), f"the error or the watchdog must be told, not {ending.name}")
    world.dropped(before, whole)
    _spoilt(world, layers, spoil)
    world.start(layers)
    world.run_to(world.npu.began + span - RESET_LATE)
    world.command("SOFT_RESET")
    world.idle()
    world.must(world.get("ERROR", "CAUSE") == Cause.NONE, "a soft reset must clear what comes with it")
    world.dropped(before, whole)


def _spoilt(world: NpuWorld, layers: range, spoil: Callable[[], None] | None) -> Bytes:
    """Memory after the whole job, which is then spoilt."""
    if spoil is None:
        return world.memory.copy()
    whole = world.after(layers)
    spoil()
    return whole


def _ended(world: NpuWorld, layers: range, moment: int, events: tuple[str, ...]) -> None:
    """End a job by events in the cycle `moment` after START."""
    before, whole = world.memory.copy(), world.after(layers)
    if "watchdog" in events:
        world.put("WATCHDOG", max(1, moment + 1 - _WATCHED))
    world.start(layers)
    if "reset" in events:
        world.run_to(world.npu.began + moment + 1 - RESET_LATE)
        world.command("SOFT_RESET")
        world.idle()
        world.must(not world.get("STATUS", "DONE"), "a soft reset must clear DONE")
    else:
        cause = world.ends()
        world.must(cause in (Cause.NONE, Cause.WATCHDOG), f"the watchdog must be told, not {cause.name}")
        done = bool((world.memory == whole).all())
        world.must(cause is not Cause.NONE or done, "a job that is done must be whole")
    world.dropped(before, whole)


PARTS: Mapping[str, Callable[[NpuWorld], None]] = {
    "right jobs": right_jobs,
    "resets": resets,
    "watchdogs": watchdogs,
    "bus errors": bus_errors,
    "bad words": bad_words,
}
ONCE: Mapping[str, Callable[[NpuWorld], None]] = {
    "misplaced": misplaced,
    "lowered watchdog": lowered_watchdog,
    "refusals": refusals,
    "every state": every_state,
}


@dataclass(frozen=True, kw_only=True)
class Result:
    """The hits of a campaign, its jobs and its cycles."""

    hits: Counter[str]
    jobs: int
    cycles: int


def worlds(seed: int, model: NpuModel, design: Design) -> Iterator[NpuWorld]:
    """Yield a world for each region that may lie across 4 GiB, with a memory of its own."""
    for across, dram in zip(ACROSS, (ROUGH, FAR, STEADY), strict=True):
        yield NpuWorld.of(seed, model, design, dram=dram, across=across)


def campaign(
    seed: int = 1, rounds: int = 3, *, model: NpuModel | None = None, design: Design = ARRAY, until_closed: int = 0
) -> Result:
    """Try everything `rounds` times in each world; SimulationError names the first thing that is wrong.

    With `until_closed`, go on for so many rounds at most until every required bin is met.
    """
    hits: Counter[str] = Counter()
    wanted, every = coverage.required(design), list(worlds(seed, model or model_of(design), design))
    for world in every:
        for part in ONCE.values() if world.npu.dram == STEADY else (misplaced,):
            part(world)
    for number in range(max(rounds, until_closed)):
        for world in every:
            for part in PARTS.values():
                part(world)
        hits = sum((world.hits for world in every), Counter())
        if number + 1 >= rounds and wanted <= set(hits):
            break
    jobs, cycles = sum(world.jobs for world in every), sum(world.npu.cycle for world in every)
    return Result(hits=hits, jobs=jobs, cycles=cycles)
