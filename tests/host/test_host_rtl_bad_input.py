"""Invalid programs, registers and FBCB words on the RTL, through the driver.

ERROR and the interrupt name cause and place, the exception repeats them, and after `recover` the NPU is right
again. Also: accesses where there is no register, on both simulated devices.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest
from rtl_worlds import RtlWorld, rtl_world

from fluidnpu.dse.testing import tiny_design
from fluidnpu.hls import REGISTERS, WINDOW_BYTES, Access, Cause, register
from fluidnpu.hls.program import DESCRIPTOR_BYTES, decode_fbcb
from fluidnpu.host import NpuError, SimulatedNpu
from fluidnpu.models import golden

Damage = Callable[[RtlWorld], None]
LAYER = 1


def raw(word: int, change: Callable[[int], int]) -> Damage:
    """Change one word of layer 1's descriptor; the checksum is made to fit, so that only this is wrong."""

    def damage(w: RtlWorld) -> None:
        address = w.device.read(register("PROGRAM_LO").offset) + LAYER * DESCRIPTOR_BYTES
        words = w.device.npu.view(address, DESCRIPTOR_BYTES).view("<u4")
        words[word] = change(int(words[word])) & 0xFFFF_FFFF
        words[31] = zlib.crc32(words[:31].tobytes())

    return damage


def raised(name: str, add: int) -> Damage:
    def damage(w: RtlWorld) -> None:
        w.device.write(register(name).offset, (w.device.read(register(name).offset) + add) & 0xFFFF_FFFF)

    return damage


def fbcb(word: Callable[[RtlWorld], int]) -> Damage:
    """Another FBCB word for layer 1 at batch 2."""

    def damage(w: RtlWorld) -> None:
        w.device.write(register("FBCB_INDEX").offset, LAYER * w.design.b_max + 1)
        w.device.write(register("FBCB_DATA").offset, word(w))

    return damage


def no_weights(w: RtlWorld) -> None:
    batch_word = w.program.fbcb_words[LAYER * w.design.b_max + 1]
    run = decode_fbcb(batch_word, kind=0, batch=2, t_r=w.design.t_r, stackable=True, split=True)
    raw(17 + int(run.mode), lambda _: 0xFFFF_FFFF)(w)


B_R, BLOCK = register("FBCB_DATA").field("B_R"), register("FBCB_DATA").field("BLOCK")
CASES: dict[str, tuple[Cause, int, Damage]] = {
    "magic of another layout": (Cause.BAD_DESCRIPTOR, LAYER, raw(0, lambda v: v + 1)),
    "a kind that does not exist": (Cause.BAD_DESCRIPTOR, LAYER, raw(1, lambda v: v | 3)),
    "a shift beyond the accumulator": (Cause.BAD_DESCRIPTOR, LAYER, raw(1, lambda v: v & ~0xFF00 | 48 << 8)),
    "kernel of no rows": (Cause.BAD_DESCRIPTOR, LAYER, raw(2, lambda v: v & ~0xFF)),
    "stride 0": (Cause.BAD_DESCRIPTOR, LAYER, raw(2, lambda v: v & ~0xFF_0000)),
    "dilation 0": (Cause.BAD_DESCRIPTOR, LAYER, raw(3, lambda v: 0)),
    "no output rows": (Cause.BAD_DESCRIPTOR, LAYER, raw(4, lambda v: v & ~0xFFFF)),
    "no output columns": (Cause.BAD_DESCRIPTOR, LAYER, raw(4, lambda v: v & 0xFFFF)),
    "no input channels": (Cause.BAD_DESCRIPTOR, LAYER, raw(5, lambda v: v & ~0xFFFF)),
    "no groups": (Cause.BAD_DESCRIPTOR, LAYER, raw(5, lambda v: v & 0xFFFF)),
    "no output channels": (Cause.BAD_DESCRIPTOR, LAYER, raw(6, lambda v: 0)),
    "clip bounds in wrong order": (Cause.BAD_DESCRIPTOR, LAYER, raw(7, lambda v: 0x8000_7FFF)),
    "odd input offset": (Cause.BAD_DESCRIPTOR, LAYER, raw(8, lambda v: v | 1)),
    "odd output row": (Cause.BAD_DESCRIPTOR, LAYER, raw(12, lambda v: v | 1)),
    "an activation that does not exist": (Cause.BAD_DESCRIPTOR, LAYER, raw(22, lambda v: v | 7)),
    "a table without pieces": (Cause.BAD_DESCRIPTOR, LAYER, raw(22, lambda v: v | 8 << 4 | 1)),
    "a product without a factor": (Cause.BAD_DESCRIPTOR, LAYER, raw(22, lambda v: v | 2)),
    "pieces that no use needs": (Cause.BAD_DESCRIPTOR, LAYER, raw(22, lambda v: v | 258 << 16)),
    "a residual that is spread and not there": (Cause.BAD_DESCRIPTOR, LAYER, raw(1, lambda v: v | 1 << 4)),
    "clip bounds of the unit in wrong order": (Cause.BAD_DESCRIPTOR, LAYER, raw(23, lambda v: 0x8000_7FFF)),
    "no weights for the mode": (Cause.BAD_DESCRIPTOR, LAYER, no_weights),
    "misaligned program": (Cause.BAD_DESCRIPTOR, 0, raised("PROGRAM_LO", 4)),
    "misaligned weights": (Cause.BAD_DESCRIPTOR, 0, raised("WEIGHTS_LO", 32)),
    "misaligned slots": (Cause.BAD_DESCRIPTOR, 0, raised("SLOT_BASE_LO", 2)),
    "misaligned slot size": (Cause.BAD_DESCRIPTOR, 0, raised("SLOT_BYTES", 2)),
    "addresses beyond 40 bits": (Cause.BAD_DESCRIPTOR, 0, raised("SLOT_BASE_HI", 0x100)),
    "fewer layers than the job": (Cause.BAD_LAYER_RANGE, 0, lambda w: w.device.write(register("LAYERS").offset, LAYER)),
    "more samples in lane 0 than there are": (Cause.BAD_FBCB, LAYER, fbcb(lambda w: B_R.put(2))),
    "b_r that wraps": (Cause.BAD_FBCB, LAYER, fbcb(lambda w: B_R.put(31))),
    "a row block deeper than the banks": (Cause.BAD_FBCB, LAYER, fbcb(lambda w: B_R.put(1) | BLOCK.put(w.design.t_r + 1))),
}  # fmt: skip


