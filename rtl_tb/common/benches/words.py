"""Beats of words as the integers of a port, word 0 lowest. Pure."""

from __future__ import annotations

import numpy as np

from fluidnpu.models.numeric import Stored


def beats_of(words: Stored) -> list[int]:
    """Pack each row of words (rows, words) into an integer.

    >>> [hex(beat) for beat in beats_of(np.array([[1, -1], [2, 0]], np.int16))]
    ['0xffff0001', '0x2']
    """
    return [int.from_bytes(row.tobytes(), "little") for row in words.astype(words.dtype.newbyteorder("<"))]


def larger_words(a: int, b: int, words: int, size: int = 2) -> int:
    """Take the larger word, of `size` bytes, at every place of two beats.

    >>> hex(larger_words(0x0001_FFFF, 0xFFFE_0002, 2))
    '0x10002'
    """
    both = (np.frombuffer(beat.to_bytes(size * words, "little"), f"<i{size}") for beat in (a, b))
    return int.from_bytes(np.maximum(*both).astype(f"<i{size}").tobytes(), "little")
