"""The protocol's meaning, once for both transports: metadata, inference, statistics and the repository.

REST and gRPC only parse and print. Everything here runs on the event loop's thread; the NPU's owner thread
hands finished requests over through one `Mailbox`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fluidnpu.models.graph import Output
from fluidnpu.scheduler import Outcome
from fluidnpu.scheduler.simulation import Terms

from ..bundle import Bundle
from ..errors import (
    ConflictError,
    DeviceError,
    ModelUnavailableError,
    ProtocolError,
    QueueFullError,
    TooLargeError,
    UnsupportedError,
)
from ..serving.model import ServedNetwork
from ..serving.models import Models
from ..serving.replies import Reply
from ..serving.tails import Run, check_joinable, tail_outputs
from ..serving.versions import Versions
from .admission.limits import Limits, bounds_of
from .edges.openapi import document
from .interface import input_of, model_metadata, output_name, outputs_of, server_metadata, tail_names, with_best
from .observing.metric_table import Row
from .observing.metrics import model_rows
from .observing.page import live_page, snapshot
from .operations import operations_of
from .repeats import Repeats
from .trials import Trials
from .wire.bodies import ExitsChange, Feedback, LoadOrder, SharesChange, TenantsChange
from .wire.calls import Bounds, Call, ModelAnswer, Parameter, Wishes, read_wishes
from .wire.classes import CLASS_NAME, names_of
from .wire.tensors import DTYPES, Array, TensorInfo

TAIL_THREADS = max(1, min(4, (os.cpu_count() or 2) - 1))  # one core is left to the thread that owns the NPU


class Mailbox:
    """Hands results from other threads to the event loop, with one wake-up for all that came meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._full: deque[asyncio.Future[None]] = deque()
        self._called = False
        self._lock = threading.Lock()

    def put(self, future: asyncio.Future[None]) -> None:
        """Finish a future of the loop; from any thread."""
        self._full.append(future)
        with self._lock:
            called, self._called = self._called, True
        if not called:
            try:
                self._loop.call_soon_threadsafe(self._empty)
            except RuntimeError:  # the loop has ended, and with it whoever waited
                self._full.clear()

    def _empty(self) -> None:
        with self._lock:
            self._called = False
        while self._full:
            future = self._full.popleft()
            if not future.done():
                future.set_result(None)


@dataclass(frozen=True, slots=True)
class _Face:
    """The tensors of a model as its clients see them, made once a bundle."""

    bundle: Bundle
    input: TensorInfo
    bounds: Bounds  # of a request
    outputs: tuple[str, ...]
    others: tuple[Output, ...]  # the outputs that are no exits
    tails: Mapping[str, str]  # the user's names of what the host makes, by output
    engine: Run | None  # of its tail
    onward: TensorInfo | None  # the tensor with which samples go on from a part


@dataclass(slots=True)
class _Counts:
    """Requests of one model, each of which may hold several samples; times in ns.

    Of the answered `queue_ns` until its last sample began, `infer_ns` of its longest on the NPU, `tail_ns` of
    what the host did behind it.
    """

    success: int = 0
    success_ns: int = 0
    errors: Counter[str] = field(default_factory=Counter)  # by class
    fail_ns: int = 0
    queue_ns: int = 0
    infer_ns: int = 0
    tail_ns: int = 0


