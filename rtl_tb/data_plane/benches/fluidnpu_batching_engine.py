"""The Fluid Batching Engine against a Python set: random commands, slots and FBCB words.

Lookups are held to `hls.program.decode_fbcb`.
"""

from __future__ import annotations

import random
from itertools import product

from cocotb.triggers import RisingEdge

from fluidnpu.hls import Cause, FbcbError
from fluidnpu.hls.formats import BATCH, CONTROL, FAULT, FBCB, FBCB_WRITE, PLAN, StackCode
from fluidnpu.hls.program import decode_fbcb

from ...common.benches.clock import Dut, begin, bench, setting

B_MAX, LAYERS = setting("B_MAX", 4), setting("LAYERS", 3)
STACKABLE, SPLIT = bool(setting("STACKABLE", 1)), bool(setting("SPLIT", 0))
T_R, WORD_BITS = setting("T_R", 64), FBCB.bits


def bits(slots: set[int]) -> int:
    """The mask of a set of slots."""
    return sum(1 << slot for slot in slots)


def judge(command: str, mask: set[int], active: set[int], busy: bool) -> Cause:
    """The answer that the control unit must give."""
    if busy:
        return Cause.BUSY
    if command == "exit":
        return Cause.NONE if mask <= active else Cause.EXIT_NOT_ACTIVE
    if mask & active:
        return Cause.MERGE_ACTIVE
    return Cause.NONE if len(mask | active) <= B_MAX else Cause.BATCH_TOO_LARGE


def some_slots(rng: random.Random, active: set[int]) -> set[int]:
    """Draw slots that are likely to be legal for one of the commands, and sometimes for none."""
    pool = rng.choice([sorted(active), sorted(set(range(32)) - active), list(range(32))])
    return set(rng.sample(pool, min(len(pool), rng.choice([0, 1, 1, 2, 3, B_MAX, B_MAX + 1]))))


@bench(2000)
async def commands_edit_a_set(dut: Dut) -> None:
    """Random exits and merges answer and act as they would on a set."""
    rng = await begin(dut)
    active: set[int] = set()
    seen: dict[tuple[str, Cause], int] = {}
    for _ in range(setting("COMMANDS", 4000)):
        command, mask, busy = rng.choice(("exit", "merge")), some_slots(rng, active), rng.random() < 0.05
        clear = rng.random() < 0.005
        dut.control_i.value = 0
        dut.mask_i.value = bits(mask)
        await RisingEdge(dut.clk_i)  # the mask stands still in the cycle before a command
        dut.busy_i.value, dut.control_i.value = int(busy), CONTROL.pack({command: 1, "soft_reset": int(clear)})
        await RisingEdge(dut.clk_i)
        cause = judge(command, mask, active, busy)
        assert FAULT.numbers(int(dut.refused_o.value)) == {"valid": int(cause != Cause.NONE), "cause": int(cause)}
        assert BATCH.numbers(int(dut.batch_o.value)) == {"active": bits(active), "b_act": len(active)}
        if cause is Cause.NONE:
            active = active - mask if command == "exit" else active | mask
        active = set() if clear else active
        seen[command, cause] = seen.get((command, cause), 0) + 1
    wanted = {("exit", Cause.NONE), ("exit", Cause.EXIT_NOT_ACTIVE), ("exit", Cause.BUSY), ("merge", Cause.NONE)}
    wanted |= {("merge", Cause.MERGE_ACTIVE), ("merge", Cause.BATCH_TOO_LARGE), ("merge", Cause.BUSY)}
    assert wanted <= set(seen), f"never seen: {wanted - set(seen)}"


