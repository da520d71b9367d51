"""The memory behind the ports gives the rate that it is asked for, no more and no less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.boards import list_boards, load_board
from fluidnpu.dse import DramModel, Target
from fluidnpu.dse.exact import Machine
from fluidnpu.dse.exact.search import best_plan
from fluidnpu.dse.exact.twin import records
from fluidnpu.dse.exact.twin.bus import memory
from fluidnpu.dse.exact.twin.parameters import FRACTION, Setup
from fluidnpu.dse.hardware.array import Array
from fluidnpu.models import LayerShape, Window

SHIPPED = [(name, one.name) for name in list_boards() for one in load_board(name).dram]
CYCLES = 300


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the twin for plain records."""
    found: Callable[..., Any] = getattr(function, "py_func", function)
    return found


def beats_of(setup: Setup, wanted: int) -> int:
    """Beats that the memory grants in `CYCLES` cycles to ports that always want one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "COMPILED", False)
        (dram,) = records.zeros(memory.DramTwin, 1)
    plain(memory.reset_dram)(dram, setup, 0)
    granted = 0
    for _ in range(CYCLES):
        plain(memory.tick)(dram, setup)
        granted += plain(memory.grant)(dram, setup, wanted).bit_count()
    return granted


@given(
    stripe_shift=st.integers(0, 2),
    beat_words=st.sampled_from([2, 4, 8, 32]),
    rate=st.floats(0.01, 15.9),
    limit=st.sampled_from(["total_rate", "link_rate"]),
)
def test_ports_that_always_want_get_the_whole_rate(stripe_shift: int, beat_words: int, rate: float, limit: str) -> None:
    """`rate` is in beats a cycle: also what a cycle leaves of it, less than a beat, is given in time."""
    stripes, beat = 1 << stripe_shift, 2 * beat_words * FRACTION
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "COMPILED", False)
        (setup,) = records.zeros(Setup, 1)
    setup.stripes, setup.stripe_shift, setup.port_bytes = stripes, stripe_shift, 2 * beat_words * stripes
    setup.refresh_interval, setup.links = 1, [0, 1, 2]
    setattr(setup, limit, max(1, round(rate * beat)))
    ports = (1 << 4 * stripes) - 1
    # The bucket is full at first: a beat and a cycle's rate, or two beats.
    first = 1 + max(1.0, rate)
    if limit == "total_rate":
        most, sharers = min(rate, 4.0 * stripes), 1
    elif stripes == 1:
        most, sharers = min(rate, 1.0), 4  # every master has a link of its own, and one for writes
    else:
        # A physical port carries the reads of three masters, and the writes of one.
        reads, writes = min(rate, 3.0), min(rate, 1.0)
        most, sharers = stripes * (reads + writes), 2 * stripes
    total = most * (4 if limit == "link_rate" and stripes == 1 else 1)
    got = beats_of(setup, ports)
    assert total * CYCLES - 0.01 * CYCLES - 2 * sharers <= got <= total * CYCLES + sharers * first + 0.01 * CYCLES


@pytest.mark.parametrize(("board_name", "memory_name"), SHIPPED)
def test_a_board_gives_a_bound_layer_the_share_that_its_file_states(board_name: str, memory_name: str) -> None:
    """A layer of nothing but weights; where its port is the narrower one, that is what it gets."""
    board = load_board(board_name)
    dram = DramModel.of(board, memory_name)
    one = board.memory(memory_name)
    assert 2 * dram.total_words * board.clock_hz == pytest.approx(one.sustained_pct / 100 * one.bytes_per_s)
    layer = LayerShape(name="weights", r=1, p=1024, c=1024, window=Window(kernel=(1, 1), out=(1, 1), channels=1024))
    target = Target(board=board, memory=memory_name, core="rtl")  # tiles of one row wait longer in the HLS core
    machine = Machine.on(target, Array.on(board, memory_name, t_r=64, t_p=8, t_c=64))
    words = 1024 * 1024
    port = dram.rates(machine.port_words, machine.stripes)
    cycles = best_plan(layer, 1, machine, dram)[1].run
    assert 0.97 * min(port.port, port.total) < words / cycles <= 1.002 * min(port.port, port.total)
    slower = replace(dram, total_words=0.8 * dram.total_words)
    if port.total < port.port:
        assert best_plan(layer, 1, machine, slower)[1].run / cycles == pytest.approx(1 / 0.8, abs=0.02)