class InferenceService:
    """The calls of the protocol on a set of models."""

    def __init__(self, models: Models, limits: Limits, version: str, mailbox: Mailbox | None = None) -> None:
        self.models, self.limits, self.version = models, limits, version
        self.mailbox = mailbox or Mailbox(asyncio.get_running_loop())
        self.draining = False
        self.repeats: dict[str, Repeats] = {}  # by model
        self.trials = Trials(self._apart)
        self._instance = secrets.token_hex(8)
        self._digests: dict[str, tuple[Bundle, str]] = {}  # of programs, by label; a digest reads all weights
        self._faces: dict[str, _Face] = {}  # by label
        self._largest = list[int](), bounds_of(limits)  # bounds of any request, as of so many loads
        self._counted: dict[str, _Counts] = {}  # by label
        self._tails = ThreadPoolExecutor(TAIL_THREADS, "npu-tail")  # a thread begins with the first tail

    async def start(self) -> None:
        """Load every model. Raises as `Model.load`."""
        for load in self.models.loads():
            await asyncio.get_running_loop().run_in_executor(None, load)

    async def close(self) -> None:
        """Unload every model, answering all requests first."""
        await asyncio.get_running_loop().run_in_executor(None, self.models.close)
        self._tails.shutdown(wait=False)

    # -- health and metadata ---------------------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """False when a device hangs for longer than any recovery takes: better restart the process."""
        return not any(model.npu.stuck for model in self.models)

    @property
    def ready(self) -> bool:
        """True when every model that is to be served is."""
        return not self.draining and self.models.ready

    def check(self, name: str, version: str = "") -> None:
        """Raise UnknownModelError for a model that is not served here."""
        self.models.find(name, version)

    def bounds(self, name: str = "") -> Bounds:
        """Return the bounds of a request to a model, or of the largest that any takes.

        Raises ModelUnavailableError before the model's first load.
        """
        if name and len(of := self.models.of(name)) > 1:
            return bounds_of(self.limits, *(input_of(model.bundle.program) for model in of if model.npu.counts))
        if name:
            return self._face(self.models.find(name)).bounds
        loads = [model.npu.loads for model in self.models]
        if self._largest[0] != loads:
            loaded = [input_of(model.bundle.program) for model in self.models if model.npu.counts]
            self._largest = loads, bounds_of(self.limits, *loaded)
        return self._largest[1]

    def is_ready(self, name: str, version: str = "") -> bool:
        """Tell if a model takes requests. Raises UnknownModelError."""
        return self.models.find(name, version).npu.ready and name not in self.trials and not self.draining

    def identity(self, name: str) -> dict[str, str]:
        """Return digests of a model's design and program, its loads and standing, and this process's number.

        Raises UnknownModelError, ModelUnavailableError.
        """
        model = self.models.find(name)
        bundle, cached = model.bundle, self._digests.get(name)
        if cached is None or cached[0] is not bundle:
            cached = self._digests[name] = bundle, bundle.program.digest
        facts = {"design": bundle.design.digest, "program": cached[1], "instance": self._instance}
        return {
            **facts,
            "loads": str(model.npu.loads),
            "standing": "on trial" if name in self.trials else model.npu.standing,
        }

    def server_metadata(self) -> dict[str, Any]:
        """Return the server's metadata."""
        return server_metadata(self.version, self.limits)

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """Return a model's metadata. Raises UnknownModelError, ModelUnavailableError."""
        model = self.models.find(name, version)
        versions = [served.version for served in self.models.of(name) if served.npu.ready] or [model.version]
        return model_metadata(name, versions, model.bundle.program)

    # -- inference -------------------------------------------------------------------------------------------

    async def infer(self, call: Call) -> ModelAnswer:
        """Answer a call and count it, as `_answer`, whose errors are raised.

        Of a model with several versions, that which answers counts it.
        """
        model = self.models.choose(call.model, call.version)
        began = time.perf_counter_ns()
        try:
            answer, model = await self._answer(call, model)
        except BaseException as error:  # also when the client has gone
            counts = self._counts(model)
            counts.errors[type(error).__name__] += 1
            counts.fail_ns += time.perf_counter_ns() - began
            raise
        counts = self._counts(model)
        counts.success += 1
        counts.success_ns += time.perf_counter_ns() - began
        counts.queue_ns += 1_000 * int(answer.parameters["queue_us"])
        counts.infer_ns += 1_000 * int(answer.parameters["npu_us"])
        counts.tail_ns += 1_000 * int(answer.parameters.get("tail_us", 0))
        return with_best(answer, call, model.bundle.program)

    def count_refusal(self, name: str, error: Exception) -> None:
        """Count a request to a model that could not be read, by its error."""
        if any(model.name == name for model in self.models):
            self._counts(self.models.find(name)).errors[type(error).__name__] += 1

    def _counts(self, model: ServedNetwork) -> _Counts:
        return self._counted.setdefault(model.label, _Counts())

    async def _answer(self, call: Call, model: ServedNetwork) -> tuple[ModelAnswer, ServedNetwork]:
        """Split a call into samples, serve them and join their answers; a repeat gets the first answer.

        The version that answered the first comes with it.

        Raises what `Server.submit` raises and what it sets, ProtocolError, TooLargeError, UnknownModelError,
        ModelUnavailableError; of a batch the first error that came.
        """
        wishes = read_wishes(call.parameters)
        if wishes.key is None:
            return await self._serve(call, wishes, model), model
        every = self.models.of(call.model)
        repeats = self.repeats.setdefault(call.model, Repeats())
        owner = wishes.tenant, sum(version.npu.loads for version in every)
        answer = await repeats.once(wishes.key, call, lambda: self._serve(call, wishes, model), owner)
        return answer, next((version for version in every if version.version == answer.version), model)

    async def _serve(self, call: Call, wishes: Wishes, model: ServedNetwork) -> ModelAnswer:
        self.trials.check(call)
        terms = Terms(
            slo_ns=wishes.slo_ns if wishes.slo_ns is not None else wishes.timeout_ns,
            timeout_ns=wishes.timeout_ns,
            priority=wishes.priority,
            anytime=wishes.anytime,
            criterion=None if wishes.criteria is None else model.criterion(wishes.criteria),
            tenant=model.check_tenant(wishes.tenant),
        )
        face = self._face(model)
        samples, wanted = self._samples(model, call, face.input), _wanted_outputs(call, face.outputs)
        futures: list[Future[Reply]] = []
        try:
            for sample in samples:
                futures.append(model.submit(sample, terms))
            await self._all_done(futures)
        except BaseException:  # also when the client has gone: what has not begun need not begin
            for future in futures:
                future.cancel()
            raise
        replies = [future.result() for future in futures]
        face = self._face_of(model, face, replies)
        if not set(wanted) <= set(face.outputs):
            raise _exchange_error(model)
        parameters = parameters_of(replies, model.energy_nj) | _numbers(model, replies)
        names = face.bundle.program.class_names
        made = join_outputs(
            replies, [name for name in wanted if name not in face.tails], face.others, face.onward, names
        )
        if ended := {name: face.tails[name] for name in wanted if name in face.tails}:
            began = time.perf_counter_ns()
            work = partial(tail_outputs, face.bundle.program, replies, ended.values(), face.engine)
            tails = await asyncio.get_running_loop().run_in_executor(self._tails, work)
            made |= {name: tails[own] for name, own in ended.items()}
            parameters["tail_us"] = (time.perf_counter_ns() - began) // 1_000
        return ModelAnswer(call.model, model.version, call.id, {name: made[name] for name in wanted}, parameters)

    def _face(self, model: ServedNetwork) -> _Face:
        bundle, face = model.bundle, self._faces.get(model.label)
        if face is None or face.bundle is not bundle:
            program = bundle.program
            outputs = outputs_of(program)
            face = _Face(
                bundle,
                input_of(program),
                bounds_of(self.limits, input_of(program)),
                tuple(output.name for output in outputs),
                tuple(output.output for output in program.outputs),
                tail_names(program),
                model.engine,
                next((output for output in outputs if output.name == "onward"), None),
            )
            self._faces[model.label] = face
        return face

    def _face_of(self, model: ServedNetwork, face: _Face, replies: Sequence[Reply]) -> _Face:
        """Return the face whose program made the replies: the model may be exchanged while a request is held.

        Raises ModelUnavailableError where several did, or one that is served no more.
        """
        for newest in (face, self._face(model)):
            program = None if newest.engine is None else newest.bundle.program
            if all(reply.program is program for reply in replies):
                return newest
        raise _exchange_error(model)

    def _samples(self, model: ServedNetwork, call: Call, expected: TensorInfo) -> list[Array]:
        if len(call.inputs) != 1 or expected.name not in call.inputs:
            names = ", ".join(f"'{name:.60}'" for name in call.inputs) or "none"
            raise ProtocolError(f"model '{model.name}' must have the input '{expected.name}' alone, not {names}")
        array = call.inputs[expected.name]
        if array.shape[1:] != expected.shape[1:] and not _fits(array.shape, expected.shape):
            raise ProtocolError(
                f"input '{expected.name}' must have the shape {list(expected.shape)}, not {list(array.shape)}"
            )
        if not len(array):
            raise ProtocolError(f"input '{expected.name}' must hold at least one sample, and it holds none")
        if len(array) > self.limits.batch:
            raise TooLargeError(f"a request must hold at most {self.limits.batch} samples, not {len(array)}")
        check_joinable(model.bundle.program, len(array))
        if len(array) > model.npu.options.queue:
            raise QueueFullError(
                f"the queue takes {model.npu.options.queue} samples, and the request holds {len(array)}"
            )
        return list(array)

    async def _all_done(self, futures: Sequence[Future[Reply]]) -> None:
        """Wait until all are done, or one has failed."""
        arrived = asyncio.get_running_loop().create_future()
        left, lock = len(futures), threading.Lock()

        def note(done: Future[Reply]) -> None:
            nonlocal left
            with lock:
                left -= 1
                last = left == 0
            if last or done.cancelled() or done.exception() is not None:
                self.mailbox.put(arrived)

        for future in futures:
            future.add_done_callback(note)
        await arrived
        for future in futures:
            if future.done() and (error := future.exception()) is not None:
                raise error

    # -- tenants ---------------------------------------------------------------------------------------------

    async def tenants(self, name: str) -> dict[str, Any]:
        """Return criteria and tenants of a model. Raises UnknownModelError, ModelUnavailableError."""
        return self.models.find(name).tenants()

    async def change_tenants(self, name: str, change: TenantsChange) -> dict[str, Any]:
        """Change criteria and tenants of a model while it is served, and return them.

        Raises ProtocolError, UnknownModelError, ModelUnavailableError.
        """
        model = self.models.find(name)
        model.change(change.criteria, change.tenants or {})
        return model.tenants()

    # -- active exits ----------------------------------------------------------------------------------------

    async def exits(self, name: str) -> dict[str, Any]:
        """Return the active exits of a model and what adaptation sees.

        Raises UnknownModelError, ModelUnavailableError, ProtocolError.
        """
        return self.models.find(name).exits()

    async def change_exits(self, name: str, change: ExitsChange) -> dict[str, Any]:
        """Change thresholds of exits while they are served, and return them as they will be.

        Raises ProtocolError, UnknownModelError, ModelUnavailableError.
        """
        model = self.models.find(name)
        model.change_exits(change.thresholds, change.why)
        return model.exits()

    async def feedback(self, name: str, feedback: Feedback) -> dict[str, Any]:
        """Accept the true classes of answered requests; return how many were of use.

        Raises UnknownModelError, ModelUnavailableError, ConflictError.
        """
        truths = {int(row["request"]): int(row["label"]) for row in feedback.truths}
        return {"taken": self.models.find(name).feedback(truths)}

    # -- versions --------------------------------------------------------------------------------------------

    async def shares(self, name: str) -> dict[str, Any]:
        """Return the shares of versions, now and before. Raises UnknownModelError, ConflictError."""
        return self._versions(name).shares()

    async def change_shares(self, name: str, change: SharesChange) -> dict[str, Any]:
        """Change the shares of versions, or restore those of before, and return them as they are then.

        Raises ProtocolError, UnknownModelError, ConflictError.
        """
        versions = self._versions(name)
        versions.change(change.shares)
        return versions.shares()

    def _versions(self, name: str) -> Versions:
        versions = self.models.versions(name)
        if versions is None:
            raise ConflictError(
                f"model '{name}' must be a folder of numbered bundles to have shares, and is one bundle"
            )
        return versions

    # -- statistics and repository ---------------------------------------------------------------------------

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """Return the statistics extension's object, of one model or of all. Raises UnknownModelError."""
        chosen = [self.models.find(name, version)] if version else self.models.of(name) if name else self.models
        hits = {name: repeats.hits for name, repeats in self.repeats.items()}
        return {
            "model_stats": [
                _statistics(model, self._counts(model), hits.get(model.name, 0))
                for model in chosen
                if model.statistics is not None
            ]
        }

    def index(self, ready_only: bool = False) -> list[dict[str, str]]:
        """Return name, version, state and reason of every model."""
        return [
            {"name": model.name, "version": model.version, "state": model.npu.state, "reason": model.npu.reason}
            for model in self.models
            if model.npu.ready or not ready_only
        ]

    async def load(self, name: str, order: LoadOrder) -> None:
        """Read a model's bundle again and serve it, or take a step of that (`trials`); no request is lost.

        Raises as `Model.load`, ProtocolError.
        """
        versions = self.models.versions(name)
        if versions is None:
            await self.trials.load(self.models.find(name), order.step)
        elif order.step is None:
            await self._apart(versions.load)
        else:
            raise UnsupportedError("steps are for a model that is one bundle: of several versions change the shares")

    async def unload(self, name: str) -> None:
        """Answer what a model has taken, then stop it. Raises UnknownModelError."""
        versions = self.models.versions(name)
        await self._apart(self.models.find(name).unload if versions is None else versions.close)
        self.trials.end(name)

    async def _apart(self, work: Callable[[], None]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, work)
        except (DeviceError, ProtocolError):
            raise
        except ValueError as error:  # of any room: the folder holds no bundle, or one for another policy
            raise ProtocolError(str(error)) from error

    # -- pages -----------------------------------------------------------------------------------------------

    def metrics(self) -> Iterator[Row]:
        """Yield the rows of the table of metrics."""
        return model_rows(self.models, {name: counts.errors for name, counts in self._counted.items()})

    def snapshot(self) -> dict[str, Any]:
        """Return the numbers that the live page draws."""
        return snapshot(self.version, self.models)

    def page(self) -> str:
        """Return the live page."""
        return live_page()

    def openapi(self, *, admin: bool) -> dict[str, Any]:
        """Return the document of the REST surface."""
        primary = {model.name: self.models.find(model.name) for model in self.models}
        programs = {name: model.bundle.program if model.npu.ready else None for name, model in primary.items()}
        versions = list(dict.fromkeys(model.version for model in self.models))
        named = [tenant.name for model in self.models for tenant in model.tenancy_tenants]
        tenants, shared = ["", *dict.fromkeys(named)], self.limits.shared_bytes
        operations = tuple(operations_of(self, admin=admin))
        return document(self.version, programs, operations, tenants=tenants, versions=versions, shared_bytes=shared)


