"""One bundle served on one NPU: opened, reloaded, recovered and closed, without losing a request.

A model outlives its server: a reload drains the old one while new requests are held back, and a device that
failed is opened again until it answers. All methods may be called from any thread; `load`, `unload` and
`close` take as long as the device does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fluidnpu.dse import Design
from fluidnpu.scheduler import Serving, make_policy
from fluidnpu.scheduler.exits import Bound, Criteria, Criterion, CriterionError, ExitProfile, parse_criterion
from fluidnpu.scheduler.tuning import deployed

from ..bundle import Bundle
from ..devices.device import Clock, Device, WallClock
from ..devices.opening import open_device
from ..devices.recall import Recall
from ..devices.simulated import SimulatedNpu
from ..driver import Driver
from ..errors import (
    DeviceError,
    DriverUsageError,
    HostError,
    ModelUnavailableError,
    ProtocolError,
    QueueFullError,
    ServerClosedError,
)
from .decisions import DecisionLog
from .replies import Image, Observer, Reply
from .runtime import usual_criteria
from .server import Server
from .statistics import Statistics

_log = logging.getLogger(__name__)
LOADED_HALF = 0.5  # of capacity: the load that a policy is made for when none is named
SLO_OVER_LATENCY = 5  # default objective over the latency of one sample alone through the whole network
BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0)  # between attempts to open a failed device again; the last one repeats
READY, LOADING, UNAVAILABLE = "READY", "LOADING", "UNAVAILABLE"  # as the model repository extension names them


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The circumstances that a model is served in.

    `device`: a kind of `open_device`. `opened`: makes a device instead, for tests and campaigns.
    `rate_per_s` and `slo_ns`: the expected load and the default objective (None: half of what the NPU can
    serve, and five times the latency of a lone sample). `guarded`: see `Driver`. `recall_bytes`: of results
    that a simulated NPU keeps, so that it works in real time on images that it has seen. `decisions`: a
    folder for the decision logs, one a model. `criteria`: when requests leave that do not say so themselves
    (None: the program's thresholds).
    """

    device: str = "simulated"
    policy: str = "fluid"
    rate_per_s: float | None = None
    slo_ns: int | None = None
    queue: int = 1024
    slots: int | None = None
    attempts: int = 3
    guarded: bool = False
    recall_bytes: int = 256 << 20
    registers: int | None = None
    reserved: tuple[int, int] | None = None
    clock: Callable[[], Clock] = WallClock
    opened: Callable[[Bundle], Device] | None = None
    decisions: Path | None = None
    criteria: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Held:
    """A request that came while the server was exchanged."""

    image: Image
    slo_ns: int
    terms: dict[str, Any]
    came_ns: int
    future: Future[Reply]


