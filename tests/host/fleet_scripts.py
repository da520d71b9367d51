"""Scripted boards around a real dispatcher in virtual time, for tests without processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np
import virtual_time

from fluidnpu.dse import LatencyTable
from fluidnpu.host.errors import BoardError, HostError
from fluidnpu.host.fleet import DispatchOptions, Leaf
from fluidnpu.host.fleet.boards.leaf import Times
from fluidnpu.host.fleet.dispatcher import Dispatcher
from fluidnpu.host.fleet.duties import Duty
from fluidnpu.host.oip.wire.calls import Call, ModelAnswer, read_wishes

MODEL = "m"
TIMES = Times.of(LatencyTable(ns=((1_000_000, 1_200_000, 1_400_000, 1_600_000),)), (1.0,))  # 1 to 1.6 ms
Act = Callable[["Scripted", Any], Awaitable[ModelAnswer]]


class Scripted:
    """A link to a board that does as it is told; `asked` holds its requests, `traces` what came with them.

    `wrong` adds to every logit.
    """

    def __init__(self, name: str, *acts: Act) -> None:
        self.name, self.acts = name, list(acts)
        self.asked: list[Any] = []
        self.traces: list[str] = []
        self.wrong, self.instance, self.reachable = 0.0, name, True
        self.design = "built"
        self.gate = asyncio.Semaphore(0)

    async def infer(self, request: Any, timeout_s: float, trace: str = "") -> ModelAnswer:
        self.asked.append(request)
        self.traces.append(trace)
        act = self.acts.pop(0) if self.acts else answers
        return await asyncio.wait_for(act(self, request), timeout_s)

    async def identity(self, model: str, timeout_s: float) -> tuple[bool, dict[str, str]]:
        if not self.reachable:
            raise BoardError("nothing there")
        return True, {"instance": self.instance, "design": self.design}

    async def close(self) -> None:
        pass


async def answers(link: Scripted, request: Any) -> ModelAnswer:
    """The double of every pixel is the logit, at once."""
    await asyncio.sleep(0)
    shape = tuple(request.inputs[0].shape)
    pixels = np.frombuffer(request.raw_input_contents[0], np.uint8).reshape(shape)
    logits = 2 * pixels.reshape(shape[0], -1).astype(np.float32) + np.float32(link.wrong)
    zeros = np.zeros(shape[0], np.int32)
    outputs: dict[str, Any] = {"label": logits.argmax(1).astype(np.int32), "exit": zeros, "confidence": logits[:, 0]}
    parameters: dict[str, Any] = {
        "exit": 0,
        "confidence": 1.0,
        "outcome": "exit",
        "met": True,
        "queue_us": 0,
        "npu_us": 1,
        "batch": 1,
    }
    return ModelAnswer(
        request.model_name, "1", request.id, {**outputs, "logits": logits}, {**parameters, "left_because": "last exit"}
    )


def fails(error: HostError) -> Act:
    async def act(link: Scripted, request: Any) -> ModelAnswer:
        raise error

    return act


def after(seconds: float) -> Act:
    async def act(link: Scripted, request: Any) -> ModelAnswer:
        await asyncio.sleep(seconds)
        return await answers(link, request)

    return act


async def gated(link: Scripted, request: Any) -> ModelAnswer:
    """As `answers`, one message after another, each when the test opens the gate."""
    await link.gate.acquire()
    return await answers(link, request)


class Doubles:
    """The judge of these boards."""

    judged = ("label", "confidence", "exit", "logits")

    def objection(self, images: Any, outputs: Any) -> str:
        right = 2 * images.reshape(len(images), -1).astype(np.float32)
        return "" if np.array_equal(right, outputs["logits"]) else "wrong bits"


def call(*pixels: int, model: str = MODEL, **parameters: Any) -> Call:
    images = np.array([[[[one, one + 1]]] for one in pixels], np.uint8)
    return Call(model, inputs={"x": images}, parameters=parameters)


async def ask(dispatcher: Dispatcher, one: Call) -> ModelAnswer:
    return await dispatcher.infer(one, read_wishes(one.parameters))


def run(
    links: list[Scripted],
    work: Callable[[Dispatcher], Awaitable[Any]],
    *,
    times: Mapping[str, Times] | None = None,
    duties: Mapping[str, Mapping[str, Duty]] | None = None,
    **options: Any,
) -> Any:
    """Run a coroutine on a dispatcher with a patience of four batches of 1.6 ms and 20 ms.

    `times` by model of every board; `duties` by board, which then has the models of its own only.
    """

    async def main() -> Any:
        given = DispatchOptions(**{"allowance_s": 0.02, "audit_every": 0, **options})
        every = times or {MODEL: TIMES}
        leaves = []
        for one in links:
            mine = (duties or {}).get(one.name, {})
            known = {model: every[model] for model in mine or every}
            leaves.append(Leaf(name=one.name, address=one.name, link=one, times=known, duties=mine))  # type: ignore[arg-type]
        judges = {model: Doubles() for model in every}
        return await at_work(Dispatcher(leaves, judges, given), work)  # type: ignore[arg-type]

    return virtual_time.run(main())


async def at_work(dispatcher: Dispatcher, work: Callable[[Dispatcher], Awaitable[Any]]) -> Any:
    """Run a coroutine on a dispatcher that is started for it; nobody may wait for an answer at the end."""
    try:
        await dispatcher.start()
        found = await work(dispatcher)
        assert dispatcher.waiting == 0
        return found
    finally:
        await dispatcher.close()


def logits(answer: ModelAnswer) -> list[list[float]]:
    return [list(map(float, row)) for row in answer.outputs["logits"]]