def _exchange_error(model: ServedNetwork) -> ModelUnavailableError:
    return ModelUnavailableError(f"model '{model.name}' was loaded anew while the request waited: send it again")


def join_outputs(
    replies: Sequence[Reply],
    wanted: Sequence[str],
    others: Sequence[Output] = (),
    onward: TensorInfo | None = None,
    class_names: Sequence[str] = (),
) -> dict[str, Array]:
    """Return the outputs of a request's samples, (samples, ...) in their order.

    `others`: the outputs that are no exits; `onward`: the tensor with which samples go on from a part.
    """
    outputs = {}
    for name in wanted:
        if name in _OWN:
            outputs[name] = _OWN[name](replies)
        elif name == CLASS_NAME:
            outputs[name] = names_of([reply.prediction for reply in replies], class_names)
        elif name == "onward" and onward is not None:
            tensors = [reply.onward for reply in replies if reply.onward is not None]
            none = np.zeros((0, *onward.shape[1:]), DTYPES[onward.datatype])
            outputs[name] = np.stack(tensors) if tensors else none
        else:
            outputs[name] = _stack(name, replies, others)
    return outputs


def _stack(name: str, replies: Sequence[Reply], others: Sequence[Output]) -> Array:
    output = next(other for other in others if output_name(other.name) == name)
    none = np.full(output.shape, np.nan, np.float32)
    return np.stack([reply.outputs.get(output.name, none) for reply in replies])


