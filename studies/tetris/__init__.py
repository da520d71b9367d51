"""TETRIS: splitting early-exit networks over many devices, statement by statement."""
