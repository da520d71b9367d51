"""The home of a request with a key of its client's, which every front of the same boards knows by itself.

Boards are ranked by a hash of key and name, weighted by their planned rates (highest random weight: Thaler
and Ravishankar, IEEE/ACM Transactions on Networking 6(1), 1998). So a repeat at another front is asked of the
board that has the first answer, under the same key; where that board is gone the next in rank is asked.

>>> boards = {"a": 1.0, "b": 1.0, "c": 1.0}
>>> first = rank_homes("order-7", boards)
>>> first == rank_homes("order-7", dict(reversed(boards.items())))
True
>>> gone = first[0]
>>> rank_homes("order-7", {name: rate for name, rate in boards.items() if name != gone}) == first[1:]
True
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

_BITS = 64


def rank_homes(key: str, boards: Mapping[str, float]) -> list[str]:
    """Return names of boards, the home of a key first. `boards`: rates by name, all alike where all are 0."""
    alike = not any(boards.values())
    score = {name: _score(key, name, 1.0 if alike else max(rate, 1e-9)) for name, rate in boards.items()}
    return sorted(boards, key=lambda name: (-score[name], name))


def key_of_piece(key: str, first: int, count: int) -> str:
    """Return the key by which boards know samples of a request with a key, the same at every front."""
    return f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.{first}.{count}"


def _score(key: str, name: str, rate: float) -> float:
    """Return the rate over an exponential number that only key and name decide."""
    drawn = hashlib.blake2b(f"{key}\0{name}".encode(), digest_size=_BITS // 8).digest()
    return -rate / math.log((int.from_bytes(drawn, "big") + 0.5) / 2**_BITS)
