"""Waits of a server that end: at a time of the loop, or when the client goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any

from starlette.types import Receive

_PROMPT_S = 0.05  # an answer that comes sooner is not worth a look at its client


class _Until:
    """A `with` block in a coroutine that ends with asyncio's TimeoutError at a time of the loop.

    `asyncio.wait_for` makes a task for each wait, and `asyncio.timeout` needs Python 3.11.
    """

    def __init__(self, at: float) -> None:
        self._at, self._passed = at, False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._timer = asyncio.get_running_loop().call_at(self._at, self._pass, task)
        self._task = task

    def _pass(self, task: asyncio.Task[Any]) -> None:
        self._passed = True
        task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._timer.cancel()
        if self._passed and kind is asyncio.CancelledError:
            if hasattr(self._task, "uncancel"):
                self._task.uncancel()
            raise asyncio.TimeoutError from None


class InTime:
    """Awaits as `_Until` does, but sets no timer where there is nothing to wait for."""

    def __init__(self, work: Awaitable[Any], at: float) -> None:
        self._steps, self._at = work.__await__(), at

    def __await__(self) -> Generator[Any, Any, Any]:
        """Take the first step, then the others under the clock."""
        try:
            waited = next(self._steps)
        except StopIteration as done:
            return done.value
        with _Until(self._at):
            return (yield from _rest(self._steps, waited))


def _rest(work: Generator[Any, Any, Any], waited: Any) -> Generator[Any, Any, Any]:
    """Drive an awaitable to its end from what it waits for now, as `yield from` would."""
    while True:
        try:
            try:
                sent = yield waited
            except BaseException as error:
                waited = work.throw(error)
            else:
                waited = work.send(sent)
        except StopIteration as done:
            return done.value


async def unless_gone(work: Awaitable[Any], receive: Receive) -> Any:
    """Return the result of the work, or None when the client goes first; a watch begins after `_PROMPT_S`."""
    watch = _Watch(receive)
    timer = asyncio.get_running_loop().call_later(_PROMPT_S, watch.begin)
    try:
        return await work
    except asyncio.CancelledError:
        if not watch.gone:
            raise
        watch.forgive()
        return None
    finally:
        timer.cancel()
        watch.end()


class _Watch:
    """Cancels the task that made it when the client goes."""

    def __init__(self, receive: Receive) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._work, self._receive, self.gone = task, receive, False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look at the client from now on."""
        self._task = asyncio.ensure_future(_until_gone(self._receive))
        self._task.add_done_callback(self._note_end)

    def end(self) -> None:
        """Look no longer."""
        if self._task is not None:
            self._task.remove_done_callback(self._note_end)
            self._task.cancel()

    def forgive(self) -> None:
        """Take the cancellation back."""
        if hasattr(self._work, "uncancel"):
            self._work.uncancel()

    def _note_end(self, done: asyncio.Task[None]) -> None:
        if done.cancelled():
            return
        done.exception()  # a connection that broke is gone, too
        self.gone = True
        self._work.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
