"""FPGA boards as data: one TOML file each, every fact with the document it comes from."""

from .board import STRIPES, Board, BoardError, Dram, list_boards, load_board, parse_board

__all__ = ["STRIPES", "Board", "BoardError", "Dram", "list_boards", "load_board", "parse_board"]
