"""Serves one bundle on one NPU, or several side by side: opens, reloads, recovers and closes it.

No request is lost. A model outlives its server: a reload drains the old one while new requests are held
back, and a device that failed is opened again until it answers. All methods may be called from any thread;
`load`, `unload` and `close` take as long as the device does.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fluidnpu.dse import Design, DesignError
from fluidnpu.models.graph import MapCheck
from fluidnpu.scheduler import Outcome, Policy, SchedulerError, make_policy
from fluidnpu.scheduler.exits import (
    AdaptationMode,
    Bound,
    Criteria,
    Criterion,
    CriterionError,
    ExitProfile,
    PowerModel,
    Promise,
    Recorded,
    parse_criterion,
)
from fluidnpu.scheduler.simulation import PLAIN, ActiveExits, ExitSet, Terms
from fluidnpu.scheduler.tenants import (
    Shared,
    Tenancy,
    Tenant,
    changed,
    described,
    network_of_tenants,
    room_for,
)
from fluidnpu.scheduler.tuning import Adaptation, AdaptationEvent, Certifier

from ..bundle import Bundle
from ..devices.device import Device
from ..devices.opening import KINDS, open_device
from ..devices.physical.power import PowerMeter, find_meter
from ..devices.recall import Recall
from ..devices.simulated import SimulatedNpu
from ..driver import MASK_SLOTS, Driver
from ..errors import (
    ConflictError,
    DeviceError,
    DriverUsageError,
    HostError,
    ModelUnavailableError,
    ProtocolError,
    QueueFullError,
    ServerClosedError,
)
from .adapting import active_exits, certified_exits, describe_exits, with_thresholds
from .apart import Apart
from .decisions import DecisionLog
from .options import (
    BOARDS,
    ModelOptions,
    criteria_of,
    default_slo_ns,
    joined_design,
    modes_of,
    profile_of,
    setting_of,
    with_measurements,
)
from .replies import Image, Observer, Reply
from .sampled import Sampler
from .server import Server
from .statistics import Statistics
from .tails import Run, tail_engine
from .warming import warm_up

_log = logging.getLogger(__name__)
BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0)  # between attempts to open a failed device again; the last one repeats
READY, LOADING, UNAVAILABLE = "READY", "LOADING", "UNAVAILABLE"  # as the model repository extension names them
VERSION = "1"  # of a model that has no others: a reload replaces it


class ServedNetwork(ABC):
    """A network as the protocol's calls name it. `index`: its place among the networks of its NPU.

    `version`: of a model that has several (`versions.Versions`).
    """

    def __init__(self, name: str, version: str = "", index: int = 0) -> None:
        self.name, self.version, self.index = name, version or VERSION, index
        self.label = f"{name}/{version}" if version else name

    @property
    @abstractmethod
    def npu(self) -> Model:
        """The NPU that serves it, with its state, its device and its server."""

    @abstractmethod
    def submit(self, image: Image, terms: Terms = PLAIN) -> Future[Reply]:
        """Submit one image (H, W, C). Raises as `Model.submit`."""

    @abstractmethod
    def change(self, criteria: str | None, tenants: Mapping[str, Mapping[str, Any]]) -> None:
        """Change the usual criterion and keys of tenants. Raises as `Model.change`."""

    @abstractmethod
    def load(self, *, back: bool = False) -> None:
        """Load the network. Raises as `Model.load`."""

    @abstractmethod
    def unload(self) -> None:
        """Answer what was accepted, then stop serving it."""

    @property
    def bundle(self) -> Bundle:
        """The bundle as last loaded. Raises ModelUnavailableError before the first load."""
        return self.npu.bundles[self.index]

    @property
    def engine(self) -> Run | None:
        """Runs the tail of the network on the host; None of a network without one."""
        return self.npu.engines[self.index]

    @property
    def statistics(self) -> Statistics | None:
        """The counts of the network; None before the first load."""
        counts = self.npu.counts
        return counts[self.index] if counts else None

    @property
    def server(self) -> Server:
        """The server of the moment. Raises ModelUnavailableError without one."""
        if self.npu.serving is None:
            raise ModelUnavailableError(f"model '{self.name}' must be loaded, and it is not: {self.npu.reason}")
        return self.npu.serving

    @property
    def active(self) -> ActiveExits:
        """The table of active exits. Raises ProtocolError where there is none, and ModelUnavailableError."""
        active = self.server.active
        if active is None:
            raise ProtocolError(
                f"model '{self.name}' must have early exits, and no criterion of its server's, for its exits to change"
            )
        return active

    @property
    def slo_ns(self) -> int:
        """The objective of a request that names none."""
        return self.npu.options.slo_ns or default_slo_ns(self.bundle.design)

    def criterion(self, text: str) -> Criterion:
        """Return the criterion that a text says of this model.

        Raises ProtocolError where it breaks the grammar or asks what is not known of the model, and
        ModelUnavailableError.
        """
        try:
            return Bound(parse_criterion(text), self.npu.profile(self.bundle.design, self.index)).criterion
        except CriterionError as error:
            raise ProtocolError(str(error)) from None

    @property
    def energy_nj(self) -> tuple[float, ...] | None:
        """The modelled energy of a sample up to each exit, where the board's power is known."""
        server = self.npu.serving
        return None if server is None else server.criteria_of(self.index).profile.energy_nj

    @property
    def tenancy_tenants(self) -> tuple[Tenant, ...]:
        """The tenants as they are now; empty where the NPU is not shared."""
        tenancy = self.npu.tenancy
        return () if tenancy is None else tenancy.tenants

    def check_tenant(self, name: str) -> str:
        """Return the name of a tenant that there is, of a network's only tenant also for none.

        Raises ProtocolError.
        """
        names = [tenancy_tenant.name for tenancy_tenant in self.tenancy_tenants]
        if self.npu.tenancy is None and name:
            raise ProtocolError(f"model '{self.name}' has no tenants, so a request must name none, not '{name:.60}'")
        if not name and self.npu.tenancy is not None and self.npu.tenancy.networks:
            if len(names) == 1:
                return names[0]
            raise ProtocolError(f"a request to '{self.name}' must name its tenant, one of {', '.join(names)}")
        if name and name not in names:
            raise ProtocolError(f"a tenant must be one of {', '.join(names)}, not '{name:.60}'")
        return name

    def tenants(self) -> dict[str, Any]:
        """Return the criterion in force and the tenants, as their file has them, with what each has now.

        Raises ModelUnavailableError.
        """
        rows, shared, counts = {}, self.npu.shared, self.statistics
        criteria = self.server.criteria_of(self.index)
        for tenant in () if self.npu.tenancy is None else self.npu.tenancy.all:
            if self.npu.tenancy is not None and self.npu.tenancy.networks and tenant not in self.tenancy_tenants:
                continue  # of another network
            row = described(tenant)
            if shared is not None and tenant.name in shared.infeasible:
                row["target"] = "infeasible"
            if shared is not None:
                row["share_now"] = shared.shares.get(tenant.name, 0.0)
                row["tokens_ms"] = shared.accounts.balance_ns.get(tenant.name, 0.0) / 1e6
            if counts is not None and tenant.name in counts.tenants:
                counted = counts.tenants[tenant.name]
                row["answered"] = sum(counted.outcomes.values()) - counted.outcomes[Outcome.SHED]
                row["npu_ms"] = counted.npu_ns / 1e6
            if (criterion := criteria.tenants.get(tenant.name)) is not None:
                row["criteria"] = criterion.text
            rows[tenant.name] = row
        return {"criteria": criteria.usual.text, "tenants": rows}

    def exits(self) -> dict[str, Any]:
        """Return the active exits, why they are so, and what adaptation sees.

        Raises ProtocolError, ModelUnavailableError.
        """
        report = describe_exits(self.bundle.program, self.active, self.npu.adaptation, self.server.adoption_ns)
        return report if self.npu.certifier is None else report | {"certificate": self.npu.certifier.report()}

    def change_exits(self, thresholds: Mapping[str, float | None], why: str) -> None:
        """Set thresholds of early exits by name, None for an inactive one; the others stay as they are.

        It takes effect with the next batch, and a reload undoes it. Raises ConflictError where a certificate
        sets them, ProtocolError, ModelUnavailableError.
        """
        active = self.active
        if self.npu.certifier is not None:
            raise ConflictError(
                f"the thresholds of model '{self.name}' must be those of its certificate, not set by hand"
            )
        try:
            active.change(with_thresholds(self.bundle.program, active, thresholds), why)
        except SchedulerError as error:
            raise ProtocolError(str(error)) from None

    def feedback(self, truths: Mapping[int, int]) -> int:
        """Tell the true classes of answered requests by their numbers; return how many were of use.

        Raises ConflictError where nothing adapts, and ModelUnavailableError.
        """
        self.server  # is served  # noqa: B018
        if self.npu.adaptation is None:
            raise ConflictError(f"model '{self.name}' must adapt to take labels (serve --adapt), and it does not")
        return sum(self.npu.adaptation.feedback(request, truth) for request, truth in truths.items())


