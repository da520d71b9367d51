"""The chains of the reference core in the columns of DSP slices of a board, piece by piece (ADR 39)."""

from __future__ import annotations

from dataclasses import replace

from fluidnpu.boards import Board
from fluidnpu.dse import Design, DesignError
from fluidnpu.dse.resources import Cut, Place, chains, lay

from ..errors import ProjectError


def chain_places(design: Design, board: Board) -> tuple[Place, ...]:
    """Place every chain of a design's reference core. Raises ProjectError where they have no room.

    Chains of two columns all have parts of one length, of which the first is the one that may be shorter.
    """
    array, columns, cut = design.array, board.dsp_columns, Cut(design.array.piece, design.array.broken)
    if array.chain_columns > 1:
        cut = Cut(array.segment, array.chains)
    try:
        places = lay(columns, array.t_p, array.chains, cut, stackable=array.stackable)
        if array.chain_columns > 1:
            places = tuple(replace(place, first=array.t_p - place.first - place.words) for place in places)
        return places
    except DesignError:
        held = chains(columns, array.t_p)
        broken = f", {cut.broken} of them in pieces of {cut.piece}," if cut.broken else ""
        raise ProjectError(
            f"{array.chains} chains of {array.t_p} multiply-accumulates{broken} must lie in columns of DSP slices, and those of "
            f"board '{board.name}' hold {held} whole ones: search a design with --core rtl, or build the HLS core"
        ) from None
