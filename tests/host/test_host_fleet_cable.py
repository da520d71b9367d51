"""Links that are cut: nothing passes, neither end is told, and a front finds its board again."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigns.cable import Cable, Mended
from fleet_worlds import NAME, boards, slow_world
from host_worlds import PATIENCE_S
from oip_worlds import bundle_of

from fluidnpu.host.errors import BoardError
from fluidnpu.host.fleet.boards.link import BoardLink


class _Echo:
    """A server that says what it hears, one connection after another, on the loop of the test."""

    def __init__(self) -> None:
        self._served: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._served:
            task.cancel()
        await asyncio.gather(*self._served, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._served.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(100):
                writer.write(data)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _open(cable: Cable) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = cable.address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def _hears(reader: asyncio.StreamReader, within_s: float) -> bytes | None:
    """Return what comes; None if nothing does, and b"" for the end."""
    try:
        return await asyncio.wait_for(reader.read(100), within_s)
    except asyncio.TimeoutError:
        return None
    except ConnectionError:
        return b""


@pytest.mark.parametrize(("fate", "after"), [(Mended.GOES_ON, b"late"), (Mended.CLOSED, b""), (Mended.FORGOTTEN, None)])
def test_a_cut_is_silent_and_its_connections_have_one_of_three_fates(fate: Mended, after: bytes | None) -> None:
    async def main() -> None:
        async with _Echo() as place:
            with Cable(place) as cable:
                reader, writer = await _open(cable)
                writer.write(b"before")
                assert await _hears(reader, PATIENCE_S) == b"before"
                cable.cut()
                while cable._whole.is_set():  # its thread has not seen it yet
                    await asyncio.sleep(0.001)
                writer.write(b"late")
                assert await _hears(reader, 0.2) is None
                during, said = await _open(cable)
                said.write(b"new")
                assert await _hears(during, 0.2) is None
                cable.mend(fate)
                assert await _hears(reader, PATIENCE_S if after is not None else 0.3) == after
                fresh, hello = await _open(cable)
                hello.write(b"hello")
                assert await _hears(fresh, PATIENCE_S) == b"hello"
                for end in (writer, said, hello):
                    end.close()
                    with contextlib.suppress(OSError):
                        await end.wait_closed()

    asyncio.run(main())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    with boards(bundle_of(slow_world(), tmp_path / "bundle")) as (found,):
        yield found


def test_a_dead_link_that_nobody_tells_of_is_made_anew(place: str) -> None:
    """Long before the minute after which gRPC itself, or the hours after which TCP would give it up."""

    async def main() -> None:
        with Cable(place) as cable:
            link = BoardLink(cable.address)
            ready, _ = await link.identity(NAME, PATIENCE_S)
            assert ready
            cable.cut()
            cable.mend(Mended.FORGOTTEN)
            ready, within_s = False, 0.5
            with pytest.raises(BoardError):
                await link.identity(NAME, within_s)
            while not ready and within_s < PATIENCE_S:
                with contextlib.suppress(BoardError):
                    ready, _ = await link.identity(NAME, within_s := 2 * within_s)
            assert ready, "it must answer again"
            await link.close()

    asyncio.run(main())
