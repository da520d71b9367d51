"""Loads in steps: what is loaded is tried before anybody is answered from it, and goes back where it fails.

A load with the parameter `step`: `try` loads, and from then on only calls with the parameter `trial` are
answered; `keep` ends the trial; `back` serves what was served before the last load, from memory. A trial that
nobody ends goes back by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from ..errors import ConflictError, HostError, ModelUnavailableError
from ..serving.model import ServedNetwork
from ..serving.resident import Resident
from .wire.calls import Call

_log = logging.getLogger(__name__)
TRIAL = "trial"  # the parameter of a call
LONGEST_S = 60.0
Apart = Callable[[Callable[[], None]], Awaitable[None]]  # runs work in a thread, and maps its errors


class Trials:
    """The models that are on trial. Used on one event loop."""

    def __init__(self, apart: Apart) -> None:
        self._apart = apart
        self._open: dict[str, asyncio.TimerHandle] = {}
        self._work: set[asyncio.Task[None]] = set()

    def __contains__(self, name: str) -> bool:
        """Return whether a model is on trial."""
        return name in self._open

    def check(self, call: Call) -> None:
        """Raise ModelUnavailableError for a call to a model on trial that is not part of it."""
        if call.model in self._open and call.parameters.get(TRIAL) is not True:
            raise ModelUnavailableError(f"model '{call.model}' must pass its trial first, and is on it")

    async def load(self, model: ServedNetwork, step: str | None) -> None:
        """Load a model, or take a step of a load.

        Raises as `Model.load`, and ConflictError where a step does not follow the last one.
        """
        name = model.name
        if step == "try":
            if name in self._open:
                raise ConflictError(f"model '{name}' is on trial already")
            if isinstance(model, Resident):
                raise ConflictError(f"model '{name}' shares an NPU, whose networks are loaded together, without trials")
            self._open[name] = asyncio.get_running_loop().call_later(LONGEST_S, self._expire, model)
            try:
                await self._apart(model.load)
            except BaseException:
                self.end(name)
                raise
        elif step == "keep":
            if name not in self._open:
                raise ConflictError(f"model '{name}' must be on trial to be kept, and is not")
            self.end(name)
        else:
            await self._apart(model.load if step is None else partial(model.load, back=True))
            self.end(name)

    def end(self, name: str) -> None:
        """Let everybody ask the model."""
        if (timer := self._open.pop(name, None)) is not None:
            timer.cancel()

    def _expire(self, model: ServedNetwork) -> None:
        task = asyncio.get_running_loop().create_task(self._back(model))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _back(self, model: ServedNetwork) -> None:
        _log.warning("model '%s' goes back, since nobody ended its trial in %g s", model.name, LONGEST_S)
        with contextlib.suppress(HostError):  # it is unavailable then, and says why
            await self.load(model, "back")