def test_a_checksum_that_is_made_to_fit_is_right() -> None:
    """So that a case is refused for what it changes, and for nothing else."""
    w = rtl_world()
    w.put(w.images(1))
    w.driver.activate([0])
    raw(7, lambda v: v - (1 << 16))(w)  # the upper clip bound, which may be another
    w.driver.run_to_exit(w.design.stages - 1)


# Each field by itself is in the benches of the planner and of the data plane; here it goes through the
# driver.
@pytest.mark.parametrize("case", CASES)
def test_the_driver_names_it_and_recovers(case: str) -> None:
    cause, layer, damage = CASES[case]
    w = rtl_world()
    images = w.images(2)
    w.put(images)
    w.driver.activate([0, 1])
    damage(w)
    with pytest.raises(NpuError) as caught:
        w.driver.run_to_exit(w.design.stages - 1)
    error = caught.value
    assert (error.cause, error.slots) == (cause, (0, 1))
    assert error.layer_index == layer
    assert cause.name in str(error)
    assert f"'{w.design.layers[layer].name}'" in str(error)
    w.driver.recover()
    w.driver.activate([0, 1])
    w.driver.run_to_exit(w.design.stages - 1)
    for stage, expected in enumerate(golden.run(w.qnet, images)):
        np.testing.assert_array_equal(w.driver.stored_logits([0, 1], stage), expected)


def test_an_fbcb_word_out_of_range_is_refused_when_it_is_loaded() -> None:
    w = rtl_world()
    irq = register("IRQ_STATUS")
    w.device.write(register("FBCB_INDEX").offset, 1 << 20)
    w.device.write(register("FBCB_DATA").offset, 0)
    assert register("ERROR").field("CAUSE").get(w.device.read(register("ERROR").offset)) == Cause.BAD_FBCB
    assert w.device.read(irq.offset) == irq.field("ERROR").mask
    assert w.device.npu.irq
    w.driver.recover()
    assert w.driver.status().cause is Cause.NONE


@pytest.mark.parametrize("which", ["simulated", "rtl"])
def test_both_devices_do_nothing_where_there_is_no_register(which: str) -> None:
    """The RTL answers SLVERR, which a `Device` cannot show: a read gives zero, a write has no effect.

    A board's bus may raise a fault instead.
    """
    device = SimulatedNpu(tiny_design()) if which == "simulated" else rtl_world().device
    kept = [r.offset for r in REGISTERS if r.access is Access.RW]
    before = [device.read(offset) for offset in kept]
    known = {r.offset: r.access for r in REGISTERS}
    for offset in range(0, WINDOW_BYTES, 4):
        if offset not in known:
            device.write(offset, 0xFFFF_FFFF)
            assert device.read(offset) == 0
        elif known[offset] is Access.RO:
            value = device.read(offset)
            device.write(offset, 0xFFFF_FFFF)
            assert device.read(offset) == value
    assert [device.read(offset) for offset in kept] == before
    for offset in (2, WINDOW_BYTES, -4):
        with pytest.raises(ValueError, match="multiple of 4"):
            device.read(offset)
