"""One NPU's time, shared by several simulated ones: where programs take turns on one board. Threads share it.

>>> npu = Occupancy()
>>> npu.reserve(now_ns=100, duration_ns=50), npu.reserve(now_ns=120, duration_ns=10), npu.reserve(200, 5)
(100, 150, 200)
"""

from __future__ import annotations

import threading


class Occupancy:
    """Jobs of one NPU, one after another in the order in which they ask; a switch of programs takes no
    time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free_ns = 0

    def reserve(self, now_ns: int, duration_ns: int) -> int:
        """Take the NPU for a job as soon as it is free, and return when that is."""
        with self._lock:
            start_ns = max(now_ns, self._free_ns)
            self._free_ns = start_ns + duration_ns
            return start_ns
