"""A link to a board that can be cut: nothing passes it, and neither end is notified.

For campaigns and tests: connections to `Cable.address` are carried to another one on this machine. While it
is cut, bytes, ends and new connections wait, as behind a switch without power.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from enum import Enum
from types import TracebackType
from typing import Any

_CHUNK = 1 << 16


class Mended(Enum):
    """The fate of the connections that a cut has met, when the link is whole again."""

    GOES_ON = "what waited arrives late"
    CLOSED = "both ends hear that they are closed"
    FORGOTTEN = "nothing passes them any more, and neither end is told"


class Cable:
    """A TCP link to `target` (host:port), carried by a thread of its own; a context manager."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port, self.address = int(port), ""
        self._loop = asyncio.new_event_loop()
        self._whole = asyncio.Event()
        self._whole.set()
        self._carried: set[_Carried] = set()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"cable to {target}", daemon=True)

    def __enter__(self) -> Cable:
        """Listen on a free port."""
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._connect, "127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections and stop listening."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Let nothing pass from now on."""
        self._loop.call_soon_threadsafe(self._whole.clear)

    def mend(self, fate: Mended = Mended.GOES_ON) -> None:
        """Let all pass again but for connections whose fate is another."""
        self._loop.call_soon_threadsafe(self._mend, fate)

    def _mend(self, fate: Mended) -> None:
        if self._whole.is_set():
            return
        for carried in self._carried:
            if fate is Mended.CLOSED:
                carried.close()
            carried.dead = carried.dead or fate is Mended.FORGOTTEN
        self._whole.set()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = [carried.task for carried in self._carried if carried.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carried = _Carried(self._whole, asyncio.current_task(), [writer])
        self._carried.add(carried)
        try:
            await carried.may_pass()
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
            carried.ends.append(far_writer)
            await asyncio.gather(carried.carry(reader, far_writer), carried.carry(far_reader, writer))
        except (OSError, asyncio.CancelledError):  # an end has gone, or the cable does
            pass
        finally:
            self._carried.discard(carried)
            carried.close()


class _Carried:
    """One connection: two streams, each carried to the other."""

    def __init__(self, whole: asyncio.Event, task: Any, ends: list[asyncio.StreamWriter]) -> None:
        self._whole, self.task, self.ends, self.dead = whole, task, ends, False

    async def may_pass(self) -> None:
        """Return when the link is whole, of a dead connection never."""
        await self._whole.wait()
        if self.dead:
            await asyncio.Event().wait()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one direction to its end."""
        while data := await reader.read(_CHUNK):
            await self.may_pass()
            writer.write(data)
            await writer.drain()
        await self.may_pass()
        with contextlib.suppress(OSError):
            writer.write_eof()

    def close(self) -> None:
        """Close both ends at once."""
        for end in self.ends:
            end.transport.abort()