class Model:
    """A bundle under a name. It is not served before `load`."""

    def __init__(self, name: str, folder: Path | str, options: ModelOptions | None = None) -> None:
        self.name, self.folder = name, Path(folder)
        self.options = ModelOptions() if options is None else options
        self.state, self.reason = UNAVAILABLE, "not loaded yet"
        self.loads = 0
        self.recoveries: list[float] = []  # seconds from the failure of a device to its next server
        self.statistics: Statistics | None = None
        self._bundle: Bundle | None = None
        self._server: Server | None = None
        self._driver: Driver | None = None
        self._device = ExitStack()
        self._held: list[_Held] | None = None  # while the server is exchanged
        self._gate = threading.Lock()  # for what the fields say; never held while the device works
        self._work = threading.Lock()  # held by whoever loads, unloads or recovers
        self._wanted = False
        self._since = time.monotonic()
        self._lost_before = 0
        self._log: DecisionLog | None = None

    # -- what is served --------------------------------------------------------------------------------------

    @property
    def bundle(self) -> Bundle:
        """The bundle as last loaded. Raises ModelUnavailableError before the first load."""
        if self._bundle is None:
            raise ModelUnavailableError(f"model '{self.name}' must be loaded, and it is not: {self.reason}")
        return self._bundle

    @property
    def serving(self) -> Server | None:
        """The server of the moment, if there is one."""
        return self._server

    @property
    def server(self) -> Server:
        """The server of the moment. Raises ModelUnavailableError without one."""
        if self._server is None:
            raise ModelUnavailableError(f"model '{self.name}' must be loaded, and it is not: {self.reason}")
        return self._server

    @property
    def slo_ns(self) -> int:
        """The objective of a request that names none."""
        return self.options.slo_ns or default_slo_ns(self.bundle.design)

    @property
    def ready(self) -> bool:
        """True while requests are taken and the device does its work."""
        server = self._server
        if self.state != READY or server is None:
            return False
        return server.healthy and not self.stuck

    @property
    def stuck(self) -> bool:
        """True while one job takes longer than any that the driver would wait for, recovery included."""
        server = self._server
        return server is not None and server.stalled_s > self._longest_s()

    @property
    def lost(self) -> int:
        """Requests that ended with an error of the device, over all servers of this model."""
        server = self._server
        return self._lost_before + (0 if server is None else server.lost)

    @property
    def uptime_s(self) -> float:
        """Seconds since this object was made."""
        return time.monotonic() - self._since

    def _longest_s(self) -> float:
        table = self.bundle.design.latency.ns
        longest_ns = max(max(row) for row in table)
        return self.options.attempts * (2 * 16 * longest_ns / 1e9 + 1.0)

    def criterion(self, text: str) -> Criterion:
        """Return the criterion that a text says of this model.

        Raises ProtocolError where it breaks the grammar or asks what is not known of the model, and
        ModelUnavailableError.
        """
        try:
            return Bound(parse_criterion(text), profile_of(self.bundle.design)).criterion
        except CriterionError as error:
            raise ProtocolError(str(error)) from None

    # -- requests --------------------------------------------------------------------------------------------

    def submit(self, image: Image, slo_ns: int | None = None, **terms: Any) -> Future[Reply]:
        """Submit one image; while the server is exchanged, the request is held and submitted then.

        `terms`: those of `Server.submit`, whose errors are raised, and ModelUnavailableError.
        """
        slo_ns = self.slo_ns if slo_ns is None else slo_ns
        for _ in range(3):  # an exchange may begin between the look at the gate and the server's own
            with self._gate:
                if self._held is not None:
                    return self._hold(image, slo_ns, terms)
                server = self.server
            try:
                return server.submit(image, slo_ns, **terms)
            except ServerClosedError:
                if server is self._server and self._held is None:
                    raise
        raise ModelUnavailableError(f"model '{self.name}' was loaded three times while the request waited")

    def _hold(self, image: Image, slo_ns: int, terms: dict[str, Any]) -> Future[Reply]:
        assert self._held is not None
        if len(self._held) >= self.options.queue:
            raise QueueFullError(f"{len(self._held)} requests wait for the model to be loaded, the most allowed")
        future: Future[Reply] = Future()
        self._held.append(_Held(image=image, slo_ns=slo_ns, terms=terms, came_ns=time.monotonic_ns(), future=future))
        return future

    def _release(self, held: Sequence[_Held]) -> None:
        """Submit what was held back, with the objective less the time that it waited."""
        for one in held:
            if not one.future.set_running_or_notify_cancel():
                continue
            waited_ns = time.monotonic_ns() - one.came_ns
            terms = dict(one.terms)
            if terms.get("timeout_ns") is not None:
                terms["timeout_ns"] = max(1, terms["timeout_ns"] - waited_ns)
            try:
                inner = self.server.submit(one.image, max(1, one.slo_ns - waited_ns), **terms)
            except (HostError, ValueError) as error:
                one.future.set_exception(error)
            else:
                inner.add_done_callback(partial(_copy, one.future))

    # -- loading ---------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the bundle's folder and serve it, in place of what is served so far.

        A bundle that cannot be read or loaded changes nothing: the old one is served on. Raises BundleError,
        DeviceError, DriverUsageError and what `open_device` raises.
        """
        with self._work:
            bundle = Bundle.read(self.folder)
            self._check_policy(bundle.design)
            before = self._bundle
            with self._gate:
                self._held = []
                self.state, self.reason = LOADING, ""
            try:
                self._stop_server()
                self._serve(bundle)
            except Exception as error:
                if before is not None:
                    self._serve(before)
                else:
                    self.state, self.reason = UNAVAILABLE, str(error)
                raise
            finally:
                self._let_in()
            self._wanted = True
            self.loads += 1
            _log.info("model '%s' is served: %s", self.name, bundle.design.digest[:12])

    def unload(self) -> None:
        """Answer what was taken, then close the device; later requests are refused."""
        with self._work:
            self._wanted = False
            with self._gate:
                self.state, self.reason = UNAVAILABLE, "unloaded"
            self._stop_server()
            self._lost_before, self._server = self.lost, None
            self._driver = None
            self._device.close()
            if self._log is not None:
                self._log.close()
            _log.info("model '%s' is unloaded", self.name)

    close = unload

    def _let_in(self) -> None:
        """End the exchange: submit what was held, in order of arrival, before anything that comes now."""
        while True:
            with self._gate:
                held = self._held or []
                if not held:
                    self._held = None
                    return
                self._held = []
            self._release(held)

    def _stop_server(self) -> None:
        server = self._server
        if server is not None:
            server.close()

    def _serve(self, bundle: Bundle) -> None:
        """Open the device if the design needs another one, load the program and start a server."""
        driver = self._driver
        if driver is None or self._bundle is None or bundle.design.digest != self._bundle.design.digest:
            self._device.close()
            self._driver = None
            device = self._open(bundle)
        else:
            device = driver.device
            driver.close()
        driver = Driver(device, bundle.program, bundle.design, slots=self.options.slots, guarded=self.options.guarded)
        driver.load()
        self._driver, self._bundle = driver, bundle
        if self.statistics is None:
            self.statistics = Statistics(bundle.design)
        self._start(driver)

    def _open(self, bundle: Bundle) -> Device:
        options = self.options
        if options.opened is not None:
            return options.opened(bundle)
        if options.device == "simulated":
            recall = Recall(options.recall_bytes) if options.recall_bytes else None
            return SimulatedNpu(bundle.design, clock=options.clock(), recall=recall)
        context = open_device(
            options.device, bundle, self.folder, registers=options.registers, reserved=options.reserved
        )
        return self._device.enter_context(context)

    def _start(self, driver: Driver) -> None:
        assert self.statistics is not None
        setting = setting_of(driver.design, self.options, self.folder)
        observers: list[Observer] = [self.statistics]
        if self.options.decisions is not None:
            if self._log is None:
                self._log = DecisionLog(self.options.decisions / f"{self.name}.jsonl", self.options.policy)
            self._log.expect(setting)
            observers.append(self._log)
        server = Server(
            driver,
            make_policy(self.options.policy, setting),
            rule=criteria_of(driver, self.options.criteria),
            attempts=self.options.attempts,
            queue_limit=self.options.queue,
            observers=observers,
        ).start()
        with self._gate:
            self._lost_before, self._server = self.lost, server
            self.state, self.reason = READY, ""
        threading.Thread(target=self._supervise, args=(server,), name="npu-supervisor", daemon=True).start()

    def _check_policy(self, design: Design) -> None:
        """Refuse a policy or a criterion that does not fit the design, before anything is stopped."""
        if self.options.criteria is not None:
            Bound(parse_criterion(self.options.criteria), profile_of(design))
        make_policy(self.options.policy, setting_of(design, self.options, self.folder))

    # -- recovery --------------------------------------------------------------------------------------------

    def _supervise(self, server: Server) -> None:
        """Wait for the end of a server; when its device failed, start another as soon as that is possible."""
        server.wait_closed()
        error = server.failure
        if error is None or server is not self._server:
            return
        failed_s = time.monotonic()
        with self._gate:
            self.state, self.reason = UNAVAILABLE, str(error)
        if not isinstance(error, DeviceError):
            _log.error("model '%s' ends, since its policy or its host failed: %s", self.name, error)
            return
        attempt = 0
        while True:
            time.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)])
            attempt += 1
            with self._work:
                if not self._wanted or server is not self._server or self._driver is None:
                    return
                try:
                    self._driver.load()
                    self._start(self._driver)
                except (DeviceError, DriverUsageError) as again:
                    self.reason = str(again)
                else:
                    self.recoveries = [*self.recoveries[-999:], time.monotonic() - failed_s]
                    _log.warning("model '%s' is served again after %.3f s", self.name, self.recoveries[-1])
                    return


def profile_of(design: Design) -> ExitProfile:
    """Return the profile of a design's exits."""
    return ExitProfile.of(design)


