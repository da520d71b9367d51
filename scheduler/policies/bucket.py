"""A leaky bucket: a share of the requests that may be spent, saved up for a window of them and no longer.

>>> bucket = Bucket(share=0.1, window=20)
>>> bucket.fill(1000)  # a calm day
>>> [bucket.spend() for _ in range(3)]
[True, True, False]
"""

from __future__ import annotations

WINDOW = 1000  # requests over which a budget is kept


class Bucket:
    """Spends at most `share` of the requests seen, and of any n of them at most `share` of n and a window.

    `level`: what may be spent now; it begins at `start`.
    """

    def __init__(self, share: float, window: float = WINDOW, start: float = 0.0) -> None:
        self.share, self.most, self.start = share, share * window, start
        self.level = start

    def reset(self) -> None:
        """Begin again."""
        self.level = self.start

    def fill(self, requests: int) -> None:
        """Save up the share of these requests, up to a window's."""
        self.level = min(self.level + self.share * requests, self.most)

    def spend(self) -> bool:
        """Spend one request, if there is one to spend."""
        if self.level < 1:
            return False
        self.level -= 1
        return True
