"""Answers by idempotency key: a request that comes twice is worked on once, and answered twice the same.

A front that heard nothing asks again, perhaps of a board that is still at work on the first request or has
answered into a connection that broke. Errors are not kept: a repeat of a request that failed tries again.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import ConflictError
from .wire.calls import Call, ModelAnswer

ENTRIES = 1024
MOST_BYTES = 16 << 20


@dataclass(slots=True)
class _Entry:
    content: int
    task: asyncio.Task[ModelAnswer]
    wanted_by: int = 0
    size: int = 0


class Repeats:
    """The latest answers by key, at most `entries` and `most_bytes` of them. Used on one event loop."""

    def __init__(self, entries: int = ENTRIES, most_bytes: int = MOST_BYTES) -> None:
        self._entries, self._most_bytes, self._held_bytes = entries, most_bytes, 0
        self._known: OrderedDict[tuple[Hashable, str], _Entry] = OrderedDict()
        self.hits = 0  # requests that needed no work

    async def once(
        self, key: str, call: Call, work: Callable[[], Coroutine[Any, Any, ModelAnswer]], owner: Hashable = None
    ) -> ModelAnswer:
        """Return the answer of a key, at work or kept, or that of the work.

        A key is its `owner`'s, so two owners may have the same one.

        The work ends when all who wait for it have gone. Raises what the work raises, and ConflictError for
        a key that came before with another content.
        """
        place = owner, key
        content, entry = content_of(call), self._known.get(place)
        if entry is None:
            entry = self._known[place] = _Entry(content, asyncio.ensure_future(work()))
        elif entry.content != content:
            raise ConflictError(
                f"an idempotency_key must belong to one request, and '{key:.60}' came before with another content"
            )
        else:
            self.hits += 1
            self._known.move_to_end(place)
        entry.wanted_by += 1
        try:
            answer = await asyncio.shield(entry.task)
        except BaseException:
            if not entry.task.done() and entry.wanted_by == 1:
                entry.task.cancel()
            if self._known.get(place) is entry and (entry.wanted_by == 1 or entry.task.done()):
                del self._known[place]
            raise
        finally:
            entry.wanted_by -= 1
        if not entry.size and self._known.get(place) is entry:
            self._keep(entry, answer)
        return replace(answer, id=call.id)

    def _keep(self, entry: _Entry, answer: ModelAnswer) -> None:
        """Count an answer, and forget the oldest that are too many; what is at work stays."""
        entry.size = 1 + sum(array.nbytes for array in answer.outputs.values())
        self._held_bytes += entry.size
        for key in [key for key, kept in self._known.items() if kept.size]:
            if len(self._known) <= self._entries and self._held_bytes <= self._most_bytes:
                return
            self._held_bytes -= self._known.pop(key).size


def content_of(call: Call) -> int:
    """Return a checksum of all that an answer depends on; times that a repeat has less of are left out."""
    free = ("slo_ms", "timeout", "priority")
    asked = sorted((name, value) for name, value in call.parameters.items() if name not in free)
    checksum = zlib.crc32(repr((call.model, call.version, call.outputs, asked)).encode())
    for name, array in sorted(call.inputs.items()):
        checksum = zlib.crc32(repr((name, array.dtype.str, array.shape)).encode(), checksum)
        checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
    return checksum
