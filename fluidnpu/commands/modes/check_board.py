"""`fluidnpu check BOARD.toml`: read a board file, and say which of its facts name no document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fluidnpu import boards

from ... import show


def check_board(path: Path, as_json: bool) -> None:
    """Read a board file and print its memories and the facts without a source. Raises BoardFileError."""
    board = boards.load_board(path)
    if as_json:
        show.emit(board_report(board))
        return
    out = show.console()
    out.print(
        f"[bold]{board.name}[/] can be used: {board.title}, {board.dsp} DSPs, {board.ramb36} RAMB36, "
        f"{board.uram288} URAM288, {board.clock_hz / 1e6:g} MHz"
    )
    rows = [
        (
            memory.name,
            memory.side,
            str(board.memory(memory.name).port_bits),
            str(memory.stripes),
            f"{memory.bytes_per_s / 1e9:.2f}",
        )
        for memory in board.dram
    ]
    columns = ("memory", "side", "bits of a master", "ports of a master", "GB/s")
    out.print(show.table("Memories", columns, rows, left=2))
    if board.unsourced:
        out.print(f"no document is named for {', '.join(board.unsourced)}: add them under \\[sources]")


def board_report(board: boards.Board) -> dict[str, Any]:
    """Give the board and the facts without a source, in plain JSON types."""
    return {**board.to_dict(), "unsourced": list(board.unsourced)}