@bench(5000)
async def lookups_obey_the_table(dut: Dut) -> None:
    """Every layer, batch and kind gets the plan that `decode_fbcb` reads, or is refused as it refuses."""
    rng = await begin(dut)
    systematic = -(-4 * B_MAX // LAYERS)  # tables that show every word within b_max at every batch size
    every = [FBCB.pack({"k": k, "b_r": b_r}) for b_r, k in product(range(B_MAX), StackCode)]
    blocks = [0, 1, T_R // 2, T_R // 2 + 1, T_R, T_R + 1, 65535]
    for table in range(systematic + 12):
        words = [every[(table * LAYERS + index // B_MAX) % len(every)] for index in range(LAYERS * B_MAX)]
        if table >= systematic:
            words = [
                FBCB.pack({"k": rng.randrange(4), "b_r": rng.randrange(32), "block": rng.choice(blocks)}) for _ in words
            ]
        refused = 0
        for index, word in [*enumerate(words), (LAYERS * B_MAX, 0), (1 << 31, 4), (0, 1 << WORD_BITS), (1, 1 << 31)]:
            dut.load_i.value = FBCB_WRITE.pack({"valid": 1, "index": index, "word": word})
            await RisingEdge(dut.clk_i)
            refused += int(dut.load_refused_o.value)
        assert refused == 4, "only the last four are out of range"
        for batch in range(B_MAX + 1):
            for command in ("soft_reset", "merge"):  # each with a cycle before it in which all stands still
                dut.load_i.value, dut.mask_i.value = 0, (1 << batch) - 1
                await RisingEdge(dut.clk_i)
                dut.control_i.value = CONTROL.pack({command: 1})
                await RisingEdge(dut.clk_i)
                dut.control_i.value = 0
            # A write that is none means nothing.
            nothing = {"index": rng.randrange(LAYERS * B_MAX), "word": rng.randrange(1 << WORD_BITS)}
            dut.load_i.value = FBCB_WRITE.pack(nothing)
            for layer in range(LAYERS + 1):
                for kind in range(3):
                    await lookup(dut, words, layer, batch, kind)


async def lookup(dut: Dut, words: list[int], layer: int, batch: int, kind: int) -> None:
    """Compare one lookup with the table."""
    dut.lookup_i.value, dut.lookup_layer_i.value, dut.lookup_pool_i.value = 1, layer, int(kind > 0)
    await RisingEdge(dut.clk_i)
    assert int(dut.plan_valid_o.value) == 0, "no plan without a lookup"
    dut.lookup_i.value = 0
    await RisingEdge(dut.clk_i)
    assert int(dut.plan_valid_o.value) == 1
    plan = PLAN.numbers(int(dut.plan_o.value))
    bad = plan["bad"]
    if not batch or layer >= LAYERS:
        assert bad == 1
        return
    word = words[layer * B_MAX + batch - 1]
    try:
        run = decode_fbcb(word, kind=kind, batch=batch, t_r=T_R, stackable=STACKABLE, split=SPLIT)
    except FbcbError:
        assert bad == 1, f"layer {layer}, batch {batch}, kind {kind}"
        return
    assert bad == 0, f"layer {layer}, batch {batch}, kind {kind}, word {word:#x}: {run}"
    assert (plan["b_r"], plan["row_lanes"], plan["block"]) == (run.b_r, int(run.row_lanes), run.block)
    if not kind:
        assert plan["mode"] == int(run.mode)


@bench(5000)
async def a_table_is_read_back(dut: Dut) -> None:
    """The host sees the words that it wrote, none beyond the table, and none while a job runs."""
    rng = await begin(dut)
    words = [rng.getrandbits(WORD_BITS) for _ in range(LAYERS * B_MAX)]
    for at, word in enumerate(words):
        dut.load_i.value = FBCB_WRITE.pack({"valid": 1, "index": at, "word": word})
        await RisingEdge(dut.clk_i)
    for at in rng.sample([*range(len(words) + 3), (1 << 32) - 1, 1 << 16], len(words) + 5):
        for busy in (0, 1):
            dut.load_i.value, dut.busy_i.value = FBCB_WRITE.pack({"index": at}), busy
            await RisingEdge(dut.clk_i)
            await RisingEdge(dut.clk_i)
            want = words[at] if at < len(words) and not busy else 0
            assert int(dut.loaded_o.value) == want, f"word {at}, busy {busy}"
