"""The chains of the reference core in the columns of DSP slices of a board, piece by piece (ADR 39)."""

from __future__ import annotations

from fluidnpu.boards import Board
from fluidnpu.dse import Design, DesignError
from fluidnpu.dse.resources import Cut, Place, chains, lay

from ..errors import ProjectError


def chain_places(design: Design, board: Board) -> tuple[Place, ...]:
    """Place every chain of a design's reference core. Raises ProjectError where they have no room."""
    array, columns = design.array, board.dsp_columns
    try:
        return lay(columns, array.t_p, array.t_c, Cut(array.piece, array.broken), stackable=array.stackable)
    except DesignError:
        held = chains(columns, array.t_p)
        broken = f", {array.broken} of them in pieces of {array.piece}," if array.broken else ""
        raise ProjectError(
            f"{array.t_c} chains of {array.t_p} multiply-accumulates{broken} must lie in columns of DSP slices, and those of "
            f"board '{board.name}' hold {held} whole ones: search a design with --core rtl, or build the HLS core"
        ) from None
