"""Every setting is written in every state of a job: its bytes are right; BUSY comes where the map says so.

>>> "FBCB_DATA" in {entry.name for entry in SETTINGS}, "STATUS" in {entry.name for entry in SETTINGS}
(True, False)
"""

from __future__ import annotations

from fluidnpu.hls import REGISTERS, Access, Cause, Register, WhileBusy

from .campaign import timeline
from .world import LIMIT, Bytes, NpuWorld

SETTINGS = tuple(entry for entry in REGISTERS if entry.access in (Access.RW, Access.W1C))
_NO_PLAN = 30 << 2  # an FBCB word that no batch can obey: 31 samples a lane
# What is written: where nothing stands here, a word that would lead the job elsewhere.
_WRITTEN = {"WATCHDOG": 0, "IRQ_ENABLE": 3, "IRQ_STATUS": 3, "FBCB_DATA": _NO_PLAN}


def settings_in_every_state(world: NpuWorld, *, most: int | None = None) -> int:
    """Write each setting in each state of one job, or in `most` of them; return the number of writes."""
    layers = world.draw_layers(1)
    world.draw_batch()
    world.draw_plans(layers)
    before, whole = world.memory.copy(), world.after(layers)
    states = timeline(world, layers)
    moments = [len(states) - 1 - states[::-1].index(state) for state in sorted(set(states))]
    for entry in SETTINGS:
        for moment in moments if most is None else world.rng.sample(moments, min(most, len(moments))):
            written_in_a_job(world, layers, entry, moment, before, whole)
    return len(SETTINGS) * len(moments if most is None else moments[:most])


def written_in_a_job(
    world: NpuWorld, layers: range, entry: Register, moment: int, before: Bytes, whole: Bytes, value: int | None = None
) -> None:
    """Write a setting `moment` cycles behind the first of a job; memory must be `whole` behind it.

    So it must be behind the same job again, once a register that may change is as it was. `before` and
    `whole` are memory before and behind a job, (bytes,) with one value per byte.
    """
    name, refused = entry.name, entry.busy is WhileBusy.REFUSED
    world.memory[:] = before
    world.put("FBCB_INDEX", layers[0] * world.program.design.b_max + len(world.active) - 1)
    good = world.get(name)
    value = _WRITTEN.get(name, good ^ 64) if value is None else value
    world.start(layers)
    world.run_to(world.npu.began + 1 + moment)
    world.put(name, value)
    cause, busy = Cause(world.get("ERROR", "CAUSE")), world.npu.state & 7
    world.must(cause is (Cause.BUSY if refused else Cause.NONE), f"{name} in state {busy}: ERROR tells {cause.name}")
    _ends_whole(world, whole, f"{name} written {moment} cycles into a job")
    if entry.access is Access.RW and name != "FBCB_DATA":
        shown = world.get(name)
        world.must(shown == (good if refused else value), f"{name} written while busy must not hold {shown:#x}")
        world.put(name, good)
    world.memory[:] = before
    world.start(layers)
    _ends_whole(world, whole, f"the job behind {name}")
    world.must(world.get("ERROR") == 0, f"the job behind {name} must end without an error")


def _ends_whole(world: NpuWorld, whole: Bytes, what: str) -> None:
    world.npu.run(LIMIT, until_idle=True)
    world.must(bool(world.get("STATUS", "DONE")), f"{what}: it must be done")
    wrong = int((world.memory != whole).sum())
    world.must(not wrong, f"{what}: {wrong} bytes are not those of the whole job")
    world.put("IRQ_STATUS", 3)
    world.count()