_OWN: dict[str, Callable[[Sequence[Reply]], Array]] = {
    "label": lambda replies: np.array([reply.prediction for reply in replies], np.int32),
    "confidence": lambda replies: np.array([reply.confidence for reply in replies], np.float32),
    "exit": lambda replies: np.array([reply.exit for reply in replies], np.int32),
    "logits": lambda replies: np.array([reply.logits for reply in replies], np.float32),
    "keypoints": lambda replies: np.array([reply.keypoints for reply in replies], np.float32),
    "label_map": lambda replies: np.array([reply.label_map for reply in replies], np.uint8),
    "goes_on": lambda replies: np.array([reply.onward is not None for reply in replies], np.bool_),
}


def _wanted_outputs(call: Call, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in call.outputs:
        if name not in names:
            raise ProtocolError(f"an output must be one of {', '.join(names)}, not '{name:.60}'")
    return call.outputs or names


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    return len(shape) == len(expected) and all(want in (-1, got) for want, got in zip(expected, shape, strict=True))


def parameters_of(replies: Sequence[Reply], energy_nj: Sequence[float] | None = None) -> dict[str, Parameter]:
    """Return the response's parameters.

    Of a batch the deepest exit and its reason, the least confidence, the longest times, and the sum of the
    modelled energies, where `energy_nj` up to each exit is known.
    """
    modelled = {}
    if energy_nj is not None:
        modelled["energy_mj_modelled"] = sum(energy_nj[reply.exit] for reply in replies) / 1e6
    early = any(reply.outcome is Outcome.ANYTIME for reply in replies)
    return {
        "exit": max(reply.exit for reply in replies),
        "confidence": min(reply.confidence for reply in replies),
        "outcome": "anytime" if early else "exit",
        "met": all(reply.met for reply in replies),
        "queue_us": max(reply.start_ns - reply.arrival_ns for reply in replies) // 1_000,
        "npu_us": max(reply.npu_ns for reply in replies) // 1_000,
        "batch": max(reply.batch for reply in replies),
        "left_because": max(replies, key=lambda reply: reply.exit).because,
        **modelled,
    }


def _numbers(model: ServedNetwork, replies: Sequence[Reply]) -> dict[str, Parameter]:
    """Return the numbers of the samples, which feedback names, where a model adapts."""
    if model.npu.adaptation is None:
        return {}
    return {"requests": " ".join(str(reply.request_id) for reply in replies)}


def _statistics(model: ServedNetwork, requests: _Counts, hits: int) -> dict[str, Any]:
    """Return one model's entry, in the fields and units of the statistics extension.

    It counts inferences by samples and all else by requests.
    """
    counts = model.statistics
    assert counts is not None
    answered, none = requests.success, {"count": 0, "ns": 0}
    batches: dict[int, list[int]] = {}
    for (_, batch), drift in counts.batches.items():
        row = batches.setdefault(batch, [0, 0])
        row[0] += drift.runs
        row[1] += drift.measured_ns
    return {
        "name": model.name,
        "version": model.version,
        "last_inference": counts.last_inference_ms,
        "inference_count": counts.answered,
        "execution_count": counts.executions,
        "inference_stats": {
            "success": {"count": answered, "ns": requests.success_ns},
            "fail": {"count": requests.errors.total(), "ns": requests.fail_ns},
            "queue": {"count": answered, "ns": requests.queue_ns},
            "compute_input": {"count": answered, "ns": 0},
            "compute_infer": {"count": answered, "ns": requests.infer_ns},
            "compute_output": {"count": answered, "ns": requests.tail_ns},
            "cache_hit": {"count": hits, "ns": 0},
            "cache_miss": none,
        },
        "batch_stats": [
            {
                "batch_size": batch,
                "compute_input": {"count": runs, "ns": 0},
                "compute_infer": {"count": runs, "ns": ns},
                "compute_output": {"count": runs, "ns": 0},
            }
            for batch, (runs, ns) in sorted(batches.items())
        ],
    }
