"""Rows of outputs or residuals, walked ahead of their use: twin of `fluidnpu_row_addresses`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .commands import TileCommand
from .parameters import LayerConstants, Setup
from .records import jit, jit_apart
from .walker import (
    Walker,
    begin_pass,
    ends_column,
    ends_line,
    ends_pass,
    leaves,
    leaves_last,
    reset_walker,
    row_address,
    walk,
    walk_position,
)

DEPTH = 8  # rows
_STEPS = 3  # in which an address is added up
_RING = 16  # all rows that were walked and not yet taken


@dataclass(slots=True)
class LayoutRow:
    """A row of the output's layout."""

    address: int
    cols: int
    last: int  # of the layer


@dataclass(slots=True)
class RowAddresses:
    """Registers of `fluidnpu_row_addresses`."""

    made: int  # rows so far
    stored: int  # of them
    taken: int
    adding: int  # bit n: a row was made n cycles ago
    cols: int
    last: int  # the command at hand is the layer's last
    walker: Walker
    ring: Annotated[list[LayoutRow], _RING]


@jit
def reset_addresses(rows: RowAddresses, step_h: int, step_w: int, pools: int = 0) -> None:
    """Begin a layer at its first row, as `reset_walker`."""
    reset_walker(rows.walker, step_h, step_w, pools)


@jit
def begin_rows(rows: RowAddresses, command: TileCommand, offset: int) -> None:
    """Begin the rows of a command, `offset` bytes behind the first row's place in its slot."""
    rows.cols = command.cols
    rows.last = command.layer_last
    begin_pass(rows.walker, command, command.out_shift + offset, command.block_last != 0)


@jit
def first_row(rows: RowAddresses) -> LayoutRow:
    """The oldest row that was not taken."""
    return rows.ring[rows.taken & _RING - 1]


@jit
def _add_up(rows: RowAddresses) -> int:
    """Store the row whose address is complete. Returns the rows that can be taken."""
    rows.adding <<= 1
    if rows.adding >> _STEPS + 1:
        rows.stored += 1
        rows.adding &= (1 << _STEPS + 1) - 1
    return rows.stored - rows.taken


@jit
def _make_row(rows: RowAddresses, last: bool, layer: LayerConstants, setup: Setup) -> None:
    row = rows.ring[rows.made & _RING - 1]
    row.address = row_address(rows.walker, layer, setup)
    row.cols = rows.cols
    row.last = last
    rows.made += 1
    rows.adding |= 1


@jit
def walk_ahead(rows: RowAddresses, layer: LayerConstants, setup: Setup) -> bool:
    """Store the row whose address is complete, and walk on while there is room. Returns True if one is there
    to be taken.
    """
    level = _add_up(rows)
    if rows.walker.active and level + _STEPS + 1 <= DEPTH:
        if ends_column(rows.walker, layer) and ends_line(rows.walker, layer):
            _make_row(rows, rows.last != 0 and ends_pass(rows.walker), layer, setup)
        walk(rows.walker, layer)
    return level != 0


@jit_apart
def walk_positions(rows: RowAddresses, layer: LayerConstants, setup: Setup) -> bool:
    """As `walk_ahead`, over the positions of a filter, of which those are rows at which a word leaves."""
    level = _add_up(rows)
    if rows.walker.active and level + _STEPS + 1 <= DEPTH:
        if leaves(rows.walker, layer):
            _make_row(rows, leaves_last(rows.walker, layer), layer, setup)
        walk_position(rows.walker, layer)
    return level != 0