@dataclass(frozen=True, kw_only=True)
class _Held:
    """A request that came while the server was exchanged."""

    image: Image
    terms: Terms
    came_ns: int
    future: Future[Reply]


class Model(ServedNetwork):
    """A bundle under a name. It is not served before `load`.

    `folders` of several bundles by their names are networks side by side on one NPU (`resident.Resident`).
    `version`: of a model that has several (`versions.Versions`).
    """

    def __init__(
        self,
        name: str,
        folder: Path | str,
        options: ModelOptions | None = None,
        *,
        folders: Mapping[str, Path | str] | None = None,
        version: str = "",
    ) -> None:
        every = {name: folder} if folders is None else folders
        super().__init__(name, version)
        self.folder, self.names = Path(folder), tuple(every)
        self._folders = tuple(Path(path) for path in every.values())
        self.options = ModelOptions() if options is None else options
        self.state, self.reason = UNAVAILABLE, "not loaded yet"
        self.loads = 0
        self.recoveries: list[float] = []  # seconds from the failure of a device to its next server
        self.counts: tuple[Statistics, ...] = ()  # by network
        self.sampler: Sampler | None = None  # of an NPU that counts by itself
        self._bundles: tuple[Bundle, ...] = ()
        self.engines: tuple[Run | None, ...] = ()  # of their tails
        self._certified_program = ""
        self._previous: tuple[tuple[Bundle, ...], tuple[Run | None, ...]] = (), ()  # what was served before
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
        self._usual, self.tenancy = [self.options.criteria] * len(self.names), self.options.tenancy
        self.shared: Shared | None = None
        self.adaptation: Adaptation | None = None
        self.certifier: Certifier | None = None
        self.meter: PowerMeter | None = None  # of this machine's board, where it has sensors

    # -- what is served --------------------------------------------------------------------------------------

    @property
    def npu(self) -> Model:
        """The model itself, which has its NPU."""
        return self

    @property
    def bundles(self) -> tuple[Bundle, ...]:
        """The bundles of all networks as last loaded. Raises ModelUnavailableError before the first load."""
        if not self._bundles:
            raise ModelUnavailableError(f"model '{self.name}' must be loaded, and it is not: {self.reason}")
        return self._bundles

    @property
    def serving(self) -> Server | None:
        """The server of the moment, if there is one."""
        return self._server

    @property
    def ready(self) -> bool:
        """True while requests are taken and the device does its work."""
        server = self._server
        if self.state != READY or server is None:
            return False
        return server.healthy and not self.stuck

    @property
    def takes(self) -> bool:
        """True while requests are taken, also those that wait for a reload."""
        return self.ready or (self._held is not None and self.loads > 0)

    @property
    def standing(self) -> str:
        """The reason for which no requests are taken, in a word or two: empty while they are."""
        if self.ready:
            return ""
        return "unloaded" if self.reason == "unloaded" else self.state.lower()

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
    def lines_dropped(self) -> int:
        """Lines of the decision log that could not be written."""
        return 0 if self._log is None else self._log.dropped

    @property
    def uptime_s(self) -> float:
        """Seconds since this object was made."""
        return time.monotonic() - self._since

    def _longest_s(self) -> float:
        longest_ns = max(max(row) for bundle in self.bundles for row in bundle.design.latency.ns)
        return self.options.attempts * (2 * 16 * longest_ns / 1e9 + 1.0)

    def change(self, criteria: str | None, tenants: Mapping[str, Mapping[str, Any]], network: int = 0) -> None:
        """Change the usual criterion (None: not) and the keys of tenants that are named, all or nothing.

        The criterion is that of one of the networks. It takes effect at the next decision and the next
        exit, and outlives a reload. Raises ProtocolError and ModelUnavailableError.
        """
        with self._gate:
            server = self.server
            if criteria is not None and self.certifier is not None:
                raise ConflictError(
                    f"model '{self.name}' is certified, so its thresholds decide and no other criterion"
                )
            try:
                modes: dict[str, AdaptationMode] = {}
                usual = None if criteria is None else server.criteria_of(network).bound(criteria)
                tenancy = self.tenancy
                if tenants and tenancy is None:
                    raise ProtocolError(f"model '{self.name}' has no tenants that could be changed")
                if tenancy is not None:
                    old = tenancy
                    tenancy = old.with_tenants(
                        {name: changed(name, row, old.named(name)) for name, row in tenants.items()}
                    )
                    modes = self._modes(tenancy, [bundle.design for bundle in self.bundles])
            except SchedulerError as error:
                raise ProtocolError(str(error)) from None
            if usual is not None:
                server.criteria_of(network).set(usual.criterion)
                self._usual[network] = usual.criterion.text
            if tenancy is not None and self.shared is not None and tenants:
                self.shared.change(tenancy, modes)
                self.tenancy = tenancy

    # -- active exits ----------------------------------------------------------------------------------------

    def profile(self, design: Design, network: int) -> ExitProfile:
        """Return the profile of a network's exits, with what its recorded samples say."""
        return with_measurements(profile_of(design, self.options.power), self._recorded(network))

    # -- requests --------------------------------------------------------------------------------------------

    def submit(self, image: Image, terms: Terms = PLAIN) -> Future[Reply]:
        """Submit one image (H, W, C); while the server is exchanged, the request is held and submitted then.

        Terms without an objective get the model's. Raises what `Server.submit` does, and
        ModelUnavailableError.
        """
        if terms.slo_ns is None:
            terms = replace(terms, slo_ns=self.slo_ns)
        for _ in range(3):  # an exchange may begin between the look at the gate and the server's own
            with self._gate:
                if self._held is not None:
                    return self._hold(image, terms)
                server = self.server
            try:
                return server.submit(image, terms)
            except ServerClosedError:
                if server is self._server and self._held is None:
                    raise
        raise ModelUnavailableError(f"model '{self.name}' was loaded three times while the request waited")

    def _hold(self, image: Image, terms: Terms) -> Future[Reply]:
        assert self._held is not None
        if len(self._held) >= self.options.queue:
            raise QueueFullError(f"{len(self._held)} requests wait for the model to be loaded, the most allowed")
        future: Future[Reply] = Future()
        self._held.append(_Held(image=image, terms=terms, came_ns=time.monotonic_ns(), future=future))
        return future

    def _release(self, held: Sequence[_Held]) -> None:
        """Submit what was held back, with the objective less the time that it waited."""
        for request in held:
            if request.future.cancelled():
                request.future.set_running_or_notify_cancel()
                continue
            waited_ns, terms = time.monotonic_ns() - request.came_ns, request.terms
            assert terms.slo_ns is not None, "it was given when the request came"
            left_ns = None if terms.timeout_ns is None else max(1, terms.timeout_ns - waited_ns)
            terms = replace(terms, slo_ns=max(1, terms.slo_ns - waited_ns), timeout_ns=left_ns)
            try:
                inner = self.server.submit(request.image, terms)
            except (HostError, ValueError) as error:
                if request.future.set_running_or_notify_cancel():
                    request.future.set_exception(error)
            else:
                inner.add_done_callback(partial(_copy, request.future))
                request.future.add_done_callback(partial(_pass_on_cancel, inner))

    # -- loading ---------------------------------------------------------------------------------------------

    def load(self, *, back: bool = False) -> None:
        """Read the bundle's folder, warm it up and serve it, in place of what is served so far.

        A bundle that cannot be read, loaded or warmed up changes nothing: the old one is served on. `back`:
        serve what was served before the last load, from memory. Raises BundleError, DeviceError,
        DriverUsageError, HostError and what `open_device` raises.
        """
        with self._work:
            if back and not self._previous[0]:
                raise DriverUsageError(f"model '{self.name}' must have been loaded twice to go back, and was not")
            bundles = self._previous[0] if back else tuple(Bundle.read(folder) for folder in self._folders)
            self._check_policy(bundles)
            engines = tuple(tail_engine(bundle.program) for bundle in bundles)
            before = self._bundles, self.engines
            with self._gate:
                self._held = []
                self.state, self.reason = LOADING, ""
            try:
                self._stop_server()
                self._serve(bundles, engines, warm=self.options.warm)
            except Exception as error:
                self.state, self.reason = UNAVAILABLE, str(error)
                if before[0]:
                    self._serve(*before, warm=False)  # it has been
                raise
            finally:
                self._let_in()
            self._previous = before
            self._wanted = True
            self.loads += 1
            _log.info("model '%s' is served: %s", self.name, bundles[0].design.hardware_digest[:12])

    def is_unchanged(self) -> bool:
        """Tell if the model is served as its folder has it. Raises BundleError."""
        if not self.ready:
            return False
        now, stored = self.bundle, Bundle.read(self.folder)
        return (stored.design.digest, stored.program.digest) == (now.design.digest, now.program.digest)

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

    def _serve(self, bundles: tuple[Bundle, ...], engines: tuple[Run | None, ...], *, warm: bool) -> None:
        """Open the device if the design needs another one, load the programs and start a server."""
        driver, design = self._driver, joined_design(bundles)
        if driver is None or design.digest != driver.design.digest:
            self._device.close()
            self._driver = None
            device = self._open(bundles, design)
        else:
            device = driver.device
            driver.close()
        slots: int | tuple[int, ...] | None = self.options.slots
        if slots is None and self.tenancy is not None:  # one of its own for each, beside the largest batch
            networks = list(network_of_tenants(self.tenancy, self.names).values())
            counts = [networks.count(index) for index in range(len(bundles))]
            counts = [len(self.tenancy.tenants)] if len(bundles) == 1 else counts
            slots = room_for(design.b_max, counts)
        programs = tuple(bundle.program for bundle in bundles)
        driver = Driver(device, programs, design, slots=slots, guarded=self.options.guarded)
        try:
            driver.load()
            if warm:
                warm_up(driver, engines, self.options.attempts)
        except BaseException:
            driver.close()
            raise
        self._driver, self._bundles, self.engines = driver, bundles, engines
        self.meter = self._meter(design)
        if not self.counts:
            self.counts = tuple(Statistics(bundle.design) for bundle in bundles)
        self._start(driver)

    def _open(self, bundles: tuple[Bundle, ...], design: Design) -> Device:
        options = self.options
        if options.opened is not None:
            return options.opened(bundles[0])
        if options.device == "simulated":
            recall = Recall(options.recall_bytes) if options.recall_bytes else None
            return SimulatedNpu(design, clock=options.clock(), recall=recall)
        context = open_device(
            options.device,
            bundles[0],
            self._folders[0],
            clock=None if options.device in KINDS else options.clock(),  # a package's device keeps the server's time
            registers=options.registers,
            reserved=options.reserved,
        )
        return self._device.enter_context(context)

    def _meter(self, design: Design) -> PowerMeter | None:
        """Return the meter of a board; a simulation has none, and serving needs none."""
        if self.options.device not in BOARDS:
            return None
        try:
            return find_meter(design.known_facts)
        except DesignError as error:
            _log.warning("power is not measured: %s", error)
            return None
        except DeviceError as error:
            _log.info("power is not measured: %s", error)
            return None

    def _start(self, driver: Driver) -> None:
        settings = [
            setting_of(part, self.options, folder) for part, folder in zip(driver.parts, self._folders, strict=True)
        ]
        of_tenant: dict[str, int] = {}
        if self.tenancy is not None:
            of_tenant = network_of_tenants(self.tenancy, self.names)
        side = driver.networks(of_tenant)
        observers: list[Observer] = [self.counts[0] if len(side) == 1 else Apart(side, self.counts)]
        if self.options.device in BOARDS and not driver.design.is_measured:
            self.sampler = Sampler(driver, jobs=self.sampler.jobs if self.sampler else 0)
            observers.append(self.sampler)
        criteria = [
            criteria_of(driver, self._usual[network], self.options.power, network, self._recorded(network))
            for network in range(len(driver.parts))
        ]
        policy: Policy
        if self.tenancy is None:
            policy = make_policy(self.options.policy, settings[0])
        else:
            policy = self.shared = Shared(
                self.tenancy,
                self.options.policy,
                setting=settings,
                criteria=criteria,
                modes=self._modes(self.tenancy, driver.parts),
                networks=None if len(side) == 1 else side,
                power=self._power(driver.design),
            )
        if self.options.decisions is not None:
            if self._log is None:
                self._log = DecisionLog(
                    self.options.decisions / f"{self.label.replace('/', '@')}.jsonl", self.options.policy
                )
            self._log.expect(
                settings,
                shared=self.shared,
                power=None if self.tenancy is None or self.tenancy.energy is None else self._power(driver.design),
                networks=None if len(side) == 1 else side,
            )
            observers.append(self._log)
        active = self._table(driver, criteria)
        server = Server(
            driver,
            policy,
            exit_rates=None if active is None else active.now.rates,
            rule=criteria,
            networks=of_tenant,
            active=active,
            watch=self.adaptation if self.certifier is None else self.certifier,
            attempts=self.options.attempts,
            queue_limit=self.options.queue,
            observers=observers,
        ).start()
        with self._gate:
            self._lost_before, self._server = self.lost, server
            self.state, self.reason = READY, ""
        threading.Thread(target=self._supervise, args=(server,), name="npu-supervisor", daemon=True).start()

    def _table(self, driver: Driver, criteria: Sequence[Criteria]) -> ActiveExits | None:
        """Return the table of active exits, and begin to adapt it where that is asked for."""
        plan, design = self.options.adapt, driver.design
        if self.options.certify is not None:
            return self._certify(driver, criteria[0], self.options.certify)
        ends = zip(driver.program.stages, driver.program.segments, strict=True)
        fixed = len(self.names) > 1 or design.stages == 1 or self._usual[0] is not None
        if fixed or any(end < first for (first, _), end in ends):
            return None
        if plan is None:
            return active_exits(driver, criteria[0], ExitSet(driver.program.thresholds))
        active = active_exits(driver, criteria[0], plan.exits, plan.rates)
        self.adaptation = Adaptation(active, plan, self.options.watching, notify=self._tell)
        return active

    def _certify(self, driver: Driver, criteria: Criteria, promise: Promise) -> ActiveExits:
        """Return the table that a certificate sets; one of the same program goes on, after a failure, too."""
        active = certified_exits(driver, criteria)
        before = self.certifier if driver.program.digest == self._certified_program else None
        if before is not None:
            before.certificate.give_up()
        self._certified_program = driver.program.digest
        self.certifier = Certifier(
            active,
            promise,
            batch=driver.design.b_max,
            seed=self.options.seed,
            criteria=criteria,
            certificate=None if before is None else before.certificate,
            notify=self._tell,
        )
        return active

    def _tell(self, event: AdaptationEvent) -> None:
        _log.log(
            logging.INFO if event.routine else logging.WARNING,
            "model '%s', request %d: %s: %s; %s",
            self.name,
            event.requests,
            event.kind,
            event.why,
            event.exits,
        )

    def _check_policy(self, bundles: Sequence[Bundle]) -> None:
        """Refuse a policy, a criterion or a plan that does not fit a design, before anything is stopped."""
        designs = [bundle.design for bundle in bundles]
        joined_design(bundles)
        if self.options.certify is not None:
            self._check_certified(bundles)
        if self.options.adapt is not None:
            if len(designs) > 1:
                raise DriverUsageError(f"exits adapt where an NPU serves one network, not {len(designs)}")
            if self._usual[0] is not None:
                raise DriverUsageError("exits that adapt have thresholds of their own, so no other criterion fits them")
            if isinstance(bundles[0].program.check, MapCheck):
                raise DriverUsageError(
                    f"exits that adapt name classes, and those of '{self.names[0]}' give maps, of which the check hardly "
                    "tells which samples lose; `exits` on the admin surface changes them by hand"
                )
            self.options.adapt.check(designs[0].exits)
        for network, (design, folder, usual) in enumerate(zip(designs, self._folders, self._usual, strict=True)):
            if usual is not None:
                Bound(parse_criterion(usual), self.profile(design, network))
            make_policy(self.options.policy, setting_of(design, self.options, folder))
        if self.tenancy is not None:
            network_of_tenants(self.tenancy, self.names)
            self._modes(self.tenancy, designs)
            Shared.check_energy(self.tenancy, self._power(designs[0]))
            if len(self.tenancy.tenants) >= MASK_SLOTS:
                raise DriverUsageError(f"an NPU has room for {MASK_SLOTS - 1} tenants, not {len(self.tenancy.tenants)}")

    def _check_certified(self, bundles: Sequence[Bundle]) -> None:
        """Refuse a certificate for what has no classes to compare, or thresholds that others set."""
        program, name = bundles[0].program, self.names[0]
        if self.options.adapt is not None:
            raise DriverUsageError("exits must follow a certificate or adapt by a plan, not both")
        if len(bundles) > 1:
            raise DriverUsageError(f"a certificate is for an NPU that serves one network, not {len(bundles)}")
        if self._usual[0] is not None:
            raise DriverUsageError("a certificate sets thresholds, so no other usual criterion fits it")
        if isinstance(program.check, MapCheck):
            raise DriverUsageError(f"a certificate compares classes, and the exits of '{name}' give maps")
        if program.onward:
            raise DriverUsageError(f"a certificate needs the last exit, and '{name}' is a part that ends before it")
        if len(program.exits) == 1:
            raise DriverUsageError(f"a network must have an early exit to be certified, and '{name}' has none")

    def _power(self, design: Design) -> PowerModel | None:
        """Return the watts that were given, or those of the board."""
        return PowerModel.of(design) if self.options.power is None else self.options.power

    def _modes(self, tenancy: Tenancy, designs: Sequence[Design]) -> dict[str, AdaptationMode]:
        """Return the modes of all tenants, each over its network's profile. Raises SchedulerError."""
        network = network_of_tenants(tenancy, self.names)
        modes: dict[str, AdaptationMode] = {}
        for index, design in enumerate(designs):
            tenants = [tenant for tenant in tenancy.tenants if network[tenant.name] == index]
            modes |= modes_of(tenants, profile_of(design, self.options.power), self._recorded(index))
        return modes

    def _recorded(self, network: int) -> Recorded | None:
        """Return the labelled samples of a network, if its file was named."""
        recorded = self.options.recorded
        return recorded.get(self.names[network], recorded.get(""))

    # -- recovery --------------------------------------------------------------------------------------------

    def _supervise(self, server: Server) -> None:
        """Wait for the end of a server; when its device failed, start another as soon as that is possible."""
        server.wait_closed()
        error, failed_s = server.failure, time.monotonic()
        with self._gate:
            if error is None or server is not self._server:
                return
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


def _copy(outer: Future[Reply], done: Future[Reply]) -> None:
    if not outer.set_running_or_notify_cancel():
        return  # the client has left
    if (error := done.exception()) is not None:
        outer.set_exception(error)
    else:
        outer.set_result(done.result())


def _pass_on_cancel(inner: Future[Reply], outer: Future[Reply]) -> None:
    if outer.cancelled():
        inner.cancel()
