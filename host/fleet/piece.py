"""A piece of a request: samples that travel in one message, from the first sending to the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..oip.wire.calls import Call, ModelAnswer, Wishes
from ..oip.wire.tensors import Array


@dataclass(eq=False)
class Piece:
    """Samples of a call from `first` on.

    `avoided`: boards that are at work on it, or refused it.
    """

    call: Call
    inputs: Mapping[str, Array]
    first: int
    count: int
    wishes: Wishes
    born: float  # on the clock of the event loop
    key: str
    future: asyncio.Future[ModelAnswer]
    counted: bool = True  # among the samples that wait for an answer
    drawn: str = ""  # the board whose planned batch it was cut for
    avoided: set[str] = field(default_factory=set)
    refusals: int = 0
    sent: int = 0
    audited: bool = False
    timer: asyncio.TimerHandle | None = None  # while no board works on it
    answered_by: str = ""
