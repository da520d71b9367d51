"""Event loops whose clock jumps: a test of waits, limits and lateness that a busy machine cannot change."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from waiting import PATIENCE_S

Result = TypeVar("Result")
LONGEST_S = 3600.0  # of the loop's clock: a test that waits for ever ends


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its clock stands still while anything can run, and then jumps to the next timer.

    Work in threads takes no time: the clock waits for it. There are no sockets.
    """

    def __init__(self) -> None:
        self.now_s, self.in_threads = 0.0, 0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self.now_s

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Do as every loop does, and count what is under way."""
        future = super().run_in_executor(executor, func, *args)
        self.in_threads += 1
        future.add_done_callback(self._returned)
        return future

    def _returned(self, _: object) -> None:
        self.in_threads -= 1


class _Jumping(selectors.DefaultSelector):
    """Waits for threads alone; any other wait is over at once."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or (timeout > 0 and self._loop.in_threads):
            found = super().select(PATIENCE_S)
            assert found, "somebody must wake the loop: it has no timer"
            return found
        self._loop.now_s += timeout
        assert self._loop.now_s < LONGEST_S, "the test waits for something that does not come"
        return super().select(0)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on a virtual loop of its own, as `asyncio.run` does on the machine's clock."""
    loop = VirtualLoop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(work)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_default_executor())
        asyncio.set_event_loop(None)
        loop.close()
