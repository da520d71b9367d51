"""Compressed bodies, opened piece by piece against a bound: gzip and deflate as RFC 9110 names them. No I/O.

>>> import gzip
>>> opened = Inflating(b"gzip")
>>> b"".join(opened.feed(gzip.compress(b"a body"))), opened.end()
(b'a body', None)
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from ...errors import ProtocolError

PIECE_BYTES = 256 << 10  # that are opened at once, between two looks at a bound
_WINDOWS = {b"gzip": 16 + zlib.MAX_WBITS, b"x-gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}


class Inflating:
    """A compressed body on its way. Raises ProtocolError for another coding, and for what is not of it."""

    def __init__(self, coding: bytes) -> None:
        window = _WINDOWS.get(coding.lower())
        if window is None:
            raise ProtocolError(
                f"the content-encoding must be gzip, deflate or identity, not '{coding[:40].decode('latin-1')}'"
            )
        self._coding, self._opening = coding, zlib.decompressobj(window)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the opened pieces of the next part, none longer than `PIECE_BYTES`. Raises ProtocolError."""
        while data:
            if self._opening.eof:
                raise ProtocolError("a compressed body must end with its last byte, and more came behind it")
            try:
                piece = self._opening.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise ProtocolError(f"the body must be {self._coding.decode()}: {error!s:.100}") from None
            yield piece
            data = self._opening.unconsumed_tail or self._opening.unused_data

    def end(self) -> None:
        """Raise ProtocolError unless the whole body came."""
        if not self._opening.eof:
            raise ProtocolError("a compressed body must come whole, and its end is missing")
