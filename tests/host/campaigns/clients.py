"""Clients of a campaign: they know every answer to the bit, and ask again when their server is gone."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np

from fluidnpu.host.errors import HostError, RemoteError
from fluidnpu.host.oip.client import Client, connect
from fluidnpu.host.oip.wire.messages import SERVICE, message
from fluidnpu.host.serving.replies import Image

LONGEST_S = 600.0  # a request without an answer by then has none
_AGAIN_S = 0.1  # until a client looks for its server again
_GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL)  # a balancer resets streams
Right = tuple[int, int, bytes]  # exit, class and the bytes of the logits


@dataclass(kw_only=True)
class SeenAnswers:
    """The answers that clients have seen: `again` counts requests whose server went before it answered."""

    right: int = 0
    wrong: int = 0
    doubled: int = 0
    again: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, other: SeenAnswers) -> None:
        """Add what another client has seen."""
        self.right, self.wrong = self.right + other.right, self.wrong + other.wrong
        self.doubled, self.again = self.doubled + other.doubled, self.again + other.again
        self.errors += other.errors


class Asking:
    """One client that asks until it is stopped: over HTTP one by one, over gRPC a window in a stream.

    `patient`: a server that is gone is looked for, and asked again what it has not answered, for a minute at
    most; else a lost connection is an error.
    """

    def __init__(
        self,
        index: int,
        url: str,
        model: str,
        images: Sequence[Image] | Image,
        rights: Sequence[Right],
        input: str,
        stop: threading.Event,
        *,
        pause_s: float = 0.0,
        window: int = 4,
        patient: bool = False,
    ) -> None:
        self._index, self._url, self._model, self._images, self._rights = index, url, model, images, rights
        self._input, self._stop, self._pause_s, self._window = input, stop, pause_s, window
        self._patient, self.seen = patient, SeenAnswers()

    def run(self) -> None:
        """Ask until the end; note errors of any kind."""
        try:
            if "//" in self._url:
                self._one_by_one()
            else:
                self._streamed()
        except Exception as error:  # a client that dies has seen something that it should not
            self.seen.errors[f"{type(error).__name__}: {error}"] += 1

    def _place(self, turn: int) -> int:
        return (self._index + 7 * turn) % len(self._images)

    def _one_by_one(self) -> None:
        with connect(self._url, self._model, timeout_s=LONGEST_S) as client:
            for turn in _count(self._stop):
                place = self._place(turn)
                try:
                    answer = self._answer(client, place)
                except HostError as error:
                    self.seen.errors[f"{type(error).__name__}: {error}"] += 1
                else:
                    self._check(place, (answer.exit, answer.prediction, answer.logits.tobytes()))

    def _answer(self, client: Client, place: int) -> Any:
        until = time.monotonic() + LONGEST_S
        while True:
            try:
                return client.infer(self._images[place])
            except RemoteError:
                if not self._patient or time.monotonic() > until:
                    raise
                self.seen.again += 1
                time.sleep(_AGAIN_S)

    def _streamed(self) -> None:
        """Keep a window of requests open; another stream takes it over where one breaks."""
        open_: dict[str, int] = {}
        turns, until = _count(self._stop), time.monotonic() + LONGEST_S
        while True:
            before = self.seen.right
            try:
                with grpc.insecure_channel(self._url) as channel:
                    return self._stream(channel, open_, turns)
            except grpc.RpcError as error:
                if self.seen.right > before:
                    until = time.monotonic() + LONGEST_S
                if not self._patient or error.code() not in _GONE or time.monotonic() > until:
                    raise
            self.seen.again += len(open_)
            time.sleep(_AGAIN_S)

    def _stream(self, channel: Any, open_: dict[str, int], turns: Iterator[int]) -> None:
        asked: queue.Queue[Any] = queue.Queue()

        def ask(turn: str) -> None:
            image = self._images[open_[turn]]
            request = message("ModelInferRequest")(model_name=self._model, id=turn)
            request.inputs.add(name=self._input, datatype="UINT8", shape=(1, *image.shape))
            request.raw_input_contents.append(image.tobytes())
            asked.put(request.SerializeToString())

        def ask_next() -> None:
            if (turn := next(turns, None)) is not None:
                open_[str(turn)] = self._place(turn)
                ask(str(turn))

        call = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")(iter(asked.get, None), timeout=1e5)
        try:
            for turn in open_:
                ask(turn)
            for _ in range(self._window - len(open_)):
                ask_next()
            while open_:
                self._take(message("ModelStreamInferResponse").FromString(next(call)), open_)
                ask_next()
        finally:
            asked.put(None)
        for response in call:  # nothing is left to be answered
            self._take(message("ModelStreamInferResponse").FromString(response), open_)

    def _take(self, response: Any, open_: dict[str, int]) -> None:
        answer = response.infer_response
        place = open_.pop(answer.id, None)
        if place is None:
            self.seen.doubled += 1
        elif response.error_message:
            self.seen.errors[response.error_message] += 1
        else:
            rows = dict(zip((output.name for output in answer.outputs), answer.raw_output_contents, strict=True))
            exit, label = (int(np.frombuffer(rows[name], np.int32)[0]) for name in ("exit", "label"))
            self._check(place, (exit, label, rows["logits"]))

    def _check(self, place: int, answer: Right) -> None:
        time.sleep(self._pause_s)
        if answer == self._rights[place]:
            self.seen.right += 1
        else:
            self.seen.wrong += 1


def _count(stop: threading.Event) -> Iterator[int]:
    turn = 0
    while not stop.is_set():
        yield turn
        turn += 1