def criteria_of(driver: Driver, text: str | None) -> Criteria:
    """Return the criteria of a loaded program: those of a text, or its thresholds. Raises CriterionError."""
    profile = profile_of(driver.design)
    return usual_criteria(driver, profile) if text is None else Criteria(profile, text)


def default_slo_ns(design: Design) -> int:
    """Return five times the latency of one sample alone through the whole network, in ns."""
    return SLO_OVER_LATENCY * int(design.latency.between(0, design.stages - 1, 1))


def setting_of(design: Design, options: ModelOptions, folder: Path) -> Any:
    """Return the setting that a policy is made for: load and objective of the options, or the defaults.

    A plan in the bundle's folder brings its table and weights; a board has no other (`tuning.deployed`).
    """
    rates = design.exit_rates or (1 / design.stages,) * design.stages
    serving = Serving.of(design, rates)
    rate = options.rate_per_s or LOADED_HALF / serving.least_load(1.0)
    setting, said = deployed(
        folder,
        options.policy,
        serving.setting(rate, options.slo_ns or default_slo_ns(design)),
        rate_named=options.rate_per_s is not None,
        slo_named=options.slo_ns is not None,
        may_solve=options.device not in ("pynq", "devmem"),
    )
    if said:
        _log.info("%s", said)
    return setting


def _copy(outer: Future[Reply], done: Future[Reply]) -> None:
    if (error := done.exception()) is not None:
        outer.set_exception(error)
    else:
        outer.set_result(done.result())
